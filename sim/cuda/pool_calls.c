/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation in the order of a stream, and what can be asked of pools. The memory changes hands at
 * the call: work is done in the order of the calls (stream.h), so a piece freed on a stream may be
 * given out again at once.
 */
#include "sim/cuda/context.h"
#include "sim/cuda/device.h"
#include "sim/cuda/entry.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/pool_internal.h"
#include "sim/cuda/stream.h"

/* ---- allocate and free ---- */

static CUresult alloc_on_stream(CUdeviceptr *ret_pointer, size_t bytes, CUmemoryPool pool,
				CUstream handle, enum sim_form form)
{
	struct sim_stream *stream;
	CUresult result;

	if (!ret_pointer || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_stream_get(handle, form, &stream);
	if (result == CUDA_SUCCESS)
		result = sim_pool_check(pool);
	if (result != CUDA_SUCCESS)
		return result;
	if (sim_stream_is_capturing(stream))
		return sim_capture_alloc(stream, pool, bytes, ret_pointer);
	result = sim_stream_begin(stream);
	if (result == CUDA_SUCCESS)
		result = sim_pool_allocate(pool, sim_stream_context(stream), bytes, ret_pointer);
	if (result == CUDA_SUCCESS)
		sim_stream_end(stream, 0);
	return result;
}

SIM_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
	SIM_ENTER(cuMemAllocAsync);
	return SIM_LEAVE(alloc_on_stream(ptr, bytes, NULL, stream, SIM_FORM_plain));
}

SIM_EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
	SIM_ENTER(cuMemAllocAsync_ptsz);
	return SIM_LEAVE(alloc_on_stream(ptr, bytes, NULL, stream, SIM_FORM_ptsz));
}

static CUresult alloc_from_pool(CUdeviceptr *ret_pointer, size_t bytes, CUmemoryPool pool,
				CUstream stream, enum sim_form form)
{
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	return alloc_on_stream(ret_pointer, bytes, pool, stream, form);
}

SIM_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
					    CUstream stream)
{
	SIM_ENTER(cuMemAllocFromPoolAsync);
	return SIM_LEAVE(alloc_from_pool(ptr, bytes, pool, stream, SIM_FORM_plain));
}

SIM_EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
						 CUstream stream)
{
	SIM_ENTER(cuMemAllocFromPoolAsync_ptsz);
	return SIM_LEAVE(alloc_from_pool(ptr, bytes, pool, stream, SIM_FORM_ptsz));
}

/* Also of what cuMemAlloc gave. */
static CUresult free_on_stream(CUdeviceptr pointer, CUstream handle, enum sim_form form)
{
	struct sim_stream *stream;
	CUresult result;

	if (!pointer)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_stream_get(handle, form, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (sim_stream_is_capturing(stream))
		return sim_capture_free(stream, pointer);
	result = sim_stream_begin(stream);
	if (result == CUDA_SUCCESS)
		result = sim_memory_free(pointer);
	if (result == CUDA_SUCCESS)
		sim_stream_end(stream, 0);
	return result;
}

SIM_EXPORT CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream)
{
	SIM_ENTER(cuMemFreeAsync);
	return SIM_LEAVE(free_on_stream(ptr, stream, SIM_FORM_plain));
}

SIM_EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream)
{
	SIM_ENTER(cuMemFreeAsync_ptsz);
	return SIM_LEAVE(free_on_stream(ptr, stream, SIM_FORM_ptsz));
}

/* ---- pools ---- */

