/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of device code, as a whole, ended with a NUL byte that isn't counted.
 */
#ifndef BERTH_SIM_CUDA_FILE_IMAGE_H
#define BERTH_SIM_CUDA_FILE_IMAGE_H

#include <stddef.h>

#include "driver/cuda_types.h"

/* FILE_NOT_FOUND, INVALID_IMAGE when it is empty, OUT_OF_MEMORY. Free *ret_data. */
CUresult sim_file_image_read(const char *path, void **ret_data, size_t *ret_bytes);

#endif
