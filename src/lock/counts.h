/* SPDX-License-Identifier: Apache-2.0
 *
 * What was done to wait: berth_recordlock_trace's figures. One writer at a time, who has the guard; read by
 * anybody meanwhile.
 */
#ifndef BERTH_LOCK_COUNTS_H
#define BERTH_LOCK_COUNTS_H

#include <stdatomic.h>
#include <stdint.h>

struct berth_lock_counts {
	_Atomic uint64_t try_count;
	_Atomic uint64_t block_count;
	_Atomic uint64_t nap_count;
	_Atomic uint64_t hint_count;
};

/* Not a read-modify-write, which would cost a free lock more than the rest of the library's part. */
static inline void berth_lock_count(_Atomic uint64_t *counter)
{
	uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);

	atomic_store_explicit(counter, before + 1, memory_order_relaxed);
}

#endif
