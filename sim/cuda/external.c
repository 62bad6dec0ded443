/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of other APIs, by descriptor. It is mapped where it can be, charged to nobody (its maker
 * has it), and its buffers may be freed with cuMemFree.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/cuda/context.h"
#include "sim/cuda/entry.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/memory_internal.h"

struct external_memory {
	struct sim_handle handle;
	int fd;
	uint64_t bytes;
};

static CUresult external_import(CUexternalMemory *ret_memory,
				const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	struct external_memory *memory;
	struct stat st;

	if (desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (desc->size == 0 || (desc->flags & ~(unsigned)CUDA_EXTERNAL_MEMORY_DEDICATED))
		return CUDA_ERROR_INVALID_VALUE;
	if (fstat(desc->handle.fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    (uint64_t)st.st_size < desc->size)
		return CUDA_ERROR_INVALID_VALUE;
	memory = sim_handle_new(SIM_HANDLE_EXTERNAL_MEMORY, sizeof(*memory));
	if (!memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memory->fd = desc->handle.fd; /* the driver's from now on */
	memory->bytes = desc->size;
	*ret_memory = (CUexternalMemory)memory;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuImportExternalMemory(CUexternalMemory *ext_mem_out,
					   const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *mem_handle_desc)
{
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuImportExternalMemory);
	if (!ext_mem_out || !mem_handle_desc)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		result = external_import(ext_mem_out, mem_handle_desc);
	return SIM_LEAVE(result);
}

static CUresult buffer_publish(struct sim_context *context, void *map, size_t map_bytes,
			       uint64_t skip_bytes, uint64_t bytes, CUdeviceptr *ret_pointer)
{
	struct sim_block *block;

	sim_memory_lock();
	block = sim_block_new();
	if (block) {
		block->kind = SIM_MEMORY_EXTERNAL;
		block->base = (uintptr_t)map + skip_bytes;
		block->size_bytes = bytes;
		block->span_bytes = bytes;
		block->map_base = (uintptr_t)map;
		block->map_bytes = map_bytes;
		block->gpu = context->gpu;
		block->device = context->device;
		block->context = context;
		block->is_accessible = true;
		sim_memory_publish_locked(block);
		*ret_pointer = block->base;
	}
	sim_memory_unlock();
	return block ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult buffer_map(CUdeviceptr *ret_pointer, const struct external_memory *memory,
			   const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	struct sim_context *context;
	uint64_t from;
	size_t map_bytes;
	CUresult result;
	void *map;

	result = sim_context_current(&context);
	if (result != CUDA_SUCCESS)
		return result;
	if (desc->flags != 0 || desc->size == 0 || desc->offset > memory->bytes ||
	    desc->size > memory->bytes - desc->offset)
		return CUDA_ERROR_INVALID_VALUE;
	from = desc->offset & ~(SIM_PAGE - 1);
	map_bytes = (desc->offset - from + desc->size + SIM_PAGE - 1) & ~(SIM_PAGE - 1);
	map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, (off_t)from);
	if (map == MAP_FAILED)
		return CUDA_ERROR_MAP_FAILED;
	result = buffer_publish(context, map, map_bytes, desc->offset - from, desc->size,
				ret_pointer);
	if (result != CUDA_SUCCESS)
		munmap(map, map_bytes);
	return result;
}

SIM_EXPORT CUresult
cuExternalMemoryGetMappedBuffer(CUdeviceptr *dev_ptr, CUexternalMemory ext_mem,
				const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer_desc)
{
	struct external_memory *memory;

	SIM_ENTER(cuExternalMemoryGetMappedBuffer);
	if (!dev_ptr || !buffer_desc)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	memory = sim_handle_get(SIM_HANDLE_EXTERNAL_MEMORY, ext_mem);
	if (!memory)
		return SIM_LEAVE(CUDA_ERROR_INVALID_HANDLE);
	return SIM_LEAVE(buffer_map(dev_ptr, memory, buffer_desc));
}

/* Buffers mapped from it stay until they are freed. */
SIM_EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory ext_mem)
{
	struct external_memory *memory;

	SIM_ENTER(cuDestroyExternalMemory);
	memory = sim_handle_get(SIM_HANDLE_EXTERNAL_MEMORY, ext_mem);
	if (!memory)
		return SIM_LEAVE(CUDA_ERROR_INVALID_HANDLE);
	close(memory->fd);
	sim_handle_free(memory);
	return SIM_LEAVE(CUDA_SUCCESS);
}
