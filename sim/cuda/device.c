/* SPDX-License-Identifier: Apache-2.0
 *
 * Which GPUs this process sees, and what it is told about them (attributes: device_attribute.c).
 *
 * CUDA_VISIBLE_DEVICES: indexes, "GPU-" UUIDs or unique beginnings of one, separated by commas, in
 * any order; the first that names nothing ends the list; one named twice leaves nothing at all.
 * Indexes count in the order of CUDA_DEVICE_ORDER: FASTEST_FIRST (default) or PCI_BUS_ID.
 */
#include "sim/cuda/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/cuda/entry.h"
#include "sim/node/node.h"

static struct {
	unsigned count;
	unsigned gpus[SIM_GPU_MAX];
} devices;

static uint64_t speed_of(const struct sim_gpu_config *gpu)
{
	return (uint64_t)gpu->sm_count * gpu->clock_mhz;
}

/* The node's order is the PCI order. */
static void order_gpus(const char *order, const struct sim_gpu_config *gpus, unsigned gpu_count,
		       unsigned *ret_ordered)
{
	bool by_speed = !order || strcmp(order, "PCI_BUS_ID") != 0;

	for (unsigned i = 0; i < gpu_count; i++) {
		unsigned place = i;

		while (by_speed && place > 0 &&
		       speed_of(&gpus[ret_ordered[place - 1]]) < speed_of(&gpus[i])) {
			ret_ordered[place] = ret_ordered[place - 1];
			place--;
		}
		ret_ordered[place] = i;
	}
}

static int find_by_uuid(const char *text, size_t length, const struct sim_gpu_config *gpus,
			unsigned gpu_count)
{
	int found = -1;

	for (unsigned i = 0; i < gpu_count; i++) {
		if (strncasecmp(gpus[i].uuid_text, text, length) != 0)
			continue;
		if (found >= 0)
			return -1; /* two begin so */
		found = (int)i;
	}
	return found;
}

static int find_by_index(const char *text, size_t length, const unsigned *ordered,
			 unsigned gpu_count)
{
	unsigned long index = 0;

	if (length == 0)
		return -1;
	for (size_t i = 0; i < length; i++) {
		if (!isdigit((unsigned char)text[i]))
			return -1;
		index = index * 10 + (unsigned long)(text[i] - '0');
		if (index >= gpu_count)
			return -1;
	}
	return (int)ordered[index];
}

unsigned sim_device_select(const char *visible, const char *order,
			   const struct sim_gpu_config *gpus, unsigned gpu_count,
			   unsigned *ret_order)
{
	unsigned ordered[SIM_GPU_MAX];
	unsigned count = 0;

	order_gpus(order, gpus, gpu_count, ordered);
	if (!visible) {
		memcpy(ret_order, ordered, gpu_count * sizeof(ordered[0]));
		return gpu_count;
	}
	while (*visible) {
		size_t length;
		int gpu;

		visible += strspn(visible, " \t");
		length = strcspn(visible, ", \t");
		gpu = strncasecmp(visible, "GPU-", 4) == 0
			      ? find_by_uuid(visible, length, gpus, gpu_count)
			      : find_by_index(visible, length, ordered, gpu_count);
		if (gpu < 0)
			break;
		for (unsigned i = 0; i < count; i++)
			if (ret_order[i] == (unsigned)gpu)
				return 0;
		ret_order[count++] = (unsigned)gpu;
		visible += length;
		visible += strspn(visible, " \t");
		if (*visible == ',')
			visible++;
	}
	return count;
}

