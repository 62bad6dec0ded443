/* SPDX-License-Identifier: Apache-2.0
 *
 * Death and arrest at every step. A process is really killed (SIGKILL), and another time stopped
 * (SIGSTOP), at each crash point of the region in crash_points.def, while others of the share are
 * at work. Then: the others go on; the file's invariants hold; the next process gets its answer,
 * and after a death all that the dead had; a stopped process, continued, comes to its end; at last
 * nothing is charged. A point that is never reached fails: no step may be forgotten.
 *
 * PROCS=64 adds a round with that many others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crash_point.h"
#include "region/ledger.h"
#include "region/snapshot.h"

#define MIB         ((uint64_t)1 << 20)
#define LIMIT       (1024 * MIB)
#define ASK         (700 * MIB)
#define WAY         (400 * MIB) /* two leave the others room; no ASK fits beside one */
#define DEAD        (300 * MIB)
#define WATCHDOG_NS (30 * BERTH_NS_PER_S)

enum { OTHERS_MAX = 256, OTHER_ASKS = 50, LIVES_MAX = 50 };

/* The three ways to come to a crash point. */
enum scenario {
	SCENARIO_BIRTH, /* makes the region; the others come afterwards */
	SCENARIO_RENEW, /* raises the limit of an empty region; the others come afterwards */
	SCENARIO_LIFE,  /* a whole life among others, with asks in its way and a dead seat */
	SCENARIO_HEIR,  /* takes a dead process's seat */
};

static const struct {
	const char *name;
	const char *where;
} points[] = {
#define CRASH_POINT(name, where) { #name, where },
#include "base/crash_points.def"
#undef CRASH_POINT
};

/* Shared with all children. */
static struct board {
	_Atomic bool seated;  /* the victim has its seat */
	_Atomic bool staged;  /* two asks stand in its way */
	_Atomic bool granted; /* it has got what it asked for */
	_Atomic bool buried;  /* a dead process's bytes stand in its way */
	_Atomic bool ended;   /* the others may go home */
	_Atomic uint64_t asks[OTHERS_MAX];
} * board;

static struct {
	char dir[64];
	char path[128];
	enum berth_crash_point point;
	enum berth_crash_action action;
	unsigned nth;
	enum scenario scenario;
	uint32_t other_count;
	pid_t others[OTHERS_MAX];
	pid_t low;  /* stopped in an ask, in a lower seat than the victim */
	pid_t high; /* the same, in a higher one */
} run;

#define FAIL(...)                                                                           \
	do {                                                                                \
		print_error("at %s, %s, time %u, %u others:\n",                             \
			    berth_crash_point_names[run.point],                             \
			    run.action == BERTH_CRASH_KILL ? "killed" : "stopped", run.nth, \
			    run.other_count);                                               \
		fail_msg(__VA_ARGS__);                                                      \
	} while (0)

static struct berth_region_spec spec_of(uint64_t limit_bytes)
{
	struct berth_region_spec spec = { .share_name = "crash", .gpu_count = 2, .priority = 1 };

	memcpy(spec.gpus[0].uuid, "GPU-one", sizeof "GPU-one");
	memcpy(spec.gpus[1].uuid, "GPU-two", sizeof "GPU-two");
	spec.gpus[0].memory_limit_bytes = limit_bytes;
	return spec;
}

/* In children. 0, or a number that tells the parent what went wrong. */
static int enter(uint64_t limit_bytes, unsigned flags, struct berth_region **ret_region,
		 struct berth_seat **ret_seat)
{
	struct berth_region_spec spec = spec_of(limit_bytes);
	struct berth_reason reason = { "" };
	int r = berth_region_join(run.path, &spec, flags, ret_region, NULL, &reason);

	if (r == 0)
		r = berth_seat_claim(*ret_region, 0, ret_seat, NULL, &reason);
	if (r < 0)
		(void)fprintf(stderr, "crash: %s\n", reason.text);
	return r < 0 ? 10 : 0;
}

static void leave(struct berth_region *region, struct berth_seat *seat)
{
	berth_seat_leave(seat);
	berth_region_close(region);
}

static int ask(struct berth_seat *seat, uint64_t bytes)
{
	return berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, bytes);
}

static void wait_for(const _Atomic bool *flag)
{
	while (!atomic_load(flag))
		berth_sleep_ns(BERTH_NS_PER_MS / 10, UINT64_MAX);
}

