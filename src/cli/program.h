/* SPDX-License-Identifier: Apache-2.0
 *
 * What kind of program is about to be started: can a preloaded library limit it at all?
 */
#ifndef BERTH_CLI_PROGRAM_H
#define BERTH_CLI_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

#include "base/attributes.h"
#include "base/reason.h"

struct berth_program {
	char path[PATH_MAX];        /* what will be executed */
	char interpreter[PATH_MAX]; /* of a script ("#!"), "" = a binary */
	char asan_runtime[NAME_MAX +
			  1]; /* "libasan.so.8": has to come first in the preload; "" = none */
};

/* Finds name as execvp would. -ENOENT: no such program. -EACCES: there, but not executable. */
BERTH_MUST_CHECK int berth_program_find(const char *name, struct berth_program *ret_program,
					struct berth_reason *reason);

/* Reads the program's (or its interpreter's) headers. -ENOTSUP with the reason if a preloaded
 * library would be ignored: statically linked, set-user-ID or with file capabilities, of another
 * word size or machine, for another C library. Sets asan_runtime and interpreter. */
BERTH_MUST_CHECK int berth_program_inspect(struct berth_program *program,
					   struct berth_reason *reason);

#endif
