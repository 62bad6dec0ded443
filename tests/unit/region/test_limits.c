/* SPDX-License-Identifier: Apache-2.0
 *
 * Which limit is in force when joiners differ: the smaller; "none" never wins; a renewal may raise
 * it only where nobody living sits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "region/ledger.h"
#include "scratch.h"

static struct berth_region_joined join_with(const char *path, const struct berth_region_spec *spec,
					    unsigned flags, struct berth_region_gpu *ret_gpu)
{
	struct berth_region *region = NULL;
	struct berth_region_joined joined;
	struct berth_reason reason = { "" };

	memset(&joined, 0xff, sizeof joined); /* it must be written as a whole */
	if (berth_region_join(path, spec, flags, &region, &joined, &reason) < 0)
		fail_msg("%s", reason.text);
	berth_region_gpu(region, 0, ret_gpu);
	berth_region_close(region);
	return joined;
}

static void assert_joined(const char *path, uint64_t limit_bytes, uint64_t in_force, bool lowered,
			  bool kept)
{
	struct berth_region_spec spec = spec_of(limit_bytes);
	struct berth_region_gpu gpu;
	struct berth_region_joined joined = join_with(path, &spec, 0, &gpu);

	assert_int_equal(gpu.memory_limit_bytes, in_force);
	assert_int_equal(joined.lowered_mask, lowered ? 1 : 0);
	assert_int_equal(joined.kept_mask, kept ? 1 : 0);
	assert_false(joined.renewed);
}

static void test_smaller_wins(void **state)
{
	struct scratch *scratch = *state;

	assert_joined(scratch->path, 4000, 4000, false, false); /* created */
	assert_joined(scratch->path, 4000, 4000, false, false);
	assert_joined(scratch->path, 1000, 1000, true, false);
	assert_joined(scratch->path, 4000, 1000, false, true);
	assert_joined(scratch->path, 0, 1000, false, true);
}

/* The first came without the environment. */
static void test_none_never_wins(void **state)
{
	struct scratch *scratch = *state;

	assert_joined(scratch->path, 0, 0, false, false);
	assert_joined(scratch->path, 1024 * MIB, 1024 * MIB, true, false);
	assert_joined(scratch->path, 0, 1024 * MIB, false, true);
	struct berth_region *region = join_or_fail(scratch->path, NULL);
	struct berth_seat *seat = claim_or_fail(region);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 2048 * MIB), -ENOMEM);
	berth_seat_leave(seat);
	berth_region_close(region);
}

/* The first has a seat already, without a limit, when the limit comes. */
static void test_limit_reaches_the_seated(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec none = spec_of(0);
	struct berth_region *region = join_or_fail(scratch->path, &none);
	struct berth_seat *seat = claim_or_fail(region);

	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 100 * MIB), 0);
	assert_joined(scratch->path, 150 * MIB, 150 * MIB, true, false);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 51 * MIB), -ENOMEM);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 50 * MIB), 0);
	berth_seat_leave(seat);
	berth_region_close(region);
}

static void test_compute(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1000);
	struct berth_region_gpu gpu;

	spec.gpus[0].compute_limit_pct = 100; /* = none */
	(void)join_with(scratch->path, &spec, 0, &gpu);
	spec.gpus[0].compute_limit_pct = 60;
	assert_int_equal(join_with(scratch->path, &spec, 0, &gpu).lowered_mask, 1);
	assert_int_equal(gpu.compute_limit_pct, 60);
	spec.gpus[0].compute_limit_pct = 0;
	assert_int_equal(join_with(scratch->path, &spec, 0, &gpu).kept_mask, 1);
	assert_int_equal(gpu.compute_limit_pct, 60);
	spec.gpus[0].compute_limit_pct = 30;
	assert_int_equal(join_with(scratch->path, &spec, 0, &gpu).lowered_mask, 1);
	assert_int_equal(gpu.compute_limit_pct, 30);
	assert_int_equal(gpu.memory_limit_bytes, 1000);
}

