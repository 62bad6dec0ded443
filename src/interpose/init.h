/* SPDX-License-Identifier: Apache-2.0
 *
 * The first cuInit decides about this process.
 */
#ifndef BERTH_INTERPOSE_INIT_H
#define BERTH_INTERPOSE_INIT_H

#include "account/account.h"

/* berth_account_attach with the driver's list of GPUs. */
enum berth_account_state berth_attach(void);

#endif
