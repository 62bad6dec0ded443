/* SPDX-License-Identifier: Apache-2.0
 *
 * A way to wait for a lock between processes, as the lock's benchmarks try it: the record lock's own
 * ways, and the bare system calls that no way can beat.
 */
#ifndef BERTH_BENCH_LOCK_WAY_H
#define BERTH_BENCH_LOCK_WAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attributes.h"

struct berth_recordlock;
struct lock_way;

/* One process's lock, opened one way. */
struct lock_user {
	const struct lock_way *way;
	struct berth_recordlock *lock; /* NULL: bare */
	int fd;                        /* of a bare one */
};

/* Everything returns 0 or -errno. */
struct lock_way {
	const char *name;    /* in keys */
	uint32_t recordlock; /* enum berth_recordlock_way; AUTO: bare */
	bool is_queue;       /* waits in the kernel's queue: /proc/locks shows who waits */
	int (*open)(const struct lock_way *way, const char *path, struct lock_user *ret_user);
	int (*take)(struct lock_user *user, int64_t timeout_ms); /* 0: one try */
	int (*give)(struct lock_user *user);
	void (*close)(struct lock_user *user);
};

extern const struct lock_way lock_way_blocking;
extern const struct lock_way lock_way_hinted;
extern const struct lock_way lock_way_polling;
/* fcntl() itself. It knows no time-out: it waits until it is granted, or tries once. */
extern const struct lock_way lock_way_bare;

#endif