/* GPUs are matched by identity, whatever their order. */
static void test_by_uuid(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1000);
	struct berth_region_gpu gpu;

	spec.gpu_count = 2;
	memcpy(spec.gpus[1].uuid, GPU_B, sizeof GPU_B);
	spec.gpus[1].memory_limit_bytes = 2000;
	(void)join_with(scratch->path, &spec, 0, &gpu);
	struct berth_region_spec swapped = spec_of(500);
	memcpy(swapped.gpus[0].uuid, GPU_B, sizeof GPU_B);
	assert_int_equal(join_with(scratch->path, &swapped, 0, &gpu).lowered_mask, 2);
	assert_int_equal(gpu.memory_limit_bytes, 1000);

	struct berth_region *region = join_or_fail(scratch->path, NULL);
	assert_int_equal(berth_region_gpu_count(region), 2);
	assert_int_equal(berth_region_gpu_find(region, GPU_B), 1);
	assert_int_equal(berth_region_gpu_find(region, "GPU-x"), -ENODEV);
	berth_region_gpu(region, 1, &gpu);
	assert_int_equal(gpu.memory_limit_bytes, 500);
	assert_string_equal(gpu.uuid, GPU_B);
	berth_region_close(region);
}

static void test_unknown_gpu(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1000);
	struct berth_region *region = NULL;
	struct berth_reason reason = { "" };

	berth_region_close(join_or_fail(scratch->path, &spec));
	memcpy(spec.gpus[0].uuid, "GPU-elsewhere", sizeof "GPU-elsewhere");
	spec.gpus[0].memory_limit_bytes = 1;
	assert_int_equal(berth_region_join(scratch->path, &spec, 0, &region, NULL, &reason),
			 -ENODEV);
	assert_non_null(strstr(reason.text, "GPU-elsewhere"));
	assert_joined(scratch->path, 1000, 1000, false, false); /* nothing was lowered */
}

static int sit_until_killed(void *arg)
{
	struct scratch *scratch = arg;
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	if (berth_region_join(scratch->path, NULL, 0, &region, NULL, NULL) < 0 ||
	    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0)
		return 1;
	(void)raise(SIGKILL);
	return 2;
}

static void test_renewal(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1000);
	struct berth_region_gpu gpu;
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_seat *seat = claim_or_fail(region);

	spec = spec_of(4000);
	struct berth_region_joined joined =
		join_with(scratch->path, &spec, BERTH_REGION_RENEW, &gpu);
	assert_false(joined.renewed); /* somebody sits there */
	assert_int_equal(gpu.memory_limit_bytes, 1000);
	assert_int_equal(joined.kept_mask, 1);
	berth_seat_leave(seat);
	berth_region_close(region);

	/* A dead process's seat is no obstacle. */
	assert_int_equal(child_end(child_start(sit_until_killed, scratch)), -SIGKILL);
	joined = join_with(scratch->path, &spec, BERTH_REGION_RENEW, &gpu);
	assert_true(joined.renewed);
	assert_false(joined.created);
	assert_int_equal(gpu.memory_limit_bytes, 4000);
	assert_int_equal(joined.lowered_mask | joined.kept_mask, 0);
	spec = spec_of(0);
	assert_true(join_with(scratch->path, &spec, BERTH_REGION_RENEW, &gpu).renewed);
	assert_int_equal(gpu.memory_limit_bytes, 0);
}

/* Joined before a renewal, seated after it: what this process asked for still counts. */
static void test_renewal_between_join_and_claim(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec small = spec_of(1000);
	struct berth_region_spec large = spec_of(4000);
	struct berth_region_gpu gpu;
	struct berth_region *region = join_or_fail(scratch->path, &small);

	assert_true(join_with(scratch->path, &large, BERTH_REGION_RENEW, &gpu).renewed);
	assert_int_equal(gpu.memory_limit_bytes, 4000);
	struct berth_seat *seat = claim_or_fail(region);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 1001), -ENOMEM);
	berth_seat_leave(seat);
	berth_region_close(region);
}

static void change_or_fail(struct berth_region *region, uint64_t limit_bytes)
{
	struct berth_region_change change = {
		.gpu_mask = 1,
		.memory_set = true,
		.memory_limit_bytes = limit_bytes,
	};
	struct berth_reason reason = { "" };

	if (berth_region_change(region, &change, NULL, NULL, &reason) < 0)
		fail_msg("%s", reason.text);
}

