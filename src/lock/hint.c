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
#include "lock/epoch.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* A real-time signal's number that nobody would set: it is never sent. */
enum { MARK = 61 };

#define IDLE_LONG_NS (200 * BERTH_NS_PER_MS)

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

void berth_watch_init(struct berth_watch *watch)
{
	*watch = (struct berth_watch){ .fd = -1, .id = -1 };
}

/* A fork child's copies of its parent's are the child's to close (not the last ones, so at once), but the watch
 * is the parent's. */
static void watch_adopt(struct berth_watch *watch)
{
	if (watch->fd < 0 || (watch->epoch == berth_lock_epoch() && is_ours(watch->fd)))
		return;
	drop(&watch->fd);
	watch->id = -1;
}

static void watch_end(struct berth_watch *watch)
{
	watch_adopt(watch);
	if (watch->id >= 0)
		(void)inotify_rm_watch(watch->fd, watch->id); /* fails if the file is gone */
	watch->id = -1;
	watch->idle_ns = berth_clock_ns();
}

void berth_watch_rest(struct berth_watch *watch)
{
	if (watch->fd >= 0 && berth_clock_ns() - watch->idle_ns > IDLE_LONG_NS)
		berth_watch_done(watch);
}

void berth_watch_done(struct berth_watch *watch)
{
	watch_adopt(watch);
	drop(&watch->fd);
}

void berth_hints_done(struct berth_hints *hints)
{
	int saved_errno = errno;

	if (hints->watch != NULL)
		watch_end(hints->watch);
	drop(&hints->owner_fd);
	errno = saved_errno;
}

static void drain(int fd)
{
	char events[1024];

	while (read(fd, events, sizeof(events)) > 0)
		;
}

void berth_hints_watch_file(struct berth_hints *hints, struct berth_watch *watch,
			    const struct berth_descriptor *descriptor)
{
	const uint32_t events = IN_CLOSE_WRITE | IN_CLOSE_NOWRITE | IN_ACCESS;
	int number = atomic_load_explicit(&descriptor->number, memory_order_relaxed);
	char path[64];

	hints->watch = watch;
	watch_adopt(watch);
	if (watch->fd < 0) {
		watch->fd = marked(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
		watch->epoch = berth_lock_epoch();
	}
	if (watch->fd < 0)
		return;
	drain(watch->fd); /* what the last wait has left */
	/* The open file, whatever its path has become; the path where there is no /proc. */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", number);
	watch->id = inotify_add_watch(watch->fd, path, events);
	if (watch->id < 0)
		watch->id = inotify_add_watch(watch->fd, descriptor->path, events);
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

/* Takes up what is ready. A number that isn't ours any more tells nothing. */
static bool hints_take(struct berth_hints *hints, const struct pollfd fds[2])
{
	bool hinted = false;

	if (fds[0].revents != 0 && is_ours(hints->watch->fd)) {
		drain(hints->watch->fd);
		hinted = true;
	} else if (fds[0].revents != 0) {
		hints->watch->fd = -1;
		hints->watch->id = -1;
	}
	if (fds[1].revents != 0) {
		hints->dying = is_ours(hints->owner_fd);
		hinted = hinted || hints->dying;
		drop(&hints->owner_fd); /* it would stay ready */
	}
	return hinted;
}

bool berth_hints_wait(struct berth_hints *hints, uint64_t until_ns)
{
	for (;;) {
		uint64_t left_ns = berth_deadline_left_ns(until_ns);
		struct timespec left = { .tv_sec = (time_t)(left_ns / BERTH_NS_PER_S),
					 .tv_nsec = (long)(left_ns % BERTH_NS_PER_S) };
		/* poll passes over what is negative. */
		struct pollfd fds[2] = {
			{ .fd = hints->watch != NULL ? hints->watch->fd : -1, .events = POLLIN },
			{ .fd = hints->owner_fd, .events = POLLIN },
		};
		int n = ppoll(fds, 2, &left, NULL);

		if (n == 0)
			return false;
		if (n < 0 && errno != EINTR) {
			berth_sleep_ns(left_ns, until_ns);
			return false;
		}
		if (n > 0 && hints_take(hints, fds))
			return true;
	}
}
