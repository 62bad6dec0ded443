/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated node: one state file, mapped by every process of it, so that capacity, usage and
 * contexts are facts of the node. There is no daemon. A process that dies is noticed under the state
 * lock before anything is judged, and what it held is free at once.
 *
 * Ownership
 *   gpus[]       written when the node is made, under the state lock; constant while anybody lives
 *   processes[]  a row belongs to the process that holds its lock byte, until that lock is gone; then
 *                to whoever holds the state lock and finds it dead
 *   total        any process, by compare-and-swap (charge.c says how a death in the middle is repaired)
 *   timeline[]   sim/node/timeline.h
 *
 * A row's lock is an open-file-description lock pinned by a mapping that fork does not copy: it ends
 * with the process that claimed the row, by whatever death, and in every pid namespace.
 */
#ifndef BERTH_SIM_NODE_H
#define BERTH_SIM_NODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/config.h"

#define SIM_PROCESS_MAX      1024
#define SIM_PROCESS_NAME_MAX 64
#define SIM_TIMELINE_BYTES   (2U << 20) /* per GPU; zero when the node is made */
#define SIM_CHARGE_UNIT      512U       /* every charge is a multiple of it */

/* One process's bytes on one GPU. See charge.c. */
struct sim_usage {
	_Atomic uint64_t used_bytes;
	_Atomic uint64_t pending_sequence;   /* 0: nothing under way */
	_Atomic uint64_t pending_used_bytes; /* used_bytes once that operation has happened */
	_Atomic uint64_t applied_sequence;   /* operations of this row that reached the total */
	_Atomic uint32_t context_count;
	uint32_t reserved_;
	_Atomic uint64_t context_since_ns; /* CLOCK_MONOTONIC when the count rose from zero */
};

struct sim_process {
	_Atomic uint32_t is_claimed; /* set last, cleared last */
	uint32_t host_pid;           /* as the outer /proc names it */
	uint64_t start_ticks;        /* field 22 of its stat */
	_Atomic uint64_t generation; /* of the claim: unique in the life of the node, never 0 */
	char name[SIM_PROCESS_NAME_MAX];
	struct sim_usage usage[SIM_GPU_MAX];
};

struct sim_gpu {
	struct sim_gpu_config config;
	_Atomic uint64_t capacity_bytes; /* config.memory_bytes, or less when memory vanished */
	_Atomic uint64_t total;   /* packed: units charged, last writer's row, its sequence */
	_Atomic uint32_t is_lost; /* fell off the bus */
	/* For tests that judge by the node's own books; charge.c. Written under the state lock. */
	_Atomic uint32_t peak_epoch; /* 0: no peak is kept */
	_Atomic uint64_t peak_bytes;
	_Atomic uint64_t forgetting_bytes;   /* ever taken from the dead, counted before ... */
	_Atomic uint64_t forgotten_bytes;    /* ... and after they leave the total */
	_Atomic uint64_t short_refund_count; /* any process adds: more given back than was there */
	_Alignas(64) unsigned char timeline[SIM_TIMELINE_BYTES];
};

struct sim_node {
	uint64_t magic;
	uint64_t
		format; /* sizes and offsets folded into a number: another build's file is refused */
	_Atomic uint64_t incarnation; /* grows each time the node is made anew */
	_Atomic uint64_t generation_cursor;
	uint32_t gpu_count;
	_Atomic uint32_t row_high_water; /* rows ever used: [0, high water) */
	struct sim_gpu gpus[SIM_GPU_MAX];
	struct sim_process processes[SIM_PROCESS_MAX];
};

/* ---- opening ---- */

/* Maps the node, making it if it isn't there. 0 or -errno (and one line on standard error). Any
 * thread, any number of times; a fork child opens anew. */
int sim_node_open(void);
/* A fork waits until nobody has the mutex either, and makes it anew in the child: the one that is held around
 * sim_node_open. From a constructor, before the first fork. */
void sim_node_fork_waits_for(pthread_mutex_t *mutex);
/* The mapping; only after sim_node_open succeeded in this process. */
struct sim_node *sim_node(void);

/* ---- the state lock: one for the node, excludes threads and processes, ends with its holder ---- */
void sim_node_lock(void);
void sim_node_unlock(void);

/* ---- GPUs, in NVML order ---- */
unsigned sim_node_gpu_count(void);
const struct sim_gpu_config *sim_node_gpu(unsigned gpu);
uint64_t sim_node_capacity_bytes(unsigned gpu);
/* As the counter stands; the dead may be in it. Call sim_node_sweep first where it is judged. */
uint64_t sim_node_used_bytes(unsigned gpu);
void sim_node_set_capacity(unsigned gpu, uint64_t bytes);

/* ---- processes ---- */

/* Frees what the dead held. Cheap (one question to the kernel a row in use). Takes the state lock. */
void sim_node_sweep(void);
void sim_node_sweep_locked(void);

struct sim_process_view {
	unsigned row;
	uint32_t host_pid;
	uint32_t context_count;
	uint64_t context_since_ns;
	uint64_t used_bytes;
	uint64_t generation;
	char name[SIM_PROCESS_NAME_MAX];
};
/* Living processes that have a context or bytes on this GPU, by row; sweeps first. Returns how many
 * there are, which may be more than max. */
size_t sim_node_processes(unsigned gpu, struct sim_process_view *ret_list, size_t max);

/* This process's row, claimed by the first call. 0, -EUSERS when all rows are taken, or -errno. */
int sim_node_claim(void);
/* This process as the outer /proc names it; read each time, and needs no row. */
uint32_t sim_node_own_host_pid(void);
/* The row, or -1 when none was claimed (or this is a fork child). */
int sim_node_row(void);

/* ---- bytes of this process (needs a row); rounded up to SIM_CHARGE_UNIT ---- */

/* 0, or -ENOMEM if it would not fit with all the dead left out. Exact whatever races. */
int sim_node_charge(unsigned gpu, uint64_t bytes);
void sim_node_refund(unsigned gpu, uint64_t bytes);
/* A context more or less, for the process lists. */
void sim_node_note_context(unsigned gpu, int change);
uint64_t sim_node_own_bytes(unsigned gpu);

/* ---- for tests that judge: nothing is kept until the first start ---- */

/* From here on, the most that the living had at one time; begins with what they have now. */
void sim_node_peak_start(unsigned gpu);
/* Never more than they really had: while somebody dies it may be less. */
uint64_t sim_node_peak_bytes(unsigned gpu);
/* How often more was given back than the process had: such a refund would have gone below zero. */
uint64_t sim_node_short_refund_count(unsigned gpu);

/* ---- the engine's part ---- */

struct sim_timeline; /* sim/node/timeline.h; at most SIM_TIMELINE_BYTES */
static inline struct sim_timeline *sim_node_timeline(unsigned gpu)
{
	return (struct sim_timeline *)(void *)sim_node()->gpus[gpu].timeline;
}

#endif
