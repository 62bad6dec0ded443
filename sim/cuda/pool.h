/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream-ordered memory. A pool reserves device memory (charged to its GPU) in steps of
 * SIM_POOL_STEP and hands it out; what is free in it goes back at the next synchronisation, down to
 * the release threshold, by cuMemPoolTrimTo, or when an allocation would fail otherwise.
 */
#ifndef BERTH_SIM_CUDA_POOL_H
#define BERTH_SIM_CUDA_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "driver/cuda_types.h"

struct sim_context;

#define SIM_POOL_STEP (2UL << 20)

/* NULL means the current pool of the context's device. The context may be NULL if the pool isn't. */
CUresult sim_pool_allocate(CUmemoryPool handle, struct sim_context *context, size_t bytes,
			   CUdeviceptr *ret_pointer);
/* Back to its pool, by exact base; INVALID_VALUE if it isn't of a pool. */
CUresult sim_pool_free(CUdeviceptr pointer);
/* The pool's handle, NULL meaning as above; INVALID_VALUE, or INVALID_HANDLE for a stale one. */
CUresult sim_pool_check(CUmemoryPool handle);

/* Gives up what pools keep unused on this GPU, thresholds or not; true if that was something. */
bool sim_pool_give_up_unused(unsigned gpu);
/* cuDevicePrimaryCtxReset: what the device's own pool handed out is gone. */
void sim_pool_device_reset(CUdevice device);

#endif
