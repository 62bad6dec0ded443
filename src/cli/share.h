/* SPDX-License-Identifier: Apache-2.0
 *
 * A share as the command line names and shows it: a name, or a path with a '/' in it that leads to a
 * region file (a container's, say).
 */
#ifndef BERTH_CLI_SHARE_H
#define BERTH_CLI_SHARE_H

#include <limits.h>
#include <stdint.h>

#include "cli/command.h"
#include "region/region.h"
#include "region/snapshot.h"

struct berth_share_place {
	char name[PATH_MAX]; /* for people: the share's name, or the path, escaped */
	char path[PATH_MAX]; /* of the region, absolute */
};

/* Where the share of this name or path is, or would be. -EINVAL, with the reason, for what can't be a
 * name. */
BERTH_MUST_CHECK int berth_share_locate(const char *operand, struct berth_share_place *ret_place,
					struct berth_reason *reason);

/* "there is no share 'x'; there are: …". Returns -ENOENT. */
int berth_share_absent(const struct berth_share_place *place, struct berth_reason *reason);

/* What sits and is charged there, with text that is safe to print: it is named as its place is.
 * -ENOENT without a reason if there is no region. */
BERTH_MUST_CHECK int berth_share_snapshot(const struct berth_share_place *place,
					  struct berth_snapshot **ret_snapshot,
					  struct berth_reason *reason);

/* "0:1234abcd": the index in the share, and what tells cards apart. Returns buf. */
const char *berth_share_gpu_label(uint32_t index, const struct berth_region_gpu *gpu, char *buf,
				  size_t size);

/* What is charged beyond the limit, 0 if nothing is. */
uint64_t berth_share_over_bytes(const struct berth_snapshot_gpu *gpu);

/* "29 %", "117 % over", "-" without a limit. Returns buf. */
const char *berth_share_used(const struct berth_snapshot_gpu *gpu, char *buf, size_t size);

/* What a compute limit means in this version; NULL if there is nothing to say of this one. */
const char *berth_share_compute_note(uint32_t compute_pct, char *buf, size_t size);

/* For JSON, whose whole numbers end at 2^63 - 1: what a damaged region claims beyond is cut. */
static inline long long berth_share_figure(uint64_t figure)
{
	return figure > INT64_MAX ? INT64_MAX : (long long)figure;
}

#endif
