/* SPDX-License-Identifier: Apache-2.0
 *
 * All of them lock the same byte of a file.
 */
#include "lock_way.h"

#include <berth/recordlock.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"

static int own_open(const struct lock_way *way, const char *path, struct lock_user *ret_user)
{
	struct berth_recordlock_options options = {
		.size = sizeof options,
		.way = way->recordlock,
		.flags = BERTH_RECORDLOCK_CREATE,
	};
	struct berth_recordlock *lock = NULL;
	int r = berth_recordlock_open(path, &options, &lock);

	if (r == 0)
		*ret_user = (struct lock_user){ .way = way, .lock = lock, .fd = -1 };
	return r;
}

static int own_take(struct lock_user *user, int64_t timeout_ms)
{
	return berth_recordlock_take(user->lock, timeout_ms, NULL);
}

static int own_give(struct lock_user *user)
{
	return berth_recordlock_give(user->lock);
}

static void own_close(struct lock_user *user)
{
	berth_recordlock_close(user->lock);
	user->lock = NULL;
}

#define OWN_WAY(word, way_, is_queue_)                                                           \
	{                                                                                        \
		.name = (word), .recordlock = (way_), .is_queue = (is_queue_), .open = own_open, \
		.take = own_take, .give = own_give, .close = own_close,                          \
	}

const struct lock_way lock_way_blocking = OWN_WAY("blocking", BERTH_RECORDLOCK_BLOCK, true);
const struct lock_way lock_way_hinted = OWN_WAY("hinted", BERTH_RECORDLOCK_POLL, false);
const struct lock_way lock_way_polling = OWN_WAY("polling", BERTH_RECORDLOCK_BARE, false);

static int bare_open(const struct lock_way *way, const char *path, struct lock_user *ret_user)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	*ret_user = (struct lock_user){ .way = way, .fd = fd };
	return 0;
}

static int bare_call(struct lock_user *user, int command, short type)
{
	struct flock range = {
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = BERTH_RECORDLOCK_BYTE,
		.l_len = 1,
	};

	return fcntl(user->fd, command, &range) < 0 ? -errno : 0;
}

static int bare_take(struct lock_user *user, int64_t timeout_ms)
{
	return bare_call(user, timeout_ms == 0 ? F_SETLK : F_SETLKW, F_WRLCK);
}

static int bare_give(struct lock_user *user)
{
	return bare_call(user, F_SETLK, F_UNLCK);
}

static void bare_close(struct lock_user *user)
{
	berth_fd_close(&user->fd);
}

const struct lock_way lock_way_bare = {
	.name = "bare",
	.is_queue = true,
	.open = bare_open,
	.take = bare_take,
	.give = bare_give,
	.close = bare_close,
};
