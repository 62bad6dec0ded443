/* SPDX-License-Identifier: Apache-2.0
 *
 * A function for every row of exports.def that says STUB: it exists, is logged and can be made to
 * fail like any other, and answers NOT_SUPPORTED. What a caller passes is never looked at.
 */
#define SIM_ENTRY_WITHOUT_PROTOTYPES
#include "sim/cuda/entry.h"

#define DEFINE_IMPL(symbol)
#define DEFINE_STUB(symbol)                                 \
	SIM_EXPORT CUresult symbol(void);                   \
	SIM_EXPORT CUresult symbol(void)                    \
	{                                                   \
		SIM_ENTER(symbol);                          \
		return SIM_LEAVE(CUDA_ERROR_NOT_SUPPORTED); \
	}
#define EXPORT(symbol, base, since, form, kind, flags) DEFINE_##kind(symbol)
#include "sim/cuda/exports.def"
#undef EXPORT
