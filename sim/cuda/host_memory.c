/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory that the GPU may use: allocated here, or the program's own and registered. It isn't
 * device memory and is charged to nobody. It ends with its context.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "sim/cuda/context.h"
#include "sim/cuda/entry.h"
#include "sim/cuda/memory_internal.h"
#include "sim/cuda/stream.h"

#define HOST_ALLOC_FLAGS \
	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                \
	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | \
	 CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)
#define MAX_HOST_BYTES (1UL << 46)

void sim_host_block_end(struct sim_block *block)
{
	if (block->map_bytes)
		munmap((void *)block->map_base, block->map_bytes);
	sim_memory_lock();
	sim_block_free(block);
	sim_memory_unlock();
}

/* A block in the map over [base, base + bytes), or NULL. */
static struct sim_block *host_block_locked(struct sim_context *context, enum sim_memory_kind kind,
					   uintptr_t base, size_t bytes, unsigned flags)
{
	struct sim_block *block = sim_block_new();

	if (!block)
		return NULL;
	block->base = base;
	block->size_bytes = bytes;
	block->span_bytes = bytes;
	block->kind = kind;
	block->gpu = context->gpu;
	block->device = context->device;
	block->context = context;
	block->flags = flags;
	block->is_accessible = true;
	return block;
}

