/* SPDX-License-Identifier: Apache-2.0
 *
 * What a context took, from two looks at a GPU that neighbours use meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "interpose/growth.h"

#define MIB (1ULL << 20)

/* A test looks a few times at a few processes. */
static struct berth_growth_look look(uint64_t used, unsigned int count, const uint64_t pairs[][2])
{
	static struct berth_process_entry entries[64][8];
	static unsigned int next;
	struct berth_growth_look seen = { .used_bytes = used };

	seen.processes.count = count;
	seen.processes.entries = entries[next++ % 64];
	for (unsigned int i = 0; i < count; i++) {
		seen.processes.entries[i].pid = (unsigned int)pairs[i][0];
		seen.processes.entries[i].bytes = pairs[i][1];
	}
	return seen;
}

static void own_pid_known_neighbours_do_not_matter(void **state)
{
	const uint64_t first[][2] = { { 100, 500 * MIB } };
	const uint64_t then[][2] = { { 100, 3000 * MIB }, { 7, 96 * MIB } };
	const uint64_t again[][2] = { { 7, 96 * MIB }, { 7, 96 * MIB }, { 100, 1 * MIB } };
	struct berth_growth_look before = look(500 * MIB, 1, first);
	struct berth_growth_look after = look(3096 * MIB, 2, then);
	struct berth_growth_look second = look(193 * MIB, 3, again);

	(void)state;
	assert_int_equal(berth_growth_between(&before, &after, 7), 96 * MIB);
	/* A process with two contexts is listed twice. */
	assert_int_equal(berth_growth_between(&after, &second, 7), 96 * MIB);
}

/* NVML lists us late: what is left when the neighbours' growth is taken off. */
static void own_pid_known_but_not_listed_yet(void **state)
{
	const uint64_t first[][2] = { { 100, 500 * MIB } };
	const uint64_t then[][2] = { { 100, 600 * MIB }, { 200, 50 * MIB }, { 200, 20 * MIB } };
	struct berth_growth_look before = look(500 * MIB, 1, first);
	struct berth_growth_look after = look(766 * MIB, 3, then);
	struct berth_growth_look full = look(9000 * MIB, 3, then);
	struct berth_growth_look behind = look(510 * MIB, 3, then);

	(void)state;
	assert_int_equal(berth_growth_between(&before, &after, 7), 96 * MIB);
	assert_int_equal(berth_growth_between(&before, &full, 7), 512 * MIB);
	assert_int_equal(berth_growth_between(&before, &behind, 7), 0);
}

static void own_pid_unknown_a_neighbours_growth_is_not_charged(void **state)
{
	const uint64_t first[][2] = { { 100, 500 * MIB }, { 200, 10 * MIB } };
	const uint64_t then[][2] = { { 100, 2548 * MIB }, { 200, 10 * MIB }, { 7, 96 * MIB } };
	struct berth_growth_look before = look(510 * MIB, 2, first);
	struct berth_growth_look after = look(2654 * MIB, 3, then);

	(void)state;
	assert_int_equal(berth_growth_between(&before, &after, 0), 96 * MIB);
}

/* A context that took nothing: who else grew meanwhile isn't charged for it. */
static void own_pid_unknown_a_context_of_nothing(void **state)
{
	const uint64_t first[][2] = { { 100, 500 * MIB } };
	const uint64_t then[][2] = { { 100, 559 * MIB }, { 7, 0 } };
	struct berth_growth_look before = look(500 * MIB, 1, first);
	struct berth_growth_look after = look(559 * MIB, 2, then);

	(void)state;
	assert_int_equal(berth_growth_between(&before, &after, 0), 0);
}

static void nobody_listed_the_gpus_difference_within_reason(void **state)
{
	struct berth_growth_look before = look(500 * MIB, 0, NULL);
	struct berth_growth_look after = look(596 * MIB, 0, NULL);
	struct berth_growth_look much = look(5000 * MIB, 0, NULL);

	(void)state;
	assert_int_equal(berth_growth_between(&before, &after, 0), 96 * MIB);
	assert_int_equal(berth_growth_between(&before, &after, 7), 96 * MIB);
	assert_int_equal(berth_growth_between(&before, &much, 0), 512 * MIB);
	assert_int_equal(berth_growth_between(&after, &before, 0), 0);
}

static void what_is_charged_by_itself_meanwhile_is_taken_off(void **state)
{
	const uint64_t first[][2] = { { 7, 500 * MIB } };
	const uint64_t more[][2] = { { 7, 796 * MIB } };
	const uint64_t fewer[][2] = { { 7, 396 * MIB } };
	struct berth_growth_look before = look(500 * MIB, 1, first);
	struct berth_growth_look after = look(796 * MIB, 1, more);
	struct berth_growth_look freed = look(396 * MIB, 1, fewer);

	(void)state;
	before.charged_bytes = 300 * MIB;
	after.charged_bytes = 500 * MIB;
	freed.charged_bytes = 100 * MIB;
	for (unsigned int own_pid = 0; own_pid <= 7; own_pid += 7) {
		assert_int_equal(berth_growth_between(&before, &after, own_pid), 96 * MIB);
		assert_int_equal(berth_growth_between(&before, &freed, own_pid), 96 * MIB);
	}
	/* Asked for, not yet taken. */
	after.charged_bytes = 1500 * MIB;
	assert_int_equal(berth_growth_between(&before, &after, 7), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_pid_known_neighbours_do_not_matter),
		cmocka_unit_test(own_pid_known_but_not_listed_yet),
		cmocka_unit_test(own_pid_unknown_a_neighbours_growth_is_not_charged),
		cmocka_unit_test(own_pid_unknown_a_context_of_nothing),
		cmocka_unit_test(nobody_listed_the_gpus_difference_within_reason),
		cmocka_unit_test(what_is_charged_by_itself_meanwhile_is_taken_off),
	};

	return cmocka_run_group_tests_name("interpose: growth", tests, NULL, NULL);
}
