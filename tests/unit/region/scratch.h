/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of this room share: a directory of their own, a share's description, and children
 * that report through their exit status. Included after cmocka.h.
 */
#ifndef BERTH_TESTS_REGION_SCRATCH_H
#define BERTH_TESTS_REGION_SCRATCH_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "region/region.h"
#include "region/seat.h"

#define MIB   ((uint64_t)1 << 20)
#define GPU_A "GPU-00000000-aaaa"
#define GPU_B "GPU-00000000-bbbb"

struct scratch {
	char dir[PATH_MAX / 2];
	char path[PATH_MAX]; /* of a region that isn't there yet */
};

/* cmocka set-up and tear-down: *state becomes a struct scratch. The directory is removed with all
 * that is in it. */
int scratch_setup(void **state);
int scratch_teardown(void **state);

/* One GPU (GPU_A) with this limit. */
struct berth_region_spec spec_of(uint64_t limit_bytes);

/* Joins and takes a seat, or fails the test. */
struct berth_region *join_or_fail(const char *path, const struct berth_region_spec *spec);
struct berth_seat *claim_or_fail(struct berth_region *region);

/* Charged by the living, or fails the test. */
uint64_t charged_bytes(const struct berth_region *region, uint32_t gpu);
/* Fails the test if an invariant is broken. */
void check_or_fail(struct berth_region *region);

/* Runs body in a fork child, which exits with what it returns. */
pid_t child_start(int (*body)(void *arg), void *arg);
/* 0..255, or -signal. */
int child_end(pid_t pid);

#endif
