/* SPDX-License-Identifier: Apache-2.0
 *
 * Physical memory by handle and where it is mapped.
 */
#ifndef BERTH_SIM_CUDA_VMM_H
#define BERTH_SIM_CUDA_VMM_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda_types.h"
#include "sim/config.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/memory_internal.h"

/* cuMemCreate's. Ends when the last handle is released and the last mapping is gone. */
struct sim_allocation {
	struct sim_handle handle;
	CUmemAllocationProp props;
	size_t bytes;
	unsigned gpu;
	bool is_host;     /* of no GPU, charged to nobody */
	bool is_imported; /* charged where it was made */
	uint64_t charged_bytes;
	unsigned handle_count; /* 0: only mappings keep it */
	unsigned map_count;
	int fd;                  /* of its own file, or -1: */
	struct sim_block *block; /* it lies in the GPU's arena */
};

/* One cuMemMap. */
struct sim_mapping {
	struct sim_allocation *allocation;
	size_t offset_bytes;
	CUmemAccess_flags access[SIM_GPU_MAX];
	CUmemAccess_flags host_access;
};

/* All under sim_vmm_lock. It is taken outside of sim_memory_lock. */
void sim_vmm_lock(void);
void sim_vmm_unlock(void);
/* NULL unless handles to it are out. */
struct sim_allocation *sim_allocation_get_locked(CUmemGenericAllocationHandle handle);
struct sim_allocation *sim_allocation_new_locked(const CUmemAllocationProp *props, size_t bytes);
/* Ends it if nothing keeps it. */
void sim_allocation_settle_locked(struct sim_allocation *allocation);
/* The file and where in it the bytes are. */
int sim_allocation_file(const struct sim_allocation *allocation, uint64_t *ret_offset_bytes);

/* What a file of its own says about itself, behind its last byte. */
#define SIM_EXPORT_MAGIC 0x6d6d762d6d6973ULL
struct sim_export_note {
	uint64_t magic;
	uint64_t bytes;
	uint32_t gpu;
	uint32_t is_host;
	CUmemAllocationProp props;
};

#endif
