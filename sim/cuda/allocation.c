/* SPDX-License-Identifier: Apache-2.0
 *
 * Physical memory by handle: cuMemCreate to cuMemRelease, and its way to other processes. It needs
 * no context: the GPU is the one that the properties name.
 *
 * What may be exported has a file of its own, which is what the program gets a descriptor of; the
 * rest lies in the GPU's arena, so that thousands of handles don't take thousands of descriptors.
 * Imported memory is charged where it was made.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/cuda/device.h"
#include "sim/cuda/entry.h"
#include "sim/cuda/vmm.h"
#include "sim/node/node.h"

static pthread_mutex_t vmm_mutex = PTHREAD_MUTEX_INITIALIZER;

void sim_vmm_lock(void)
{
	pthread_mutex_lock(&vmm_mutex);
}

void sim_vmm_unlock(void)
{
	pthread_mutex_unlock(&vmm_mutex);
}

struct sim_allocation *sim_allocation_get_locked(CUmemGenericAllocationHandle handle)
{
	struct sim_allocation *allocation =
		sim_handle_get(SIM_HANDLE_ALLOCATION, (const void *)(uintptr_t)handle);

	return allocation && allocation->handle_count ? allocation : NULL;
}

struct sim_allocation *sim_allocation_new_locked(const CUmemAllocationProp *props, size_t bytes)
{
	struct sim_allocation *allocation =
		sim_handle_new(SIM_HANDLE_ALLOCATION, sizeof(*allocation));

	if (!allocation)
		return NULL;
	allocation->props = *props;
	allocation->bytes = bytes;
	allocation->handle_count = 1;
	allocation->fd = -1;
	return allocation;
}

void sim_allocation_settle_locked(struct sim_allocation *allocation)
{
	if (allocation->handle_count || allocation->map_count)
		return;
	if (allocation->fd >= 0)
		close(allocation->fd);
	if (allocation->block)
		sim_memory_unmake(allocation->block);
	if (allocation->charged_bytes)
		sim_node_refund(allocation->gpu, allocation->charged_bytes);
	sim_handle_free(allocation);
}

int sim_allocation_file(const struct sim_allocation *allocation, uint64_t *ret_offset_bytes)
{
	if (allocation->fd >= 0) {
		*ret_offset_bytes = 0;
		return allocation->fd;
	}
	*ret_offset_bytes = sim_arena_offset(allocation->block->arena, allocation->block->base);
	return sim_arena_fd(allocation->block->arena);
}

/* ---- create and release ---- */

