/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger's figures, one process at a time. Two region objects of one process are two seats,
 * which exclude each other like two processes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "region/ledger.h"
#include "region/snapshot.h"
#include "scratch.h"

struct table {
	struct berth_region *region[2];
	struct berth_seat *seat[2];
};

static struct table table_lay(const struct scratch *scratch, uint64_t limit_bytes)
{
	struct berth_region_spec spec = spec_of(limit_bytes);
	struct table table;

	for (int i = 0; i < 2; i++) {
		table.region[i] = join_or_fail(scratch->path, &spec);
		table.seat[i] = claim_or_fail(table.region[i]);
	}
	return table;
}

static void table_clear(struct table *table)
{
	for (int i = 0; i < 2; i++) {
		check_or_fail(table->region[i]);
		berth_seat_leave(table->seat[i]);
		berth_region_close(table->region[i]);
	}
}

static int ask(struct table *table, int i, uint64_t bytes)
{
	return berth_ledger_ask(table->seat[i], 0, BERTH_CHARGE_DATA, bytes);
}

static void refund(struct table *table, int i, uint64_t bytes)
{
	berth_ledger_refund(table->seat[i], 0, BERTH_CHARGE_DATA, bytes);
}

static struct berth_snapshot *snapshot(const struct table *table)
{
	struct berth_snapshot *taken = NULL;

	assert_int_equal(berth_snapshot_take(table->region[0], 0, &taken), 0);
	return taken;
}

static uint64_t anomalies(const struct table *table)
{
	struct berth_snapshot *taken = snapshot(table);
	uint64_t count = taken->anomaly_count;

	berth_snapshot_free(taken);
	return count;
}

static void test_to_the_byte(void **state)
{
	struct table table = table_lay(*state, 1024);

	assert_int_equal(ask(&table, 0, 1000), 0);
	assert_int_equal(ask(&table, 1, 25), -ENOMEM);
	assert_int_equal(ask(&table, 1, 24), 0);
	assert_int_equal(ask(&table, 0, 1), -ENOMEM);
	assert_int_equal(ask(&table, 1, 1), -ENOMEM);
	refund(&table, 0, 1);
	assert_int_equal(ask(&table, 1, 1), 0);
	assert_int_equal(charged_bytes(table.region[0], 0), 1024);
	table_clear(&table);
}

/* Usage after each of several allocations, and back to nothing in mixed order. */
static void test_sums(void **state)
{
	struct table table = table_lay(*state, 1024 * MIB);
	static const int order[10] = { 3, 9, 0, 7, 1, 8, 2, 6, 4, 5 };

	for (uint64_t i = 1; i <= 10; i++) {
		assert_int_equal(ask(&table, 0, i * MIB), 0);
		assert_int_equal(charged_bytes(table.region[1], 0), i * (i + 1) / 2 * MIB);
	}
	uint64_t left = 55 * MIB;
	for (int i = 0; i < 10; i++) {
		uint64_t bytes = (uint64_t)(order[i] + 1) * MIB;

		refund(&table, 0, bytes);
		left -= bytes;
		assert_int_equal(charged_bytes(table.region[1], 0), left);
	}
	assert_int_equal(left, 0);
	assert_int_equal(anomalies(&table), 0);
	table_clear(&table);
}

/* A second refund of the same bytes: zero, not 2^64 minus something, and the limit still holds. */
static void test_refund_clamps(void **state)
{
	struct table table = table_lay(*state, 100 * MIB);

	assert_int_equal(ask(&table, 0, 10 * MIB), 0);
	refund(&table, 0, 10 * MIB);
	refund(&table, 0, 10 * MIB);
	assert_int_equal(charged_bytes(table.region[0], 0), 0);
	assert_int_equal(anomalies(&table), 1);
	assert_int_equal(ask(&table, 0, 4 * MIB), 0);
	refund(&table, 0, 6 * MIB); /* more than is booked */
	assert_int_equal(charged_bytes(table.region[0], 0), 0);
	assert_int_equal(anomalies(&table), 2);
	assert_int_equal(ask(&table, 1, 100 * MIB), 0);
	assert_int_equal(ask(&table, 0, 1), -ENOMEM);
	table_clear(&table);
}

/* A refund of one kind never eats into another. */
static void test_kinds(void **state)
{
	struct table table = table_lay(*state, 100 * MIB);

	berth_ledger_charge(table.seat[0], 0, BERTH_CHARGE_CONTEXT, 20 * MIB);
	assert_int_equal(ask(&table, 0, 10 * MIB), 0);
	refund(&table, 0, 15 * MIB);
	assert_int_equal(charged_bytes(table.region[0], 0), 20 * MIB);
	struct berth_snapshot *taken = snapshot(&table);
	assert_int_equal(taken->seats[0].use[0].context_bytes, 20 * MIB);
	assert_int_equal(taken->seats[0].use[0].data_bytes, 0);
	assert_int_equal(taken->seats[0].use[0].total_bytes, 20 * MIB);
	berth_snapshot_free(taken);
	table_clear(&table);
}

