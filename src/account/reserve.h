/* SPDX-License-Identifier: Apache-2.0
 *
 * What pools of stream-ordered memory keep for themselves. A pool whose program set a release
 * threshold keeps freed memory up to it; that memory is taken from the card, so it is charged here,
 * beside the blocks. A pool without a threshold gives freed memory back at the next
 * synchronisation: its charge follows the frees, and it is not watched.
 *
 * kept = what the driver says is reserved, at most the threshold, less what is in use. An allocation from a
 * watched pool turns kept bytes into block bytes, so it is not charged twice nor refused for room
 * that its pool already has. Thread-safe; calls no driver.
 */
#ifndef BERTH_ACCOUNT_RESERVE_H
#define BERTH_ACCOUNT_RESERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"

#define BERTH_RESERVE_POOL_MAX 64

/* Is any pool watched? One load: the usual program stops here. */
bool berth_reserve_any(void);

/* The program set a release threshold; 0 = stop watching. */
void berth_reserve_watch(uint64_t pool, int gpu, uint64_t threshold_bytes);
void berth_reserve_unwatch(uint64_t pool);

/* The i-th watched pool, to measure it. false: no more. */
BERTH_MUST_CHECK bool berth_reserve_pool(size_t i, uint64_t *ret_pool, int *ret_gpu);
/* What the driver says of a pool, in bytes: charges or refunds the difference to the last word. */
void berth_reserve_measured(uint64_t pool, uint64_t reserved_bytes, uint64_t used_bytes);

/* An ask of bytes from pool: how many of them it has already, which stay charged and are now the
 * caller's. The caller asks for the rest only. */
uint64_t berth_reserve_use(uint64_t pool, uint64_t bytes);

/* In a fork child. */
void berth_reserve_forget(void);

#endif
