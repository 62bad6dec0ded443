/* SPDX-License-Identifier: Apache-2.0
 *
 * One record lock and those who are not in its plan: fork children (they own nothing and give nothing back), foreign
 * closes of its file (POSIX drops the lock without a word), programs in other pid namespaces (pids mean nothing
 * there). The namespaces need root, and are skipped where they can't be made.
 *
 * WAYS and TMPDIR as in test_recordlock_crowd.c. An argument: the pattern of the tests to run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "recordlock_crowd.h"

enum { SHORT_MS = 200 };

static struct rlcrowd crowd;

static const uint32_t ways[] = { BERTH_RECORDLOCK_BLOCK, BERTH_RECORDLOCK_POLL,
				 BERTH_RECORDLOCK_BARE };

#define OK(call)                                              \
	do {                                                  \
		int r_ = (call);                              \
		if (r_)                                       \
			fail_msg("%s: %s", #call, crowd.why); \
	} while (0)

static void member_start(uint32_t slot, const struct rlcrowd_plan *plan)
{
	OK(rlcrowd_start(&crowd, slot, 1, plan));
	if (plan->hold_until_told && plan->timeout_ms == 0)
		OK(rlcrowd_await_state(&crowd, slot, RLCROWD_INSIDE));
}

static struct rlcrowd_plan holder_plan(uint32_t way, uint32_t flags)
{
	return (struct rlcrowd_plan){
		.way = way, .flags = flags, .round_count = 1, .hold_until_told = true
	};
}

static struct rlcrowd_plan waiter_plan(uint32_t way, int64_t timeout_ms)
{
	return (struct rlcrowd_plan){ .way = way, .timeout_ms = timeout_ms, .round_count = 1 };
}

static void waiters_start(uint32_t slot, uint32_t count, uint32_t way, int64_t timeout_ms)
{
	const struct rlcrowd_plan plan = waiter_plan(way, timeout_ms);

	for (uint32_t i = slot; i < slot + count; i++)
		OK(rlcrowd_start(&crowd, i, 1, &plan));
}

static int64_t told(uint32_t slot, enum rlcrowd_word word)
{
	OK(rlcrowd_tell(&crowd, slot, word));
	return crowd.members[slot].answer;
}

/* A fork child gives back, closes, ends: its parent still keeps a third one out. A fork child that lives on keeps
 * nobody out once its parent is dead. */
static void children_play(uint32_t way)
{
	enum { WAITERS = 4 };
	const struct rlcrowd_plan holder = holder_plan(way, 0);

	assert_int_equal(rlcrowd_make(&crowd, WAITERS + 2), 0);
	member_start(0, &holder);
	assert_int_equal(told(0, RLCROWD_FORK_GIVES), 0);
	assert_int_equal(told(0, RLCROWD_CHECK), 0);
	waiters_start(1, 1, way, 0);
	OK(rlcrowd_await_state(&crowd, 1, RLCROWD_DONE));
	assert_int_equal(crowd.members[1].timeout_count, 1);
	int64_t child = told(0, RLCROWD_FORK_SLEEPS);
	assert_true(child > 0);
	waiters_start(2, WAITERS, way, RLCROWD_WAIT_MS);
	OK(rlcrowd_await_waiting(&crowd, 2, WAITERS));
	rlcrowd_kill(&crowd, 0);
	for (uint32_t i = 2; i < 2 + WAITERS; i++) {
		OK(rlcrowd_await_state(&crowd, i, RLCROWD_DONE));
		assert_int_equal(crowd.members[i].entered_count, 1);
	}
	assert_int_equal(kill((pid_t)child, 0), 0); /* it lived all the time */
	assert_int_equal(kill((pid_t)child, SIGKILL), 0);
	OK(rlcrowd_judge(&crowd));
	rlcrowd_end(&crowd);
}

static void test_fork_child(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(ways); i++) {
		if (rlcrowd_way_wanted(ways[i]))
			children_play(ways[i]);
	}
}

