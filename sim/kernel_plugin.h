/* SPDX-License-Identifier: Apache-2.0
 *
 * How a test lets kernels compute: BERTH_SIM_KERNELS names a shared library that exports, for each
 * kernel it knows, a function of the kernel's name and this type:
 *
 *	void vector_add(const struct berth_sim_launch *launch, void **parameters);
 *
 * It is called once a launch, in stream order, by the thread that launches; parameters[i] points to
 * the i-th parameter's value. A device pointer becomes usable with launch->memory, which answers
 * NULL for a range that isn't wholly within one living allocation.
 */
#ifndef BERTH_SIM_KERNEL_PLUGIN_H
#define BERTH_SIM_KERNEL_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

struct berth_sim_launch {
	unsigned int grid[3];
	unsigned int block[3];
	unsigned int shared_bytes;
	void *(*memory)(uint64_t device_pointer, size_t bytes);
};

typedef void (*berth_sim_kernel)(const struct berth_sim_launch *launch, void **parameters);

#endif
