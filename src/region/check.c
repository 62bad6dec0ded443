/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariants of a region's file, walked while others work. Each holds at any moment whoever was
 * killed or stopped where; what is in motion is looked at again, and what stays in motion passes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/size.h"
#include "region/entry.h"
#include "region/ledger.h"
#include "region/lockbyte.h"
#include "region/map.h"
#include "region/recover.h"

enum { MOTION_TRIES = 1000 };

struct walk {
	struct berth_region *region;
	int fd;
	int (*found)(void *arg, const struct berth_finding *finding);
	void *arg;
};

static int tell(const struct walk *walk, enum berth_finding_kind kind, int32_t seat, int32_t gpu,
		const char *text)
{
	struct berth_finding finding = { .kind = kind, .seat = seat, .gpu = gpu, .text = text };

	return walk->found(walk->arg, &finding);
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
	for (uint32_t i = 0; !what && i < walk->region->gpu_count; i++) {
		if (atomic_load(&layout->head.limit_bytes[i]) > INT64_MAX)
			what = "a limit is larger than any memory";
	}
	return what ? tell(walk, BERTH_FINDING_BROKEN, -1, -1, what) : 0;
}

static bool seat_taken(const struct walk *walk, uint32_t index)
{
	return (atomic_load(&walk->region->layout->tail.generation[index]) & 1) != 0;
}

/* Nobody sits there, and nobody is taking or emptying it. */
static bool seat_untouched(const struct walk *walk, uint32_t index)
{
	return berth_lockbyte_held(walk->fd, BERTH_LOCK_SEAT + index) == 0 &&
	       berth_lockbyte_held(walk->fd, BERTH_LOCK_REAP + index) == 0;
}

static const char *free_seat_fault(const struct walk *walk, uint32_t index, int32_t *ret_gpu)
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

		*ret_gpu = (int32_t)i;
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

/* A seat with an even generation. */
static int free_seat_check(const struct walk *walk, uint32_t index)
{
	const _Atomic uint64_t *generation = &walk->region->layout->tail.generation[index];
	uint64_t before = atomic_load(generation);
	int32_t gpu = -1;

	if (berth_recover_foreign(walk->region, index))
		return tell(walk, BERTH_FINDING_FOREIGN, (int32_t)index, -1,
			    "taken by another implementation, whose memory this share doesn't "
			    "limit");
	if ((before & 1) != 0 || !seat_untouched(walk, index))
		return 0;
	const char *what = free_seat_fault(walk, index, &gpu);
	/* Only if it was free all the while. */
	if (!what || !seat_untouched(walk, index) || atomic_load(generation) != before)
		return 0;
	return tell(walk, BERTH_FINDING_BROKEN, (int32_t)index, gpu, what);
}

/* Mirror against ledger, for a seat whose sequence number is even and stays so. */
static const char *mirror_fault(const struct walk *walk, uint32_t index, uint32_t gpu)
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
			return NULL; /* torn by a death or a stop: the ledger is what counts */
		if (total != sum)
			return "the mirror's kinds don't add up to its total";
		if (total != state.charged_bytes)
			return "the mirror and the ledger differ";
		return NULL;
	}
	return NULL;
}

static const char *taken_seat_fault(const struct walk *walk, uint32_t index, int32_t *ret_gpu)
{
	const struct berth_layout_tail *tail = &walk->region->layout->tail;

	for (uint32_t i = 0; i < BERTH_GPU_MAX; i++) {
		*ret_gpu = (int32_t)i;
		if (i >= walk->region->gpu_count &&
		    berth_entry_read(&tail->ledger[i][index]).charged_bytes != 0)
			return "bytes are charged on a GPU that isn't there";
		const char *what = mirror_fault(walk, index, i);
		if (what)
			return what;
	}
	return NULL;
}

/* A seat with an odd generation. */
static int taken_seat_check(const struct walk *walk, uint32_t index)
{
	const struct berth_layout *layout = walk->region->layout;
	uint64_t before = atomic_load(&layout->tail.generation[index]);
	int32_t gpu = -1;

	/* While it is being emptied, ledger and mirror follow one another. */
	if (atomic_load(&layout->head.seats[index].status) == BERTH_STATUS_FREE)
		return 0;
	const char *what = taken_seat_fault(walk, index, &gpu);
	/* Emptied or left meanwhile: what was seen proves nothing. */
	if (!what || atomic_load(&layout->tail.generation[index]) != before ||
	    atomic_load(&layout->head.seats[index].status) == BERTH_STATUS_FREE)
		return 0;
	return tell(walk, BERTH_FINDING_BROKEN, (int32_t)index, gpu, what);
}

