/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger: announce, collect, commit; no lock between processes.
 *
 * PURPOSE. The sum of the living's charges on a GPU never exceeds its limit by an ask, an ask that
 * fits is granted, and nobody waits for the dead or the stopped.
 *
 * STATE, per GPU and seat (layout.h, entry.h): a word {version, nonce, asking} and two values.
 * value[version & 1] is the *charge*. The other value is written ahead: the charge after the change
 * that is being prepared. Adding one to the version makes it the charge, so every change is one
 * write of the word, whole or not at all, and there is no state in which a charge is half done.
 *
 * An ask of `bytes` by seat s:
 *   A1 prepare    the other value = charge + bytes.
 *   A2 announce   word = asking, with a new nonce.
 *   A3 collect    limit; then each other seat's entry, read at one instant each. C = own charge and
 *                 the others', O = bytes of the others' undecided asks.
 *   A4 refuse     if C + bytes > limit: read the limit again. Ask the kernel which of the counted
 *                 seats live, until the living alone leave no room; the dead are emptied and left
 *                 out. Too few: A3. Then, if the version of any seat that counts has moved since
 *                 A3: A3. Else withdraw (asking -> idle) and refuse.
 *   A5 grant      if C + O + bytes <= limit: compare-and-swap the own word asking -> next version.
 *                 This write is the grant. It fails if somebody cancelled: A8.
 *   A6 mirror     HAMi's figures follow.
 *   A7 clear      (undecided asks are in the way) If this ask was cancelled: A8. If a lower seat
 *                 asks: withdraw, A8. Else cancel all higher asks (asking -> idle, by
 *                 compare-and-swap on the word as seen), A3.
 *   A8 stand back wait until every lower seat's ask seen now has moved; cancel those that haven't
 *                 moved for 1 ms: their askers are dead, stopped or not running. A1.
 * A refund or a forced charge: R1 prepare, R2 word = next version, R3 mirror.
 * All accesses to words and limits are sequentially consistent; values are written with release
 * after the word that freed them, before the word that publishes them.
 *
 * WHY NEVER OVER. Order asks by their announcements (A2). Claim: right after the grant of ask a,
 * the charges plus the bytes of all undecided asks announced before a fit a limit that was in force
 * while a was undecided. If no ask announced after a was granted while a was undecided: every other
 * seat's change since a's collect read it is a refund, or the grant of an ask that the collect saw
 * undecided and counted in O (one announced later than the read is announced after a). If some was,
 * let b be the last such: b announced and then collected while a was undecided (a's nonce proves
 * it), so b's claim covers a's bytes and those of all asks announced before a; since b's grant there
 * were only grants of asks announced before a, which b's claim covers too. A newcomer raises
 * seat_high before it announces: reading seat_high counts as reading it. A seat left out as dead
 * charges again only for a new owner, who announces after a. (A forced charge asks nobody: it may
 * exceed the limit, and asks are refused until the sum fits again.)
 *
 * WHY NO FALSE REFUSAL. A4's reading of the limit lies after all reads of A3 and before all
 * questions and checks. At that instant every counted seat was alive (it was so later, and a new
 * owner would have moved the version) and had the charge that was counted (its version didn't
 * move). So at that one instant the living left no room under the limit of that instant. Undecided
 * asks aren't in this sum. (A3's limit won't do: if it is raised and others take the room that
 * came, the ask would be refused though it fitted all the while.)
 *
 * WHY SOMEBODY GETS THROUGH. A4 starts over only if a counted charge moved, a dead seat was found
 * or the limit was raised. At A7 the lowest asker's way is made free: it cancels the higher ones,
 * which at A8 wait for it. So an asker that runs is held up only by others that get through. An
 * asker that doesn't run for 1 ms is cancelled by whoever minds.
 *
 * Killed after  what others see                              who repairs
 * A1            the charge as before                         nothing to repair; the seat is reaped
 * A2, A3        an undecided ask                             who minds cancels it within 1 ms
 * A4            idle, the charge as before                   the seat is reaped
 * A5            the charge with the grant                    askers leave the dead out; reaped
 * A6 half       sequence odd, figures torn                   readers use the ledger; reaped
 * before A5, R2 sequence odd, the charge as before           the same as A6
 * A7, A8        some asks cancelled                          their owners notice at A5 or A7
 * R1            the charge as before                         askers leave the dead out; reaped
 * R2, R3        the charge after the refund                  the same as A6
 * Stopped instead of killed: the same, but nothing is reaped, and what is charged stays charged.
 *
 * REJECTED. A process-shared semaphore or robust mutex (the dead hold everybody up, or thread ids
 * of two namespaces clash). Check, then add (two pass together). Counting announced asks in
 * refusals (two that exclude each other are both refused). A separate "granted" state (a process
 * stopped between grant and charge is counted twice or not at all). Symmetric cancelling (two
 * cancel each other for ever).
 */
