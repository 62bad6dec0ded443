/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the lock's benchmarks play: a directory of their own that goes with the last of their
 * processes, however they end. A janitor, forked first and in a session of its own, waits for the end
 * of a pipe that all of them inherit; so ^C and SIGKILL leave nothing behind.
 */
#ifndef BERTH_BENCH_LOCK_STAGE_H
#define BERTH_BENCH_LOCK_STAGE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/attributes.h"
#include "base/reason.h"

struct lock_stage {
	char dir[PATH_MAX];
	pid_t janitor;
	int lifeline; /* nobody reads or writes it: its end is the message */
};

struct lock_path {
	char text[PATH_MAX + 64];
};

/* A directory in `base`, or, if that is NULL, in TMPDIR or where memory serves as a file system. */
BERTH_MUST_CHECK int lock_stage_open(struct lock_stage *stage, const char *base,
				     struct berth_reason *reason);
struct lock_path lock_stage_path(const struct lock_stage *stage, const char *name);
/* Waits until the directory has gone. -EBUSY: it hasn't, because processes are left. */
BERTH_MUST_CHECK int lock_stage_close(struct lock_stage *stage, struct berth_reason *reason);

/* A benchmark's main(): its arguments, and its errors on standard error. */
typedef int (*lock_bench_fn)(bool quick, struct berth_reason *reason);
int lock_bench_main(int argc, char **argv, lock_bench_fn run);

#endif
