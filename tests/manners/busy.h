/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that are in every hook without a pause: each does one kind of work on the GPU, and gives
 * back what it took. In a scene's body, after scene_start.
 */
#ifndef BERTH_TESTS_BUSY_H
#define BERTH_TESTS_BUSY_H

#include <stdbool.h>

/* Looks up what is needed beyond the scene's, and starts one thread a kind. 0 = well. */
int busy_start(void);
/* Each kind has been through its hooks `rounds` times more. False: one of them came to an end. */
bool busy_await(unsigned rounds);
/* Ends and joins them all. 0, or 1 if one of them met an answer that it shouldn't. */
int busy_end(void);

#endif