static CUresult host_alloc(void **ret_pointer, size_t bytes, unsigned flags)
{
	struct sim_context *context;
	struct sim_block *block;
	CUresult result;
	size_t map_bytes;
	void *map;

	if (!ret_pointer || bytes == 0 || (flags & ~(unsigned)HOST_ALLOC_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		result = sim_capture_forbid();
	if (result != CUDA_SUCCESS)
		return result;
	if (bytes > MAX_HOST_BYTES)
		return CUDA_ERROR_OUT_OF_MEMORY;
	map_bytes = (bytes + SIM_PAGE - 1) & ~(SIM_PAGE - 1);
	map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_memory_lock();
	block = host_block_locked(context, SIM_MEMORY_HOST, (uintptr_t)map, bytes, flags);
	if (block) {
		block->map_base = (uintptr_t)map;
		block->map_bytes = map_bytes;
		sim_memory_publish_locked(block);
	}
	sim_memory_unlock();
	if (!block) {
		munmap(map, map_bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_pointer = map;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemAllocHost_v2(void **ptr, size_t bytes)
{
	SIM_ENTER(cuMemAllocHost_v2);
	return SIM_LEAVE(host_alloc(ptr, bytes, 0));
}

SIM_EXPORT CUresult cuMemAllocHost(void **ptr, unsigned int bytes)
{
	SIM_ENTER(cuMemAllocHost);
	return SIM_LEAVE(host_alloc(ptr, bytes, 0));
}

SIM_EXPORT CUresult cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
	SIM_ENTER(cuMemHostAlloc);
	return SIM_LEAVE(host_alloc(ptr, bytes, flags));
}

/* Unpublishes the block of that kind that begins there; NULL if there is none. */
static struct sim_block *take_block(uintptr_t base, enum sim_memory_kind kind)
{
	struct sim_block *block;

	sim_memory_lock();
	block = sim_map_find_locked(base);
	if (block && (block->base != base || block->kind != kind))
		block = NULL;
	if (block)
		sim_memory_unpublish_locked(block);
	sim_memory_unlock();
	return block;
}

static CUresult host_free(void *pointer)
{
	struct sim_context *context;
	struct sim_block *block;
	CUresult result;

	if (!pointer)
		return CUDA_SUCCESS;
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		result = sim_capture_forbid();
	if (result != CUDA_SUCCESS)
		return result;
	block = take_block((uintptr_t)pointer, SIM_MEMORY_HOST);
	if (!block)
		return CUDA_ERROR_INVALID_VALUE;
	sim_host_block_end(block);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemFreeHost(void *p)
{
	SIM_ENTER(cuMemFreeHost);
	return SIM_LEAVE(host_free(p));
}

/* ---- the program's own memory ---- */

static CUresult host_register(void *pointer, size_t bytes, unsigned flags)
{
	struct sim_context *context;
	struct sim_block *block;
	CUresult result;

	if (!pointer || bytes == 0 || bytes > MAX_HOST_BYTES || (flags & ~(unsigned)REGISTER_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		result = sim_capture_forbid();
	if (result != CUDA_SUCCESS)
		return result;
	/* Nothing may be mapped there that isn't: the kernel knows. */
	if (!(flags & CU_MEMHOSTREGISTER_IOMEMORY)) {
		uintptr_t from = (uintptr_t)pointer & ~(SIM_PAGE - 1);
		uintptr_t to = ((uintptr_t)pointer + bytes + SIM_PAGE - 1) & ~(SIM_PAGE - 1);

		if (msync((void *)from, to - from, MS_ASYNC) < 0)
			return CUDA_ERROR_INVALID_VALUE;
	}
	sim_memory_lock();
	if (sim_map_overlaps_locked((uintptr_t)pointer, bytes)) {
		sim_memory_unlock();
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	}
	block = host_block_locked(context, SIM_MEMORY_REGISTERED, (uintptr_t)pointer, bytes, flags);
	if (block) {
		block->is_read_only = flags & CU_MEMHOSTREGISTER_READ_ONLY;
		sim_memory_publish_locked(block);
	}
	sim_memory_unlock();
	return block ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
	SIM_ENTER(cuMemHostRegister_v2);
	return SIM_LEAVE(host_register(p, bytes, flags));
}

SIM_EXPORT CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags)
{
	SIM_ENTER(cuMemHostRegister);
	return SIM_LEAVE(host_register(p, bytes, flags));
}

static CUresult host_unregister(void *pointer)
{
	struct sim_context *context;
	struct sim_block *block;
	CUresult result;

	if (!pointer)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		result = sim_capture_forbid();
	if (result != CUDA_SUCCESS)
		return result;
	block = take_block((uintptr_t)pointer, SIM_MEMORY_REGISTERED);
	if (!block)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	sim_host_block_end(block);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemHostUnregister(void *p)
{
	SIM_ENTER(cuMemHostUnregister);
	return SIM_LEAVE(host_unregister(p));
}

/* ---- what is known of it ---- */

static CUresult host_find(void *pointer, struct sim_memory_info *ret_info)
{
	struct sim_context *context;
	CUresult result;

	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		result = sim_memory_find((CUdeviceptr)(uintptr_t)pointer, ret_info);
	if (result != CUDA_SUCCESS)
		return result;
	if (ret_info->kind != SIM_MEMORY_HOST && ret_info->kind != SIM_MEMORY_REGISTERED)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *ptr, void *p, unsigned int flags)
{
	struct sim_memory_info info;
	CUresult result;

	SIM_ENTER(cuMemHostGetDevicePointer_v2);
	if (!ptr || !p || flags != 0)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = host_find(p, &info);
	if (result == CUDA_SUCCESS)
		*ptr = (CUdeviceptr)(uintptr_t)p;
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1 *ptr, void *p, unsigned int flags)
{
	struct sim_memory_info info;
	CUresult result;

	SIM_ENTER(cuMemHostGetDevicePointer);
	if (!ptr || !p || flags != 0)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = host_find(p, &info);
	if (result == CUDA_SUCCESS && (uintptr_t)p > UINT32_MAX)
		result = CUDA_ERROR_INVALID_VALUE; /* no such pointer in 32 bits */
	if (result == CUDA_SUCCESS)
		*ptr = (CUdeviceptr_v1)(uintptr_t)p;
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuMemHostGetFlags(unsigned int *flags, void *p)
{
	struct sim_memory_info info;
	CUresult result;

	SIM_ENTER(cuMemHostGetFlags);
	if (!flags || !p)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = host_find(p, &info);
	if (result == CUDA_SUCCESS)
		*flags = info.flags;
	return SIM_LEAVE(result);
}
