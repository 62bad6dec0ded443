/* SPDX-License-Identifier: Apache-2.0
 *
 * All the other ways to go: each catchable signal by its default action, a real bad access, abort,
 * exit, a program's own handler that exits or jumps away, exec, and a whole pid namespace. In a
 * process that holds memory, and in one in the middle of an ask; eight others are at work. What it
 * had is free at once, the next ask is granted, the invariants hold, and at the end nothing is
 * charged.
 */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELD  (700 * MIB)
#define ASKED (200 * MIB)

enum { OTHER_COUNT = 8, MEMBER_COUNT = 8 };

/* In the middle of an ask: nothing is granted yet; granted, but the mirror is behind; half
 * written. */
static const enum berth_crash_point middles[] = {
	BERTH_CRASH_ledger_ask_announced,
	BERTH_CRASH_ledger_ask_granted,
	BERTH_CRASH_mirror_half_written,
};

enum { MIDDLE_COUNT = sizeof middles / sizeof middles[0] };

static void access_nothing(void)
{
	volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*page = 1;
}

/* A page of a file that was cut short. */
static void access_beyond_end(void)
{
	int fd = memfd_create("cut", MFD_CLOEXEC);
	volatile char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	*page = 1;
}

static void exit_tidily(void)
{
	exit(0);
}

static void exit_at_once(void)
{
	_exit(0);
}

/* By what it does itself, or by a signal from outside. */
static const struct death {
	const char *name;
	int signal; /* it ends by; 0 = it exits with 0 */
	void (*act)(void);
} deaths[] = {
	{ "TERM", SIGTERM, NULL },
	{ "INT", SIGINT, NULL },
	{ "HUP", SIGHUP, NULL },
	{ "QUIT", SIGQUIT, NULL },
	{ "ABRT", SIGABRT, NULL },
	{ "SEGV", SIGSEGV, NULL },
	{ "BUS", SIGBUS, NULL },
	{ "a bad access", SIGSEGV, access_nothing },
	{ "an access beyond a file's end", SIGBUS, access_beyond_end },
	{ "abort", SIGABRT, abort },
	{ "exit", 0, exit_tidily },
	{ "_exit", 0, exit_at_once },
};

enum { DEATH_COUNT = sizeof deaths / sizeof deaths[0] };

static struct {
	const struct death *death;
	bool middle; /* stopped in an ask at stage.point; else holds and waits */
	sigjmp_buf away;
	int input[2];
	int output[2];
} scene;

static void continued(int signal)
{
	(void)signal;
	scene.death->act();
}

/* Default actions, whatever a sanitizer made of them, and no cores left about. */
static void defaults_take(void)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS };
	const struct rlimit none = { 0, 0 };

	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
		(void)signal(signals[i], SIG_DFL); /* can't fail */
	(void)setrlimit(RLIMIT_CORE, &none);       /* lowering can't fail */
}

/* Comes, is granted HELD, and is where it shall die: stopped in the middle of another ask, or
 * waiting. */
static int victim_run(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	int r = stage_enter(LIMIT, 0, &region, &seat);

	defaults_take();
	if (r == 0 && stage_ask(seat, HELD) < 0)
		r = 51;
	if (r != 0)
		return r;
	if (scene.middle) {
		if (scene.death->act)
			(void)signal(SIGCONT, continued); /* can't fail */
		berth_crash_arm(stage.point, BERTH_CRASH_STOP, 1);
		(void)stage_ask(seat, ASKED); /* it never comes back */
		return 52;
	}
	atomic_store(&stage.board->seated, true);
	if (scene.death->act) {
		stage_wait_for(&stage.board->staged);
		scene.death->act();
	}
	(void)pause();
	return 53;
}

static pid_t victim_start(void)
{
	int status = 0;

	if (scene.middle)
		return stage_start_stopped(victim_run, "the victim");
	pid_t pid = stage_start(victim_run);
	if (!stage_reaches(pid, &stage.board->seated, &status))
		FAIL("%s: ended with %#x too early", scene.death->name, (unsigned)status);
	return pid;
}

