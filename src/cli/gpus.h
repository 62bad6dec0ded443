/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPUs that a command works on, from the driver that it chose.
 */
#ifndef BERTH_CLI_GPUS_H
#define BERTH_CLI_GPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/reason.h"
#include "driver/gpu_list.h"
#include "region/region.h"

struct berth_gpus {
	uint32_t count;
	struct berth_gpu list[BERTH_GPU_MAX];
};

/* Can the system's own libcuda.so.1 be loaded? It stays loaded if so. One in the simulator's directory is
 * not it: inside `berth run --sim` the library path leads there. */
bool berth_gpus_real_driver(const char *simulator);

/* The GPUs of the driver in directory (the simulator's), NULL = the system's. -ENODEV: there is none. */
BERTH_MUST_CHECK int berth_gpus_read(const char *directory, struct berth_gpus *ret_gpus,
				     struct berth_reason *reason);

/* Keeps the one GPU that wanted names: an index, a UUID, or the beginning of one that only one GPU
 * has. -ENODEV, with those that there are. */
BERTH_MUST_CHECK int berth_gpus_select(struct berth_gpus *gpus, const char *wanted,
				       struct berth_reason *reason);

#endif
