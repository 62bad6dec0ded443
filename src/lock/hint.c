/* SPDX-License-Identifier: Apache-2.0
 *
 * See hint.h. Killed anywhere: descriptors only, which the kernel closes.
 */
#include "lock/hint.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* A real-time signal's number that nobody would set: it is never sent. */
enum { MARK = 61 };

static int marked(int fd)
{
	if (fd < 0)
		return -1;
	if (fcntl(fd, F_SETSIG, MARK) == 0)
		return fd;
	berth_fd_close(&fd);
	return -1;
}

static bool is_ours(int fd)
{
	return fd >= 0 && fcntl(fd, F_GETSIG) == MARK;
}

static void drop(int *fd)
{
	if (is_ours(*fd))
		berth_fd_close(fd);
	*fd = -1;
}

void berth_hints_done(struct berth_hints *hints)
{
	int saved_errno = errno;

	drop(&hints->file_fd);
	drop(&hints->owner_fd);
	errno = saved_errno;
}

void berth_hints_watch_file(struct berth_hints *hints, const struct berth_descriptor *descriptor)
{
	const uint32_t events = IN_CLOSE_WRITE | IN_CLOSE_NOWRITE | IN_ACCESS;
	int number = atomic_load_explicit(&descriptor->number, memory_order_relaxed);
	char path[64];

	hints->file_fd = marked(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
	if (hints->file_fd < 0)
		return;
	/* The open file, whatever its path has become; the path where there is no /proc. */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", number);
	if (inotify_add_watch(hints->file_fd, path, events) < 0 &&
	    inotify_add_watch(hints->file_fd, descriptor->path, events) < 0)
		drop(&hints->file_fd);
}

static int owner_ask(struct berth_descriptor *descriptor, int64_t byte, pid_t *ret_owner)
{
	struct flock lock;
	int r = berth_descriptor_get(descriptor, F_GETLK, byte, &lock);

	if (r < 0)
		return r;
	if (lock.l_type == F_UNLCK)
		return 1;
	*ret_owner = lock.l_pid > 0 ? lock.l_pid : 0; /* -1, 0, another host's: not to be named */
	return 0;
}

int berth_hints_look(struct berth_hints *hints, struct berth_descriptor *descriptor, int64_t byte)
{
	pid_t owner = 0;
	int r = owner_ask(descriptor, byte, &owner);

	if (r != 0 || owner == hints->owner)
		return r;
	drop(&hints->owner_fd);
	hints->owner = owner;
	hints->dying = false;
	if (owner == 0)
		return 0;
	hints->owner_fd = marked((int)syscall(SYS_pidfd_open, owner, 0));
	/* A pid may have been used again before it was opened: it must still be the owner's now. */
	r = owner_ask(descriptor, byte, &owner);
	if (r != 0)
		return r;
	if (owner != hints->owner) {
		drop(&hints->owner_fd);
		hints->owner = 0;
	}
	return 0;
}

static void drain(int fd)
{
	char events[1024];

	while (read(fd, events, sizeof(events)) > 0)
		;
}

bool berth_hints_wait(struct berth_hints *hints, uint64_t until_ns)
{
	struct pollfd fds[2];

	for (;;) {
		uint64_t left_ns = berth_deadline_left_ns(until_ns);
		struct timespec left = { .tv_sec = (time_t)(left_ns / BERTH_NS_PER_S),
					 .tv_nsec = (long)(left_ns % BERTH_NS_PER_S) };
		int n;

		/* poll passes over what is negative. */
		fds[0] = (struct pollfd){ .fd = hints->file_fd, .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = hints->owner_fd, .events = POLLIN };
		n = ppoll(fds, 2, &left, NULL);
		if (n == 0)
			return false;
		if (n < 0 && errno != EINTR) {
			berth_sleep_ns(left_ns, until_ns);
			return false;
		}
		if (n < 0)
			continue;
		/* A number that isn't ours any more tells nothing. */
		if (fds[0].revents != 0 && !is_ours(hints->file_fd))
			hints->file_fd = -1;
		if (fds[1].revents != 0 && !is_ours(hints->owner_fd))
			hints->owner_fd = -1;
		if (fds[0].revents != 0 && hints->file_fd >= 0)
			drain(hints->file_fd);
		if (fds[1].revents != 0 && hints->owner_fd >= 0) {
			drop(&hints->owner_fd); /* it would stay ready */
			hints->dying = true;
		}
		if ((fds[0].revents != 0 && hints->file_fd >= 0) ||
		    (fds[1].revents != 0 && hints->dying))
			return true;
	}
}
