/* SPDX-License-Identifier: Apache-2.0
 *
 * In which process we are. A fork child has copies of its parent's guards and holds, which are not its
 * own: record locks aren't inherited. A child begins a new epoch, with everything forgotten, in its fork
 * handler, or (it came by a bare clone) when it first asks here: one page reads as zeros in it.
 */
#ifndef BERTH_LOCK_EPOCH_H
#define BERTH_LOCK_EPOCH_H

#include <stdint.h>
#include <sys/types.h>

#include "base/attributes.h"

/* Before anything else of a lock. -ENOMEM. */
BERTH_MUST_CHECK int berth_lock_epoch_prepare(void);

/* Costs no system call. Changes in a fork child only. */
uint32_t berth_lock_epoch(void);

/* getpid without the system call. */
pid_t berth_lock_pid(void);

#endif
