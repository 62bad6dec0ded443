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
 * A merge that was killed half-way has lowered some limits, which stay. The next joiner brings its own.
 *
 * A change by order (berth limit) holds whoever sits there: C1. lock the change byte; C2. leave a
 * record; C3. count the change, so that orders stamped before it don't count any more when they are
 * brought; C4. exchange each limit. Claimers don't look at the change byte, so nobody waits for a
 * changer, not even for a stopped one, but a second changer: 1 s, then it is told so.
 *
 * Killed after step  what others see             who repairs
 * C1                 the byte is free again       nothing to repair
 * C2                 a record without a change    nothing to repair: the record says what was ordered
 * C3                 the limits as before         nothing to repair: what doesn't count any more was
 *                                                 no smaller than the limits in force, as `berth run`
 *                                                 merges its order before the program starts
 * C4 half            some GPUs' limits changed    the next change; the record names all of them
 * A joiner that was between its look at the stamp and its compare-and-swap when the change came
 * lowers the limit again, as if it had come a moment later: then the smaller one is in force, and
 * what `berth limit` prints afterwards says so. A renewal and a change at once end with one of the
 * limits that were ordered, or a smaller one.
 */
#include "region/limits.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/crash_point.h"
#include "base/fd.h"
#include "region/lockbyte.h"

#define SETTLE_NS (100 * BERTH_NS_PER_MS)
#define CHANGE_NS (1 * BERTH_NS_PER_S)

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
	region->wanted_stamp = spec->stamp;
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

bool berth_limits_stale(const struct berth_region *region)
{
	return region->wanted_stamp != 0 && region->wanted_stamp < berth_region_stamp(region);
}

void berth_limits_merge(struct berth_region *region, struct berth_region_joined *joined)
{
	struct berth_layout_head *head = &region->layout->head;
	uint32_t lowered_mask = 0;
	uint32_t kept_mask = 0;
	bool stale = berth_limits_stale(region);

	for (uint32_t i = 0; i < region->gpu_count; i++) {
		uint64_t bytes = region->wanted_limit_bytes[i];
		uint64_t pct = region->wanted_compute_pct[i];
		bool lowered = !stale && limit_lower(&head->limit_bytes[i], bytes);

		BERTH_CRASH(limit_merging);
		lowered |= !stale && compute_lower(&head->compute_limit_pct[i], pct);
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
		BERTH_CRASH(renew_exchanging);
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
		BERTH_CRASH(renew_undoing);
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
	/* By the clock, not by tries: on a busy machine a sleep of 1 ms may take ten. */
	uint64_t deadline_ns = berth_deadline_after(SETTLE_NS);

	while (berth_lockbyte_held(fd, BERTH_LOCK_CREATION) == 1 &&
	       !berth_deadline_passed(deadline_ns))
		berth_sleep_ns(BERTH_NS_PER_MS, deadline_ns);
	berth_limits_merge(region, NULL);
}

/* C1: 0, -EBUSY or -errno. */
static int change_lock(int fd)
{
	uint64_t deadline_ns = berth_deadline_after(CHANGE_NS);
	int r = berth_lockbyte_try(fd, BERTH_LOCK_CHANGE);

	while (r == -EAGAIN && !berth_deadline_passed(deadline_ns)) {
		berth_sleep_ns(BERTH_NS_PER_MS, deadline_ns);
		r = berth_lockbyte_try(fd, BERTH_LOCK_CHANGE);
	}
	return r == -EAGAIN ? -EBUSY : r;
}

static struct berth_region_gpu gpu_changed(const struct berth_region_gpu *before,
					   const struct berth_region_change *change)
{
	struct berth_region_gpu after = *before;

	if (change->memory_set)
		after.memory_limit_bytes = change->memory_limit_bytes;
	if (change->compute_set)
		after.compute_limit_pct = (uint32_t)compute_wanted(change->compute_limit_pct);
	return after;
}

/* C2 */
static int change_record(const struct berth_region *region,
			 const struct berth_region_change *change, berth_region_change_fn record,
			 void *arg)
{
	int r = 0;

	for (uint32_t i = 0; record && r == 0 && i < region->gpu_count; i++) {
		struct berth_region_gpu before;

		if (!(change->gpu_mask & (1U << i)))
			continue;
		berth_region_gpu(region, i, &before);
		struct berth_region_gpu after = gpu_changed(&before, change);
		r = record(arg, i, &before, &after);
	}
	return r;
}

/* C3, C4 */
static void change_make(struct berth_region *region, const struct berth_region_change *change)
{
	struct berth_layout_head *head = &region->layout->head;

	atomic_fetch_add(&region->layout->tail.limit_change_count, 1);
	BERTH_CRASH(limit_change_counted);
	for (uint32_t i = 0; i < region->gpu_count; i++) {
		if (!(change->gpu_mask & (1U << i)))
			continue;
		if (change->memory_set)
			atomic_store(&head->limit_bytes[i], change->memory_limit_bytes);
		if (change->compute_set)
			atomic_store(&head->compute_limit_pct[i],
				     compute_wanted(change->compute_limit_pct));
		BERTH_CRASH(limit_change_stored);
	}
	atomic_fetch_add(&region->layout->tail.change_count, 1);
}

int berth_limits_change(struct berth_region *region, const struct berth_region_change *change,
			berth_region_change_fn record, void *arg)
{
	BERTH_FD int fd = berth_lockbyte_open(region, true);
	int r = fd < 0 ? fd : change_lock(fd);

	if (r < 0)
		return r;
	BERTH_CRASH(limit_change_locked);
	r = change_record(region, change, record, arg);
	if (r == 0)
		change_make(region, change);
	berth_lockbyte_drop(fd, BERTH_LOCK_CHANGE);
	return r;
}
