/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of device time: what a GPU gives to each of the processes that want it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/node/device_time.h"
#include "sim/node/timeline.h"

#define MS 1000000U

static int make(void **state)
{
	*state = calloc(1, sizeof(struct sim_timeline));
	return *state ? 0 : -1;
}

static int unmake(void **state)
{
	free(*state);
	return 0;
}

static void one_process_runs_in_order(void **state)
{
	struct sim_timeline *line = *state;
	uint64_t first, second;

	sim_timeline_advance(line, 100);
	first = sim_timeline_submit(line, 3, 50);
	second = sim_timeline_submit(line, 3, 70);
	assert_false(sim_timeline_done(line, 3, first));
	sim_timeline_advance(line, 149);
	assert_false(sim_timeline_done(line, 3, first));
	assert_int_equal(sim_timeline_least_wait(line, 3, first), 1);
	sim_timeline_advance(line, 150);
	assert_true(sim_timeline_done(line, 3, first));
	assert_false(sim_timeline_done(line, 3, second));
	sim_timeline_advance(line, 1000);
	assert_true(sim_timeline_done(line, 3, second));
	assert_int_equal(sim_timeline_when(line, 3, first), 150);
	assert_int_equal(sim_timeline_when(line, 3, second), 220);
	assert_int_equal(line->active_count, 0);
	assert_int_equal(line->busy_ns, 120);
}

static void idle_time_is_not_work(void **state)
{
	struct sim_timeline *line = *state;
	uint64_t mark;

	sim_timeline_submit(line, 0, 10);
	sim_timeline_advance(line, 500);
	mark = sim_timeline_submit(line, 0, 10);
	sim_timeline_advance(line, 1000);
	assert_int_equal(sim_timeline_when(line, 0, mark), 510);
	assert_int_equal(line->busy_ns, 20);
}

static void two_processes_share_evenly(void **state)
{
	struct sim_timeline *line = *state;
	uint64_t a = sim_timeline_submit(line, 0, 100);
	uint64_t b = sim_timeline_submit(line, 1, 300);

	/* Both until 200, then the second alone for the 200 it still wants. */
	sim_timeline_advance(line, 100);
	assert_int_equal(line->seats[0].served_ns, 50);
	assert_int_equal(line->seats[1].served_ns, 50);
	sim_timeline_advance(line, 1000);
	assert_int_equal(sim_timeline_when(line, 0, a), 200);
	assert_int_equal(sim_timeline_when(line, 1, b), 400);
	assert_int_equal(sim_timeline_when(line, 1, 50), 100);
}

static void a_late_comer_slows_from_then_on(void **state)
{
	struct sim_timeline *line = *state;
	uint64_t a = sim_timeline_submit(line, 0, 100);
	uint64_t b;

	sim_timeline_advance(line, 60);
	b = sim_timeline_submit(line, 7, 100);
	sim_timeline_advance(line, 10000);
	assert_int_equal(sim_timeline_when(line, 0, a), 140);
	assert_int_equal(sim_timeline_when(line, 7, b), 200);
	assert_int_equal(sim_timeline_when(line, 7, 20), 100);
}

static void looking_often_changes_nothing(void **state)
{
	struct sim_timeline *often = *state;
	struct sim_timeline *once = calloc(1, sizeof(*once));
	uint64_t a, b, now = 0;

	assert_non_null(once);
	sim_timeline_submit(once, 0, 5000);
	sim_timeline_submit(once, 1, 3000);
	sim_timeline_submit(once, 2, 7000);
	a = sim_timeline_submit(often, 0, 5000);
	b = sim_timeline_submit(often, 1, 3000);
	sim_timeline_submit(often, 2, 7000);
	while (now < 20000) {
		now += 7;
		sim_timeline_advance(often, now);
	}
	sim_timeline_advance(once, now);
	/* A step leaves less than one ns a process to the next. */
	assert_in_range(sim_timeline_when(often, 0, a), sim_timeline_when(once, 0, a) - 3,
			sim_timeline_when(once, 0, a) + 3);
	assert_in_range(sim_timeline_when(often, 1, b), sim_timeline_when(once, 1, b) - 3,
			sim_timeline_when(once, 1, b) + 3);
	assert_int_equal(often->busy_ns, 15000);
	free(once);
}

static void the_dead_leave_their_share(void **state)
{
	struct sim_timeline *line = *state;
	uint64_t a = sim_timeline_submit(line, 0, 100);

	sim_timeline_submit(line, 1, 1000);
	sim_timeline_advance(line, 100);
	sim_timeline_seat_reset(line, 1);
	sim_timeline_advance(line, 1000);
	assert_int_equal(sim_timeline_when(line, 0, a), 150);
	assert_int_equal(line->active_count, 0);
	assert_int_equal(line->seats[1].submitted_ns, 0);
}

