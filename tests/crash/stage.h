/* SPDX-License-Identifier: Apache-2.0
 *
 * The stage of the crash suites: a region in a directory of its own, a board that all processes
 * share, the others who are at work, the dead, and the next who comes. A suite brings the victim,
 * and walks its own crash points (stage_main); no point belongs to none.
 *
 * PROCS=N adds a round with N others beside those with 1, 8 and 64.
 */
#ifndef BERTH_TESTS_CRASH_STAGE_H
#define BERTH_TESTS_CRASH_STAGE_H

/* Before cmocka.h, which wants them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/crash_point.h"
#include "region/ledger.h"

#define MIB         ((uint64_t)1 << 20)
#define LIMIT       (1024 * MIB)
#define WATCHDOG_NS (30 * BERTH_NS_PER_S)

enum { OTHERS_MAX = 256 };

/* Shared with all children; zeroed before each play. */
struct board {
	_Atomic bool seated;  /* the victim has its seat */
	_Atomic bool staged;  /* what stands in its way is there */
	_Atomic bool granted; /* it has got what it asked for */
	_Atomic bool buried;  /* a dead process's bytes stand in its way */
	_Atomic bool ended;   /* all may go home */
	_Atomic uint32_t count;
	_Atomic uint64_t asks[OTHERS_MAX]; /* the others' so far */
};

struct stage {
	struct board *board;
	char dir[64];
	char path[128];
	enum berth_crash_point point;
	enum berth_crash_action action;
	unsigned nth;
	uint32_t other_count;
	uint64_t brought_bytes; /* the limit that the others and the next bring along, 0 = none */
	bool may_be_refused;    /* the others' small asks: the limit is being lowered */
	pid_t others[OTHERS_MAX];
};
extern struct stage stage;

#define FAIL(...)                                                                               \
	do {                                                                                    \
		print_error("at %s, %s, time %u, %u others:\n",                                 \
			    berth_crash_point_names[stage.point],                               \
			    stage.action == BERTH_CRASH_KILL ? "killed" : "stopped", stage.nth, \
			    stage.other_count);                                                 \
		fail_msg(__VA_ARGS__);                                                          \
	} while (0)

/* cmocka's group set-up and tear-down. */
int stage_setup(void **state);
int stage_teardown(void **state);
/* A play begins with a clean board and LIMIT brought. */
void stage_clear(void);

/* Two GPUs; the first has this limit. */
struct berth_region_spec stage_spec(uint64_t limit_bytes);
/* Makes the region, or finds it, without sitting down. */
void stage_region_make(void);

/* In children. 0, or a number that tells the parent what went wrong. */
int stage_enter(uint64_t limit_bytes, unsigned flags, struct berth_region **ret_region,
		struct berth_seat **ret_seat);
void stage_leave(struct berth_region *region, struct berth_seat *seat);
int stage_ask(struct berth_seat *seat, uint64_t bytes);
void stage_refund(struct berth_seat *seat, uint64_t bytes);
void stage_wait_for(const _Atomic bool *flag);

/* fork; the child doesn't outlive a test that failed. */
pid_t stage_fork(void);
/* A child that runs the body and exits with what it returns. */
pid_t stage_start(int (*body)(void));
/* Waits for its end or stop, as waitpid tells it, under the watchdog. */
int stage_state_of(pid_t pid, const char *who);
void stage_end_well(pid_t pid, const char *who);
/* Starts it and waits until it has stopped. */
pid_t stage_start_stopped(int (*body)(void), const char *who);
void stage_continue(pid_t pid, const char *who);
/* True when the child has raised the flag; false, with its state, if it ended or stopped before. */
bool stage_reaches(pid_t pid, const _Atomic bool *flag, int *ret_status);
/* True if the status is that of a process which the crash point killed or stopped; fails the test
 * if it ended in any way but well. */
bool stage_was_hit(int status);

/* In a child: what it was armed with is over; continued after its stop it is armed with this. */
void stage_rearm_on_continue(enum berth_crash_point point, enum berth_crash_action action);

/* The others: each asks for a little and gives it back, for ever. */
void stage_others_start(void);
/* Each of them gets answers from now on. */
void stage_others_go_on(void);
void stage_others_end(void);

/* A process that comes, is granted bytes, is refused more than the limit, looks around and leaves;
 * the invariants hold before and after. */
void stage_next_gets(uint64_t bytes);
/* The last have left: the region counts zero. */
void stage_all_is_free(void);

/* The longest that a next one waited for one answer, so far. Only for people. */
void stage_print_slowest(void);

/* One cmocka test for each crash point that the suite named `where` has to walk. Arguments:
 * patterns of points' names; none = all. */
int stage_main(int argc, char **argv, const char *where, CMUnitTestFunction play);
/* For each action, with 1, 8 and 64 others, and PROCS. */
void stage_rounds(void **state, void (*play)(void));

#endif
