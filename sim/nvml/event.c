/* SPDX-License-Identifier: Apache-2.0
 *
 * Events: sets can be made and waited for, and nothing ever happens.
 */
#include <stdlib.h>
#include <time.h>

#include "sim/nvml/handle.h"

struct nvmlEventSet_st {
	unsigned long long types;
};

SIM_NVML_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	nvmlEventSet_t made;

	SIM_NVML_ENTER(nvmlEventSetCreate);
	if (!set)
		return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
	made = calloc(1, sizeof(*made));
	if (!made)
		return SIM_NVML_LEAVE(NVML_ERROR_MEMORY);
	*set = made;
	return SIM_NVML_LEAVE(NVML_SUCCESS);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	SIM_NVML_ENTER(nvmlEventSetFree);
	if (!set)
		return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
	free(set);
	return SIM_NVML_LEAVE(NVML_SUCCESS);
}

static nvmlReturn_t wait_in_vain(nvmlEventSet_t set, const nvmlEventData_t *data,
				 unsigned int timeout_ms)
{
	struct timespec left = {
		.tv_sec = timeout_ms / 1000,
		.tv_nsec = (long)(timeout_ms % 1000) * 1000000,
	};

	if (!set || !data)
		return NVML_ERROR_INVALID_ARGUMENT;
	nanosleep(&left, NULL);
	return NVML_ERROR_TIMEOUT;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data,
					      unsigned int timeout_ms)
{
	SIM_NVML_ENTER(nvmlEventSetWait);
	return SIM_NVML_LEAVE(wait_in_vain(set, data, timeout_ms));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
						 unsigned int timeout_ms)
{
	SIM_NVML_ENTER(nvmlEventSetWait_v2);
	return SIM_NVML_LEAVE(wait_in_vain(set, data, timeout_ms));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
						      nvmlEventSet_t set)
{
	unsigned gpu;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceRegisterEvents);
	result = sim_nvml_gpu(device, &gpu);
	if (result == NVML_SUCCESS && !set)
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		set->types |= types;
	return SIM_NVML_LEAVE(result);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device,
							      unsigned long long *types)
{
	unsigned gpu;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetSupportedEventTypes);
	result = sim_nvml_gpu(device, &gpu);
	if (result == NVML_SUCCESS && !types)
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		*types = 0x1f;
	return SIM_NVML_LEAVE(result);
}
