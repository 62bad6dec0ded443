/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BERTH_SIM_NVML_UTILIZATION_H
#define BERTH_SIM_NVML_UTILIZATION_H

#include "sim/nvml/entry.h"

/* Percent of the last second in which the card was busy. */
nvmlReturn_t sim_nvml_use_pct(nvmlDevice_t device, unsigned int *ret_pct);

#endif
