/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory between processes by handle: a handle says whose arena file, and where in it. The file is
 * reached by the exporter's descriptor in the outer /proc, so nothing is left on disk by a death.
 *
 * The bytes stay charged to the exporter. If it frees them or dies they are refunded; the importer's
 * mapping stays readable until it is closed, as a mapping of a dead peer's memory does.
 */
#include "sim/cuda/ipc.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/config.h"
#include "sim/cuda/context.h"
#include "sim/cuda/device.h"
#include "sim/cuda/entry.h"
#include "sim/cuda/memory_internal.h"
#include "sim/cuda/stream.h"
#include "sim/node/node.h"

CUresult sim_ipc_describe(CUdeviceptr pointer, enum sim_memory_kind kind,
			  struct sim_ipc_handle *ret_handle)
{
	struct sim_process *process = &sim_node()->processes[sim_node_row()];
	struct sim_block *block;
	bool is_good;

	sim_memory_lock();
	block = sim_map_find_locked(pointer);
	is_good = block && block->arena && block->kind == kind;
	if (is_good) {
		block->is_touched = true; /* whoever imports it may write */
		*ret_handle = (struct sim_ipc_handle){
			.magic = SIM_IPC_MAGIC + (uint64_t)kind,
			.generation = process->generation,
			.row = (uint32_t)sim_node_row(),
			.host_pid = process->host_pid,
			.gpu = block->gpu,
			.fd = sim_arena_fd(block->arena),
			.offset_bytes = sim_arena_offset(block->arena, block->base),
			.size_bytes = block->size_bytes,
			.buffer_id = block->buffer_id,
		};
	}
	sim_memory_unlock();
	return is_good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr ptr)
{
	struct sim_ipc_handle description;
	struct sim_context *context;
	CUresult result;

	SIM_ENTER(cuIpcGetMemHandle);
	if (!handle)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		result = sim_ipc_describe(ptr, SIM_MEMORY_DEVICE, &description);
	if (result == CUDA_SUCCESS)
		memcpy(handle, &description, sizeof(description));
	return SIM_LEAVE(result);
}

/* ---- opening ---- */

void sim_ipc_block_end(struct sim_block *block)
{
	munmap((void *)block->map_base, block->map_bytes);
	sim_memory_lock();
	sim_block_free(block);
	sim_memory_unlock();
}

static bool exporter_is_alive(const struct sim_ipc_handle *handle)
{
	struct sim_process *process = &sim_node()->processes[handle->row];
	bool is_alive;

	sim_node_lock();
	sim_node_sweep_locked();
	is_alive = process->is_claimed && process->generation == handle->generation;
	sim_node_unlock();
	return is_alive;
}

