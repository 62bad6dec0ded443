/* SPDX-License-Identifier: Apache-2.0
 *
 * Making a region's file. Only for files of this room.
 */
#ifndef BERTH_REGION_BIRTH_H
#define BERTH_REGION_BIRTH_H

#include <stdbool.h>

#include "region/region.h"

/* Makes the file, whole, under its name. -EEXIST: another was first; its file is untouched. named:
 * as where the file system has no nameless files. */
BERTH_MUST_CHECK int berth_birth_make(const char *path, const struct berth_region_spec *spec,
				      bool named, struct berth_reason *reason);

/* The temporary files beside the region at path whose makers are dead: removes them if asked to, and
 * tells found each one's name in that directory (removed: it is gone) until it returns non-zero;
 * returns that. -errno if the directory can't be read. found may be NULL. */
BERTH_MUST_CHECK int berth_birth_orphans(const char *path, bool remove,
					 int (*found)(void *arg, const char *name, bool removed),
					 void *arg);

#endif
