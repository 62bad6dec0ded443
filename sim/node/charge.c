/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of the node's GPUs. `total` of a GPU is the only judge of whether an ask fits; a row's
 * used_bytes say whose they are. Both must agree whenever a process is killed, without a lock:
 *
 *   total is one word: units charged, the row that wrote it last, and the low bits of that row's
 *   operation number. So the word itself tells whether the last operation of a row reached it, and
 *   whoever overwrites the word first notes that in the row's applied_sequence, on its behalf.
 *
 *   1. pending_sequence = 0, pending_used_bytes = what used_bytes will be, pending_sequence = n
 *   2. compare-and-swap of total to (new units, row, n); before that, the previous writer is noted
 *   3. applied_sequence = n
 *   4. used_bytes = pending_used_bytes
 *
 * Killed after step n -> what is true            -> who repairs
 *   1  total lacks it: the word has another tag and applied_sequence < n -> used_bytes stands
 *   2  the word has the tag (row, n), or its next writer noted n         -> pending_used_bytes
 *   3  applied_sequence = n                                              -> pending_used_bytes
 *   4  both are the same
 * The repair is done by whoever holds the state lock and finds the row's lock byte free: settle as
 * above, then one more operation in the dead row's name takes used_bytes to 0. A death during that
 * is settled in the same way by the next one.
 *
 * applied_sequence never goes back, not even when a row gets another owner; it only ever grows by
 * one from the value that was seen, so a stopped helper that comes late changes nothing. A row's
 * operations on one GPU follow each other (usage_mutex), so the word's tag is either n or older.
 *
 * Rejected: a file lock around each ask (two system calls); a counter per row and a sum (two could
 * both find room).
 *
 * The peak is the most that the living had at one time, for tests; off unless one was started. Only
 * a charge can set it. Its own compare-and-swap of total tells what everybody had at that instant,
 * but the dead that nobody has noticed are in it. So what was taken from the dead since before that
 * instant is subtracted, after a look for more of them: all that were dead at the instant are among
 * these, and a dead row's bytes don't change. Who died only after the instant is subtracted too, so
 * the peak may be too low then, but it is never too high. (A death in the middle of forgetting
 * leaves the two counts apart until somebody is forgotten to the end: too low again.)
 */
#include "sim/node/node_internal.h"

#include <time.h>

#include <errno.h>
#include <pthread.h>

#define SEQUENCE_BITS 12U
#define ROW_BITS      12U
#define SEQUENCE_MASK ((1ULL << SEQUENCE_BITS) - 1)
#define ROW_MASK      ((1ULL << ROW_BITS) - 1)
#define UNITS_SHIFT   (SEQUENCE_BITS + ROW_BITS)

_Static_assert(SIM_PROCESS_MAX < ROW_MASK, "a row and 'nobody' fit the tag");

static pthread_mutex_t usage_mutex = PTHREAD_MUTEX_INITIALIZER;

static uint64_t word_make(uint64_t units, int row, uint64_t sequence)
{
	return units << UNITS_SHIFT | (uint64_t)(row + 1) << SEQUENCE_BITS |
	       (sequence & SEQUENCE_MASK);
}

static uint64_t word_units(uint64_t word)
{
	return word >> UNITS_SHIFT;
}

/* The row that wrote the word, or -1. */
static int word_row(uint64_t word)
{
	return (int)(word >> SEQUENCE_BITS & ROW_MASK) - 1;
}

/* Notes in its row that the operation this word is tagged with has happened. False if the word
 * changed meanwhile: its next writer has then done so. */
static bool word_note_writer(unsigned gpu, uint64_t word)
{
	struct sim_gpu *device = &sim_node()->gpus[gpu];
	int row = word_row(word);
	_Atomic uint64_t *applied;
	uint64_t seen;

	if (row < 0)
		return true;
	applied = &sim_node()->processes[row].usage[gpu].applied_sequence;
	seen = atomic_load(applied);
	if (atomic_load(&device->total) != word)
		return false;
	/* The word is of operation seen or seen + 1: there is no third. */
	if ((seen & SEQUENCE_MASK) != (word & SEQUENCE_MASK))
		atomic_compare_exchange_strong(applied, &seen, seen + 1);
	return true;
}

/* Takes the row's used bytes to used_bytes and total along. -ENOMEM if that is above the capacity
 * (never when it shrinks). One at a time per row and GPU. *ret_total: what all rows had right after,
 * in bytes. */
static int usage_move(unsigned gpu, int row, uint64_t used_bytes, uint64_t *ret_total)
{
	struct sim_gpu *device = &sim_node()->gpus[gpu];
	struct sim_usage *usage = &sim_node()->processes[row].usage[gpu];
	uint64_t before = usage->used_bytes / SIM_CHARGE_UNIT;
	uint64_t after = used_bytes / SIM_CHARGE_UNIT;
	uint64_t sequence = usage->applied_sequence + 1;
	uint64_t word;
	uint64_t units;

	atomic_store(&usage->pending_sequence, 0);
	atomic_store(&usage->pending_used_bytes, used_bytes);
	atomic_store(&usage->pending_sequence, sequence);
	do {
		do
			word = atomic_load(&device->total);
		while (!word_note_writer(gpu, word));
		units = word_units(word) - before + after;
		if (after > before && units > device->capacity_bytes / SIM_CHARGE_UNIT) {
			atomic_store(&usage->pending_sequence, 0);
			return -ENOMEM;
		}
	} while (!atomic_compare_exchange_weak(&device->total, &word,
					       word_make(units, row, sequence)));
	/* A later writer may have noted it already; it can't be beyond. */
	atomic_store(&usage->applied_sequence, sequence);
	atomic_store(&usage->used_bytes, used_bytes);
	*ret_total = units * SIM_CHARGE_UNIT;
	return 0;
}

