/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that ask at once. Never over, never a false refusal, whoever is killed or stopped.
 * PROCS=N scales the number of processes; ASKS=N is how often the contest under changing limits
 * asks in all (in rounds of a million, each in a region of its own).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "contest.h"
#include "region/ledger.h"

#define MIB ((uint64_t)1 << 20)

enum { ROUNDS = 200 };

static char path[128];

static uint32_t procs_or(uint32_t count)
{
	const char *text = getenv("PROCS");
	long wanted = text ? strtol(text, NULL, 10) : 0;

	return wanted > 1 && wanted <= 512 ? (uint32_t)wanted : count;
}

static uint64_t asks_or(uint64_t count)
{
	const char *text = getenv("ASKS");
	unsigned long long wanted = text ? strtoull(text, NULL, 10) : 0;

	return wanted > 0 ? wanted : count;
}

static struct judge_verdict contest_judge(struct contest contest)
{
	struct contest_result result;

	contest.region_path = path;
	assert_int_equal(contest_run(&contest, &result), 0);
	const struct judge_verdict *verdict = &result.verdict;
	print_message(
		"%llu asks, %llu granted, %llu refused, %u killed, most held %llu of %llu, "
		"the limit %llu times lowered below it, %llu ms\n",
		(unsigned long long)verdict->ask_count, (unsigned long long)verdict->grant_count,
		(unsigned long long)verdict->refusal_count, result.killed_count,
		(unsigned long long)verdict->held_max_bytes,
		(unsigned long long)contest.limit_bytes, (unsigned long long)verdict->below_count,
		(unsigned long long)(result.elapsed_ns / BERTH_NS_PER_MS));
	assert_string_equal(result.broken, "");
	assert_int_equal(result.failed_count, 0);
	assert_int_equal(verdict->overshoot_bytes, 0);
	assert_int_equal(verdict->false_refusal_count, 0);
	assert_int_equal(result.left_charged_bytes, 0);
	/* Else nothing was contested. */
	assert_true(verdict->grant_count > 0);
	assert_true(verdict->refusal_count > 0);
	return *verdict;
}

static void test_contest(void **state)
{
	(void)state;
	(void)contest_judge((struct contest){
		.process_count = procs_or(64),
		.asks_per_thread = 3000,
		.limit_bytes = 1024 * MIB,
		.ask_max_bytes = 64 * MIB,
		.seed = 1,
	});
}

/* Few large asks: most of the time only one fits, so undecided asks are in each other's way. */
static void test_contest_for_one_place(void **state)
{
	(void)state;
	(void)contest_judge((struct contest){
		.process_count = procs_or(16),
		.asks_per_thread = 4000,
		.limit_bytes = 100 * MIB,
		.ask_max_bytes = 90 * MIB,
		.seed = 2,
	});
}

static void test_contest_with_kills(void **state)
{
	(void)state;
	(void)contest_judge((struct contest){
		.process_count = procs_or(64),
		.asks_per_thread = 6000,
		.limit_bytes = 1024 * MIB,
		.ask_max_bytes = 64 * MIB,
		.kill_count = 150,
		.seed = 3,
	});
}

static void test_contest_with_kills_and_stops(void **state)
{
	(void)state;
	(void)contest_judge((struct contest){
		.process_count = procs_or(16),
		.asks_per_thread = 20000,
		.limit_bytes = 200 * MIB,
		.ask_max_bytes = 150 * MIB,
		.kill_count = 80,
		.stop_count = 40,
		.seed = 4,
	});
}

/* Threads that share their process's seat, asks of all magnitudes up to the whole limit, and the
 * limit lowered, also below what is charged, and raised meanwhile. */
static void test_contest_under_changing_limits(void **state)
{
	enum { THREADS = 4, ROUND_ASKS = 1000000 };
	uint64_t asks_left = asks_or(ROUND_ASKS);
	uint64_t below_count = 0;
	uint32_t processes = procs_or(64);

	(void)state;
	for (uint32_t round = 0; asks_left; round++) {
		uint64_t asks = asks_left < ROUND_ASKS ? asks_left : ROUND_ASKS;
		struct judge_verdict verdict = contest_judge((struct contest){
			.process_count = processes,
			.thread_count = THREADS,
			.asks_per_thread = (uint32_t)(asks / (processes * THREADS)) + 1,
			.limit_bytes = 1024 * MIB,
			.ask_max_bytes = 1024 * MIB,
			.ask_any_scale = true,
			.kill_count = 100,
			.stop_count = 30,
			.change_count = 400,
			.seed = 5 + round,
		});

		below_count += verdict.below_count;
		asks_left -= verdict.ask_count < asks_left ? verdict.ask_count : asks_left;
	}
	assert_true(below_count > 0);
}

