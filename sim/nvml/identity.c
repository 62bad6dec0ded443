/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device is: names and what never changes.
 */
#include <stdio.h>

#include "sim/node/node.h"
#include "sim/nvml/handle.h"

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	unsigned gpu;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetName);
	result = sim_nvml_gpu(device, &gpu);
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	return SIM_NVML_LEAVE(sim_nvml_copy_text(sim_node_gpu(gpu)->name, name, length));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	unsigned gpu;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetUUID);
	result = sim_nvml_gpu(device, &gpu);
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	return SIM_NVML_LEAVE(sim_nvml_copy_text(sim_node_gpu(gpu)->uuid_text, uuid, length));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	unsigned gpu = 0;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetIndex);
	result = sim_nvml_gpu(device, &gpu);
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	return SIM_NVML_LEAVE(sim_nvml_number(device, gpu, index));
}

/* /dev/nvidiaN, were there one. */
SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
	unsigned gpu = 0;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetMinorNumber);
	result = sim_nvml_gpu(device, &gpu);
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	return SIM_NVML_LEAVE(sim_nvml_number(device, gpu, minor));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *brand)
{
	unsigned gpu;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetBrand);
	result = brand ? sim_nvml_gpu(device, &gpu) : NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		*brand = NVML_BRAND_NVIDIA;
	return SIM_NVML_LEAVE(result);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned int *board_id)
{
	unsigned gpu = 0;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetBoardId);
	result = sim_nvml_gpu(device, &gpu);
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	return SIM_NVML_LEAVE(sim_nvml_number(device, sim_node_gpu(gpu)->pci_bus << 8, board_id));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned int *multi)
{
	SIM_NVML_ENTER(nvmlDeviceGetMultiGpuBoard);
	return SIM_NVML_LEAVE(sim_nvml_number(device, 0, multi));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version,
						       unsigned int length)
{
	unsigned gpu;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetVbiosVersion);
	result = sim_nvml_gpu(device, &gpu);
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	return SIM_NVML_LEAVE(sim_nvml_copy_text("00.00.00.00.00", version, length));
}

static unsigned int architecture_of(const struct sim_gpu_config *config)
{
	switch (config->cc_major) {
	case 3:
		return NVML_DEVICE_ARCH_KEPLER;
	case 5:
		return NVML_DEVICE_ARCH_MAXWELL;
	case 6:
		return NVML_DEVICE_ARCH_PASCAL;
	case 7:
		return config->cc_minor < 5 ? NVML_DEVICE_ARCH_VOLTA : NVML_DEVICE_ARCH_TURING;
	case 8:
		return config->cc_minor < 9 ? NVML_DEVICE_ARCH_AMPERE : NVML_DEVICE_ARCH_ADA;
	case 9:
		return NVML_DEVICE_ARCH_HOPPER;
	case 10:
	case 12:
		return NVML_DEVICE_ARCH_BLACKWELL;
	default:
		return NVML_DEVICE_ARCH_UNKNOWN;
	}
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device,
						       nvmlDeviceArchitecture_t *arch)
{
	unsigned gpu = 0;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetArchitecture);
	result = sim_nvml_gpu(device, &gpu);
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	return SIM_NVML_LEAVE(sim_nvml_number(device, architecture_of(sim_node_gpu(gpu)), arch));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major,
								int *minor)
{
	unsigned gpu;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetCudaComputeCapability);
	result = sim_nvml_gpu(device, &gpu);
	if (result == NVML_SUCCESS && (!major || !minor))
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	*major = (int)sim_node_gpu(gpu)->cc_major;
	*minor = (int)sim_node_gpu(gpu)->cc_minor;
	return SIM_NVML_LEAVE(NVML_SUCCESS);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device,
							     nvmlGpuVirtualizationMode_t *mode)
{
	unsigned gpu;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetVirtualizationMode);
	result = mode ? sim_nvml_gpu(device, &gpu) : NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		*mode = NVML_GPU_VIRTUALIZATION_MODE_NONE;
	return SIM_NVML_LEAVE(result);
}

/* A whole card, not a slice of one. */
SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
	SIM_NVML_ENTER(nvmlDeviceIsMigDeviceHandle);
	return SIM_NVML_LEAVE(sim_nvml_number(device, 0, is_mig));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device,
							    unsigned int *count)
{
	SIM_NVML_ENTER(nvmlDeviceGetMaxMigDeviceCount);
	return SIM_NVML_LEAVE(sim_nvml_number(device, 0, count));
}