#include "region/ledger.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/crash_point.h"
#include "base/fd.h"
#include "region/entry.h"
#include "region/lockbyte.h"
#include "region/mirror.h"
#include "region/own_seat.h"
#include "region/recover.h"

#define STAND_BACK_NS BERTH_NS_PER_MS

enum verdict {
	VERDICT_GRANTED,
	VERDICT_REFUSED,
	VERDICT_STAND_BACK,
	VERDICT_AGAIN, /* collect again */
};

struct ask {
	struct berth_seat *seat;
	struct berth_region *region;
	struct berth_layout_entry *entries; /* of this GPU, by seat */
	struct berth_layout_entry *own;
	struct berth_collected *collected;
	uint32_t gpu;
	enum berth_charge_kind kind;
	uint64_t bytes;
	uint64_t announced; /* the own word at A2 */
	uint64_t limit_bytes;
	uint32_t high;
	uint64_t charged_bytes; /* C */
	uint64_t asked_bytes;   /* O */
	bool dead_known;        /* collected->dead_word is valid */
};

/* Writes the value that isn't the charge. Release: the word that made it the other one came before,
 * and a reader that sees the new value must see that word too. */
static void value_prepare(struct berth_layout_entry *entry, uint64_t word, uint64_t bytes)
{
	atomic_store_explicit(&entry->value_bytes[!berth_word_side(word)], bytes,
			      memory_order_release);
}

static void anomaly_count(struct berth_seat *seat)
{
	atomic_fetch_add_explicit(&seat->region->layout->tail.anomaly_count, 1,
				  memory_order_relaxed);
}

/* A1, A2. Nobody else writes an idle word of a living seat. */
static void ask_announce(struct ask *ask)
{
	uint64_t word = atomic_load(&ask->own->word);

	value_prepare(ask->own, word, ask->seat->use[ask->gpu].total_bytes + ask->bytes);
	BERTH_CRASH(ledger_ask_prepared);
	ask->announced = berth_word_announced(word);
	atomic_store(&ask->own->word, ask->announced);
	BERTH_CRASH(ledger_ask_announced);
}

/* If it fails, somebody has cancelled: the word is idle all the same. */
static void ask_withdraw(struct ask *ask)
{
	uint64_t word = ask->announced;

	(void)atomic_compare_exchange_strong(&ask->own->word, &word, berth_word_withdrawn(word));
}

/* A3 */
static void ask_collect(struct ask *ask)
{
	struct berth_collected *seen = ask->collected;
	uint64_t charged_bytes = ask->seat->use[ask->gpu].total_bytes;
	uint64_t asked_bytes = 0;

	ask->high = berth_map_seat_high(ask->region);
	ask->limit_bytes = atomic_load(&ask->region->layout->head.limit_bytes[ask->gpu]);
	for (uint32_t i = 0; i < ask->high; i++) {
		if (i == ask->seat->index)
			continue;
		struct berth_entry_state state = berth_entry_read(&ask->entries[i]);

		seen->word[i] = state.word;
		seen->charged_bytes[i] = state.charged_bytes;
		if (ask->dead_known && seen->dead_word[i] == state.word) {
			seen->charged_bytes[i] = 0;
			continue;
		}
		charged_bytes = berth_bytes_add(charged_bytes, state.charged_bytes);
		asked_bytes = berth_bytes_add(asked_bytes, state.asked_bytes);
		BERTH_CRASH(ledger_ask_collecting);
	}
	ask->charged_bytes = charged_bytes;
	ask->asked_bytes = asked_bytes;
	BERTH_CRASH(ledger_ask_collected);
}

