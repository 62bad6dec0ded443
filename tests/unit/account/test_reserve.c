/* SPDX-License-Identifier: Apache-2.0
 *
 * What pools keep: charged up to the threshold, turned into blocks without being asked for twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "account/books.h"
#include "account/reserve.h"
#include "share.h"

#define POOL 0x50ULL

static int keep_body(void)
{
	CHILD_CHECK(!berth_reserve_any());
	berth_reserve_measured(POOL, 100 * MIB, 0); /* not watched */
	CHILD_CHECK(share_charged(0) == 0);
	berth_reserve_watch(POOL, 0, 64 * MIB);
	CHILD_CHECK(berth_reserve_any());
	berth_reserve_measured(POOL, 100 * MIB, 0);
	CHILD_CHECK(share_charged(0) ==
		    64 * MIB); /* what is above goes back at a synchronisation */
	berth_reserve_measured(POOL, 100 * MIB, 40 * MIB);
	CHILD_CHECK(share_charged(0) == 24 * MIB);
	berth_reserve_measured(POOL, 100 * MIB, 100 * MIB);
	CHILD_CHECK(share_charged(0) == 0);
	berth_reserve_measured(POOL, 50 * MIB, 10 * MIB);
	CHILD_CHECK(share_charged(0) == 40 * MIB);
	berth_reserve_watch(POOL, 0, 0);
	CHILD_CHECK(share_charged(0) == 0 && !berth_reserve_any());
	return 0;
}

static void kept_memory_is_charged_up_to_the_threshold(void **state)
{
	(void)state;
	share_run("1G", keep_body);
}

static int use_body(void)
{
	berth_reserve_watch(POOL, 0, UINT64_MAX);
	berth_reserve_measured(POOL, 800 * MIB, 0);
	CHILD_CHECK(share_charged(0) == 800 * MIB);
	CHILD_CHECK(berth_reserve_use(POOL + 1, 300 * MIB) == 0);
	/* 900 MiB fit: 800 are there already. */
	CHILD_CHECK(berth_reserve_use(POOL, 900 * MIB) == 800 * MIB);
	CHILD_CHECK(!berth_books_ask(0, 100 * MIB));
	berth_reserve_measured(POOL, 900 * MIB, 900 * MIB);
	CHILD_CHECK(share_charged(0) == 900 * MIB);
	return 0;
}

static void an_allocation_uses_what_its_pool_keeps(void **state)
{
	(void)state;
	share_run("1G", use_body);
}

static int many_body(void)
{
	uint64_t pool;
	int gpu;

	for (uint64_t i = 1; i <= BERTH_RESERVE_POOL_MAX + 1; i++)
		berth_reserve_watch(i, 1, MIB);
	CHILD_CHECK(berth_reserve_pool(BERTH_RESERVE_POOL_MAX - 1, &pool, &gpu) && gpu == 1);
	CHILD_CHECK(!berth_reserve_pool(BERTH_RESERVE_POOL_MAX, &pool, &gpu));
	for (uint64_t i = 1; i <= BERTH_RESERVE_POOL_MAX; i++)
		berth_reserve_measured(i, MIB, 0);
	CHILD_CHECK(share_charged(1) == BERTH_RESERVE_POOL_MAX * MIB);
	for (uint64_t i = 1; i <= BERTH_RESERVE_POOL_MAX + 1; i++)
		berth_reserve_unwatch(i);
	CHILD_CHECK(share_charged(1) == 0 && !berth_reserve_any());
	return 0;
}

static void a_full_list_takes_no_more_and_empties_again(void **state)
{
	(void)state;
	share_run("1G", many_body);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, share_setup, share_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(kept_memory_is_charged_up_to_the_threshold),
		CASE(an_allocation_uses_what_its_pool_keeps),
		CASE(a_full_list_takes_no_more_and_empties_again),
	};

	return cmocka_run_group_tests_name("account: reserve", tests, NULL, NULL);
}
