/* SPDX-License-Identifier: Apache-2.0
 *
 * A crowd of processes that want one record lock, and a witness that does not know the lock: words in memory
 * that all share say who is inside. Members are seen waiting, told to leave, stopped and killed from outside,
 * and afterwards the crowd is judged: two were never inside, and no task of anybody's is left.
 *
 * A slot is one thread of one process; a plain member has one slot. Members are forked from whoever made the
 * crowd, which must be the program's only thread, and die with it. Nothing here is judged by speed: the one
 * limit on waits is the watchdog.
 */
#ifndef BERTH_TESTS_RACE_RECORDLOCK_CROWD_H
#define BERTH_TESTS_RACE_RECORDLOCK_CROWD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <berth/recordlock.h>

#include "base/attributes.h"

#define RLCROWD_WATCHDOG_MS 120000
/* For waits that should not end by their deadline: long after the watchdog's, so that nothing is well by itself. */
#define RLCROWD_WAIT_MS  600000
#define RLCROWD_FOR_EVER UINT32_MAX

enum rlcrowd_word { /* what a member that holds until told can be told */
		    RLCROWD_LEAVE = 1,
		    RLCROWD_FOREIGN_CLOSE, /* leave the witness, open and close the file, stay */
		    RLCROWD_CHECK,         /* write berth_recordlock_check's answer down */
		    RLCROWD_FORK_GIVES, /* a fork child gives the lock back and closes it: its business is not ours */
		    RLCROWD_FORK_SLEEPS, /* a fork child stays until it is killed */
		    /* To a member that waits, and can go: done by its other thread. */
		    RLCROWD_EXIT,
		    RLCROWD_EXEC,
};

struct rlcrowd_plan {
	uint32_t way; /* enum berth_recordlock_way */
	uint32_t flags;
	int64_t timeout_ms;
	uint32_t round_count; /* takes; RLCROWD_FOR_EVER: until rlcrowd_close */
	uint32_t hold_max_us; /* each hold lasts a random time up to this */
	bool hold_until_told; /* or until RLCROWD_LEAVE */
	bool can_go;          /* a thread more, which obeys EXIT and EXEC while the others wait */
	bool forks_all_the_time; /* a thread more: short-lived children beside the waits */
};

enum rlcrowd_state { RLCROWD_ABSENT, RLCROWD_BORN, RLCROWD_WAITING, RLCROWD_INSIDE, RLCROWD_DONE };

struct rlcrowd_member {
	_Atomic uint32_t state;
	_Atomic uint32_t doomed; /* set before its SIGKILL */
	_Atomic uint32_t word;   /* futex; enum rlcrowd_word, 0 when done */
	_Atomic uint32_t entered_count;
	_Atomic uint32_t timeout_count;
	_Atomic int64_t answer; /* of the last word */
	pid_t pid;              /* in its own namespace */
	pid_t outer_pid;        /* in the crowd maker's */
	int err;                /* the first thing that went wrong, time-outs excepted */
	char where[24];         /* what failed */
	struct berth_recordlock_owner owner; /* as told by the last time-out */
	uint64_t wait_ns;                    /* of the last take */
	uint64_t enter_ns, leave_ns;         /* of the last hold */
	struct berth_recordlock_trace trace; /* at the end */
};

struct rlcrowd_hall;

struct rlcrowd_process {
	pid_t pid;
	uint32_t first_slot, slot_count;
	struct rlcrowd_plan plan;
	bool boxed; /* pid is the keeper of a pid namespace */
	bool gone;
};

struct rlcrowd {
	char path[160];
	uint32_t slot_max;
	uint32_t process_count;
	struct rlcrowd_process *processes;
	struct rlcrowd_hall *hall;
	struct rlcrowd_member *members; /* shared */
	int proc_fd;                    /* the /proc of the crowd maker's pid namespace */
	char why[256];                  /* what went wrong */
};

/* On a new file in TMPDIR (default: /dev/shm), which the first opener makes. slot_max > 0. 0 or -errno. All others:
 * 0, or -errno with crowd->why. */
BERTH_MUST_CHECK int rlcrowd_make(struct rlcrowd *crowd, uint32_t slot_max);
/* Not if WAYS is in the environment and doesn't name it: "block", "poll", "bare", "auto", in any mix. */
bool rlcrowd_way_wanted(uint32_t way);
/* One process with thread_count slots from slot on, all on one lock. */
BERTH_MUST_CHECK int rlcrowd_start(struct rlcrowd *crowd, uint32_t slot, uint32_t thread_count,
				   const struct rlcrowd_plan *plan);
/* count processes in one new pid namespace, with a /proc of its own or not. -EPERM: may not be made here. */
BERTH_MUST_CHECK int rlcrowd_start_boxed(struct rlcrowd *crowd, uint32_t slot, uint32_t count,
					 bool own_proc, const struct rlcrowd_plan *plan);
/* Until each of these slots, of one thread each, is seen to wait: blockers in /proc/locks, by themselves or by a child;
 * pollers asleep between two tries. */
BERTH_MUST_CHECK int rlcrowd_await_waiting(struct rlcrowd *crowd, uint32_t slot, uint32_t count);
/* How many of these stand in the kernel's queue, as /proc/locks says, or -errno. */
int64_t rlcrowd_queued_count(struct rlcrowd *crowd, uint32_t slot, uint32_t count);
BERTH_MUST_CHECK int rlcrowd_await_state(struct rlcrowd *crowd, uint32_t slot,
					 enum rlcrowd_state state);
/* Until it has begun to take the lock. */
BERTH_MUST_CHECK int rlcrowd_await_started(struct rlcrowd *crowd, uint32_t slot);
BERTH_MUST_CHECK int rlcrowd_await_entries(struct rlcrowd *crowd, uint32_t slot, uint32_t count);
/* Tells and waits until it is done (LEAVE, EXIT, EXEC: only tells). */
BERTH_MUST_CHECK int rlcrowd_tell(struct rlcrowd *crowd, uint32_t slot, enum rlcrowd_word word);
void rlcrowd_kill(struct rlcrowd *crowd, uint32_t slot);
void rlcrowd_signal(struct rlcrowd *crowd, uint32_t slot, int signal);
/* 1 + the slot that is inside, 0 = nobody: already over when you read it. */
uint32_t rlcrowd_inside(const struct rlcrowd *crowd);
uint32_t rlcrowd_entry_count(const struct rlcrowd *crowd);
/* Endless rounds end. */
void rlcrowd_close(struct rlcrowd *crowd);
/* Waits for all, then for whatever they left behind. Judges: each that was not killed ended well, there were never
 * two inside, no child and no proxy is left, and the lock is free and can be taken. */
BERTH_MUST_CHECK int rlcrowd_judge(struct rlcrowd *crowd);
/* Kills what is left and frees everything; fine for a crowd that was never made. */
void rlcrowd_end(struct rlcrowd *crowd);

/* The pid that the kernel names as the lock's owner, 0 = nobody has it, or -errno. */
pid_t rlcrowd_kernel_owner(const struct rlcrowd *crowd);
uint64_t rlcrowd_random(uint64_t *state);

#endif
