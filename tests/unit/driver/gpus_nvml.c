/* SPDX-License-Identifier: Apache-2.0
 *
 * An NVML of FAKE_COUNT GPUs: FAKE_LOST is the index of one that does not answer, FAKE_INIT what
 * nvmlInit_v2 returns. It wants to be initialised, and counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "driver/nvml_functions.h"

BERTH_EXPORT extern int fake_nvml_init_count;
int fake_nvml_init_count;

static long number(const char *name, long otherwise)
{
	const char *text = getenv(name);

	return text != NULL ? strtol(text, NULL, 10) : otherwise;
}

/* A handle is the index plus one. */
static unsigned int index_of(nvmlDevice_t device)
{
	return (unsigned int)(uintptr_t)device - 1;
}

BERTH_EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	if (number("FAKE_INIT", 0) != 0)
		return (nvmlReturn_t)number("FAKE_INIT", 0);
	fake_nvml_init_count++;
	return NVML_SUCCESS;
}

BERTH_EXPORT nvmlReturn_t nvmlShutdown(void)
{
	fake_nvml_init_count--;
	return NVML_SUCCESS;
}

BERTH_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	return result == NVML_ERROR_DRIVER_NOT_LOADED ? "no driver, says NVML" : "other";
}

BERTH_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	if (fake_nvml_init_count == 0)
		return NVML_ERROR_UNINITIALIZED;
	*count = (unsigned int)number("FAKE_COUNT", 3);
	return NVML_SUCCESS;
}

BERTH_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	if ((long)index == number("FAKE_LOST", -1))
		return NVML_ERROR_GPU_IS_LOST;
	*device = (nvmlDevice_t)(uintptr_t)(index + 1);
	return NVML_SUCCESS;
}

BERTH_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	snprintf(uuid, length, "GPU-number-%u", index_of(device));
	return NVML_SUCCESS;
}

BERTH_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	snprintf(name, length, "Card %u", index_of(device));
	return NVML_SUCCESS;
}

BERTH_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	memset(pci, 0, sizeof(*pci));
	snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", index_of(device) + 1);
	return NVML_SUCCESS;
}

BERTH_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	if (index_of(device) == 2)
		return NVML_ERROR_NOT_SUPPORTED;
	*memory = (nvmlMemory_t){ .total = (index_of(device) + 1ULL) << 30 };
	return NVML_SUCCESS;
}
