/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a benchmark of built programs is at work.
 */
#ifndef BERTH_BENCH_PLACE_H
#define BERTH_BENCH_PLACE_H

#include "base/attributes.h"

struct place {
	char build[4096]; /* BUILD, of the program that is BUILD/bin/bench-NAME */
	char scratch[64]; /* a directory of our own, in memory where there is such a place */
};

/* 0 or -errno. */
BERTH_MUST_CHECK int place_open(struct place *place);
/* Removes the scratch directory with all that is in it. */
void place_close(const struct place *place);

/* The directory and all below it; 0 or -errno. */
int place_erase(const char *dir);

#endif
