/* SPDX-License-Identifier: Apache-2.0
 *
 * The device time of one GPU: pure arithmetic over memory that all processes of a node share.
 * No lock and no clock here: the caller holds the timeline's lock and says what time it is.
 *
 * Each process has a seat with a queue of device time: submitted_ns is all it ever asked for,
 * served_ns what it got. The GPU serves every seat that has something pending at the same rate
 * (the fluid limit of time slices): with k of them each advances 1/k ns per ns. Work is served in
 * order within a seat, so a piece of work is named by one number, the value that submitted_ns had
 * after it, and is done when served_ns has reached that.
 *
 * Nothing runs in the background. Whoever looks first calls sim_timeline_advance(), which works
 * out what happened since. served_ns over time is a line with kinks where the set of active seats
 * changed; the last kinks are kept, so that the moment at which a piece of work was done can be
 * told afterwards although another process did the advancing.
 *
 * All times are device time (virtual ns since the node's birth); device_time.h maps real time to it.
 */
#ifndef BERTH_SIM_NODE_TIMELINE_H
#define BERTH_SIM_NODE_TIMELINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_TIMELINE_SEATS     1024U /* a row of the process table each */
#define SIM_TIMELINE_KINKS     16U
#define SIM_TIMELINE_BUCKETS   32U
#define SIM_TIMELINE_BUCKET_NS 40000000U
/* What NVML's utilisation looks back on by default. */
#define SIM_TIMELINE_WINDOW_NS 1000000000U

struct sim_timeline_kink {
	uint64_t at_ns;
	uint64_t served_ns;
};

/* Busy ns by 40 ms bucket; bucket b of time lies at b % BUCKETS. */
struct sim_timeline_use {
	uint64_t last_bucket;
	uint32_t busy_ns[SIM_TIMELINE_BUCKETS];
};

struct sim_timeline_seat {
	uint64_t generation; /* of the process whose it is; 0: nobody's */
	uint64_t submitted_ns;
	uint64_t served_ns;
	uint64_t kinks_count; /* ever; the newest lies at (count - 1) % KINKS */
	struct sim_timeline_kink kinks[SIM_TIMELINE_KINKS];
	struct sim_timeline_use use;
	uint64_t last_busy_ns; /* when it was last served */
};

/* What device_time.c keeps here; not the arithmetic's business. */
struct sim_timeline_clock {
	_Atomic uint64_t holder; /* generation of the process that holds the lock, 0: free */
	uint64_t epoch_ns;       /* CLOCK_MONOTONIC at the start; 0: not started */
	uint64_t scale_ppm;      /* real time per device time; 0: work takes no real time */
	uint64_t skew_ns;        /* device time that took no real time */
};

struct sim_timeline {
	struct sim_timeline_clock clock;
	uint64_t now_ns; /* everything up to here is worked out */
	uint64_t busy_ns;
	struct sim_timeline_use use;
	uint32_t active_count;
	uint16_t active[SIM_TIMELINE_SEATS];
	struct sim_timeline_seat seats[SIM_TIMELINE_SEATS];
};

_Static_assert(sizeof(struct sim_timeline) <= 512UL * 1024UL,
	       "the node keeps 512 KiB a GPU for it");

/* Work out what happened until now_ns; an earlier time than the last changes nothing. */
void sim_timeline_advance(struct sim_timeline *line, uint64_t now_ns);

/* A new process in the seat, or a dead one out of it: what was pending is dropped. */
void sim_timeline_seat_reset(struct sim_timeline *line, uint32_t seat);

/* Queue cost_ns more for the seat, at line->now_ns; the mark that names this work. */
uint64_t sim_timeline_submit(struct sim_timeline *line, uint32_t seat, uint64_t cost_ns);

bool sim_timeline_done(const struct sim_timeline *line, uint32_t seat, uint64_t mark);

/* When the mark was reached; it must be done. Older than the kept kinks: the oldest known. */
uint64_t sim_timeline_when(const struct sim_timeline *line, uint32_t seat, uint64_t mark);

/* The least device time that must pass until the mark is reached: 0 when it is. */
uint64_t sim_timeline_least_wait(const struct sim_timeline *line, uint32_t seat, uint64_t mark);

/* Advance just far enough that the mark is reached, however long that is. */
void sim_timeline_run_to(struct sim_timeline *line, uint32_t seat, uint64_t mark);

/* Percent of window_ns before line->now_ns that was busy, rounded; all seats, or one. */
uint32_t sim_timeline_use_pct(const struct sim_timeline *line, uint64_t window_ns);
uint32_t sim_timeline_seat_use_pct(const struct sim_timeline *line, uint32_t seat,
				   uint64_t window_ns);

/* After the death of whoever held the lock: make every invariant true again. */
void sim_timeline_repair(struct sim_timeline *line);

#endif
