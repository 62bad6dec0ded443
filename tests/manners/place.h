/* SPDX-License-Identifier: Apache-2.0
 *
 * Places for a region: the kinds of file system that treat locks and mappings differently. Mounts
 * are made in a mount namespace of the caller's own, so call it in a child of the test.
 */
#ifndef BERTH_TESTS_PLACE_H
#define BERTH_TESTS_PLACE_H

#include <limits.h>

enum place_kind { PLACE_DISK, PLACE_TMPFS, PLACE_OVERLAY, PLACE_COUNT };

const char *place_name(enum place_kind kind);

/* A mount namespace of this process's own, whose mounts nobody else sees. -1 where it's refused. */
int place_own_mounts(void);

/* Makes a writable directory of this kind at or below dir. 0, or -1 where mounts are not allowed
 * here. PLACE_DISK is dir itself, whatever that lies on. */
int place_make(enum place_kind kind, const char *dir, char ret_place[PATH_MAX]);

#endif
