/* SPDX-License-Identifier: Apache-2.0
 *
 * The one place where our errors become the driver's. Everywhere else errors are negative errno.
 */
#ifndef BERTH_INTERPOSE_ERRORS_H
#define BERTH_INTERPOSE_ERRORS_H

#include "driver/cuda_types.h"
#include "driver/nvml_types.h"

/* err: 0 or -errno. */
CUresult berth_error_to_cuda(int err);
nvmlReturn_t berth_error_to_nvml(int err);

#endif
