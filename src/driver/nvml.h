/* SPDX-License-Identifier: Apache-2.0
 *
 * The real libnvidia-ml, in the way of driver.h: pointers by symbols.def, filled on first use from
 * the object that the program loaded, pinned, without a lock. Who calls NVML starts and stops it
 * around its calls (they count), and does all of it between berth_walk_enter and berth_walk_leave: no
 * fork of the program then has a child that finds NVML's locks held by a thread that it hasn't.
 */
#ifndef BERTH_DRIVER_NVML_H
#define BERTH_DRIVER_NVML_H

#include <stdbool.h>

#include "base/attributes.h"
#include "base/reason.h"
#include "driver/elf.h"
#include "driver/nvml_functions.h"

#define BERTH_NVML_SONAME "libnvidia-ml.so.1"

#define BERTH_NVML_POINTER_HOOK(symbol) __typeof__(symbol) *symbol;
#define BERTH_NVML_POINTER_USE(symbol)  __typeof__(symbol) *symbol;
#define BERTH_NVML_POINTER_FORM(symbol) void (*symbol)(void);

struct berth_nvml {
	/* NULL: the installed library lacks it, or there is none. */
#define NVML_SYMBOL(symbol, kind) BERTH_NVML_POINTER_##kind(symbol)
#include "driver/symbols.def"
	/* The object; start == end if there is none. */
	struct berth_elf object;
};

/* As berth_driver, berth_driver_loaded, berth_driver_open and berth_driver_contains. */
const struct berth_nvml *berth_nvml(void);
const struct berth_nvml *berth_nvml_loaded(void);
BERTH_MUST_CHECK int berth_nvml_open(const char *path, struct berth_reason *reason);
bool berth_nvml_contains(const void *address);

/* nvmlInit_v2 and nvmlShutdown, which must be known. */
nvmlReturn_t berth_nvml_start(void);
void berth_nvml_stop(void);

#endif
