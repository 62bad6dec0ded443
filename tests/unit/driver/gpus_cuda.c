/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver of FAKE_CUDA_COUNT GPUs that wants cuInit first.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/attributes.h"
#include "driver/cuda_functions.h"

static bool ready;

BERTH_EXPORT CUresult cuInit(unsigned int flags)
{
	if (getenv("FAKE_CUDA_BROKEN") != NULL)
		return CUDA_ERROR_NO_DEVICE;
	ready = flags == 0;
	return CUDA_SUCCESS;
}

BERTH_EXPORT CUresult cuDeviceGetCount(int *count)
{
	const char *text = getenv("FAKE_CUDA_COUNT");

	if (!ready)
		return CUDA_ERROR_NOT_INITIALIZED;
	*count = text != NULL ? atoi(text) : 1;
	return CUDA_SUCCESS;
}

BERTH_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return CUDA_SUCCESS;
}

BERTH_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	for (int i = 0; i < 16; i++)
		uuid->bytes[i] = (char)(0xf0 - 0x0f * i + device);
	return CUDA_SUCCESS;
}

BERTH_EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	snprintf(name, (size_t)length, "CUDA card %d", device);
	return CUDA_SUCCESS;
}

BERTH_EXPORT CUresult cuDeviceGetPCIBusId(char *pci_bus_id, int length, CUdevice device)
{
	if (device != 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(pci_bus_id, (size_t)length, "0000:af:00.0");
	return CUDA_SUCCESS;
}

BERTH_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	*bytes = (size_t)(device + 5) << 30;
	return CUDA_SUCCESS;
}
