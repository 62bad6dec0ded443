/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiling: nothing listens, so starting and stopping only check that there is a context.
 */
#include "sim/cuda/context.h"
#include "sim/cuda/entry.h"

static CUresult need_context(void)
{
	struct sim_context *context;

	return sim_context_current(&context);
}

SIM_EXPORT CUresult cuProfilerStart(void)
{
	SIM_ENTER(cuProfilerStart);
	return SIM_LEAVE(need_context());
}

SIM_EXPORT CUresult cuProfilerStop(void)
{
	SIM_ENTER(cuProfilerStop);
	return SIM_LEAVE(need_context());
}
