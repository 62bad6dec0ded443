/* SPDX-License-Identifier: Apache-2.0
 *
 * Many processes that want one lock at the same moment: each takes it, keeps it for a while, and gives
 * it back. They are started, and have opened it, before anything is measured, and are used again.
 */
#ifndef BERTH_BENCH_LOCK_QUEUE_H
#define BERTH_BENCH_LOCK_QUEUE_H

#include <stdatomic.h>
#include <stdint.h>

#include "crowd.h"
#include "lock_way.h"

/* Each may wait that long: then the benchmark has failed. */
#define LOCK_QUEUE_TIMEOUT_MS (600 * 1000)

/* CLOCK_MONOTONIC of the latest visit; read when the step is over, asked_ns at any time. */
struct lock_visit {
	_Alignas(64) _Atomic uint64_t asked_ns; /* 0: not yet */
	uint64_t taken_ns;
	uint64_t giving_ns; /* the hold was from taken_ns to giving_ns */
	uint64_t given_ns;
	int err; /* of the lock: then the rest is stale */
};

struct lock_queue {
	const struct lock_way *way;
	const char *path; /* must live as long as the queue */
	uint64_t hold_ns; /* 0: gives at once */
	uint32_t count;
	struct crowd crowd;
	struct lock_visit *visits; /* shared, one a process */
};

/* Starts queue->count processes; the fields above it are the caller's. A queue must stay where it is. */
BERTH_MUST_CHECK int lock_queue_open(struct lock_queue *queue, struct berth_reason *reason);
/* Lets all ask at once. */
void lock_queue_begin(struct lock_queue *queue);
/* Until every one is seen to wait: by /proc/locks, or asleep after it asked. */
BERTH_MUST_CHECK int lock_queue_await(struct lock_queue *queue, struct berth_reason *reason);
/* Until every one has given it back. A lock that failed is not an error here: see its visit. */
BERTH_MUST_CHECK int lock_queue_end(struct lock_queue *queue, struct berth_reason *reason);
/* The last one's given_ns; fails if the lock failed for anybody. */
BERTH_MUST_CHECK int lock_queue_last(const struct lock_queue *queue, uint64_t *ret_ns,
				     struct berth_reason *reason);
void lock_queue_close(struct lock_queue *queue);

#endif
