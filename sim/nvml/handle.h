/* SPDX-License-Identifier: Apache-2.0
 *
 * Device handles, and what the functions over them share. A handle is the address of a slot that
 * lives as long as the library, so it stays good over nvmlShutdown and the next nvmlInit, as with
 * the real one; anything else that a program passes is found out.
 */
#ifndef BERTH_SIM_NVML_HANDLE_H
#define BERTH_SIM_NVML_HANDLE_H

#include <stddef.h>
#include <stdint.h>

#include "sim/config.h"
#include "sim/nvml/entry.h"

/* INVALID_ARGUMENT for what is no handle, GPU_IS_LOST for a GPU that fell off the bus. */
nvmlReturn_t sim_nvml_gpu(nvmlDevice_t device, unsigned *ret_gpu);
nvmlDevice_t sim_nvml_device(unsigned gpu);

/* INSUFFICIENT_SIZE, and buffer untouched, when the text doesn't fit. */
nvmlReturn_t sim_nvml_copy_text(const char *text, char *buffer, unsigned length);

/* One number about a device: the checks that all such functions make. */
nvmlReturn_t sim_nvml_number(nvmlDevice_t device, unsigned value, unsigned *ret_value);

#endif