/* The owner's program closes the file elsewhere while others wait: one of them enters, and the owner learns before its
 * next write that it lost the lock for good; when all are through it would have had it again. */
static void robbed_play(uint32_t way)
{
	enum { WAITERS = 8 };
	const struct rlcrowd_plan holder = holder_plan(way, 0);
	struct rlcrowd_plan taker = holder_plan(way, 0);

	assert_int_equal(rlcrowd_make(&crowd, WAITERS + 2), 0);
	member_start(0, &holder);
	assert_int_equal(told(0, RLCROWD_CHECK), 0);
	taker.timeout_ms = RLCROWD_WAIT_MS;
	member_start(1, &taker);
	OK(rlcrowd_await_waiting(&crowd, 1, 1));
	assert_int_equal(told(0, RLCROWD_FOREIGN_CLOSE), 0);
	OK(rlcrowd_await_state(&crowd, 1, RLCROWD_INSIDE));
	assert_int_equal(told(0, RLCROWD_CHECK), -EOWNERDEAD);
	assert_int_equal(told(0, RLCROWD_CHECK), -EPERM); /* the hold is over */
	waiters_start(2, WAITERS, way, RLCROWD_WAIT_MS);
	OK(rlcrowd_await_waiting(&crowd, 2, WAITERS));
	OK(rlcrowd_tell(&crowd, 0, RLCROWD_LEAVE));
	OK(rlcrowd_await_state(&crowd, 0, RLCROWD_DONE));
	assert_int_equal(crowd.members[0].answer, -EPERM); /* and is not given back */
	assert_int_equal(rlcrowd_entry_count(&crowd), 2);
	OK(rlcrowd_tell(&crowd, 1, RLCROWD_LEAVE));
	OK(rlcrowd_judge(&crowd));
	for (uint32_t i = 0; i < WAITERS; i++)
		assert_int_equal(crowd.members[2 + i].entered_count, 1);
	assert_int_equal(crowd.members[0].trace.lost_count, 1);
	rlcrowd_end(&crowd);
}

static void test_foreign_close_in_a_crowd(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(ways); i++) {
		if (rlcrowd_way_wanted(ways[i]))
			robbed_play(ways[i]);
	}
}

/* With nobody else there: seen at the next check, and with KEEP got again without being asked. */
static void retaken_play(uint32_t way, bool keep)
{
	const struct rlcrowd_plan holder = holder_plan(way, keep ? BERTH_RECORDLOCK_KEEP : 0);
	uint64_t deadline_ns = berth_deadline_after(RLCROWD_WATCHDOG_MS * BERTH_NS_PER_MS);

	assert_int_equal(rlcrowd_make(&crowd, 3), 0);
	member_start(0, &holder);
	if (!keep) {
		assert_int_equal(told(0, RLCROWD_FOREIGN_CLOSE), 0);
		assert_int_equal(rlcrowd_kernel_owner(&crowd), 0); /* POSIX says so */
	} else {
		uint64_t start_ns = berth_clock_ns();

		assert_int_equal(told(0, RLCROWD_FOREIGN_CLOSE), 0);
		while (rlcrowd_kernel_owner(&crowd) == 0 && !berth_deadline_passed(deadline_ns))
			(void)usleep(500);
		print_message("way %u: dropped by a foreign close, there again after %.1f ms\n",
			      way, (double)(berth_clock_ns() - start_ns) / 1e6);
		waiters_start(1, 1, way, 0);
		OK(rlcrowd_await_state(&crowd, 1, RLCROWD_DONE));
		assert_int_equal(crowd.members[1].timeout_count, 1);
	}
	assert_int_equal(told(0, RLCROWD_CHECK), 1);
	assert_int_equal(told(0, RLCROWD_CHECK), 0);
	assert_int_not_equal(rlcrowd_kernel_owner(&crowd), 0);
	waiters_start(2, 1, way, 0);
	OK(rlcrowd_await_state(&crowd, 2, RLCROWD_DONE));
	assert_int_equal(crowd.members[2].owner.pid, crowd.members[0].outer_pid);
	OK(rlcrowd_tell(&crowd, 0, RLCROWD_LEAVE));
	OK(rlcrowd_judge(&crowd));
	assert_int_equal(crowd.members[0].answer, 0); /* given back */
	rlcrowd_end(&crowd);
}

