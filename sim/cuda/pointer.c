/* SPDX-License-Identifier: Apache-2.0
 *
 * cuPointerGetAttribute and kin: what the address map knows, in the API's words.
 */
#include <string.h>

#include "sim/cuda/entry.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/memory_internal.h"
#include "sim/cuda/pool_internal.h"
#include "sim/cuda/vmm.h"

static bool is_host_kind(enum sim_memory_kind kind)
{
	return kind == SIM_MEMORY_HOST || kind == SIM_MEMORY_REGISTERED;
}

static unsigned handle_types(CUdeviceptr pointer)
{
	unsigned types = CU_MEM_HANDLE_TYPE_NONE;
	struct sim_block *block;

	sim_memory_lock();
	block = sim_map_find_locked(pointer);
	if (block && block->kind == SIM_MEMORY_VMM)
		types = block->mapping->allocation->props.requestedHandleTypes;
	else if (block && block->pool)
		types = block->pool->props.handleTypes;
	sim_memory_unlock();
	return types;
}

/* Bytes of an attribute's value; 0 for one that doesn't exist. */
static size_t attribute_size(CUpointer_attribute attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return 8;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return 4;
	default:
		return 0;
	}
}

/* What the block is; false for an attribute that is about something else. */
static bool block_value(CUpointer_attribute attribute, const struct sim_memory_info *info,
			uint64_t *ret_value)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*ret_value = (uintptr_t)info->context;
		return true;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*ret_value = info->sync_memops;
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*ret_value = info->buffer_id;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*ret_value = (uint32_t)info->device;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*ret_value = info->base;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*ret_value = info->size_bytes;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*ret_value = (uintptr_t)info->pool;
		return true;
	default:
		return false;
	}
}

/* What may be done with it. */
static CUresult use_value(CUpointer_attribute attribute, CUdeviceptr pointer,
			  const struct sim_memory_info *info, uint64_t *ret_value)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*ret_value = is_host_kind(info->kind) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*ret_value = pointer;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!is_host_kind(info->kind) && info->kind != SIM_MEMORY_MANAGED)
			return CUDA_ERROR_INVALID_VALUE;
		*ret_value = pointer;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*ret_value = info->kind == SIM_MEMORY_MANAGED;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*ret_value = info->kind == SIM_MEMORY_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*ret_value = 1;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*ret_value = handle_types(pointer);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*ret_value = !info->is_accessible ? CU_MEM_ACCESS_FLAGS_PROT_NONE
			     : info->is_read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ
						  : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*ret_value = 0;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult attribute_value(CUpointer_attribute attribute, CUdeviceptr pointer,
				const struct sim_memory_info *info, uint64_t *ret_value)
{
	if (block_value(attribute, info, ret_value))
		return CUDA_SUCCESS;
	return use_value(attribute, pointer, info, ret_value);
}

SIM_EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
					  CUdeviceptr ptr)
{
	struct sim_memory_info info;
	CUresult result;
	uint64_t value;

	SIM_ENTER(cuPointerGetAttribute);
	if (!data)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		return SIM_LEAVE(CUDA_ERROR_NOT_SUPPORTED);
	result = sim_memory_find(ptr, &info);
	if (result == CUDA_SUCCESS)
		result = attribute_value(attribute, ptr, &info, &value);
	if (result == CUDA_SUCCESS)
		memcpy(data, &value, attribute_size(attribute));
	return SIM_LEAVE(result);
}

/* A pointer from nowhere isn't an error here: every value is then 0. */
SIM_EXPORT CUresult cuPointerGetAttributes(unsigned int num_attributes,
					   CUpointer_attribute *attributes, void **data,
					   CUdeviceptr ptr)
{
	struct sim_memory_info info;
	bool is_known;

	SIM_ENTER(cuPointerGetAttributes);
	if (num_attributes == 0 || !attributes || !data)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	for (unsigned i = 0; i < num_attributes; i++)
		if (!data[i] || !attribute_size(attributes[i]))
			return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	is_known = sim_memory_find(ptr, &info) == CUDA_SUCCESS;
	for (unsigned i = 0; i < num_attributes; i++) {
		uint64_t value = 0;

		if (!is_known && attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			value = (uint32_t)CU_DEVICE_INVALID;
		else if (is_known &&
			 attribute_value(attributes[i], ptr, &info, &value) != CUDA_SUCCESS)
			value = 0;
		memcpy(data[i], &value, attribute_size(attributes[i]));
	}
	return SIM_LEAVE(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
					  CUdeviceptr ptr)
{
	struct sim_block *block;
	bool is_good;

	SIM_ENTER(cuPointerSetAttribute);
	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	sim_memory_lock();
	block = sim_map_find_locked(ptr);
	is_good = block && !is_host_kind(block->kind);
	if (is_good)
		block->sync_memops = *(const unsigned *)value != 0;
	sim_memory_unlock();
	return SIM_LEAVE(is_good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
