/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the benchmark of joining that have files of their own.
 */
#ifndef BERTH_BENCH_JOIN_H
#define BERTH_BENCH_JOIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/reason.h"
#include "samples.h"

/* join_semaphore.c: `count` processes join at once by the older strategy, after as many were
 * killed, several times. The file is removed afterwards. */
BERTH_MUST_CHECK int semaphore_measure(const char *path, uint32_t count, unsigned rounds,
				       struct samples *wall, struct berth_reason *reason);

/* join_program.c: the real programs. */
BERTH_MUST_CHECK int programs_run(bool quick, struct berth_reason *reason);
/* One of them: `word` names the memory that it shares with the conductor. */
int program_live(const char *word);

#endif
