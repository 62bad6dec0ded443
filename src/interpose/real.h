/* SPDX-License-Identifier: Apache-2.0
 *
 * Calling the real function behind a hook. One that the installed driver lacks answers as the
 * driver would for an unknown function; it is never called through NULL.
 */
#ifndef BERTH_INTERPOSE_REAL_H
#define BERTH_INTERPOSE_REAL_H

#include "driver/driver.h"
#include "driver/nvml.h"

#define REAL(function, ...)                                        \
	({                                                         \
		__auto_type real_ = berth_driver()->function;      \
		real_ ? real_(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND; \
	})

#define REAL_NVML(function, ...)                                            \
	({                                                                  \
		__auto_type real_ = berth_nvml()->function;                 \
		real_ ? real_(__VA_ARGS__) : NVML_ERROR_FUNCTION_NOT_FOUND; \
	})

#endif
