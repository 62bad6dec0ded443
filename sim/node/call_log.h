/* SPDX-License-Identifier: Apache-2.0
 *
 * The log of driver and NVML calls: one file of fixed-size records that every process of a test
 * maps and appends to. BERTH_SIM_LOG names it; without it nothing is written.
 *
 * A record is claimed on entry, so the order in the file is the order of entry over all
 * processes, and a call that never came back (killed, blocked) stands there as "entered". A full
 * file drops what comes later and counts it: a test must never mistake a cut log for a whole one.
 *
 * Bytes: struct sim_log_header, then capacity records. Host byte order.
 */
#ifndef BERTH_SIM_NODE_CALL_LOG_H
#define BERTH_SIM_NODE_CALL_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_LOG_MAGIC    "BSIMLOG1"
#define SIM_LOG_CAPACITY (1U << 20)
/* Ids are rows of an export table; NVML's begin here. */
#define SIM_LOG_NVML_BASE 0x10000U

struct sim_log_header {
	char magic[8];
	uint32_t record_bytes;
	uint32_t reserved;
	uint64_t capacity;
	_Atomic uint64_t claimed; /* records handed out, also beyond capacity */
	uint8_t pad[32];
};

enum sim_log_state {
	SIM_LOG_EMPTY = 0,
	SIM_LOG_ENTERED = 1,
	SIM_LOG_LEFT = 2,
};

struct sim_log_record {
	_Atomic uint32_t state; /* release on each change: what it covers is readable then */
	uint32_t id;
	uint32_t pid;
	uint32_t tid;
	int32_t result; /* valid when left */
	uint32_t reserved;
	uint64_t begin_ns; /* CLOCK_MONOTONIC */
	uint64_t end_ns;
};

_Static_assert(sizeof(struct sim_log_header) == 64, "a header is 64 bytes");
_Static_assert(sizeof(struct sim_log_record) == 40, "a record is 40 bytes");

/* Map the file, making it if need be. -errno; -EINVAL: another kind of file. */
int sim_log_open(const char *path);

/* NULL when no log is open or it is full. */
struct sim_log_record *sim_log_enter(uint32_t id);
void sim_log_leave(struct sim_log_record *record, int32_t result);

#endif
