/* SPDX-License-Identifier: Apache-2.0
 *
 * Emptying seats. Only for files of this room; the crash table is in recover.c.
 */
#ifndef BERTH_REGION_RECOVER_H
#define BERTH_REGION_RECOVER_H

#include "region/map.h"

/* Empties a seat. The caller holds its reap byte while the seat byte is free, or its seat byte. */
void berth_recover_empty(struct berth_region *region, uint32_t index);

/* Zeroes the figures that another implementation, or a monitor, left in a seat that is empty for us (an
 * even generation, no status): its next owner writes only those that change. The caller holds the
 * reap byte. */
void berth_recover_leftover(struct berth_region *region, uint32_t index);

/* Empties the seat if it is dead, with locks of the open file fd. 1, 0 or -errno as
 * berth_seat_reap; the caller is inside berth_lockbyte_enter. An asker may ignore the result: it
 * goes on without the dead whether they are emptied or not. */
int berth_recover_reap(struct berth_region *region, int fd, uint32_t index);

/* True if another implementation took the place: a status that none of our protocols wrote. */
bool berth_recover_foreign(const struct berth_region *region, uint32_t index);

#endif
