/* SPDX-License-Identifier: Apache-2.0
 *
 * The judge sees what it is for, and condemns nobody who is innocent: small time lines written by
 * hand. Limits are {bytes, change's call, change's return}.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "judge.h"

#define LIMIT 100

static struct judge_verdict judge_under(struct judge_log *logs, uint32_t count,
					const struct judge_limit *list, uint32_t limit_count)
{
	struct judge_limits limits = { .count = limit_count, .list = list };
	struct judge_verdict verdict;

	assert_int_equal(judge_decide(logs, count, &limits, &verdict), 0);
	return verdict;
}

static struct judge_verdict judge(struct judge_log *logs, uint32_t count)
{
	struct judge_limit limit = { .bytes = LIMIT };

	return judge_under(logs, count, &limit, 1);
}

/* {bytes, ask's call, granted, refused, refund's call, refund's return} */
static void test_overshoot(void **state)
{
	struct judge_note a = { 60, 10, 20, 0, 50, 60 };
	struct judge_note b = { 41, 15, 30, 0, 70, 80 };
	struct judge_log logs[2] = { { .note_count = 1, .notes = &a },
				     { .note_count = 1, .notes = &b } };

	(void)state;
	assert_int_equal(judge(logs, 2).overshoot_bytes, 1);
	assert_int_equal(judge(logs, 2).held_max_bytes, 101);
	b.granted_ns = 50; /* a may have been refunded by then */
	assert_int_equal(judge(logs, 2).overshoot_bytes, 0);
	b.granted_ns = 49;
	assert_int_equal(judge(logs, 2).overshoot_bytes, 1);
}

static void test_overshoot_by_the_killed(void **state)
{
	struct judge_note a = { 60, 10, 20, 0, 0, 0 };
	struct judge_note b = { 50, 25, 40, 0, 70, 80 };
	struct judge_log logs[2] = {
		{ .killed_ns = 41, .gone_ns = 45, .note_count = 1, .notes = &a },
		{ .note_count = 1, .notes = &b }
	};

	(void)state;
	assert_int_equal(judge(logs, 2).overshoot_bytes, 10);
	logs[0].killed_ns = 40; /* it may have been dead at the grant */
	assert_int_equal(judge(logs, 2).overshoot_bytes, 0);
}

static void test_false_refusal(void **state)
{
	struct judge_note a = { 60, 10, 20, 0, 50, 60 };
	struct judge_note b = { 41, 61, 0, 70, 0, 0 };
	struct judge_log logs[2] = { { .note_count = 1, .notes = &a },
				     { .note_count = 1, .notes = &b } };

	(void)state;
	assert_int_equal(judge(logs, 2).false_refusal_count, 1);
	b.ask_call_ns = 60; /* the refund returned at that instant */
	assert_int_equal(judge(logs, 2).false_refusal_count, 0);
	b.bytes = 40; /* there was room beside a, all the while */
	assert_int_equal(judge(logs, 2).false_refusal_count, 1);
	b.bytes = 101; /* there never is */
	assert_int_equal(judge(logs, 2).false_refusal_count, 0);
}

/* Room at the call and at the refusal, but not in between: justified. */
static void test_refusal_in_between(void **state)
{
	struct judge_note a = { 60, 30, 31, 0, 32, 33 };
	struct judge_note b = { 41, 10, 0, 70, 0, 0 };
	struct judge_log logs[2] = { { .note_count = 1, .notes = &a },
				     { .note_count = 1, .notes = &b } };

	(void)state;
	assert_int_equal(judge(logs, 2).false_refusal_count, 0);
	b.refused_ns = 29;
	assert_int_equal(judge(logs, 2).false_refusal_count, 1);
	/* Another's refused ask held nothing. */
	a = (struct judge_note){ 60, 20, 0, 25, 0, 0 };
	assert_int_equal(judge(logs, 2).false_refusal_count, 2);
}