static bool location_is_host(CUmemLocationType type)
{
	return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

static CUresult props_check(const CUmemAllocationProp *props)
{
	unsigned gpu;

	if (!props || props->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (props->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (location_is_host(props->location.type))
		return CUDA_SUCCESS;
	if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_device_gpu(props->location.id, &gpu);
}

static bool own_file(struct sim_allocation *allocation)
{
	struct sim_export_note note = {
		.magic = SIM_EXPORT_MAGIC,
		.bytes = allocation->bytes,
		.gpu = allocation->gpu,
		.is_host = allocation->is_host,
		.props = allocation->props,
	};

	allocation->fd = memfd_create("berth-sim-allocation", MFD_CLOEXEC);
	if (allocation->fd < 0)
		return false;
	return ftruncate(allocation->fd, (off_t)(allocation->bytes + sizeof(note))) == 0 &&
	       pwrite(allocation->fd, &note, sizeof(note), (off_t)allocation->bytes) ==
		       (ssize_t)sizeof(note);
}

static CUresult back_locked(struct sim_allocation *allocation)
{
	CUresult result;

	if (!allocation->is_host) {
		result = sim_memory_charge(allocation->gpu, allocation->bytes);
		if (result != CUDA_SUCCESS)
			return result;
		allocation->charged_bytes = allocation->bytes;
	}
	if (allocation->is_host || allocation->props.requestedHandleTypes)
		return own_file(allocation) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	result = sim_memory_make(allocation->gpu, false, allocation->bytes, SIM_GRANULARITY, 0,
				 &allocation->block);
	if (result == CUDA_SUCCESS)
		allocation->block->is_touched = true;
	return result;
}

static CUresult allocation_create(CUmemGenericAllocationHandle *ret_handle, size_t bytes,
				  const CUmemAllocationProp *props)
{
	struct sim_allocation *allocation;
	CUresult result;

	sim_vmm_lock();
	allocation = sim_allocation_new_locked(props, bytes);
	if (!allocation) {
		sim_vmm_unlock();
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	allocation->is_host = location_is_host(props->location.type);
	if (!allocation->is_host)
		allocation->gpu = sim_device_gpu_of(props->location.id);
	result = back_locked(allocation);
	if (result == CUDA_SUCCESS) {
		*ret_handle = (CUmemGenericAllocationHandle)(uintptr_t)allocation;
	} else {
		allocation->handle_count = 0;
		sim_allocation_settle_locked(allocation);
	}
	sim_vmm_unlock();
	return result;
}

SIM_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
				const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult result;

	SIM_ENTER(cuMemCreate);
	if (!handle || bytes == 0 || bytes % SIM_GRANULARITY || flags != 0)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = props_check(prop);
	if (result == CUDA_SUCCESS && bytes > (1UL << 44))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	return SIM_LEAVE(result == CUDA_SUCCESS ? allocation_create(handle, bytes, prop) : result);
}

SIM_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct sim_allocation *allocation;

	SIM_ENTER(cuMemRelease);
	sim_vmm_lock();
	allocation = sim_allocation_get_locked(handle);
	if (allocation) {
		allocation->handle_count--;
		sim_allocation_settle_locked(allocation);
	}
	sim_vmm_unlock();
	return SIM_LEAVE(allocation ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

SIM_EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity,
						  const CUmemAllocationProp *prop,
						  CUmemAllocationGranularity_flags option)
{
	CUresult result;

	SIM_ENTER(cuMemGetAllocationGranularity);
	if (!granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
			     option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = props_check(prop);
	if (result == CUDA_SUCCESS)
		*granularity = SIM_GRANULARITY;
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
							   CUmemGenericAllocationHandle handle)
{
	struct sim_allocation *allocation;

	SIM_ENTER(cuMemGetAllocationPropertiesFromHandle);
	if (!prop)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	sim_vmm_lock();
	allocation = sim_allocation_get_locked(handle);
	if (allocation)
		*prop = allocation->props;
	sim_vmm_unlock();
	return SIM_LEAVE(allocation ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- to and from other processes ---- */

SIM_EXPORT CUresult cuMemExportToShareableHandle(void *shareable_handle,
						 CUmemGenericAllocationHandle handle,
						 CUmemAllocationHandleType handle_type,
						 unsigned long long flags)
{
	struct sim_allocation *allocation;
	bool is_good;
	int fd = -1;

	SIM_ENTER(cuMemExportToShareableHandle);
	if (!shareable_handle || flags != 0)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (handle_type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return SIM_LEAVE(CUDA_ERROR_NOT_SUPPORTED);
	sim_vmm_lock();
	allocation = sim_allocation_get_locked(handle);
	is_good = allocation && (allocation->props.requestedHandleTypes & handle_type);
	if (is_good)
		fd = fcntl(allocation->fd, F_DUPFD_CLOEXEC, 0);
	sim_vmm_unlock();
	if (!is_good)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (fd < 0)
		return SIM_LEAVE(CUDA_ERROR_OPERATING_SYSTEM);
	*(int *)shareable_handle = fd;
	return SIM_LEAVE(CUDA_SUCCESS);
}

/* The note at the end of the file; false for a file that isn't such memory. */
static bool note_read(int fd, struct sim_export_note *ret_note)
{
	struct stat st;
	off_t at;

	if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(*ret_note))
		return false;
	at = st.st_size - (off_t)sizeof(*ret_note);
	return pread(fd, ret_note, sizeof(*ret_note), at) == (ssize_t)sizeof(*ret_note) &&
	       ret_note->magic == SIM_EXPORT_MAGIC && ret_note->bytes == (uint64_t)at &&
	       ret_note->gpu < sim_node_gpu_count();
}

static CUresult allocation_import(CUmemGenericAllocationHandle *ret_handle, int fd)
{
	struct sim_allocation *allocation;
	struct sim_export_note note;
	int own_fd;

	if (!note_read(fd, &note))
		return CUDA_ERROR_INVALID_VALUE;
	if (!note.is_host) {
		/* The exporter's ordinal means nothing here. */
		note.props.location.id = sim_device_of_gpu(note.gpu);
		if (note.props.location.id < 0)
			return CUDA_ERROR_INVALID_DEVICE;
	}
	own_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (own_fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	sim_vmm_lock();
	allocation = sim_allocation_new_locked(&note.props, note.bytes);
	if (allocation) {
		allocation->gpu = note.gpu;
		allocation->is_host = note.is_host;
		allocation->is_imported = true;
		allocation->fd = own_fd;
	}
	sim_vmm_unlock();
	if (!allocation) {
		close(own_fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_handle = (CUmemGenericAllocationHandle)(uintptr_t)allocation;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
						   void *os_handle,
						   CUmemAllocationHandleType sh_handle_type)
{
	SIM_ENTER(cuMemImportFromShareableHandle);
	if (!handle)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (sh_handle_type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return SIM_LEAVE(CUDA_ERROR_NOT_SUPPORTED);
	return SIM_LEAVE(allocation_import(handle, (int)(intptr_t)os_handle));
}