CUresult sim_ipc_check(const struct sim_ipc_handle *handle, enum sim_memory_kind kind)
{
	if (handle->magic != SIM_IPC_MAGIC + (uint64_t)kind || handle->row >= SIM_PROCESS_MAX ||
	    handle->gpu >= sim_node_gpu_count() || handle->size_bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if ((int)handle->row == sim_node_row() &&
	    handle->generation == sim_node()->processes[handle->row].generation)
		return CUDA_ERROR_INVALID_CONTEXT; /* its own */
	if (sim_device_of_gpu(handle->gpu) < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	return exporter_is_alive(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The same memory opened once more: the mapping that is there counts one more opening. */
static bool opened_before(struct sim_context *context, const struct sim_ipc_handle *handle,
			  CUdeviceptr *ret_pointer)
{
	struct sim_block *block;

	sim_memory_lock();
	block = context->parts[SIM_PART_MEMORY];
	while (block &&
	       (block->kind != SIM_MEMORY_IPC || block->ipc_generation != handle->generation ||
		block->ipc_buffer_id != handle->buffer_id))
		block = block->context_next;
	if (block) {
		block->open_count++;
		*ret_pointer = block->base;
	}
	sim_memory_unlock();
	return block != NULL;
}

static void *map_exported(const struct sim_ipc_handle *handle, size_t *ret_bytes)
{
	uint64_t from = handle->offset_bytes & ~(SIM_PAGE - 1);
	uint64_t to = (handle->offset_bytes + handle->size_bytes + SIM_PAGE - 1) & ~(SIM_PAGE - 1);
	char path[sizeof(sim_config()->proc_path) + 64];
	void *map;
	int fd;

	snprintf(path, sizeof(path), "%s/%u/fd/%d", sim_config()->proc_path, handle->host_pid,
		 handle->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return MAP_FAILED;
	map = mmap(NULL, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		   (off_t)from);
	close(fd);
	if (map != MAP_FAILED && madvise(map, to - from, MADV_DONTFORK) < 0) {
		munmap(map, to - from);
		return MAP_FAILED;
	}
	*ret_bytes = to - from;
	return map;
}

CUresult sim_ipc_map(const struct sim_ipc_handle *handle, const struct sim_block *like,
		     CUdeviceptr *ret_pointer)
{
	struct sim_block *block;
	size_t map_bytes;
	void *map;

	map = map_exported(handle, &map_bytes);
	if (map == MAP_FAILED)
		return CUDA_ERROR_MAP_FAILED;
	sim_memory_lock();
	block = sim_block_new();
	if (block) {
		*block = *like;
		block->base = (uintptr_t)map + (handle->offset_bytes & (SIM_PAGE - 1));
		block->size_bytes = handle->size_bytes;
		block->span_bytes = handle->size_bytes;
		block->map_base = (uintptr_t)map;
		block->map_bytes = map_bytes;
		block->gpu = handle->gpu;
		block->device = sim_device_of_gpu(handle->gpu);
		block->is_accessible = true;
		block->open_count = 1;
		block->ipc_generation = handle->generation;
		block->ipc_buffer_id = handle->buffer_id;
		sim_memory_publish_locked(block);
		*ret_pointer = block->base;
	}
	sim_memory_unlock();
	if (!block) {
		munmap(map, map_bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

static CUresult ipc_open(CUdeviceptr *ret_pointer, const CUipcMemHandle *bytes, unsigned flags)
{
	struct sim_block like = { .kind = SIM_MEMORY_IPC };
	struct sim_ipc_handle handle;
	CUresult result;

	if (!ret_pointer || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&handle, bytes, sizeof(handle));
	result = sim_context_current(&like.context);
	if (result == CUDA_SUCCESS)
		result = sim_capture_forbid();
	if (result == CUDA_SUCCESS)
		result = sim_ipc_check(&handle, SIM_MEMORY_DEVICE);
	if (result != CUDA_SUCCESS || opened_before(like.context, &handle, ret_pointer))
		return result;
	return sim_ipc_map(&handle, &like, ret_pointer);
}

SIM_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ptr, CUipcMemHandle handle,
					  unsigned int flags)
{
	SIM_ENTER(cuIpcOpenMemHandle_v2);
	return SIM_LEAVE(ipc_open(ptr, &handle, flags));
}

SIM_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags)
{
	SIM_ENTER(cuIpcOpenMemHandle);
	return SIM_LEAVE(ipc_open(ptr, &handle, flags));
}

static CUresult ipc_close(CUdeviceptr pointer)
{
	struct sim_context *context;
	struct sim_block *block;
	bool is_last = false;
	CUresult result;

	result = sim_context_current(&context);
	if (result == CUDA_SUCCESS)
		result = sim_capture_forbid();
	if (result != CUDA_SUCCESS)
		return result;
	sim_memory_lock();
	block = sim_map_find_locked(pointer);
	if (block && (block->base != pointer || block->kind != SIM_MEMORY_IPC))
		block = NULL;
	if (block) {
		is_last = --block->open_count == 0;
		if (is_last)
			sim_memory_unpublish_locked(block);
	}
	sim_memory_unlock();
	if (is_last)
		sim_ipc_block_end(block);
	return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr ptr)
{
	SIM_ENTER(cuIpcCloseMemHandle);
	return SIM_LEAVE(ipc_close(ptr));
}
