/* SPDX-License-Identifier: Apache-2.0
 *
 * The client of the host-pid broker.
 *
 * What is checked is what is used: the directory is opened without following a link and examined, the
 * socket in it likewise, and the connection goes to that very inode, through its descriptor's entry in
 * /proc. Without a /proc the path has to be walked once more; somebody who swaps it meanwhile still needs a
 * listener of root's, because the peer is examined after connecting, by the kernel's word.
 */
#include "base/pid_broker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

#define FIRST_PAUSE_NS   (500 * BERTH_NS_PER_US)
#define LONGEST_PAUSE_NS (8 * BERTH_NS_PER_MS)
#define SHOWN_MAX        256

static const uint8_t magic[] = { 'H', 'P', 'I', 'D' };

/* One question under way. */
struct ask {
	const char *path;
	char shown[SHOWN_MAX]; /* path, printable */
	uint64_t deadline_ns;
	struct berth_reason *reason;
};

static void u16_put(uint8_t *at, uint16_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static uint16_t u16_get(const uint8_t *at)
{
	return (uint16_t)((unsigned)at[0] << 8 | at[1]);
}

void berth_pid_broker_request_encode(uint8_t *ret_request)
{
	memcpy(ret_request, magic, sizeof(magic));
	u16_put(ret_request + 4, BERTH_PID_BROKER_VERSION);
	u16_put(ret_request + 6, BERTH_PID_BROKER_COMMAND_PID);
}

void berth_pid_broker_reply_encode(enum berth_pid_broker_status status, pid_t pid,
				   uint8_t *ret_reply)
{
	memcpy(ret_reply, magic, sizeof(magic));
	u16_put(ret_reply + 4, BERTH_PID_BROKER_VERSION);
	u16_put(ret_reply + 6, (uint16_t)status);
	u16_put(ret_reply + 8, (uint16_t)((uint32_t)pid >> 16));
	u16_put(ret_reply + 10, (uint16_t)pid);
}

int berth_pid_broker_reply_decode(const uint8_t *reply, size_t size, const char *who,
				  pid_t *ret_pid, struct berth_reason *reason)
{
	uint32_t pid;

	if (size < BERTH_PID_BROKER_REPLY_BYTES)
		return berth_reason_set(reason, -EPROTO,
					"%s: the broker hung up after %zu of %d bytes", who, size,
					BERTH_PID_BROKER_REPLY_BYTES);
	if (size > BERTH_PID_BROKER_REPLY_BYTES)
		return berth_reason_set(reason, -EPROTO, "%s: the broker's answer is too long",
					who);
	if (memcmp(reply, magic, sizeof(magic)) != 0)
		return berth_reason_set(reason, -EPROTO,
					"%s: what answers there is no host-pid broker", who);
	if (u16_get(reply + 4) != BERTH_PID_BROKER_VERSION)
		return berth_reason_set(
			reason, -EPROTO, "%s: the broker speaks version %u of the protocol, not %d",
			who, (unsigned)u16_get(reply + 4), BERTH_PID_BROKER_VERSION);
	if (u16_get(reply + 6) != BERTH_PID_BROKER_OK)
		return berth_reason_set(reason, -EPROTO, "%s: the broker refused (status %u)%s",
					who, (unsigned)u16_get(reply + 6),
					u16_get(reply + 6) == BERTH_PID_BROKER_UNKNOWN
						? ": this process has no pid where it runs"
						: "");
	pid = (uint32_t)u16_get(reply + 8) << 16 | u16_get(reply + 10);
	if (pid == 0 || pid > INT32_MAX)
		return berth_reason_set(reason, -EPROTO,
					"%s: the broker answered %u, which is no pid", who,
					(unsigned)pid);
	*ret_pid = (pid_t)pid;
	return 0;
}

/* Takes over fd. One of 0 to 2 goes up: the program believes its standard streams to be there, or closed. */
static int fd_lift(int fd)
{
	BERTH_FD int low_fd = fd;
	int high_fd;

	if (low_fd < 0)
		return -errno;
	if (low_fd > STDERR_FILENO)
		return BERTH_TAKE_FD(low_fd);
	high_fd = fcntl(low_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return high_fd < 0 ? -errno : high_fd;
}

static int open_failed(const struct ask *ask, int err)
{
	if (err == -ENOENT || err == -ENOTDIR)
		return berth_reason_set(ask->reason, -ENOENT, "%s: there is no broker", ask->shown);
	return berth_reason_set(ask->reason, err, "%s can't be opened: %s", ask->shown,
				strerror(-err));
}

/* -ENOTDIR of the last component means a file or a link; of one above it, that it isn't there. */
static int directory_failed(const struct ask *ask, const char *path, int err)
{
	struct stat st;

	if (err == -ELOOP || (err == -ENOTDIR && berth_path_lstat(AT_FDCWD, path, &st) == 0))
		return berth_reason_set(ask->reason, -EPERM,
					"%s isn't trusted: its directory is a link or none",
					ask->shown);
	return open_failed(ask, err);
}

/* The directory of the socket, examined; *ret_name is the rest of the path. */
static int directory_open(const struct ask *ask, const char **ret_name)
{
	const char *slash = strrchr(ask->path, '/');
	char path[PATH_MAX];
	BERTH_FD int dir = -1;
	struct stat st;
	size_t length;
	int err;

	if (!slash || slash[1] == '\0')
		return berth_reason_set(ask->reason, -EINVAL, "'%s' is no path of a socket",
					ask->shown);
	length = (size_t)(slash - ask->path);
	if (length >= sizeof(path))
		return berth_reason_set(ask->reason, -ENAMETOOLONG, "%s: the path is too long",
					ask->shown);
	memcpy(path, ask->path, length);
	path[length] = '\0';
	dir = fd_lift(open(length > 0 ? path : "/", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (dir < 0)
		return directory_failed(ask, path, dir);
	err = berth_fd_stat(dir, &st);
	if (err < 0)
		return open_failed(ask, err);
	if (st.st_uid != 0)
		return berth_reason_set(ask->reason, -EPERM,
					"%s isn't trusted: its directory belongs to user %u, not "
					"to root",
					ask->shown, (unsigned)st.st_uid);
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return berth_reason_set(ask->reason, -EPERM,
					"%s isn't trusted: others than root can write to its "
					"directory",
					ask->shown);
	*ret_name = slash + 1;
	return BERTH_TAKE_FD(dir);
}

static int inode_open(const struct ask *ask, int dir, const char *name)
{
	BERTH_FD int inode = fd_lift(openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
	struct stat st;
	int err;

	if (inode < 0)
		return open_failed(ask, inode);
	err = berth_fd_stat(inode, &st);
	if (err < 0)
		return open_failed(ask, err);
	if (!S_ISSOCK(st.st_mode))
		return berth_reason_set(ask->reason, -EPERM, "%s isn't trusted: it is no socket",
					ask->shown);
	if (st.st_uid != 0)
		return berth_reason_set(ask->reason, -EPERM,
					"%s isn't trusted: it belongs to user %u, not to root",
					ask->shown, (unsigned)st.st_uid);
	return BERTH_TAKE_FD(inode);
}

static void address_of_inode(int inode, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)snprintf(ret_address->sun_path, sizeof(ret_address->sun_path), "/proc/self/fd/%d",
		       inode);
}

static int address_of_path(const char *path, struct sockaddr_un *ret_address)
{
	size_t length = strlen(path);

	if (length >= sizeof(ret_address->sun_path))
		return -ENAMETOOLONG;
	*ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(ret_address->sun_path, path, length + 1);
	return 0;
}

static int timed_out(const struct ask *ask)
{
	return berth_reason_set(ask->reason, -ETIMEDOUT, "%s: the broker didn't answer in time",
				ask->shown);
}

/* A full backlog can't be polled for: try again after a pause. */
static int connect_by(const struct ask *ask, int fd, const struct sockaddr_un *address)
{
	uint64_t pause_ns = FIRST_PAUSE_NS;

	for (;;) {
		if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
			return 0;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if (berth_deadline_passed(ask->deadline_ns))
			return -ETIMEDOUT;
		berth_sleep_ns(pause_ns, ask->deadline_ns);
		if (pause_ns < LONGEST_PAUSE_NS)
			pause_ns *= 2;
	}
}

static int connect_to(const struct ask *ask, int fd, int inode)
{
	struct sockaddr_un address;
	int err;

	address_of_inode(inode, &address);
	err = connect_by(ask, fd, &address);
	if (err == -ENOENT || err == -ENOTDIR) {
		/* The inode is held, so it is /proc that isn't there. */
		err = address_of_path(ask->path, &address);
		if (!err)
			err = connect_by(ask, fd, &address);
	}
	if (err == -ETIMEDOUT)
		return timed_out(ask);
	if (err == -ECONNREFUSED)
		return berth_reason_set(ask->reason, -ENOENT, "%s: no broker runs (nobody listens)",
					ask->shown);
	if (err < 0 && err != -ENOENT)
		return berth_reason_set(ask->reason, err, "%s: no connection: %s", ask->shown,
					strerror(-err));
	return err < 0 ? open_failed(ask, err) : 0;
}

/* Who listens there: as it was when it began to. */
static int peer_check(const struct ask *ask, int fd)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
		return berth_reason_set(ask->reason, -errno, "%s: the broker can't be examined: %s",
					ask->shown, strerror(errno));
	if (size != sizeof(peer) || peer.uid != 0)
		return berth_reason_set(ask->reason, -EPERM,
					"%s isn't trusted: what listens there runs as user %u, not "
					"as root",
					ask->shown, (unsigned)peer.uid);
	return 0;
}

/* Until fd is ready, or has failed: the call that follows says so. */
static int wait_for(const struct ask *ask, int fd, short events)
{
	struct pollfd ready = { .fd = fd, .events = events };

	for (;;) {
		uint64_t left_ns = berth_deadline_left_ns(ask->deadline_ns);
		/* Rounded up, or the last millisecond would be a busy one. */
		uint64_t left_ms = left_ns / BERTH_NS_PER_MS + (left_ns % BERTH_NS_PER_MS != 0);
		int count = poll(&ready, 1, left_ms > INT_MAX ? INT_MAX : (int)left_ms);

		if (count > 0)
			return 0;
		if (count < 0 && errno != EINTR)
			return -errno;
		if (berth_deadline_passed(ask->deadline_ns))
			return -ETIMEDOUT;
	}
}

static bool would_block(int err)
{
	return err == -EAGAIN || err == -EWOULDBLOCK;
}

static int request_send(const struct ask *ask, int fd)
{
	uint8_t request[BERTH_PID_BROKER_REQUEST_BYTES];
	size_t sent = 0;

	berth_pid_broker_request_encode(request);
	while (sent < sizeof(request)) {
		ssize_t n = send(fd, request + sent, sizeof(request) - sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		int err = n < 0 ? -errno : 0;

		if (n > 0)
			sent += (size_t)n;
		else if (would_block(err))
			err = wait_for(ask, fd, POLLOUT);
		/* Asked late: what came before it hung up may still be there to read. */
		if (err == -EPIPE || err == -ECONNRESET)
			return 0;
		if (err < 0 && err != -EINTR)
			return err;
	}
	return 0;
}

/* Up to size bytes, one more than a reply has: a broker may keep the connection open, so its end isn't
 * waited for once the reply is whole. */
static int reply_receive(const struct ask *ask, int fd, uint8_t *reply, size_t size,
			 size_t *ret_count)
{
	size_t count = 0;

	while (count < BERTH_PID_BROKER_REPLY_BYTES) {
		ssize_t n = recv(fd, reply + count, size - count, MSG_DONTWAIT);
		int err = n < 0 ? -errno : 0;

		if (n == 0 || err == -ECONNRESET)
			break;
		if (n > 0)
			count += (size_t)n;
		else if (would_block(err))
			err = wait_for(ask, fd, POLLIN);
		if (err < 0 && err != -EINTR)
			return err;
		/* A trickle keeps nobody past the deadline. */
		if (n > 0 && count < BERTH_PID_BROKER_REPLY_BYTES &&
		    berth_deadline_passed(ask->deadline_ns))
			return -ETIMEDOUT;
	}
	*ret_count = count;
	return 0;
}

static int converse(const struct ask *ask, int fd, pid_t *ret_pid)
{
	uint8_t reply[BERTH_PID_BROKER_REPLY_BYTES + 1];
	size_t count = 0;
	int err = request_send(ask, fd);

	if (!err)
		err = reply_receive(ask, fd, reply, sizeof(reply), &count);
	if (err == -ETIMEDOUT)
		return timed_out(ask);
	if (err < 0)
		return berth_reason_set(ask->reason, err, "%s: the broker can't be asked: %s",
					ask->shown, strerror(-err));
	return berth_pid_broker_reply_decode(reply, count, ask->shown, ret_pid, ask->reason);
}

static int ask_broker(const struct ask *ask, pid_t *ret_pid)
{
	const char *name = NULL;
	BERTH_FD int dir = directory_open(ask, &name);
	BERTH_FD int inode = dir < 0 ? dir : inode_open(ask, dir, name);
	BERTH_FD int fd = -1;
	int err;

	if (inode < 0)
		return inode;
	fd = fd_lift(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return berth_reason_set(ask->reason, fd, "%s: no socket: %s", ask->shown,
					strerror(-fd));
	err = connect_to(ask, fd, inode);
	if (!err)
		err = peer_check(ask, fd);
	return err < 0 ? err : converse(ask, fd, ret_pid);
}

int berth_pid_broker_ask(const char *socket_path, uint64_t deadline_ns, pid_t *ret_pid,
			 struct berth_reason *reason)
{
	int saved_errno = errno;
	struct ask ask = { .path = socket_path, .deadline_ns = deadline_ns, .reason = reason };
	int err;

	(void)berth_text_escape(ask.shown, sizeof(ask.shown), socket_path);
	err = ask_broker(&ask, ret_pid);
	errno = saved_errno;
	return err;
}
