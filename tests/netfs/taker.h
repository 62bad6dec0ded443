/* SPDX-License-Identifier: Apache-2.0
 *
 * One byte of a file, taken through the library or by the bare system calls, to set the two side by side.
 */
#ifndef BERTH_TESTS_NETFS_TAKER_H
#define BERTH_TESTS_NETFS_TAKER_H

#include <berth/recordlock.h>
#include <stdint.h>

#include "base/attributes.h"

enum taker_way {
	TAKER_AUTO, /* the library, as it chooses */
	TAKER_BLOCK,
	TAKER_POLL,
	TAKER_SETLKW, /* fcntl(F_SETLKW), nothing else; no deadline */
	TAKER_SETLK,  /* fcntl(F_SETLK) every 10 ms */
	TAKER_WAY_COUNT,
};

extern const char *const taker_way_names[TAKER_WAY_COUNT];

struct taker {
	enum taker_way way;
	struct berth_recordlock *lock; /* the library's, or … */
	int fd;                        /* … a bare descriptor */
	uint64_t try_count;
};

/* 0 or -errno, all of them. `report` is the library's callback. */
BERTH_MUST_CHECK int taker_open(struct taker *taker, enum taker_way way, const char *path,
				void (*report)(void *arg, int err, const char *text), void *arg);
BERTH_MUST_CHECK int taker_take(struct taker *taker, int64_t timeout_ms,
				struct berth_recordlock_owner *ret_owner);
BERTH_MUST_CHECK int taker_give(struct taker *taker);
void taker_trace(const struct taker *taker, struct berth_recordlock_trace *ret_trace);

#endif
