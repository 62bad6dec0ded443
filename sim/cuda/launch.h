/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch: a function with its grid and parameters, checked, then run on a stream.
 */
#ifndef BERTH_SIM_CUDA_LAUNCH_H
#define BERTH_SIM_CUDA_LAUNCH_H

#include "sim/cuda/module.h"
#include "sim/cuda/stream_state.h"

struct sim_launch {
	struct sim_function *function;
	unsigned grid[3];
	unsigned block[3];
	unsigned shared_bytes;
	bool is_cooperative;
	void **parameters;           /* pointers to the values, or NULL */
	const unsigned char *buffer; /* the values packed, or NULL */
	size_t buffer_bytes;
};

/* Everything a driver would refuse. */
CUresult sim_launch_check(const struct sim_launch *launch, const struct sim_context *context);
/* Let the plug-in compute, if it knows the kernel, and queue the device time. Checked before. */
CUresult sim_launch_run(struct sim_stream *stream, const struct sim_launch *launch);
/* The extra form of parameters: INVALID_VALUE for a list that isn't whole. */
CUresult sim_launch_extra(struct sim_launch *launch, void **extra);
uint64_t sim_launch_cost_ns(const struct sim_launch *launch, const struct sim_context *context);
/* Blocks of a function that fit on an SM at once. */
unsigned sim_blocks_per_sm(const struct sim_function *function, unsigned threads,
			   size_t dynamic_shared_bytes);

#endif
