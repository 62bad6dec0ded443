/* SPDX-License-Identifier: Apache-2.0
 *
 * Death and arrest of a fork child: in its fork handler, and on its way to a seat of its own. Its
 * parent holds 600 MiB and asks in a thread of its own all the while, so the child may be born with
 * a copy of every lock held. The parent's seat, charges and locks are untouched and it goes on, as
 * do 1, 8 and 64 others; and what the parent held is free when it dies, although the child is still
 * stopped.
 */
#include "stage.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "account/account.h"

#define HELD (600 * MIB)

enum { PARENT_ASKS = 100 };

/* Shared with the parent and its child. board->count: the parent's asks so far. */
static struct report {
	_Atomic int32_t child;
	_Atomic int32_t child_status;
} * report;

static int gpus_list(struct berth_account_gpus *ret_gpus, struct berth_reason *reason)
{
	(void)ret_gpus;
	return berth_reason_set(reason, -1, "the share is there: nobody asks for this");
}

static int sit_down(void)
{
	static const char *const names[] = {
		"CUDA_DEVICE_MEMORY_LIMIT",        "CUDA_DEVICE_SM_LIMIT", "BERTH_SHARE",
		"CUDA_DEVICE_MEMORY_SHARED_CACHE", "BERTH_MEMORY_LIMITS",
	};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		(void)unsetenv(names[i]); /* fails for bad names only */
	if (setenv("BERTH_REGION", stage.path, 1) < 0)
		return 41;
	return berth_account_attach(gpus_list) == BERTH_ACCOUNT_ATTACHED ? 0 : 42;
}

/* 0, or what went wrong. */
static int ask_once(void)
{
	int gpu = berth_account_gpu_find("GPU-one");

	if (berth_account_ask(gpu, BERTH_CHARGE_DATA, MIB) < 0)
		return 43;
	berth_account_refund(gpu, BERTH_CHARGE_DATA, MIB);
	return 0;
}

static void *asks_go_on(void *arg)
{
	_Atomic int *failed = arg;

	while (!atomic_load(&stage.board->ended) && atomic_load(failed) == 0) {
		atomic_store(failed, ask_once());
		if (atomic_fetch_add(&stage.board->count, 1) % 16 == 0)
			berth_sleep_ns(BERTH_NS_PER_MS / 10, UINT64_MAX);
	}
	return NULL;
}

static bool in_handler(void)
{
	return strncmp(berth_crash_point_names[stage.point], "account_child_", 14) == 0;
}

/* The fork child, when its handler has run: a process of its own. */
static int child_run(void)
{
	if (!in_handler())
		berth_crash_arm(stage.point, stage.action, stage.nth);
	int r = sit_down();
	return r == 0 ? ask_once() : r;
}

static pid_t child_fork(void)
{
	/* The handler runs in the child only, so the parent may be armed. */
	if (in_handler())
		berth_crash_arm(stage.point, stage.action, stage.nth);
	pid_t child = fork();
	if (child == 0)
		_exit(child_run());
	berth_crash_arm(stage.point, BERTH_CRASH_NONE, 0);
	return child;
}

static int parent_run(void)
{
	_Atomic int failed = 0;
	pthread_t thread;
	int status = 0;
	int r = sit_down();
	int gpu = r == 0 ? berth_account_gpu_find("GPU-one") : -1;

	if (r == 0 && berth_account_ask(gpu, BERTH_CHARGE_DATA, HELD) < 0)
		r = 44;
	if (r != 0 || pthread_create(&thread, NULL, asks_go_on, &failed) != 0)
		return r ? r : 45;
	pid_t child = child_fork();
	atomic_store(&report->child, child);
	if (child < 0 || waitpid(child, &status, WUNTRACED) != child)
		return 46;
	atomic_store(&report->child_status, status);
	atomic_store(&stage.board->granted, true);
	stage_wait_for(&stage.board->buried);
	if (WIFSTOPPED(status)) {
		(void)kill(child, SIGCONT);
		if (waitpid(child, &status, 0) != child || status != 0)
			return 47;
	}
	atomic_store(&stage.board->staged, true);
	stage_wait_for(&stage.board->ended);
	(void)pthread_join(thread, NULL); /* it is ours, and joinable */
	berth_account_refund(gpu, BERTH_CHARGE_DATA, HELD);
	return failed;
}

static void parent_goes_on(void)
{
	uint64_t deadline_ns = berth_deadline_after(WATCHDOG_NS);
	uint32_t before = atomic_load(&stage.board->count);

	while (atomic_load(&stage.board->count) < before + PARENT_ASKS) {
		if (berth_deadline_passed(deadline_ns))
			FAIL("the parent is held up");
		berth_sleep_ns(BERTH_NS_PER_MS / 20, UINT64_MAX);
	}
}

static void parent_charged(void)
{
	struct berth_region *region = NULL;
	struct berth_ledger_room room = { 0 };

	assert_int_equal(berth_region_view(stage.path, &region, NULL), 0);
	assert_int_equal(berth_ledger_room(region, 0, &room), 0);
	/* Beside it only small change. */
	if (room.charged_bytes < HELD || room.charged_bytes > HELD + 64 * MIB)
		FAIL("%llu bytes are charged", (unsigned long long)room.charged_bytes);
	berth_region_close(region);
}

static void parent_lives(pid_t parent)
{
	int status = 0;

	atomic_store(&stage.board->buried, true);
	if (!stage_reaches(parent, &stage.board->staged, &status))
		FAIL("the parent ended: %#x", (unsigned)status);
	parent_goes_on();
	parent_charged();
	stage_others_end();
	stage_end_well(parent, "the parent");
}

/* The child is stopped and stays so. */
static void parent_dies(pid_t parent)
{
	pid_t child = atomic_load(&report->child);

	(void)kill(parent, SIGKILL);
	if (!WIFSIGNALED(stage_state_of(parent, "the parent")))
		FAIL("the parent lives");
	stage_others_go_on();
	stage_next_gets(900 * MIB);
	(void)kill(child, SIGCONT);
	stage_end_well(child, "the orphan");
	stage_others_end();
}

static void play(bool parent_shall_die)
{
	int status = 0;

	stage_clear();
	stage.nth = 1;
	stage_region_make();
	stage_others_start();
	stage_others_go_on();
	pid_t parent = stage_start(parent_run);
	if (!stage_reaches(parent, &stage.board->granted, &status))
		FAIL("the parent ended: %#x", (unsigned)status);
	if (!stage_was_hit(atomic_load(&report->child_status)))
		FAIL("never reached");
	parent_goes_on();
	stage_others_go_on();
	stage_next_gets(LIMIT - HELD - 64 * MIB);
	parent_charged();
	if (parent_shall_die)
		parent_dies(parent);
	else
		parent_lives(parent);
	stage_all_is_free();
}

static void play_all(void)
{
	play(false);
	if (stage.action == BERTH_CRASH_STOP)
		play(true);
}

static void test_point(void **state)
{
	stage_rounds(state, play_all);
}

int main(int argc, char **argv)
{
	report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	/* An orphan is ours to wait for. */
	if (report == MAP_FAILED || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) {
		perror("test_account");
		return 1;
	}
	int failed = stage_main(argc, argv, "account", test_point);
	pid_t child = atomic_load(&report->child);
	/* After a failure a stopped one may be left over: still a child of ours, so the pid is its. */
	if (failed && child > 0 && waitpid(child, NULL, WNOHANG) == 0)
		(void)kill(child, SIGKILL);
	return failed;
}
