/* SPDX-License-Identifier: Apache-2.0
 *
 * What if it dies here? Who repairs, and how.
 *
 * A seat whose lock byte is free is dead or empty, whatever its bytes say. The dead need no repair
 * for the living to go on: an asker leaves a dead seat out of its sum by itself, and cancels a dead
 * one's undecided ask like a stopped one's. Emptying is housekeeping, done by whoever meets a dead
 * seat: an asker that would have been refused, or a claimer that needs the place.
 *
 * A reaper holds the reap byte, never the seat byte, so that a stopped reaper doesn't make the dead
 * look alive; and while it holds the reap byte nobody can claim the seat. Emptying writes in this
 * order, and each step may be done again by the next reaper:
 *
 *   killed after step                         what others see                    who repairs
 *   1 reap byte locked                        dead, as before                    the next reaper
 *   2 status, pid zeroed                      dead, generation odd               the next reaper
 *   3 a word flipped to a charge of zero      that GPU's charge gone at once     the next reaper
 *   4 identity zeroed                         dead, generation odd               the next reaper
 *   5 half: some figures zeroed               dead, sequence odd                 the next reaper
 *   5 sequence made even                      dead, figures zero                 the next reaper
 *   6 generation made even                    an empty seat                      nothing to repair
 *
 * A claim (seat.c) locks the reap byte (1), empties what it finds (2, as above), locks the seat
 * byte (3), makes the generation odd (4), writes who it is (5), sets the status (6), drops the reap
 * byte (7):
 *   killed after 1 to 3    an empty or dead seat, as it was    nothing, or the next reaper
 *   killed after 4 to 7    a dead seat with a charge of zero   the next reaper
 *   the limits merged,     a dead seat with a charge of zero,  the next reaper; limits only ever
 *   the descriptor closed  perhaps one of several limits       go down, so nobody gets too much
 *                          lowered
 * A tidy exit (seat.c) is an emptying under the seat byte, which the kernel drops at any death.
 *
 * What a stopped process costs others, wherever it stopped. E is what the kernel's own scheduling
 * and timers add.
 *   an ask            1 ms + E once for all lower seats that stopped in an ask of their own before,
 *                     and again for each that stops there meanwhile; nothing for a higher one
 *   refund, charge    nothing
 *   join              nothing where there is a region; 30 ms + E for a creator that stopped in its
 *                     turn to make it (birth.c), 1 s + E if there is no space for a second file
 *   claim             nothing for a stopped claimer, reaper or leaver: another seat is taken;
 *                     100 ms + E for a stopped renewal (limits.c), and for a creator that stopped
 *                     before it dropped a temporary name: the byte is the region's (birth.c)
 *   reaping, checks   nothing: the seat is left to who has its reap byte
 *   a reader          20 looks + E (about 1 ms) a seat whose mirror stopped half written
 *   a renewal         nothing: it isn't done, and what is ordered is merged
 *   berth limit       1 s + E for another change that stopped, then -EBUSY
 *   fork, the parent  nothing for a child that stopped in its fork handler (account.c)
 * What it had been granted stays charged, and its seat taken, until it goes on or dies.
 *
 * Sequence numbers and versions only ever go up: one that were reset could make a collect believe
 * that a seat hadn't changed although it was emptied in between.
 */
#include "region/recover.h"

#include <errno.h>

#include "base/crash_point.h"
#include "base/fd.h"
#include "region/entry.h"
#include "region/lockbyte.h"
#include "region/seat.h"

bool berth_recover_foreign(const struct berth_region *region, uint32_t index)
{
	/* Status first: our own claims make the generation odd before they write a status, our
	 * emptyings zero the status before they make it even. */
	int32_t status = atomic_load(&region->layout->head.seats[index].status);

	return status != BERTH_STATUS_FREE &&
	       (atomic_load(&region->layout->tail.generation[index]) & 1) == 0;
}

/* A late canceller may still make the word idle, hence compare-and-swap. */
static void entry_empty(struct berth_layout_entry *entry)
{
	uint64_t word = atomic_load(&entry->word);

	do
		atomic_store_explicit(&entry->value_bytes[!berth_word_side(word)], 0,
				      memory_order_release);
	while (!atomic_compare_exchange_weak(&entry->word, &word, berth_word_flipped(word)));
	atomic_store(&entry->refusal_count, 0);
}

static void mirror_empty(struct berth_layout_seat *seat)
{
	uint64_t sequence = atomic_load_explicit(&seat->sequence, memory_order_relaxed) | 1;

	/* Release stores: a reader that sees one of them sees the odd number. */
	atomic_store_explicit(&seat->sequence, sequence, memory_order_relaxed);
	for (int i = 0; i < BERTH_GPU_MAX; i++) {
		atomic_store_explicit(&seat->use[i].context_bytes, 0, memory_order_release);
		atomic_store_explicit(&seat->use[i].module_bytes, 0, memory_order_release);
		atomic_store_explicit(&seat->use[i].data_bytes, 0, memory_order_release);
		atomic_store_explicit(&seat->use[i].offset_bytes, 0, memory_order_release);
		atomic_store_explicit(&seat->use[i].total_bytes, 0, memory_order_release);
		atomic_store_explicit(&seat->monitor_used[i], 0, memory_order_release);
		atomic_store_explicit(&seat->util[i].decoder, 0, memory_order_release);
		atomic_store_explicit(&seat->util[i].encoder, 0, memory_order_release);
		atomic_store_explicit(&seat->util[i].sm, 0, memory_order_release);
		BERTH_CRASH(reap_mirror_zeroing);
	}
	atomic_store_explicit(&seat->sequence, sequence + 1, memory_order_release);
}

