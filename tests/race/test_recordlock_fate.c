/* SPDX-License-Identifier: Apache-2.0
 *
 * What can happen to those who want one record lock: killed inside, killed while they wait, stopped inside or in the
 * queue, gone by exit or exec while a thread waits, forked, robbed of the lock by a foreign close, in other pid
 * namespaces, with many threads. Nobody else ever waits for them longer than he said, two are never inside, the one
 * who is in the way is named truly or not at all, and nothing is left over.
 *
 * In the environment: RUNS=N (default 1) times as many deaths; WAYS and TMPDIR as in test_recordlock_crowd.c. An
 * argument: the pattern of the tests to run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "recordlock_crowd.h"

enum { MIXED = 100, SHORT_MS = 200 };

static struct rlcrowd crowd;
static uint64_t luck;

static const uint32_t ways[] = { BERTH_RECORDLOCK_BLOCK, BERTH_RECORDLOCK_POLL,
				 BERTH_RECORDLOCK_BARE };

#define OK(call)                                              \
	do {                                                  \
		int r_ = (call);                              \
		if (r_)                                       \
			fail_msg("%s: %s", #call, crowd.why); \
	} while (0)

static uint32_t way_of(uint32_t way, uint32_t slot)
{
	return way == MIXED ? ways[slot % 3] : way;
}

static uint32_t run_count(void)
{
	const char *text = getenv("RUNS");

	return text ? (uint32_t)strtoul(text, NULL, 10) : 1;
}

static struct rlcrowd_plan holder_plan(uint32_t way)
{
	return (struct rlcrowd_plan){ .way = way, .round_count = 1, .hold_until_told = true };
}

static struct rlcrowd_plan waiter_plan(uint32_t way, int64_t timeout_ms)
{
	return (struct rlcrowd_plan){ .way = way, .timeout_ms = timeout_ms, .round_count = 1 };
}

static void holder_start(uint32_t slot, uint32_t way)
{
	const struct rlcrowd_plan plan = holder_plan(way);

	OK(rlcrowd_start(&crowd, slot, 1, &plan));
	OK(rlcrowd_await_state(&crowd, slot, RLCROWD_INSIDE));
}

static void waiters_start(uint32_t slot, uint32_t count, uint32_t way, int64_t timeout_ms)
{
	for (uint32_t i = slot; i < slot + count; i++) {
		const struct rlcrowd_plan plan = waiter_plan(way_of(way, i), timeout_ms);

		OK(rlcrowd_start(&crowd, i, 1, &plan));
	}
}

static void entered(uint32_t slot, uint32_t count, uint32_t times)
{
	for (uint32_t i = slot; i < slot + count; i++)
		assert_int_equal(crowd.members[i].entered_count, times);
}

/* Nobody entered, everybody was told so, and none before his time. */
static void timed_out(uint32_t slot, uint32_t count, int64_t timeout_ms)
{
	for (uint32_t i = slot; i < slot + count; i++) {
		OK(rlcrowd_await_state(&crowd, i, RLCROWD_DONE));
		assert_int_equal(crowd.members[i].timeout_count, 1);
		assert_int_equal(crowd.members[i].entered_count, 0);
		assert_true(crowd.members[i].wait_ns >= (uint64_t)timeout_ms * BERTH_NS_PER_MS);
	}
}

static uint64_t start_ticks(pid_t pid)
{
	struct berth_process_stat stat = { 0 };

	return berth_process_stat_read(pid, &stat) == 0 ? stat.start_ticks : 0;
}

static void owner_named(uint32_t slot, uint32_t count, uint32_t owner)
{
	pid_t pid = crowd.members[owner].outer_pid;

	for (uint32_t i = slot; i < slot + count; i++) {
		assert_int_equal(crowd.members[i].owner.pid, pid);
		assert_int_equal(crowd.members[i].owner.start_ticks, start_ticks(pid));
	}
}

/* Whoever is inside is killed, again and again, at any moment of its stay, and replaced. With `anybody` it
 * is any member at all: inside, in the queue, on its way. */
