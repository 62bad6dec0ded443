/* SPDX-License-Identifier: Apache-2.0
 *
 * Children of every making, of a process that has a seat and holds memory: whatever they do, down to
 * closing all and running every exit handler, the parent's seat is alive, its books are as they were,
 * kind by kind, and others see them so. DEPTH= sets the length of the chain of forks (200).
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "region/ledger.h"
#include "region/snapshot.h"
#include "scratch.h"

extern char **environ;

static char stack[1 << 16] __attribute__((aligned(64)));

struct parent {
	const char *path;
	struct berth_region *region;
	struct berth_seat *seat;
};
static struct parent parent; /* for children that get no argument, and exit handlers */

static void seat_take(struct scratch *scratch)
{
	struct berth_region_spec spec = spec_of(1024 * MIB);

	parent.path = scratch->path;
	parent.region = join_or_fail(scratch->path, &spec);
	parent.seat = claim_or_fail(parent.region);
	berth_ledger_charge(parent.seat, 0, BERTH_CHARGE_CONTEXT, 96 * MIB);
	assert_int_equal(berth_ledger_ask(parent.seat, 0, BERTH_CHARGE_MODULE, 4 * MIB), 0);
	assert_int_equal(berth_ledger_ask(parent.seat, 0, BERTH_CHARGE_DATA, 500 * MIB), 0);
}

/* In a process of its own, which has never heard of the parent: 0 = all is as it was. */
static int look(void *arg)
{
	struct berth_region *region = NULL;
	struct berth_snapshot *taken = NULL;
	const struct berth_snapshot_seat *seat = NULL;

	berth_seat_forget(parent.seat);
	berth_region_forget(parent.region);
	if (berth_region_join(arg, NULL, 0, &region, NULL, NULL) < 0)
		return 1;
	if (berth_seat_alive(region, 0) != 1 || berth_seat_reap(region, 0) != 0)
		return 2;
	if (berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &taken) < 0)
		return 3;
	seat = &taken->seats[0];
	if (seat->index != 0 || !seat->alive || seat->pid != getppid())
		return 4;
	if (seat->use[0].context_bytes != 96 * MIB || seat->use[0].module_bytes != 4 * MIB ||
	    seat->use[0].data_bytes != 500 * MIB || seat->use[0].total_bytes != 600 * MIB)
		return 5;
	return berth_region_check(region, NULL) < 0 ? 6 : 0;
}

static void all_as_it_was(void)
{
	assert_int_equal(child_end(child_start(look, (void *)(uintptr_t)parent.path)), 0);
	assert_int_equal(charged_bytes(parent.region, 0), 600 * MIB);
	assert_int_equal(berth_ledger_ask(parent.seat, 0, BERTH_CHARGE_DATA, 425 * MIB), -ENOMEM);
	assert_int_equal(berth_ledger_ask(parent.seat, 0, BERTH_CHARGE_DATA, 424 * MIB), 0);
	berth_ledger_refund(parent.seat, 0, BERTH_CHARGE_DATA, 424 * MIB);
	check_or_fail(parent.region);
}

static void seat_give_back(void)
{
	berth_seat_leave(parent.seat);
	assert_int_equal(charged_bytes(parent.region, 0), 0);
	berth_region_close(parent.region);
}

static void leave_at_exit(void)
{
	berth_seat_leave(parent.seat);
	berth_region_close(parent.region);
}

static int end_by_exit(void *arg)
{
	(void)arg;
	if (atexit(leave_at_exit) != 0)
		return 1;
	exit(0);
}

static int close_all(void *arg)
{
	(void)arg;
	return syscall(SYS_close_range, 0U, ~0U, 0U) < 0;
}

static int run_true(void *arg)
{
	(void)arg;
	(void)execl("/bin/true", "true", (char *)NULL);
	return 1;
}

static int be_killed(void *arg)
{
	(void)arg;
	return raise(SIGKILL);
}