static void victim_dies(pid_t victim)
{
	if (!scene.death->act)
		(void)kill(victim, scene.death->signal);
	atomic_store(&stage.board->staged, true);
	(void)kill(victim, SIGCONT);
	int status = stage_state_of(victim, "the victim");
	if (scene.death->signal ? !WIFSIGNALED(status) || WTERMSIG(status) != scene.death->signal
				: status != 0)
		FAIL("%s: ended with %#x", scene.death->name, (unsigned)status);
}

static void open_stage(void)
{
	stage_clear();
	stage.other_count = OTHER_COUNT;
	stage_region_make();
	stage_others_start();
	stage_others_go_on();
}

static void close_stage(void)
{
	stage_others_go_on();
	stage_others_end();
	stage_all_is_free();
}

static void death_play(void)
{
	open_stage();
	victim_dies(victim_start());
	stage_next_gets(900 * MIB);
	close_stage();
}

static void test_death(void **state)
{
	scene.death = &deaths[(uintptr_t)*state];
	scene.middle = false;
	death_play();
	scene.middle = true;
	for (size_t i = 0; i < MIDDLE_COUNT; i++) {
		stage.point = middles[i];
		death_play();
	}
}

static void jump(int signal)
{
	(void)signal;
	siglongjmp(scene.away, 1);
}

/* A handler that never comes back to the ask. The program must not ask again (its own lock is held
 * for ever, as malloc's would be), but it lives on. */
static int jumper_run(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	int r = stage_enter(LIMIT, 0, &region, &seat);

	if (r == 0 && sigsetjmp(scene.away, 1) == 0) {
		(void)signal(SIGCONT, jump); /* can't fail */
		berth_crash_arm(stage.point, BERTH_CRASH_STOP, 1);
		(void)stage_ask(seat, HELD); /* it never comes back */
		return 54;
	}
	atomic_store(&stage.board->seated, true);
	stage_wait_for(&stage.board->staged);
	exit(r);
}

static void test_handler_jumps_away(void **state)
{
	int status = 0;

	(void)state;
	for (size_t i = 0; i < MIDDLE_COUNT; i++) {
		bool granted = middles[i] != BERTH_CRASH_ledger_ask_announced;

		stage.point = middles[i];
		open_stage();
		pid_t victim = stage_start_stopped(jumper_run, "the jumper");
		(void)kill(victim, SIGCONT);
		if (!stage_reaches(victim, &stage.board->seated, &status))
			FAIL("the jumper ended: %#x", (unsigned)status);
		stage_others_go_on();
		stage_next_gets(granted ? LIMIT - HELD - 64 * MIB : 900 * MIB);
		atomic_store(&stage.board->staged, true);
		stage_end_well(victim, "the jumper");
		stage_next_gets(900 * MIB);
		close_stage();
	}
}

static void become_another(void)
{
	static char name[] = "cat";
	char *const argv[] = { name, NULL };

	if (dup2(scene.input[0], STDIN_FILENO) == STDIN_FILENO &&
	    dup2(scene.output[1], STDOUT_FILENO) == STDOUT_FILENO)
		(void)execv("/bin/cat", argv); /* returns only if it failed */
	_exit(55);
}

static const struct death another = { "exec", 0, become_another };

/* Another program in the same process: it has nothing of what the first one had. It runs when it
 * has echoed a byte; the descriptors that exec closes may be closed a moment before the memory, and
 * with it the lock, is gone. */
static void exec_play(void)
{
	char byte = 'x';

	assert_int_equal(pipe2(scene.input, O_CLOEXEC), 0);
	assert_int_equal(pipe2(scene.output, O_CLOEXEC), 0);
	open_stage();
	pid_t victim = victim_start();
	atomic_store(&stage.board->staged, true);
	(void)kill(victim, SIGCONT);
	assert_int_equal(write(scene.input[1], &byte, 1), 1);
	assert_int_equal(read(scene.output[0], &byte, 1), 1);
	stage_next_gets(900 * MIB);
	assert_int_equal(waitpid(victim, NULL, WNOHANG), 0); /* it lives */
	stage_others_go_on();
	stage_others_end(); /* they have copies of its input's other end */
	assert_int_equal(close(scene.input[1]), 0);
	stage_end_well(victim, "the other program");
	assert_int_equal(close(scene.input[0]), 0);
	assert_int_equal(close(scene.output[0]), 0);
	assert_int_equal(close(scene.output[1]), 0);
	stage_all_is_free();
}