static void test_charge_over_the_limit(void **state)
{
	struct table table = table_lay(*state, 100 * MIB);

	assert_int_equal(ask(&table, 0, 90 * MIB), 0);
	berth_ledger_charge(table.seat[1], 0, BERTH_CHARGE_CONTEXT, 30 * MIB);
	assert_int_equal(charged_bytes(table.region[0], 0), 120 * MIB);
	assert_int_equal(ask(&table, 0, 1), -ENOMEM);
	refund(&table, 0, 20 * MIB); /* 100 of 100 */
	assert_int_equal(ask(&table, 1, 1), -ENOMEM);
	refund(&table, 0, MIB);
	assert_int_equal(ask(&table, 1, MIB), 0);
	table_clear(&table);
}

static void test_overflow(void **state)
{
	struct table table = table_lay(*state, 0);

	assert_int_equal(ask(&table, 0, UINT64_MAX - 5), 0); /* no limit */
	assert_int_equal(ask(&table, 0, 6), -ENOMEM);        /* but no figure for it either */
	assert_int_equal(ask(&table, 1, UINT64_MAX - 5), 0);
	assert_int_equal(charged_bytes(table.region[0], 0), UINT64_MAX);
	berth_ledger_charge(table.seat[1], 0, BERTH_CHARGE_DATA, 100);
	assert_int_equal(anomalies(&table), 1);
	refund(&table, 1, UINT64_MAX);
	assert_int_equal(charged_bytes(table.region[0], 0), UINT64_MAX - 5);
	table_clear(&table);
}

static void test_overflow_under_a_limit(void **state)
{
	struct table table = table_lay(*state, 1000);

	berth_ledger_charge(table.seat[0], 0, BERTH_CHARGE_DATA, UINT64_MAX - 1);
	assert_int_equal(ask(&table, 1, 1), -ENOMEM);
	assert_int_equal(ask(&table, 1, UINT64_MAX), -ENOMEM);
	berth_ledger_refund(table.seat[0], 0, BERTH_CHARGE_DATA, UINT64_MAX - 1);
	assert_int_equal(ask(&table, 1, UINT64_MAX), -ENOMEM);
	assert_int_equal(ask(&table, 1, 1000), 0);
	table_clear(&table);
}

static void test_arguments(void **state)
{
	struct table table = table_lay(*state, 1000);
	struct berth_ledger_room room;

	assert_int_equal(berth_ledger_ask(table.seat[0], 1, BERTH_CHARGE_DATA, 1), -EINVAL);
	assert_int_equal(berth_ledger_ask(table.seat[0], 1000, BERTH_CHARGE_DATA, 1), -EINVAL);
	assert_int_equal(berth_ledger_room(table.region[0], 1, &room), -EINVAL);
	berth_ledger_charge(table.seat[0], 7, BERTH_CHARGE_DATA, 5); /* no such GPU: nothing */
	assert_int_equal(ask(&table, 0, 0), 0);
	assert_int_equal(charged_bytes(table.region[0], 0), 0);
	table_clear(&table);
}

static void test_refusals_are_counted(void **state)
{
	struct table table = table_lay(*state, 1000);

	for (int i = 0; i < 3; i++)
		assert_int_equal(ask(&table, 1, 1001), -ENOMEM);
	assert_int_equal(ask(&table, 0, 1001), -ENOMEM);
	struct berth_snapshot *taken = snapshot(&table);
	assert_int_equal(taken->seats[0].refusal_count, 1);
	assert_int_equal(taken->seats[1].refusal_count, 3);
	assert_int_equal(taken->gpus[0].refusal_count, 4);
	berth_snapshot_free(taken);
	table_clear(&table);
}

static void test_gpus_are_apart(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1000);
	struct berth_region *region;
	struct berth_seat *seat;

	spec.gpu_count = 2;
	memcpy(spec.gpus[1].uuid, GPU_B, sizeof GPU_B);
	spec.gpus[1].memory_limit_bytes = 10;
	region = join_or_fail(scratch->path, &spec);
	seat = claim_or_fail(region);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 1000), 0);
	assert_int_equal(berth_ledger_ask(seat, 1, BERTH_CHARGE_DATA, 11), -ENOMEM);
	assert_int_equal(berth_ledger_ask(seat, 1, BERTH_CHARGE_DATA, 10), 0);
	assert_int_equal(charged_bytes(region, 0), 1000);
	assert_int_equal(charged_bytes(region, 1), 10);
	check_or_fail(region);
	berth_seat_leave(seat);
	berth_region_close(region);
}

/* A joiner lowers the limit below what is charged: asks are refused until it fits. */
static void test_limit_lowered(void **state)
{
	struct scratch *scratch = *state;
	struct table table = table_lay(scratch, 1000);
	struct berth_region_spec smaller = spec_of(400);

	assert_int_equal(ask(&table, 0, 600), 0);
	berth_region_close(join_or_fail(scratch->path, &smaller));
	assert_int_equal(ask(&table, 1, 1), -ENOMEM);
	refund(&table, 0, 300);
	assert_int_equal(ask(&table, 1, 101), -ENOMEM);
	assert_int_equal(ask(&table, 1, 100), 0);
	table_clear(&table);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_to_the_byte),
		TEST(test_sums),
		TEST(test_refund_clamps),
		TEST(test_kinds),
		TEST(test_charge_over_the_limit),
		TEST(test_overflow),
		TEST(test_overflow_under_a_limit),
		TEST(test_arguments),
		TEST(test_refusals_are_counted),
		TEST(test_gpus_are_apart),
		TEST(test_limit_lowered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
