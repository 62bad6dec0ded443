/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether this process may use the simulated driver (sim_is_initialized in entry.h: one load). A
 * fork child of a process that called cuInit may not: every call there, cuInit included, answers
 * CUDA_ERROR_NOT_INITIALIZED, as with the real one.
 */
#ifndef BERTH_SIM_CUDA_INIT_H
#define BERTH_SIM_CUDA_INIT_H

#include <stdbool.h>

#include "driver/cuda_types.h"

/* What the first cuInit does; later calls give the first one's answer. */
CUresult sim_init(void);

/* A copy, by fork, of a process that had called cuInit: it must not touch what it inherited. */
bool sim_is_fork_child(void);

#endif
