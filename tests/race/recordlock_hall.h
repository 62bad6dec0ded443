/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two halves of the rig share: the memory that all members see, and the member's life.
 */
#ifndef BERTH_TESTS_RACE_RECORDLOCK_HALL_H
#define BERTH_TESTS_RACE_RECORDLOCK_HALL_H

#include "recordlock_crowd.h"

struct rlcrowd_hall {
	/* The witness. Tags are 1 + slot. `inside` is changed on the way in and out; `last` is written on the way in and
	 * looked at all the time inside, so a second one inside is seen even where `inside` can't tell, because its
	 * present tag is that of a member that was killed. */
	_Atomic uint32_t inside;
	_Atomic uint32_t last;
	_Atomic uint32_t overlap_count;
	_Atomic uint32_t entry_count;
	_Atomic uint32_t closed;
	pid_t maker_pid;
	struct rlcrowd_member members[];
};

/* In the member's process, right after the fork. */
_Noreturn void rlcrowd_member_live(struct rlcrowd *crowd, uint32_t slot, uint32_t thread_count,
				   const struct rlcrowd_plan *plan);

void rlcrowd_word_wake(_Atomic uint32_t *word);
/* Returns at any time; the caller looks again. */
void rlcrowd_word_wait(_Atomic uint32_t *word, uint32_t seen);

#endif
