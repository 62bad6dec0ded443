/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine's GPUs by NVML index, which is what regions count in. From NVML; where there is none,
 * from the driver, which then shows only what CUDA_VISIBLE_DEVICES leaves and in CUDA's order.
 */
#ifndef BERTH_DRIVER_GPU_LIST_H
#define BERTH_DRIVER_GPU_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/reason.h"

#define BERTH_GPU_UUID_SIZE 96 /* "GPU-…", zero-padded */
#define BERTH_GPU_NAME_SIZE 96
#define BERTH_GPU_PCI_SIZE  32

struct berth_gpu {
	uint32_t index; /* NVML's, or CUDA's if there is no NVML */
	char uuid[BERTH_GPU_UUID_SIZE];
	char name[BERTH_GPU_NAME_SIZE];
	char pci_bus_id[BERTH_GPU_PCI_SIZE]; /* "00000000:01:00.0" */
	uint64_t memory_total_bytes;         /* 0 = not told (unified memory) */
};

/* Fills at most max entries; *ret_count is what was filled. -ENOENT: neither NVML nor a driver;
 * -ENODEV: it can't be initialised or shows no GPU; -E2BIG: more than max GPUs. The library that was
 * opened with berth_nvml_open or berth_driver_open before is the one that is asked. Of the two, NVML
 * is initialised and shut down again; cuInit stays done. */
BERTH_MUST_CHECK int berth_gpu_list(struct berth_gpu *gpus, uint32_t max, uint32_t *ret_count,
				    struct berth_reason *reason);
/* The two sources by themselves. */
BERTH_MUST_CHECK int berth_gpu_list_nvml(struct berth_gpu *gpus, uint32_t max, uint32_t *ret_count,
					 struct berth_reason *reason);
BERTH_MUST_CHECK int berth_gpu_list_driver(struct berth_gpu *gpus, uint32_t max,
					   uint32_t *ret_count, struct berth_reason *reason);

/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" from the driver's 16 bytes. */
void berth_gpu_uuid_format(const char bytes[16], char ret_uuid[BERTH_GPU_UUID_SIZE]);

#endif
