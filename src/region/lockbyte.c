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

#include "base/fd.h"

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

void berth_lockbyte_enter(void)
{
	if (!atomic_exchange_explicit(&window.registered, 1, memory_order_relaxed))
		(void)pthread_atfork(fork_prepare, fork_done, fork_done); /* ENOMEM: a fork in the
									   * window is then the
									   * child's to keep */
	if (window_depth++ == 0)
		pthread_mutex_lock(&window.mutex);
}

void berth_lockbyte_leave(void)
{
	if (--window_depth == 0)
		pthread_mutex_unlock(&window.mutex);
}

int berth_lockbyte_open(const struct berth_region *region, bool writable)
{
	BERTH_FD int fd = open(region->path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC |
						     O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return -errno;
	int r = berth_fd_stat(fd, &st);
	if (r < 0)
		return r;
	if (st.st_dev != region->device || st.st_ino != region->inode)
		return -ESTALE;
	return BERTH_TAKE_FD(fd);
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