static void deaths_play(uint32_t way, bool anybody)
{
	enum { MEMBERS = 16, DEATHS = 50 };
	uint32_t death_count = DEATHS * run_count(), next = MEMBERS;
	uint32_t living[MEMBERS];
	struct rlcrowd_plan plan = { .timeout_ms = RLCROWD_WAIT_MS,
				     .round_count = RLCROWD_FOR_EVER,
				     .hold_max_us = 3000 };

	assert_int_equal(rlcrowd_make(&crowd, MEMBERS + death_count), 0);
	for (uint32_t i = 0; i < MEMBERS; i++) {
		living[i] = i;
		plan.way = way_of(way, i);
		OK(rlcrowd_start(&crowd, i, 1, &plan));
	}
	for (uint32_t killed = 0; killed < death_count;) {
		uint32_t i = (uint32_t)(rlcrowd_random(&luck) % MEMBERS);

		(void)usleep((useconds_t)(rlcrowd_random(&luck) % 4000));
		if (!anybody) {
			uint32_t inside = rlcrowd_inside(&crowd);

			for (i = 0; i < MEMBERS && living[i] + 1 != inside; i++)
				;
			if (i == MEMBERS)
				continue;
		}
		rlcrowd_kill(&crowd, living[i]);
		living[i] = next;
		plan.way = way_of(way, i);
		OK(rlcrowd_start(&crowd, next++, 1, &plan));
		killed++;
	}
	for (uint32_t i = 0; i < MEMBERS; i++)
		OK(rlcrowd_await_started(&crowd, living[i]));
	rlcrowd_close(&crowd);
	OK(rlcrowd_judge(&crowd));
	for (uint32_t i = 0; i < MEMBERS; i++) /* all got in, at the latest when nobody came back */
		assert_true(crowd.members[living[i]].entered_count >= 1);
	rlcrowd_end(&crowd);
}

static void test_death_inside(void **state)
{
	(void)state;
	if (rlcrowd_way_wanted(BERTH_RECORDLOCK_BLOCK))
		deaths_play(BERTH_RECORDLOCK_BLOCK, false);
	if (rlcrowd_way_wanted(BERTH_RECORDLOCK_POLL))
		deaths_play(BERTH_RECORDLOCK_POLL, false);
	if (!getenv("WAYS"))
		deaths_play(MIXED, false);
}

static void test_death_anywhere(void **state)
{
	(void)state;
	if (rlcrowd_way_wanted(BERTH_RECORDLOCK_BLOCK))
		deaths_play(BERTH_RECORDLOCK_BLOCK, true);
	if (rlcrowd_way_wanted(BERTH_RECORDLOCK_POLL))
		deaths_play(BERTH_RECORDLOCK_POLL, true);
	if (!getenv("WAYS"))
		deaths_play(MIXED, true);
}

/* Of 24 that wait, every other one is killed in the queue; what it had going there dies with it. */
static void queue_deaths_play(uint32_t way, bool owner_dies)
{
	enum { WAITERS = 24 };

	assert_int_equal(rlcrowd_make(&crowd, WAITERS + 1), 0);
	holder_start(0, way_of(way, 0));
	waiters_start(1, WAITERS, way, RLCROWD_WAIT_MS);
	OK(rlcrowd_await_waiting(&crowd, 1, WAITERS));
	for (uint32_t i = 1; i <= WAITERS; i += 2)
		rlcrowd_kill(&crowd, i);
	if (owner_dies)
		rlcrowd_kill(&crowd, 0);
	else
		OK(rlcrowd_tell(&crowd, 0, RLCROWD_LEAVE));
	OK(rlcrowd_judge(&crowd));
	for (uint32_t i = 2; i <= WAITERS; i += 2)
		entered(i, 1, 1);
	rlcrowd_end(&crowd);
}