/* A dead seat: out of this ask's sums as long as its word stays, and emptied on the way. */
static void dead_found(struct ask *ask, const struct berth_asker *asker, uint32_t index)
{
	if (!ask->dead_known)
		memset(ask->collected->dead_word, 0, sizeof ask->collected->dead_word);
	ask->dead_known = true;
	ask->collected->dead_word[index] = ask->collected->word[index];
	if (asker->kept)
		return; /* only to ask with: no lock may stay on it */
	berth_lockbyte_enter();
	/* Housekeeping: it is left out anyway. */
	(void)berth_recover_reap(ask->region, asker->fd, index);
	berth_lockbyte_leave();
}

/* Asks the kernel about one seat after the other until those that live leave no room; returns how
 * many counted for that, or -1 if there is room. Who can't be asked about is taken for living. */
static int living_count(struct ask *ask)
{
	BERTH_UNCANCELLED; /* files are opened here, under the seat's mutex */
	struct berth_collected *seen = ask->collected;
	uint64_t living_bytes = ask->seat->use[ask->gpu].total_bytes;
	BERTH_ASKER(asker, ask->region);
	int count = 0;

	for (uint32_t i = 0; i < ask->high; i++) {
		if (!berth_bytes_fit(living_bytes, ask->bytes, ask->limit_bytes))
			return count;
		if (i == ask->seat->index || seen->charged_bytes[i] == 0)
			continue;
		if (berth_asker_seat_held(&asker, i) == 0) {
			dead_found(ask, &asker, i);
			continue;
		}
		living_bytes = berth_bytes_add(living_bytes, seen->charged_bytes[i]);
		seen->counted[count++] = (uint16_t)i;
	}
	return berth_bytes_fit(living_bytes, ask->bytes, ask->limit_bytes) ? -1 : count;
}

/* A4 */
static enum verdict ask_refuse(struct ask *ask)
{
	struct berth_collected *seen = ask->collected;

	ask->limit_bytes = atomic_load(&ask->region->layout->head.limit_bytes[ask->gpu]);
	int count = living_count(ask);

	BERTH_CRASH(ledger_ask_weighed);
	if (count < 0)
		return VERDICT_AGAIN;
	for (int i = 0; i < count; i++) {
		uint32_t index = seen->counted[i];

		if (berth_word_version(atomic_load(&ask->entries[index].word)) !=
		    berth_word_version(seen->word[index]))
			return VERDICT_AGAIN;
	}
	BERTH_CRASH(ledger_ask_validated);
	ask_withdraw(ask);
	BERTH_CRASH(ledger_ask_refused);
	return VERDICT_REFUSED;
}

/* A5, A6 */
static enum verdict ask_grant(struct ask *ask)
{
	struct berth_own_use *use = &ask->seat->use[ask->gpu];
	uint64_t word = ask->announced;

	berth_mirror_open_locked(ask->seat);
	bool granted =
		atomic_compare_exchange_strong(&ask->own->word, &word, berth_word_flipped(word));
	if (granted) {
		BERTH_CRASH(ledger_ask_granted);
		use->kind_bytes[ask->kind] += ask->bytes;
		use->total_bytes += ask->bytes;
		berth_mirror_write_locked(ask->seat, ask->gpu, ask->kind);
	}
	berth_mirror_close_locked(ask->seat);
	return granted ? VERDICT_GRANTED : VERDICT_STAND_BACK;
}

static void cancel(struct berth_layout_entry *entry, uint64_t word)
{
	(void)atomic_compare_exchange_strong(&entry->word, &word, berth_word_withdrawn(word));
}

/* A7 */
static enum verdict ask_clear(struct ask *ask)
{
	struct berth_collected *seen = ask->collected;

