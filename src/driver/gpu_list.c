/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine's GPUs, asked from NVML or from the driver.
 */
#include "driver/gpu_list.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "driver/driver.h"
#include "driver/nvml.h"
#include "driver/walk.h"

static_assert(BERTH_GPU_UUID_SIZE >= NVML_DEVICE_UUID_V2_BUFFER_SIZE, "NVML's longest UUID fits");

void berth_gpu_uuid_format(const char bytes[16], char ret_uuid[BERTH_GPU_UUID_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	char *out = ret_uuid;

	memset(ret_uuid, 0, BERTH_GPU_UUID_SIZE);
	out = stpcpy(out, "GPU-");
	for (int i = 0; i < 16; i++) {
		unsigned char byte = (unsigned char)bytes[i];

		if (i == 4 || i == 6 || i == 8 || i == 10)
			*out++ = '-';
		*out++ = digits[byte >> 4];
		*out++ = digits[byte & 15];
	}
}

static const char *nvml_words(const struct berth_nvml *nvml, nvmlReturn_t error)
{
	const char *words = nvml->nvmlErrorString != NULL ? nvml->nvmlErrorString(error) : NULL;

	return words != NULL ? words : "NVML gives no reason";
}

/* One GPU; false if it does not answer (lost, no permission): its index then stays a gap. */
static bool nvml_gpu(const struct berth_nvml *nvml, uint32_t index, struct berth_gpu *gpu)
{
	nvmlDevice_t device;
	nvmlMemory_t memory;
	nvmlPciInfo_t pci;

	*gpu = (struct berth_gpu){ .index = index };
	if (nvml->nvmlDeviceGetHandleByIndex_v2(index, &device) != NVML_SUCCESS)
		return false;
	if (nvml->nvmlDeviceGetUUID(device, gpu->uuid, sizeof(gpu->uuid)) != NVML_SUCCESS)
		return false;
	if (nvml->nvmlDeviceGetName == NULL ||
	    nvml->nvmlDeviceGetName(device, gpu->name, sizeof(gpu->name)) != NVML_SUCCESS)
		gpu->name[0] = '\0';
	if (nvml->nvmlDeviceGetPciInfo_v3 != NULL &&
	    nvml->nvmlDeviceGetPciInfo_v3(device, &pci) == NVML_SUCCESS)
		snprintf(gpu->pci_bus_id, sizeof(gpu->pci_bus_id), "%.*s",
			 (int)sizeof(pci.busId) - 1, pci.busId);
	if (nvml->nvmlDeviceGetMemoryInfo != NULL &&
	    nvml->nvmlDeviceGetMemoryInfo(device, &memory) == NVML_SUCCESS)
		gpu->memory_total_bytes = memory.total;
	return true;
}

static int nvml_gpus(const struct berth_nvml *nvml, struct berth_gpu *gpus, uint32_t max,
		     uint32_t *ret_count, struct berth_reason *reason)
{
	unsigned int present_count = 0;
	nvmlReturn_t result = nvml->nvmlDeviceGetCount_v2(&present_count);
	uint32_t count = 0;

	if (result != NVML_SUCCESS)
		return berth_reason_set(reason, -ENODEV, "NVML can't count the GPUs: %s",
					nvml_words(nvml, result));
	if (present_count > max)
		return berth_reason_set(reason, -E2BIG, "%u GPUs, at most %u are supported",
					present_count, max);
	for (uint32_t i = 0; i < present_count; i++) {
		if (nvml_gpu(nvml, i, &gpus[count]))
			count++;
	}
	if (count == 0)
		return berth_reason_set(reason, -ENODEV, "NVML shows no GPU that answers");
	*ret_count = count;
	return 0;
}

static int nvml_list(struct berth_gpu *gpus, uint32_t max, uint32_t *ret_count,
		     struct berth_reason *reason)
{
	const struct berth_nvml *nvml = berth_nvml();
	nvmlReturn_t result;
	int err;

	if (nvml->nvmlInit_v2 == NULL || nvml->nvmlShutdown == NULL ||
	    nvml->nvmlDeviceGetCount_v2 == NULL || nvml->nvmlDeviceGetHandleByIndex_v2 == NULL ||
	    nvml->nvmlDeviceGetUUID == NULL)
		return berth_reason_set(reason, -ENOENT, "no usable " BERTH_NVML_SONAME);
	result = berth_nvml_start();
	if (result != NVML_SUCCESS)
		return berth_reason_set(reason, -ENODEV, "NVML does not start: %s",
					nvml_words(nvml, result));
	err = nvml_gpus(nvml, gpus, max, ret_count, reason);
	berth_nvml_stop();
	return err;
}

/* A program that never calls NVML must not find, in a child, a lock of NVML's held because we did. */
int berth_gpu_list_nvml(struct berth_gpu *gpus, uint32_t max, uint32_t *ret_count,
			struct berth_reason *reason)
{
	berth_walk_enter();
	int err = nvml_list(gpus, max, ret_count, reason);
	berth_walk_leave();
	return err;
}

/* The driver writes the PCI domain with four digits, NVML with eight: one way here. */
static void driver_pci(const struct berth_driver *driver, CUdevice device,
		       char ret_pci[BERTH_GPU_PCI_SIZE])
{
	char pci[BERTH_GPU_PCI_SIZE - 4];

	if (driver->cuDeviceGetPCIBusId == NULL ||
	    driver->cuDeviceGetPCIBusId(pci, sizeof(pci), device) != CUDA_SUCCESS)
		return;
	snprintf(ret_pci, BERTH_GPU_PCI_SIZE, "%s%s", strcspn(pci, ":") == 4 ? "0000" : "", pci);
}

static bool driver_gpu(const struct berth_driver *driver, uint32_t index, struct berth_gpu *gpu)
{
	CUdevice device;
	CUuuid uuid;
	size_t bytes;

	*gpu = (struct berth_gpu){ .index = index };
	if (driver->cuDeviceGet(&device, (int)index) != CUDA_SUCCESS)
		return false;
	if (driver->cuDeviceGetUuid(&uuid, device) != CUDA_SUCCESS)
		return false;
	berth_gpu_uuid_format(uuid.bytes, gpu->uuid);
	if (driver->cuDeviceGetName == NULL ||
	    driver->cuDeviceGetName(gpu->name, sizeof(gpu->name), device) != CUDA_SUCCESS)
		gpu->name[0] = '\0';
	driver_pci(driver, device, gpu->pci_bus_id);
	if (driver->cuDeviceTotalMem_v2 != NULL &&
	    driver->cuDeviceTotalMem_v2(&bytes, device) == CUDA_SUCCESS)
		gpu->memory_total_bytes = bytes;
	return true;
}

int berth_gpu_list_driver(struct berth_gpu *gpus, uint32_t max, uint32_t *ret_count,
			  struct berth_reason *reason)
{
	const struct berth_driver *driver = berth_driver();
	int present_count = 0;
	uint32_t count = 0;
	CUresult result;

	if (driver->cuInit == NULL || driver->cuDeviceGetCount == NULL ||
	    driver->cuDeviceGet == NULL || driver->cuDeviceGetUuid == NULL)
		return berth_reason_set(reason, -ENOENT, "no usable " BERTH_DRIVER_SONAME);
	result = driver->cuInit(0);
	if (result == CUDA_SUCCESS)
		result = driver->cuDeviceGetCount(&present_count);
	if (result != CUDA_SUCCESS)
		return berth_reason_set(reason, -ENODEV, "the CUDA driver does not start: error %d",
					(int)result);
	if (present_count > 0 && (uint32_t)present_count > max)
		return berth_reason_set(reason, -E2BIG, "%d GPUs, at most %u are supported",
					present_count, max);
	for (int i = 0; i < present_count; i++) {
		if (driver_gpu(driver, (uint32_t)i, &gpus[count]))
			count++;
	}
	if (count == 0)
		return berth_reason_set(reason, -ENODEV, "the CUDA driver shows no GPU");
	*ret_count = count;
	return 0;
}

int berth_gpu_list(struct berth_gpu *gpus, uint32_t max, uint32_t *ret_count,
		   struct berth_reason *reason)
{
	struct berth_reason nvml_reason = { .text = "" };
	int err = berth_gpu_list_nvml(gpus, max, ret_count, &nvml_reason);

	if (err == 0)
		return 0;
	if (err == -ENOENT)
		return berth_gpu_list_driver(gpus, max, ret_count, reason);
	/* Too many stays too many, whoever counts. */
	if (err == -E2BIG || berth_gpu_list_driver(gpus, max, ret_count, NULL) != 0)
		return berth_reason_set(reason, err, "%s", nvml_reason.text);
	return 0;
}
