/* SPDX-License-Identifier: Apache-2.0
 *
 * What a walk of the file finds: nothing in a whole one, whoever works meanwhile; each planted damage by
 * its name; leftovers that aren't damage.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "region/ledger.h"
#include "region/map.h"
#include "scratch.h"

struct findings {
	uint32_t count[BERTH_FINDING_CLAMPED + 1];
	struct berth_finding last;
	char text[BERTH_REASON_MAX];
	int answer;
};

static int note(void *arg, const struct berth_finding *finding)
{
	struct findings *findings = arg;

	findings->count[finding->kind]++;
	findings->last = *finding;
	(void)snprintf(findings->text, sizeof findings->text, "%s", finding->text);
	return findings->answer;
}

static struct findings inspect(struct berth_region *region)
{
	struct findings findings = { .answer = 0 };

	assert_int_equal(berth_region_inspect(region, note, &findings), 0);
	return findings;
}

/* One finding, of this kind, at this place, in these words. */
static void assert_finds(struct berth_region *region, enum berth_finding_kind kind, int32_t seat,
			 const char *words)
{
	struct findings findings = inspect(region);
	uint32_t all = 0;

	for (size_t i = 0; i < sizeof findings.count / sizeof findings.count[0]; i++)
		all += findings.count[i];
	assert_int_equal(all, 1);
	assert_int_equal(findings.count[kind], 1);
	assert_int_equal(findings.last.seat, seat);
	if (!strstr(findings.text, words))
		fail_msg("'%s' where '%s' was expected", findings.text, words);
	assert_int_equal(berth_region_check(region, NULL),
			 kind == BERTH_FINDING_BROKEN ? -EUCLEAN : 0);
}

static void assert_finds_nothing(struct berth_region *region)
{
	struct findings findings = inspect(region);

	for (size_t i = 0; i < sizeof findings.count / sizeof findings.count[0]; i++)
		assert_int_equal(findings.count[i], 0);
}

static int hold_until_killed(void *arg)
{
	struct scratch *scratch = arg;
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	if (berth_region_join(scratch->path, NULL, 0, &region, NULL, NULL) < 0 ||
	    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0 ||
	    berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 3 * MIB) < 0)
		return 1;
	(void)raise(SIGKILL);
	return 2;
}

static void test_whole_and_dead(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);

	assert_finds_nothing(region);
	pid_t pid = child_start(hold_until_killed, scratch);
	assert_int_equal(child_end(pid), -SIGKILL);
	assert_finds(region, BERTH_FINDING_DEAD, 0, "it left 3 MiB");
	assert_int_equal(berth_seat_reap_all(region), 1);
	assert_finds_nothing(region);
	struct berth_seat *seat = claim_or_fail(region);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, MIB), 0);
	assert_finds_nothing(region);
	berth_seat_leave(seat);
	assert_finds_nothing(region);
	berth_region_close(region);
}

