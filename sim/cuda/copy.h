/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills without streams: every form of cuMemcpy* comes down to one CUDA_MEMCPY3D, every
 * cuMemset* to one CUDA_MEMSET_NODE_PARAMS. Both checks and movers stand alone, so that a captured
 * graph can check at capture and move at launch.
 */
#ifndef BERTH_SIM_CUDA_COPY_H
#define BERTH_SIM_CUDA_COPY_H

#include <stddef.h>

#include "driver/cuda_types.h"

/* INVALID_VALUE for a bad description, range or dead memory; moves nothing. */
CUresult sim_copy_check(const CUDA_MEMCPY3D *copy);
/* Checks and moves. */
CUresult sim_copy_move(const CUDA_MEMCPY3D *copy);
size_t sim_copy_bytes(const CUDA_MEMCPY3D *copy);

CUresult sim_fill_check(const CUDA_MEMSET_NODE_PARAMS *fill);
CUresult sim_fill_move(const CUDA_MEMSET_NODE_PARAMS *fill);
size_t sim_fill_bytes(const CUDA_MEMSET_NODE_PARAMS *fill);

#endif
