/* SPDX-License-Identifier: Apache-2.0
 *
 * Occupancy: how many blocks of a function fit on an SM, and what follows from it.
 */
#include "sim/cuda/device.h"
#include "sim/cuda/function_limits.h"
#include "sim/cuda/launch.h"

/* The calls ask about a function in the current context. */
static CUresult begin(CUfunction handle, struct sim_context **ret_context,
		      struct sim_function **ret_function)
{
	CUresult err = sim_context_current(ret_context);

	return err == CUDA_SUCCESS ? sim_function_get(handle, *ret_context, ret_function) : err;
}

static CUresult active_blocks(int *ret_blocks, CUfunction handle, int block_size,
			      size_t shared_bytes, unsigned flags)
{
	struct sim_context *context;
	struct sim_function *function;
	CUresult err = begin(handle, &context, &function);

	if (err != CUDA_SUCCESS)
		return err;
	if (!ret_blocks || block_size <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_blocks = (int)sim_blocks_per_sm(function, (unsigned)block_size, shared_bytes);
	return CUDA_SUCCESS;
}

/* The block size that keeps most threads on an SM; the greatest of those that do. */
static unsigned best_block(const struct sim_function *function, CUoccupancyB2DSize shared_of,
			   size_t shared_bytes, unsigned limit)
{
	unsigned best = 0;
	unsigned best_threads = 0;

	for (unsigned threads = limit & ~(SIM_WARP_THREADS - 1); threads >= SIM_WARP_THREADS;
	     threads -= SIM_WARP_THREADS) {
		size_t shared = shared_of ? shared_of((int)threads) : shared_bytes;
		unsigned active = sim_blocks_per_sm(function, threads, shared) * threads;

		if (active > best_threads) {
			best_threads = active;
			best = threads;
		}
	}
	return best;
}

static CUresult potential_block(int *ret_grid, int *ret_block, CUfunction handle,
				CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit,
				unsigned flags)
{
	struct sim_context *context;
	struct sim_function *function;
	unsigned most, block;
	CUresult err = begin(handle, &context, &function);

	if (err != CUDA_SUCCESS)
		return err;
	if (!ret_grid || !ret_block || limit < 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return CUDA_ERROR_INVALID_VALUE;
	most = function->info->threads_max;
	if (limit && (unsigned)limit < most)
		most = (unsigned)limit;
	block = best_block(function, shared_of, shared_bytes, most);
	if (!block)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	*ret_block = (int)block;
	*ret_grid = (int)(sim_blocks_per_sm(function, block,
					    shared_of ? shared_of((int)block) : shared_bytes) *
			  sim_device_config(context->device)->sm_count);
	return CUDA_SUCCESS;
}

static CUresult dynamic_shared(size_t *ret_bytes, CUfunction handle, int blocks, int block_size)
{
	struct sim_context *context;
	struct sim_function *function;
	size_t each;
	CUresult err = begin(handle, &context, &function);

	if (err != CUDA_SUCCESS)
		return err;
	if (!ret_bytes || blocks <= 0 || block_size <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_blocks_per_sm(function, (unsigned)block_size, 0) < (unsigned)blocks)
		return CUDA_ERROR_INVALID_VALUE;
	each = SIM_SHARED_BYTES_SM / (unsigned)blocks;
	each -= function->info->shared_bytes + SIM_SHARED_BYTES_SYSTEM;
	if (each > (size_t)function->settings.dynamic_shared_max)
		each = (size_t)function->settings.dynamic_shared_max;
	*ret_bytes = each;
	return CUDA_SUCCESS;
}

SIM_FUNCTION(cuOccupancyMaxActiveBlocksPerMultiprocessor,
	     (int *num_blocks, CUfunction function, int block_size, size_t dynamic_s_mem_size),
	     active_blocks(num_blocks, function, block_size, dynamic_s_mem_size, 0))
SIM_FUNCTION(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
	     (int *num_blocks, CUfunction function, int block_size, size_t dynamic_s_mem_size,
	      unsigned int flags),
	     active_blocks(num_blocks, function, block_size, dynamic_s_mem_size, flags))
SIM_FUNCTION(cuOccupancyMaxPotentialBlockSize,
	     (int *min_grid_size, int *block_size, CUfunction function,
	      CUoccupancyB2DSize block_size_to_dynamic_s_mem_size, size_t dynamic_s_mem_size,
	      int block_size_limit),
	     potential_block(min_grid_size, block_size, function, block_size_to_dynamic_s_mem_size,
			     dynamic_s_mem_size, block_size_limit, 0))
SIM_FUNCTION(cuOccupancyMaxPotentialBlockSizeWithFlags,
	     (int *min_grid_size, int *block_size, CUfunction function,
	      CUoccupancyB2DSize block_size_to_dynamic_s_mem_size, size_t dynamic_s_mem_size,
	      int block_size_limit, unsigned int flags),
	     potential_block(min_grid_size, block_size, function, block_size_to_dynamic_s_mem_size,
			     dynamic_s_mem_size, block_size_limit, flags))
SIM_FUNCTION(cuOccupancyAvailableDynamicSMemPerBlock,
	     (size_t * dynamic_smem_size, CUfunction function, int num_blocks, int block_size),
	     dynamic_shared(dynamic_smem_size, function, num_blocks, block_size))