static CUresult props_check(const CUmemPoolProps *props, unsigned *ret_gpu)
{
	if (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (props->location.type == CU_MEM_LOCATION_TYPE_HOST ||
	    props->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		return CUDA_ERROR_NOT_SUPPORTED; /* as the device's attributes say */
	if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (props->handleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	return sim_device_gpu(props->location.id, ret_gpu);
}

SIM_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *pool_props)
{
	struct sim_pool *made;
	CUresult result;
	unsigned gpu;

	SIM_ENTER(cuMemPoolCreate);
	if (!pool || !pool_props)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = props_check(pool_props, &gpu);
	if (result != CUDA_SUCCESS)
		return SIM_LEAVE(result);
	sim_pools_lock();
	made = sim_pool_new_locked(pool_props, gpu);
	sim_pools_unlock();
	if (!made)
		return SIM_LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
	*pool = (CUmemoryPool)made;
	return SIM_LEAVE(CUDA_SUCCESS);
}

SIM_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct sim_pool *found;
	bool is_good;

	SIM_ENTER(cuMemPoolDestroy);
	sim_pools_lock();
	found = sim_pool_get_locked(pool);
	is_good = found && !found->is_default;
	if (is_good)
		sim_pool_destroy_locked(found);
	sim_pools_unlock();
	return SIM_LEAVE(is_good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static CUresult attribute_get_locked(const struct sim_pool *pool, CUmemPool_attribute attribute,
				     void *value)
{
	uint64_t bytes;

	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*(int *)value =
			pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		bytes = pool->release_threshold_bytes;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		bytes = pool->reserved_bytes;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		bytes = pool->reserved_high_bytes;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		bytes = pool->used_bytes;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		bytes = pool->used_high_bytes;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	*(uint64_t *)value = bytes;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	struct sim_pool *found;
	CUresult result;

	SIM_ENTER(cuMemPoolGetAttribute);
	if (!value)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	sim_pools_lock();
	found = sim_pool_get_locked(pool);
	result = found ? attribute_get_locked(found, attr, value) : CUDA_ERROR_INVALID_VALUE;
	sim_pools_unlock();
	return SIM_LEAVE(result);
}

static CUresult attribute_set_locked(struct sim_pool *pool, CUmemPool_attribute attribute,
				     const void *value)
{
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] =
			*(const int *)value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		pool->release_threshold_bytes = *(const uint64_t *)value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		if (*(const uint64_t *)value != 0)
			return CUDA_ERROR_INVALID_VALUE;
		pool->reserved_high_bytes = pool->reserved_bytes;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		if (*(const uint64_t *)value != 0)
			return CUDA_ERROR_INVALID_VALUE;
		pool->used_high_bytes = pool->used_bytes;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

SIM_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	struct sim_pool *found;
	CUresult result;

	SIM_ENTER(cuMemPoolSetAttribute);
	if (!value)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	sim_pools_lock();
	found = sim_pool_get_locked(pool);
	result = found ? attribute_set_locked(found, attr, value) : CUDA_ERROR_INVALID_VALUE;
	sim_pools_unlock();
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t min_bytes_to_keep)
{
	struct sim_pool *found;

	SIM_ENTER(cuMemPoolTrimTo);
	sim_pools_lock();
	found = sim_pool_get_locked(pool);
	if (found)
		sim_pool_shrink_locked(found, min_bytes_to_keep);
	sim_pools_unlock();
	return SIM_LEAVE(found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- who may use a pool's memory ---- */

static CUresult access_check_locked(const struct sim_pool *pool, const CUmemAccessDesc *desc)
{
	unsigned gpu;

	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_device_gpu(desc->location.id, &gpu) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_DEVICE;
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	/* A pool's own device always has access. */
	if (gpu == pool->gpu && desc->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult access_set_locked(struct sim_pool *pool, const CUmemAccessDesc *list, size_t count)
{
	CUresult result;

	for (size_t i = 0; i < count; i++) {
		result = access_check_locked(pool, &list[i]);
		if (result != CUDA_SUCCESS)
			return result;
	}
	for (size_t i = 0; i < count; i++)
		pool->access[sim_device_gpu_of(list[i].location.id)] = list[i].flags;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	struct sim_pool *found;
	CUresult result;

	SIM_ENTER(cuMemPoolSetAccess);
	if (count && !map)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	sim_pools_lock();
	found = sim_pool_get_locked(pool);
	result = found ? access_set_locked(found, map, count) : CUDA_ERROR_INVALID_VALUE;
	sim_pools_unlock();
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool mem_pool,
				       CUmemLocation *location)
{
	struct sim_pool *found;
	unsigned gpu;

	SIM_ENTER(cuMemPoolGetAccess);
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (sim_device_gpu(location->id, &gpu) != CUDA_SUCCESS)
		return SIM_LEAVE(CUDA_ERROR_INVALID_DEVICE);
	sim_pools_lock();
	found = sim_pool_get_locked(mem_pool);
	if (found)
		*flags = found->access[gpu];
	sim_pools_unlock();
	return SIM_LEAVE(found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- which pool a device uses ---- */

static CUresult pool_of_device(CUmemoryPool *ret_pool, CUdevice device, bool current)
{
	struct sim_pool *pool;
	CUresult result;
	unsigned gpu;

	if (!ret_pool)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_device_gpu(device, &gpu);
	if (result != CUDA_SUCCESS)
		return result;
	sim_pools_lock();
	pool = current ? sim_pool_current_locked(gpu) : sim_pool_default_locked(gpu);
	sim_pools_unlock();
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_pool = (CUmemoryPool)pool;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice device)
{
	SIM_ENTER(cuDeviceGetDefaultMemPool);
	return SIM_LEAVE(pool_of_device(pool_out, device, false));
}

SIM_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
	SIM_ENTER(cuDeviceGetMemPool);
	return SIM_LEAVE(pool_of_device(pool, device, true));
}

static CUresult pool_choose(CUdevice device, CUmemoryPool handle)
{
	struct sim_pool *pool;
	CUresult result;
	unsigned gpu;

	result = sim_device_gpu(device, &gpu);
	if (result != CUDA_SUCCESS)
		return result;
	sim_pools_lock();
	pool = sim_pool_get_locked(handle);
	if (!pool || pool->gpu != gpu || pool->is_imported)
		result = CUDA_ERROR_INVALID_VALUE;
	else
		sim_pool_set_current_locked(gpu, pool);
	sim_pools_unlock();
	return result;
}

SIM_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	SIM_ENTER(cuDeviceSetMemPool);
	return SIM_LEAVE(pool_choose(device, pool));
}

static CUresult location_check(const CUmemLocation *location, CUmemAllocationType type)
{
	if (!location ||
	    (type != CU_MEM_ALLOCATION_TYPE_PINNED && type != CU_MEM_ALLOCATION_TYPE_MANAGED))
		return CUDA_ERROR_INVALID_VALUE;
	if (type == CU_MEM_ALLOCATION_TYPE_MANAGED || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
					   CUmemAllocationType type)
{
	CUresult result;

	SIM_ENTER(cuMemGetDefaultMemPool);
	result = location_check(location, type);
	if (result == CUDA_SUCCESS)
		result = pool_of_device(pool_out, location->id, false);
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location,
				    CUmemAllocationType type)
{
	CUresult result;

	SIM_ENTER(cuMemGetMemPool);
	result = location_check(location, type);
	if (result == CUDA_SUCCESS)
		result = pool_of_device(pool, location->id, true);
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
				    CUmemoryPool pool)
{
	CUresult result;

	SIM_ENTER(cuMemSetMemPool);
	result = location_check(location, type);
	if (result == CUDA_SUCCESS)
		result = pool_choose(location->id, pool);
	return SIM_LEAVE(result);
}
