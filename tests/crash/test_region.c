/* SPDX-License-Identifier: Apache-2.0
 *
 * Death and arrest at every step of a life. A process is really killed (SIGKILL), and another time
 * stopped (SIGSTOP), at each crash point of seats, clean-up, ledger, mirror and snapshots, while
 * 1, 8 and 64 others of the share are at work. Then: the others go on; the file's invariants hold;
 * the next process gets its answers, and after a death all that the dead had; a stopped process,
 * continued, comes to its end; at last nothing is charged. A point that is never reached fails: no
 * step may be forgotten. (Births, limits and the account are walked by their own suites.)
 *
 * With 1 and 8 others the second and third time that a point is reached are played too.
 */
#include "stage.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "region/snapshot.h"

#define ASK  (700 * MIB)
#define WAY  (400 * MIB) /* two leave the others room; no ASK fits beside one */
#define DEAD (300 * MIB)

enum { LIVES_MAX = 50, NTH_MAX = 3, CROWD = 64 };

static struct {
	bool heir;  /* the victim only takes a dead process's seat and leaves */
	pid_t low;  /* stopped in an ask, in a lower seat than the victim */
	pid_t high; /* the same, in a higher one */
} cast;

/* Stops in the middle of an ask; continued, it comes to its end. */
static int asker_run(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	int r = stage_enter(LIMIT, 0, &region, &seat);

	if (r != 0)
		return r;
	berth_crash_arm(BERTH_CRASH_ledger_ask_announced, BERTH_CRASH_STOP, 1);
	if (stage_ask(seat, WAY) == 0)
		stage_refund(seat, WAY);
	stage_leave(region, seat);
	return 0;
}

static int dead_run(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	int r = stage_enter(LIMIT, 0, &region, &seat);

	if (r == 0 && stage_ask(seat, DEAD) < 0)
		r = 12;
	if (r == 0)
		(void)raise(SIGKILL);
	return r;
}

static void dead_make(void)
{
	int status = stage_state_of(stage_start(dead_run), "the dead");

	if (!WIFSIGNALED(status))
		FAIL("the dead one lives: %#x", (unsigned)status);
}

/* Every step of the protocol, once the stage is set. */
static int life_run(struct berth_region *region, struct berth_seat *seat)
{
	struct berth_snapshot *taken = NULL;
	int r = 0;

	atomic_store(&stage.board->seated, true);
	stage_wait_for(&stage.board->staged);
	/* In the way: a lower and a higher seat's undecided ask, both stopped. */
	if (stage_ask(seat, ASK) < 0)
		r = 13;
	atomic_store(&stage.board->granted, true);
	stage_wait_for(&stage.board->buried);
	/* In the way: a dead process's bytes. */
	if (r == 0 && stage_ask(seat, DEAD) < 0)
		r = 14;
	if (r == 0 && stage_ask(seat, ASK) != -ENOMEM)
		r = 15;
	if (berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &taken) < 0)
		r = 16;
	berth_snapshot_free(taken);
	berth_ledger_charge(seat, 0, BERTH_CHARGE_CONTEXT, MIB);
	stage_refund(seat, ASK);
	stage_refund(seat, DEAD);
	berth_ledger_refund(seat, 0, BERTH_CHARGE_CONTEXT, MIB);
	return r;
}

static int victim_run(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	berth_crash_arm(stage.point, stage.action, stage.nth);
	int r = stage_enter(LIMIT, 0, &region, &seat);
	if (r == 0 && !cast.heir)
		r = life_run(region, seat);
	stage_leave(region, seat);
	return r;
}

/* Sets what stands in the victim's way, step by step, until it ends or stops. */
static int victim_meet(pid_t victim)
{
	int status = 0;

	if (!stage_reaches(victim, &stage.board->seated, &status))
		return status;
	cast.high = stage_start_stopped(asker_run, "the higher asker");
	atomic_store(&stage.board->staged, true);
	if (!stage_reaches(victim, &stage.board->granted, &status))
		return status;
	dead_make();
	atomic_store(&stage.board->buried, true);
	return stage_state_of(victim, "the victim");
}

static void stage_before(void)
{
	cast.low = 0;
	cast.high = 0;
	stage_clear();
	stage_region_make();
	stage_others_start();
	stage_others_go_on(); /* all seated, so lower than who comes now */
	if (cast.heir)
		dead_make();
	else
		cast.low = stage_start_stopped(asker_run, "the lower asker");
}

/* True if the point was reached. */
static bool play(void)
{
	stage_before();
	pid_t victim = stage_start(victim_run);
	int status = cast.heir ? stage_state_of(victim, "the victim") : victim_meet(victim);
	bool hit = stage_was_hit(status);
	bool stopped = WIFSTOPPED(status);

	stage_others_go_on();
	/* All but the others' small change is free, unless a stopped process keeps what it has: at
	 * most ASK + DEAD. */
	stage_next_gets(stopped && !cast.heir ? MIB : 900 * MIB);
	if (stopped) {
		atomic_store(&stage.board->staged, true);
		atomic_store(&stage.board->buried, true);
		stage_continue(victim, "the continued victim");
	}
	stage_continue(cast.low, "the lower asker, continued,");
	stage_continue(cast.high, "the higher asker, continued,");
	stage_others_end();
	stage_all_is_free();
	return hit;
}

static bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static void play_all(void)
{
	const char *name = berth_crash_point_names[stage.point];
	bool reached = false;

	cast.heir = false;
	stage.nth = 1;
	/* The others may clear away what stood in the victim's way: then it isn't met in this
	 * life. */
	for (int life = 0; !reached && life < LIVES_MAX; life++)
		reached = play();
	if (!reached)
		FAIL("never reached");
	if (stage.other_count >= CROWD)
		return;
	/* In other places of a life: reached or not. */
	for (stage.nth = 2; stage.nth <= NTH_MAX; stage.nth++)
		(void)play();
	if (starts_with(name, "seat_") || starts_with(name, "reap_")) {
		cast.heir = true;
		stage.nth = 1;
		(void)play();
	}
}

static void test_point(void **state)
{
	stage_rounds(state, play_all);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv, "region", test_point);
}
