/* SPDX-License-Identifier: Apache-2.0
 *
 * exports.def as a table.
 */
#define SIM_ENTRY_WITHOUT_PROTOTYPES
#include "sim/nvml/entry.h"

const struct sim_nvml_export sim_nvml_exports[SIM_NVML_EXPORT_COUNT] = {
#define NVML_EXPORT(symbol, kind, flags) { #symbol, SIM_NVML_##flags },
#include "sim/nvml/exports.def"
#undef NVML_EXPORT
};
