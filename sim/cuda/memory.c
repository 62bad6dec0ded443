/* SPDX-License-Identifier: Apache-2.0
 *
 * Making, finding and ending blocks of device memory; what the program calls is in memory_calls.c.
 *
 * Order of an allocation: charge the node, take address space, publish. Of a free: unpublish (from
 * here on nobody can resolve it), spoil the contents, give address space back, refund. So a block
 * that can be found is always charged, and a killed process leaves only its row to clear.
 */
#include "sim/cuda/memory_internal.h"

#include "sim/cuda/array.h"
#include "sim/cuda/context.h"
#include "sim/cuda/device.h"
#include "sim/cuda/pool.h"
#include "sim/node/node.h"

static uint64_t next_buffer_id = 1; /* under the memory lock */
static _Atomic bool kernels_may_write;

void sim_memory_note_kernels(void)
{
	atomic_store_explicit(&kernels_may_write, true, memory_order_relaxed);
}

CUresult sim_memory_charge(unsigned gpu, uint64_t bytes)
{
	if (sim_node_charge(gpu, bytes) == 0)
		return CUDA_SUCCESS;
	if (sim_pool_give_up_unused(gpu) && sim_node_charge(gpu, bytes) == 0)
		return CUDA_SUCCESS;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static struct sim_block *place(unsigned gpu, bool low, size_t bytes, size_t align)
{
	struct sim_arena *arena = sim_arena_get(gpu, low);
	struct sim_block *block;

	if (!arena)
		return NULL;
	if (align < SIM_BLOCK_ALIGN)
		align = SIM_BLOCK_ALIGN;
	if (bytes >= SIM_LARGE_BLOCK && align < SIM_LARGE_BLOCK && !low)
		align = SIM_LARGE_BLOCK;
	sim_memory_lock();
	block = sim_arena_take_locked(arena, bytes, align);
	sim_memory_unlock();
	return block;
}

CUresult sim_memory_make(unsigned gpu, bool low, size_t bytes, size_t align, size_t charge_bytes,
			 struct sim_block **ret_block)
{
	struct sim_block *block;
	CUresult result;

	/* Sums with such a size must not wrap around. */
	if (bytes > sim_node_gpu(gpu)->memory_bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (charge_bytes) {
		result = sim_memory_charge(gpu, charge_bytes);
		if (result != CUDA_SUCCESS)
			return result;
	}
	block = place(gpu, low, bytes, align);
	if (!block) {
		if (charge_bytes)
			sim_node_refund(gpu, charge_bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	block->charged_bytes = charge_bytes;
	block->gpu = gpu;
	block->device = sim_device_of_gpu(gpu);
	block->is_accessible = true;
	*ret_block = block;
	return CUDA_SUCCESS;
}

void sim_memory_unmake(struct sim_block *block)
{
	uint64_t charged_bytes = block->charged_bytes;
	unsigned gpu = block->gpu;

	if (atomic_load_explicit(&kernels_may_write, memory_order_relaxed))
		block->is_touched = true;
	sim_arena_spoil(block);
	sim_memory_lock();
	sim_arena_give_locked(block);
	sim_memory_unlock();
	if (charged_bytes)
		sim_node_refund(gpu, charged_bytes);
}

/* ---- the lists of contexts: the head hangs on the context's part ---- */

static void context_list_add_locked(struct sim_block *block)
{
	struct sim_context *context = block->context;
	struct sim_block *head = context->parts[SIM_PART_MEMORY];

	block->context_prev = NULL;
	block->context_next = head;
	if (head)
		head->context_prev = block;
	context->parts[SIM_PART_MEMORY] = block;
}

static void context_list_remove_locked(struct sim_block *block)
{
	if (block->context_prev)
		block->context_prev->context_next = block->context_next;
	else
		block->context->parts[SIM_PART_MEMORY] = block->context_next;
	if (block->context_next)
		block->context_next->context_prev = block->context_prev;
}

void sim_memory_publish_locked(struct sim_block *block)
{
	block->buffer_id = next_buffer_id++;
	sim_map_insert_locked(block);
	if (block->context)
		context_list_add_locked(block);
}

void sim_memory_unpublish_locked(struct sim_block *block)
{
	sim_map_remove_locked(block);
	if (block->context)
		context_list_remove_locked(block);
}

static void block_end(struct sim_block *block)
{
	switch (block->kind) {
	case SIM_MEMORY_HOST:
	case SIM_MEMORY_REGISTERED:
		sim_host_block_end(block);
		break;
	case SIM_MEMORY_IPC:
	case SIM_MEMORY_EXTERNAL:
		sim_ipc_block_end(block);
		break;
	default:
		sim_memory_unmake(block);
	}
}

static struct sim_block *context_take_block(struct sim_context *context)
{
	struct sim_block *block;

	sim_memory_lock();
	block = context->parts[SIM_PART_MEMORY];
	if (block)
		sim_memory_unpublish_locked(block);
	sim_memory_unlock();
	return block;
}

static void end_with_context(struct sim_context *context)
{
	struct sim_block *block;

	sim_array_end_with_context(context);
	while ((block = context_take_block(context)))
		block_end(block);
}

__attribute__((constructor)) static void register_end(void)
{
	sim_context_on_end(SIM_PART_MEMORY, end_with_context);
}

/* ---- for everybody ---- */

CUresult sim_memory_allocate(struct sim_context *context, enum sim_memory_kind kind, size_t bytes,
			     size_t align, CUdeviceptr *ret_pointer)
{
	struct sim_block *block;
	CUresult result;

	result = sim_memory_make(context->gpu, false, bytes, align, bytes, &block);
	if (result != CUDA_SUCCESS)
		return result;
	block->kind = kind;
	block->context = context;
	/* The processor writes managed memory without asking. */
	block->is_touched = kind == SIM_MEMORY_MANAGED;
	sim_memory_lock();
	sim_memory_publish_locked(block);
	sim_memory_unlock();
	*ret_pointer = block->base;
	return CUDA_SUCCESS;
}

static bool is_freeable(const struct sim_block *block)
{
	return block->kind == SIM_MEMORY_DEVICE || block->kind == SIM_MEMORY_MANAGED ||
	       block->kind == SIM_MEMORY_MODULE || block->kind == SIM_MEMORY_EXTERNAL;
}

CUresult sim_memory_free(CUdeviceptr pointer)
{
	struct sim_block *block;

	sim_memory_lock();
	block = sim_map_find_locked(pointer);
	if (!block || block->base != pointer || !is_freeable(block)) {
		bool is_pooled = block && block->base == pointer && block->kind == SIM_MEMORY_POOL;

		sim_memory_unlock();
		return is_pooled ? sim_pool_free(pointer) : CUDA_ERROR_INVALID_VALUE;
	}
	sim_memory_unpublish_locked(block);
	sim_memory_unlock();
	block_end(block);
	return CUDA_SUCCESS;
}

/* From the address on, `bytes` lie in usable blocks; only mapped physical memory may be made of
 * several, one after the other. */
static bool range_is_good_locked(struct sim_block *block, uintptr_t address, size_t bytes,
				 enum sim_access access)
{
	while (block && block->is_accessible && !((access & SIM_WRITE) && block->is_read_only)) {
		size_t left = block->base + block->size_bytes - address;

		if (address >= block->base + block->size_bytes && bytes > 0)
			return false;
		if (access & SIM_WRITE)
			block->is_touched = true;
		if (bytes <= left)
			return true;
		if (block->kind != SIM_MEMORY_VMM)
			return false;
		bytes -= left;
		address += left;
		block = sim_map_find_locked(address);
		if (block && block->kind != SIM_MEMORY_VMM)
			return false;
	}
	return false;
}

CUresult sim_memory_resolve(CUdeviceptr pointer, size_t bytes, enum sim_access access,
			    void **ret_host)
{
	bool is_good;

	sim_memory_lock();
	is_good = range_is_good_locked(sim_map_find_locked(pointer), pointer, bytes, access);
	sim_memory_unlock();
	if (!is_good)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_host = (void *)(uintptr_t)pointer;
	return CUDA_SUCCESS;
}

CUresult sim_memory_find(CUdeviceptr pointer, struct sim_memory_info *ret_info)
{
	struct sim_block *block;

	sim_memory_lock();
	block = sim_map_find_locked(pointer);
	if (block && pointer >= block->base + block->size_bytes)
		block = NULL;
	if (block)
		*ret_info = (struct sim_memory_info){
			.kind = block->kind,
			.base = block->base,
			.size_bytes = block->size_bytes,
			.gpu = block->gpu,
			.device = block->device,
			.context = (CUcontext)block->context,
			.buffer_id = block->buffer_id,
			.flags = block->flags,
			.pool = (CUmemoryPool)block->pool,
			.is_accessible = block->is_accessible,
			.is_read_only = block->is_read_only,
			.sync_memops = block->sync_memops,
		};
	sim_memory_unlock();
	return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
