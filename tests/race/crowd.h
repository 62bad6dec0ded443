/* SPDX-License-Identifier: Apache-2.0
 *
 * A crowd: many processes that do something at the same moment, step by step. Between two steps all
 * of them sleep in the kernel; a step begins for all with one wake-up and ends when the last one is
 * done. Each member's time for the step is measured around exactly its act.
 *
 * Members are forked from whoever gathers the crowd, so keep that process small. They die with it.
 */
#ifndef BERTH_TESTS_RACE_CROWD_H
#define BERTH_TESTS_RACE_CROWD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attributes.h"
#include "base/reason.h"

struct crowd_member {
	int err; /* 0 or what the latest act returned */
	struct berth_reason reason;
	uint64_t wall_ns;  /* of the latest act */
	uint64_t cpu_ns;   /* of the latest act: without the time that others ran */
	uint64_t end_ns;   /* CLOCK_MONOTONIC at its end */
	uint32_t count[4]; /* for the act's own use */
};

/* In the member's process. Step 1 is the first one. What a member keeps between steps it keeps in
 * static variables, which are its own after the fork. */
typedef int (*crowd_act_fn)(void *arg, unsigned step, struct crowd_member *self);

struct crowd_hall;

struct crowd {
	uint32_t count;
	pid_t *pids;
	struct crowd_hall *hall;
	struct crowd_member *members; /* shared; read them between two steps */
};

/* Forks `count` members and waits until all are there. 0 or -errno. */
BERTH_MUST_CHECK int crowd_gather(struct crowd *crowd, uint32_t count, crowd_act_fn act, void *arg);

/* Lets all members take their next step at once, and waits for the last. 0, -ECHILD: a member ended
 * in it, or the first member's error, with its reason. */
BERTH_MUST_CHECK int crowd_step(struct crowd *crowd, struct berth_reason *reason);

/* The same in two halves, for who has something to do while the members are at it. A member that ends
 * meanwhile, or any other child of this process, fails the second half. */
void crowd_step_begin(struct crowd *crowd);
BERTH_MUST_CHECK int crowd_step_end(struct crowd *crowd, struct berth_reason *reason);

enum crowd_end {
	CROWD_GOES,   /* each calls exit(), as a program that is done does */
	CROWD_KILLED, /* SIGKILL for each before the first is waited for */
};

/* Ends all members and frees what the crowd has. The time at which the last one's death was seen. A
 * crowd that was never gathered is fine: 0. */
uint64_t crowd_end(struct crowd *crowd, enum crowd_end end);

#endif