static void test_death_in_queue(void **state)
{
	(void)state;
	for (uint32_t run = 0; run < 5 * run_count(); run++) {
		for (size_t i = 0; i < BERTH_ARRAY_LEN(ways); i++) {
			if (rlcrowd_way_wanted(ways[i]))
				queue_deaths_play(ways[i], run % 2);
		}
		if (!getenv("WAYS"))
			queue_deaths_play(MIXED, run % 2);
	}
}

/* One that waited for the lock, got it and is stopped: everybody else's wait ends in time and names it, not whatever
 * waited in its stead. Then it goes on as if nothing had been. */
static void stopped_owner_play(uint32_t owner_way, bool owner_waited, uint32_t way)
{
	enum { WAITERS = 6 };

	assert_int_equal(rlcrowd_make(&crowd, WAITERS + 4), 0);
	holder_start(0, owner_way);
	struct rlcrowd_plan plan = holder_plan(owner_way);
	plan.timeout_ms = RLCROWD_WAIT_MS;
	if (owner_waited) {
		OK(rlcrowd_start(&crowd, 1, 1, &plan));
		OK(rlcrowd_await_waiting(&crowd, 1, 1));
		OK(rlcrowd_tell(&crowd, 0, RLCROWD_LEAVE));
		OK(rlcrowd_await_state(&crowd, 1, RLCROWD_INSIDE));
	}
	uint32_t owner = owner_waited;
	rlcrowd_signal(&crowd, owner, SIGSTOP);
	waiters_start(2, WAITERS, way, SHORT_MS);
	timed_out(2, WAITERS, SHORT_MS);
	owner_named(2, WAITERS, owner);
	waiters_start(2 + WAITERS, 1, way, 0);
	timed_out(2 + WAITERS, 1, 0);
	owner_named(2 + WAITERS, 1, owner);
	rlcrowd_signal(&crowd, owner, SIGCONT);
	OK(rlcrowd_tell(&crowd, owner, RLCROWD_LEAVE));
	OK(rlcrowd_judge(&crowd));
	rlcrowd_end(&crowd);
}

static void test_stopped_owner(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(ways); i++) {
		for (size_t j = 0; j < BERTH_ARRAY_LEN(ways); j++) {
			if (!rlcrowd_way_wanted(ways[i]) || !rlcrowd_way_wanted(ways[j]))
				continue;
			stopped_owner_play(ways[i], false, ways[j]);
			stopped_owner_play(ways[i], true, ways[j]);
		}
	}
}

static bool is_member(pid_t pid, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (crowd.members[i].outer_pid == pid)
			return true;
	}
	return false;
}

/* One is stopped while it waits. A poller can't be given what it doesn't ask for; what a blocker is granted while it is
 * stopped is withdrawn in time: the others pass it either way. Meanwhile they are told that it has the lock, or
 * nobody, but not who waited in its stead. When it is continued it gets in. */
static void stopped_waiter_play(uint32_t way)
{
	enum {
		ASKERS = 20,
		WAITERS = 6,
		OWNER = 0,
		STOPPED = 3,
		ASKER = 4,
		WAITER = ASKER + ASKERS
	};

	assert_int_equal(rlcrowd_make(&crowd, WAITER + WAITERS), 0);
	holder_start(OWNER, way_of(way, OWNER));
	waiters_start(STOPPED, 1, way, RLCROWD_WAIT_MS);
	OK(rlcrowd_await_waiting(&crowd, STOPPED, 1));
	rlcrowd_signal(&crowd, STOPPED, SIGSTOP);
	OK(rlcrowd_tell(&crowd, OWNER, RLCROWD_LEAVE));
	OK(rlcrowd_await_state(&crowd, OWNER, RLCROWD_DONE));
	waiters_start(ASKER, ASKERS, way, 0);
	waiters_start(WAITER, WAITERS, way, RLCROWD_WAIT_MS);
	for (uint32_t i = ASKER; i < WAITER + WAITERS; i++) {
		const struct rlcrowd_member *member = &crowd.members[i];

		OK(rlcrowd_await_state(&crowd, i, RLCROWD_DONE));
		assert_int_equal(member->entered_count + member->timeout_count, 1);
		if (member->owner.pid)
			assert_true(is_member(member->owner.pid, WAITER + WAITERS));
	}
	entered(WAITER, WAITERS, 1);
	rlcrowd_signal(&crowd, STOPPED, SIGCONT);
	OK(rlcrowd_judge(&crowd));
	entered(STOPPED, 1, 1);
	rlcrowd_end(&crowd);
}