/* A killed process's bytes justify a refusal until its end was seen, not longer. */
static void test_refusal_beside_the_killed(void **state)
{
	struct judge_note a = { 60, 10, 0, 0, 0, 0 }; /* killed in its ask */
	struct judge_note b = { 41, 45, 0, 70, 0, 0 };
	struct judge_log logs[2] = {
		{ .killed_ns = 41, .gone_ns = 45, .note_count = 1, .notes = &a },
		{ .note_count = 1, .notes = &b }
	};

	(void)state;
	assert_int_equal(judge(logs, 2).false_refusal_count, 0);
	b.ask_call_ns = 46;
	assert_int_equal(judge(logs, 2).false_refusal_count, 1);
}

static void test_counts(void **state)
{
	struct judge_note notes[3] = { { 60, 10, 20, 0, 50, 60 },
				       { 90, 70, 0, 75, 0, 0 },
				       { 10, 80, 0, 0, 0, 0 } };
	struct judge_log log = { .note_count = 3, .notes = notes };
	struct judge_verdict verdict = judge(&log, 1);

	(void)state;
	assert_int_equal(verdict.ask_count, 3);
	assert_int_equal(verdict.grant_count, 1);
	assert_int_equal(verdict.refusal_count, 1);
	log.note_count = 0;
	assert_int_equal(judge(&log, 1).ask_count, 0);
}

/* Held before the limit was lowered below it: legal. Granted after it: not, however small. */
static void test_lowered_below(void **state)
{
	struct judge_note a = { 60, 10, 20, 0, 80, 90 };
	struct judge_note b = { 1, 51, 55, 0, 70, 75 };
	struct judge_log logs[2] = { { .note_count = 1, .notes = &a },
				     { .note_count = 1, .notes = &b } };
	struct judge_limit limits[2] = { { LIMIT, 0, 0 }, { 50, 40, 50 } };

	(void)state;
	assert_int_equal(judge_under(logs, 1, limits, 2).overshoot_bytes, 0);
	assert_int_equal(judge_under(logs, 1, limits, 2).below_count, 1);
	assert_int_equal(judge_under(logs, 2, limits, 2).overshoot_bytes, 11);
	b.ask_call_ns = 50; /* the old limit may have been in force at that instant */
	assert_int_equal(judge_under(logs, 2, limits, 2).overshoot_bytes, 0);
	b.ask_call_ns = 51;
	a.refund_call_ns = 55; /* it fits again */
	assert_int_equal(judge_under(logs, 2, limits, 2).overshoot_bytes, 0);
	limits[1].bytes = 60;
	a.refund_call_ns = 80;
	assert_int_equal(judge_under(logs, 2, limits, 2).overshoot_bytes, 1);
	limits[1].bytes = 61;
	assert_int_equal(judge_under(logs, 2, limits, 2).overshoot_bytes, 0);
	assert_int_equal(judge_under(logs, 2, limits, 2).below_count, 0);
}

/* Either of two asks may have been the last to be granted; if one of them called before the limit
 * was lowered, nobody is condemned. */
static void test_lowered_between_two(void **state)
{
	struct judge_note a = { 60, 30, 60, 0, 80, 90 };
	struct judge_note b = { 30, 51, 55, 0, 70, 75 };
	struct judge_log logs[2] = { { .note_count = 1, .notes = &a },
				     { .note_count = 1, .notes = &b } };
	struct judge_limit limits[2] = { { LIMIT, 0, 0 }, { 50, 40, 50 } };

	(void)state;
	assert_int_equal(judge_under(logs, 2, limits, 2).overshoot_bytes, 0);
	a.granted_ns = 50; /* before b called: so b was the last */
	assert_int_equal(judge_under(logs, 2, limits, 2).overshoot_bytes, 40);
	a.granted_ns = 60;
	a.ask_call_ns = 52; /* both called under the new limit */
	assert_int_equal(judge_under(logs, 2, limits, 2).overshoot_bytes, 40);
	a.ask_call_ns = 30;
	b.bytes = 41; /* over the old one too */
	assert_int_equal(judge_under(logs, 2, limits, 2).overshoot_bytes, 1);
}

