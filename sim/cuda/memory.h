/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of this process, by address. Device memory lies in one sparse file per GPU and process,
 * mapped where the device pointers point, so a device pointer is also a host address *for the
 * simulator*; but nobody may use one as such without sim_memory_resolve, which is what finds a use
 * after free, a run past the end and a pointer from nowhere.
 *
 * One mutex (address_map.c) protects the table. It is never held while bytes are moved or while the
 * node is asked for memory.
 */
#ifndef BERTH_SIM_CUDA_MEMORY_H
#define BERTH_SIM_CUDA_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/cuda_types.h"

struct sim_context;

enum sim_memory_kind {
	SIM_MEMORY_DEVICE = 1, /* cuMemAlloc, cuMemAllocPitch */
	SIM_MEMORY_MANAGED,
	SIM_MEMORY_POOL,       /* cuMemAllocAsync and from pools */
	SIM_MEMORY_MODULE,     /* globals of modules */
	SIM_MEMORY_VMM,        /* a mapped range of a reservation */
	SIM_MEMORY_IPC,        /* opened from another process */
	SIM_MEMORY_EXTERNAL,   /* mapped from imported external memory */
	SIM_MEMORY_HOST,       /* cuMemAllocHost, cuMemHostAlloc */
	SIM_MEMORY_REGISTERED, /* cuMemHostRegister */
};

enum sim_access {
	SIM_READ = 1,
	SIM_WRITE = 2,
};

/* [pointer, pointer + bytes) as host memory. CUDA_ERROR_INVALID_VALUE unless all of it lies within
 * one living block (for VMM: within mapped, accessible, adjacent ranges). Zero bytes: the pointer
 * itself must be good. Notes writes, so that what was touched is taken back at the free. */
CUresult sim_memory_resolve(CUdeviceptr pointer, size_t bytes, enum sim_access access,
			    void **ret_host);

struct sim_memory_info {
	enum sim_memory_kind kind;
	CUdeviceptr base;
	size_t size_bytes; /* as asked for */
	unsigned gpu;      /* node index; meaningless for host kinds */
	CUdevice device;   /* ordinal */
	CUcontext context; /* NULL when it belongs to none */
	uint64_t buffer_id;
	CUmemoryPool pool;
	unsigned flags; /* as the program gave them */
	bool is_accessible;
	bool is_read_only;
	bool sync_memops;
};
/* The block that holds this address; CUDA_ERROR_INVALID_VALUE if none does. */
CUresult sim_memory_find(CUdeviceptr pointer, struct sim_memory_info *ret_info);

/* Device memory for a context, charged to its GPU. `align` is a power of two, 0 = 512.
 * CUDA_ERROR_OUT_OF_MEMORY, and *ret_pointer untouched, if it doesn't fit. */
CUresult sim_memory_allocate(struct sim_context *context, enum sim_memory_kind kind, size_t bytes,
			     size_t align, CUdeviceptr *ret_pointer);
/* Frees a block of any allocated device kind by its exact base; CUDA_ERROR_INVALID_VALUE else. */
CUresult sim_memory_free(CUdeviceptr pointer);

/* A host function ran that may have written anywhere: from now on every block counts as touched. */
void sim_memory_note_kernels(void);

/* The engine calls this where the program synchronised (stream, event, context): pools give back
 * what they keep above their release threshold. */
void sim_pool_synchronized(void);

#endif
