/* SPDX-License-Identifier: Apache-2.0
 *
 * Address ranges: reserve, map physical memory into them, say who may use it. A reservation is
 * address space without access; a mapping lays the allocation's file over it, still without access
 * until cuMemSetAccess. Unmapping puts the bare reservation back.
 */
#include "sim/cuda/vmm.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "sim/cuda/device.h"
#include "sim/cuda/entry.h"

#define MAX_RESERVE_BYTES (1UL << 46)

struct reservation {
	struct reservation *next;
	uintptr_t base;
	size_t bytes;
};

static struct reservation *reservations; /* under sim_vmm_lock */

/* ---- reservations ---- */

static void *map_nothing(void *where, size_t bytes, int flags)
{
	void *map = mmap(where, bytes, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);

	if (map != MAP_FAILED)
		(void)madvise(map, bytes, MADV_DONTFORK); /* a child can't use it either way */
	return map;
}

/* Aligned address space; 0 if there is none. */
static uintptr_t space_take(size_t bytes, size_t align, uintptr_t wanted)
{
	uintptr_t start;
	uintptr_t base;
	void *map;

	if (wanted && wanted % align == 0) {
		map = map_nothing((void *)wanted, bytes, MAP_FIXED_NOREPLACE);
		if (map == (void *)wanted)
			return wanted;
		if (map != MAP_FAILED)
			munmap(map, bytes);
	}
	map = map_nothing(NULL, bytes + align, 0);
	if (map == MAP_FAILED)
		return 0;
	start = (uintptr_t)map;
	base = (start + align - 1) / align * align;
	if (base > start)
		munmap(map, base - start);
	if (start + align > base)
		munmap((void *)(base + bytes), start + align - base);
	return base;
}