static int other_run(uint32_t number)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	int r = enter(LIMIT, 0, &region, &seat);

	for (uint64_t i = 0; r == 0 && !atomic_load(&board->ended); i++) {
		uint64_t bytes = MIB / 16 + i % 7;

		if (ask(seat, bytes) < 0)
			r = 11; /* there is always room for this */
		else
			berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, bytes);
		atomic_fetch_add(&board->asks[number], 1);
		if (i % 16 == 0)
			berth_sleep_ns(BERTH_NS_PER_MS / 10, UINT64_MAX);
	}
	leave(region, seat);
	return r;
}

/* Stops in the middle of an ask; continued, it comes to its end. */
static int asker_run(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	int r = enter(LIMIT, 0, &region, &seat);

	if (r != 0)
		return r;
	berth_crash_arm(BERTH_CRASH_ledger_ask_announced, BERTH_CRASH_STOP, 1);
	if (ask(seat, WAY) == 0)
		berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, WAY);
	leave(region, seat);
	return 0;
}

static int dead_run(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	int r = enter(LIMIT, 0, &region, &seat);

	if (r == 0 && ask(seat, DEAD) < 0)
		r = 12;
	if (r == 0)
		(void)raise(SIGKILL);
	return r;
}

/* Every step of the protocol, once the stage is set. */
static int life_run(struct berth_region *region, struct berth_seat *seat)
{
	struct berth_snapshot *taken = NULL;
	int r = 0;

	atomic_store(&board->seated, true);
	wait_for(&board->staged);
	/* In the way: a lower and a higher seat's undecided ask, both stopped. */
	if (ask(seat, ASK) < 0)
		r = 13;
	atomic_store(&board->granted, true);
	wait_for(&board->buried);
	/* In the way: a dead process's bytes. */
	if (r == 0 && ask(seat, DEAD) < 0)
		r = 14;
	if (r == 0 && ask(seat, ASK) != -ENOMEM)
		r = 15;
	if (berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &taken) < 0)
		r = 16;
	berth_snapshot_free(taken);
	berth_ledger_charge(seat, 0, BERTH_CHARGE_CONTEXT, MIB);
	berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, ASK);
	berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, DEAD);
	berth_ledger_refund(seat, 0, BERTH_CHARGE_CONTEXT, MIB);
	return r;
}

static int victim_run(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	uint64_t limit_bytes = run.scenario == SCENARIO_RENEW ? 2 * LIMIT : LIMIT;
	unsigned flags = run.scenario == SCENARIO_RENEW ? BERTH_REGION_RENEW : 0;

	berth_crash_arm(run.point, run.action, run.nth);
	int r = enter(limit_bytes, flags, &region, &seat);
	if (r == 0 && run.scenario == SCENARIO_LIFE)
		r = life_run(region, seat);
	leave(region, seat);
	return r;
}

/* fork; the child doesn't outlive a test that failed. */
static pid_t fork_child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* can't fail */
	return pid;
}

static pid_t start(int (*body)(void))
{
	pid_t pid = fork_child();

	if (pid == 0)
		_exit(body());
	assert_true(pid > 0);
	return pid;
}

/* Waits for an end or a stop, under the watchdog. */
static int state_of(pid_t pid, const char *who)
{
	uint64_t deadline_ns = berth_deadline_after(WATCHDOG_NS);
	int status = 0;

	while (waitpid(pid, &status, WNOHANG | WUNTRACED) == 0) {
		if (berth_deadline_passed(deadline_ns)) {
			(void)kill(pid, SIGKILL);
			(void)waitpid(pid, NULL, 0);
			FAIL("%s never came to an end", who);
		}
		berth_sleep_ns(BERTH_NS_PER_MS / 20, UINT64_MAX);
	}
	return status;
}

static void end_well(pid_t pid, const char *who)
{
	int status = state_of(pid, who);

	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		FAIL("%s ended with status %#x", who, (unsigned)status);
}

static pid_t start_stopped_asker(void)
{
	pid_t pid = start(asker_run);

	if (!WIFSTOPPED(state_of(pid, "an asker")))
		FAIL("the asker didn't stop");
	return pid;
}

static void dead_make(void)
{
	int status = state_of(start(dead_run), "the dead");

	if (!WIFSIGNALED(status))
		FAIL("the dead one lives: %#x", (unsigned)status);
}

