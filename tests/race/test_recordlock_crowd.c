/* SPDX-License-Identifier: Apache-2.0
 *
 * Crowds behind one record lock. Each waiter is seen waiting; then the owner is killed, or gives back: all get
 * through one after the other, each once, and nothing is left over. By each way to wait and by all of
 * them mixed on one byte; nobody who blocks naps, nobody who polls ever blocks.
 *
 * In the environment: RUNS=N, of each size (default 10, of the two largest sizes 2; the full form is
 * RUNS=10 everywhere); PROCS=N leaves out the sizes above N; WAYS="block poll bare mixed" leaves out others;
 * TMPDIR, where the file is. An argument: the pattern of the tests to run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/filesystem.h"
#include "recordlock_crowd.h"

enum { MIXED = 100 };
enum ending { GIVES, DIES };

static struct rlcrowd crowd;

#define OK(call)                                              \
	do {                                                  \
		int r_ = (call);                              \
		if (r_)                                       \
			fail_msg("%s: %s", #call, crowd.why); \
	} while (0)

static uint32_t way_of(uint32_t way, uint32_t slot)
{
	static const uint32_t ways[] = { BERTH_RECORDLOCK_BLOCK, BERTH_RECORDLOCK_POLL,
					 BERTH_RECORDLOCK_BARE };

	return way == MIXED ? ways[slot % 3] : way;
}

static uint32_t environment_count(const char *name, uint32_t otherwise)
{
	const char *text = getenv(name);

	return text ? (uint32_t)strtoul(text, NULL, 10) : otherwise;
}

static int by_entry(const void *a, const void *b)
{
	const struct rlcrowd_member *const *x = a, *const *y = b;

	return (*x)->enter_ns < (*y)->enter_ns ? -1 : (*x)->enter_ns > (*y)->enter_ns;
}

/* The second opinion, from the clock: no hold begins before the one before it ended. */
static void one_after_the_other(uint32_t slot, uint32_t count)
{
	const struct rlcrowd_member **order = calloc(count, sizeof(const struct rlcrowd_member *));

	assert_non_null(order);
	for (uint32_t i = 0; i < count; i++)
		order[i] = &crowd.members[slot + i];
	qsort(order, count, sizeof(const struct rlcrowd_member *), by_entry);
	for (uint32_t i = 0; i + 1 < count; i++)
		assert_true(order[i]->leave_ns <= order[i + 1]->enter_ns);
	free(order);
}

static void waited_as_it_should(const struct rlcrowd_member *member, uint32_t way)
{
	const struct berth_recordlock_trace *trace = &member->trace;

	assert_int_equal(trace->way, way);
	if (way == BERTH_RECORDLOCK_BLOCK) {
		assert_int_equal(trace->nap_count, 0);
		assert_true(trace->block_count >= 1);
	} else {
		assert_int_equal(trace->block_count, 0);
		assert_true(trace->nap_count >= 1);
		assert_true(trace->try_count >= 2);
	}
	if (way == BERTH_RECORDLOCK_BARE)
		assert_int_equal(trace->hint_count, 0);
	assert_int_equal(trace->lost_count, 0);
}

/* Each blocker was seen there, but need not be at this very moment. */
static void pollers_not_queued(uint32_t way, uint32_t count)
{
	if (way != MIXED && way != BERTH_RECORDLOCK_BLOCK)
		assert_int_equal(rlcrowd_queued_count(&crowd, 1, count), 0);
	for (uint32_t i = 1; way == MIXED && count <= 64 && i <= count; i++) {
		if (way_of(way, i) != BERTH_RECORDLOCK_BLOCK)
			assert_int_equal(rlcrowd_queued_count(&crowd, i, 1), 0);
	}
}

static void crowd_play(uint32_t count, uint32_t way, enum ending ending)
{
	struct rlcrowd_plan plan = { .way = way_of(way, 0),
				     .hold_until_told = true,
				     .round_count = 1 };

	assert_int_equal(rlcrowd_make(&crowd, count + 1), 0);
	OK(rlcrowd_start(&crowd, 0, 1, &plan));
	OK(rlcrowd_await_state(&crowd, 0, RLCROWD_INSIDE));
	for (uint32_t i = 1; i <= count; i++) {
		plan = (struct rlcrowd_plan){ .way = way_of(way, i),
					      .timeout_ms = RLCROWD_WAIT_MS,
					      .round_count = 1 };
		OK(rlcrowd_start(&crowd, i, 1, &plan));
	}
	OK(rlcrowd_await_waiting(&crowd, 1, count));
	assert_int_equal(rlcrowd_entry_count(&crowd), 1); /* the owner alone */
	pollers_not_queued(way, count);
	if (ending == DIES)
		rlcrowd_kill(&crowd, 0);
	else
		OK(rlcrowd_tell(&crowd, 0, RLCROWD_LEAVE));
	OK(rlcrowd_judge(&crowd));
	for (uint32_t i = 1; i <= count; i++) {
		assert_int_equal(crowd.members[i].entered_count, 1);
		waited_as_it_should(&crowd.members[i], way_of(way, i));
	}
	one_after_the_other(1, count);
	rlcrowd_end(&crowd);
}

