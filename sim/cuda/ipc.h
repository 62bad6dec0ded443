/* SPDX-License-Identifier: Apache-2.0
 *
 * How one process describes a block of its memory to another.
 */
#ifndef BERTH_SIM_CUDA_IPC_H
#define BERTH_SIM_CUDA_IPC_H

#include <stdint.h>

#include "driver/cuda_types.h"
#include "sim/cuda/memory_internal.h"

#define SIM_IPC_MAGIC 0x6d656d2d63706900ULL /* plus the kind of memory */

struct sim_ipc_handle {
	uint64_t magic;
	uint64_t generation; /* of the exporter's claim of its row */
	uint32_t row;
	uint32_t host_pid;
	uint32_t gpu;
	int32_t fd;
	uint64_t offset_bytes;
	uint64_t size_bytes;
	uint64_t buffer_id;
	uint64_t reserved_;
};

_Static_assert(sizeof(struct sim_ipc_handle) == CU_IPC_HANDLE_SIZE, "fills the handle");

/* Of the block of that kind that holds the pointer; INVALID_VALUE if there is none. */
CUresult sim_ipc_describe(CUdeviceptr pointer, enum sim_memory_kind kind,
			  struct sim_ipc_handle *ret_handle);
/* A handle from outside: whole, of that kind, of a living process that isn't this one. */
CUresult sim_ipc_check(const struct sim_ipc_handle *handle, enum sim_memory_kind kind);
/* Maps it and publishes a block with the kind, context and pool of `like`. */
CUresult sim_ipc_map(const struct sim_ipc_handle *handle, const struct sim_block *like,
		     CUdeviceptr *ret_pointer);

#endif
