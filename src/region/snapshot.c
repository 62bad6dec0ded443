/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a whole region without a lock. A seat's sequence number is even and unmoved: its figures
 * belong together. Odd: the reader looks again, at growing distances, and at most SEQUENCE_TRIES
 * times; a number that stays odd belongs to a dead or stopped writer. Then the figures are marked
 * torn and the total is the ledger's, which is whole at any moment.
 */
#include "region/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crash_point.h"
#include "base/fd.h"
#include "region/entry.h"
#include "region/lockbyte.h"
#include "region/map.h"
#include "region/recover.h"

enum {
	SPIN_TRIES = 5,      /* a pause each */
	SHORT_TRIES = 20,    /* 1 us each */
	MIDDLE_TRIES = 100,  /* 10 us each */
	SEQUENCE_TRIES = 110 /* 100 us each: about 2 ms in all */
};

static void reader_pause(int attempt)
{
	uint64_t ns = attempt < SHORT_TRIES    ? BERTH_NS_PER_US
		      : attempt < MIDDLE_TRIES ? 10 * BERTH_NS_PER_US
					       : 100 * BERTH_NS_PER_US;

	if (attempt >= SPIN_TRIES) {
		berth_sleep_ns(ns, berth_deadline_after(ns));
		return;
	}
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

static void uses_copy(const struct berth_region *region, uint32_t index,
		      struct berth_snapshot_use *uses)
{
	const struct berth_layout_use *from = region->layout->head.seats[index].use;

	for (uint32_t i = 0; i < region->gpu_count; i++) {
		/* Acquire: the second read of the sequence number comes after all of these. */
		uses[i].context_bytes =
			atomic_load_explicit(&from[i].context_bytes, memory_order_acquire);
		uses[i].module_bytes =
			atomic_load_explicit(&from[i].module_bytes, memory_order_acquire);
		BERTH_CRASH(snapshot_copying);
		uses[i].data_bytes =
			atomic_load_explicit(&from[i].data_bytes, memory_order_acquire);
		uses[i].total_bytes =
			atomic_load_explicit(&from[i].total_bytes, memory_order_acquire);
	}
}

static void uses_from_ledger(const struct berth_region *region, uint32_t index,
			     struct berth_snapshot_use *uses)
{
	for (uint32_t i = 0; i < region->gpu_count; i++)
		uses[i].total_bytes =
			berth_entry_read(&region->layout->tail.ledger[i][index]).charged_bytes;
}

/* True if the figures belong together. */
static bool uses_read(const struct berth_region *region, uint32_t index,
		      struct berth_snapshot_use *uses)
{
	const _Atomic uint64_t *sequence = &region->layout->head.seats[index].sequence;
	uint64_t first = atomic_load_explicit(sequence, memory_order_acquire);
	uint64_t stuck = first;

	for (int attempt = 0; attempt < SEQUENCE_TRIES; attempt++) {
		if ((first & 1) == 0) {
			uses_copy(region, index, uses);
			uint64_t again = atomic_load_explicit(sequence, memory_order_relaxed);
			if (again == first)
				return true;
			first = again;
			continue;
		}
		/* Nobody moves it while we sleep: no use in the long sleeps. */
		if (attempt > SHORT_TRIES && first == stuck)
			break;
		stuck = first;
		reader_pause(attempt);
		first = atomic_load_explicit(sequence, memory_order_acquire);
	}
	uses_copy(region, index, uses);
	uses_from_ledger(region, index, uses);
	return false;
}

static void seat_identify(const struct berth_region *region, struct berth_snapshot_seat *seat)
{
	const struct berth_layout_seat *from = &region->layout->head.seats[seat->index];
	const struct berth_layout_tail *tail = &region->layout->tail;
	const struct berth_layout_identity *identity = &tail->identity[seat->index];

	seat->pid = atomic_load(&from->pid);
	seat->host_pid = atomic_load(&from->host_pid);
	seat->foreign = berth_recover_foreign(region, seat->index);
	seat->host_pid_note = berth_host_pid_note_unpack(atomic_load(&identity->host_pid_note));
	seat->start_ticks = atomic_load(&identity->start_ticks);
	seat->pid_namespace = atomic_load(&identity->pid_namespace);
	for (uint32_t i = 0; i < region->gpu_count; i++)
		seat->refusal_count += atomic_load(&tail->ledger[i][seat->index].refusal_count);
}

/* True if somebody sits or sat there: ours by the generation, others' by the status. */
static bool seat_used(const struct berth_region *region, uint32_t index)
{
	return (atomic_load(&region->layout->tail.generation[index]) & 1) != 0 ||
	       atomic_load(&region->layout->head.seats[index].status) != BERTH_STATUS_FREE;
}

/* Fills *seat; false if the place was emptied meanwhile. */
static bool seat_read(const struct berth_region *region, int fd, uint32_t index,
		      struct berth_snapshot_seat *seat)
{
	*seat = (struct berth_snapshot_seat){ .index = index };
	seat_identify(region, seat);
	seat->torn = !uses_read(region, index, seat->use);
	seat->alive = atomic_load(&region->layout->head.seats[index].status) != BERTH_STATUS_FREE;
	if (fd >= 0 && !seat->foreign)
		seat->alive = berth_lockbyte_held(fd, BERTH_LOCK_SEAT + index) != 0;
	return seat_used(region, index);
}

static void gpus_read(const struct berth_region *region, struct berth_snapshot *snapshot)
{
	snapshot->gpu_count = region->gpu_count;
	for (uint32_t i = 0; i < region->gpu_count; i++) {
		struct berth_snapshot_gpu *gpu = &snapshot->gpus[i];

		berth_region_gpu(region, i, &gpu->gpu);
		gpu->refusal_count = atomic_load(&region->layout->tail.gpus[i].refusal_count);
		for (uint32_t s = 0; s < snapshot->seat_count; s++) {
			const struct berth_snapshot_seat *seat = &snapshot->seats[s];

			if (seat->alive && !seat->foreign)
				gpu->charged_bytes = berth_bytes_add(gpu->charged_bytes,
								     seat->use[i].total_bytes);
		}
	}
}

int berth_snapshot_take(const struct berth_region *region, unsigned flags,
			struct berth_snapshot **ret_snapshot)
{
	if (!berth_map_ours(region))
		return -ECHILD;
	BERTH_FD int fd = -1;
	uint32_t high = berth_map_seat_high(region);
	uint32_t used_count = 0;

	if (flags & BERTH_SNAPSHOT_LIVENESS) {
		fd = berth_lockbyte_open(region, false);
		if (fd < 0)
			return fd;
	}
	for (uint32_t i = 0; i < high; i++)
		used_count += seat_used(region, i);
	struct berth_snapshot *snapshot =
		calloc(1, sizeof *snapshot + used_count * sizeof snapshot->seats[0]);
	if (!snapshot)
		return -ENOMEM;
	/* Who comes after the count is left for the next snapshot. */
	for (uint32_t i = 0; i < high && snapshot->seat_count < used_count; i++) {
		if (seat_used(region, i) &&
		    seat_read(region, fd, i, &snapshot->seats[snapshot->seat_count]))
			snapshot->seat_count++;
	}
	memcpy(snapshot->share_name, region->share_name, sizeof snapshot->share_name);
	snapshot->anomaly_count = atomic_load(&region->layout->tail.anomaly_count);
	gpus_read(region, snapshot);
	*ret_snapshot = snapshot;
	return 0;
}

void berth_snapshot_free(struct berth_snapshot *snapshot)
{
	free(snapshot);
}
