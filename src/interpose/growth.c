/* SPDX-License-Identifier: Apache-2.0
 *
 * From NVML, by the difference of two looks. Where our host pid is known it is what NVML books for
 * this very process. Elsewhere our entry can't be told from a
 * neighbour's that grew meanwhile: the least that any one process grew by is charged, since too much
 * would refuse this share's asks for what a neighbour did. Where NVML lists nobody (it hides what
 * a container can't see), the whole GPU's difference is all there is; no context takes more than
 * UNLISTED_MAX_BYTES, so more is somebody else's.
 *
 * NVML is initialised for the two looks only: held initialised it would let the program call it
 * without doing so itself, which must fail as it does without us.
 */
#include "interpose/growth.h"

#include "account/account.h"
#include "account/host_pid.h"
#include "interpose/real.h"

#define UNLISTED_MAX_BYTES (512ULL << 20)
/* Looks that other threads' allocations fell into, before one of them is taken as it is. */
#define LOOK_TRIES 3

static bool look_once(nvmlDevice_t device, struct berth_growth_look *ret_look)
{
	nvmlProcessInfo_t infos[BERTH_GROWTH_PROCESS_MAX] = { 0 };
	unsigned int count = BERTH_GROWTH_PROCESS_MAX;
	nvmlMemory_t memory = { 0 };

	if (REAL_NVML(nvmlDeviceGetMemoryInfo, device, &memory) != NVML_SUCCESS)
		return false;
	ret_look->used_bytes = memory.used;
	ret_look->count = 0;
	if (REAL_NVML(nvmlDeviceGetComputeRunningProcesses_v3, device, &count, infos) !=
	    NVML_SUCCESS)
		return true;
	for (unsigned int i = 0; i < count && i < BERTH_GROWTH_PROCESS_MAX; i++) {
		if (infos[i].usedGpuMemory == NVML_VALUE_NOT_AVAILABLE_ULL)
			continue;
		ret_look->processes[ret_look->count].pid = infos[i].pid;
		ret_look->processes[ret_look->count++].bytes = infos[i].usedGpuMemory;
	}
	return true;
}

static bool look(nvmlDevice_t device, int gpu, struct berth_growth_look *ret_look)
{
	for (int i = 0; i < LOOK_TRIES; i++) {
		uint64_t charged_bytes = berth_account_own_bytes(gpu);

		if (!look_once(device, ret_look))
			return false;
		ret_look->charged_bytes = berth_account_own_bytes(gpu);
		if (ret_look->charged_bytes == charged_bytes)
			break;
	}
	return true;
}

/* A process may be listed more than once: once for each of its contexts. */
static uint64_t bytes_of(const struct berth_growth_look *seen, unsigned int pid, bool *ret_listed)
{
	uint64_t sum = 0;

	*ret_listed = false;
	for (unsigned int i = 0; i < seen->count; i++) {
		if (seen->processes[i].pid != pid)
			continue;
		sum += seen->processes[i].bytes;
		*ret_listed = true;
	}
	return sum;
}

static uint64_t grown(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

/* The same without what was charged, or given back, by itself meanwhile. */
static uint64_t grown_uncharged(uint64_t before, uint64_t after,
				const struct berth_growth_look *first,
				const struct berth_growth_look *last)
{
	return grown(before + last->charged_bytes, after + first->charged_bytes);
}

uint64_t berth_growth_between(const struct berth_growth_look *before,
			      const struct berth_growth_look *after, unsigned int own_pid)
{
	uint64_t whole = grown_uncharged(before->used_bytes, after->used_bytes, before, after);
	uint64_t least = 0;
	bool found = false;
	bool listed, was_listed;

	if (own_pid) {
		uint64_t own = bytes_of(after, own_pid, &listed);

		if (listed)
			return grown_uncharged(bytes_of(before, own_pid, &was_listed), own, before,
					       after);
	}
	for (unsigned int i = 0; !own_pid && i < after->count; i++) {
		unsigned int pid = after->processes[i].pid;
		uint64_t one =
			grown(bytes_of(before, pid, &was_listed), bytes_of(after, pid, &listed));

		/* A neighbour's that stayed as it is doesn't grow by what we gave back. */
		one = grown(grown(before->charged_bytes, after->charged_bytes), one);
		/* Who is new in the list may be us, also if its context took nothing. */
		if ((one || !was_listed) && (!found || one < least)) {
			least = one;
			found = true;
		}
	}
	if (found)
		return least;
	return whole < UNLISTED_MAX_BYTES ? whole : UNLISTED_MAX_BYTES;
}

void berth_growth_begin(int gpu, struct berth_growth *ret_growth)
{
	struct berth_region_gpu of_region;

	ret_growth->running = false;
	ret_growth->gpu = gpu;
	if (!berth_account_gpu_limited(gpu))
		return;
	berth_region_gpu(berth_account_region(), (uint32_t)gpu, &of_region);
	if (REAL_NVML(nvmlInit_v2) != NVML_SUCCESS)
		return;
	ret_growth->running = REAL_NVML(nvmlDeviceGetHandleByUUID, of_region.uuid,
					&ret_growth->device) == NVML_SUCCESS &&
			      look(ret_growth->device, gpu, &ret_growth->before);
	if (!ret_growth->running)
		(void)REAL_NVML(nvmlShutdown); /* balances the init above */
}

uint64_t berth_growth_end(const struct berth_growth *growth)
{
	struct berth_growth_look after = { 0 };
	bool seen;

	if (!growth->running)
		return 0;
	seen = look(growth->device, growth->gpu, &after);
	(void)REAL_NVML(nvmlShutdown); /* balances berth_growth_begin's init */
	if (!seen)
		return 0;
	return berth_growth_between(&growth->before, &after, (unsigned int)berth_host_pid());
}