static void test_over_and_clamped(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(10 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_seat *seat = claim_or_fail(region);

	berth_ledger_charge(seat, 0, BERTH_CHARGE_CONTEXT, 12 * MIB);
	assert_finds(region, BERTH_FINDING_OVER, -1, "12 MiB are charged, the limit is 10 MiB");
	berth_ledger_refund(seat, 0, BERTH_CHARGE_CONTEXT, 13 * MIB);
	assert_finds(region, BERTH_FINDING_CLAMPED, -1, "1 times a figure had to be clamped");
	berth_seat_leave(seat);
	berth_region_close(region);
}

/* Each damage alone, in a seat that nobody has. */
static void test_damage_in_a_free_seat(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(10 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_layout *layout = region->layout;
	struct berth_layout_seat *seat = &layout->head.seats[5];

	seat->pid = 99;
	assert_finds(region, BERTH_FINDING_BROKEN, 5, "it names a process");
	seat->pid = 0;
	seat->sequence = 7;
	assert_finds(region, BERTH_FINDING_BROKEN, 5, "sequence number is odd");
	seat->sequence = 8;
	layout->tail.ledger[0][5].value_bytes[0] = 1;
	assert_finds(region, BERTH_FINDING_BROKEN, 5, "bytes are charged");
	layout->tail.ledger[0][5].value_bytes[0] = 0;
	layout->tail.ledger[0][5].word = 1;
	assert_finds(region, BERTH_FINDING_BROKEN, 5, "it asks");
	layout->tail.ledger[0][5].word = 0;
	seat->use[3].data_bytes = 1;
	assert_finds(region, BERTH_FINDING_BROKEN, 5, "the mirror shows bytes");
	seat->use[3].data_bytes = 0;
	seat->status = BERTH_STATUS_RUNNING;
	assert_finds(region, BERTH_FINDING_FOREIGN, 5, "another implementation");
	seat->status = BERTH_STATUS_FREE;
	layout->tail.generation[5] = 1;
	assert_int_equal(inspect(region).count[BERTH_FINDING_BROKEN], 1); /* beyond the high end */
	layout->tail.generation[5] = 2;
	assert_finds_nothing(region);
	berth_region_close(region);
}

static void test_damage_in_a_taken_seat(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(10 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_seat *own = claim_or_fail(region);
	struct berth_layout *layout = region->layout;
	struct berth_layout_seat *seat = &layout->head.seats[0];

	assert_int_equal(berth_ledger_ask(own, 0, BERTH_CHARGE_DATA, MIB), 0);
	seat->use[0].data_bytes = MIB + 1;
	assert_finds(region, BERTH_FINDING_BROKEN, 0, "don't add up");
	seat->use[0].total_bytes = MIB + 1;
	assert_finds(region, BERTH_FINDING_BROKEN, 0, "mirror and the ledger differ");
	seat->sequence++; /* odd: the mirror is behind, which is no damage */
	assert_finds_nothing(region);
	seat->sequence++;
	seat->use[0].data_bytes = MIB;
	seat->use[0].total_bytes = MIB;
	layout->tail.ledger[9][0].value_bytes[0] = 1;
	assert_finds(region, BERTH_FINDING_BROKEN, 0, "a GPU that isn't there");
	layout->tail.ledger[9][0].value_bytes[0] = 0;
	assert_finds_nothing(region);
	berth_seat_leave(own);
	berth_region_close(region);
}

static void test_damage_in_the_head(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(10 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_layout *layout = region->layout;

	layout->head.minor = 3;
	assert_finds(region, BERTH_FINDING_BROKEN, -1, "version");
	layout->head.minor = 2;
	layout->head.initialized_flag = 0;
	assert_finds(region, BERTH_FINDING_BROKEN, -1, "completion");
	layout->head.initialized_flag = BERTH_LAYOUT_MAGIC;
	layout->tail.signature++;
	assert_finds(region, BERTH_FINDING_BROKEN, -1, "tail");
	layout->tail.signature--;
	layout->head.gpu_count = 2;
	assert_finds(region, BERTH_FINDING_BROKEN, -1, "number of GPUs");
	layout->head.gpu_count = 1;
	layout->head.seat_high = -1;
	assert_finds(region, BERTH_FINDING_BROKEN, -1, "more seats");
	layout->head.seat_high = BERTH_SEAT_MAX + 1;
	assert_finds(region, BERTH_FINDING_BROKEN, -1, "more seats");
	layout->head.seat_high = 0;
	layout->head.limit_bytes[0] = UINT64_MAX;
	assert_finds(region, BERTH_FINDING_BROKEN, -1, "larger than any memory");
	layout->head.limit_bytes[0] = 10 * MIB;
	assert_finds_nothing(region);
	berth_region_close(region);
}

/* Whoever is told may end the walk. */
static void test_the_walk_ends_when_told(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(10 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct findings findings = { .answer = -ECANCELED };

	region->layout->head.seats[1].pid = 1;
	region->layout->head.seats[2].pid = 1;
	assert_int_equal(berth_region_inspect(region, note, &findings), -ECANCELED);
	assert_int_equal(findings.count[BERTH_FINDING_BROKEN], 1);
	assert_int_equal(findings.last.seat, 1);
	berth_region_close(region);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_whole_and_dead),        TEST(test_over_and_clamped),
		TEST(test_damage_in_a_free_seat), TEST(test_damage_in_a_taken_seat),
		TEST(test_damage_in_the_head),    TEST(test_the_walk_ends_when_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
