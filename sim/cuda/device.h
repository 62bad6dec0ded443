/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's devices: the node's GPUs as CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER let this process see
 * them. NVML sees them all. A CUdevice is an ordinal here; `gpu` is always the node's index.
 */
#ifndef BERTH_SIM_CUDA_DEVICE_H
#define BERTH_SIM_CUDA_DEVICE_H

#include "driver/cuda_types.h"
#include "sim/config.h"

/* Called by cuInit. CUDA_ERROR_NO_DEVICE when nothing is visible. */
CUresult sim_device_init(void);
int sim_device_count(void);
/* CUDA_ERROR_INVALID_DEVICE for a bad ordinal. */
CUresult sim_device_gpu(CUdevice device, unsigned *ret_gpu);
/* The ordinal must be good. */
const struct sim_gpu_config *sim_device_config(CUdevice device);
unsigned sim_device_gpu_of(CUdevice device);
/* -1 when this process doesn't see that GPU. */
CUdevice sim_device_of_gpu(unsigned gpu);

/* The pure part, for tests: fills order[] with GPU indexes; returns how many. */
unsigned sim_device_select(const char *visible, const char *order,
			   const struct sim_gpu_config *gpus, unsigned gpu_count,
			   unsigned *ret_order);

#endif