static void crowds_play(uint32_t way, const char *name)
{
	static const uint32_t sizes[] = { 1, 2, 4, 16, 64, 300, 512 };
	uint32_t most = environment_count("PROCS", UINT32_MAX);

	if (way == MIXED ? getenv("WAYS") && !strstr(getenv("WAYS"), "mixed")
			 : !rlcrowd_way_wanted(way))
		skip();
	for (size_t i = 0; i < BERTH_ARRAY_LEN(sizes) && sizes[i] <= most; i++) {
		uint32_t run_count = environment_count("RUNS", sizes[i] <= 64 ? 10 : 2);
		uint64_t start_ns = berth_clock_ns();

		for (uint32_t run = 0; run < run_count; run++) {
			crowd_play(sizes[i], way, DIES);
			crowd_play(sizes[i], way, GIVES);
		}
		print_message("%s: %u waiters, %u deaths and %u gives: %.2f s\n", name, sizes[i],
			      run_count, run_count, (double)(berth_clock_ns() - start_ns) / 1e9);
	}
}

static void test_blockers(void **state)
{
	(void)state;
	crowds_play(BERTH_RECORDLOCK_BLOCK, "block");
}

static void test_pollers(void **state)
{
	(void)state;
	crowds_play(BERTH_RECORDLOCK_POLL, "poll");
}

static void test_mixed(void **state)
{
	(void)state;
	crowds_play(MIXED, "mixed");
}

/* Without hints each pause is slept through, so it takes seconds: one run of a small crowd says enough. */
static void test_bare_pollers(void **state)
{
	(void)state;
	if (!rlcrowd_way_wanted(BERTH_RECORDLOCK_BARE))
		skip();
	crowd_play(4, BERTH_RECORDLOCK_BARE, DIES);
	crowd_play(16, BERTH_RECORDLOCK_BARE, GIVES);
}

/* The environment decides where the options don't, and the file system's class where neither does. */
static void way_is(uint32_t way, const char *environment, uint32_t expected)
{
	const struct rlcrowd_plan plan = { .way = way, .round_count = 1 };

	assert_int_equal(environment ? setenv("BERTH_RECORDLOCK", environment, 1)
				     : unsetenv("BERTH_RECORDLOCK"),
			 0);
	assert_int_equal(rlcrowd_make(&crowd, 1), 0);
	OK(rlcrowd_start(&crowd, 0, 1, &plan));
	OK(rlcrowd_judge(&crowd));
	assert_int_equal(crowd.members[0].trace.way, expected);
	rlcrowd_end(&crowd);
}

