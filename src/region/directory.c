/* SPDX-License-Identifier: Apache-2.0
 *
 * Names are checked before they become paths, so no name leaves the directory.
 */
#include "region/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/name.h"
#include "base/state_dir.h"
#include "region/birth.h"
#include "region/snapshot.h"

enum { SWEEP_AGE_S = 600 }; /* a daemon may come to its GPU long after its parent has gone */

int berth_share_name_check(const char *name, struct berth_reason *reason)
{
	if (!berth_name_valid(name))
		return berth_reason_set(reason, -EINVAL, "'%s' can't name a share: use %s", name,
					berth_name_hint);
	return 0;
}

static int shares_dir(char ret_path[PATH_MAX], struct berth_reason *reason)
{
	char state[PATH_MAX];
	int r = berth_state_dir(state, sizeof state, reason);

	if (r < 0)
		return r;
	int n = snprintf(ret_path, PATH_MAX, "%s/shares", state);
	if (n >= PATH_MAX)
		return berth_reason_set(reason, -ENAMETOOLONG, "%s: the path is too long", state);
	return 0;
}

int berth_share_path(const char *name, bool make, char ret_path[PATH_MAX],
		     struct berth_reason *reason)
{
	char shares[PATH_MAX];
	char dir[PATH_MAX];
	int r = berth_share_name_check(name, reason);

	if (r == 0)
		r = shares_dir(shares, reason);
	if (r < 0)
		return r;
	int n = snprintf(dir, sizeof dir, "%s/%s", shares, name);
	if (n < 0 || n >= PATH_MAX - (int)sizeof "/region.cache")
		return berth_reason_set(reason, -ENAMETOOLONG, "%s: the path is too long", shares);
	if (make) {
		char made[PATH_MAX];
		char subdir[sizeof "shares/" + BERTH_NAME_MAX];

		/* Checks on the way that the state directory is ours alone. */
		(void)snprintf(subdir, sizeof subdir, "shares/%s", name);
		r = berth_state_dir_make(subdir, made, sizeof made, reason);
		if (r < 0)
			return r;
	}
	memcpy(ret_path, dir, (size_t)n);
	memcpy(ret_path + n, "/region.cache", sizeof "/region.cache");
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct names {
	char **list;
	size_t count;
};

static void names_done(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->list[i]);
	free(names->list);
}

static int names_read(DIR *dir, struct names *names)
{
	struct dirent *entry;

	while (errno = 0, (entry = readdir(dir))) {
		if (berth_share_name_check(entry->d_name, NULL) < 0)
			continue;
		char **grown = realloc(names->list, (names->count + 1) * sizeof *grown);
		if (!grown)
			return -ENOMEM;
		names->list = grown;
		names->list[names->count] = strdup(entry->d_name);
		if (!names->list[names->count])
			return -ENOMEM;
		names->count++;
	}
	return -errno;
}

int berth_share_each(int (*visit)(void *arg, const char *name, const char *path), void *arg,
		     struct berth_reason *reason)
{
	BERTH_CLEANUP(names_done) struct names names = { 0 };
	char path[PATH_MAX];
	int r = shares_dir(path, reason);

	if (r < 0)
		return r;
	DIR *dir = opendir(path);
	if (!dir) {
		if (errno == ENOENT)
			return 0;
		r = -errno;
		return berth_reason_set(reason, r, "%s: %s", path, strerror(-r));
	}
	r = names_read(dir, &names);
	(void)closedir(dir); /* it was only read */
	if (r < 0)
		return berth_reason_set(reason, r, "%s: %s", path, strerror(-r));
	if (names.count)
		qsort(names.list, names.count, sizeof *names.list, by_name);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		r = berth_share_path(names.list[i], false, path, reason);
		if (r == 0)
			r = visit(arg, names.list[i], path);
	}
	return r;
}

int berth_share_leftovers(const char *path, bool remove,
			  int (*found)(void *arg, const char *name, bool removed), void *arg)
{
	return berth_birth_orphans(path, remove, found, arg);
}

static bool maker_gone(const char *name)
{
	const char *at = strrchr(name, '@');
	char *end;

	if (!at)
		return false; /* a named share is its users' to keep */
	long pid = strtol(at + 1, &end, 10);
	return *end == '\0' && pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

static bool is_old(const char *path)
{
	struct stat st;

	return berth_path_lstat(AT_FDCWD, path, &st) == 0 && S_ISREG(st.st_mode) &&
	       time(NULL) - st.st_mtime > SWEEP_AGE_S;
}

static bool anybody_sits(const char *path)
{
	struct berth_region *region = NULL;
	struct berth_snapshot *snapshot = NULL;
	bool sits = true; /* what can't be read is left alone */

	if (berth_region_view(path, &region, NULL) < 0)
		return true;
	if (berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &snapshot) == 0) {
		sits = false;
		for (uint32_t i = 0; i < snapshot->seat_count; i++)
			sits |= snapshot->seats[i].alive;
	}
	berth_snapshot_free(snapshot);
	berth_region_close(region);
	return sits;
}

static bool environment_names(const char *pid, const char *path)
{
	char name[64];
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	(void)snprintf(name, sizeof name, "/proc/%.20s/environ", pid);
	FILE *file = fopen(name, "re");
	if (!file)
		return false; /* another user's: not in this user's shares */
	while (!found && getdelim(&line, &room, 0, file) > 0)
		found = strncmp(line, "BERTH_REGION=", 13) == 0 && strcmp(line + 13, path) == 0;
	free(line);
	(void)fclose(file); /* it was only read */
	return found;
}

/* Somebody was started in it who hasn't come to a GPU yet, or whose workers come and go. */
static bool anybody_means(const char *path)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	bool found = false;

	if (!proc)
		return true; /* can't be told: left alone */
	while (!found && (entry = readdir(proc))) {
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
			found = environment_names(entry->d_name, path);
	}
	(void)closedir(proc); /* it was only read */
	return found;
}

static int sweep_one(void *arg, const char *name, const char *path)
{
	unsigned *removed_count = arg;
	char dir[PATH_MAX];

	if (!maker_gone(name) || !is_old(path) || anybody_sits(path) || anybody_means(path))
		return 0;
	if (unlink(path) == 0) {
		(void)snprintf(dir, sizeof dir, "%.*s",
			       (int)(strlen(path) - strlen("/region.cache")), path);
		(void)rmdir(dir); /* not empty: somebody's file is in it, so it stays */
		(*removed_count)++;
	}
	return 0;
}

unsigned berth_share_sweep(void)
{
	unsigned removed_count = 0;

	if (berth_share_each(sweep_one, &removed_count, NULL) < 0)
		return removed_count; /* what was removed before the failure */
	return removed_count;
}
