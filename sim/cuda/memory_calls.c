/* SPDX-License-Identifier: Apache-2.0
 *
 * cuMemAlloc, its pitched and managed kin, cuMemFree, and the questions about memory as a whole.
 * The forms of the first API have 32-bit addresses: they get memory below 4 GiB.
 */
#include "sim/cuda/context.h"
#include "sim/cuda/entry.h"
#include "sim/cuda/memory_internal.h"
#include "sim/cuda/stream.h"
#include "sim/node/node.h"

#define PITCH_BYTES 512UL

/* What every allocation asks first. */
static CUresult allocation_context(struct sim_context **ret_context)
{
	CUresult result;

	result = sim_context_current(ret_context);
	return result == CUDA_SUCCESS ? sim_capture_forbid() : result;
}

static CUresult linear_alloc(CUdeviceptr *ret_pointer, size_t bytes)
{
	struct sim_context *context;
	CUresult result;

	if (!ret_pointer || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = allocation_context(&context);
	if (result != CUDA_SUCCESS)
		return result;
	return sim_memory_allocate(context, SIM_MEMORY_DEVICE, bytes, 0, ret_pointer);
}

static CUresult linear_alloc_low(CUdeviceptr_v1 *ret_pointer, size_t bytes)
{
	struct sim_context *context;
	struct sim_block *block;
	CUresult result;

	if (!ret_pointer || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = allocation_context(&context);
	if (result == CUDA_SUCCESS)
		result = sim_memory_make(context->gpu, true, bytes, 0, bytes, &block);
	if (result != CUDA_SUCCESS)
		return result;
	block->kind = SIM_MEMORY_DEVICE;
	block->context = context;
	sim_memory_lock();
	sim_memory_publish_locked(block);
	sim_memory_unlock();
	*ret_pointer = (CUdeviceptr_v1)block->base;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
	SIM_ENTER(cuMemAlloc_v2);
	return SIM_LEAVE(linear_alloc(ptr, bytes));
}

SIM_EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *ptr, unsigned int bytes)
{
	SIM_ENTER(cuMemAlloc);
	return SIM_LEAVE(linear_alloc_low(ptr, bytes));
}

/* Rows rounded up; 0 when the arguments are wrong or the product is beyond all memory. */
static CUresult pitched_size(size_t width_bytes, size_t height, unsigned element_bytes,
			     size_t *ret_pitch, size_t *ret_bytes)
{
	size_t pitch;

	if (width_bytes == 0 || height == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)
		return CUDA_ERROR_INVALID_VALUE;
	if (width_bytes > (1UL << 40))
		return CUDA_ERROR_OUT_OF_MEMORY;
	pitch = (width_bytes + PITCH_BYTES - 1) & ~(PITCH_BYTES - 1);
	if (__builtin_mul_overflow(pitch, height, ret_bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_pitch = pitch;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *ptr, size_t *pitch, size_t width_bytes,
				       size_t height, unsigned int element_bytes)
{
	size_t pitch_bytes;
	CUresult result;
	size_t bytes;

	SIM_ENTER(cuMemAllocPitch_v2);
	if (!ptr || !pitch)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = pitched_size(width_bytes, height, element_bytes, &pitch_bytes, &bytes);
	if (result == CUDA_SUCCESS)
		result = linear_alloc(ptr, bytes);
	if (result == CUDA_SUCCESS)
		*pitch = pitch_bytes;
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuMemAllocPitch(CUdeviceptr_v1 *ptr, unsigned int *pitch,
				    unsigned int width_bytes, unsigned int height,
				    unsigned int element_bytes)
{
	size_t pitch_bytes;
	CUresult result;
	size_t bytes;

	SIM_ENTER(cuMemAllocPitch);
	if (!ptr || !pitch)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = pitched_size(width_bytes, height, element_bytes, &pitch_bytes, &bytes);
	if (result == CUDA_SUCCESS)
		result = linear_alloc_low(ptr, bytes);
	if (result == CUDA_SUCCESS)
		*pitch = (unsigned int)pitch_bytes;
	return SIM_LEAVE(result);
}

static CUresult managed_alloc(CUdeviceptr *ret_pointer, size_t bytes, unsigned flags)
{
	struct sim_context *context;
	CUdeviceptr pointer;
	struct sim_block *block;
	CUresult result;

	if (!ret_pointer || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	result = allocation_context(&context);
	if (result == CUDA_SUCCESS)
		result =
			sim_memory_allocate(context, SIM_MEMORY_MANAGED, bytes, SIM_PAGE, &pointer);
	if (result != CUDA_SUCCESS)
		return result;
	sim_memory_lock();
	block = sim_map_find_locked(pointer);
	block->flags = flags;
	sim_memory_unlock();
	*ret_pointer = pointer;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *ptr, size_t bytes, unsigned int flags)
{
	SIM_ENTER(cuMemAllocManaged);
	return SIM_LEAVE(managed_alloc(ptr, bytes, flags));
}

static CUresult linear_free(CUdeviceptr pointer)
{
	struct sim_context *context;
	CUresult result;

	result = allocation_context(&context);
	if (result != CUDA_SUCCESS || pointer == 0)
		return result;
	/* Work that may still use it is waited for. */
	result = sim_stream_drain_context(context);
	return result == CUDA_SUCCESS ? sim_memory_free(pointer) : result;
}

SIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	SIM_ENTER(cuMemFree_v2);
	return SIM_LEAVE(linear_free(ptr));
}

SIM_EXPORT CUresult cuMemFree(CUdeviceptr_v1 ptr)
{
	SIM_ENTER(cuMemFree);
	return SIM_LEAVE(linear_free(ptr));
}

/* ---- how much there is ---- */

static CUresult memory_info(uint64_t *ret_free, uint64_t *ret_total)
{
	struct sim_context *context;
	uint64_t capacity;
	CUresult result;
	uint64_t used;

	result = sim_context_current(&context);
	if (result != CUDA_SUCCESS)
		return result;
	sim_node_sweep();
	capacity = sim_node_capacity_bytes(context->gpu);
	used = sim_node_used_bytes(context->gpu);
	*ret_total = sim_node_gpu(context->gpu)->memory_bytes;
	*ret_free = used < capacity ? capacity - used : 0;
	return CUDA_SUCCESS;
}

/* One of the outputs may be missing, as with the real driver. */
SIM_EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	uint64_t total;
	uint64_t left;
	CUresult result;

	SIM_ENTER(cuMemGetInfo_v2);
	if (!free_bytes && !total_bytes)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = memory_info(&left, &total);
	if (result != CUDA_SUCCESS)
		return SIM_LEAVE(result);
	if (free_bytes)
		*free_bytes = left;
	if (total_bytes)
		*total_bytes = total;
	return SIM_LEAVE(CUDA_SUCCESS);
}

static unsigned saturate(uint64_t bytes)
{
	return bytes > UINT32_MAX ? UINT32_MAX : (unsigned)bytes;
}

SIM_EXPORT CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total_bytes)
{
	uint64_t total;
	uint64_t left;
	CUresult result;

	SIM_ENTER(cuMemGetInfo);
	if (!free_bytes && !total_bytes)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = memory_info(&left, &total);
	if (result != CUDA_SUCCESS)
		return SIM_LEAVE(result);
	if (free_bytes)
		*free_bytes = saturate(left);
	if (total_bytes)
		*total_bytes = saturate(total);
	return SIM_LEAVE(CUDA_SUCCESS);
}

/* ---- which block a pointer is of ---- */

static CUresult address_range(CUdeviceptr pointer, struct sim_memory_info *ret_info)
{
	struct sim_context *context;
	CUresult result;

	result = sim_context_current(&context);
	if (result != CUDA_SUCCESS)
		return result;
	if (sim_memory_find(pointer, ret_info) != CUDA_SUCCESS)
		return CUDA_ERROR_NOT_FOUND;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr ptr)
{
	struct sim_memory_info info;
	CUresult result;

	SIM_ENTER(cuMemGetAddressRange_v2);
	result = address_range(ptr, &info);
	if (result != CUDA_SUCCESS)
		return SIM_LEAVE(result);
	if (pbase)
		*pbase = info.base;
	if (psize)
		*psize = info.size_bytes;
	return SIM_LEAVE(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuMemGetAddressRange(CUdeviceptr_v1 *pbase, unsigned int *psize,
					 CUdeviceptr_v1 ptr)
{
	struct sim_memory_info info;
	CUresult result;

	SIM_ENTER(cuMemGetAddressRange);
	result = address_range(ptr, &info);
	if (result != CUDA_SUCCESS)
		return SIM_LEAVE(result);
	if (pbase)
		*pbase = (CUdeviceptr_v1)info.base;
	if (psize)
		*psize = saturate(info.size_bytes);
	return SIM_LEAVE(CUDA_SUCCESS);
}
