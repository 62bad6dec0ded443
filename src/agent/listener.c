/* SPDX-License-Identifier: Apache-2.0
 *
 * See listener.h. After the directory was examined everything in it is done through its descriptor; bind(2)
 * takes a path only, and if that led elsewhere the new name isn't in the directory and the next step fails.
 */
#include "agent/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define TEMPORARY_MAX (NAME_MAX + 16)
#define TURN_NS       (2 * BERTH_NS_PER_S)
#define TURN_PAUSE_NS (2 * BERTH_NS_PER_MS)

/* A listener in the making. */
struct place {
	const char *path;
	const char *name; /* in path, behind the last slash */
	int dir_fd;
	char temporary[TEMPORARY_MAX];
	struct stat made; /* what temporary leads to */
};

static int address_set(struct sockaddr_un *ret_address, const struct place *place, const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int length = snprintf(address.sun_path, sizeof(address.sun_path), "%.*s%s",
			      (int)(place->name - place->path), place->path, name);

	if (length < 0 || (size_t)length >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	*ret_address = address;
	return 0;
}

static int directory_open(const char *path, size_t length, struct berth_reason *reason)
{
	char dir[PATH_MAX];
	BERTH_FD int fd = -1;
	struct stat st;
	int err;

	if (length >= sizeof(dir))
		return berth_reason_set(reason, -ENAMETOOLONG, "%s: too long", path);
	memcpy(dir, path, length);
	dir[length] = '\0';
	err = berth_dir_make(length > 0 ? dir : "/", 0755);
	if (err < 0)
		return berth_reason_set(reason, err, "%s can't be made: %s%s", dir, strerror(-err),
					err == -ENOTDIR || err == -ELOOP
						? " (a link in its place isn't followed)"
						: "");
	fd = open(length > 0 ? dir : "/", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return berth_reason_set(reason, -errno, "%s can't be opened: %s", dir,
					strerror(errno));
	err = berth_fd_stat(fd, &st);
	if (err < 0)
		return berth_reason_set(reason, err, "%s can't be examined", dir);
	if (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return berth_reason_set(
			reason, -EPERM,
			"%s must belong to root and be writable by nobody else, or no "
			"client believes what is in it: chown root, chmod go-w",
			dir);
	return BERTH_TAKE_FD(fd);
}

/* The socket, bound under the temporary name and listening. */
static int socket_make(struct place *place, struct berth_reason *reason)
{
	BERTH_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	int err;

	if (fd < 0)
		return berth_reason_set(reason, -errno, "no socket: %s", strerror(errno));
	(void)snprintf(place->temporary, sizeof(place->temporary), ".%s.%d", place->name,
		       (int)getpid());
	err = address_set(&address, place, place->temporary);
	if (err < 0)
		return berth_reason_set(reason, err, "%s: too long for a socket's path",
					place->path);
	/* One of a dead process that had our pid. */
	(void)unlinkat(place->dir_fd, place->temporary, 0);
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(fd, SOMAXCONN) != 0)
		return berth_reason_set(reason, -errno, "%s can't be made: %s", place->path,
					strerror(errno));
	/* The umask had its say in bind. */
	if (fchmodat(place->dir_fd, place->temporary, 0666, 0) != 0)
		return berth_reason_set(reason, -errno, "%s: %s", place->path, strerror(errno));
	err = berth_path_lstat(place->dir_fd, place->temporary, &place->made);
	if (err < 0)
		return berth_reason_set(reason, err, "%s: %s", place->path, strerror(-err));
	return BERTH_TAKE_FD(fd);
}

/* 0: nobody listens there. A full queue is somebody's. */
static int deserted(const struct place *place)
{
	BERTH_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	int err = fd < 0 ? -errno : address_set(&address, place, place->name);

	if (err < 0)
		return err;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 || errno == EAGAIN)
		return -EADDRINUSE;
	return errno == ECONNREFUSED ? 0 : -errno;
}

/* What is in the place of the socket may go: nothing, or a socket of root's that nobody listens on. */
static int place_free(const struct place *place, struct berth_reason *reason)
{
	struct stat old;
	int err = berth_path_lstat(place->dir_fd, place->name, &old);

	if (err == -ENOENT)
		return 0;
	if (err < 0)
		return berth_reason_set(reason, err, "%s: %s", place->path, strerror(-err));
	if (!S_ISSOCK(old.st_mode) || old.st_uid != 0)
		return berth_reason_set(reason, -EPERM,
					"%s is there, and is no socket of root's: remove it",
					place->path);
	err = deserted(place);
	if (err == -EADDRINUSE)
		return berth_reason_set(reason, err, "%s: another broker listens there",
					place->path);
	return err < 0 ? berth_reason_set(reason, err, "%s can't be replaced: %s", place->path,
					  strerror(-err))
		       : 0;
}

/* Between the look and the rename no other berthd may put his socket there. Whoever can read the directory
 * can lock it as well, so a lock that isn't to be had within a moment is done without. */
static void turn_take(int dir_fd)
{
	uint64_t deadline_ns = berth_deadline_after(TURN_NS);

	while (flock(dir_fd, LOCK_EX | LOCK_NB) != 0 && !berth_deadline_passed(deadline_ns))
		berth_sleep_ns(TURN_PAUSE_NS, deadline_ns);
}

static int put_in_place(const struct place *place, struct berth_reason *reason)
{
	int err;

	turn_take(place->dir_fd);
	err = place_free(place, reason);
	if (!err && renameat(place->dir_fd, place->temporary, place->dir_fd, place->name) != 0)
		err = berth_reason_set(reason, -errno, "%s can't be made: %s", place->path,
				       strerror(errno));
	(void)flock(place->dir_fd, LOCK_UN);
	return err;
}

int berth_listener_open(const char *path, struct berth_listener *ret_listener,
			struct berth_reason *reason)
{
	struct place place = { .path = path };
	const char *slash = strrchr(path, '/');
	BERTH_FD int dir_fd = -1;
	BERTH_FD int fd = -1;
	int err;

	if (path[0] != '/' || slash[1] == '\0')
		return berth_reason_set(reason, -EINVAL, "%s: give a socket's absolute path", path);
	dir_fd = directory_open(path, (size_t)(slash - path), reason);
	if (dir_fd < 0)
		return dir_fd;
	place.name = slash + 1;
	place.dir_fd = dir_fd;
	fd = socket_make(&place, reason);
	err = fd < 0 ? fd : put_in_place(&place, reason);
	if (err < 0) {
		(void)unlinkat(dir_fd, place.temporary, 0);
		return err;
	}
	*ret_listener = (struct berth_listener){ .fd = BERTH_TAKE_FD(fd),
						 .dir_fd = BERTH_TAKE_FD(dir_fd),
						 .path = path,
						 .device = place.made.st_dev,
						 .inode = place.made.st_ino };
	return 0;
}

static bool option_is(int fd, int option, int wanted)
{
	int value = -1;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == wanted;
}

int berth_listener_adopt(int fd, struct berth_listener *ret_listener, bool *ret_believed,
			 struct berth_reason *reason)
{
	struct ucred listener = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(listener);
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || !option_is(fd, SO_DOMAIN, AF_UNIX) ||
	    !option_is(fd, SO_TYPE, SOCK_STREAM) || !option_is(fd, SO_ACCEPTCONN, 1))
		return berth_reason_set(reason, -EINVAL,
					"descriptor %d, which was handed over, is no listening "
					"stream socket of the file system",
					fd);
	if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
		return berth_reason_set(reason, -errno, "descriptor %d: %s", fd, strerror(errno));
	/* Of a listening socket: who called listen(2), which is what each client is told. */
	*ret_believed =
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &listener, &size) == 0 && listener.uid == 0;
	*ret_listener = (struct berth_listener){ .fd = fd, .dir_fd = -1 };
	return 0;
}

void berth_listener_remove(const struct berth_listener *listener)
{
	const char *name = listener->path ? strrchr(listener->path, '/') + 1 : NULL;
	struct stat st;

	if (!name || berth_path_lstat(listener->dir_fd, name, &st) < 0)
		return;
	if (st.st_dev == listener->device && st.st_ino == listener->inode)
		(void)unlinkat(listener->dir_fd, name, 0);
}

void berth_listener_close(struct berth_listener *listener)
{
	berth_fd_close(&listener->fd);
	berth_fd_close(&listener->dir_fd);
}
