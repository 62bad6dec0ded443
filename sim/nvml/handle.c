/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding a device: by index, UUID, serial number, PCI address.
 */
#include "sim/nvml/handle.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/node/node.h"

struct nvmlDevice_st {
	unsigned char slot;
};

static struct nvmlDevice_st slots_[SIM_GPU_MAX];

nvmlDevice_t sim_nvml_device(unsigned gpu)
{
	return &slots_[gpu];
}

nvmlReturn_t sim_nvml_gpu(nvmlDevice_t device, unsigned *ret_gpu)
{
	uintptr_t gpu = (uintptr_t)device - (uintptr_t)slots_;

	if (!device || gpu >= sim_node_gpu_count())
		return NVML_ERROR_INVALID_ARGUMENT;
	if (atomic_load(&sim_node()->gpus[gpu].is_lost))
		return NVML_ERROR_GPU_IS_LOST;
	*ret_gpu = (unsigned)gpu;
	return NVML_SUCCESS;
}

nvmlReturn_t sim_nvml_copy_text(const char *text, char *buffer, unsigned length)
{
	size_t bytes = strlen(text) + 1;

	if (!buffer)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (length < bytes)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(buffer, text, bytes);
	return NVML_SUCCESS;
}

nvmlReturn_t sim_nvml_number(nvmlDevice_t device, unsigned value, unsigned *ret_value)
{
	unsigned gpu;
	nvmlReturn_t result = sim_nvml_gpu(device, &gpu);

	if (result != NVML_SUCCESS)
		return result;
	if (!ret_value)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_value = value;
	return NVML_SUCCESS;
}

static nvmlReturn_t get_count(unsigned int *count)
{
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = sim_node_gpu_count();
	return NVML_SUCCESS;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
	SIM_NVML_ENTER(nvmlDeviceGetCount);
	return SIM_NVML_LEAVE(get_count(count));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	SIM_NVML_ENTER(nvmlDeviceGetCount_v2);
	return SIM_NVML_LEAVE(get_count(count));
}

/* A handle of a lost GPU can't be had any more. */
static nvmlReturn_t give(unsigned gpu, nvmlDevice_t *ret_device)
{
	nvmlReturn_t result = sim_nvml_gpu(sim_nvml_device(gpu), &gpu);

	if (result == NVML_SUCCESS)
		*ret_device = sim_nvml_device(gpu);
	return result;
}

static nvmlReturn_t by_index(unsigned int index, nvmlDevice_t *ret_device)
{
	if (!ret_device || index >= sim_node_gpu_count())
		return NVML_ERROR_INVALID_ARGUMENT;
	return give(index, ret_device);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	SIM_NVML_ENTER(nvmlDeviceGetHandleByIndex);
	return SIM_NVML_LEAVE(by_index(index, device));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	SIM_NVML_ENTER(nvmlDeviceGetHandleByIndex_v2);
	return SIM_NVML_LEAVE(by_index(index, device));
}

static nvmlReturn_t by_uuid(const char *uuid, nvmlDevice_t *ret_device)
{
	if (!uuid || !ret_device)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned gpu = 0; gpu < sim_node_gpu_count(); gpu++) {
		if (strcasecmp(uuid, sim_node_gpu(gpu)->uuid_text) == 0)
			return give(gpu, ret_device);
	}
	return NVML_ERROR_NOT_FOUND;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	SIM_NVML_ENTER(nvmlDeviceGetHandleByUUID);
	return SIM_NVML_LEAVE(by_uuid(uuid, device));
}

/* Thirteen digits from the UUID: as constant as it. */
static void serial_of(unsigned gpu, char text[14])
{
	uint64_t number = 0;

	memcpy(&number, sim_node_gpu(gpu)->uuid, sizeof(number));
	snprintf(text, 14, "%013llu", (unsigned long long)(number % 10000000000000ULL));
}

static nvmlReturn_t by_serial(const char *serial, nvmlDevice_t *ret_device)
{
	char text[14];

	if (!serial || !ret_device)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned gpu = 0; gpu < sim_node_gpu_count(); gpu++) {
		serial_of(gpu, text);
		if (strcmp(serial, text) == 0)
			return give(gpu, ret_device);
	}
	return NVML_ERROR_NOT_FOUND;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
	SIM_NVML_ENTER(nvmlDeviceGetHandleBySerial);
	return SIM_NVML_LEAVE(by_serial(serial, device));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial,
						 unsigned int length)
{
	char text[14];
	unsigned gpu;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetSerial);
	result = sim_nvml_gpu(device, &gpu);
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	serial_of(gpu, text);
	return SIM_NVML_LEAVE(sim_nvml_copy_text(text, serial, length));
}

struct address {
	unsigned long domain;
	unsigned long bus;
	unsigned long device;
	unsigned long function;
};

/* One hexadecimal number and the sign after it. */
static bool take_hex(const char **text, char sign, unsigned long *ret_value)
{
	char *end;

	if (!isxdigit((unsigned char)**text))
		return false;
	*ret_value = strtoul(*text, &end, 16);
	if (*end != sign)
		return false;
	*text = end + (sign != '\0');
	return true;
}

/* "00000000:3B:00.0", "0000:3b:00.0" or "3b:00.0". */
static bool parse_address(const char *text, struct address *ret)
{
	if (strchr(text, ':') == strrchr(text, ':'))
		ret->domain = 0;
	else if (!take_hex(&text, ':', &ret->domain))
		return false;
	return take_hex(&text, ':', &ret->bus) && take_hex(&text, '.', &ret->device) &&
	       take_hex(&text, '\0', &ret->function);
}

static nvmlReturn_t by_pci(const char *bus_id, nvmlDevice_t *ret_device)
{
	struct address address;

	if (!bus_id || !ret_device || !parse_address(bus_id, &address))
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned gpu = 0; gpu < sim_node_gpu_count(); gpu++) {
		const struct sim_gpu_config *config = sim_node_gpu(gpu);

		if (config->pci_domain == address.domain && config->pci_bus == address.bus &&
		    config->pci_device == address.device && address.function == 0)
			return give(gpu, ret_device);
	}
	return NVML_ERROR_NOT_FOUND;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
	SIM_NVML_ENTER(nvmlDeviceGetHandleByPciBusId);
	return SIM_NVML_LEAVE(by_pci(bus_id, device));
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id,
							      nvmlDevice_t *device)
{
	SIM_NVML_ENTER(nvmlDeviceGetHandleByPciBusId_v2);
	return SIM_NVML_LEAVE(by_pci(bus_id, device));
}
