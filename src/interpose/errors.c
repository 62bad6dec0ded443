/* SPDX-License-Identifier: Apache-2.0
 *
 * errno -> CUresult and nvmlReturn_t. What a framework does with the code decides the choice: only
 * "out of memory" makes it free caches and retry, and "no device" would let it go on without a GPU
 * in silence, so neither stands for a configuration that can't be enforced.
 */
#include "interpose/errors.h"

#include <errno.h>

CUresult berth_error_to_cuda(int err)
{
	switch (err) {
	case 0:
		return CUDA_SUCCESS;
	case -ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case -EIO:
	case -ENOSPC:
	case -EMFILE:
	case -ENFILE:
	case -EROFS:
	case -ENOSYS:
		return CUDA_ERROR_OPERATING_SYSTEM;
	default:
		return CUDA_ERROR_NOT_PERMITTED;
	}
}

nvmlReturn_t berth_error_to_nvml(int err)
{
	switch (err) {
	case 0:
		return NVML_SUCCESS;
	case -ENOMEM:
		return NVML_ERROR_MEMORY;
	case -EIO:
	case -ENOSPC:
	case -EMFILE:
	case -ENFILE:
	case -EROFS:
	case -ENOSYS:
		return NVML_ERROR_OPERATING_SYSTEM;
	default:
		return NVML_ERROR_NO_PERMISSION;
	}
}
