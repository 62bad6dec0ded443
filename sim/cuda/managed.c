/* SPDX-License-Identifier: Apache-2.0
 *
 * Managed memory's hints: advice is remembered per block and told back; prefetching moves nothing,
 * since the bytes lie where both sides see them.
 */
#include <string.h>

#include "sim/cuda/device.h"
#include "sim/cuda/entry.h"
#include "sim/cuda/memory_internal.h"
#include "sim/cuda/stream.h"

/* The managed block that holds the whole range, or NULL. */
static struct sim_block *managed_locked(CUdeviceptr pointer, size_t bytes)
{
	struct sim_block *block = sim_map_find_locked(pointer);

	if (!block || block->kind != SIM_MEMORY_MANAGED || bytes == 0 ||
	    bytes > block->base + block->size_bytes - pointer)
		return NULL;
	return block;
}

static CUresult location_check(const CUmemLocation *location)
{
	unsigned gpu;

	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return sim_device_gpu(location->id, &gpu);
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* The first form's number: a device, or the processor. */
static CUmemLocation location_of(CUdevice device)
{
	if (device == CU_DEVICE_CPU)
		return (CUmemLocation){ CU_MEM_LOCATION_TYPE_HOST, 0 };
	return (CUmemLocation){ CU_MEM_LOCATION_TYPE_DEVICE, device };
}

/* ---- advice ---- */

static uint32_t accessor_bit(const CUmemLocation *location)
{
	/* Bit 31 is the processor. */
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? 1U << location->id : 1U << 31;
}

static CUresult advise_locked(struct sim_advice *advice, CUmem_advise what,
			      const CUmemLocation *location)
{
	switch (what) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		advice->read_mostly = what == CU_MEM_ADVISE_SET_READ_MOSTLY;
		return CUDA_SUCCESS;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		advice->preferred = *location;
		return CUDA_SUCCESS;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		advice->preferred = (CUmemLocation){ CU_MEM_LOCATION_TYPE_INVALID, 0 };
		return CUDA_SUCCESS;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
		advice->accessors |= accessor_bit(location);
		return CUDA_SUCCESS;
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		advice->accessors &= ~accessor_bit(location);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult advise(CUdeviceptr pointer, size_t count, CUmem_advise what, CUmemLocation location)
{
	bool needs_location = what == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
			      what == CU_MEM_ADVISE_SET_ACCESSED_BY ||
			      what == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
	struct sim_block *block;
	CUresult result = CUDA_SUCCESS;

	if (needs_location)
		result = location_check(&location);
	if (result != CUDA_SUCCESS)
		return result;
	sim_memory_lock();
	block = managed_locked(pointer, count);
	result = block ? advise_locked(&block->advice, what, &location) : CUDA_ERROR_INVALID_VALUE;
	sim_memory_unlock();
	return result;
}

SIM_EXPORT CUresult cuMemAdvise(CUdeviceptr dev_ptr, size_t count, CUmem_advise advice,
				CUdevice device)
{
	SIM_ENTER(cuMemAdvise);
	return SIM_LEAVE(advise(dev_ptr, count, advice, location_of(device)));
}

SIM_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr dev_ptr, size_t count, CUmem_advise advice,
				   CUmemLocation location)
{
	SIM_ENTER(cuMemAdvise_v2);
	return SIM_LEAVE(advise(dev_ptr, count, advice, location));
}

/* ---- prefetch ---- */

static CUresult prefetch(CUdeviceptr pointer, size_t count, CUmemLocation location, CUstream handle,
			 enum sim_form form)
{
	struct sim_stream *stream;
	struct sim_block *block;
	CUresult result;

	result = location_check(&location);
	if (result == CUDA_SUCCESS)
		result = sim_stream_get(handle, form, &stream);
	if (result == CUDA_SUCCESS && sim_stream_is_capturing(stream))
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (result != CUDA_SUCCESS)
		return result;
	sim_memory_lock();
	block = managed_locked(pointer, count);
	if (block)
		block->advice.prefetched = location;
	sim_memory_unlock();
	return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#define PREFETCH(symbol, form)                                                             \
	SIM_EXPORT CUresult symbol(CUdeviceptr dev_ptr, size_t count, CUdevice dst_device, \
				   CUstream stream)                                        \
	{                                                                                  \
		SIM_ENTER(symbol);                                                         \
		return SIM_LEAVE(prefetch(dev_ptr, count, location_of(dst_device), stream, \
					  SIM_FORM_##form));                               \
	}

#define PREFETCH_V2(symbol, form)                                                              \
	SIM_EXPORT CUresult symbol(CUdeviceptr dev_ptr, size_t count, CUmemLocation location,  \
				   unsigned int flags, CUstream stream)                        \
	{                                                                                      \
		SIM_ENTER(symbol);                                                             \
		if (flags != 0)                                                                \
			return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);                            \
		return SIM_LEAVE(prefetch(dev_ptr, count, location, stream, SIM_FORM_##form)); \
	}

PREFETCH(cuMemPrefetchAsync, plain)
PREFETCH(cuMemPrefetchAsync_ptsz, ptsz)
PREFETCH_V2(cuMemPrefetchAsync_v2, plain)
PREFETCH_V2(cuMemPrefetchAsync_v2_ptsz, ptsz)

/* ---- what was advised ---- */

static int32_t device_number(const CUmemLocation *location)
{
	if (location->type == CU_MEM_LOCATION_TYPE_INVALID)
		return CU_DEVICE_INVALID;
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? location->id : CU_DEVICE_CPU;
}

/* Fills the list of accessors, the rest of it with "none". */
static void accessors_write(const struct sim_advice *advice, int32_t *list, size_t count)
{
	size_t used = 0;

	for (int32_t device = 0; device < 32 && used < count; device++)
		if (advice->accessors & 1U << device)
			list[used++] = device == 31 ? CU_DEVICE_CPU : device;
	while (used < count)
		list[used++] = CU_DEVICE_INVALID;
}

static CUresult range_attribute(void *data, size_t data_bytes, CUmem_range_attribute attribute,
				const struct sim_advice *advice)
{
	int32_t value;

	if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
		if (data_bytes == 0 || data_bytes % 4)
			return CUDA_ERROR_INVALID_VALUE;
		accessors_write(advice, data, data_bytes / 4);
		return CUDA_SUCCESS;
	}
	if (data_bytes != 4)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		value = advice->read_mostly;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		value = device_number(&advice->preferred);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		value = device_number(&advice->prefetched);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		value = (int32_t)advice->preferred.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		value = advice->preferred.id;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		value = (int32_t)advice->prefetched.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		value = advice->prefetched.id;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	memcpy(data, &value, sizeof(value));
	return CUDA_SUCCESS;
}

static CUresult range_advice(CUdeviceptr pointer, size_t count, struct sim_advice *ret_advice)
{
	struct sim_block *block;

	sim_memory_lock();
	block = managed_locked(pointer, count);
	if (block)
		*ret_advice = block->advice;
	sim_memory_unlock();
	return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t data_size,
					   CUmem_range_attribute attribute, CUdeviceptr dev_ptr,
					   size_t count)
{
	struct sim_advice advice;
	CUresult result;

	SIM_ENTER(cuMemRangeGetAttribute);
	if (!data)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = range_advice(dev_ptr, count, &advice);
	if (result == CUDA_SUCCESS)
		result = range_attribute(data, data_size, attribute, &advice);
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuMemRangeGetAttributes(void **data, size_t *data_sizes,
					    CUmem_range_attribute *attributes,
					    size_t num_attributes, CUdeviceptr dev_ptr,
					    size_t count)
{
	struct sim_advice advice;
	CUresult result;

	SIM_ENTER(cuMemRangeGetAttributes);
	if (!data || !data_sizes || !attributes || num_attributes == 0)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = range_advice(dev_ptr, count, &advice);
	for (size_t i = 0; i < num_attributes && result == CUDA_SUCCESS; i++)
		result = data[i] ? range_attribute(data[i], data_sizes[i], attributes[i], &advice)
				 : CUDA_ERROR_INVALID_VALUE;
	return SIM_LEAVE(result);
}
