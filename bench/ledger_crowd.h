/* SPDX-License-Identifier: Apache-2.0
 *
 * Many processes that ask at once: how many asks a second all of them together get, by our ledger or
 * by the strategy that it replaces.
 */
#ifndef BERTH_BENCH_LEDGER_CROWD_H
#define BERTH_BENCH_LEDGER_CROWD_H

#include <stdint.h>

enum { CROWD_MAX = 64 };

enum crowd_strategy {
	CROWD_LEDGER,
	/* A process-shared semaphore around everything: sum what all slots use, compare, add. */
	CROWD_SEMAPHORE,
};

struct crowd {
	enum crowd_strategy strategy;
	const char *region_path; /* must not exist; removed afterwards */
	uint32_t process_count;  /* at most CROWD_MAX */
	uint64_t limit_bytes;
	uint64_t ask_bytes;
	uint32_t held_count; /* blocks that each keeps while it asks for the next: 0 to 3 */
	uint64_t duration_ns;
};

struct crowd_result {
	double asks_per_s; /* each with its refund, where it is granted */
	double granted_pct;
};

/* 0 or -errno. */
int crowd_run(const struct crowd *crowd, struct crowd_result *ret_result);

#endif
