/* SPDX-License-Identifier: Apache-2.0
 *
 * The first cuInit decides about this process.
 */
#ifndef BERTH_INTERPOSE_INIT_H
#define BERTH_INTERPOSE_INIT_H

#include "account/account.h"
#include "base/log.h"

/* berth_account_attach with the driver's list of GPUs. */
enum berth_account_state berth_attach(void);

/* How loud it is that calls get past the hooks: an error, which is said by default, in a program that has a
 * limit; of no concern to others. Allocates nothing; usable from a look-up. */
enum berth_log_level berth_unlimited_level(void);

#endif
