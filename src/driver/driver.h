/* SPDX-License-Identifier: Apache-2.0
 *
 * The real driver: one typed pointer for each row of symbols.def, taken from the object that the
 * program itself loaded. Never through dlsym, so a preloaded library that exports the same names is
 * not in the way; the command line uses it the same way.
 *
 * Filled on first use, then O(1) and for ever: the object is pinned, so a program that closes and
 * reopens the driver does not leave stale pointers here. No lock: threads that come first at once each
 * fill a copy and one is published, so fork, signals and constructors can't leave it half done.
 */
#ifndef BERTH_DRIVER_DRIVER_H
#define BERTH_DRIVER_DRIVER_H

#include <stdbool.h>

#include "base/attributes.h"
#include "base/reason.h"
#include "driver/cuda_functions.h"
#include "driver/elf.h"

#define BERTH_DRIVER_SONAME "libcuda.so.1"

#define BERTH_POINTER_HOOK(symbol) __typeof__(symbol) *symbol;
#define BERTH_POINTER_USE(symbol)  __typeof__(symbol) *symbol;
#define BERTH_POINTER_FORM(symbol) void (*symbol)(void);

struct berth_driver {
	/* NULL: the installed driver lacks it, or there is no driver. */
#define CUDA_SYMBOL(base, symbol, since_version, stream, kind) BERTH_POINTER_##kind(symbol)
#include "driver/symbols.def"
	/* The object; start == end if there is no driver. */
	struct berth_elf object;
};

/* The driver, loaded if the program has not done so. Never NULL: without a driver, all pointers in
 * it are (this is not remembered: the next call looks again). Thread-safe, before main too. */
const struct berth_driver *berth_driver(void);

/* The same, but NULL if the program has not loaded the driver: never loads it. */
const struct berth_driver *berth_driver_loaded(void);

/* For programs that choose the driver themselves (the command line): loads the one at path, which
 * may be a bare name, and makes it the process's driver. -EALREADY if another one is in use; else
 * -ENOENT with the loader's words. */
BERTH_MUST_CHECK int berth_driver_open(const char *path, struct berth_reason *reason);

/* Does the address (a caller, a symbol) lie in a driver's object? O(1) once the driver is in use. */
bool berth_driver_contains(const void *address);

#endif
