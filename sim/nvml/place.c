/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a device is: PCI address and link, neighbours, processors near it.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim/node/node.h"
#include "sim/nvml/handle.h"

/* Nobody made this card; the vendor's half is what tools look at. */
#define PCI_DEVICE_ID    0xbe5110deU
#define PCI_SUBSYSTEM_ID 0x000010deU
#define PCI_BASE_CLASS   0x03U
#define PCI_SUB_CLASS    0x02U

static nvmlReturn_t place_of(nvmlDevice_t device, const void *ret_pci,
			     const struct sim_gpu_config **ret_config)
{
	unsigned gpu;
	nvmlReturn_t result = sim_nvml_gpu(device, &gpu);

	if (result != NVML_SUCCESS)
		return result;
	if (!ret_pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_config = sim_node_gpu(gpu);
	return NVML_SUCCESS;
}

static void print_legacy(const struct sim_gpu_config *config,
			 char text[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE])
{
	snprintf(text, NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE, "%04X:%02X:%02X.0",
		 config->pci_domain & 0xffff, config->pci_bus & 0xff, config->pci_device & 0x1f);
}

static void print_long(const struct sim_gpu_config *config,
		       char text[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE])
{
	snprintf(text, NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE, "%08X:%02X:%02X.0", config->pci_domain,
		 config->pci_bus & 0xff, config->pci_device & 0x1f);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v1_t *pci)
{
	const struct sim_gpu_config *config;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetPciInfo);
	result = place_of(device, pci, &config);
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	*pci = (nvmlPciInfo_v1_t){
		.domain = config->pci_domain,
		.bus = config->pci_bus,
		.device = config->pci_device,
		.pciDeviceId = PCI_DEVICE_ID,
	};
	print_legacy(config, pci->busId);
	return SIM_NVML_LEAVE(NVML_SUCCESS);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *pci)
{
	const struct sim_gpu_config *config;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetPciInfo_v2);
	result = place_of(device, pci, &config);
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	*pci = (nvmlPciInfo_v2_t){
		.domain = config->pci_domain,
		.bus = config->pci_bus,
		.device = config->pci_device,
		.pciDeviceId = PCI_DEVICE_ID,
		.pciSubSystemId = PCI_SUBSYSTEM_ID,
	};
	print_legacy(config, pci->busId);
	return SIM_NVML_LEAVE(NVML_SUCCESS);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	const struct sim_gpu_config *config;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetPciInfo_v3);
	result = place_of(device, pci, &config);
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	*pci = (nvmlPciInfo_t){
		.domain = config->pci_domain,
		.bus = config->pci_bus,
		.device = config->pci_device,
		.pciDeviceId = PCI_DEVICE_ID,
		.pciSubSystemId = PCI_SUBSYSTEM_ID,
	};
	print_legacy(config, pci->busIdLegacy);
	print_long(config, pci->busId);
	return SIM_NVML_LEAVE(NVML_SUCCESS);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t *pci)
{
	const struct sim_gpu_config *config;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetPciInfoExt);
	result = place_of(device, pci, &config);
	if (result == NVML_SUCCESS && pci->version != nvmlPciInfoExt_v1)
		result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	*pci = (nvmlPciInfoExt_v1_t){
		.version = nvmlPciInfoExt_v1,
		.domain = config->pci_domain,
		.bus = config->pci_bus,
		.device = config->pci_device,
		.pciDeviceId = PCI_DEVICE_ID,
		.pciSubSystemId = PCI_SUBSYSTEM_ID,
		.baseClass = PCI_BASE_CLASS,
		.subClass = PCI_SUB_CLASS,
	};
	print_long(config, pci->busId);
	return SIM_NVML_LEAVE(NVML_SUCCESS);
}

#define NUMBER(symbol, out, value)                                                  \
	SIM_NVML_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned int *out) \
	{                                                                           \
		SIM_NVML_ENTER(symbol);                                             \
		return SIM_NVML_LEAVE(sim_nvml_number(device, value, out));         \
	}

NUMBER(nvmlDeviceGetBusType, type, NVML_BUS_TYPE_PCIE)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, generation, 4)
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, generation, 4)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, generation, 4)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, width, 16)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, width, 16)
NUMBER(nvmlDeviceGetPcieReplayCounter, count, 0)

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device,
							 nvmlPcieUtilCounter_t counter,
							 unsigned int *kib_per_s)
{
	SIM_NVML_ENTER(nvmlDeviceGetPcieThroughput);
	if (counter > NVML_PCIE_UTIL_RX_BYTES)
		return SIM_NVML_LEAVE(NVML_ERROR_INVALID_ARGUMENT);
	return SIM_NVML_LEAVE(sim_nvml_number(device, 0, kib_per_s));
}

static nvmlReturn_t both(nvmlDevice_t one, nvmlDevice_t other)
{
	unsigned gpu;
	nvmlReturn_t result = sim_nvml_gpu(one, &gpu);

	return result == NVML_SUCCESS ? sim_nvml_gpu(other, &gpu) : result;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one,
								 nvmlDevice_t other,
								 nvmlGpuTopologyLevel_t *level)
{
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetTopologyCommonAncestor);
	result = level ? both(one, other) : NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		*level = one == other ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_NODE;
	return SIM_NVML_LEAVE(result);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other,
						    nvmlGpuP2PCapsIndex_t index,
						    nvmlGpuP2PStatus_t *status)
{
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetP2PStatus);
	result = status && index < NVML_P2P_CAPS_INDEX_UNKNOWN ? both(one, other)
							       : NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		*status = index == NVML_P2P_CAPS_INDEX_NVLINK ? NVML_P2P_STATUS_NOT_SUPPORTED
							      : NVML_P2P_STATUS_OK;
	return SIM_NVML_LEAVE(result);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t one, nvmlDevice_t other, int *same)
{
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceOnSameBoard);
	result = same ? both(one, other) : NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		*same = one == other;
	return SIM_NVML_LEAVE(result);
}

/* All processors are equally near. */
SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int size,
						      unsigned long *set)
{
	unsigned gpu;
	nvmlReturn_t result;
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	const unsigned int bits = 8 * sizeof(*set);

	SIM_NVML_ENTER(nvmlDeviceGetCpuAffinity);
	result = sim_nvml_gpu(device, &gpu);
	if (result == NVML_SUCCESS && (!set || size == 0))
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	memset(set, 0, size * sizeof(*set));
	for (unsigned int cpu = 0; (long)cpu < cpus && cpu / bits < size; cpu++)
		set[cpu / bits] |= 1UL << (cpu % bits);
	return SIM_NVML_LEAVE(NVML_SUCCESS);
}