static void use_is_told_by_window(void **state)
{
	struct sim_timeline *line = *state;

	sim_timeline_advance(line, 1000U * MS);
	sim_timeline_submit(line, 0, 250U * MS);
	sim_timeline_submit(line, 1, 250U * MS);
	sim_timeline_advance(line, 2000U * MS);
	assert_in_range(sim_timeline_use_pct(line, 1000U * MS), 48, 52);
	assert_in_range(sim_timeline_seat_use_pct(line, 0, 1000U * MS), 23, 27);
	assert_int_equal(sim_timeline_seat_use_pct(line, 2, 1000U * MS), 0);
	sim_timeline_advance(line, 4000U * MS);
	assert_int_equal(sim_timeline_use_pct(line, 1000U * MS), 0);
	sim_timeline_submit(line, 0, 60000ULL * MS);
	sim_timeline_advance(line, 9000ULL * MS);
	assert_int_equal(sim_timeline_use_pct(line, 1000U * MS), 100);
}

static void running_to_a_mark_takes_no_longer_than_it_must(void **state)
{
	struct sim_timeline *line = *state;
	uint64_t a = sim_timeline_submit(line, 0, 1000);

	sim_timeline_submit(line, 1, 400);
	sim_timeline_run_to(line, 0, a);
	assert_in_range(line->now_ns, 1400, 1404);
	assert_true(sim_timeline_done(line, 0, a));
}

static void old_kinks_are_forgotten_in_order(void **state)
{
	struct sim_timeline *line = *state;
	uint64_t marks[40];

	for (size_t i = 0; i < 40; i++) {
		sim_timeline_advance(line, 1000 * i);
		marks[i] = sim_timeline_submit(line, 0, 10);
	}
	sim_timeline_advance(line, 100000);
	for (size_t i = 0; i < 39; i++)
		assert_true(sim_timeline_when(line, 0, marks[i]) <=
			    sim_timeline_when(line, 0, marks[i + 1]));
	assert_int_equal(sim_timeline_when(line, 0, marks[39]), 39010);
	assert_int_equal(sim_timeline_when(line, 0, marks[35]), 35010);
}

/* Whoever held the lock was killed between any two writes. */
static void repair_makes_it_whole(void **state)
{
	struct sim_timeline *line = *state;

	sim_timeline_submit(line, 4, 100);
	sim_timeline_submit(line, 9, 100);
	line->active_count = 0;
	line->seats[9].served_ns = 150;
	sim_timeline_repair(line);
	assert_int_equal(line->active_count, 1);
	assert_int_equal(line->active[0], 4);
	sim_timeline_advance(line, 1000);
	assert_true(sim_timeline_done(line, 4, 100));
}

static void the_scale_is_a_decimal(void **state)
{
	static const char *const bad[] = { "", ".", "-1", "1e3", "1,5", "1001", "x", "1..2" };
	uint64_t ppm;

	(void)state;
	assert_int_equal(sim_time_parse_scale("1", &ppm), 0);
	assert_int_equal(ppm, 1000000);
	assert_int_equal(sim_time_parse_scale("0.25", &ppm), 0);
	assert_int_equal(ppm, 250000);
	assert_int_equal(sim_time_parse_scale("0", &ppm), 0);
	assert_int_equal(ppm, 0);
	assert_int_equal(sim_time_parse_scale("10.5", &ppm), 0);
	assert_int_equal(ppm, 10500000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_not_equal(sim_time_parse_scale(bad[i], &ppm), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_process_runs_in_order, make, unmake),
		cmocka_unit_test_setup_teardown(idle_time_is_not_work, make, unmake),
		cmocka_unit_test_setup_teardown(two_processes_share_evenly, make, unmake),
		cmocka_unit_test_setup_teardown(a_late_comer_slows_from_then_on, make, unmake),
		cmocka_unit_test_setup_teardown(looking_often_changes_nothing, make, unmake),
		cmocka_unit_test_setup_teardown(the_dead_leave_their_share, make, unmake),
		cmocka_unit_test_setup_teardown(use_is_told_by_window, make, unmake),
		cmocka_unit_test_setup_teardown(running_to_a_mark_takes_no_longer_than_it_must,
						make, unmake),
		cmocka_unit_test_setup_teardown(old_kinks_are_forgotten_in_order, make, unmake),
		cmocka_unit_test_setup_teardown(repair_makes_it_whole, make, unmake),
		cmocka_unit_test(the_scale_is_a_decimal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
