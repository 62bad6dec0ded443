/* SPDX-License-Identifier: Apache-2.0
 *
 * See process_list.h.
 */
#include "interpose/process_list.h"

#include <stdlib.h>

#include "interpose/real.h"

#define SPARE 16U /* who comes between two calls */
#define TRIES 3

static bool fill(const nvmlProcessInfo_t *infos, unsigned int count,
		 struct berth_process_list *list)
{
	struct berth_process_entry *entries = calloc(count ? count : 1, sizeof(*entries));
	uint32_t told = 0;

	if (!entries)
		return false;
	for (unsigned int i = 0; i < count; i++) {
		if (infos[i].usedGpuMemory == NVML_VALUE_NOT_AVAILABLE_ULL)
			continue;
		entries[told].pid = infos[i].pid;
		entries[told++].bytes = infos[i].usedGpuMemory;
	}
	*list = (struct berth_process_list){ .count = told, .entries = entries };
	return true;
}

bool berth_process_list_read(nvmlDevice_t device, struct berth_process_list *list)
{
	nvmlReturn_t result = NVML_ERROR_UNKNOWN;
	nvmlProcessInfo_t *infos = NULL;
	unsigned int room = 0;
	unsigned int count = 0;
	bool read;

	for (int i = 0; i < TRIES; i++) {
		nvmlProcessInfo_t *larger;

		room = count + SPARE;
		larger = realloc(infos, room * sizeof(*infos));
		if (!larger)
			break;
		infos = larger;
		count = room;
		result = REAL_NVML(nvmlDeviceGetComputeRunningProcesses_v3, device, &count, infos);
		if (result != NVML_ERROR_INSUFFICIENT_SIZE)
			break;
	}
	read = result == NVML_SUCCESS && fill(infos, count < room ? count : room, list);
	free(infos);
	return read;
}

void berth_process_list_done(struct berth_process_list *list)
{
	free(list->entries);
	*list = (struct berth_process_list){ 0 };
}

uint64_t berth_process_list_bytes(const struct berth_process_list *list, unsigned int pid,
				  bool *ret_listed)
{
	uint64_t sum = 0;

	*ret_listed = false;
	for (uint32_t i = 0; i < list->count; i++) {
		if (list->entries[i].pid != pid)
			continue;
		sum += list->entries[i].bytes;
		*ret_listed = true;
	}
	return sum;
}
