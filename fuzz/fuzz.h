/* SPDX-License-Identifier: Apache-2.0
 *
 * A fuzz target: one function that takes any bytes (libFuzzer's entry point). It is fed by libFuzzer
 * where clang builds it so, and everywhere by driver.c, from a corpus and mutations of it.
 */
#ifndef BERTH_FUZZ_H
#define BERTH_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Longest input that driver.c makes. */
#define FUZZ_INPUT_MAX 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: it stays in release builds. */
#define FUZZ_CHECK(condition)                                                           \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

#endif
