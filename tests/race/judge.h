/* SPDX-License-Identifier: Apache-2.0
 *
 * The judge of a ledger race. It knows nothing of the ledger: each process notes when it called and
 * what it was told, in shared memory of its own; when all is over the judge lays the notes on one
 * time line (CLOCK_MONOTONIC) and looks
 *  - for an instant at which bytes surely held were over the limit: from an ask's return to its
 *    refund's call;
 *  - for a refusal although bytes possibly held, from the ask's call to the refund's return, left
 *    room for it all the while.
 * So what it reports is certain, whatever the notes' granularity.
 */
#ifndef BERTH_TESTS_RACE_JUDGE_H
#define BERTH_TESTS_RACE_JUDGE_H

#include <stdint.h>

/* One ask and, if it was granted, its refund. 0 = not reached. */
struct judge_note {
	uint64_t bytes;
	uint64_t ask_call_ns;
	uint64_t granted_ns;
	uint64_t refused_ns;
	uint64_t refund_call_ns;
	uint64_t refund_return_ns;
};

/* Of one process. A process that was killed: when the signal was sent, and when its end was
 * seen. */
struct judge_log {
	uint64_t killed_ns;
	uint64_t gone_ns;
	uint32_t note_count;
	uint32_t note_max;
	struct judge_note *notes;
};

struct judge_verdict {
	uint64_t ask_count;
	uint64_t grant_count;
	uint64_t refusal_count;
	uint64_t overshoot_bytes; /* the most by which the limit was ever exceeded */
	uint64_t false_refusal_count;
	uint64_t held_max_bytes; /* the most that was surely held at one time */
};

/* 0, or -ENOMEM. */
int judge_decide(const struct judge_log *logs, uint32_t log_count, uint64_t limit_bytes,
		 struct judge_verdict *ret_verdict);

#endif
