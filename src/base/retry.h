/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded retry: call until it succeeds or the caller says stop. The waiter reads the clock and decides about each
 * wait; this helper only keeps the delays and the right error.
 */
#ifndef BERTH_BASE_RETRY_H
#define BERTH_BASE_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attributes.h"

struct berth_retry {
	uint64_t first_delay_ns; /* 0: 50 ms */
	uint64_t
		max_delay_ns; /* the delay doubles up to this; 0: the first delay (a fixed sleep) */
	int (*call)(void *arg);  /* 0 = done, else -errno: try again */
	bool (*stop)(void *arg); /* asked after each error, before the sleep; NULL: one call only */
	void (*sleep)(uint64_t ns, void *arg); /* NULL: berth_sleep_ns without a deadline */
	void *arg;
};

/* 0, or the error of the call *before* the last one (the deadline may have cut the last one short); the only call's
 * error if there was one. */
BERTH_MUST_CHECK int berth_retry_run(const struct berth_retry *retry);

#endif
