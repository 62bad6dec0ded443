/* SPDX-License-Identifier: Apache-2.0
 *
 * A ledger entry's word and how to read an entry at one instant. The protocol is in ledger.c.
 *
 * word: bit 0 asking | bits 1..19 nonce, +1 at each announcement | bits 20..63 version, +1 at each
 * change of the charge. So a word never comes back: a late compare-and-swap on an old one fails,
 * and an unchanged version means an unchanged charge. (2^44 versions: 20 days of nothing but
 * allocations within one read.)
 */
#ifndef BERTH_REGION_ENTRY_H
#define BERTH_REGION_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "region/layout.h"

#define BERTH_WORD_ASKING        1ULL
#define BERTH_WORD_NONCE_ONE     2ULL
#define BERTH_WORD_VERSION_SHIFT 20
#define BERTH_WORD_VERSION_ONE   (1ULL << BERTH_WORD_VERSION_SHIFT)
#define BERTH_WORD_NONCE_MASK    (BERTH_WORD_VERSION_ONE - BERTH_WORD_NONCE_ONE)

static inline uint64_t berth_word_version(uint64_t word)
{
	return word >> BERTH_WORD_VERSION_SHIFT;
}

/* Which of the two values is the charge. */
static inline unsigned berth_word_side(uint64_t word)
{
	return (unsigned)(word >> BERTH_WORD_VERSION_SHIFT) & 1;
}

static inline bool berth_word_asking(uint64_t word)
{
	return (word & BERTH_WORD_ASKING) != 0;
}

/* idle -> asking, with a nonce that no earlier announcement under this version had. */
static inline uint64_t berth_word_announced(uint64_t word)
{
	uint64_t nonce = (word + BERTH_WORD_NONCE_ONE) & BERTH_WORD_NONCE_MASK;

	return (word & ~(BERTH_WORD_VERSION_ONE - 1)) | nonce | BERTH_WORD_ASKING;
}

/* asking -> idle, the charge as before. */
static inline uint64_t berth_word_withdrawn(uint64_t word)
{
	return word & ~BERTH_WORD_ASKING;
}

/* The other value becomes the charge; idle. */
static inline uint64_t berth_word_flipped(uint64_t word)
{
	return (word & ~BERTH_WORD_ASKING) + BERTH_WORD_VERSION_ONE;
}

struct berth_entry_state {
	uint64_t word;
	uint64_t charged_bytes; /* the effective charge */
	uint64_t asked_bytes;   /* of an undecided ask, else 0 */
};

/* All three as they were together at one instant of the call. The value that is the charge is
 * written only before the word moves on, so an unchanged word vouches for it. Another round means
 * that the owner got something done. Acquire: the second read of the word comes after the
 * values'. */
static inline struct berth_entry_state berth_entry_read(const struct berth_layout_entry *entry)
{
	struct berth_entry_state state;

	for (;;) {
		state.word = atomic_load(&entry->word);
		unsigned side = berth_word_side(state.word);
		state.charged_bytes =
			atomic_load_explicit(&entry->value_bytes[side], memory_order_acquire);
		state.asked_bytes = 0;
		if (berth_word_asking(state.word)) {
			uint64_t after = atomic_load_explicit(&entry->value_bytes[!side],
							      memory_order_acquire);

			state.asked_bytes =
				after > state.charged_bytes ? after - state.charged_bytes : 0;
		}
		if (atomic_load(&entry->word) == state.word)
			return state;
	}
}

static inline uint64_t berth_bytes_add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* charged + bytes <= limit, without overflow; a limit of 0 is none. */
static inline bool berth_bytes_fit(uint64_t charged, uint64_t bytes, uint64_t limit)
{
	return limit == 0 || (charged <= limit && bytes <= limit - charged);
}

#endif
