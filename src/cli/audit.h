/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of who changed a share's limits: <state directory>/audit.log, one line a GPU. The format is
 * an interface (man berth-limit, AUDIT).
 */
#ifndef BERTH_CLI_AUDIT_H
#define BERTH_CLI_AUDIT_H

#include <stdio.h>

#include "base/attributes.h"
#include "base/reason.h"
#include "region/region.h"

struct berth_audit_change {
	const char *by;     /* which command */
	const char *share;  /* as its region names it */
	const char *region; /* absolute path */
	const struct berth_region_gpu *before;
	const struct berth_region_gpu *after;
};

/* Appends the line. It is there whole, or -errno with the reason: a file that isn't this user's own and
 * closed to others is refused. */
BERTH_MUST_CHECK int berth_audit_write(const struct berth_audit_change *change,
				       struct berth_reason *reason);

/* Prints the lines of a region; none is no error. */
BERTH_MUST_CHECK int berth_audit_print(const char *region, FILE *out, struct berth_reason *reason);

#endif
