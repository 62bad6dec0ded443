/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of streams share: a context with code whose cost is known.
 */
#ifndef BERTH_TESTS_SIM_ENGINE_FIXTURE_H
#define BERTH_TESTS_SIM_ENGINE_FIXTURE_H

#include "core_fixture.h"
#include "engine_ptx.h"

/* cuInit, a context, the module. */
void engine_begin(void);
/* `waves` times 2 ms: the node's GPU has so many SMs. */
void engine_run_slow(CUstream stream, unsigned waves);
/* 10 us */
void engine_run_quick(CUstream stream);
double engine_seconds(void);

#endif
