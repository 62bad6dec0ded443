/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool, for pool.c and the files with the calls on pools.
 */
#ifndef BERTH_SIM_CUDA_POOL_INTERNAL_H
#define BERTH_SIM_CUDA_POOL_INTERNAL_H

#include "sim/config.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/pool.h"

struct sim_pool {
	struct sim_handle handle;
	struct sim_pool *next;
	CUmemPoolProps props;
	unsigned gpu;
	bool is_default;
	bool is_imported;  /* another process allocates from it */
	bool is_destroyed; /* ends with its last piece */
	int reuse[3];      /* the three CU_MEMPOOL_ATTR_REUSE_* */
	CUmemAccess_flags access[SIM_GPU_MAX];
	uint64_t release_threshold_bytes;
	uint64_t reserved_bytes;
	uint64_t reserved_high_bytes;
	uint64_t used_bytes;
	uint64_t used_high_bytes;
	uint64_t piece_count;
};

void sim_pools_lock(void);
void sim_pools_unlock(void);

/* NULL for what isn't a living pool. */
struct sim_pool *sim_pool_get_locked(CUmemoryPool handle);
struct sim_pool *sim_pool_new_locked(const CUmemPoolProps *props, unsigned gpu);
void sim_pool_destroy_locked(struct sim_pool *pool);
/* Gives back what is above max(used, keep); how much that was. */
uint64_t sim_pool_shrink_locked(struct sim_pool *pool, uint64_t keep_bytes);

/* One piece of so many bytes more. */
void sim_pool_account_locked(struct sim_pool *pool, uint64_t bytes);

/* Both made at first use; NULL without memory. */
struct sim_pool *sim_pool_default_locked(unsigned gpu);
struct sim_pool *sim_pool_current_locked(unsigned gpu);
void sim_pool_set_current_locked(unsigned gpu, struct sim_pool *pool);

#endif
