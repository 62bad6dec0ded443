/* SPDX-License-Identifier: Apache-2.0
 *
 * Telling the dead from the living when the region's path is lost, by the descriptor that is kept for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include "region/ledger.h"
#include "scratch.h"

static int hold_until_killed(void *arg)
{
	struct scratch *scratch = arg;
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	if (berth_region_join(scratch->path, NULL, 0, &region, NULL, NULL) < 0 ||
	    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0 ||
	    berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 600 * MIB) < 0)
		return 1;
	(void)raise(SIGKILL);
	return 2;
}

/* The path leads here no more: who is dead is told all the same. */
static void test_the_dead_without_a_path(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_seat *seat = claim_or_fail(region);

	assert_int_equal(child_end(child_start(hold_until_killed, scratch)), -SIGKILL);
	assert_int_equal(unlink(scratch->path), 0);
	assert_int_equal(charged_bytes(region, 0), 0);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 1024 * MIB), 0);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 1), -ENOMEM);
	berth_seat_leave(seat);
	berth_region_close(region);
}

/* The kept descriptor was closed and its number is another file's: that one is neither asked nor
 * closed, and who can't be asked about counts as living. */
static void test_the_kept_number_reused(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	bool was_open[1024];

	for (int i = 0; i < 1024; i++)
		was_open[i] = fcntl(i, F_GETFD) >= 0;
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_seat *seat = claim_or_fail(region);
	int other = open("/dev/null", O_RDWR | O_CLOEXEC);
	int kept = -1;

	for (int i = 0; i < 1024; i++) {
		if (i != other && !was_open[i] && fcntl(i, F_GETFD) >= 0)
			kept = i;
	}
	assert_true(kept > STDERR_FILENO);
	assert_int_equal(dup3(other, kept, O_CLOEXEC), kept);
	assert_int_equal(child_end(child_start(hold_until_killed, scratch)), -SIGKILL);
	assert_int_equal(unlink(scratch->path), 0);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 500 * MIB), -ENOMEM);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 400 * MIB), 0);
	berth_seat_leave(seat);
	berth_region_close(region);
	assert_true(fcntl(kept, F_GETFD) >= 0);
	assert_int_equal(close(kept), 0);
	assert_int_equal(close(other), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_the_dead_without_a_path),
		TEST(test_the_kept_number_reused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