static void test_exec(void **state)
{
	(void)state;
	scene.death = &another;
	scene.middle = false;
	exec_play();
	scene.middle = true;
	for (size_t i = 0; i < MIDDLE_COUNT; i++) {
		stage.point = middles[i];
		exec_play();
	}
}

/* In the namespace: half of the members hold, the others ask and give back for ever; two of those
 * are stopped in an ask. */
static int member_run(int number)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	int r = stage_enter(LIMIT, 0, &region, &seat);

	if (r != 0)
		return r;
	if (number % 2 == 0) {
		if (stage_ask(seat, HELD / MEMBER_COUNT) < 0)
			return 56;
		atomic_fetch_add(&stage.board->count, 1);
		(void)pause();
		return 57;
	}
	for (int i = 0;; i++) {
		if (i == 50) {
			atomic_fetch_add(&stage.board->count, 1);
			if (number < 4)
				berth_crash_arm(stage.point, BERTH_CRASH_STOP, 1);
		}
		if (stage_ask(seat, MIB) < 0)
			return 58;
		stage_refund(seat, MIB);
	}
}

/* pid 1 of the namespace: when it dies, the kernel kills the rest. */
static int init_run(void)
{
	for (int i = 0; i < MEMBER_COUNT; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(member_run(i));
		if (pid < 0)
			return 59;
	}
	/* A member that ends has failed. */
	(void)waitpid(-1, NULL, 0);
	return 60;
}

/* Stays outside the namespace: its child is that one's init. */
static int keeper_run(void)
{
	int status = 0;

	if (unshare(CLONE_NEWPID) < 0)
		return errno == EPERM ? 77 : 61;
	pid_t init = fork();
	if (init == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* can't fail */
		_exit(init_run());
	}
	stage_wait_for(&stage.board->staged);
	if (init < 0 || kill(init, SIGKILL) < 0)
		return 62;
	if (waitpid(init, &status, 0) != init || !WIFSIGNALED(status))
		return 63;
	return 0;
}

static void namespace_play(void)
{
	uint64_t deadline_ns = berth_deadline_after(WATCHDOG_NS);
	int status = 0;

	open_stage();
	pid_t keeper = stage_start(keeper_run);
	while (atomic_load(&stage.board->count) < MEMBER_COUNT) {
		if (waitpid(keeper, &status, WNOHANG) == keeper) {
			stage_others_end();
			(void)unlink(stage.path); /* ours */
			if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
				skip();
			FAIL("the keeper ended: %#x", (unsigned)status);
		}
		if (berth_deadline_passed(deadline_ns))
			FAIL("the members don't work");
		berth_sleep_ns(BERTH_NS_PER_MS, UINT64_MAX);
	}
	stage_next_gets(LIMIT - HELD - 64 * MIB);
	atomic_store(&stage.board->staged, true);
	stage_end_well(keeper, "the keeper");
	stage_next_gets(900 * MIB);
	close_stage();
}

/* Equal pids, or none, on the other side: a whole namespace dies, and is left out at once. */
static void test_namespace(void **state)
{
	(void)state;
	for (size_t i = 0; i < MIDDLE_COUNT; i++) {
		stage.point = middles[i];
		namespace_play();
	}
}

int main(void)
{
	struct CMUnitTest tests[DEATH_COUNT + 3];
	size_t count = 0;

	for (uintptr_t i = 0; i < DEATH_COUNT; i++)
		tests[count++] = (struct CMUnitTest){ .name = deaths[i].name,
						      .test_func = test_death,
						      .initial_state = (void *)i };
	tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_handler_jumps_away);
	tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_exec);
	tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_namespace);
	stage.action = BERTH_CRASH_STOP;
	stage.nth = 1;
	return _cmocka_run_group_tests("deaths", tests, count, stage_setup, stage_teardown);
}
