/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools: what they reserve and who has a piece of it. The exported calls are in pool_calls.c.
 *
 * A pool's reserve is a number of bytes charged to its GPU, in steps; address space for each piece
 * comes from the GPU's arena. used <= reserved always; the lock of all pools is held while both
 * change, also over the charge, so that two threads don't reserve for the same need twice. The
 * memory lock is taken inside it, never the other way round.
 */
#include "sim/cuda/pool_internal.h"

#include <pthread.h>
#include <string.h>

#include "sim/cuda/context.h"
#include "sim/cuda/device.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/memory_internal.h"
#include "sim/node/node.h"

static pthread_mutex_t pools_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sim_pool *pools; /* all that live */
static struct sim_pool *default_pools[SIM_GPU_MAX];
static struct sim_pool *current_pools[SIM_GPU_MAX];

void sim_pools_lock(void)
{
	pthread_mutex_lock(&pools_mutex);
}

void sim_pools_unlock(void)
{
	pthread_mutex_unlock(&pools_mutex);
}

/* ---- reserve ---- */

static uint64_t steps_up(uint64_t bytes)
{
	return (bytes + SIM_POOL_STEP - 1) / SIM_POOL_STEP * SIM_POOL_STEP;
}

static bool is_on_device(const struct sim_pool *pool)
{
	return pool->props.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

uint64_t sim_pool_shrink_locked(struct sim_pool *pool, uint64_t keep_bytes)
{
	uint64_t target = steps_up(pool->used_bytes > keep_bytes ? pool->used_bytes : keep_bytes);
	uint64_t freed = 0;

	if (target < pool->reserved_bytes) {
		freed = pool->reserved_bytes - target;
		pool->reserved_bytes = target;
		if (is_on_device(pool))
			sim_node_refund(pool->gpu, freed);
	}
	return freed;
}

static bool give_up_unused_locked(unsigned gpu)
{
	uint64_t freed = 0;

	for (struct sim_pool *pool = pools; pool; pool = pool->next)
		if (pool->gpu == gpu)
			freed += sim_pool_shrink_locked(pool, 0);
	return freed > 0;
}

bool sim_pool_give_up_unused(unsigned gpu)
{
	bool some;

	sim_pools_lock();
	some = give_up_unused_locked(gpu);
	sim_pools_unlock();
	return some;
}

void sim_pool_synchronized(void)
{
	/* Most programs have no pool: they shouldn't pay for a lock. */
	if (!__atomic_load_n(&pools, __ATOMIC_RELAXED))
		return;
	sim_pools_lock();
	for (struct sim_pool *pool = pools; pool; pool = pool->next)
		sim_pool_shrink_locked(pool, pool->release_threshold_bytes);
	sim_pools_unlock();
}

static CUresult grow_locked(struct sim_pool *pool, uint64_t bytes)
{
	uint64_t need = pool->used_bytes + bytes;
	uint64_t target;

	if (pool->props.maxSize && need > pool->props.maxSize)
		return CUDA_ERROR_OUT_OF_MEMORY;
	target = steps_up(need);
	if (target <= pool->reserved_bytes)
		return CUDA_SUCCESS;
	if (is_on_device(pool)) {
		uint64_t more = target - pool->reserved_bytes;

		if (sim_node_charge(pool->gpu, more)) {
			/* It may be what this pool keeps that is in the way of another's need. */
			if (!give_up_unused_locked(pool->gpu))
				return CUDA_ERROR_OUT_OF_MEMORY;
			more = target - pool->reserved_bytes;
			if (sim_node_charge(pool->gpu, more))
				return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	pool->reserved_bytes = target;
	if (pool->reserved_high_bytes < target)
		pool->reserved_high_bytes = target;
	return CUDA_SUCCESS;
}

static uint64_t piece_bytes(size_t bytes)
{
	return (bytes + SIM_BLOCK_ALIGN - 1) & ~(SIM_BLOCK_ALIGN - 1);
}

void sim_pool_account_locked(struct sim_pool *pool, uint64_t bytes)
{
	pool->used_bytes += bytes;
	pool->piece_count++;
	if (pool->used_high_bytes < pool->used_bytes)
		pool->used_high_bytes = pool->used_bytes;
}

/* ---- pieces ---- */

static CUresult take_piece_locked(struct sim_pool *pool, size_t bytes, CUdeviceptr *ret_pointer)
{
	struct sim_block *block;
	CUresult result;

	if (bytes > sim_node_gpu(pool->gpu)->memory_bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = grow_locked(pool, piece_bytes(bytes));
	if (result == CUDA_SUCCESS)
		result = sim_memory_make(pool->gpu, false, bytes, 0, 0, &block);
	if (result != CUDA_SUCCESS)
		return result;
	sim_pool_account_locked(pool, block->span_bytes);
	block->kind = SIM_MEMORY_POOL;
	block->pool = pool;
	/* Others of the process may write by an imported pointer. */
	block->is_touched = pool->props.handleTypes != CU_MEM_HANDLE_TYPE_NONE;
	sim_memory_lock();
	sim_memory_publish_locked(block);
	sim_memory_unlock();
	*ret_pointer = block->base;
	return CUDA_SUCCESS;
}

CUresult sim_pool_allocate(CUmemoryPool handle, struct sim_context *context, size_t bytes,
			   CUdeviceptr *ret_pointer)
{
	struct sim_pool *pool;
	CUresult result;

	sim_pools_lock();
	pool = handle ? sim_pool_get_locked(handle) : sim_pool_current_locked(context->gpu);
	if (!pool)
		result = handle ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
	else if (pool->is_imported)
		result = CUDA_ERROR_INVALID_VALUE; /* only the exporter allocates from it */
	else
		result = take_piece_locked(pool, bytes, ret_pointer);
	sim_pools_unlock();
	return result;
}

static void pool_end_locked(struct sim_pool *pool)
{
	struct sim_pool **place = &pools;

	sim_pool_shrink_locked(pool, 0);
	while (*place != pool)
		place = &(*place)->next;
	*place = pool->next;
	sim_handle_free(pool);
}

static void piece_is_back_locked(struct sim_pool *pool, uint64_t bytes)
{
	pool->used_bytes -= bytes;
	pool->piece_count--;
	if (pool->is_destroyed && pool->piece_count == 0)
		pool_end_locked(pool);
}

CUresult sim_pool_free(CUdeviceptr pointer)
{
	struct sim_block *block;
	struct sim_pool *pool;
	uint64_t bytes;

	sim_memory_lock();
	block = sim_map_find_locked(pointer);
	if (block && (block->base != pointer || block->kind != SIM_MEMORY_POOL))
		block = NULL;
	if (block)
		sim_memory_unpublish_locked(block);
	sim_memory_unlock();
	if (!block)
		return CUDA_ERROR_INVALID_VALUE;
	pool = block->pool;
	bytes = block->span_bytes;
	if (block->arena)
		sim_memory_unmake(block);
	else
		sim_ipc_block_end(block);
	sim_pools_lock();
	piece_is_back_locked(pool, bytes);
	sim_pools_unlock();
	return CUDA_SUCCESS;
}

static struct sim_block *find_piece(const struct sim_pool *pool)
{
	struct sim_block *block;

	sim_memory_lock();
	block = sim_map_next_locked(0);
	while (block && (block->kind != SIM_MEMORY_POOL || block->pool != pool))
		block = sim_map_next_locked(block->base + 1);
	sim_memory_unlock();
	return block;
}

void sim_pool_device_reset(CUdevice device)
{
	unsigned gpu = sim_device_gpu_of(device);
	struct sim_pool *pool;
	struct sim_block *block;

	sim_pools_lock();
	pool = default_pools[gpu];
	sim_pools_unlock();
	if (!pool)
		return;
	while ((block = find_piece(pool)))
		(void)sim_pool_free(block->base); /* another thread may have been faster */
	sim_pools_lock();
	sim_pool_shrink_locked(pool, 0);
	sim_pools_unlock();
}

/* ---- pools by handle ---- */

struct sim_pool *sim_pool_get_locked(CUmemoryPool handle)
{
	struct sim_pool *pool = sim_handle_get(SIM_HANDLE_POOL, handle);

	return pool && !pool->is_destroyed ? pool : NULL;
}

CUresult sim_pool_check(CUmemoryPool handle)
{
	struct sim_pool *pool;

	if (!handle)
		return CUDA_SUCCESS;
	sim_pools_lock();
	pool = sim_pool_get_locked(handle);
	sim_pools_unlock();
	return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct sim_pool *sim_pool_new_locked(const CUmemPoolProps *props, unsigned gpu)
{
	struct sim_pool *pool = sim_handle_new(SIM_HANDLE_POOL, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->props = *props;
	pool->gpu = gpu;
	for (unsigned i = 0; i < 3; i++)
		pool->reuse[i] = 1;
	for (unsigned i = 0; i < SIM_GPU_MAX; i++)
		pool->access[i] = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	if (is_on_device(pool))
		pool->access[gpu] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	pool->next = pools;
	__atomic_store_n(&pools, pool, __ATOMIC_RELAXED);
	return pool;
}

struct sim_pool *sim_pool_default_locked(unsigned gpu)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_NONE,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, sim_device_of_gpu(gpu) },
	};

	if (!default_pools[gpu]) {
		default_pools[gpu] = sim_pool_new_locked(&props, gpu);
		if (default_pools[gpu])
			default_pools[gpu]->is_default = true;
	}
	return default_pools[gpu];
}

struct sim_pool *sim_pool_current_locked(unsigned gpu)
{
	return current_pools[gpu] ? current_pools[gpu] : sim_pool_default_locked(gpu);
}

void sim_pool_set_current_locked(unsigned gpu, struct sim_pool *pool)
{
	current_pools[gpu] = pool;
}

/* Pieces that are still out keep what they need; the rest goes now. */
void sim_pool_destroy_locked(struct sim_pool *pool)
{
	for (unsigned gpu = 0; gpu < SIM_GPU_MAX; gpu++)
		if (current_pools[gpu] == pool)
			current_pools[gpu] = NULL;
	pool->is_destroyed = true;
	pool->release_threshold_bytes = 0;
	if (pool->piece_count == 0)
		pool_end_locked(pool);
	else
		sim_pool_shrink_locked(pool, 0);
}
