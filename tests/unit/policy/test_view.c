/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program sees: a table, then every combination of small figures and of extremes.
 */
#include "policy/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/attributes.h"

#define MI (1ULL << 20)

struct row {
	const char *why;
	uint64_t limit, charged, total, free;
	uint64_t seen_total, seen_free;
};

static const struct row rows[] = {
	{ "no limit: the driver's own", 0, 5 * MI, 100 * MI, 70 * MI, 100 * MI, 70 * MI },
	{ "empty share", 40 * MI, 0, 100 * MI, 100 * MI, 40 * MI, 40 * MI },
	{ "half full", 40 * MI, 15 * MI, 100 * MI, 85 * MI, 40 * MI, 25 * MI },
	{ "full", 40 * MI, 40 * MI, 100 * MI, 60 * MI, 40 * MI, 0 },
	{ "limit lowered below what is charged", 40 * MI, 50 * MI, 100 * MI, 50 * MI, 40 * MI, 0 },
	{ "neighbours hold the card", 40 * MI, 10 * MI, 100 * MI, 3 * MI, 40 * MI, 3 * MI },
	{ "limit above the card", 15360 * MI, 0, 14917 * MI, 14900 * MI, 14917 * MI, 14900 * MI },
	{ "limit above the card, in use", 15360 * MI, 1000 * MI, 14917 * MI, 13900 * MI, 14917 * MI,
	  13900 * MI },
	{ "limit is the card", 100 * MI, 0, 100 * MI, 100 * MI, 100 * MI, 100 * MI },
	{ "one byte", 1, 0, 100 * MI, 100 * MI, 1, 1 },
	{ "no card", 40 * MI, 0, 0, 0, 0, 0 },
	{ "a driver that says more free than there is", 0, 0, 10, 20, 10, 10 },
};

static void test_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(rows); i++) {
		const struct row *row = &rows[i];
		struct berth_memory_view view =
			berth_memory_view(row->limit, row->charged, row->total, row->free);

		if (view.total_bytes != row->seen_total || view.free_bytes != row->seen_free ||
		    view.used_bytes != row->seen_total - row->seen_free)
			fail_msg("%s: total %llu free %llu used %llu", row->why,
				 (unsigned long long)view.total_bytes,
				 (unsigned long long)view.free_bytes,
				 (unsigned long long)view.used_bytes);
	}
}

/* The rules of view.h, said once more in another way: as bounds. */
static void bounds_check(uint64_t limit, uint64_t charged, uint64_t total, uint64_t free_bytes)
{
	struct berth_memory_view view = berth_memory_view(limit, charged, total, free_bytes);
	uint64_t left = charged < limit ? limit - charged : 0;

	assert_true(view.total_bytes <= total);
	assert_true(view.free_bytes <= view.total_bytes);
	assert_true(view.free_bytes <= free_bytes);
	assert_true(view.used_bytes + view.free_bytes == view.total_bytes);
	if (limit == 0) {
		assert_true(view.total_bytes == total);
		assert_true(view.free_bytes == free_bytes || free_bytes > total);
		return;
	}
	assert_true(view.total_bytes <= limit);
	assert_true(view.total_bytes == total || view.total_bytes == limit);
	assert_true(view.free_bytes <= left);
	/* Something binds: nothing is held back for no reason. */
	assert_true(view.free_bytes == left || view.free_bytes == free_bytes ||
		    view.free_bytes == view.total_bytes);
}

static void test_every_combination(void **state)
{
	static const uint64_t figures[] = { 0, 1, 2, 3, 7, 1ULL << 63, UINT64_MAX - 1, UINT64_MAX };
	size_t n = BERTH_ARRAY_LEN(figures);

	(void)state;
	for (size_t i = 0; i < n * n * n * n; i++)
		bounds_check(figures[i % n], figures[i / n % n], figures[i / n / n % n],
			     figures[i / n / n / n]);
}

static void test_reserved(void **state)
{
	struct berth_memory_view view = berth_memory_view(40, 15, 100, 85);

	(void)state;
	assert_true(berth_memory_view_reserved(&view, 10) == 10);
	assert_true(berth_memory_view_reserved(&view, 15) == 15);
	/* total = reserved + used + free must stay possible. */
	assert_true(berth_memory_view_reserved(&view, 16) == 15);
	assert_true(berth_memory_view_reserved(&view, 0) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_every_combination),
		cmocka_unit_test(test_reserved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
