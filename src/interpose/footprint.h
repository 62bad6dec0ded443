/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory an array takes, before it exists: pure arithmetic on the descriptor. Where the
 * driver tells the size afterwards, its word counts.
 */
#ifndef BERTH_INTERPOSE_FOOTPRINT_H
#define BERTH_INTERPOSE_FOOTPRINT_H

#include <stdint.h>

#include "driver/cuda_types.h"

/* levels: 1 for a plain array; more than the extents allow count as what they allow. 0 for arrays that get
 * their memory by mapping (sparse, deferred): that memory was charged with its handle. Saturates
 * at UINT64_MAX. Unknown formats count as the largest known element: never too little. */
uint64_t berth_footprint_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels);

#endif
