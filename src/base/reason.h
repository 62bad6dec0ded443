/* SPDX-License-Identifier: Apache-2.0
 *
 * Why something was refused, in words for a person: names the file or variable and the remedy.
 * Filled on failure only, by the one who knows most; whoever prints it prints it once. A reason
 * lives on the caller's stack; functions accept NULL for "not interested".
 */
#ifndef BERTH_BASE_REASON_H
#define BERTH_BASE_REASON_H

#include "base/attributes.h"

#define BERTH_REASON_MAX 512

struct berth_reason {
	char text[BERTH_REASON_MAX]; /* "" = nothing was said */
};

/* Sets the text (the first one stays: it is the cause) and returns err, so that a failure is one
 * statement: return berth_reason_set(reason, -EINVAL, "%s: …", name); */
int berth_reason_set(struct berth_reason *reason, int err, const char *fmt, ...) BERTH_PRINTF(3, 4);

#endif