	/* Cancelled meanwhile: whoever did it doesn't see this ask any more and would not stand
	 * back for it, so to go on cancelling would let two cancel each other for ever. */
	if (atomic_load(&ask->own->word) != ask->announced)
		return VERDICT_STAND_BACK;
	for (uint32_t i = 0; i < ask->high; i++) {
		if (i == ask->seat->index || !berth_word_asking(seen->word[i]))
			continue;
		if (i < ask->seat->index) {
			ask_withdraw(ask);
			BERTH_CRASH(ledger_ask_withdrawn);
			return VERDICT_STAND_BACK;
		}
		cancel(&ask->entries[i], seen->word[i]);
		BERTH_CRASH(ledger_ask_cancelled_higher);
	}
	return VERDICT_AGAIN;
}

static void processor_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

/* Of the `count` seats in collected->counted, keeps those whose ask hasn't moved. */
static int unmoved_keep(struct ask *ask, int count)
{
	struct berth_collected *seen = ask->collected;
	int kept = 0;

	for (int i = 0; i < count; i++) {
		uint32_t index = seen->counted[i];

		if (atomic_load(&ask->entries[index].word) == seen->word[index])
			seen->counted[kept++] = (uint16_t)index;
	}
	return kept;
}

/* A8 */
static void ask_stand_back(struct ask *ask)
{
	struct berth_collected *seen = ask->collected;
	int count = 0;

	for (uint32_t i = 0; i < ask->seat->index; i++) {
		seen->word[i] = atomic_load(&ask->entries[i].word);
		if (berth_word_asking(seen->word[i]))
			seen->counted[count++] = (uint16_t)i;
	}
	if (count == 0)
		return;
	BERTH_CRASH(ledger_ask_standing_back);
	uint64_t deadline_ns = berth_deadline_after(STAND_BACK_NS);

	for (unsigned round = 0; count > 0 && !berth_deadline_passed(deadline_ns); round++) {
		/* A running asker decides within a microsecond; one that doesn't run needs the
		 * processor. */
		if (round < 20)
			processor_relax();
		else
			(void)sched_yield(); /* always succeeds */
		count = unmoved_keep(ask, count);
	}
	for (int i = 0; i < count; i++) {
		uint32_t index = seen->counted[i];

		cancel(&ask->entries[index], seen->word[index]);
		BERTH_CRASH(ledger_ask_cancelled_lower);
	}
}

static enum verdict ask_decide(struct ask *ask)
{
	enum verdict verdict = VERDICT_AGAIN;

	while (verdict == VERDICT_AGAIN) {
		ask_collect(ask);
		uint64_t ahead_bytes = berth_bytes_add(ask->charged_bytes, ask->asked_bytes);

		if (!berth_bytes_fit(ask->charged_bytes, ask->bytes, ask->limit_bytes))
			verdict = ask_refuse(ask);
		else if (berth_bytes_fit(ahead_bytes, ask->bytes, ask->limit_bytes))
			verdict = ask_grant(ask);
		else
			verdict = ask_clear(ask);
	}
	return verdict;
}

static void refusal_count(struct ask *ask)
{
	atomic_fetch_add_explicit(&ask->own->refusal_count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&ask->region->layout->tail.gpus[ask->gpu].refusal_count, 1,
				  memory_order_relaxed);
}

static int ask_locked(struct ask *ask)
{
	uint64_t after;

	/* What no figure can hold fits no limit. */
	if (__builtin_add_overflow(ask->seat->use[ask->gpu].total_bytes, ask->bytes, &after)) {
		refusal_count(ask);
		return -ENOMEM;
	}
	for (;;) {
		ask_announce(ask);
		enum verdict verdict = ask_decide(ask);

		if (verdict == VERDICT_GRANTED)
			return 0;
		if (verdict == VERDICT_REFUSED) {
			refusal_count(ask);
			return -ENOMEM;
		}
		ask_stand_back(ask);
	}
}

static int arguments_check(const struct berth_seat *seat, uint32_t gpu, enum berth_charge_kind kind)
{
	/* A child without our memory has neither the mapping nor a seat. */
	if (!berth_map_ours(seat->region))
		return -ECHILD;
	if (gpu >= seat->region->gpu_count || (unsigned)kind > BERTH_CHARGE_DATA)
		return -EINVAL;
	return 0;
}

