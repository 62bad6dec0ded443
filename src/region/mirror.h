/* SPDX-License-Identifier: Apache-2.0
 *
 * The mirror: HAMi's used[] of our own seat, for readers that know nothing of the ledger. Only for
 * files of this room. The caller holds the seat's mutex, so there is one writer; the sequence
 * number is odd from before the ledger's word changes until the mirror agrees with it. So: an even
 * number that didn't move vouches that mirror and ledger say the same.
 */
#ifndef BERTH_REGION_MIRROR_H
#define BERTH_REGION_MIRROR_H

#include "base/crash_point.h"
#include "region/own_seat.h"

static inline struct berth_layout_seat *berth_mirror_seat(const struct berth_seat *seat)
{
	return &seat->region->layout->head.seats[seat->index];
}

static inline void berth_mirror_open_locked(const struct berth_seat *seat)
{
	_Atomic uint64_t *sequence = &berth_mirror_seat(seat)->sequence;

	/* What follows is a seq_cst write of the word, which comes after. */
	atomic_store_explicit(sequence, atomic_load_explicit(sequence, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	BERTH_CRASH(mirror_opened);
}

/* Release stores: a reader that sees one of the figures sees the odd number too. */
static inline void berth_mirror_write_locked(const struct berth_seat *seat, uint32_t gpu,
					     enum berth_charge_kind kind)
{
	struct berth_layout_use *mirror = &berth_mirror_seat(seat)->use[gpu];
	const struct berth_own_use *use = &seat->use[gpu];
	_Atomic uint64_t *figure = kind == BERTH_CHARGE_CONTEXT  ? &mirror->context_bytes
				   : kind == BERTH_CHARGE_MODULE ? &mirror->module_bytes
								 : &mirror->data_bytes;

	atomic_store_explicit(figure, use->kind_bytes[kind], memory_order_release);
	BERTH_CRASH(mirror_half_written);
	atomic_store_explicit(&mirror->total_bytes, use->total_bytes, memory_order_release);
	BERTH_CRASH(mirror_written);
}

static inline void berth_mirror_close_locked(const struct berth_seat *seat)
{
	_Atomic uint64_t *sequence = &berth_mirror_seat(seat)->sequence;

	atomic_store_explicit(sequence, atomic_load_explicit(sequence, memory_order_relaxed) + 1,
			      memory_order_release);
}

#endif
