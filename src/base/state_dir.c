/* SPDX-License-Identifier: Apache-2.0
 *
 * The state directory. Each level that is ours is checked after it was opened without following a
 * link, so that what was checked is what is used; below the checked one nobody else can change names.
 */
#include "base/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/node_dir.h"
#include "base/process.h"

static const char *environment(const char *name)
{
	const char *value = berth_process_is_secure() ? NULL : getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

BERTH_PRINTF(3, 4) static int path_print(char *path, size_t size, const char *fmt, ...)
{
	va_list args;
	int length;

	va_start(args, fmt);
	length = vsnprintf(path, size, fmt, args);
	va_end(args);
	return length >= 0 && (size_t)length < size ? 0 : -ENAMETOOLONG;
}

static int path_give(const char *path, char *ret_path, size_t size)
{
	size_t length = strlen(path);

	if (length >= size)
		return -ENAMETOOLONG;
	memcpy(ret_path, path, length + 1);
	return 0;
}

int berth_state_dir(char *ret_path, size_t size, struct berth_reason *reason)
{
	char path[BERTH_STATE_DIR_MAX];
	const char *given = environment("BERTH_STATE_DIR");
	const char *runtime = environment("XDG_RUNTIME_DIR");
	int err;

	if (given != NULL && given[0] != '/')
		return berth_reason_set(reason, -EINVAL,
					"BERTH_STATE_DIR is a relative path: give an absolute one");
	if (given != NULL)
		err = path_print(path, sizeof(path), "%s", given);
	else if (geteuid() == 0)
		err = path_print(path, sizeof(path), "%s", BERTH_NODE_DIR_DEFAULT);
	else if (runtime != NULL && runtime[0] == '/')
		err = path_print(path, sizeof(path), "%s/berth", runtime);
	else
		err = path_print(path, sizeof(path), "/tmp/berth-%u", (unsigned)geteuid());
	if (err == 0)
		err = path_give(path, ret_path, size);
	if (err < 0)
		return berth_reason_set(reason, err,
					"the path of the state directory (%s) is too "
					"long",
					given != NULL ? "BERTH_STATE_DIR" : "XDG_RUNTIME_DIR");
	return 0;
}

/* Is the directory at path ours alone? */
static int dir_check(const char *path, struct berth_reason *reason)
{
	BERTH_FD int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char shown[256];
	struct stat st;
	int err;

	(void)berth_text_escape(shown, sizeof(shown), path);
	if (fd < 0)
		return berth_reason_set(reason, -errno, "the state directory %s can't be used: %s",
					shown,
					errno == ENOTDIR || errno == ELOOP
						? "it is not a directory or a link; remove it"
						: strerror(errno));
	err = berth_fd_stat(fd, &st);
	if (err < 0)
		return berth_reason_set(reason, err, "the state directory %s can't be examined",
					shown);
	if (st.st_uid != geteuid())
		return berth_reason_set(reason, -EPERM,
					"the state directory %s belongs to user %u, not to user "
					"%u: remove it or set BERTH_STATE_DIR",
					shown, (unsigned)st.st_uid, (unsigned)geteuid());
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return berth_reason_set(reason, -EPERM,
					"the state directory %s can be written by other users: "
					"chmod go-w %s",
					shown, shown);
	return 0;
}

static int dir_make_checked(const char *path, mode_t mode, struct berth_reason *reason)
{
	char shown[256];
	int err = berth_dir_make(path, mode);

	/* Not a directory, or a link: dir_check finds the words. */
	if (err == 0 || err == -ENOTDIR || err == -ELOOP)
		return dir_check(path, reason);
	(void)berth_text_escape(shown, sizeof(shown), path);
	return berth_reason_set(
		reason, err,
		"the state directory %s can't be made: %s; BERTH_STATE_DIR may name "
		"another place",
		shown, strerror(-err));
}

int berth_state_dir_make(const char *subdir, char *ret_path, size_t size,
			 struct berth_reason *reason)
{
	char path[BERTH_STATE_DIR_MAX];
	int err = berth_state_dir(path, sizeof(path), reason);

	/* Root's is the node directory, too, where programs of all users look for what they share. */
	if (err == 0)
		err = dir_make_checked(
			path, strcmp(path, BERTH_NODE_DIR_DEFAULT) == 0 ? 0755 : 0700, reason);
	if (err < 0)
		return err;
	if (subdir != NULL && subdir[0] != '\0') {
		size_t length = strlen(path);

		err = path_print(path + length, sizeof(path) - length, "/%s", subdir);
		if (err < 0)
			return berth_reason_set(reason, err, "%s: the path is too long", subdir);
		err = dir_make_checked(path, 0700, reason);
		if (err < 0)
			return err;
	}
	err = path_give(path, ret_path, size);
	return err < 0 ? berth_reason_set(reason, err, "%s: the path is too long", path) : 0;
}
