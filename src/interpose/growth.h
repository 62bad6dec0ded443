/* SPDX-License-Identifier: Apache-2.0
 *
 * What a driver call took from a GPU that gives no size itself (a context): measured, in turn (turn.h).
 * What other threads allocate meanwhile is charged by itself and taken off.
 */
#ifndef BERTH_INTERPOSE_GROWTH_H
#define BERTH_INTERPOSE_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/process_list.h"

/* Who holds what on the GPU, as NVML tells it. */
struct berth_growth_look {
	struct berth_process_list processes;
	uint64_t used_bytes;    /* of the whole GPU */
	uint64_t charged_bytes; /* to this process by its share */
};

struct berth_growth {
	bool running;
	int gpu;
	nvmlDevice_t device;
	struct berth_growth_look before;
};

/* Before the call. Does nothing, and costs nothing, on a GPU without a memory limit. */
void berth_growth_begin(int gpu, struct berth_growth *ret_growth);
/* After it, once: bytes, 0 if nothing can be told. */
uint64_t berth_growth_end(struct berth_growth *growth);

/* The arithmetic: own_pid is ours as NVML would list it, 0 = unknown. Pure. */
uint64_t berth_growth_between(const struct berth_growth_look *before,
			      const struct berth_growth_look *after, unsigned int own_pid);

#endif
