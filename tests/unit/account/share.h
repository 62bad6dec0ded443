/* SPDX-License-Identifier: Apache-2.0
 *
 * A share for a test: a scratch state directory and made-up GPUs; a test's body runs in a child, so
 * the account's once-a-process decision is fresh each time.
 */
#ifndef BERTH_TESTS_ACCOUNT_SHARE_H
#define BERTH_TESTS_ACCOUNT_SHARE_H

#include <stdint.h>

#include "account/account.h"
#include "child.h"

#define MIB (1ULL << 20)

extern const char share_uuid0[];
extern const char share_uuid1[];

/* Two GPUs, share_uuid0 and share_uuid1. */
int share_list(struct berth_account_gpus *ret_gpus, struct berth_reason *reason);
/* How often it was called. */
extern int share_list_count;

/* A fresh directory in BERTH_STATE_DIR and no other variable of ours. cmocka setup and teardown. */
int share_setup(void **state);
int share_teardown(void **state);

/* Runs body in a child that is attached with this limit ("" = don't set one); fails the test unless
 * it returns 0. */
void share_run(const char *limit, int (*body)(void));

/* In a child: bytes charged on a GPU by the whole share. */
uint64_t share_charged(int gpu);

#endif
