/* SPDX-License-Identifier: Apache-2.0
 *
 * The judge of a ledger race. It knows nothing of the ledger: each thread notes when it called and
 * what it was told, in shared memory of its own; so does whoever changes the limit. When all is over
 * the judge lays the notes on one time line (CLOCK_MONOTONIC) and reports only what is certain,
 * whatever the notes' granularity. Two things:
 *
 * Over. Bytes are surely held from their ask's return to their refund's call. A limit is possibly in
 * force from its change's call to the next change's return. Let D be what is surely held at an
 * instant. One of D was granted last, at a moment when all of D was charged already; so the sum of D
 * must fit a limit that was in force during that one's ask. Which one it was isn't known, but it was
 * granted after every other of D had called, so its ask returned no earlier than the latest call
 * in D. Certainly over: D's sum exceeds the largest limit possibly in force during the ask of any
 * that comes into question. D grows only when an ask returns, so it is enough to look then. That a
 * limit is lowered below what is held condemns nobody; a grant that comes after it does.
 *
 * A false refusal. Bytes are possibly held from their ask's call to their refund's return. The ask
 * is owed an instant, from its call to its return, at which what the living hold left no room under
 * the limit of that very instant. Certainly false: at each instant of it, what is possibly held and
 * the asked bytes fit the smallest limit that is possibly in force at that instant.
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

/* Of one thread. If its process was killed: when the signal was sent, and when its end was seen. */
struct judge_log {
	uint64_t killed_ns;
	uint64_t gone_ns;
	uint32_t note_count;
	uint32_t note_max;
	struct judge_note *notes;
};

/* The limits that were ever in force, one change after the other. The first: both instants 0. */
struct judge_limit {
	uint64_t bytes;
	uint64_t call_ns;
	uint64_t return_ns;
};

struct judge_limits {
	uint32_t count; /* at least 1 */
	const struct judge_limit *list;
};

struct judge_verdict {
	uint64_t ask_count;
	uint64_t grant_count;
	uint64_t refusal_count;
	uint64_t overshoot_bytes; /* the most by which a grant ever exceeded what it had to fit */
	uint64_t false_refusal_count;
	uint64_t held_max_bytes; /* the most that was surely held at one time */
	uint64_t below_count;    /* changes to a limit below what was surely held at their return */
};

/* 0, or -ENOMEM. */
int judge_decide(const struct judge_log *logs, uint32_t log_count,
		 const struct judge_limits *limits, struct judge_verdict *ret_verdict);

#endif
