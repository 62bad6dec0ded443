/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the shares that `berth run` makes live: <state>/shares/NAME/region.cache, one directory a
 * share (HAMi's monitor wants exactly one *.cache file in one).
 */
#ifndef BERTH_REGION_DIRECTORY_H
#define BERTH_REGION_DIRECTORY_H

#include <limits.h>
#include <stdbool.h>

#include "base/attributes.h"
#include "base/reason.h"
#include "region/region.h"

/* 1 to 63 of A-Z a-z 0-9 . _ - @ +, not starting with a dot. -EINVAL with the reason. */
BERTH_MUST_CHECK int berth_share_name_check(const char *name, struct berth_reason *reason);

/* Path of a share's region; its directory is made (0700) if make is true. */
BERTH_MUST_CHECK int berth_share_path(const char *name, bool make, char ret_path[PATH_MAX],
				      struct berth_reason *reason);

/* Calls visit for each share, in order of the names, until it returns non-zero; returns that. */
BERTH_MUST_CHECK int berth_share_each(int (*visit)(void *arg, const char *name, const char *path),
				      void *arg, struct berth_reason *reason);

/* Temporary files beside the region at path, whether it is there or not, whose makers are dead: removes
 * them if asked to, and tells found each one's name in that directory until it returns non-zero;
 * returns that. -errno if the directory can't be read. */
BERTH_MUST_CHECK int berth_share_leftovers(const char *path, bool remove,
					   int (*found)(void *arg, const char *name, bool removed),
					   void *arg);

/* A share that was made for one program only: removed when nobody sits in it any more. The program
 * is the maker (exec keeps pid and start time), so a share whose program hasn't come to its GPU
 * yet is not mistaken for a left-over. Returns how many were removed; what can't be is left for the
 * next sweep. */
unsigned berth_share_sweep(void);

#endif