static void others_start(void)
{
	for (uint32_t i = 0; i < run.other_count; i++) {
		atomic_store(&board->asks[i], 0);
		pid_t pid = fork_child();
		if (pid == 0)
			_exit(other_run(i));
		run.others[i] = pid;
	}
}

/* Each of the others gets answers from now on. */
static void others_go_on(void)
{
	uint64_t deadline_ns = berth_deadline_after(WATCHDOG_NS);

	for (uint32_t i = 0; i < run.other_count; i++) {
		uint64_t before = atomic_load(&board->asks[i]);

		while (atomic_load(&board->asks[i]) < before + OTHER_ASKS) {
			if (berth_deadline_passed(deadline_ns))
				FAIL("other %u is held up", i);
			berth_sleep_ns(BERTH_NS_PER_MS / 20, UINT64_MAX);
		}
	}
}

static void others_end(void)
{
	atomic_store(&board->ended, true);
	for (uint32_t i = 0; i < run.other_count; i++)
		end_well(run.others[i], "an other");
}

/* True when the victim has raised the flag; false, with its state, if it ended or stopped
 * before. */
static bool victim_reaches(pid_t victim, const _Atomic bool *flag, int *ret_status)
{
	uint64_t deadline_ns = berth_deadline_after(WATCHDOG_NS);

	while (!atomic_load(flag)) {
		if (waitpid(victim, ret_status, WNOHANG | WUNTRACED) == victim)
			return false;
		if (berth_deadline_passed(deadline_ns))
			FAIL("the victim got no answer");
		berth_sleep_ns(BERTH_NS_PER_MS / 20, UINT64_MAX);
	}
	return true;
}

/* Sets what stands in the victim's way, step by step, until it ends or stops. */
static int victim_meet(pid_t victim)
{
	int status = 0;

	if (!victim_reaches(victim, &board->seated, &status))
		return status;
	run.high = start_stopped_asker();
	atomic_store(&board->staged, true);
	if (!victim_reaches(victim, &board->granted, &status))
		return status;
	dead_make();
	atomic_store(&board->buried, true);
	return state_of(victim, "the victim");
}

static void next_gets_its_answer(bool victim_charged)
{
	struct berth_region_spec spec = spec_of(LIMIT);
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	struct berth_reason reason = { "" };

	if (berth_region_join(run.path, &spec, 0, &region, NULL, &reason) < 0 ||
	    berth_seat_claim(region, 0, &seat, NULL, &reason) < 0)
		FAIL("the next can't come in: %s", reason.text);
	if (berth_region_check(region, &reason) < 0)
		FAIL("%s", reason.text);
	/* All but the others' small change is free, unless a stopped process keeps what it has: at
	 * most ASK + DEAD. */
	uint64_t bytes = victim_charged ? MIB : 900 * MIB;
	int r = ask(seat, bytes);
	if (r < 0)
		FAIL("the next was refused %llu MiB: %s", (unsigned long long)(bytes / MIB),
		     strerror(-r));
	if (ask(seat, LIMIT) != -ENOMEM)
		FAIL("the limit doesn't hold for the next");
	berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, bytes);
	if (berth_region_check(region, &reason) < 0)
		FAIL("%s", reason.text);
	leave(region, seat);
}

static void all_is_free(void)
{
	struct berth_region *region = NULL;
	struct berth_ledger_room room = { 0 };
	struct berth_reason reason = { "" };

	if (berth_region_join(run.path, NULL, 0, &region, NULL, &reason) < 0)
		FAIL("%s", reason.text);
	if (berth_ledger_room(region, 0, &room) < 0 || room.charged_bytes != 0)
		FAIL("%llu bytes stay charged", (unsigned long long)room.charged_bytes);
	if (berth_seat_reap_all(region) < 0)
		FAIL("the dead can't be reaped");
	if (berth_region_check(region, &reason) < 0)
		FAIL("%s", reason.text);
	struct berth_snapshot *taken = NULL;
	if (berth_snapshot_take(region, 0, &taken) < 0 || taken->seat_count != 0)
		FAIL("a seat is left over");
	if (taken->anomaly_count != 0)
		FAIL("a figure had to be clamped");
	berth_snapshot_free(taken);
	berth_region_close(region);
}

