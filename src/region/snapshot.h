/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots: consistent figures of a whole region for people and monitors. Bounded, whatever state
 * the writers are in. Limits are never decided on one.
 */
#ifndef BERTH_REGION_SNAPSHOT_H
#define BERTH_REGION_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "region/host_pid.h"
#include "region/region.h"

struct berth_snapshot_use {
	uint64_t context_bytes;
	uint64_t module_bytes;
	uint64_t data_bytes;
	uint64_t total_bytes;
};

struct berth_snapshot_seat {
	uint32_t index;
	int32_t pid;      /* in pid_namespace */
	int32_t host_pid; /* 0 = unknown */
	struct berth_host_pid_note host_pid_note;
	uint64_t start_ticks;
	uint64_t pid_namespace;
	bool alive;
	bool torn; /* its writer is dead or stopped in mid-update: figures are the ledger's sums */
	bool foreign; /* taken by another implementation: its bytes are not excluded by ours */
	uint64_t refusal_count;
	struct berth_snapshot_use use[BERTH_GPU_MAX];
};

struct berth_snapshot_gpu {
	struct berth_region_gpu gpu;
	uint64_t charged_bytes; /* by the living */
	uint64_t refusal_count; /* since the region's birth, the dead included */
};

struct berth_snapshot {
	char share_name[BERTH_SHARE_NAME_MAX];
	uint64_t anomaly_count;
	uint32_t gpu_count;
	struct berth_snapshot_gpu gpus[BERTH_GPU_MAX];
	uint32_t seat_count; /* seats in use, living and (until reaped) dead */
	struct berth_snapshot_seat seats[];
};

enum berth_snapshot_flags {
	BERTH_SNAPSHOT_LIVENESS =
		1U << 0, /* ask the kernel about each seat; else alive = has a status */
};

BERTH_MUST_CHECK int berth_snapshot_take(const struct berth_region *region, unsigned flags,
					 struct berth_snapshot **ret_snapshot);
void berth_snapshot_free(struct berth_snapshot *snapshot);

#endif