/* Up, down below what is charged, and to none, with somebody there. */
static void test_change_while_in_use(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1000);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_region *other = join_or_fail(scratch->path, NULL);
	struct berth_seat *seat = claim_or_fail(region);

	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 1001), -ENOMEM);
	change_or_fail(other, 3000);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 2000), 0);
	change_or_fail(other, 1500);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 1), -ENOMEM);
	assert_int_equal(charged_bytes(region, 0), 2000);
	berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, 500);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 1), -ENOMEM);
	berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, 1);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 1), 0);
	change_or_fail(other, 0);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 1ULL << 50), 0);
	berth_seat_leave(seat);
	berth_region_close(other);
	berth_region_close(region);
}

/* An order from before the change doesn't count when it is brought later; one from after it, and one
 * that isn't an order, do. */
static void test_change_outdates_orders(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1000);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_region *worker = join_or_fail(scratch->path, NULL);
	struct berth_region_joined joined = { 0 };
	struct berth_region_gpu gpu;

	spec.stamp = berth_region_stamp(region);
	assert_int_equal(berth_region_limit(worker, &spec, &joined, NULL), 0);
	change_or_fail(region, 4000);
	assert_int_not_equal(berth_region_stamp(region), spec.stamp);
	assert_int_equal(berth_region_limit(worker, &spec, &joined, NULL), -ESTALE);
	struct berth_seat *seat = claim_or_fail(worker); /* merges what it wants once more */
	berth_region_gpu(region, 0, &gpu);
	assert_int_equal(gpu.memory_limit_bytes, 4000);
	spec.gpus[0].memory_limit_bytes = 3000;
	spec.stamp = berth_region_stamp(region);
	assert_int_equal(berth_region_limit(worker, &spec, &joined, NULL), 0);
	assert_int_equal(joined.lowered_mask, 1);
	spec.gpus[0].memory_limit_bytes = 2000;
	spec.stamp = 0;
	change_or_fail(region, 5000);
	assert_int_equal(berth_region_limit(worker, &spec, &joined, NULL), 0);
	berth_region_gpu(region, 0, &gpu);
	assert_int_equal(gpu.memory_limit_bytes, 2000);
	berth_seat_leave(seat);
	berth_region_close(worker);
	berth_region_close(region);
}

static int refuse_second(void *arg, uint32_t gpu, const struct berth_region_gpu *before,
			 const struct berth_region_gpu *after)
{
	uint64_t *seen = arg;

	seen[2 * gpu] = before->memory_limit_bytes;
	seen[2 * gpu + 1] = after->memory_limit_bytes;
	assert_int_equal(after->compute_limit_pct, 40);
	return gpu == 1 ? -EIO : 0;
}

/* No change without its record, on no GPU. */
static void test_change_record(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1000);
	struct berth_region_change change = {
		.gpu_mask = 3,
		.memory_set = true,
		.compute_set = true,
		.memory_limit_bytes = 7000,
		.compute_limit_pct = 40,
	};
	uint64_t seen[4] = { 0 };
	struct berth_region_gpu gpu;

	spec.gpu_count = 2;
	memcpy(spec.gpus[1].uuid, GPU_B, sizeof GPU_B);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	assert_int_equal(berth_region_change(region, &change, refuse_second, seen, NULL), -EIO);
	assert_int_equal(seen[0], 1000);
	assert_int_equal(seen[1], 7000);
	assert_int_equal(seen[2], 0);
	assert_int_equal(seen[3], 7000);
	for (uint32_t i = 0; i < 2; i++) {
		berth_region_gpu(region, i, &gpu);
		assert_int_equal(gpu.memory_limit_bytes, i == 0 ? 1000 : 0);
		assert_int_equal(gpu.compute_limit_pct, 0);
	}
	change.gpu_mask = 4;
	assert_int_equal(berth_region_change(region, &change, NULL, NULL, NULL), -EINVAL);
	struct berth_region *view = NULL;
	assert_int_equal(berth_region_view(scratch->path, &view, NULL), 0);
	assert_int_equal(berth_region_change(view, &change, NULL, NULL, NULL), -EROFS);
	berth_region_close(view);
	berth_region_close(region);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_smaller_wins),
		TEST(test_none_never_wins),
		TEST(test_limit_reaches_the_seated),
		TEST(test_compute),
		TEST(test_by_uuid),
		TEST(test_unknown_gpu),
		TEST(test_renewal),
		TEST(test_renewal_between_join_and_claim),
		TEST(test_change_while_in_use),
		TEST(test_change_outdates_orders),
		TEST(test_change_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
