/* SPDX-License-Identifier: Apache-2.0
 *
 * Which GPU of the share: CUDA's ordinal, NVML's index and the region's are three things, joined by
 * UUID and remembered. And where this thread's allocations land.
 */
#ifndef BERTH_INTERPOSE_GPU_H
#define BERTH_INTERPOSE_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attributes.h"
#include "driver/cuda_types.h"

/* Is this program limited? True when attached; decides first if a driver that we did not see
 * initialised is already up. */
bool berth_gpu_attached(void);

/* Index in the region, or -ENODEV: not a GPU of the share (said once). Only when attached. */
int berth_gpu_of_device(CUdevice device);

struct berth_place {
	int gpu;
	uint64_t context;
};

/* The current context and its GPU. CUDA_SUCCESS, or the driver's error; the context is then 0 if
 * there is none (or no initialised driver). */
BERTH_MUST_CHECK CUresult berth_place_current(struct berth_place *place);

/* A context died: its handle may come back on another GPU. */
void berth_place_invalidate(void);

/* In a fork child. */
void berth_place_forget(void);

#endif