/* The same where nearly every ask is in others' way. */
static void test_contest_for_one_place_under_changing_limits(void **state)
{
	(void)state;
	(void)contest_judge((struct contest){
		.process_count = procs_or(16),
		.thread_count = 2,
		.asks_per_thread = 4000,
		.limit_bytes = 100 * MIB,
		.ask_max_bytes = 90 * MIB,
		.kill_count = 40,
		.stop_count = 20,
		.change_count = 200,
		.seed = 6,
	});
}

/* One meeting place for a number of processes, round by round. */
struct barrier {
	_Atomic uint32_t arrived[2 * ROUNDS];
	_Atomic uint32_t granted[ROUNDS];
	_Atomic uint32_t refused[ROUNDS];
	_Atomic uint32_t failures;
};

static void meet(_Atomic uint32_t *arrived, uint32_t count)
{
	atomic_fetch_add(arrived, 1);
	while (atomic_load(arrived) < count)
		(void)sched_yield(); /* always succeeds */
}

static int rounds_play(struct barrier *barrier, uint32_t count)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody outlives a test that failed */
	if (berth_region_join(path, NULL, 0, &region, NULL, NULL) < 0 ||
	    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0)
		return 1;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		meet(&barrier->arrived[2 * i], count);
		int r = berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 600 * MIB);
		if (r == 0) {
			struct berth_ledger_room room = { 0 };

			atomic_fetch_add(&barrier->granted[i], 1);
			/* As if the driver took its time. */
			berth_sleep_ns(BERTH_NS_PER_MS / 10, UINT64_MAX);
			if (berth_ledger_room(region, 0, &room) < 0 ||
			    room.charged_bytes != 600 * MIB)
				atomic_fetch_add(&barrier->failures, 1);
		} else if (r == -ENOMEM) {
			atomic_fetch_add(&barrier->refused[i], 1);
		}
		meet(&barrier->arrived[2 * i + 1], count);
		if (r == 0)
			berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, 600 * MIB);
	}
	berth_seat_leave(seat);
	berth_region_close(region);
	return 0;
}

/* 1024M; each asks for 600M at a barrier: exactly one gets it, in each of 200 rounds. */
static void one_grant_per_round(uint32_t count)
{
	struct berth_region_spec spec = { .gpu_count = 1, .priority = 1 };
	struct berth_region *region = NULL;
	struct berth_ledger_room room = { 0 };
	struct barrier *barrier = mmap(NULL, sizeof *barrier, PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	spec.gpus[0].memory_limit_bytes = 1024 * MIB;
	assert_int_equal(berth_region_join(path, &spec, 0, &region, NULL, NULL), 0);
	for (uint32_t i = 0; i < count; i++) {
		if (fork() == 0)
			_exit(rounds_play(barrier, count));
	}
	for (uint32_t i = 0; i < count; i++) {
		int status = 0;

		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	for (uint32_t i = 0; i < ROUNDS; i++) {
		assert_int_equal(atomic_load(&barrier->granted[i]), 1);
		assert_int_equal(atomic_load(&barrier->refused[i]), count - 1);
	}
	assert_int_equal(atomic_load(&barrier->failures), 0);
	assert_int_equal(berth_ledger_room(region, 0, &room), 0);
	assert_int_equal(room.charged_bytes, 0);
	berth_region_close(region);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(munmap(barrier, sizeof *barrier), 0);
}

static void test_two_at_a_barrier(void **state)
{
	(void)state;
	one_grant_per_round(2);
}

static void test_eight_at_a_barrier(void **state)
{
	(void)state;
	one_grant_per_round(procs_or(8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_at_a_barrier),
		cmocka_unit_test(test_eight_at_a_barrier),
		cmocka_unit_test(test_contest),
		cmocka_unit_test(test_contest_for_one_place),
		cmocka_unit_test(test_contest_with_kills),
		cmocka_unit_test(test_contest_with_kills_and_stops),
		cmocka_unit_test(test_contest_under_changing_limits),
		cmocka_unit_test(test_contest_for_one_place_under_changing_limits),
	};

	(void)snprintf(path, sizeof path, "%s/berth-race-%ld.cache",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(path); /* there only after a failure */
	return failed;
}
