/* SPDX-License-Identifier: Apache-2.0
 *
 * Owners to be killed, each a new process that holds a lock and sleeps. They are a nursery's children and
 * not the benchmark's, which so isn't woken by their deaths while it measures.
 */
#ifndef BERTH_BENCH_LOCK_NURSERY_H
#define BERTH_BENCH_LOCK_NURSERY_H

#include <stddef.h>
#include <sys/types.h>

#include "crowd.h"
#include "lock_way.h"

struct lock_cradle;

struct lock_nursery {
	struct crowd crowd; /* of one: the parent */
	struct lock_cradle *cradle;
};

/* A nursery must stay where it is. */
BERTH_MUST_CHECK int lock_nursery_open(struct lock_nursery *nursery, struct berth_reason *reason);
/* The owner before it must be dead. It has this much memory of its own resident, in small pages. */
BERTH_MUST_CHECK int lock_nursery_owner(struct lock_nursery *nursery, const struct lock_way *way,
					const char *path, size_t resident_bytes, pid_t *ret_pid,
					struct berth_reason *reason);
/* The last owner must be dead. */
BERTH_MUST_CHECK int lock_nursery_close(struct lock_nursery *nursery, struct berth_reason *reason);

#endif
