/* SPDX-License-Identifier: Apache-2.0
 *
 * From NVML: what it books for this very process where our pid is the one that NVML speaks (the
 * initial pid namespace), else what the whole GPU lost meanwhile. The second may be partly another
 * process's doing: a context is then charged too much or too little until it ends.
 *
 * NVML is initialised for the two looks only: held initialised it would let the program call it
 * without doing so itself, which must fail as it does without us.
 */
#include "interpose/growth.h"

#include <unistd.h>

#include "account/account.h"
#include "base/process.h"
#include "interpose/real.h"

#define PROCESS_MAX 512

/* Bytes that NVML books for this process on the device. false: not listed. */
static bool own_bytes(nvmlDevice_t device, uint64_t *ret_bytes)
{
	nvmlProcessInfo_t infos[PROCESS_MAX] = { 0 };
	unsigned int count = PROCESS_MAX;
	unsigned int pid = (unsigned int)getpid();
	uint64_t sum = 0;
	bool listed = false;

	if (REAL_NVML(nvmlDeviceGetComputeRunningProcesses_v3, device, &count, infos) !=
	    NVML_SUCCESS)
		return false;
	for (unsigned int i = 0; i < count && i < PROCESS_MAX; i++) {
		if (infos[i].pid != pid || infos[i].usedGpuMemory == NVML_VALUE_NOT_AVAILABLE_ULL)
			continue;
		sum += infos[i].usedGpuMemory;
		listed = true;
	}
	if (listed)
		*ret_bytes = sum;
	return listed;
}

static bool used_bytes(nvmlDevice_t device, uint64_t *ret_bytes)
{
	nvmlMemory_t memory = { 0 };

	if (REAL_NVML(nvmlDeviceGetMemoryInfo, device, &memory) != NVML_SUCCESS)
		return false;
	*ret_bytes = memory.used;
	return true;
}

struct berth_growth berth_growth_begin(int gpu)
{
	struct berth_growth growth = { 0 };
	struct berth_region_gpu of_region;

	if (!berth_account_gpu_limited(gpu))
		return growth;
	berth_region_gpu(berth_account_region(), (uint32_t)gpu, &of_region);
	if (REAL_NVML(nvmlInit_v2) != NVML_SUCCESS)
		return growth;
	growth.running = REAL_NVML(nvmlDeviceGetHandleByUUID, of_region.uuid, &growth.device) ==
				 NVML_SUCCESS &&
			 used_bytes(growth.device, &growth.used_bytes);
	if (!growth.running) {
		(void)REAL_NVML(nvmlShutdown); /* balances the init above */
		return growth;
	}
	/* Not listed: no context of ours is there yet. */
	if (berth_process_in_initial_pid_namespace()) {
		growth.own_known = true;
		if (!own_bytes(growth.device, &growth.own_bytes))
			growth.own_bytes = 0;
	}
	return growth;
}

uint64_t berth_growth_end(const struct berth_growth *growth)
{
	uint64_t before = growth->own_bytes;
	uint64_t after = 0;

	if (!growth->running)
		return 0;
	if (!growth->own_known || !own_bytes(growth->device, &after)) {
		before = growth->used_bytes;
		if (!used_bytes(growth->device, &after))
			after = 0;
	}
	(void)REAL_NVML(nvmlShutdown); /* balances berth_growth_begin's init */
	return after > before ? after - before : 0;
}
