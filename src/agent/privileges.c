/* SPDX-License-Identifier: Apache-2.0
 *
 * See privileges.h.
 */
#include "agent/privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CAPABILITY_WORDS 2

int berth_user_find(const char *name, struct berth_user *ret_user, struct berth_reason *reason)
{
	const struct passwd *entry = getpwnam(name);
	struct berth_user user = { 0 };
	char *end = NULL;
	unsigned long number;

	if (entry) {
		user = (struct berth_user){ .uid = entry->pw_uid, .gid = entry->pw_gid };
	} else {
		errno = 0;
		number = strtoul(name, &end, 10);
		if (name[0] < '0' || name[0] > '9' || errno != 0 || *end != '\0' ||
		    number >= UINT32_MAX)
			return berth_reason_set(reason, -EINVAL, "there is no user '%s'", name);
		user = (struct berth_user){ .uid = (uid_t)number, .gid = (gid_t)number };
	}
	if (user.uid == 0 || user.gid == 0)
		return berth_reason_set(reason, -EINVAL, "'%s' is root: name a user without rights",
					name);
	*ret_user = user;
	return 0;
}

static int identity_change(const struct berth_user *user)
{
	/* So that nothing brings one back even if this process could still run a program. Takes a
	 * capability itself, which a service manager may have taken away: no_new_privs does the same. */
	for (unsigned long capability = 0; capability <= CAP_LAST_CAP; capability++)
		(void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
	if (setgroups(0, NULL) != 0 || setresgid(user->gid, user->gid, user->gid) != 0 ||
	    setresuid(user->uid, user->uid, user->uid) != 0)
		return -errno;
	return 0;
}

/* A service manager's filter may forbid the call, to one that has none anyway: what counts is what is there
 * afterwards. */
static void capabilities_clear(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[CAPABILITY_WORDS] = { 0 };

	/* Ambient ones fall with the inheritable ones. */
	(void)syscall(SYS_capset, &header, none);
}

static bool is_powerless(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct held[CAPABILITY_WORDS] = { 0 };
	uid_t real_uid = 0, effective_uid = 0, saved_uid = 0;
	gid_t real_gid = 0, effective_gid = 0, saved_gid = 0;

	if (syscall(SYS_capget, &header, held) != 0 ||
	    getresuid(&real_uid, &effective_uid, &saved_uid) != 0 ||
	    getresgid(&real_gid, &effective_gid, &saved_gid) != 0)
		return false;
	for (int i = 0; i < CAPABILITY_WORDS; i++) {
		if (held[i].effective || held[i].permitted || held[i].inheritable)
			return false;
	}
	return real_uid != 0 && effective_uid == real_uid && saved_uid == real_uid &&
	       real_gid != 0 && effective_gid == real_gid && saved_gid == real_gid;
}

int berth_privileges_drop(const struct berth_user *user, struct berth_reason *reason)
{
	int err = geteuid() == 0 || getuid() == 0 ? identity_change(user) : 0;

	capabilities_clear();
	if (!err && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		err = -errno;
	if (err < 0)
		return berth_reason_set(reason, err, "root's rights can't be given up: %s",
					strerror(-err));
	if (!is_powerless())
		return berth_reason_set(reason, -EPERM, "root's rights are still there");
	return 0;
}
