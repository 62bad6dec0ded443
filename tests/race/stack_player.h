/* SPDX-License-Identifier: Apache-2.0
 *
 * One player of the race through the whole stack (test_stack.c): a program under the preload, on the
 * simulated driver, whose threads allocate and free until no ask is left. What it shares with the
 * judge lies in one mapping, the hall.
 */
#ifndef BERTH_TESTS_RACE_STACK_PLAYER_H
#define BERTH_TESTS_RACE_STACK_PLAYER_H

#include <stdatomic.h>
#include <stdint.h>

enum { STACK_PROCESSES_MAX = 256, STACK_THREADS_MAX = 8, STACK_HELD_MAX = 4 };

struct stack_thread {
	/* Odd: in cuMemAlloc. Writer: the thread; the judge makes it even when it has died. */
	_Alignas(64) _Atomic uint64_t calls;
	_Atomic uint64_t granted_count;
	_Atomic uint64_t refused_count;
};

struct stack_hall {
	/* Set before the first player. */
	uint32_t thread_count;
	uint64_t ask_max_bytes;
	uint64_t unit_bytes; /* each size is a multiple of it */
	uint64_t seed;

	/* By place. The judge clears it when it has killed the player. */
	_Atomic uint32_t ready[STACK_PROCESSES_MAX]; /* has a context */
	_Atomic uint32_t done[STACK_PROCESSES_MAX];  /* holds nothing any more */
	_Atomic uint32_t open;                       /* the judge: begin */
	_Atomic int64_t asks_left;
	_Atomic uint32_t leave;    /* the judge: end */
	_Atomic uint32_t failures; /* answers that must not be */

	struct stack_thread threads[STACK_PROCESSES_MAX][STACK_THREADS_MAX];
};

/* The player's main: hall_fd holds a struct stack_hall; place: which of its threads are ours. */
int stack_player_run(int hall_fd, uint32_t place, uint64_t seed);

#endif
