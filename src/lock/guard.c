/* SPDX-License-Identifier: Apache-2.0
 *
 * See guard.h. Rejected: pthread_mutex_t. Its bounded wait on the monotonic clock is newer than the oldest
 * libc we load into, it must be left by the thread that entered, and a copy of a held one in a
 * fork child can only be overwritten. Killed anywhere: nothing is shared with another process.
 */
#include "lock/guard.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <time.h>

#include "base/clock.h"
#include "lock/kernel.h"

static uint64_t thread_serial(void)
{
	static _Atomic uint64_t last;
	static __thread uint64_t own; /* 0 in each new thread, wherever its stack lies */

	if (own == 0)
		own = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
	return own;
}

uint64_t berth_patience_deadline(struct berth_patience *patience)
{
	uint64_t ns = UINT64_MAX;

	if (patience->deadline_ns != 0)
		return patience->deadline_ns;
	if (__builtin_mul_overflow((uint64_t)patience->timeout_ms, BERTH_NS_PER_MS, &ns))
		ns = UINT64_MAX;
	patience->deadline_ns = berth_deadline_after(ns);
	return patience->deadline_ns;
}

/* Something changed, or a signal came: ask the word. */
static int guard_sleep(struct berth_guard *guard, uint64_t deadline_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(deadline_ns / BERTH_NS_PER_S),
		.tv_nsec = (long)(deadline_ns % BERTH_NS_PER_S),
	};
	long r = BERTH_KERNEL_6(futex, &guard->word, FUTEX_WAIT_BITSET_PRIVATE, 2, &until, NULL,
				FUTEX_BITSET_MATCH_ANY);

	return r == -ETIMEDOUT ? -ETIMEDOUT : 0;
}

static int guard_wait(struct berth_guard *guard, struct berth_patience *patience)
{
	if (patience->timeout_ms == 0)
		return -ETIMEDOUT;
	/* Acquire pairs with the release in leave: what the one before wrote is seen. */
	while (atomic_exchange_explicit(&guard->word, 2, memory_order_acquire) != 0) {
		int r = guard_sleep(guard, berth_patience_deadline(patience));

		if (r < 0)
			return r;
	}
	return 0;
}

int berth_guard_enter(struct berth_guard *guard, struct berth_patience *patience)
{
	uint64_t self = thread_serial();
	uint32_t expected = 0;

	if (!atomic_compare_exchange_strong_explicit(&guard->word, &expected, 1,
						     memory_order_acquire, memory_order_relaxed)) {
		/* Relaxed: only we ourselves could have written our serial. */
		if (atomic_load_explicit(&guard->owner, memory_order_relaxed) == self)
			return -EDEADLK;
		int r = guard_wait(guard, patience);

		if (r < 0)
			return r;
	}
	atomic_store_explicit(&guard->owner, self, memory_order_relaxed);
	return 0;
}

void berth_guard_leave(struct berth_guard *guard)
{
	atomic_store_explicit(&guard->owner, 0, memory_order_relaxed);
	if (atomic_exchange_explicit(&guard->word, 0, memory_order_release) == 2)
		(void)BERTH_KERNEL_3(futex, &guard->word, FUTEX_WAKE_PRIVATE, 1);
}

void berth_guard_forget(struct berth_guard *guard)
{
	atomic_store_explicit(&guard->owner, 0, memory_order_relaxed);
	atomic_store_explicit(&guard->word, 0, memory_order_relaxed);
}