/* What a dead row's last operation came to. */
static void usage_settle_locked(unsigned gpu, int row)
{
	struct sim_usage *usage = &sim_node()->processes[row].usage[gpu];
	uint64_t sequence = usage->pending_sequence;
	uint64_t word;

	if (!sequence)
		return;
	do
		word = atomic_load(&sim_node()->gpus[gpu].total);
	while (word_row(word) == row && !word_note_writer(gpu, word));
	if (usage->applied_sequence >= sequence)
		usage->used_bytes = usage->pending_used_bytes;
	usage->pending_sequence = 0;
}

void sim_charge_forget_locked(int row)
{
	struct sim_usage *usage = sim_node()->processes[row].usage;
	uint64_t total_bytes;

	for (unsigned gpu = 0; gpu < sim_node_gpu_count(); gpu++) {
		usage_settle_locked(gpu, row);
		struct sim_gpu *device = &sim_node()->gpus[gpu];

		atomic_fetch_add(&device->forgetting_bytes, usage[gpu].used_bytes);
		if (usage[gpu].used_bytes) /* shrinking is never refused */
			(void)usage_move(gpu, row, 0, &total_bytes);
		atomic_store(&device->forgotten_bytes, device->forgetting_bytes);
		usage[gpu].context_count = 0;
	}
}

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + SIM_CHARGE_UNIT - 1) & ~(uint64_t)(SIM_CHARGE_UNIT - 1);
}

/* The epoch, and what had been taken from the dead, before a charge; what all had right after it. */
static void peak_note(unsigned gpu, uint32_t epoch, uint64_t forgotten_bytes, uint64_t total_bytes)
{
	struct sim_gpu *device = &sim_node()->gpus[gpu];

	if (!epoch || total_bytes <= device->peak_bytes)
		return;
	sim_node_lock();
	sim_node_sweep_locked();
	forgotten_bytes = device->forgetting_bytes - forgotten_bytes;
	if (epoch == device->peak_epoch && total_bytes > forgotten_bytes &&
	    total_bytes - forgotten_bytes > device->peak_bytes)
		device->peak_bytes = total_bytes - forgotten_bytes;
	sim_node_unlock();
}

static int try_charge(unsigned gpu, uint64_t bytes)
{
	int row = sim_node_row();
	struct sim_gpu *device = &sim_node()->gpus[gpu];
	struct sim_usage *usage = &sim_node()->processes[row].usage[gpu];
	uint32_t epoch = device->peak_epoch;
	uint64_t forgotten_bytes = device->forgotten_bytes;
	uint64_t total_bytes;
	int err;

	pthread_mutex_lock(&usage_mutex);
	err = usage_move(gpu, row, usage->used_bytes + bytes, &total_bytes);
	pthread_mutex_unlock(&usage_mutex);
	if (!err)
		peak_note(gpu, epoch, forgotten_bytes, total_bytes);
	return err;
}

int sim_node_charge(unsigned gpu, uint64_t bytes)
{
	if (bytes > sim_node_capacity_bytes(gpu))
		return -ENOMEM;
	bytes = round_up(bytes);
	if (try_charge(gpu, bytes) == 0)
		return 0;
	/* It isn't refused because of a dead process's bytes. Somebody else may have freed them
	 * between the try and the look, so the last word is always said after a look. */
	sim_node_lock();
	sim_node_sweep_locked();
	sim_node_unlock();
	return try_charge(gpu, bytes);
}

void sim_node_refund(unsigned gpu, uint64_t bytes)
{
	int row = sim_node_row();
	struct sim_usage *usage = &sim_node()->processes[row].usage[gpu];
	uint64_t total_bytes;
	uint64_t used;

	bytes = round_up(bytes);
	pthread_mutex_lock(&usage_mutex);
	used = usage->used_bytes;
	if (bytes > used) {
		sim_complain("a refund of %llu bytes where %llu are charged",
			     (unsigned long long)bytes, (unsigned long long)used);
		atomic_fetch_add(&sim_node()->gpus[gpu].short_refund_count, 1);
		bytes = used;
	}
	(void)usage_move(gpu, row, used - bytes, &total_bytes); /* shrinking is never refused */
	pthread_mutex_unlock(&usage_mutex);
}

uint64_t sim_node_used_bytes(unsigned gpu)
{
	return word_units(atomic_load(&sim_node()->gpus[gpu].total)) * SIM_CHARGE_UNIT;
}

uint64_t sim_node_own_bytes(unsigned gpu)
{
	return sim_node()->processes[sim_node_row()].usage[gpu].used_bytes;
}

void sim_node_note_context(unsigned gpu, int change)
{
	struct sim_usage *usage = &sim_node()->processes[sim_node_row()].usage[gpu];
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (change > 0 && usage->context_count == 0)
		usage->context_since_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	atomic_fetch_add(&usage->context_count, (uint32_t)change);
}

void sim_node_peak_start(unsigned gpu)
{
	struct sim_gpu *device = &sim_node()->gpus[gpu];

	sim_node_lock();
	sim_node_sweep_locked();
	/* First the epoch: a charge from before it is in what is read now, or notes nothing. */
	if (++device->peak_epoch == 0)
		device->peak_epoch = 1;
	device->peak_bytes = sim_node_used_bytes(gpu);
	sim_node_unlock();
}

uint64_t sim_node_peak_bytes(unsigned gpu)
{
	return sim_node()->gpus[gpu].peak_bytes;
}

uint64_t sim_node_short_refund_count(unsigned gpu)
{
	return sim_node()->gpus[gpu].short_refund_count;
}