static int dead_seat_tell(const struct walk *walk, uint32_t index)
{
	const struct berth_layout *layout = walk->region->layout;
	uint64_t before = atomic_load(&layout->tail.generation[index]);
	uint64_t left_bytes = 0;
	char text[128];
	char size[BERTH_SIZE_TEXT_MAX];

	if (!seat_untouched(walk, index))
		return 0;
	for (uint32_t i = 0; i < walk->region->gpu_count; i++)
		left_bytes = berth_bytes_add(
			left_bytes, berth_entry_read(&layout->tail.ledger[i][index]).charged_bytes);
	(void)snprintf(text, sizeof text, "its process (pid %d where it ran) is dead; it left %s",
		       (int)atomic_load(&layout->head.seats[index].pid),
		       berth_size_format(left_bytes, size));
	/* Emptied meanwhile: then it is nobody's news. */
	if (!seat_untouched(walk, index) || atomic_load(&layout->tail.generation[index]) != before)
		return 0;
	return tell(walk, BERTH_FINDING_DEAD, (int32_t)index, -1, text);
}

static int seat_check(const struct walk *walk, uint32_t index, uint32_t high)
{
	if (!seat_taken(walk, index))
		return free_seat_check(walk, index);
	/* Claimers raise the high end before they take a place. */
	if (index >= high && index >= berth_map_seat_high(walk->region))
		return tell(walk, BERTH_FINDING_BROKEN, (int32_t)index, -1,
			    "taken, but beyond the highest that was ever used");
	int r = taken_seat_check(walk, index);
	return r == 0 ? dead_seat_tell(walk, index) : r;
}

static int sums_tell(const struct walk *walk)
{
	uint64_t clamped_count = atomic_load(&walk->region->layout->tail.anomaly_count);
	char text[160], charged[BERTH_SIZE_TEXT_MAX], limit[BERTH_SIZE_TEXT_MAX];
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < walk->region->gpu_count; i++) {
		struct berth_ledger_room room;

		r = berth_ledger_room(walk->region, i, &room);
		if (r < 0 || room.limit_bytes == 0 || room.charged_bytes <= room.limit_bytes)
			continue;
		(void)snprintf(text, sizeof text,
			       "%s are charged, the limit is %s; asks are refused until it fits",
			       berth_size_format(room.charged_bytes, charged),
			       berth_size_format(room.limit_bytes, limit));
		r = tell(walk, BERTH_FINDING_OVER, -1, (int32_t)i, text);
	}
	if (r == 0 && clamped_count != 0) {
		(void)snprintf(text, sizeof text,
			       "%" PRIu64 " times a figure had to be clamped: a program freed more "
			       "than it had",
			       clamped_count);
		r = tell(walk, BERTH_FINDING_CLAMPED, -1, -1, text);
	}
	return r;
}

int berth_region_inspect(struct berth_region *region,
			 int (*found)(void *arg, const struct berth_finding *finding), void *arg)
{
	if (!berth_map_ours(region))
		return -ECHILD;
	BERTH_FD int fd = berth_lockbyte_open(region, false);
	struct walk walk = { .region = region, .fd = fd, .found = found, .arg = arg };

	if (fd < 0)
		return fd;
	int r = head_check(&walk);
	uint32_t high = berth_map_seat_high(region);

	for (uint32_t i = 0; r == 0 && i < BERTH_SEAT_MAX; i++)
		r = seat_check(&walk, i, high);
	return r == 0 ? sums_tell(&walk) : r;
}

struct first_fault {
	const struct berth_region *region;
	struct berth_reason *reason;
};

static int first_fault_found(void *arg, const struct berth_finding *finding)
{
	const struct first_fault *first = arg;

	if (finding->kind != BERTH_FINDING_BROKEN)
		return 0;
	if (finding->seat < 0)
		return berth_reason_set(first->reason, -EUCLEAN, "%s: %s", first->region->path,
					finding->text);
	return berth_reason_set(first->reason, -EUCLEAN, "%s: seat %d: %s", first->region->path,
				finding->seat, finding->text);
}

int berth_region_check(struct berth_region *region, struct berth_reason *reason)
{
	struct first_fault first = { .region = region, .reason = reason };

	return berth_region_inspect(region, first_fault_found, &first);
}
