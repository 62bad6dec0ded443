/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools of stream-ordered memory: which GPU a pool is of, and what watched pools keep
 * (account/reserve.h), measured by the driver's own figures.
 */
#ifndef BERTH_INTERPOSE_POOL_H
#define BERTH_INTERPOSE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda_types.h"

/* true and the region's GPU index (or -ENODEV); false for a pool of host memory, or one the driver
 * will refuse. */
bool berth_pool_gpu(CUmemoryPool pool, int *ret_gpu);

/* The pool that cuMemAllocAsync takes from on a device; NULL if the driver doesn't say. */
CUmemoryPool berth_pool_current(CUdevice device);

/* Owner of blocks from a GPU's own pool: they die when the primary context is reset. 0 if the
 * program has set another pool as current. */
uint64_t berth_pool_owner(int gpu);

/* After an allocation, a free or a trim: what watched pools keep now. Nothing when none is watched or
 * a capture runs. */
void berth_pools_measure(void);
/* Before a refusal: what a driver does under pressure, gives up what this GPU's watched pools keep
 * unused. true if any was asked to. */
bool berth_pools_trim(int gpu);

/* In a fork child. */
void berth_pools_forget(void);

#endif
