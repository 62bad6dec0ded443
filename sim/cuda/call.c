/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens around every exported call: the log, injected faults, the answer before cuInit.
 * Without a log and without faults it is one load and the init check: the benchmarks measure
 * what others add to a call, and the simulator must not drown that.
 */
#include <fnmatch.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/entry.h"
#include "sim/node/call_log.h"
#include "sim/node/fault.h"

enum watch {
	WATCH_UNKNOWN = 0,
	WATCH_NOTHING,
	WATCH_CALLS,
};

static _Atomic enum watch watch_;
static pthread_once_t once_ = PTHREAD_ONCE_INIT;

/* One variable names faults for both libraries: what begins with nvml is the other one's. */
static bool knows(const char *pattern)
{
	if (strncmp(pattern, "nvml", 4) == 0)
		return true;
	for (size_t i = 0; i < SIM_EXPORT_COUNT; i++) {
		if (fnmatch(pattern, sim_exports[i].symbol, 0) == 0)
			return true;
	}
	return false;
}

static void open_watch(void)
{
	const char *path = getenv("BERTH_SIM_LOG");
	bool faults = sim_fault_open(knows);
	bool log = path && *path;

	if (log) {
		int err = sim_log_open(path);

		if (err)
			fprintf(stderr, "berth-sim: BERTH_SIM_LOG=%s: %s\n", path, strerror(-err));
	}
	/* pairs with the acquire in is_watched: the plans and the log are in place */
	atomic_store_explicit(&watch_, faults || log ? WATCH_CALLS : WATCH_NOTHING,
			      memory_order_release);
}

static bool is_watched(void)
{
	enum watch watch = atomic_load_explicit(&watch_, memory_order_acquire);

	if (__builtin_expect(watch == WATCH_NOTHING, 1))
		return false;
	if (watch == WATCH_UNKNOWN)
		pthread_once(&once_, open_watch);
	return atomic_load_explicit(&watch_, memory_order_acquire) == WATCH_CALLS;
}

static CUresult watch_enter(struct sim_call *call)
{
	struct sim_fault_hit hits[2];
	int code;

	call->record = sim_log_enter(call->id);
	code = sim_fault_before(sim_exports[call->id].symbol, hits);
	for (size_t i = 0; i < 2; i++) {
		call->fault[i] = hits[i].plan;
		call->marks[i] = hits[i].after;
	}
	return (CUresult)code;
}

CUresult sim_call_enter(struct sim_call *call)
{
	if (__builtin_expect(is_watched(), 0)) {
		CUresult code = watch_enter(call);

		if (code != CUDA_SUCCESS)
			return code;
	}
	if (!(sim_exports[call->id].flags & SIM_EXPORT_NO_INIT) && !sim_is_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	return CUDA_SUCCESS;
}

void sim_call_leave(struct sim_call *call)
{
	struct sim_fault_hit hits[2];

	if (__builtin_expect(!is_watched(), 1))
		return;
	for (size_t i = 0; i < 2; i++)
		hits[i] = (struct sim_fault_hit){ call->fault[i], call->marks[i] };
	sim_fault_after(hits);
	sim_log_leave(call->record, call->result_known ? (int32_t)call->result : -1);
}
