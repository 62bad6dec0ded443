/* SPDX-License-Identifier: Apache-2.0
 *
 * Between context.c and the files with the exported calls on contexts.
 */
#ifndef BERTH_SIM_CUDA_CONTEXT_INTERNAL_H
#define BERTH_SIM_CUDA_CONTEXT_INTERNAL_H

#include "sim/cuda/context.h"

/* Not alive yet. NULL without memory. */
struct sim_context *sim_context_alloc(CUdevice device, bool is_primary);
/* Charges what a context takes and brings it to life. */
CUresult sim_context_begin(struct sim_context *context, unsigned flags);
/* Takes it down with all that hangs on it; false if somebody else already did. */
bool sim_context_end(struct sim_context *context);

/* The calling thread's stack; the top may be dead. */
struct sim_context *sim_context_stack_top(void);
CUresult sim_context_stack_push(struct sim_context *context);
void sim_context_stack_pop(void);

static inline bool sim_context_flags_are_good(unsigned flags)
{
	unsigned schedule = flags & CU_CTX_SCHED_MASK;

	return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) &&
	       (schedule == CU_CTX_SCHED_AUTO || schedule == CU_CTX_SCHED_SPIN ||
		schedule == CU_CTX_SCHED_YIELD || schedule == CU_CTX_SCHED_BLOCKING_SYNC);
}

#endif