static CUresult reserve(CUdeviceptr *ret_pointer, size_t bytes, size_t align, CUdeviceptr wanted)
{
	struct reservation *reservation = calloc(1, sizeof(*reservation));

	if (!reservation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	reservation->base = space_take(bytes, align, wanted);
	reservation->bytes = bytes;
	if (!reservation->base) {
		free(reservation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_pointer = reservation->base;
	sim_vmm_lock();
	reservation->next = reservations;
	reservations = reservation;
	sim_vmm_unlock();
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t bytes, size_t alignment,
					CUdeviceptr addr, unsigned long long flags)
{
	SIM_ENTER(cuMemAddressReserve);
	if (!ptr || bytes == 0 || bytes % SIM_GRANULARITY || (alignment & (alignment - 1)) ||
	    flags != 0)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (bytes > MAX_RESERVE_BYTES || alignment > MAX_RESERVE_BYTES)
		return SIM_LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
	if (alignment < SIM_GRANULARITY)
		alignment = SIM_GRANULARITY;
	return SIM_LEAVE(reserve(ptr, bytes, alignment, addr));
}

static bool is_mapped(uintptr_t base, size_t bytes)
{
	bool is_mapped;

	sim_memory_lock();
	is_mapped = sim_map_overlaps_locked(base, bytes);
	sim_memory_unlock();
	return is_mapped;
}

static CUresult reservation_free_locked(uintptr_t base, size_t bytes)
{
	struct reservation **place = &reservations;
	struct reservation *found;

	while (*place && (*place)->base != base)
		place = &(*place)->next;
	found = *place;
	if (!found || found->bytes != bytes || is_mapped(base, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	*place = found->next;
	munmap((void *)base, bytes);
	free(found);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemAddressFree(CUdeviceptr ptr, size_t bytes)
{
	CUresult result;

	SIM_ENTER(cuMemAddressFree);
	sim_vmm_lock();
	result = reservation_free_locked(ptr, bytes);
	sim_vmm_unlock();
	return SIM_LEAVE(result);
}

static bool is_reserved_locked(uintptr_t base, size_t bytes)
{
	for (struct reservation *r = reservations; r; r = r->next)
		if (base >= r->base && base - r->base < r->bytes &&
		    bytes <= r->bytes - (base - r->base))
			return true;
	return false;
}

/* ---- mappings ---- */

static CUresult lay_over_locked(struct sim_allocation *allocation, uintptr_t base, size_t bytes,
				size_t offset_bytes)
{
	uint64_t file_offset;
	int fd = sim_allocation_file(allocation, &file_offset);

	if (mmap((void *)base, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd,
		 (off_t)(file_offset + offset_bytes)) == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(void)madvise((void *)base, bytes, MADV_DONTFORK); /* a child can't use it either way */
	return CUDA_SUCCESS;
}

/* The mapping is the block's from here on. */
static bool mapping_publish(struct sim_mapping *mapping, uintptr_t base, size_t bytes)
{
	struct sim_block *block;

	sim_memory_lock();
	block = sim_block_new();
	if (block) {
		block->kind = SIM_MEMORY_VMM;
		block->base = base;
		block->size_bytes = bytes;
		block->span_bytes = bytes;
		block->gpu = mapping->allocation->gpu;
		block->device = sim_device_of_gpu(block->gpu);
		block->mapping = mapping;
		sim_memory_publish_locked(block);
	}
	sim_memory_unlock();
	return block != NULL;
}

static CUresult map_locked(uintptr_t base, size_t bytes, size_t offset_bytes,
			   CUmemGenericAllocationHandle handle)
{
	struct sim_allocation *allocation = sim_allocation_get_locked(handle);
	struct sim_mapping *mapping;
	CUresult result;

	if (!allocation || offset_bytes > allocation->bytes ||
	    bytes > allocation->bytes - offset_bytes || !is_reserved_locked(base, bytes) ||
	    is_mapped(base, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	mapping = calloc(1, sizeof(*mapping));
	if (!mapping)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mapping->allocation = allocation;
	mapping->offset_bytes = offset_bytes;
	result = lay_over_locked(allocation, base, bytes, offset_bytes);
	if (result == CUDA_SUCCESS && !mapping_publish(mapping, base, bytes)) {
		(void)map_nothing((void *)base, bytes, MAP_FIXED); /* as before */
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (result == CUDA_SUCCESS)
		allocation->map_count++;
	else
		free(mapping);
	return result;
}

SIM_EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset,
			     CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult result;

	SIM_ENTER(cuMemMap);
	if (!ptr || ptr % SIM_GRANULARITY || bytes == 0 || bytes % SIM_GRANULARITY ||
	    offset % SIM_GRANULARITY || flags != 0)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	sim_vmm_lock();
	result = map_locked(ptr, bytes, offset, handle);
	sim_vmm_unlock();
	return SIM_LEAVE(result);
}

/* Is [base, base + bytes) exactly made of whole mappings? */
static bool is_whole_mappings(uintptr_t base, size_t bytes)
{
	uintptr_t end = base + bytes;
	bool is_whole = true;

	sim_memory_lock();
	while (is_whole && base < end) {
		struct sim_block *block = sim_map_find_locked(base);

		is_whole = block && block->kind == SIM_MEMORY_VMM && block->base == base &&
			   block->span_bytes <= end - base;
		if (is_whole)
			base += block->span_bytes;
	}
	sim_memory_unlock();
	return is_whole;
}

/* Takes away the mapping that begins at base; its size. */
static size_t unmap_one_locked(uintptr_t base)
{
	struct sim_allocation *allocation;
	struct sim_mapping *mapping;
	struct sim_block *block;
	size_t bytes;

	sim_memory_lock();
	block = sim_map_find_locked(base);
	mapping = block->mapping;
	bytes = block->span_bytes;
	sim_memory_unpublish_locked(block);
	sim_block_free(block);
	sim_memory_unlock();
	(void)map_nothing((void *)base, bytes, MAP_FIXED); /* over a mapping that is there */
	allocation = mapping->allocation;
	free(mapping);
	allocation->map_count--;
	sim_allocation_settle_locked(allocation);
	return bytes;
}

SIM_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t bytes)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	uintptr_t base = ptr;

	SIM_ENTER(cuMemUnmap);
	if (!ptr || bytes == 0 || ptr + bytes < ptr)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	sim_vmm_lock();
	if (is_whole_mappings(base, bytes)) {
		while (base < ptr + bytes)
			base += unmap_one_locked(base);
		result = CUDA_SUCCESS;
	}
	sim_vmm_unlock();
	return SIM_LEAVE(result);
}

/* ---- access ---- */

static bool is_host_location(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

static CUresult location_check(const CUmemLocation *location)
{
	unsigned gpu;

	if (is_host_location(location))
		return CUDA_SUCCESS;
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_device_gpu(location->id, &gpu);
}

static CUresult access_check(const CUmemAccessDesc *desc)
{
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	return location_check(&desc->location);
}

/* What any location may do, the simulator may do: it moves the bytes for all of them. */
static void access_apply_locked(struct sim_block *block)
{
	struct sim_mapping *mapping = block->mapping;
	unsigned all = mapping->host_access;
	int protection;

	for (unsigned gpu = 0; gpu < SIM_GPU_MAX; gpu++)
		all |= mapping->access[gpu];
	block->is_accessible = all != CU_MEM_ACCESS_FLAGS_PROT_NONE;
	block->is_read_only = all == CU_MEM_ACCESS_FLAGS_PROT_READ;
	protection = !block->is_accessible ? PROT_NONE
		     : block->is_read_only ? PROT_READ
					   : PROT_READ | PROT_WRITE;
	(void)mprotect((void *)block->base, block->span_bytes, protection); /* a whole mapping */
}

static void access_set_one(uintptr_t *base, const CUmemAccessDesc *list, size_t count)
{
	struct sim_block *block;

	sim_memory_lock();
	block = sim_map_find_locked(*base);
	for (size_t i = 0; i < count; i++) {
		if (is_host_location(&list[i].location))
			block->mapping->host_access = list[i].flags;
		else
			block->mapping->access[sim_device_gpu_of(list[i].location.id)] =
				list[i].flags;
	}
	access_apply_locked(block);
	*base += block->span_bytes;
	sim_memory_unlock();
}

SIM_EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *desc,
				   size_t count)
{
	CUresult result = CUDA_SUCCESS;
	uintptr_t base = ptr;

	SIM_ENTER(cuMemSetAccess);
	if (!ptr || bytes == 0 || ptr + bytes < ptr || !desc || count == 0)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = access_check(&desc[i]);
	if (result != CUDA_SUCCESS)
		return SIM_LEAVE(result);
	sim_vmm_lock();
	if (!is_whole_mappings(base, bytes))
		result = CUDA_ERROR_INVALID_VALUE;
	while (result == CUDA_SUCCESS && base < ptr + bytes)
		access_set_one(&base, desc, count);
	sim_vmm_unlock();
	return SIM_LEAVE(result);
}

static CUresult access_get(CUdeviceptr pointer, const CUmemLocation *location,
			   unsigned long long *ret_flags)
{
	struct sim_block *block;
	bool is_good;

	sim_memory_lock();
	block = sim_map_find_locked(pointer);
	is_good = block && block->kind == SIM_MEMORY_VMM;
	if (is_good)
		*ret_flags = is_host_location(location)
				     ? block->mapping->host_access
				     : block->mapping->access[sim_device_gpu_of(location->id)];
	sim_memory_unlock();
	return is_good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
				   CUdeviceptr ptr)
{
	CUresult result;

	SIM_ENTER(cuMemGetAccess);
	if (!flags || !location || !ptr)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	result = location_check(location);
	if (result == CUDA_SUCCESS)
		result = access_get(ptr, location, flags);
	return SIM_LEAVE(result);
}

SIM_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct sim_allocation *allocation = NULL;
	struct sim_block *block;

	SIM_ENTER(cuMemRetainAllocationHandle);
	if (!handle || !addr)
		return SIM_LEAVE(CUDA_ERROR_INVALID_VALUE);
	sim_vmm_lock();
	sim_memory_lock();
	block = sim_map_find_locked((uintptr_t)addr);
	if (block && block->kind == SIM_MEMORY_VMM)
		allocation = block->mapping->allocation;
	sim_memory_unlock();
	if (allocation) {
		allocation->handle_count++;
		*handle = (CUmemGenericAllocationHandle)(uintptr_t)allocation;
	}
	sim_vmm_unlock();
	return SIM_LEAVE(allocation ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