static void fork_children_of_every_end(void **state)
{
	seat_take(*state);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(child_end(child_start(end_by_exit, NULL)), 0);
		all_as_it_was();
		assert_int_equal(child_end(child_start(close_all, NULL)), 0);
		all_as_it_was();
		assert_int_equal(child_end(child_start(run_true, NULL)), 0);
		all_as_it_was();
		assert_int_equal(child_end(child_start(be_killed, NULL)), -SIGKILL);
		all_as_it_was();
	}
	seat_give_back();
}

static void vfork_and_spawn(void **state)
{
	char *const arguments[] = { (char *)(uintptr_t) "true", NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;

	seat_take(*state);
	pid = vfork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(child_end(pid), 0);
	all_as_it_was();
	pid = vfork();
	if (pid == 0) {
		(void)execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	assert_int_equal(child_end(pid), 0);
	all_as_it_was();
	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	assert_int_equal(posix_spawn_file_actions_addclosefrom_np(&actions, 3), 0);
	assert_int_equal(posix_spawn(&pid, "/bin/true", &actions, NULL, arguments, environ), 0);
	assert_int_equal(posix_spawn_file_actions_destroy(&actions), 0);
	assert_int_equal(child_end(pid), 0);
	all_as_it_was();
	seat_give_back();
}

static int do_nothing(void *arg)
{
	(void)arg;
	return 0;
}

/* Takes part in the parent's memory, so in its seat: a task more of the same process, as it were. */
static int ask_and_refund(void *arg)
{
	(void)arg;
	if (berth_ledger_ask(parent.seat, 0, BERTH_CHARGE_DATA, 100 * MIB) != 0)
		return 1;
	berth_ledger_refund(parent.seat, 0, BERTH_CHARGE_DATA, 100 * MIB);
	return 0;
}

static pid_t clone_start(int (*body)(void *), int flags)
{
	pid_t pid = clone(body, stack + sizeof(stack), flags | SIGCHLD, NULL);

	assert_true(pid > 0);
	return pid;
}

/* With the memory shared, with the descriptors shared, with both, with neither; of libc's making, so
 * without handlers of pthread_atfork. */
static void clone_with_and_without_memory_and_files(void **state)
{
	static const int flags[] = { 0, CLONE_FILES, CLONE_VM, CLONE_VM | CLONE_FILES };

	seat_take(*state);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		assert_int_equal(child_end(clone_start(do_nothing, flags[i])), 0);
		all_as_it_was();
		assert_int_equal(child_end(clone_start(run_true, flags[i])), 0);
		all_as_it_was();
		if (flags[i] & CLONE_VM) {
			assert_int_equal(child_end(clone_start(ask_and_refund, flags[i])), 0);
			all_as_it_was();
		}
		if (!(flags[i] & CLONE_FILES)) {
			assert_int_equal(child_end(clone_start(close_all, flags[i])), 0);
			all_as_it_was();
		}
	}
	seat_give_back();
}

/* By the bare system call. Memory can't be shared so: both would go on with one stack. */
static void clone_by_the_system_call(void **state)
{
	static const unsigned long flags[] = { 0, CLONE_FILES, CLONE_FS | CLONE_IO };

	seat_take(*state);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		pid_t pid = (pid_t)syscall(SYS_clone, flags[i] | SIGCHLD, 0, 0, 0, 0);

		if (pid == 0) {
			syscall(SYS_exit_group, 0);
			__builtin_unreachable();
		}
		assert_int_equal(child_end(pid), 0);
		all_as_it_was();
	}
	seat_give_back();
}

struct hold {
	const char *path;
	_Atomic int step; /* 1: the owner has its seat; 2: the helper may end */
};

static int helper_stay(void *arg)
{
	struct hold *hold = arg;

	for (int i = 0; i < 30000 && hold->step < 2; i++)
		(void)usleep(1000);
	syscall(SYS_exit_group, 0);
	return 0;
}

