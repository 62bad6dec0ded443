/* SPDX-License-Identifier: Apache-2.0
 *
 * The exported functions about memory of graphs as a whole. What allocation nodes hold is in use
 * all the time (graph.h says why), so used and reserved are the same and nothing can be trimmed.
 */
#include "sim/cuda/device.h"
#include "sim/cuda/graph.h"

static CUresult trim(CUdevice device)
{
	unsigned gpu;

	return sim_device_gpu(device, &gpu);
}

static CUresult get_attribute(CUdevice device, CUgraphMem_attribute attribute, void *ret_value)
{
	unsigned gpu;
	CUresult err = sim_device_gpu(device, &gpu);

	if (err != CUDA_SUCCESS)
		return err;
	if (!ret_value)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		*(uint64_t *)ret_value = sim_graph_memory_bytes(gpu);
		return CUDA_SUCCESS;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		*(uint64_t *)ret_value = sim_graph_memory_most_bytes(gpu);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* Only the high marks, and only to zero, which means the present. */
static CUresult set_attribute(CUdevice device, CUgraphMem_attribute attribute, const void *value)
{
	unsigned gpu;
	CUresult err = sim_device_gpu(device, &gpu);

	if (err != CUDA_SUCCESS)
		return err;
	if (!value || *(const uint64_t *)value != 0 ||
	    (attribute != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
	     attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
		return CUDA_ERROR_INVALID_VALUE;
	sim_graph_memory_reset_most(gpu);
	return CUDA_SUCCESS;
}

SIM_FUNCTION(cuDeviceGraphMemTrim, (CUdevice device), trim(device))
SIM_FUNCTION(cuDeviceGetGraphMemAttribute,
	     (CUdevice device, CUgraphMem_attribute attr, void *value),
	     get_attribute(device, attr, value))
SIM_FUNCTION(cuDeviceSetGraphMemAttribute,
	     (CUdevice device, CUgraphMem_attribute attr, void *value),
	     set_attribute(device, attr, value))
