/* SPDX-License-Identifier: Apache-2.0
 *
 * What the look-up tests' driver tells beside the names of a driver.
 */
#ifndef BERTH_TESTS_FAKE_CUDA_H
#define BERTH_TESTS_FAKE_CUDA_H

#include <stdatomic.h>
#include <stdint.h>

#include "fake_cuda_results.h"

struct fake_counts {
	atomic_int init_calls;
	atomic_int init_bodies;
	atomic_int looked_for_itself;
	atomic_int lost_itself;
};

#define FAKE_EXPORT __attribute__((visibility("default")))

FAKE_EXPORT extern struct fake_counts fake_counts;

/* The bare driver's answer, whoever else exports cuGetProcAddress. */
FAKE_EXPORT int fake_resolve(const char *base, void **ret_function, int version, uint64_t flags,
			     int *ret_status);
/* Which of the driver's functions an address is. */
FAKE_EXPORT const char *fake_symbol_of(const void *function);

FAKE_EXPORT int cuGetProcAddress(const char *base, void **function, int version, uint64_t flags);
FAKE_EXPORT int cuGetProcAddress_v2(const char *base, void **function, int version, uint64_t flags,
				    int *status);

#endif
