/* SPDX-License-Identifier: Apache-2.0
 *
 * A contest: many processes of one share ask for random sizes at once, some are killed or stopped
 * in the middle, limits change meanwhile, and the judge says whether the ledger kept its word.
 */
#ifndef BERTH_TESTS_RACE_CONTEST_H
#define BERTH_TESTS_RACE_CONTEST_H

#include <stdbool.h>
#include <stdint.h>

#include "judge.h"

struct contest {
	const char *region_path; /* must not exist; removed afterwards */
	uint32_t process_count;
	uint32_t thread_count; /* of each process; they share its seat. 0 = 1 */
	uint32_t asks_per_thread;
	uint64_t limit_bytes;
	uint64_t ask_max_bytes;
	bool ask_any_scale;    /* from 1 byte on all magnitudes alike; else all sizes alike */
	uint32_t kill_count;   /* SIGKILL at random, each replaced by a new process */
	uint32_t stop_count;   /* SIGSTOP at random, continued after some milliseconds */
	uint32_t change_count; /* of the limit: down to a sixteenth, and up to limit_bytes again */
	uint32_t seed;
};

struct contest_result {
	struct judge_verdict verdict;
	uint64_t elapsed_ns; /* from the barrier to the last process's end */
	uint32_t killed_count;
	uint32_t failed_count;       /* processes that ended in an error of their own */
	uint64_t left_charged_bytes; /* by the living, after the end: 0 */
	char broken[512];            /* "" or the first broken invariant of the file */
};

/* 0 or -errno. */
int contest_run(const struct contest *contest, struct contest_result *ret_result);

#endif
