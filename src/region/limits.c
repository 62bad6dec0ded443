/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging needs no lock: each limit is one word, only ever lowered, by compare-and-swap.
 *
 * Raising happens in a renewal only: 1. lock the creation byte; 2. look: nobody living sits there;
 * 3. exchange each limit; 4. look again; 5. somebody came meanwhile: lower again to what the
 * exchange took out. A claimer locks its seat's byte, then looks at the creation byte, then merges.
 * So either the renewer sees the claimer at 2 or 4, or the claimer waits for the renewer and merges
 * after it.
 *
 * Killed after step  what others see             who repairs
 * 1, 2               the byte is free again       nothing to repair
 * 3                  some limits as renewed       a claimer that came meanwhile saw the byte locked
 *                                                 and merges its own when the kernel frees it
 * 4, 5               the same                     the same
 * A stopped renewer: claimers wait 100 ms and go on; when it wakes up, steps 4 and 5 see them.
 */
#include "region/limits.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/crash_point.h"
#include "base/fd.h"
#include "region/lockbyte.h"

enum { SETTLE_TRIES = 100 }; /* x 1 ms */

/* A percentage of 100 and more limits nothing. */
static uint64_t compute_wanted(uint32_t pct)
{
	return pct >= 100 ? 0 : pct;
}

static int gpu_index(const struct berth_region *region, const struct berth_region_gpu *gpu,
		     uint32_t position)
{
	if (gpu->uuid[0] != '\0')
		return berth_region_gpu_find(region, gpu->uuid);
	/* Nobody could tell its identity, then or now: go by position. */
	if (position < region->gpu_count && region->layout->head.uuids[position][0] == '\0')
		return (int)position;
	return -ENODEV;
}

int berth_limits_want(struct berth_region *region, const struct berth_region_spec *spec,
		      struct berth_reason *reason)
{
	if (spec->gpu_count > BERTH_GPU_MAX)
		return berth_reason_set(reason, -EINVAL, "%s: %u GPUs asked for, at most %d fit",
					region->path, spec->gpu_count, BERTH_GPU_MAX);
	for (uint32_t i = 0; i < spec->gpu_count; i++) {
		int gpu = gpu_index(region, &spec->gpus[i], i);

		if (gpu < 0)
			return berth_reason_set(reason, -ENODEV,
						"%s: the share has no GPU %.*s; it was made on a "
						"machine or in a container with others; end its "
						"programs, then remove it",
						region->path, BERTH_UUID_SIZE, spec->gpus[i].uuid);
		region->wanted_limit_bytes[gpu] = spec->gpus[i].memory_limit_bytes;
		region->wanted_compute_pct[gpu] = compute_wanted(spec->gpus[i].compute_limit_pct);
	}
	return 0;
}

/* True if it was lowered. seq_cst: partner is the asker's read of its limit. */
static bool limit_lower(_Atomic uint64_t *limit, uint64_t wanted)
{
	uint64_t current = atomic_load(limit);

	if (wanted == 0)
		return false;
	while (current == 0 || wanted < current) {
		if (atomic_compare_exchange_weak(limit, &current, wanted))
			return true;
	}
	return false;
}

static bool compute_lower(_Atomic uint64_t *limit, uint64_t wanted)
{
	uint64_t current = atomic_load(limit);

	if (wanted == 0)
		return false;
	while (current == 0 || current >= 100 || wanted < current) {
		if (atomic_compare_exchange_weak(limit, &current, wanted))
			return true;
	}
	return false;
}

/* True if a limit is in force that the joiner did not ask for. */
static bool limit_kept(uint64_t in_force, uint64_t wanted)
{
	return in_force != 0 && in_force != wanted;
}

void berth_limits_merge(struct berth_region *region, struct berth_region_joined *joined)
{
	struct berth_layout_head *head = &region->layout->head;
	uint32_t lowered_mask = 0;
	uint32_t kept_mask = 0;

	for (uint32_t i = 0; i < region->gpu_count; i++) {
		uint64_t bytes = region->wanted_limit_bytes[i];
		uint64_t pct = region->wanted_compute_pct[i];
		bool lowered = limit_lower(&head->limit_bytes[i], bytes);

		lowered |= compute_lower(&head->compute_limit_pct[i], pct);
		if (lowered)
			lowered_mask |= 1U << i;
		uint64_t pct_now = atomic_load(&head->compute_limit_pct[i]);
		if (limit_kept(atomic_load(&head->limit_bytes[i]), bytes) ||
		    limit_kept(pct_now >= 100 ? 0 : pct_now, pct))
			kept_mask |= 1U << i;
	}
	if (lowered_mask)
		atomic_fetch_add(&region->layout->tail.change_count, 1);
	if (joined) {
		joined->lowered_mask = lowered_mask;
		joined->kept_mask = kept_mask;
	}
}

static int anybody_living(struct berth_region *region, int fd)
{
	uint32_t high = berth_map_seat_high(region);

	for (uint32_t i = 0; i < high; i++) {
		int held = berth_lockbyte_held(fd, BERTH_LOCK_SEAT + i);

		if (held != 0)
			return held;
	}
	return 0;
}

static int renew_locked(struct berth_region *region, int fd)
{
	struct berth_layout_head *head = &region->layout->head;
	uint64_t bytes_before[BERTH_GPU_MAX] = { 0 };
	uint64_t pct_before[BERTH_GPU_MAX] = { 0 };
	int living = anybody_living(region, fd); /* 2 */

	if (living != 0)
		return living < 0 ? living : 0;
	for (uint32_t i = 0; i < region->gpu_count; i++) { /* 3 */
		bytes_before[i] =
			atomic_exchange(&head->limit_bytes[i], region->wanted_limit_bytes[i]);
		pct_before[i] =
			atomic_exchange(&head->compute_limit_pct[i], region->wanted_compute_pct[i]);
		BERTH_CRASH(renew_exchanged);
	}
	atomic_fetch_add(&region->layout->tail.change_count, 1);
	if (anybody_living(region, fd) == 0) /* 4 */
		return 1;
	for (uint32_t i = 0; i < region->gpu_count; i++) { /* 5 */
		(void)limit_lower(&head->limit_bytes[i], bytes_before[i]);
		(void)compute_lower(&head->compute_limit_pct[i], pct_before[i]);
	}
	return 0;
}

int berth_limits_renew(struct berth_region *region)
{
	berth_lockbyte_enter();
	BERTH_FD int fd = berth_lockbyte_open(region, true);
	int r = fd < 0 ? fd : berth_lockbyte_try(fd, BERTH_LOCK_CREATION); /* 1 */

	if (r == 0) {
		BERTH_CRASH(renew_locked);
		r = renew_locked(region, fd);
		berth_lockbyte_drop(fd, BERTH_LOCK_CREATION);
	}
	berth_fd_close(&fd);
	berth_lockbyte_leave();
	return r == -EAGAIN ? 0 : r;
}

void berth_limits_settle(struct berth_region *region, int fd)
{
	for (int i = 0; i < SETTLE_TRIES; i++) {
		if (berth_lockbyte_held(fd, BERTH_LOCK_CREATION) != 1)
			break;
		berth_sleep_ns(BERTH_NS_PER_MS, berth_deadline_after(BERTH_NS_PER_MS));
	}
	berth_limits_merge(region, NULL);
}
