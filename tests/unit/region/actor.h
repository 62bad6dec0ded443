/* SPDX-License-Identifier: Apache-2.0
 *
 * Actors: processes in other namespaces, or of other users, that sit in a region and do what the test
 * tells them, one command at a time, through shared memory. Included after cmocka.h.
 */
#ifndef BERTH_TESTS_REGION_ACTOR_H
#define BERTH_TESTS_REGION_ACTOR_H

#include <stdint.h>

enum actor_command {
	ACTOR_NONE,
	ACTOR_ASK,    /* bytes: 0 or -errno */
	ACTOR_REFUND, /* bytes */
	ACTOR_ALIVE,  /* seat */
	ACTOR_REAP,   /* all dead seats: how many */
	ACTOR_CHARGED,
	ACTOR_DIE, /* by SIGKILL */
};

struct actor {
	_Atomic int ready; /* 1 = sits in a seat; else -errno */
	_Atomic int command;
	uint64_t argument;
	_Atomic int64_t result;
	uint32_t seat;
};

enum { ACTOR_MAX = 16 };

/* ACTOR_MAX actors in memory that children share, all zero. */
struct actor *actors_make(void);
void actors_free(struct actor *actors);

/* In the actor's process: joins, takes a seat, obeys. Returns an exit status. */
int actor_obey(struct actor *actor, const char *path);

/* In the test: fails it if the actor doesn't come to its seat, or doesn't answer. */
void actor_await(struct actor *actor);
int64_t actor_do(struct actor *actor, enum actor_command command, uint64_t argument);
void actor_die(struct actor *actor);

#endif
