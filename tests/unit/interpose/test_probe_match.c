/* SPDX-License-Identifier: Apache-2.0
 *
 * Who of those that NVML lists are we? From four looks at what they use, with neighbours that come, go
 * and allocate meanwhile: the answer is the one that made our steps, or nobody.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "interpose/probe.h"

#define MIB    (1ULL << 20)
#define FIRST  (6 * MIB)
#define SECOND (10 * MIB)

#define LOOK(list)                                                            \
	(struct berth_process_list)                                           \
	{                                                                     \
		.count = sizeof(list) / sizeof((list)[0]), .entries = (list), \
	}

static unsigned int match(struct berth_process_list a, struct berth_process_list b,
			  struct berth_process_list c, struct berth_process_list d)
{
	const struct berth_process_list looks[BERTH_PROBE_LOOKS] = { a, b, c, d };

	return berth_probe_match(looks, FIRST, SECOND);
}

static void who_made_the_steps_is_found(void **state)
{
	struct berth_process_entry a[] = { { 100, 500 * MIB }, { 7, 96 * MIB } };
	struct berth_process_entry b[] = { { 7, 102 * MIB }, { 100, 500 * MIB } };
	struct berth_process_entry c[] = { { 100, 500 * MIB }, { 7, 112 * MIB } };

	(void)state;
	assert_int_equal(match(LOOK(a), LOOK(b), LOOK(c), LOOK(a)), 7);
}

/* One that starts, one that ends, one that allocates as much as we do once. */
static void neighbours_are_not_taken_for_us(void **state)
{
	struct berth_process_entry a[] = { { 100, 500 * MIB }, { 300, 50 * MIB }, { 7, 96 * MIB } };
	struct berth_process_entry b[] = {
		{ 200, FIRST }, { 100, 500 * MIB + FIRST }, { 300, 50 * MIB }, { 7, 102 * MIB }
	};
	struct berth_process_entry c[] = { { 200, FIRST + SECOND },
					   { 100, 500 * MIB + FIRST },
					   { 7, 112 * MIB } };
	struct berth_process_entry d[] = { { 100, 500 * MIB }, { 7, 96 * MIB } };

	(void)state;
	assert_int_equal(match(LOOK(a), LOOK(b), LOOK(c), LOOK(d)), 7);
}

/* We aren't listed yet; a neighbour grows by the very sizes, but keeps what it took. */
static void only_who_gives_back_is_us(void **state)
{
	struct berth_process_entry a[] = { { 100, 500 * MIB } };
	struct berth_process_entry b[] = { { 100, 500 * MIB + FIRST } };
	struct berth_process_entry c[] = { { 100, 500 * MIB + FIRST + SECOND } };

	(void)state;
	assert_int_equal(match(LOOK(a), LOOK(b), LOOK(c), LOOK(c)), 0);
	assert_int_equal(match(LOOK(a), LOOK(c), LOOK(b), LOOK(a)), 0);
	assert_int_equal(match(LOOK(a), LOOK(a), LOOK(a), LOOK(a)), 0);
}

static void two_that_made_the_steps_are_nobody(void **state)
{
	struct berth_process_entry a[] = { { 8, 96 * MIB }, { 7, 96 * MIB } };
	struct berth_process_entry b[] = { { 8, 102 * MIB }, { 7, 102 * MIB } };
	struct berth_process_entry c[] = { { 8, 112 * MIB }, { 7, 112 * MIB } };

	(void)state;
	assert_int_equal(match(LOOK(a), LOOK(b), LOOK(c), LOOK(a)), 0);
}

/* Listed once for each of its contexts; the driver may book on either. */
static void listed_twice_counts_once(void **state)
{
	struct berth_process_entry a[] = { { 7, 96 * MIB }, { 7, 90 * MIB } };
	struct berth_process_entry b[] = { { 7, 102 * MIB }, { 7, 90 * MIB } };
	struct berth_process_entry c[] = { { 7, 102 * MIB }, { 7, 100 * MIB } };
	struct berth_process_entry twice[] = { { 7, 102 * MIB }, { 7, 102 * MIB } };

	(void)state;
	assert_int_equal(match(LOOK(a), LOOK(b), LOOK(c), LOOK(a)), 7);
	assert_int_equal(match(LOOK(a), LOOK(twice), LOOK(c), LOOK(a)), 0);
}

/* Who comes into the list, or leaves it, in the middle of a round can't be told from a step. */
static void only_who_is_listed_all_the_time_is_judged(void **state)
{
	struct berth_process_entry none[] = { { 100, 1 } };
	struct berth_process_entry a[] = { { 7, 0 } };
	struct berth_process_entry b[] = { { 7, FIRST } };
	struct berth_process_entry c[] = { { 7, FIRST + SECOND } };

	(void)state;
	assert_int_equal(match(LOOK(none), LOOK(b), LOOK(c), LOOK(a)), 0);
	assert_int_equal(match(LOOK(a), LOOK(b), LOOK(c), LOOK(none)), 0);
	assert_int_equal(match(LOOK(a), LOOK(none), LOOK(c), LOOK(a)), 0);
	assert_int_equal(match(LOOK(a), LOOK(b), LOOK(c), LOOK(a)), 7);
}

static void nothing_listed_and_nothing_taken(void **state)
{
	struct berth_process_entry still[] = { { 7, 5 * MIB } };
	const struct berth_process_list none[BERTH_PROBE_LOOKS] = { { 0 } };
	const struct berth_process_list looks[BERTH_PROBE_LOOKS] = { LOOK(still), LOOK(still),
								     LOOK(still), LOOK(still) };

	(void)state;
	assert_int_equal(berth_probe_match(none, FIRST, SECOND), 0);
	assert_int_equal(berth_probe_match(looks, 0, 0), 0);
}

/* Figures at the end of their range wrap nowhere into a match. */
static void huge_figures(void **state)
{
	struct berth_process_entry a[] = { { 7, UINT64_MAX } };
	struct berth_process_entry b[] = { { 7, FIRST } };
	struct berth_process_entry c[] = { { 7, FIRST + SECOND } };

	(void)state;
	assert_int_equal(match(LOOK(a), LOOK(b), LOOK(c), LOOK(a)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_made_the_steps_is_found),
		cmocka_unit_test(neighbours_are_not_taken_for_us),
		cmocka_unit_test(only_who_gives_back_is_us),
		cmocka_unit_test(two_that_made_the_steps_are_nobody),
		cmocka_unit_test(listed_twice_counts_once),
		cmocka_unit_test(only_who_is_listed_all_the_time_is_judged),
		cmocka_unit_test(nothing_listed_and_nothing_taken),
		cmocka_unit_test(huge_figures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
