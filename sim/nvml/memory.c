/* SPDX-License-Identifier: Apache-2.0
 *
 * The card's memory, as the node's state tells it: whatever any process holds, contexts included.
 * The simulated driver reserves nothing for itself.
 */
#include "sim/node/node.h"
#include "sim/nvml/handle.h"
#include "sim/nvml/quirk.h"

#define BAR1_BYTES (256ULL << 20)

struct memory {
	uint64_t total_bytes;
	uint64_t used_bytes;
};

static nvmlReturn_t read_memory(nvmlDevice_t device, const void *ret_out, struct memory *ret)
{
	uint64_t used;
	unsigned gpu;
	nvmlReturn_t result = sim_nvml_gpu(device, &gpu);

	if (result != NVML_SUCCESS)
		return result;
	if (!ret_out)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (sim_nvml_has_quirk(SIM_QUIRK_NO_MEMORY))
		return NVML_ERROR_NOT_SUPPORTED;
	sim_node_sweep();
	ret->total_bytes = sim_node_capacity_bytes(gpu);
	used = sim_node_used_bytes(gpu);
	/* Memory that vanished leaves more in use than there is. */
	ret->used_bytes = used < ret->total_bytes ? used : ret->total_bytes;
	return NVML_SUCCESS;
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	struct memory now;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetMemoryInfo);
	result = read_memory(device, memory, &now);
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	memory->total = now.total_bytes;
	memory->used = now.used_bytes;
	memory->free = now.total_bytes - now.used_bytes;
	return SIM_NVML_LEAVE(NVML_SUCCESS);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device,
							nvmlMemory_v2_t *memory)
{
	struct memory now;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetMemoryInfo_v2);
	result = read_memory(device, memory, &now);
	if (result == NVML_SUCCESS && memory->version != nvmlMemory_v2)
		result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (result != NVML_SUCCESS)
		return SIM_NVML_LEAVE(result);
	memory->total = now.total_bytes;
	memory->reserved = 0;
	memory->used = now.used_bytes;
	memory->free = now.total_bytes - now.used_bytes;
	return SIM_NVML_LEAVE(NVML_SUCCESS);
}

SIM_NVML_EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device,
							 nvmlBAR1Memory_t *memory)
{
	unsigned gpu;
	nvmlReturn_t result;

	SIM_NVML_ENTER(nvmlDeviceGetBAR1MemoryInfo);
	result = sim_nvml_gpu(device, &gpu);
	if (result == NVML_SUCCESS && !memory)
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result == NVML_SUCCESS)
		*memory = (nvmlBAR1Memory_t){ .bar1Total = BAR1_BYTES, .bar1Free = BAR1_BYTES };
	return SIM_NVML_LEAVE(result);
}