/* Its helper shares its memory, and stays. */
static int owner_with_helper(void *arg)
{
	struct hold *hold = arg;
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	if (berth_region_join(hold->path, NULL, 0, &region, NULL, NULL) < 0 ||
	    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0 ||
	    berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 100 * MIB) < 0)
		return 1;
	if (clone(helper_stay, stack + sizeof(stack), CLONE_VM | SIGCHLD, hold) < 0)
		return 2;
	hold->step = 1;
	(void)pause();
	return 0;
}

/* A process is its memory: while a task has that, it may go on asking, and the seat stays. */
static void memory_outlives_its_first_task(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct hold *hold =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int alive = 1;

	assert_true(hold != MAP_FAILED);
	/* Orphans come to us, so that their end can be waited for. */
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	hold->path = scratch->path;
	pid_t owner = child_start(owner_with_helper, hold);
	while (hold->step < 1)
		(void)usleep(100);
	assert_int_equal(kill(owner, SIGKILL), 0);
	assert_int_equal(child_end(owner), -SIGKILL);
	int alive_with_helper = berth_seat_alive(region, 0);
	uint64_t charged_with_helper = charged_bytes(region, 0);
	hold->step = 2;
	while (waitpid(-1, NULL, 0) > 0)
		;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
	alive = berth_seat_alive(region, 0);
	assert_int_equal(alive_with_helper, 1);
	assert_int_equal(charged_with_helper, 100 * MIB);
	assert_int_equal(alive, 0);
	assert_int_equal(charged_bytes(region, 0), 0);
	assert_int_equal(munmap(hold, 4096), 0);
	berth_region_close(region);
}

static unsigned depth_of(unsigned usual)
{
	const char *text = getenv("DEPTH");
	unsigned long asked = text ? strtoul(text, NULL, 10) : 0;

	return asked && asked < BERTH_SEAT_MAX ? (unsigned)asked : usual;
}

/* One link: lets go of its parent's seat, takes its own, asks, forks the next, waits for it. */
static int link_run(const char *path, unsigned depth, unsigned left)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	struct berth_snapshot *taken = NULL;
	int r = 0;

	if (berth_region_join(path, NULL, 0, &region, NULL, NULL) < 0 ||
	    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0 ||
	    berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, MIB) < 0)
		return 10;
	if (left == 1) {
		if (berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &taken) < 0)
			return 11;
		if (taken->seat_count != depth || taken->gpus[0].charged_bytes != depth * MIB)
			return 12;
		for (uint32_t i = 0; i < depth; i++) {
			if (!taken->seats[i].alive || taken->seats[i].use[0].total_bytes != MIB)
				return 13;
		}
		berth_snapshot_free(taken);
	} else {
		pid_t pid = fork();

		if (pid == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			berth_seat_forget(seat);
			berth_region_forget(region);
			_exit(link_run(path, depth, left - 1));
		}
		r = child_end(pid);
	}
	/* Every second one leaves, the others just end. */
	if (r == 0 && left % 2)
		berth_seat_leave(seat);
	return r;
}

static int chain_run(void *arg)
{
	unsigned depth = depth_of(200);

	return link_run(arg, depth, depth);
}

static void a_chain_of_forks_each_with_its_seat(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);

	assert_int_equal(child_end(child_start(chain_run, scratch->path)), 0);
	assert_int_equal(charged_bytes(region, 0), 0);
	check_or_fail(region);
	berth_region_close(region);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fork_children_of_every_end),
		TEST(vfork_and_spawn),
		TEST(clone_with_and_without_memory_and_files),
		TEST(clone_by_the_system_call),
		TEST(memory_outlives_its_first_task),
		TEST(a_chain_of_forks_each_with_its_seat),
	};

	return cmocka_run_group_tests_name("manners: children", tests, NULL, NULL);
}
