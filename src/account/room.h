/* SPDX-License-Identifier: Apache-2.0
 *
 * What the share has on a GPU, for programs that look, with a seat or without: a monitor that never
 * calls cuInit gets no seat. Calls no driver, keeps errno.
 */
#ifndef BERTH_ACCOUNT_ROOM_H
#define BERTH_ACCOUNT_ROOM_H

#include <stdint.h>

#include "base/attributes.h"
#include "region/ledger.h"

/* 0 = *ret_room is filled; limit 0 = none, or not a GPU of the share: show the driver's own figures.
 * Without a seat the region is opened for reading; while it isn't there yet, the limit comes from
 * the configuration, with nothing charged. -errno: a configuration that can't be enforced. */
BERTH_MUST_CHECK int berth_account_room(const char *uuid, uint32_t nvml_index,
					struct berth_ledger_room *ret_room);

/* In a fork child. */
void berth_account_room_forget(void);

#endif
