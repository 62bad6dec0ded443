/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the program that streams call. One thread, started with the first of them, runs them
 * in the order they were added, each when the GPU has done what stands before it.
 */
#ifndef BERTH_SIM_CUDA_HOST_WORK_H
#define BERTH_SIM_CUDA_HOST_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda_types.h"
#include "sim/cuda/stream_state.h"

struct sim_host_work {
	CUhostFn function; /* or callback */
	CUstreamCallback callback;
	CUstream stream; /* as the program named it, for the callback */
	void *data;
};

/* *ret_gate is its number: greater than all before it. OUT_OF_MEMORY. */
CUresult sim_host_work_add(unsigned gpu, struct sim_position after,
			   const struct sim_host_work *work, uint64_t *ret_gate);
bool sim_host_work_done(uint64_t gate);
/* NOT_PERMITTED in a host function itself: it would wait for its own end. */
CUresult sim_host_work_wait(uint64_t gate);
/* May the calling thread use the driver? Not from within a host function. */
bool sim_host_work_is_here(void);

#endif
