/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the configuration once. The mutex is held while the override file is looked for and read (a
 * local file of a few lines) and the environment is parsed: no driver. After that the words never
 * change, so readers keep a plain pointer.
 */
#include "account/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "account/account.h"
#include "base/cancel.h"
#include "base/fd.h"
#include "policy/override.h"
#include "region/directory.h"

static const char override_path[] = "/overrideEnv";

static struct {
	pthread_mutex_t mutex;
	bool read;
	int err;
	struct berth_reason reason;
	struct berth_config config;
	/* While reading. Not on the stack, which may be a small one of the program's. */
	char text[BERTH_OVERRIDE_TEXT_MAX + 1];
	struct berth_override file;
} settings = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* Of the file that is open, so that nobody can put another one in its place after the check. */
static int override_check(int fd, const char *path, struct berth_reason *reason)
{
	struct stat st = { 0 };
	int err = berth_fd_stat(fd, &st);

	if (err)
		return berth_reason_set(reason, err, "%s: %s", path, strerror(-err));
	if (!S_ISREG(st.st_mode))
		return berth_reason_set(reason, -EPERM, "%s is not a regular file", path);
	if (st.st_uid != 0)
		return berth_reason_set(reason, -EPERM,
					"%s belongs to user %u: limits are believed of root only",
					path, st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return berth_reason_set(reason, -EPERM,
					"%s can be written by others than root: chmod go-w it",
					path);
	return 0;
}

ssize_t berth_settings_override_read(const char *path, char *buf, size_t size,
				     struct berth_reason *reason)
{
	BERTH_FD int fd = -1;
	struct stat st;
	ssize_t length;
	/* Without a descriptor first: usually there is no file, and the program may have none left. */
	int err = berth_path_lstat(AT_FDCWD, path, &st);

	if (err == -ENOENT)
		return err;
	if (!err && S_ISLNK(st.st_mode))
		return berth_reason_set(reason, -ELOOP, "%s is a symbolic link", path);
	if (!err)
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
	if (!err && fd < 0)
		err = -errno;
	if (err)
		return berth_reason_set(reason, err == -ENOENT ? -EAGAIN : err,
					"%s can't be read: %s", path, strerror(-err));
	err = override_check(fd, path, reason);
	if (err)
		return err;
	length = berth_fd_read(fd, buf, size);
	if (length < 0)
		return berth_reason_set(reason, (int)length, "%s can't be read: %s", path,
					length == -EFBIG ? "it is too large"
							 : strerror((int)-length));
	return length;
}

static int read_locked(void)
{
	ssize_t length = berth_settings_override_read(override_path, settings.text,
						      sizeof(settings.text), &settings.reason);
	bool there = length != -ENOENT;
	int err = there && length < 0 ? (int)length : 0;

	if (!err && there)
		err = berth_override_parse(override_path, settings.text, (size_t)length,
					   &settings.file, &settings.reason);
	if (!err)
		err = berth_config_from_environment(there ? &settings.file : NULL, &settings.config,
						    &settings.reason);
	return err;
}

int berth_settings_get(const struct berth_config **ret_config, struct berth_reason *reason)
{
	BERTH_UNCANCELLED;
	int watch_err = berth_account_watch_forks(reason);
	int err;

	pthread_mutex_lock(&settings.mutex);
	if (!settings.read) {
		settings.config = (struct berth_config){ 0 };
		settings.reason.text[0] = '\0';
		settings.err = read_locked();
		settings.read = true;
	}
	err = settings.err;
	*ret_config = &settings.config;
	pthread_mutex_unlock(&settings.mutex);
	if (watch_err)
		return watch_err;
	return err ? berth_reason_set(reason, err, "%s", settings.reason.text) : 0;
}

int berth_settings_region_path(const struct berth_config *config, bool make,
			       char ret_path[PATH_MAX], struct berth_reason *reason)
{
	if (!config->region_path[0])
		return berth_share_path(config->share_name, make, ret_path, reason);
	memcpy(ret_path, config->region_path, sizeof(config->region_path));
	return 0;
}

_Static_assert(sizeof(((struct berth_config *)0)->region_path) <= PATH_MAX, "a path fits");

void berth_settings_forget(void)
{
	settings.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	settings.read = false;
}