static void test_stopped_waiter(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(ways); i++) {
		if (rlcrowd_way_wanted(ways[i]))
			stopped_waiter_play(ways[i]);
	}
	if (!getenv("WAYS"))
		stopped_waiter_play(MIXED);
}

/* Stopped beyond its own deadline: it comes back with the lock or with a time-out, never with neither or both. */
static void overslept_play(uint32_t way)
{
	assert_int_equal(rlcrowd_make(&crowd, 3), 0);
	holder_start(0, way);
	waiters_start(1, 1, way, SHORT_MS);
	OK(rlcrowd_await_started(&crowd, 1));
	(void)usleep(SHORT_MS * 500);
	rlcrowd_signal(&crowd, 1, SIGSTOP);
	OK(rlcrowd_tell(&crowd, 0, RLCROWD_LEAVE));
	OK(rlcrowd_await_state(&crowd, 0, RLCROWD_DONE));
	berth_sleep_ns(2 * SHORT_MS * BERTH_NS_PER_MS, UINT64_MAX);
	rlcrowd_signal(&crowd, 1, SIGCONT);
	OK(rlcrowd_judge(&crowd));
	assert_int_equal(crowd.members[1].entered_count + crowd.members[1].timeout_count, 1);
	rlcrowd_end(&crowd);
}

static void test_overslept(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(ways); i++) {
		if (rlcrowd_way_wanted(ways[i]))
			overslept_play(ways[i]);
	}
}

/* A program ends, or becomes another one, while one of its threads waits: the wait ends with it. */
static void gone_play(uint32_t way, enum rlcrowd_word how)
{
	enum { GOING = 8, STAYING = 4 };

	assert_int_equal(rlcrowd_make(&crowd, 1 + GOING + STAYING), 0);
	holder_start(0, way);
	for (uint32_t i = 1; i <= GOING + STAYING; i++) {
		struct rlcrowd_plan plan = waiter_plan(way, RLCROWD_WAIT_MS);

		plan.can_go = i <= GOING;
		OK(rlcrowd_start(&crowd, i, 1, &plan));
	}
	OK(rlcrowd_await_waiting(&crowd, 1, GOING + STAYING));
	for (uint32_t i = 1; i <= GOING; i++)
		OK(rlcrowd_tell(&crowd, i, how));
	OK(rlcrowd_tell(&crowd, 0, RLCROWD_LEAVE));
	OK(rlcrowd_judge(&crowd));
	entered(1 + GOING, STAYING, 1);
	rlcrowd_end(&crowd);
}

static void test_gone_while_waiting(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(ways); i++) {
		if (!rlcrowd_way_wanted(ways[i]))
			continue;
		gone_play(ways[i], RLCROWD_EXIT);
		gone_play(ways[i], RLCROWD_EXEC);
	}
}

static uint32_t entry_count(const char *dir)
{
	DIR *d = opendir(dir);
	uint32_t count = 0;

	assert_non_null(d);
	while (readdir(d))
		count++;
	(void)closedir(d); /* only read */
	return count;
}

static uint32_t line_count(const char *path)
{
	FILE *f = fopen(path, "re");
	uint32_t count = 0;

	assert_non_null(f);
	for (int c; (c = fgetc(f)) != EOF;)
		count += c == '\n';
	(void)fclose(f); /* only read */
	return count;
}

/* 200 waits in vain leave the program as it was: no descriptor, no mapping, no child. This is the one test
 * where the crowd's maker waits itself. */
