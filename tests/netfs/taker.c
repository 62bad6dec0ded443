/* SPDX-License-Identifier: Apache-2.0 */
#include "netfs/taker.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"

#define SETLK_PAUSE_NS (10 * BERTH_NS_PER_MS)

const char *const taker_way_names[TAKER_WAY_COUNT] = {
	[TAKER_AUTO] = "auto",     [TAKER_BLOCK] = "block", [TAKER_POLL] = "poll",
	[TAKER_SETLKW] = "setlkw", [TAKER_SETLK] = "setlk",
};

static uint32_t library_way(enum taker_way way)
{
	switch (way) {
	case TAKER_BLOCK:
		return BERTH_RECORDLOCK_BLOCK;
	case TAKER_POLL:
		return BERTH_RECORDLOCK_POLL;
	default:
		return BERTH_RECORDLOCK_AUTO;
	}
}

int taker_open(struct taker *taker, enum taker_way way, const char *path,
	       void (*report)(void *arg, int err, const char *text), void *arg)
{
	struct berth_recordlock_options options = {
		.size = sizeof(options),
		.way = library_way(way),
		.flags = BERTH_RECORDLOCK_CREATE,
		.report = report,
		.report_arg = arg,
	};

	*taker = (struct taker){ .way = way, .fd = -1 };
	if (way != TAKER_SETLKW && way != TAKER_SETLK)
		return berth_recordlock_open(path, &options, &taker->lock);
	taker->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return taker->fd < 0 ? -errno : 0;
}

static int bare_call(const struct taker *taker, int command, short type)
{
	struct flock lock = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = BERTH_RECORDLOCK_BYTE, .l_len = 1
	};
	int result = 0;

	do
		result = fcntl(taker->fd, command, &lock);
	while (result != 0 && errno == EINTR);
	return result == 0 ? 0 : -errno;
}

int taker_take(struct taker *taker, int64_t timeout_ms, struct berth_recordlock_owner *ret_owner)
{
	uint64_t deadline_ns = berth_deadline_after((uint64_t)timeout_ms * BERTH_NS_PER_MS);
	int err = 0;

	if (taker->lock != NULL)
		return berth_recordlock_take(taker->lock, timeout_ms, ret_owner);
	if (taker->way == TAKER_SETLKW)
		return bare_call(taker, F_SETLKW, F_WRLCK);
	for (;;) {
		taker->try_count++;
		err = bare_call(taker, F_SETLK, F_WRLCK);
		if (err != -EAGAIN && err != -EACCES)
			return err;
		if (berth_deadline_passed(deadline_ns))
			return -ETIMEDOUT;
		berth_sleep_ns(SETLK_PAUSE_NS, deadline_ns);
	}
}

int taker_give(struct taker *taker)
{
	return taker->lock != NULL ? berth_recordlock_give(taker->lock)
				   : bare_call(taker, F_SETLK, F_UNLCK);
}

void taker_trace(const struct taker *taker, struct berth_recordlock_trace *ret_trace)
{
	if (taker->lock != NULL)
		berth_recordlock_trace(taker->lock, ret_trace);
	else
		*ret_trace = (struct berth_recordlock_trace){
			.try_count = taker->try_count,
			.block_count = taker->way == TAKER_SETLKW ? 1 : 0,
			.way = taker->way == TAKER_SETLKW ? BERTH_RECORDLOCK_BLOCK
							  : BERTH_RECORDLOCK_BARE,
		};
}