/* Only reads where there is nothing to do, as always among our own. */
void berth_recover_leftover(struct berth_region *region, uint32_t index)
{
	struct berth_layout_seat *seat = &region->layout->head.seats[index];
	uint64_t left = atomic_load_explicit(&seat->sequence, memory_order_relaxed) & 1;

	for (int i = 0; i < BERTH_GPU_MAX; i++) {
		const struct berth_layout_use *use = &seat->use[i];

		left |= atomic_load_explicit(&use->context_bytes, memory_order_relaxed) |
			atomic_load_explicit(&use->module_bytes, memory_order_relaxed) |
			atomic_load_explicit(&use->data_bytes, memory_order_relaxed) |
			atomic_load_explicit(&use->offset_bytes, memory_order_relaxed) |
			atomic_load_explicit(&use->total_bytes, memory_order_relaxed) |
			atomic_load_explicit(&seat->monitor_used[i], memory_order_relaxed) |
			atomic_load_explicit(&seat->util[i].sm, memory_order_relaxed);
	}
	if (left)
		mirror_empty(seat);
}

void berth_recover_empty(struct berth_region *region, uint32_t index)
{
	struct berth_layout_seat *seat = &region->layout->head.seats[index];
	struct berth_layout_tail *tail = &region->layout->tail;
	struct berth_layout_identity *identity = &tail->identity[index];
	uint64_t generation = atomic_load(&tail->generation[index]);

	atomic_store(&seat->status, BERTH_STATUS_FREE); /* 2 */
	atomic_store(&seat->pid, 0);
	atomic_store(&seat->host_pid, 0);
	BERTH_CRASH(reap_unnamed);
	/* Nobody is ever charged on a GPU that the region doesn't have: these pages stay untouched. */
	for (uint32_t i = 0; i < region->gpu_count; i++) { /* 3 */
		entry_empty(&tail->ledger[i][index]);
		BERTH_CRASH(reap_uncharged);
	}
	atomic_store(&identity->start_ticks, 0); /* 4 */
	atomic_store(&identity->pid_namespace, 0);
	atomic_store(&identity->boot_id, 0);
	atomic_store(&identity->claimed_unix_s, 0);
	atomic_store(&identity->host_pid_note, 0);
	atomic_store(&identity->passing_bytes, 0);
	mirror_empty(seat); /* 5 */
	BERTH_CRASH(reap_zeroed);
	atomic_store(&tail->generation[index], generation + (generation & 1)); /* 6 */
	BERTH_CRASH(reap_emptied);
}

int berth_recover_reap(struct berth_region *region, int fd, uint32_t index)
{
	if ((atomic_load(&region->layout->tail.generation[index]) & 1) == 0)
		return 0;
	int r = berth_lockbyte_try(fd, BERTH_LOCK_REAP + index); /* 1 */
	if (r < 0)
		return r == -EAGAIN ? 0 : r;
	BERTH_CRASH(reap_locked);
	int held = berth_lockbyte_held(fd, BERTH_LOCK_SEAT + index);
	/* Asked again under the byte: another reaper may have been here. */
	bool taken = (atomic_load(&region->layout->tail.generation[index]) & 1) != 0;

	if (held == 0 && taken) {
		berth_recover_empty(region, index);
		atomic_fetch_add(&region->layout->tail.change_count, 1);
	}
	berth_lockbyte_drop(fd, BERTH_LOCK_REAP + index);
	if (held < 0)
		return held;
	return held == 0 && taken;
}

static int reap_range(struct berth_region *region, uint32_t first, uint32_t end)
{
	int reaped = 0;

	if (!berth_map_ours(region))
		return -ECHILD;
	if (!region->writable)
		return -EROFS;
	berth_lockbyte_enter();
	BERTH_FD int fd = berth_lockbyte_open(region, true);
	int r = fd < 0 ? fd : 0;
	for (uint32_t i = first; r >= 0 && i < end; i++) {
		r = berth_recover_reap(region, fd, i);
		if (r > 0)
			reaped++;
	}
	berth_fd_close(&fd);
	berth_lockbyte_leave();
	return r < 0 ? r : reaped;
}

int berth_seat_reap(struct berth_region *region, uint32_t index)
{
	return index < BERTH_SEAT_MAX ? reap_range(region, index, index + 1) : -EINVAL;
}

int berth_seat_reap_all(struct berth_region *region)
{
	return reap_range(region, 0, berth_map_ours(region) ? berth_map_seat_high(region) : 0);
}
