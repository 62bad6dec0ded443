/* SPDX-License-Identifier: Apache-2.0
 *
 * See probe_lock.h.
 */
#include "agent/probe_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/node_dir.h"

#define SHARED_WRITE (S_IWGRP | S_IWOTH)

static int file_check(int fd, const char *dir, struct berth_reason *reason)
{
	struct stat st;
	int err = berth_fd_stat(fd, &st);

	if (err < 0)
		return berth_reason_set(reason, err, "%s/%s can't be examined: %s", dir,
					BERTH_NODE_PROBE_LOCK, strerror(-err));
	if (!S_ISREG(st.st_mode) || st.st_uid != 0 || st.st_nlink != 1 ||
	    (st.st_mode & SHARED_WRITE) != 0)
		return berth_reason_set(reason, -EPERM,
					"%s/%s is there, and is no file of root's alone: remove it",
					dir, BERTH_NODE_PROBE_LOCK);
	return 0;
}

int berth_probe_lock_make(const char *dir, struct berth_reason *reason)
{
	BERTH_FD int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	BERTH_FD int fd = -1;
	struct stat st = { 0 };
	int err = dir_fd < 0 ? -errno : berth_fd_stat(dir_fd, &st);

	if (err < 0)
		return berth_reason_set(reason, err, "%s: %s", dir, strerror(-err));
	/* In a sticky one others can make names, not take ours away. */
	if (st.st_uid != 0 || ((st.st_mode & SHARED_WRITE) != 0 && (st.st_mode & S_ISVTX) == 0))
		return berth_reason_set(reason, -EPERM, "%s isn't root's alone", dir);
	fd = openat(dir_fd, BERTH_NODE_PROBE_LOCK,
		    O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
	if (fd < 0)
		return berth_reason_set(reason, -errno, "%s/%s can't be made: %s", dir,
					BERTH_NODE_PROBE_LOCK, strerror(errno));
	return file_check(fd, dir, reason);
}