int berth_ledger_ask(struct berth_seat *seat, uint32_t gpu, enum berth_charge_kind kind,
		     uint64_t bytes)
{
	int r = arguments_check(seat, gpu, kind);

	if (r < 0 || bytes == 0)
		return r;
	struct berth_layout_entry *entries = seat->region->layout->tail.ledger[gpu];
	struct ask ask = {
		.seat = seat,
		.region = seat->region,
		.entries = entries,
		.own = &entries[seat->index],
		.collected = &seat->collected,
		.gpu = gpu,
		.kind = kind,
		.bytes = bytes,
	};

	pthread_mutex_lock(&seat->mutex);
	r = ask_locked(&ask);
	pthread_mutex_unlock(&seat->mutex);
	return r;
}

/* R1 to R3, with the own books changed already. */
static void charge_publish_locked(struct berth_seat *seat, uint32_t gpu,
				  enum berth_charge_kind kind)
{
	struct berth_layout_entry *own = &seat->region->layout->tail.ledger[gpu][seat->index];
	uint64_t word = atomic_load(&own->word);

	value_prepare(own, word, seat->use[gpu].total_bytes);
	BERTH_CRASH(ledger_change_prepared);
	berth_mirror_open_locked(seat);
	atomic_store(&own->word, berth_word_flipped(word));
	BERTH_CRASH(ledger_change_published);
	berth_mirror_write_locked(seat, gpu, kind);
	berth_mirror_close_locked(seat);
}

void berth_ledger_charge(struct berth_seat *seat, uint32_t gpu, enum berth_charge_kind kind,
			 uint64_t bytes)
{
	if (arguments_check(seat, gpu, kind) < 0 || bytes == 0)
		return;
	struct berth_own_use *use = &seat->use[gpu];

	pthread_mutex_lock(&seat->mutex);
	if (bytes > UINT64_MAX - use->total_bytes) {
		bytes = UINT64_MAX - use->total_bytes;
		anomaly_count(seat);
	}
	use->kind_bytes[kind] += bytes;
	use->total_bytes += bytes;
	charge_publish_locked(seat, gpu, kind);
	pthread_mutex_unlock(&seat->mutex);
}

void berth_ledger_refund(struct berth_seat *seat, uint32_t gpu, enum berth_charge_kind kind,
			 uint64_t bytes)
{
	if (arguments_check(seat, gpu, kind) < 0 || bytes == 0)
		return;
	struct berth_own_use *use = &seat->use[gpu];

	pthread_mutex_lock(&seat->mutex);
	if (bytes > use->kind_bytes[kind]) {
		bytes = use->kind_bytes[kind];
		anomaly_count(seat);
	}
	use->kind_bytes[kind] -= bytes;
	use->total_bytes -= bytes;
	charge_publish_locked(seat, gpu, kind);
	pthread_mutex_unlock(&seat->mutex);
}

uint64_t berth_ledger_own(struct berth_seat *seat, uint32_t gpu)
{
	uint64_t bytes;

	if (arguments_check(seat, gpu, BERTH_CHARGE_DATA) < 0)
		return 0;
	pthread_mutex_lock(&seat->mutex);
	bytes = seat->use[gpu].total_bytes;
	pthread_mutex_unlock(&seat->mutex);
	return bytes;
}

int berth_ledger_room(const struct berth_region *region, uint32_t gpu,
		      struct berth_ledger_room *ret_room)
{
	if (!berth_map_ours(region))
		return -ECHILD;
	if (gpu >= region->gpu_count)
		return -EINVAL;
	BERTH_UNCANCELLED; /* asking who lives opens the file; the driver's calls are no such points */
	const struct berth_layout *layout = region->layout;
	int32_t own_seat = atomic_load(&region->own_seat);
	uint32_t high = berth_map_seat_high(region);
	uint64_t charged_bytes = 0;
	BERTH_ASKER(asker, region);

	for (uint32_t i = 0; i < high; i++) {
		struct berth_entry_state state = berth_entry_read(&layout->tail.ledger[gpu][i]);

		if (state.charged_bytes == 0)
			continue;
		if ((int32_t)i != own_seat && berth_asker_seat_held(&asker, i) == 0)
			continue;
		charged_bytes = berth_bytes_add(charged_bytes, state.charged_bytes);
	}
	ret_room->limit_bytes = atomic_load(&layout->head.limit_bytes[gpu]);
	ret_room->charged_bytes = charged_bytes;
	return 0;
}