static void vain_play(uint32_t way)
{
	struct berth_recordlock_options options = { .size = sizeof options, .way = way };
	struct berth_recordlock *lock = NULL;
	uint32_t fds = 0, maps = 0;
	char text[16];

	assert_int_equal(rlcrowd_make(&crowd, 1), 0);
	holder_start(0, way);
	assert_int_equal(berth_recordlock_open(crowd.path, &options, &lock), 0);
	for (int i = 0; i < 200; i++) {
		struct berth_recordlock_owner owner = { 0 };

		assert_int_equal(berth_recordlock_take(lock, i % 4, &owner), -ETIMEDOUT);
		assert_int_equal(owner.pid, crowd.members[0].outer_pid);
		if (i == 100) { /* what is made once, is there */
			fds = entry_count("/proc/self/fd");
			maps = line_count("/proc/self/maps");
		}
	}
	assert_int_equal(entry_count("/proc/self/fd"), fds);
	assert_int_equal(line_count("/proc/self/maps"), maps);
	FILE *f = fopen("/proc/thread-self/children", "re");
	if (f) {
		assert_non_null(fgets(text, sizeof text, f));
		assert_int_equal(strtol(text, NULL, 10), crowd.members[0].outer_pid);
		assert_int_equal(fgetc(f), EOF); /* and no other */
		(void)fclose(f);                 /* only read */
	}
	berth_recordlock_close(lock);
	OK(rlcrowd_tell(&crowd, 0, RLCROWD_LEAVE));
	OK(rlcrowd_judge(&crowd));
	rlcrowd_end(&crowd);
}

static void test_waits_in_vain(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(ways); i++) {
		if (rlcrowd_way_wanted(ways[i]))
			vain_play(ways[i]);
	}
}

/* Threads of several processes on one byte; every process forks children meanwhile that try to give back what is not
 * theirs; one process is killed with all its threads. */
static void threads_play(uint32_t way)
{
	enum { PROCESSES = 4, THREADS = 8 };

	assert_int_equal(rlcrowd_make(&crowd, (PROCESSES + 1) * THREADS), 0);
	for (uint32_t i = 0; i <= PROCESSES; i++) {
		const struct rlcrowd_plan plan = {
			.way = way_of(way, i),
			.timeout_ms = RLCROWD_WAIT_MS,
			.round_count = i < PROCESSES ? 40 * run_count() : RLCROWD_FOR_EVER,
			.hold_max_us = 100,
			.forks_all_the_time = true,
		};

		OK(rlcrowd_start(&crowd, i * THREADS, THREADS, &plan));
	}
	for (uint32_t i = 0; i < THREADS; i++)
		OK(rlcrowd_await_entries(&crowd, PROCESSES * THREADS + i, 2));
	rlcrowd_kill(&crowd, PROCESSES * THREADS);
	OK(rlcrowd_judge(&crowd));
	entered(0, PROCESSES * THREADS, 40 * run_count());
	rlcrowd_end(&crowd);
}

static void test_threads_and_processes(void **state)
{
	(void)state;
	if (rlcrowd_way_wanted(BERTH_RECORDLOCK_BLOCK))
		threads_play(BERTH_RECORDLOCK_BLOCK);
	if (rlcrowd_way_wanted(BERTH_RECORDLOCK_POLL))
		threads_play(BERTH_RECORDLOCK_POLL);
	if (!getenv("WAYS"))
		threads_play(MIXED);
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
		cmocka_unit_test_teardown(test_death_inside, teardown),
		cmocka_unit_test_teardown(test_death_anywhere, teardown),
		cmocka_unit_test_teardown(test_death_in_queue, teardown),
		cmocka_unit_test_teardown(test_stopped_owner, teardown),
		cmocka_unit_test_teardown(test_stopped_waiter, teardown),
		cmocka_unit_test_teardown(test_overslept, teardown),
		cmocka_unit_test_teardown(test_gone_while_waiting, teardown),
		cmocka_unit_test_teardown(test_waits_in_vain, teardown),
		cmocka_unit_test_teardown(test_threads_and_processes, teardown),
	};

	luck = berth_clock_ns();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
