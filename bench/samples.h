/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of one figure, in nanoseconds, and what is printed of them.
 */
#ifndef BERTH_BENCH_SAMPLES_H
#define BERTH_BENCH_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"

struct samples {
	uint64_t *ns;
	size_t count;
	size_t room;
};

/* 0 or -ENOMEM. */
BERTH_MUST_CHECK int samples_add(struct samples *samples, uint64_t ns);
void samples_done(struct samples *samples);

/* The smallest sample that `percent` of all don't exceed; 0 without samples. */
uint64_t samples_percentile(struct samples *samples, unsigned percent);

/* Adds all of them to the file that BENCH_SAMPLES in the environment names, a line "series,us" each,
 * below a line that says so; without it, nothing. scripts/bench sets it, for plots. 0 or -errno. */
BERTH_MUST_CHECK int samples_log(const struct samples *samples, const char *series);

#endif
