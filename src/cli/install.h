/* SPDX-License-Identifier: Apache-2.0
 *
 * Where Berth's own files lie: beside the command in a build tree, in the prefix's library
 * directory when installed, or where BERTH_LIBDIR says.
 */
#ifndef BERTH_CLI_INSTALL_H
#define BERTH_CLI_INSTALL_H

#include <limits.h>

#include "base/attributes.h"
#include "base/reason.h"

struct berth_install {
	char library[PATH_MAX];   /* libberth-cuda.so */
	char simulator[PATH_MAX]; /* directory of the simulated driver, "" = not installed */
};

/* -ENOENT, with the reason, if the library is nowhere. Blanks and colons in the path are refused
 * (-EINVAL): LD_PRELOAD can't carry them. */
BERTH_MUST_CHECK int berth_install_find(struct berth_install *ret_install,
					struct berth_reason *reason);

#endif
