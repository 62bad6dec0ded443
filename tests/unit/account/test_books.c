/* SPDX-License-Identifier: Apache-2.0
 *
 * The books around made-up driver calls: what is entered, taken, restored and gone is what the
 * ledger says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "account/books.h"
#include "share.h"

static int enter(enum berth_key_class key_class, uint64_t key, uint64_t bytes, uint64_t owner)
{
	struct berth_block block = { .bytes = bytes, .owner = owner, .gpu = 0 };

	if (berth_books_ask(0, bytes))
		return 1;
	berth_books_enter(key_class, key, &block);
	return 0;
}

static int free_body(void)
{
	struct berth_block block;

	CHILD_CHECK(!enter(BERTH_KEY_ADDRESS, 512, 10 * MIB, 1));
	CHILD_CHECK(share_charged(0) == 10 * MIB);
	CHILD_CHECK(!berth_books_take(BERTH_KEY_ADDRESS, 1024, &block));
	CHILD_CHECK(berth_books_take(BERTH_KEY_ADDRESS, 512, &block));
	CHILD_CHECK(!berth_books_take(BERTH_KEY_ADDRESS, 512,
				      &block)); /* a second free finds nothing */
	berth_books_restore(BERTH_KEY_ADDRESS, 512, &block);
	CHILD_CHECK(share_charged(0) == 10 * MIB);
	CHILD_CHECK(berth_books_take(BERTH_KEY_ADDRESS, 512, &block));
	berth_books_gone(BERTH_KEY_ADDRESS, &block);
	CHILD_CHECK(share_charged(0) == 0 && berth_books_count() == 0);
	return 0;
}

static void a_free_refunds_and_a_failed_one_restores(void **state)
{
	(void)state;
	share_run("1G", free_body);
}

static int replaced_body(void)
{
	CHILD_CHECK(!enter(BERTH_KEY_ADDRESS, 512, 10 * MIB, 1));
	CHILD_CHECK(!enter(BERTH_KEY_ADDRESS, 512, 3 * MIB, 1));
	CHILD_CHECK(share_charged(0) == 3 * MIB && berth_books_count() == 1);
	return 0;
}

static void an_address_handed_out_again_means_its_block_had_died(void **state)
{
	(void)state;
	share_run("1G", replaced_body);
}

static int context_body(void)
{
	struct berth_block block;

	berth_books_enter_context(0x1000, 0, 300 * MIB);
	berth_books_enter_context(0x2000, 0, 0);
	CHILD_CHECK(!enter(BERTH_KEY_ADDRESS, 1, MIB, 0x1000));
	CHILD_CHECK(!enter(BERTH_KEY_ARRAY, 1, MIB, 0x1000));
	CHILD_CHECK(!enter(BERTH_KEY_MIPMAP, 1, MIB, 0x1000));
	CHILD_CHECK(!enter(BERTH_KEY_ADDRESS, 2, MIB, 0x2000));
	CHILD_CHECK(!enter(BERTH_KEY_ADDRESS, 3, MIB, 0));
	CHILD_CHECK(!enter(BERTH_KEY_HANDLE, 4, MIB, 0x1000)); /* its owner is a serial number */
	CHILD_CHECK(share_charged(0) == 306 * MIB);
	berth_books_context_gone(0x1000);
	CHILD_CHECK(share_charged(0) == 303 * MIB);
	CHILD_CHECK(berth_books_take(BERTH_KEY_CONTEXT, 0x1000, &block));
	berth_books_gone(BERTH_KEY_CONTEXT, &block);
	CHILD_CHECK(share_charged(0) == 3 * MIB);
	berth_books_context_gone(0); /* nobody's */
	CHILD_CHECK(share_charged(0) == 3 * MIB);
	return 0;
}

static void a_context_takes_its_allocations_with_it_and_no_others(void **state)
{
	(void)state;
	share_run("1G", context_body);
}

static int over_body(void)
{
	berth_books_enter_context(0x1000, 0, 300 * MIB);
	CHILD_CHECK(share_charged(0) == 300 * MIB);
	CHILD_CHECK(berth_books_ask(0, 1));
	return 0;
}

static void a_context_is_booked_also_over_the_limit(void **state)
{
	(void)state;
	share_run("64M", over_body);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, share_setup, share_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_free_refunds_and_a_failed_one_restores),
		CASE(an_address_handed_out_again_means_its_block_had_died),
		CASE(a_context_takes_its_allocations_with_it_and_no_others),
		CASE(a_context_is_booked_also_over_the_limit),
	};

	return cmocka_run_group_tests_name("account: books", tests, NULL, NULL);
}