static void test_foreign_close_alone(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(ways); i++) {
		if (!rlcrowd_way_wanted(ways[i]))
			continue;
		retaken_play(ways[i], false);
		retaken_play(ways[i], true);
	}
}

/* A kept hold's owner dies like any other: what looked after it is gone with it. */
static void test_death_of_a_keeper(void **state)
{
	enum { WAITERS = 8 };

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(ways); i++) {
		const struct rlcrowd_plan holder = holder_plan(ways[i], BERTH_RECORDLOCK_KEEP);

		if (!rlcrowd_way_wanted(ways[i]))
			continue;
		assert_int_equal(rlcrowd_make(&crowd, WAITERS + 1), 0);
		member_start(0, &holder);
		waiters_start(1, WAITERS, ways[i], RLCROWD_WAIT_MS);
		OK(rlcrowd_await_waiting(&crowd, 1, WAITERS));
		rlcrowd_kill(&crowd, 0);
		OK(rlcrowd_judge(&crowd));
		for (uint32_t j = 1; j <= WAITERS; j++)
			assert_int_equal(crowd.members[j].entered_count, 1);
		rlcrowd_end(&crowd);
	}
}

static void boxed_start(uint32_t slot, uint32_t count, bool own_proc,
			const struct rlcrowd_plan *plan)
{
	int r = rlcrowd_start_boxed(&crowd, slot, count, own_proc, plan);

	if (r == -EPERM && (geteuid() != 0 || own_proc))
		skip(); /* may not make namespaces here */
	OK(r);
}

/* The name that a waiter may be told: the owner's pid as the waiter's own namespace numbers it, with that process's
 * start, or nothing. */
static void named_truly(uint32_t slot, uint32_t count, pid_t pid, uint64_t ticks)
{
	for (uint32_t i = slot; i < slot + count; i++) {
		const struct rlcrowd_member *member = &crowd.members[i];

		OK(rlcrowd_await_state(&crowd, i, RLCROWD_DONE));
		assert_int_equal(member->timeout_count, 1);
		assert_int_equal(member->entered_count, 0);
		assert_int_equal(member->owner.pid, pid);
		assert_true(member->owner.start_ticks == 0 || member->owner.start_ticks == ticks);
	}
}

static uint64_t start_ticks(pid_t pid)
{
	struct berth_process_stat stat = { 0 };

	return berth_process_stat_read(pid, &stat) == 0 ? stat.start_ticks : 0;
}

/* Two namespaces whose pids are the same numbers, and the one outside of both. The owner sits in the first; it is
 * stopped, then killed; the next is the one outside, and it dies too. */
