/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that make or end a context on a GPU with a memory limit come one at a time, by GPU, from before the
 * driver's call until what it changed is booked: what a context takes is measured (growth.h), and a
 * look in the middle of another's call would charge one context twice or not at all.
 *
 * This is the one lock that is held across a driver call, and it serves to have these calls one at a time.
 * A wait for it is bounded: who has waited for 10 s goes on without, with a measurement that may be wrong.
 * A retain of a primary context that is charged already takes no turn.
 */
#ifndef BERTH_INTERPOSE_TURN_H
#define BERTH_INTERPOSE_TURN_H

#include <stdbool.h>

struct berth_turn {
	bool taken;
	int gpu;
};

/* Nothing on a GPU without a memory limit (or no GPU: negative), nor if the call turns out needless
 * meanwhile (NULL = it never is). The thread must not be cancelled before it gives the turn back. */
void berth_turn_take(int gpu, bool (*needless)(int gpu), struct berth_turn *ret_turn);
void berth_turn_give(const struct berth_turn *turn);

/* In a fork child. */
void berth_turn_forget(void);

#endif
