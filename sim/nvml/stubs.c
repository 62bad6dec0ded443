/* SPDX-License-Identifier: Apache-2.0
 *
 * A function for every row of exports.def that says STUB: it answers NOT_SUPPORTED, as NVML does
 * for what a card hasn't got. What a caller passes is never looked at.
 */
#define SIM_ENTRY_WITHOUT_PROTOTYPES
#include "sim/nvml/entry.h"

#define DEFINE_IMPL(symbol)
#define DEFINE_STUB(symbol)                                      \
	SIM_NVML_EXPORT nvmlReturn_t symbol(void);               \
	SIM_NVML_EXPORT nvmlReturn_t symbol(void)                \
	{                                                        \
		SIM_NVML_ENTER(symbol);                          \
		return SIM_NVML_LEAVE(NVML_ERROR_NOT_SUPPORTED); \
	}
#define NVML_EXPORT(symbol, kind, flags) DEFINE_##kind(symbol)
#include "sim/nvml/exports.def"
#undef NVML_EXPORT
