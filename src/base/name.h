/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that people give to things and that become file names: one rule for all of them.
 */
#ifndef BERTH_BASE_NAME_H
#define BERTH_BASE_NAME_H

#include <stdbool.h>

#define BERTH_NAME_MAX 64 /* with the terminating zero */

/* 1 to 63 letters, figures and . _ - @ +, not starting with a dot: such a name stays in its
 * directory, is not hidden, and needs no quotes. */
bool berth_name_valid(const char *name);

/* What would have been right, for messages. */
extern const char berth_name_hint[];

#endif