static void stage_before(void)
{
	struct berth_region_spec spec = spec_of(LIMIT);
	struct berth_region *region = NULL;

	run.low = 0;
	run.high = 0;
	memset(board, 0, sizeof *board);
	if (run.scenario == SCENARIO_BIRTH)
		return;
	if (berth_region_join(run.path, &spec, 0, &region, NULL, NULL) < 0)
		FAIL("no region");
	berth_region_close(region);
	if (run.scenario == SCENARIO_RENEW)
		return;
	others_start();
	others_go_on(); /* all seated, so lower than who comes now */
	if (run.scenario == SCENARIO_LIFE)
		run.low = start_stopped_asker();
	else
		dead_make();
}

static void asker_continue(pid_t pid)
{
	if (pid == 0)
		return;
	(void)kill(pid, SIGCONT);
	end_well(pid, "a continued asker");
}

/* True if the point was reached. */
static bool play(void)
{
	stage_before();
	pid_t victim = start(victim_run);
	int status = run.scenario == SCENARIO_LIFE ? victim_meet(victim)
						   : state_of(victim, "the victim");
	bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	bool stopped = WIFSTOPPED(status);

	if (!killed && !stopped && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
		FAIL("the victim ended with status %#x", (unsigned)status);
	if (run.scenario == SCENARIO_BIRTH || run.scenario == SCENARIO_RENEW)
		others_start();
	others_go_on();
	next_gets_its_answer(stopped && run.scenario == SCENARIO_LIFE);
	if (stopped) {
		(void)kill(victim, SIGCONT);
		atomic_store(&board->staged, true);
		atomic_store(&board->buried, true);
		end_well(victim, "the continued victim");
	}
	asker_continue(run.low);
	asker_continue(run.high);
	others_end();
	all_is_free();
	assert_int_equal(unlink(run.path), 0);
	return killed || stopped;
}

static bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static enum scenario scenario_of(const char *name)
{
	if (starts_with(name, "birth_"))
		return SCENARIO_BIRTH;
	return starts_with(name, "renew_") ? SCENARIO_RENEW : SCENARIO_LIFE;
}

static void play_with(uint32_t other_count)
{
	const char *name = berth_crash_point_names[run.point];

	run.other_count = other_count;
	run.scenario = scenario_of(name);
	run.nth = 1;
	bool reached = play();
	/* The others may clear away what stood in the victim's way: then it isn't met in this
	 * life. */
	for (int life = 1; !reached && life < LIVES_MAX; life++)
		reached = play();
	if (!reached)
		FAIL("never reached");
	/* In other places of a life: reached or not. */
	for (run.nth = 2; run.nth <= 3; run.nth++)
		(void)play();
	if (starts_with(name, "seat_") || starts_with(name, "reap_")) {
		run.scenario = SCENARIO_HEIR;
		run.nth = 1;
		(void)play();
	}
}

static void test_point(void **state)
{
	static const enum berth_crash_action actions[] = { BERTH_CRASH_KILL, BERTH_CRASH_STOP };
	const char *procs = getenv("PROCS");
	long more = procs ? strtol(procs, NULL, 10) : 0;

	run.point = (enum berth_crash_point)(uintptr_t)*state;
	for (size_t i = 0; i < 2; i++) {
		run.action = actions[i];
		play_with(1);
		play_with(8);
		if (more > 8)
			play_with(more < OTHERS_MAX ? (uint32_t)more : OTHERS_MAX);
	}
}

static int setup(void **state)
{
	(void)state;
	(void)snprintf(run.dir, sizeof run.dir, "%s/berth-crash-XXXXXX",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (board == MAP_FAILED || !mkdtemp(run.dir))
		return -1;
	(void)snprintf(run.path, sizeof run.path, "%s/region.cache", run.dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)unlink(run.path); /* there only after a failure */
	return rmdir(run.dir);
}

/* A point's name, or a pattern, as the only argument: just these. */
int main(int argc, char **argv)
{
	struct CMUnitTest tests[BERTH_CRASH_COUNT];
	size_t count = 0;

	for (uintptr_t i = 0; i < BERTH_CRASH_COUNT; i++) {
		if (!starts_with(points[i].where, "region/"))
			continue; /* another room's, walked by its own suite */
		tests[count++] = (struct CMUnitTest){
			.name = points[i].name,
			.test_func = test_point,
			.initial_state = (void *)i,
		};
	}
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return _cmocka_run_group_tests("crash", tests, count, setup, teardown);
}