/* A raised limit is possible from its change's call on, and owed from its return on. */
static void test_raised(void **state)
{
	struct judge_note a = { 60, 10, 20, 0, 80, 90 };
	struct judge_note b = { 30, 25, 39, 0, 70, 75 };
	struct judge_log logs[2] = { { .note_count = 1, .notes = &a },
				     { .note_count = 1, .notes = &b } };
	struct judge_limit limits[2] = { { 60, 0, 0 }, { LIMIT, 40, 50 } };

	(void)state;
	assert_int_equal(judge_under(logs, 2, limits, 2).overshoot_bytes, 30);
	b.granted_ns = 40;
	assert_int_equal(judge_under(logs, 2, limits, 2).overshoot_bytes, 0);
	b = (struct judge_note){ 30, 50, 0, 55, 0, 0 };
	assert_int_equal(judge_under(logs, 2, limits, 2).false_refusal_count, 0);
	b.ask_call_ns = 51;
	assert_int_equal(judge_under(logs, 2, limits, 2).false_refusal_count, 1);
	b.bytes = 41; /* beyond the new one */
	assert_int_equal(judge_under(logs, 2, limits, 2).false_refusal_count, 0);
}

/* Too little room before the raise for what was held later, too much held later for the limit
 * before: at no instant was there no room. */
static void test_refusal_by_two_instants(void **state)
{
	struct judge_note a = { 60, 60, 61, 0, 80, 90 };
	struct judge_note b = { 30, 10, 0, 70, 0, 0 };
	struct judge_log logs[2] = { { .note_count = 1, .notes = &a },
				     { .note_count = 1, .notes = &b } };
	struct judge_limit limits[2] = { { 50, 0, 0 }, { LIMIT, 40, 50 } };

	(void)state;
	assert_int_equal(judge_under(logs, 2, limits, 2).false_refusal_count, 1);
	a.ask_call_ns = 50; /* the old limit may have been in force when a was charged */
	assert_int_equal(judge_under(logs, 2, limits, 2).false_refusal_count, 0);
}

/* Lowered and raised again within the ask: the refusal is justified. */
static void test_refusal_in_a_dip(void **state)
{
	struct judge_note a = { 60, 10, 20, 0, 80, 90 };
	struct judge_note b = { 30, 25, 0, 70, 0, 0 };
	struct judge_log logs[2] = { { .note_count = 1, .notes = &a },
				     { .note_count = 1, .notes = &b } };
	struct judge_limit limits[3] = { { LIMIT, 0, 0 }, { 80, 40, 41 }, { LIMIT, 50, 51 } };

	(void)state;
	assert_int_equal(judge_under(logs, 2, limits, 3).false_refusal_count, 0);
	b.ask_call_ns = 52;
	assert_int_equal(judge_under(logs, 2, limits, 3).false_refusal_count, 1);
	b.ask_call_ns = 25;
	b.refused_ns = 39;
	assert_int_equal(judge_under(logs, 2, limits, 3).false_refusal_count, 1);
	b.refused_ns = 40; /* the change had been called */
	assert_int_equal(judge_under(logs, 2, limits, 3).false_refusal_count, 0);
	limits[1].bytes = 90; /* there is room all the while */
	assert_int_equal(judge_under(logs, 2, limits, 3).false_refusal_count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overshoot),
		cmocka_unit_test(test_overshoot_by_the_killed),
		cmocka_unit_test(test_false_refusal),
		cmocka_unit_test(test_refusal_in_between),
		cmocka_unit_test(test_refusal_beside_the_killed),
		cmocka_unit_test(test_lowered_below),
		cmocka_unit_test(test_lowered_between_two),
		cmocka_unit_test(test_raised),
		cmocka_unit_test(test_refusal_by_two_instants),
		cmocka_unit_test(test_refusal_in_a_dip),
		cmocka_unit_test(test_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
