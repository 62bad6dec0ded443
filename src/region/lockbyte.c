/* SPDX-License-Identifier: Apache-2.0
 *
 * State of this module: one mutex, and whether this thread has it. The mutex is innermost: nothing
 * else is locked while it is held.
 */
#include "region/lockbyte.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"

enum { KEPT_FD_MIN = 512 };

static struct {
	pthread_mutex_t mutex;
	_Atomic int registered;
} window = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* A signal handler may fork while its own thread is inside: waiting would then be for ever. */
static __thread int window_depth;
static __thread bool window_kept_by_fork;

static void fork_prepare(void)
{
	window_kept_by_fork = window_depth == 0;
	if (window_kept_by_fork)
		pthread_mutex_lock(&window.mutex);
}

static void fork_done(void)
{
	if (window_kept_by_fork)
		pthread_mutex_unlock(&window.mutex);
	window_kept_by_fork = false;
}

/* Before main, where no other thread is about to fork: a fork that has begun when a handler is
 * registered doesn't run it. Lazily only for who comes before that. */
__attribute__((constructor)) static void window_register(void)
{
	if (!atomic_exchange_explicit(&window.registered, 1, memory_order_relaxed))
		(void)pthread_atfork(fork_prepare, fork_done, fork_done); /* ENOMEM: a fork in the
									   * window is then the
									   * child's to keep */
}

void berth_lockbyte_enter(void)
{
	window_register();
	if (window_depth++ == 0)
		pthread_mutex_lock(&window.mutex);
}

void berth_lockbyte_leave(void)
{
	if (--window_depth == 0)
		pthread_mutex_unlock(&window.mutex);
}

bool berth_lockbyte_leads_here(const struct berth_region *region, int fd)
{
	struct stat st;

	return berth_fd_stat(fd, &st) == 0 && st.st_dev == region->device &&
	       st.st_ino == region->inode;
}

int berth_lockbyte_open(const struct berth_region *region, bool writable)
{
	BERTH_FD int fd = open(region->path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC |
						     O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return -errno;
	return berth_lockbyte_leads_here(region, fd) ? BERTH_TAKE_FD(fd) : -ESTALE;
}

void berth_lockbyte_keep(struct berth_region *region, int fd)
{
	region->kept_fd = fcntl(fd, F_DUPFD_CLOEXEC, KEPT_FD_MIN);
	if (region->kept_fd < 0) /* a low limit */
		region->kept_fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (region->kept_fd < 0) /* goes without */
		region->kept_fd = -1;
}

void berth_lockbyte_unkeep(struct berth_region *region)
{
	if (region->kept_fd >= 0 && berth_lockbyte_leads_here(region, region->kept_fd))
		berth_fd_close(&region->kept_fd);
	region->kept_fd = -1;
}

static int lock_call(int fd, int command, short type, int64_t offset, struct flock *lock)
{
	int r = 0;

	do {
		*lock = (struct flock){
			.l_type = type,
			.l_whence = SEEK_SET,
			.l_start = offset,
			.l_len = 1,
		};
		r = fcntl(fd, command, lock) < 0 ? -errno : 0;
	} while (r == -EINTR);
	return r;
}

int berth_lockbyte_try(int fd, int64_t offset)
{
	struct flock lock;
	int r = lock_call(fd, F_OFD_SETLK, F_WRLCK, offset, &lock);

	return r == -EACCES ? -EAGAIN : r;
}

void berth_lockbyte_drop(int fd, int64_t offset)
{
	struct flock lock;

	/* Unlocking what we hold can't fail on a local file system; elsewhere the close that
	 * follows drops it. */
	(void)lock_call(fd, F_OFD_SETLK, F_UNLCK, offset, &lock);
}

int berth_lockbyte_held(int fd, int64_t offset)
{
	struct flock lock;
	int r = lock_call(fd, F_OFD_GETLK, F_WRLCK, offset, &lock);

	return r < 0 ? r : lock.l_type != F_UNLCK;
}

void berth_asker_done(struct berth_asker *asker)
{
	if (!asker->kept)
		berth_fd_close(&asker->fd);
}

static void asker_open(struct berth_asker *asker)
{
	const struct berth_region *region = asker->region;

	asker->fd = berth_lockbyte_open(region, region->writable);
	if (asker->fd < 0 && region->kept_fd >= 0 &&
	    berth_lockbyte_leads_here(region, region->kept_fd)) {
		asker->fd = region->kept_fd;
		asker->kept = true;
	}
}

int berth_asker_seat_held(struct berth_asker *asker, uint32_t index)
{
	if (asker->fd == -1)
		asker_open(asker);
	if (asker->fd < 0)
		return asker->fd;
	int held = berth_lockbyte_held(asker->fd, BERTH_LOCK_SEAT + index);

	/* In another file no seat is ever locked: it must have been ours when it was asked. */
	return held == 0 && asker->kept && !berth_lockbyte_leads_here(asker->region, asker->fd)
		       ? -EBADF
		       : held;
}
