/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariants of a region's file, walked while others work. Each holds at any moment whoever was
 * killed or stopped where; what is in motion is looked at again, and what stays in motion passes.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/fd.h"
#include "region/entry.h"
#include "region/lockbyte.h"
#include "region/map.h"
#include "region/recover.h"

enum { MOTION_TRIES = 1000 };

struct walk {
	const struct berth_region *region;
	int fd;
	struct berth_reason *reason;
};

static int broken(const struct walk *walk, uint32_t index, const char *what)
{
	return berth_reason_set(walk->reason, -EUCLEAN, "%s: seat %u: %s", walk->region->path,
				index, what);
}

static int head_check(const struct walk *walk)
{
	const struct berth_layout *layout = walk->region->layout;
	const char *what = NULL;
	int32_t high = atomic_load(&layout->head.seat_high);

	if (atomic_load(&layout->head.initialized_flag) != BERTH_LAYOUT_MAGIC)
		what = "the mark of completion is gone";
	else if (layout->head.major != BERTH_LAYOUT_MAJOR ||
		 layout->head.minor != BERTH_LAYOUT_MINOR)
		what = "the version has changed";
	else if (layout->tail.magic != BERTH_TAIL_MAGIC ||
		 layout->tail.signature != BERTH_LAYOUT_SIGNATURE)
		what = "the tail's marks have changed";
	else if (layout->head.gpu_count != walk->region->gpu_count)
		what = "the number of GPUs has changed";
	else if (high < 0 || high > BERTH_SEAT_MAX)
		what = "more seats than there are";
	return what ? berth_reason_set(walk->reason, -EUCLEAN, "%s: %s", walk->region->path, what)
		    : 0;
}

/* Nobody's: neither taken nor being taken or emptied. */
static bool seat_is_free(const struct walk *walk, uint32_t index)
{
	return (atomic_load(&walk->region->layout->tail.generation[index]) & 1) == 0 &&
	       berth_lockbyte_held(walk->fd, BERTH_LOCK_SEAT + index) == 0 &&
	       berth_lockbyte_held(walk->fd, BERTH_LOCK_REAP + index) == 0;
}

static const char *free_seat_fault(const struct walk *walk, uint32_t index)
{
	const struct berth_layout_head *head = &walk->region->layout->head;
	const struct berth_layout_seat *seat = &head->seats[index];

	if (atomic_load(&seat->pid) != 0 || atomic_load(&seat->host_pid) != 0)
		return "empty, but it names a process";
	if (atomic_load(&seat->sequence) & 1)
		return "empty, but its sequence number is odd";
	for (uint32_t i = 0; i < BERTH_GPU_MAX; i++) {
		struct berth_entry_state state =
			berth_entry_read(&walk->region->layout->tail.ledger[i][index]);

		if (state.charged_bytes != 0)
			return "empty, but bytes are charged";
		if (berth_word_asking(state.word))
			return "empty, but it asks";
		if (atomic_load(&seat->use[i].total_bytes) != 0 ||
		    atomic_load(&seat->use[i].data_bytes) != 0 ||
		    atomic_load(&seat->use[i].context_bytes) != 0 ||
		    atomic_load(&seat->use[i].module_bytes) != 0)
			return "empty, but the mirror shows bytes";
	}
	return NULL;
}

static int free_seat_check(const struct walk *walk, uint32_t index)
{
	const _Atomic uint64_t *generation = &walk->region->layout->tail.generation[index];
	uint64_t before = atomic_load(generation);

	if (!seat_is_free(walk, index) || berth_recover_foreign(walk->region, index))
		return 0;
	const char *what = free_seat_fault(walk, index);
	/* Only if it was free all the while. */
	if (!what || !seat_is_free(walk, index) || atomic_load(generation) != before)
		return 0;
	return broken(walk, index, what);
}

/* Mirror against ledger, for a seat whose sequence number is even and stays so. */
static int mirror_check(const struct walk *walk, uint32_t index, uint32_t gpu)
{
	const struct berth_layout *layout = walk->region->layout;
	const struct berth_layout_seat *seat = &layout->head.seats[index];
	const struct berth_layout_use *use = &seat->use[gpu];

	for (int i = 0; i < MOTION_TRIES; i++) {
		uint64_t sequence = atomic_load_explicit(&seat->sequence, memory_order_acquire);
		struct berth_entry_state state = berth_entry_read(&layout->tail.ledger[gpu][index]);
		uint64_t total = atomic_load_explicit(&use->total_bytes, memory_order_acquire);
		uint64_t sum = atomic_load_explicit(&use->context_bytes, memory_order_acquire) +
			       atomic_load_explicit(&use->module_bytes, memory_order_acquire) +
			       atomic_load_explicit(&use->data_bytes, memory_order_acquire);
		uint64_t again = atomic_load_explicit(&seat->sequence, memory_order_relaxed);

		if (sequence != again)
			continue;
		if (sequence & 1)
			return 0; /* torn by a death or a stop: the ledger is what counts */
		if (total != sum)
			return broken(walk, index, "the mirror's kinds don't add up to its total");
		if (total != state.charged_bytes)
			return broken(walk, index, "the mirror and the ledger differ");
		return 0;
	}
	return 0;
}

static int taken_seat_check(const struct walk *walk, uint32_t index)
{
	const struct berth_layout_tail *tail = &walk->region->layout->tail;
	uint64_t generation = atomic_load(&tail->generation[index]);
	int r = 0;

	/* While it is being emptied, ledger and mirror follow one another. */
	if ((generation & 1) == 0 ||
	    atomic_load(&walk->region->layout->head.seats[index].status) == BERTH_STATUS_FREE)
		return 0;
	for (uint32_t i = 0; r == 0 && i < BERTH_GPU_MAX; i++) {
		if (i >= walk->region->gpu_count &&
		    berth_entry_read(&tail->ledger[i][index]).charged_bytes != 0)
			r = broken(walk, index, "bytes are charged on a GPU that isn't there");
		if (r == 0)
			r = mirror_check(walk, index, i);
	}
	/* Emptied or left meanwhile: what was seen proves nothing. */
	if (r < 0 &&
	    (atomic_load(&tail->generation[index]) != generation ||
	     atomic_load(&walk->region->layout->head.seats[index].status) == BERTH_STATUS_FREE)) {
		if (walk->reason)
			walk->reason->text[0] = '\0';
		return 0;
	}
	return r;
}

int berth_region_check(struct berth_region *region, struct berth_reason *reason)
{
	if (!berth_map_ours(region))
		return -ECHILD;
	BERTH_FD int fd = berth_lockbyte_open(region, false);
	struct walk walk = { .region = region, .fd = fd, .reason = reason };

	if (fd < 0)
		return fd;
	int r = head_check(&walk);
	uint32_t high = berth_map_seat_high(region);

	for (uint32_t i = 0; r == 0 && i < BERTH_SEAT_MAX; i++) {
		if (i >= high && (atomic_load(&region->layout->tail.generation[i]) & 1))
			return broken(&walk, i, "taken, but beyond the highest that was ever used");
		r = free_seat_check(&walk, i);
		if (r == 0)
			r = taken_seat_check(&walk, i);
	}
	return r;
}
