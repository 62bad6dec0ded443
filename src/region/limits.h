/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits in force: the smaller of what any joiner asked for; "none" never wins. Only for files of
 * this room.
 */
#ifndef BERTH_REGION_LIMITS_H
#define BERTH_REGION_LIMITS_H

#include "region/map.h"

/* Notes in the region object what the spec asks for. -ENODEV, with the reason, if it names a GPU
 * that the region lacks. */
BERTH_MUST_CHECK int berth_limits_want(struct berth_region *region,
				       const struct berth_region_spec *spec,
				       struct berth_reason *reason);

/* True if what is wanted was ordered before a change and doesn't count any more. */
bool berth_limits_stale(const struct berth_region *region);

/* Brings what is wanted into force where it is smaller. Lock-free; any number of times. */
void berth_limits_merge(struct berth_region *region, struct berth_region_joined *joined);

/* Puts what is wanted into force as it is, if nobody living sits there. 1 = done, 0 = somebody is
 * there (or another is at it): merge instead. Error: -errno. */
BERTH_MUST_CHECK int berth_limits_renew(struct berth_region *region);

/* For a claimer that has its seat's byte: waits (at most 100 ms) while a renewal is under way, then
 * merges, so that a renewal which hadn't seen the seat can't leave a larger limit behind. fd: any
 * open file of the region. */
void berth_limits_settle(struct berth_region *region, int fd);

/* As berth_region_change. A fork in the middle of it inherits the lock: the caller is a program that
 * doesn't fork here. */
BERTH_MUST_CHECK int berth_limits_change(struct berth_region *region,
					 const struct berth_region_change *change,
					 berth_region_change_fn record, void *arg);

#endif