CUresult sim_device_init(void)
{
	struct sim_gpu_config gpus[SIM_GPU_MAX];
	unsigned count = sim_node_gpu_count();

	for (unsigned i = 0; i < count; i++)
		gpus[i] = *sim_node_gpu(i);
	devices.count = sim_device_select(getenv("CUDA_VISIBLE_DEVICES"),
					  getenv("CUDA_DEVICE_ORDER"), gpus, count, devices.gpus);
	return devices.count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

int sim_device_count(void)
{
	return (int)devices.count;
}

CUresult sim_device_gpu(CUdevice device, unsigned *ret_gpu)
{
	if (device < 0 || device >= sim_device_count())
		return CUDA_ERROR_INVALID_DEVICE;
	*ret_gpu = devices.gpus[device];
	return CUDA_SUCCESS;
}

unsigned sim_device_gpu_of(CUdevice device)
{
	return devices.gpus[device];
}

const struct sim_gpu_config *sim_device_config(CUdevice device)
{
	return sim_node_gpu(devices.gpus[device]);
}

CUdevice sim_device_of_gpu(unsigned gpu)
{
	for (unsigned i = 0; i < devices.count; i++)
		if (devices.gpus[i] == gpu)
			return (CUdevice)i;
	return -1;
}

/* ---- what the program is told ---- */

static CUresult device_known(CUdevice device)
{
	unsigned gpu;

	return sim_device_gpu(device, &gpu);
}

SIM_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	SIM_ENTER(cuDeviceGet);
	if (!device)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (device_known(ordinal) != CUDA_SUCCESS)
		return SIM_LEAVE(CUDA_ERROR_INVALID_DEVICE);
	*device = ordinal;
	return SIM_LEAVE(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuDeviceGetCount(int *count)
{
	SIM_ENTER(cuDeviceGetCount);
	if (!count)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	*count = sim_device_count();
	return SIM_LEAVE(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuDeviceGetName(char *name, int len, CUdevice device)
{
	SIM_ENTER(cuDeviceGetName);
	if (!name || len <= 0)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (device_known(device) != CUDA_SUCCESS)
		return SIM_LEAVE(CUDA_ERROR_INVALID_DEVICE);
	snprintf(name, (size_t)len, "%s", sim_device_config(device)->name);
	return SIM_LEAVE(CUDA_SUCCESS);
}

static CUresult device_uuid(CUuuid *uuid, CUdevice device)
{
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	if (device_known(device) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_DEVICE;
	memcpy(uuid, sim_device_config(device)->uuid, sizeof(*uuid));
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	SIM_ENTER(cuDeviceGetUuid);
	return SIM_LEAVE(device_uuid(uuid, device));
}

SIM_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	SIM_ENTER(cuDeviceGetUuid_v2);
	return SIM_LEAVE(device_uuid(uuid, device));
}

SIM_EXPORT CUresult cuDeviceGetLuid(char *luid, unsigned int *device_node_mask, CUdevice device)
{
	SIM_ENTER(cuDeviceGetLuid);
	if (!luid || !device_node_mask)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (device_known(device) != CUDA_SUCCESS)
		return SIM_LEAVE(CUDA_ERROR_INVALID_DEVICE);
	return SIM_LEAVE(CUDA_ERROR_NOT_SUPPORTED); /* only Windows has them */
}

SIM_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	SIM_ENTER(cuDeviceTotalMem_v2);
	if (!bytes)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (device_known(device) != CUDA_SUCCESS)
		return SIM_LEAVE(CUDA_ERROR_INVALID_DEVICE);
	*bytes = sim_device_config(device)->memory_bytes;
	return SIM_LEAVE(CUDA_SUCCESS);
}

/* The first API's: four bytes, so it can't tell more than that. */
SIM_EXPORT CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
	uint64_t total;

	SIM_ENTER(cuDeviceTotalMem);
	if (!bytes)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (device_known(device) != CUDA_SUCCESS)
		return SIM_LEAVE(CUDA_ERROR_INVALID_DEVICE);
	total = sim_device_config(device)->memory_bytes;
	*bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned int)total;
	return SIM_LEAVE(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	SIM_ENTER(cuDeviceComputeCapability);
	if (!major || !minor)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (device_known(device) != CUDA_SUCCESS)
		return SIM_LEAVE(CUDA_ERROR_INVALID_DEVICE);
	*major = (int)sim_device_config(device)->cc_major;
	*minor = (int)sim_device_config(device)->cc_minor;
	return SIM_LEAVE(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuDeviceGetPCIBusId(char *pci_bus_id, int len, CUdevice device)
{
	SIM_ENTER(cuDeviceGetPCIBusId);
	if (!pci_bus_id || len <= 0)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (device_known(device) != CUDA_SUCCESS)
		return SIM_LEAVE(CUDA_ERROR_INVALID_DEVICE);
	snprintf(pci_bus_id, (size_t)len, "%s", sim_device_config(device)->pci_text);
	return SIM_LEAVE(CUDA_SUCCESS);
}

/* "domain:bus:device.function", "domain:bus:device" or "bus:device.function". */
static CUresult device_by_pci(CUdevice *ret_device, const char *text)
{
	uint32_t numbers[4] = { 0 };
	int count = sim_config_parse_numbers(text, 16, ':', numbers + 1, 3);
	uint32_t domain = numbers[1];
	uint32_t bus = numbers[2];
	uint32_t slot = numbers[3];

	if (count == 2) {
		domain = 0;
		bus = numbers[1];
		slot = numbers[2];
	} else if (count != 3) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	for (CUdevice i = 0; i < sim_device_count(); i++) {
		const struct sim_gpu_config *gpu = sim_device_config(i);

		if (gpu->pci_domain == domain && gpu->pci_bus == bus && gpu->pci_device == slot) {
			*ret_device = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

SIM_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *pci_bus_id)
{
	SIM_ENTER(cuDeviceGetByPCIBusId);
	if (!device || !pci_bus_id)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	return SIM_LEAVE(device_by_pci(device, pci_bus_id));
}

SIM_EXPORT CUresult cuDeviceCanAccessPeer(int *can_access_peer, CUdevice device, CUdevice peer_dev)
{
	SIM_ENTER(cuDeviceCanAccessPeer);
	if (!can_access_peer)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (device_known(device) != CUDA_SUCCESS || device_known(peer_dev) != CUDA_SUCCESS)
		return SIM_LEAVE(CUDA_ERROR_INVALID_DEVICE);
	*can_access_peer = device != peer_dev;
	return SIM_LEAVE(CUDA_SUCCESS);
}

static CUresult p2p_attribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from,
			      CUdevice to)
{
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (device_known(from) != CUDA_SUCCESS || device_known(to) != CUDA_SUCCESS || from == to)
		return CUDA_ERROR_INVALID_DEVICE;
	switch (attribute) {
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
		*value = 0;
		return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_ACCESS_SUPPORTED:
		*value = 1;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

SIM_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib,
					    CUdevice src_device, CUdevice dst_device)
{
	SIM_ENTER(cuDeviceGetP2PAttribute);
	return SIM_LEAVE(p2p_attribute(value, attrib, src_device, dst_device));
}

SIM_EXPORT CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type,
						   CUdevice device)
{
	SIM_ENTER(cuDeviceGetExecAffinitySupport);
	if (!pi || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (device_known(device) != CUDA_SUCCESS)
		return SIM_LEAVE(CUDA_ERROR_INVALID_DEVICE);
	*pi = 0; /* needs a server process that isn't there */
	return SIM_LEAVE(CUDA_SUCCESS);
}
