/* SPDX-License-Identifier: Apache-2.0
 *
 * What a driver call took from a GPU that gives no size itself (a context): measured.
 */
#ifndef BERTH_INTERPOSE_GROWTH_H
#define BERTH_INTERPOSE_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/nvml_types.h"

struct berth_growth {
	bool running;
	bool own_known; /* own_bytes is what NVML says of this process */
	nvmlDevice_t device;
	uint64_t own_bytes;
	uint64_t used_bytes; /* of the whole GPU */
};

/* Before the call. Does nothing, and costs nothing, on a GPU without a memory limit. */
struct berth_growth berth_growth_begin(int gpu);
/* After it: bytes, 0 if nothing can be told. */
uint64_t berth_growth_end(const struct berth_growth *growth);

#endif
