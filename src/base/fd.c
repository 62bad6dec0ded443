/* SPDX-License-Identifier: Apache-2.0
 *
 * File descriptors, and files small enough to be read whole.
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's struct stat is glibc's own only on 64-bit systems. */
_Static_assert(sizeof(long) == 8, "fstat and newfstatat are called without glibc's conversion");

void berth_fd_close(int *fd)
{
	int saved_errno = errno;

	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
	errno = saved_errno;
}

int berth_fd_stat(int fd, struct stat *ret_st)
{
	struct stat st;

	memset(&st, 0, sizeof(st));
	if (syscall(SYS_fstat, fd, &st) != 0)
		return -errno;
	*ret_st = st;
	return 0;
}

int berth_path_lstat(int dirfd, const char *path, struct stat *ret_st)
{
	struct stat st;

	memset(&st, 0, sizeof(st));
	if (syscall(SYS_newfstatat, dirfd, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return -errno;
	*ret_st = st;
	return 0;
}

static ssize_t fd_read_some(int fd, void *buf, size_t size)
{
	for (;;) {
		ssize_t n = read(fd, buf, size);

		if (n >= 0)
			return n;
		if (errno != EINTR)
			return -errno;
	}
}

static ssize_t fd_read(int fd, char *buf, size_t size, bool cut)
{
	size_t length = 0;
	char beyond;

	if (size == 0)
		return -EINVAL;
	while (length < size - 1) {
		ssize_t n = fd_read_some(fd, buf + length, size - 1 - length);

		if (n < 0)
			return n;
		if (n == 0)
			break;
		length += (size_t)n;
	}
	if (length == size - 1 && !cut) {
		ssize_t n = fd_read_some(fd, &beyond, 1);

		if (n != 0)
			return n < 0 ? n : -EFBIG;
	}
	buf[length] = '\0';
	return (ssize_t)length;
}

ssize_t berth_fd_read(int fd, char *buf, size_t size)
{
	return fd_read(fd, buf, size, false);
}

static ssize_t file_read(int dirfd, const char *path, char *buf, size_t size, bool cut)
{
	/* O_NONBLOCK: a FIFO in the place of the file is an empty file, not a wait for ever. */
	BERTH_FD int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	return fd < 0 ? -errno : fd_read(fd, buf, size, cut);
}

ssize_t berth_file_read(int dirfd, const char *path, char *buf, size_t size)
{
	return file_read(dirfd, path, buf, size, false);
}

ssize_t berth_file_read_head(int dirfd, const char *path, char *buf, size_t size)
{
	return file_read(dirfd, path, buf, size, true);
}

int berth_fd_write_all(int fd, const void *buf, size_t size)
{
	const char *next = buf;

	while (size > 0) {
		ssize_t n = write(fd, next, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		next += n;
		size -= (size_t)n;
	}
	return 0;
}

/* The umask may have taken bits away. The new directory is reached through its descriptor, so that
 * nobody can put another one in its place; /proc, because fchmod refuses an O_PATH descriptor and an
 * unreadable directory opens in no other way. */
static int dir_mode_set(int dir, mode_t mode)
{
	char path[64];
	struct stat st = { 0 };
	int err = berth_fd_stat(dir, &st);

	if (err < 0)
		return err;
	if ((st.st_mode & 07777 & ~(mode_t)S_ISGID) == (mode & ~(mode_t)S_ISGID))
		return 0;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", dir);
	if (chmod(path, mode | (st.st_mode & S_ISGID)) != 0)
		return -errno;
	return 0;
}

/* Opens one component under dirfd, making it if it is missing. */
static int dir_step(int dirfd, const char *name, mode_t mode, bool last)
{
	int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	bool made = false;
	BERTH_FD int fd = openat(dirfd, name, last ? flags | O_NOFOLLOW : flags);
	int err;

	if (fd >= 0)
		return BERTH_TAKE_FD(fd);
	if (errno != ENOENT)
		return -errno;
	if (mkdirat(dirfd, name, mode) == 0)
		made = true;
	else if (errno != EEXIST)
		return -errno;
	/* One that was there after all (made by a neighbour meanwhile) keeps its mode. */
	fd = openat(dirfd, name, made || last ? flags | O_NOFOLLOW : flags);
	if (fd < 0)
		return -errno;
	err = made ? dir_mode_set(fd, mode) : 0;
	return err < 0 ? err : BERTH_TAKE_FD(fd);
}

int berth_dir_make(const char *path, mode_t mode)
{
	BERTH_FD int dir = -1;

	if (path[0] != '/')
		return -EINVAL;
	dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	path += strspn(path, "/");
	while (*path != '\0') {
		char name[NAME_MAX + 1];
		size_t length = strcspn(path, "/");
		int next;

		if (length > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path, length);
		name[length] = '\0';
		path += length;
		path += strspn(path, "/");
		next = dir_step(dir, name, mode, *path == '\0');
		if (next < 0)
			return next;
		berth_fd_close(&dir);
		dir = next;
	}
	return 0;
}
