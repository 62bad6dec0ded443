/* SPDX-License-Identifier: Apache-2.0
 *
 * The primary context of each GPU: made once and charged once, however often it is retained. Called
 * after the driver call succeeded. Thread-safe; calls no driver.
 */
#ifndef BERTH_ACCOUNT_PRIMARY_H
#define BERTH_ACCOUNT_PRIMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attributes.h"

/* Is it charged, or being charged by another thread? If so, a retain won't make it grow. */
bool berth_primary_charged(int gpu);

/* A retain went well. grown_bytes: what this one saw its GPU lose, 0 if it didn't look. Of threads that
 * retain at once, one made the context, and it may not be the first to be booked here: the first
 * that saw a growth is charged for it, the others are not. */
void berth_primary_retained(int gpu, uint64_t context, uint64_t grown_bytes);

/* Before a release or reset. */
uint64_t berth_primary_token(int gpu);
/* The driver says, after a release or reset, that the context is no longer active. true: it is gone,
 * its charge is given back and that of what was allocated in it, *ret_context tells which it was. false:
 * a retain came in between. */
BERTH_MUST_CHECK bool berth_primary_gone(int gpu, uint64_t token, uint64_t *ret_context);

/* In a fork child. */
void berth_primary_forget(void);

#endif
