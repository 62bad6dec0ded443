/* SPDX-License-Identifier: Apache-2.0
 *
 * See node_dir.h.
 */
#include "base/node_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/process.h"

#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif

/* NULL = not set. */
static const char *named(void)
{
	const char *value = berth_process_is_secure() ? NULL : getenv("BERTH_NODE_DIR");

	return value && value[0] ? value : NULL;
}

static int trust(int fd, const char *path, struct berth_reason *reason)
{
	char shown[256];
	struct stat st;
	int err = berth_fd_stat(fd, &st);

	(void)berth_text_escape(shown, sizeof(shown), path);
	if (err < 0)
		return berth_reason_set(reason, err, "%s can't be examined: %s", shown,
					strerror(-err));
	if (st.st_uid != 0)
		return berth_reason_set(
			reason, -EPERM,
			"%s, which the node's containers share, belongs to user %u: "
			"it must be root's",
			shown, (unsigned)st.st_uid);
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (st.st_mode & S_ISVTX) == 0)
		return berth_reason_set(reason, -EPERM,
					"%s, which the node's containers share, can be written by "
					"others than root: chmod go-w it",
					shown);
	return 0;
}

static int dir_open(const char *path)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Is it the root of a mount? Kernels before 5.8 don't say; there another device than the parent's has
 * to do, so a bind mount of the same file system isn't seen. */
static bool is_mounted(int fd, const char *path)
{
	struct statx st = { 0 };
	struct stat above, here;
	char parent[BERTH_NODE_DIR_MAX + 4];

	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &st) == 0 &&
	    (st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0)
		return (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
	(void)snprintf(parent, sizeof(parent), "%s/..", path);
	return berth_fd_stat(fd, &here) == 0 && berth_path_lstat(AT_FDCWD, parent, &above) == 0 &&
	       here.st_dev != above.st_dev;
}

/* 0, -ENOENT: not this one, or -EPERM. */
static int take(const char *path, bool mounted_only, char *ret_path, size_t size,
		struct berth_reason *reason)
{
	BERTH_FD int fd = dir_open(path);
	size_t length = strlen(path);
	int err;

	if (fd < 0 || (mounted_only && !is_mounted(fd, path)))
		return -ENOENT;
	err = trust(fd, path, reason);
	if (err)
		return err;
	if (length >= size || length >= BERTH_NODE_DIR_MAX)
		return berth_reason_set(reason, -ENAMETOOLONG, "BERTH_NODE_DIR is too long");
	memcpy(ret_path, path, length + 1);
	return 0;
}

static int take_given(const char *path, char *ret_path, size_t size, struct berth_reason *reason)
{
	char shown[256];
	int err;

	(void)berth_text_escape(shown, sizeof(shown), path);
	if (path[0] != '/')
		return berth_reason_set(reason, -EINVAL,
					"BERTH_NODE_DIR is '%s': give an absolute path", shown);
	err = take(path, false, ret_path, size, reason);
	return err == -ENOENT ? berth_reason_set(reason, err,
						 "BERTH_NODE_DIR: %s is no directory that can be "
						 "used",
						 shown)
			      : err;
}

int berth_node_dir(char *ret_path, size_t size, struct berth_reason *reason)
{
	const char *given = named();
	int err;

	if (given)
		return take_given(given, ret_path, size, reason);
	err = take(BERTH_NODE_DIR_DEFAULT, true, ret_path, size, reason);
	if (err == -ENOENT)
		err = take(BERTH_NODE_DIR_HAMI, false, ret_path, size, reason);
	return err == -ENOENT ? berth_reason_set(reason, err,
						 "the containers of this node share no directory: "
						 "neither is something mounted at %s nor is there "
						 "%s (BERTH_NODE_DIR names another)",
						 BERTH_NODE_DIR_DEFAULT, BERTH_NODE_DIR_HAMI)
			      : err;
}

const char *berth_node_dir_of_hami(void)
{
	const char *given = named();

	return given ? given : BERTH_NODE_DIR_HAMI;
}

int berth_node_dir_file(const char *dir, const char *name, char *ret_path, size_t size)
{
	int length = snprintf(ret_path, size, "%s/%s", dir, name);

	return length >= 0 && (size_t)length < size ? 0 : -ENAMETOOLONG;
}
