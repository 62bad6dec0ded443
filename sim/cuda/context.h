/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts and each thread's stack of them. A CUcontext is the address of a struct sim_context that
 * is never given back to the allocator, so a stale handle can be told from a living one.
 *
 * Other files hang what they keep per context on `parts` and register a function that takes it
 * down: called once for each context that ends (destroy, last release, reset), before its memory
 * is freed, with no lock of this file held.
 */
#ifndef BERTH_SIM_CUDA_CONTEXT_H
#define BERTH_SIM_CUDA_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda_types.h"

enum sim_context_part {
	SIM_PART_STREAM = 0, /* streams, events, capture: engine */
	SIM_PART_MODULE,     /* modules, libraries, functions: engine */
	SIM_PART_LAUNCH,     /* anything else of the engine */
	SIM_PART_MEMORY,     /* linear memory, arrays: core; always the last to go */
	SIM_PART_COUNT
};

struct sim_context {
	/* Grows by one at birth and by one at death: odd = alive. */
	_Atomic uint64_t incarnation;
	CUdevice device;
	unsigned gpu;
	unsigned flags;
	unsigned api_version;
	bool is_primary;
	uint64_t id; /* cuCtxGetId: unique in this process */
	uint64_t charged_bytes;
	size_t limits[16]; /* by CUlimit */
	int cache_config;
	int shared_config;
	/* Each slot belongs to its part's owner, who locks it itself. */
	_Atomic(void *) parts[SIM_PART_COUNT];
	/* context.c's own */
	struct sim_context *next;
	unsigned attach_count;
	unsigned peer_count;
	struct sim_context *peers[16];
};

/* The calling thread's current context: CUDA_ERROR_INVALID_CONTEXT if there is none,
 * CUDA_ERROR_CONTEXT_IS_DESTROYED if it ended meanwhile. */
CUresult sim_context_current(struct sim_context **ret_context);
/* A handle from the program; NULL means the current one where `allow_null`. */
CUresult sim_context_get(CUcontext handle, bool allow_null, struct sim_context **ret_context);
bool sim_context_is_alive(const struct sim_context *context);

/* The device's primary context if active, whether or not it is current; NULL if inactive. */
struct sim_context *sim_context_primary(CUdevice device);
/* Retains the primary context for good (libraries loaded without a context want it). */
CUresult sim_context_primary_hold(CUdevice device, struct sim_context **ret_context);

/* To be called from a constructor or from cuInit; one function a part. */
void sim_context_on_end(enum sim_context_part part, void (*end)(struct sim_context *context));

#endif