static void namespaces_play(uint32_t way, bool own_proc)
{
	enum { EACH = 6, OWNER = 0, A = 1, B = A + EACH, OUT = B + EACH, LATE = OUT + EACH };
	const struct rlcrowd_plan holder = holder_plan(way, 0);
	const struct rlcrowd_plan brief = waiter_plan(way, SHORT_MS);
	const struct rlcrowd_plan waiter = waiter_plan(way, RLCROWD_WAIT_MS);

	assert_int_equal(rlcrowd_make(&crowd, LATE + 3 * EACH + 1), 0);
	boxed_start(OWNER, 1, own_proc, &holder);
	OK(rlcrowd_await_state(&crowd, OWNER, RLCROWD_INSIDE));
	rlcrowd_signal(&crowd, OWNER, SIGSTOP);
	boxed_start(B, EACH, own_proc, &brief);
	assert_int_equal(crowd.members[B].pid, crowd.members[OWNER].pid);
	for (uint32_t i = OUT; i < OUT + EACH; i++)
		OK(rlcrowd_start(&crowd, i, 1, &brief));
	pid_t pid = crowd.members[OWNER].outer_pid;
	named_truly(B, EACH, 0, 0);
	named_truly(OUT, EACH, pid, start_ticks(pid));
	rlcrowd_signal(&crowd, OWNER, SIGCONT);
	boxed_start(A, EACH, own_proc, &waiter);
	boxed_start(LATE, EACH, own_proc, &waiter);
	for (uint32_t i = LATE + EACH; i < LATE + 2 * EACH; i++)
		OK(rlcrowd_start(&crowd, i, 1, &waiter));
	OK(rlcrowd_await_waiting(&crowd, A, EACH));
	OK(rlcrowd_await_waiting(&crowd, LATE, 2 * EACH));
	rlcrowd_kill(&crowd, OWNER);
	OK(rlcrowd_judge(&crowd));
	for (uint32_t i = 0; i < EACH; i++) {
		assert_int_equal(crowd.members[A + i].entered_count, 1);
		assert_int_equal(crowd.members[LATE + i].entered_count, 1);
		assert_int_equal(crowd.members[LATE + EACH + i].entered_count, 1);
	}
	rlcrowd_end(&crowd);
}

/* In one and the same namespace the owner's number is known: by those in it. */
static void same_namespace_play(uint32_t way, bool own_proc)
{
	enum { TOGETHER = 5 };
	struct rlcrowd_plan plan = holder_plan(way, 0);
	uint32_t in = 0;

	assert_int_equal(rlcrowd_make(&crowd, TOGETHER + 2), 0);
	plan.timeout_ms = 700; /* one gets in and stays; the others time out */
	boxed_start(0, TOGETHER, own_proc, &plan);
	while (!(in = rlcrowd_inside(&crowd)))
		(void)usleep(1000);
	in--;
	for (uint32_t i = 0; i < TOGETHER; i++) {
		if (i == in)
			continue;
		OK(rlcrowd_await_state(&crowd, i, RLCROWD_DONE));
		assert_int_equal(crowd.members[i].timeout_count, 1);
		uint64_t ticks = start_ticks(crowd.members[in].outer_pid);
		assert_int_equal(crowd.members[i].owner.pid, crowd.members[in].pid);
		assert_true(crowd.members[i].owner.start_ticks == 0 ||
			    crowd.members[i].owner.start_ticks == ticks);
	}
	OK(rlcrowd_tell(&crowd, in, RLCROWD_LEAVE));
	OK(rlcrowd_judge(&crowd));
	rlcrowd_end(&crowd);
}

static void namespaces(bool own_proc)
{
	for (size_t i = 0; i < BERTH_ARRAY_LEN(ways); i++) {
		if (!rlcrowd_way_wanted(ways[i]))
			continue;
		namespaces_play(ways[i], own_proc);
		same_namespace_play(ways[i], own_proc);
	}
}

/* As a container has it. */
static void test_namespaces(void **state)
{
	(void)state;
	namespaces(true);
}

/* A /proc that numbers processes otherwise than getpid does. */
static void test_namespaces_foreign_proc(void **state)
{
	(void)state;
	namespaces(false);
}

static int teardown(void **state)
{
	(void)state;
	rlcrowd_end(&crowd);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_fork_child, teardown),
		cmocka_unit_test_teardown(test_foreign_close_in_a_crowd, teardown),
		cmocka_unit_test_teardown(test_foreign_close_alone, teardown),
		cmocka_unit_test_teardown(test_death_of_a_keeper, teardown),
		cmocka_unit_test_teardown(test_namespaces, teardown),
		cmocka_unit_test_teardown(test_namespaces_foreign_proc, teardown),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
