/* SPDX-License-Identifier: Apache-2.0
 *
 * The guard of a lock byte: keeps the threads of one process in order, as the kernel's record lock
 * belongs to the process and lets them all in. One word and a futex: a wait with a deadline of
 * CLOCK_MONOTONIC, no system call when nobody is in the way, and a fork child can simply clear it.
 *
 * Any thread may leave a guard that another one has entered.
 */
#ifndef BERTH_LOCK_GUARD_H
#define BERTH_LOCK_GUARD_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/attributes.h"

struct berth_guard {
	_Atomic uint32_t word;  /* 0 free, 1 entered, 2 entered and somebody may wait */
	_Atomic uint64_t owner; /* which thread; 0 = none. Never used twice, unlike thread ids */
};

/* How long a caller waits, from when he first has to: a lock that is free costs no look at the clock. */
struct berth_patience {
	int64_t timeout_ms;
	uint64_t deadline_ns; /* 0 = not waited yet */
};

uint64_t berth_patience_deadline(struct berth_patience *patience);

/* -EDEADLK: this very thread has entered. -ETIMEDOUT. */
BERTH_MUST_CHECK int berth_guard_enter(struct berth_guard *guard, struct berth_patience *patience);
void berth_guard_leave(struct berth_guard *guard);

/* In a fork child, which has no other thread yet. */
void berth_guard_forget(struct berth_guard *guard);

#endif
