/* SPDX-License-Identifier: Apache-2.0
 *
 * A wait for a lock by fresh tries: for file systems whose queue can't be trusted, and where there can be no
 * proxy. Never calls F_SETLKW.
 */
#ifndef BERTH_LOCK_POLL_H
#define BERTH_LOCK_POLL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attributes.h"
#include "lock/counts.h"
#include "lock/descriptor.h"
#include "lock/hint.h"

struct berth_poll {
	struct berth_descriptor *descriptor;
	int64_t byte;
	uint64_t deadline_ns;
	struct berth_watch *watch; /* NULL = without hints */
	bool patient;
	struct berth_lock_counts *counts;
};

/* 0 = taken. -ETIMEDOUT. Else what the kernel said. */
BERTH_MUST_CHECK int berth_poll_wait(struct berth_poll *poll);

#endif
