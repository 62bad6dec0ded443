/* SPDX-License-Identifier: Apache-2.0
 *
 * exports.def as a table, with addresses. The functions are declared here without their
 * parameters, so this file must not see cuda_functions.h (nor entry.h as it is): a table of
 * addresses wants one type for all.
 */
#define SIM_ENTRY_WITHOUT_PROTOTYPES
#include "sim/cuda/entry.h"

#define EXPORT(symbol, base, since, form, kind, flags) extern CUresult symbol(void);
#include "sim/cuda/exports.def"
#undef EXPORT

enum { KIND_STUB = 0, KIND_IMPL = 1 };

const struct sim_export sim_exports[SIM_EXPORT_COUNT] = {
#define EXPORT(symbol_, base_, since_, form_, kind_, flags_) \
	{                                                    \
		.symbol = #symbol_,                          \
		.base = #base_,                              \
		.since_version = (since_),                   \
		.form = SIM_FORM_##form_,                    \
		.implemented = KIND_##kind_,                 \
		.flags = SIM_EXPORT_##flags_,                \
		.address = (void (*)(void))(symbol_),        \
	},
#include "sim/cuda/exports.def"
#undef EXPORT
};
