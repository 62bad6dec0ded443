/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens around every exported call of this library: the log, injected faults, the answer
 * before nvmlInit.
 */
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/config.h"
#include "sim/node/call_log.h"
#include "sim/node/fault.h"
#include "sim/nvml/entry.h"

static bool is_watched_;
static pthread_once_t once_ = PTHREAD_ONCE_INIT;

/* One variable names faults for both libraries: what begins with cu is the other one's. */
static bool knows(const char *pattern)
{
	if (strncmp(pattern, "cu", 2) == 0)
		return true;
	for (size_t i = 0; i < SIM_NVML_EXPORT_COUNT; i++) {
		if (fnmatch(pattern, sim_nvml_exports[i].symbol, 0) == 0)
			return true;
	}
	return false;
}

static void open_watch(void)
{
	const char *path = getenv("BERTH_SIM_LOG");
	bool logs = path && *path;

	is_watched_ = sim_fault_open(knows) || logs;
	if (logs) {
		int err = sim_log_open(path);

		if (err)
			sim_complain("BERTH_SIM_LOG=%s: %s", path, strerror(-err));
	}
}

static nvmlReturn_t watch_enter(struct sim_nvml_call *call)
{
	struct sim_fault_hit hits[2];
	int code;

	call->record = sim_log_enter(SIM_LOG_NVML_BASE + (uint32_t)call->id);
	code = sim_fault_before(sim_nvml_exports[call->id].symbol, hits);
	for (size_t i = 0; i < 2; i++) {
		call->plans[i] = hits[i].plan;
		call->after[i] = hits[i].after;
	}
	return (nvmlReturn_t)code;
}

nvmlReturn_t sim_nvml_call_enter(struct sim_nvml_call *call)
{
	pthread_once(&once_, open_watch);
	if (is_watched_) {
		nvmlReturn_t code = watch_enter(call);

		if (code != NVML_SUCCESS)
			return code;
	}
	if (!(sim_nvml_exports[call->id].flags & SIM_NVML_NO_INIT) && !sim_nvml_is_initialized())
		return NVML_ERROR_UNINITIALIZED;
	return NVML_SUCCESS;
}

void sim_nvml_call_leave(struct sim_nvml_call *call)
{
	struct sim_fault_hit hits[2];

	if (!is_watched_)
		return;
	for (size_t i = 0; i < 2; i++)
		hits[i] = (struct sim_fault_hit){ call->plans[i], call->after[i] };
	sim_fault_after(hits);
	sim_log_leave(call->record, call->result_known ? (int32_t)call->result : -1);
}