static void test_way(void **state)
{
	const char *before = getenv("BERTH_RECORDLOCK");
	enum berth_fs_class class = BERTH_FS_UNKNOWN;
	const char *dir = getenv("TMPDIR");
	int fd = open(dir && *dir ? dir : "/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	if (fd < 0 || before)
		skip();
	assert_int_equal(berth_fs_class_of_fd(fd, &class), 0);
	(void)close(fd); /* only looked at */
	bool local = class == BERTH_FS_LOCAL || class == BERTH_FS_OVERLAY;
	print_message("the file system's class is %s\n", berth_fs_class_name(class));
	way_is(BERTH_RECORDLOCK_AUTO, NULL, local ? BERTH_RECORDLOCK_BLOCK : BERTH_RECORDLOCK_POLL);
	way_is(BERTH_RECORDLOCK_AUTO, "poll", BERTH_RECORDLOCK_POLL);
	way_is(BERTH_RECORDLOCK_BARE, "block", BERTH_RECORDLOCK_BARE);
	if (local)
		way_is(BERTH_RECORDLOCK_AUTO, "block", BERTH_RECORDLOCK_BLOCK);
	assert_int_equal(unsetenv("BERTH_RECORDLOCK"), 0);
}

/* As programs use it: nobody names a way. The owner stays for some seconds first, for those who look at the tries from
 * outside (tests/e2e/recordlock_trace.sh). */
static void test_auto(void **state)
{
	enum { WAITERS = 8 };
	struct rlcrowd_plan plan = { .hold_until_told = true, .round_count = 1 };

	(void)state;
	if (!rlcrowd_way_wanted(BERTH_RECORDLOCK_AUTO))
		skip();
	assert_int_equal(rlcrowd_make(&crowd, WAITERS + 1), 0);
	OK(rlcrowd_start(&crowd, 0, 1, &plan));
	OK(rlcrowd_await_state(&crowd, 0, RLCROWD_INSIDE));
	plan = (struct rlcrowd_plan){ .timeout_ms = RLCROWD_WAIT_MS, .round_count = 1 };
	for (uint32_t i = 1; i <= WAITERS; i++)
		OK(rlcrowd_start(&crowd, i, 1, &plan));
	OK(rlcrowd_await_waiting(&crowd, 1, WAITERS));
	berth_sleep_ns(2500 * BERTH_NS_PER_MS, UINT64_MAX);
	int64_t queued = rlcrowd_queued_count(&crowd, 1, WAITERS);
	rlcrowd_kill(&crowd, 0);
	OK(rlcrowd_judge(&crowd));
	for (uint32_t i = 1; i <= WAITERS; i++) {
		uint32_t way = crowd.members[i].trace.way;

		assert_true(way == BERTH_RECORDLOCK_BLOCK || way == BERTH_RECORDLOCK_POLL);
		waited_as_it_should(&crowd.members[i], way);
		if (way != BERTH_RECORDLOCK_BLOCK)
			assert_int_equal(queued, 0);
		assert_int_equal(crowd.members[i].entered_count, 1);
	}
	one_after_the_other(1, WAITERS);
	rlcrowd_end(&crowd);
}

/* A poller behind an owner that stays asks 20 times at most in any second, so 20 times a second begun; a patient one
 * far less often, but still. */
static void rate_play(uint32_t flags)
{
	enum { WAITERS = 8, TIMEOUT_MS = 3300, TRIES_PER_S = 20 };
	struct rlcrowd_plan plan = { .way = BERTH_RECORDLOCK_POLL,
				     .hold_until_told = true,
				     .round_count = 1 };

	assert_int_equal(rlcrowd_make(&crowd, WAITERS + 1), 0);
	OK(rlcrowd_start(&crowd, 0, 1, &plan));
	OK(rlcrowd_await_state(&crowd, 0, RLCROWD_INSIDE));
	plan = (struct rlcrowd_plan){ .timeout_ms = TIMEOUT_MS, .flags = flags, .round_count = 1 };
	for (uint32_t i = 1; i <= WAITERS; i++) {
		plan.way = i % 2 ? BERTH_RECORDLOCK_POLL : BERTH_RECORDLOCK_BARE;
		OK(rlcrowd_start(&crowd, i, 1, &plan));
	}
	OK(rlcrowd_await_waiting(&crowd, 1, WAITERS));
	pollers_not_queued(BERTH_RECORDLOCK_POLL, WAITERS);
	for (uint32_t i = 1; i <= WAITERS; i++) {
		const struct rlcrowd_member *member = &crowd.members[i];

		OK(rlcrowd_await_state(&crowd, i, RLCROWD_DONE));
		uint64_t begun_s = member->wait_ns / BERTH_NS_PER_S + 1;
		if (member->trace.try_count > begun_s * TRIES_PER_S)
			fail_msg("waiter %u (way %u): %llu tries in less than %llu s", i,
				 member->trace.way, (unsigned long long)member->trace.try_count,
				 (unsigned long long)begun_s);
		assert_true(member->trace.try_count >= 2);
		assert_int_equal(member->trace.block_count, 0);
		assert_int_equal(member->timeout_count, 1);
	}
	OK(rlcrowd_tell(&crowd, 0, RLCROWD_LEAVE));
	OK(rlcrowd_judge(&crowd));
	rlcrowd_end(&crowd);
}

static void test_try_rate(void **state)
{
	(void)state;
	if (!rlcrowd_way_wanted(BERTH_RECORDLOCK_POLL))
		skip();
	rate_play(0);
	rate_play(BERTH_RECORDLOCK_PATIENT);
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
		cmocka_unit_test_teardown(test_blockers, teardown),
		cmocka_unit_test_teardown(test_pollers, teardown),
		cmocka_unit_test_teardown(test_mixed, teardown),
		cmocka_unit_test_teardown(test_bare_pollers, teardown),
		cmocka_unit_test_teardown(test_way, teardown),
		cmocka_unit_test_teardown(test_auto, teardown),
		cmocka_unit_test_teardown(test_try_rate, teardown),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
