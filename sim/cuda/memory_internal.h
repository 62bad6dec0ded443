/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks, the address map and the arenas, for the files that make memory of some kind.
 *
 * A block is a piece of address space. Those of an arena tile it: each is free or in use, and
 * knows its neighbours by address. Others (host memory, reservations, memory of another process)
 * stand alone. Every block in use that a program may point into is in the address map.
 */
#ifndef BERTH_SIM_CUDA_MEMORY_INTERNAL_H
#define BERTH_SIM_CUDA_MEMORY_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/config.h"
#include "sim/cuda/memory.h"

#define SIM_BLOCK_ALIGN 512UL
#define SIM_GRANULARITY (2UL << 20) /* of VMM */
#define SIM_LARGE_BLOCK (2UL << 20) /* from here on aligned to that */
#define SIM_PAGE        4096UL
#define SIM_POISON      0xdb

struct sim_arena;
struct sim_pool;
struct sim_mapping;

/* What cuMemAdvise and cuMemPrefetchAsync said; all zero: nothing. */
struct sim_advice {
	bool read_mostly;
	uint32_t accessors;
	CUmemLocation preferred;
	CUmemLocation prefetched;
};

struct sim_block {
	uintptr_t base;
	size_t span_bytes; /* what it occupies */
	size_t size_bytes; /* what was asked for */
	enum sim_memory_kind kind;
	bool is_free;      /* a hole in an arena */
	bool is_read_only; /* VMM without write access, read-only registered */
	bool is_accessible;
	bool sync_memops;
	_Atomic bool is_touched; /* somebody may have written to it */
	unsigned gpu;
	CUdevice device;
	unsigned flags; /* as given by the program: host, managed */
	struct sim_context *context;
	uint64_t buffer_id;
	uint64_t charged_bytes;

	/* address map (a treap) */
	struct sim_block *left;
	struct sim_block *right;
	uint32_t priority;

	/* the arena's order and, when free, the list of its size class */
	struct sim_arena *arena;
	struct sim_block *before;
	struct sim_block *after;
	struct sim_block *free_next;
	struct sim_block *free_prev;

	/* blocks of the same context */
	struct sim_block *context_next;
	struct sim_block *context_prev;

	/* by kind */
	struct sim_pool *pool;
	struct sim_mapping *mapping; /* VMM */
	struct sim_advice advice;    /* managed */
	uintptr_t map_base;          /* IPC, host, external: what to unmap */
	size_t map_bytes;
	unsigned open_count; /* IPC, with the two by which the same memory is known */
	uint64_t ipc_generation;
	uint64_t ipc_buffer_id;
};

/* ---- the address map; all under sim_memory_lock ---- */
void sim_memory_lock(void);
void sim_memory_unlock(void);
void sim_map_insert_locked(struct sim_block *block);
void sim_map_remove_locked(struct sim_block *block);
/* The block that contains the address (its span, at least one byte), or NULL. */
struct sim_block *sim_map_find_locked(uintptr_t address);
/* The block with the least base >= address, or NULL. */
struct sim_block *sim_map_next_locked(uintptr_t address);
bool sim_map_overlaps_locked(uintptr_t base, size_t bytes);

struct sim_block *sim_block_new(void);
void sim_block_free(struct sim_block *block);

/* ---- arenas (arena.c); under sim_memory_lock where the name says so ---- */

/* The arena of that GPU, made at its first use; `low` is the small one below 4 GiB for the first
 * API. NULL: no address space. */
struct sim_arena *sim_arena_get(unsigned gpu, bool low);
/* A block that is in use, not in the address map. NULL when no hole is large enough. */
struct sim_block *sim_arena_take_locked(struct sim_arena *arena, size_t bytes, size_t align);
void sim_arena_give_locked(struct sim_block *block);
/* Overwrites or takes back what was written there, so that nobody can count on it. */
void sim_arena_spoil(struct sim_block *block);
int sim_arena_fd(const struct sim_arena *arena);
uint64_t sim_arena_offset(const struct sim_arena *arena, uintptr_t address);
/* Inside a device arena, living or not: such an address is never plain host memory. */
bool sim_arena_contains(uintptr_t address);

/* ---- memory.c ---- */

/* Charges, places and maps a block of device memory; context may be NULL (pools charge themselves:
 * charge_bytes 0). */
CUresult sim_memory_make(unsigned gpu, bool low, size_t bytes, size_t align, size_t charge_bytes,
			 struct sim_block **ret_block);
/* Puts it into the address map and on its context's list. */
void sim_memory_publish_locked(struct sim_block *block);
void sim_memory_unpublish_locked(struct sim_block *block);
/* Gives back the memory of an unpublished arena block. */
void sim_memory_unmake(struct sim_block *block);
/* Host, registered and IPC blocks end with their context by these. */
void sim_host_block_end(struct sim_block *block);
void sim_ipc_block_end(struct sim_block *block);

/* Charges a GPU; what pools keep unused is given up before the answer is no. */
CUresult sim_memory_charge(unsigned gpu, uint64_t bytes);

#endif
