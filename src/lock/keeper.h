/* SPDX-License-Identifier: Apache-2.0
 *
 * A keeper looks after a hold while it lasts: every 50 ms it asks whether the process still has the lock, and
 * takes it again where a foreign close has dropped it.
 */
#ifndef BERTH_LOCK_KEEPER_H
#define BERTH_LOCK_KEEPER_H

#include "base/attributes.h"
#include "lock/lockfile.h"

struct berth_keeper; /* a task of task.h */

/* -errno: there is none, the hold is as good as one without. */
BERTH_MUST_CHECK int berth_keeper_start(struct berth_lockbyte *byte,
					struct berth_keeper **ret_keeper);
/* Before the lock is given back, or the keeper would take it again. NULL is fine. */
void berth_keeper_stop(struct berth_keeper *keeper);

#endif
