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
	CUdevice device;
	uint64_t context;
};

/* The current context and its GPU. CUDA_SUCCESS, or the driver's error; the context is then 0 if
 * there is none (or no initialised driver). */
BERTH_MUST_CHECK CUresult berth_place_current(struct berth_place *place);

/* The context that a stream belongs to, and its GPU: stream-ordered memory lies there, whatever is
 * current. The default streams are the current context's; so is, for us, a stream while a capture runs
 * (no call of ours may come near it). */
BERTH_MUST_CHECK CUresult berth_place_stream(CUstream stream, struct berth_place *place);

/* A context died: its handle may come back on another GPU. */
void berth_place_invalidate(void);

/* In a fork child. */
void berth_place_forget(void);

#endif
