/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools in other processes: a descriptor names the pool, and each piece is handed over by itself.
 * Only the exporter allocates from it and is charged for it.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/cuda/device.h"
#include "sim/cuda/entry.h"
#include "sim/cuda/ipc.h"
#include "sim/cuda/pool_internal.h"
#include "sim/node/node.h"

#define NOTE_MAGIC 0x6c6f6f702d6d6973ULL

struct pool_note {
	uint64_t magic;
	uint32_t gpu;
	uint32_t reserved_;
	CUmemPoolProps props;
};

_Static_assert(sizeof(struct sim_ipc_handle) == sizeof(CUmemPoolPtrExportData), "fills the data");

static CUresult pool_export(int *ret_fd, CUmemoryPool handle)
{
	struct pool_note note = { .magic = NOTE_MAGIC };
	struct sim_pool *pool;
	bool is_good;
	int fd;

	sim_pools_lock();
	pool = sim_pool_get_locked(handle);
	is_good = pool && !pool->is_imported &&
		  (pool->props.handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (is_good) {
		note.gpu = pool->gpu;
		note.props = pool->props;
	}
	sim_pools_unlock();
	if (!is_good)
		return CUDA_ERROR_INVALID_VALUE;
	fd = memfd_create("berth-sim-pool", MFD_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (write(fd, &note, sizeof(note)) != (ssize_t)sizeof(note)) {
		close(fd);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	*ret_fd = fd;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
						     CUmemAllocationHandleType handle_type,
						     unsigned long long flags)
{
	SIM_ENTER(cuMemPoolExportToShareableHandle);
	if (!handle_out || flags != 0)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (handle_type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return SIM_LEAVE(CUDA_ERROR_NOT_SUPPORTED);
	return SIM_LEAVE(pool_export(handle_out, pool));
}

static CUresult pool_import(CUmemoryPool *ret_pool, int fd)
{
	struct pool_note note;
	struct sim_pool *pool;

	if (pread(fd, &note, sizeof(note), 0) != (ssize_t)sizeof(note) ||
	    note.magic != NOTE_MAGIC || note.gpu >= sim_node_gpu_count())
		return CUDA_ERROR_INVALID_VALUE;
	/* The exporter's ordinal means nothing here. */
	note.props.location.id = sim_device_of_gpu(note.gpu);
	if (note.props.location.id < 0)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_pools_lock();
	pool = sim_pool_new_locked(&note.props, note.gpu);
	if (pool)
		pool->is_imported = true;
	sim_pools_unlock();
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_pool = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
						       CUmemAllocationHandleType handle_type,
						       unsigned long long flags)
{
	SIM_ENTER(cuMemPoolImportFromShareableHandle);
	if (!pool_out || flags != 0)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (handle_type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return SIM_LEAVE(CUDA_ERROR_NOT_SUPPORTED);
	return SIM_LEAVE(pool_import(pool_out, (int)(intptr_t)handle));
}

SIM_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *share_data_out, CUdeviceptr ptr)
{
	struct sim_ipc_handle description;
	CUresult result;

	SIM_ENTER(cuMemPoolExportPointer);
	if (!share_data_out)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = sim_ipc_describe(ptr, SIM_MEMORY_POOL, &description);
	if (result == CUDA_SUCCESS)
		memcpy(share_data_out, &description, sizeof(description));
	return SIM_LEAVE(result);
}

static CUresult piece_import(CUdeviceptr *ret_pointer, CUmemoryPool handle,
			     const struct sim_ipc_handle *description)
{
	struct sim_block like = { .kind = SIM_MEMORY_POOL };
	struct sim_pool *pool;
	CUresult result;

	result = sim_ipc_check(description, SIM_MEMORY_POOL);
	if (result != CUDA_SUCCESS)
		return result;
	sim_pools_lock();
	pool = sim_pool_get_locked(handle);
	if (!pool || !pool->is_imported || pool->gpu != description->gpu) {
		sim_pools_unlock();
		return CUDA_ERROR_INVALID_VALUE;
	}
	like.pool = pool;
	result = sim_ipc_map(description, &like, ret_pointer);
	if (result == CUDA_SUCCESS)
		sim_pool_account_locked(pool, description->size_bytes);
	sim_pools_unlock();
	return result;
}

SIM_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
					   CUmemPoolPtrExportData *share_data)
{
	struct sim_ipc_handle description;

	SIM_ENTER(cuMemPoolImportPointer);
	if (!ptr_out || !share_data)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	memcpy(&description, share_data, sizeof(description));
	return SIM_LEAVE(piece_import(ptr_out, pool, &description));
}
