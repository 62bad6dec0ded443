/* SPDX-License-Identifier: Apache-2.0
 *
 * What real cards and drivers do that a program must cope with: BERTH_SIM_NVML_QUIRKS, a list
 * with commas. An unknown word makes nvmlInit fail, with one line on standard error.
 *
 *	no-memory          memory queries answer NOT_SUPPORTED (unified memory)
 *	no-utilization     utilisation queries answer NOT_SUPPORTED
 *	over-100           utilisation is told as more than it can be
 *	no-processes       process lists answer NOT_SUPPORTED
 *	empty-processes    process lists are empty, whoever is there (containers without host pids)
 *	own-pid            this process is listed by the pid that its own namespace gives it
 *	na-process-memory  what each process uses is told as not available
 *	stale-memory       what each process uses is told anew once a second only
 *
 * BERTH_SIM_NVML_LIST_LAG_MS: how late a process that is new on a GPU is listed (default 0).
 */
#ifndef BERTH_SIM_NVML_QUIRK_H
#define BERTH_SIM_NVML_QUIRK_H

#include <stdbool.h>
#include <stdint.h>

enum sim_nvml_quirk {
	SIM_QUIRK_NO_MEMORY = 1U << 0,
	SIM_QUIRK_NO_UTILIZATION = 1U << 1,
	SIM_QUIRK_OVER_100 = 1U << 2,
	SIM_QUIRK_NO_PROCESSES = 1U << 3,
	SIM_QUIRK_EMPTY_PROCESSES = 1U << 4,
	SIM_QUIRK_OWN_PID = 1U << 5,
	SIM_QUIRK_NA_PROCESS_MEMORY = 1U << 6,
	SIM_QUIRK_STALE_MEMORY = 1U << 7,
};

/* False: a variable holds what it can't, which has been said. */
bool sim_nvml_quirks_read(void);
/* After sim_nvml_quirks_read gave true. */
bool sim_nvml_has_quirk(enum sim_nvml_quirk quirk);
uint64_t sim_nvml_list_lag_ns(void);

#endif
