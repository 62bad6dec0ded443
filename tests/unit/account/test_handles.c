/* SPDX-License-Identifier: Apache-2.0
 *
 * Lifetimes of physical memory: charged until the last reference is released and the last mapping
 * unmapped, in whatever order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "account/books.h"
#include "account/handles.h"
#include "share.h"

#define HANDLE 0x77ULL
#define PLACE  0x10000000ULL

static int create(uint64_t handle, uint64_t bytes)
{
	if (berth_books_ask(0, bytes))
		return 1;
	berth_handle_created(handle, 0, bytes);
	return 0;
}

static void release(uint64_t handle)
{
	berth_handle_released(handle, berth_handle_serial(handle));
}

static int orders_body(void)
{
	/* release, then unmap */
	CHILD_CHECK(!create(HANDLE, 600 * MIB));
	berth_handle_mapped(HANDLE, PLACE, 600 * MIB);
	release(HANDLE);
	CHILD_CHECK(share_charged(0) == 600 * MIB);
	CHILD_CHECK(create(HANDLE + 1, 600 * MIB));
	berth_handle_unmapped(PLACE, 600 * MIB);
	CHILD_CHECK(share_charged(0) == 0);
	/* unmap, then release */
	CHILD_CHECK(!create(HANDLE, 600 * MIB));
	berth_handle_mapped(HANDLE, PLACE, 600 * MIB);
	berth_handle_unmapped(PLACE, 600 * MIB);
	CHILD_CHECK(share_charged(0) == 600 * MIB);
	release(HANDLE);
	CHILD_CHECK(share_charged(0) == 0);
	/* mapped twice: the last counts */
	CHILD_CHECK(!create(HANDLE, 600 * MIB));
	berth_handle_mapped(HANDLE, PLACE, 600 * MIB);
	berth_handle_mapped(HANDLE, PLACE * 2, 600 * MIB);
	release(HANDLE);
	berth_handle_unmapped(PLACE * 2, 600 * MIB);
	CHILD_CHECK(share_charged(0) == 600 * MIB);
	berth_handle_unmapped(PLACE, 600 * MIB);
	CHILD_CHECK(share_charged(0) == 0 && berth_books_count() == 0);
	return 0;
}

static void the_last_of_release_and_unmap_refunds(void **state)
{
	(void)state;
	share_run("1G", orders_body);
}

static int retain_body(void)
{
	CHILD_CHECK(!create(HANDLE, 10 * MIB));
	berth_handle_mapped(HANDLE, PLACE, 10 * MIB);
	release(HANDLE);
	berth_handle_retained(HANDLE); /* found by its address while only mapped */
	berth_handle_unmapped(PLACE, 10 * MIB);
	CHILD_CHECK(share_charged(0) == 10 * MIB);
	release(HANDLE);
	CHILD_CHECK(share_charged(0) == 0);
	return 0;
}

static void a_retained_handle_lives_on(void **state)
{
	(void)state;
	share_run("1G", retain_body);
}

static int range_body(void)
{
	for (uint64_t i = 0; i < 4; i++) {
		CHILD_CHECK(!create(HANDLE + i, 2 * MIB));
		berth_handle_mapped(HANDLE + i, PLACE + i * 2 * MIB, 2 * MIB);
		release(HANDLE + i);
	}
	/* An imported handle in the middle of the range is nobody's charge here. */
	berth_handle_mapped(0x99, PLACE + 8 * MIB, 2 * MIB);
	CHILD_CHECK(!create(HANDLE + 4, 2 * MIB));
	berth_handle_mapped(HANDLE + 4, PLACE + 10 * MIB, 2 * MIB);
	release(HANDLE + 4);
	CHILD_CHECK(share_charged(0) == 10 * MIB);
	berth_handle_unmapped(PLACE + 2 * MIB, 10 * MIB);
	CHILD_CHECK(share_charged(0) == 2 * MIB);
	berth_handle_unmapped(PLACE, 2 * MIB);
	CHILD_CHECK(share_charged(0) == 0 && berth_books_count() == 0);
	return 0;
}

static void one_unmap_covers_several_mappings(void **state)
{
	(void)state;
	share_run("1G", range_body);
}

static int reuse_body(void)
{
	uint64_t old;

	CHILD_CHECK(!create(HANDLE, 10 * MIB));
	old = berth_handle_serial(HANDLE);
	/* The driver freed it and hands the number to another thread before we booked the release. */
	CHILD_CHECK(!create(HANDLE, 3 * MIB));
	CHILD_CHECK(share_charged(0) == 3 * MIB);
	berth_handle_released(HANDLE, old);
	CHILD_CHECK(share_charged(0) == 3 * MIB);
	release(HANDLE);
	CHILD_CHECK(share_charged(0) == 0);
	/* The same with an unmap that is booked late. */
	CHILD_CHECK(!create(HANDLE, 10 * MIB));
	berth_handle_mapped(HANDLE, PLACE, 10 * MIB);
	release(HANDLE);
	CHILD_CHECK(!create(HANDLE, 3 * MIB));
	berth_handle_unmapped(PLACE, 10 * MIB);
	CHILD_CHECK(share_charged(0) == 3 * MIB);
	return 0;
}

static void bookkeeping_that_comes_late_spares_the_numbers_next_owner(void **state)
{
	(void)state;
	share_run("1G", reuse_body);
}

static int unknown_body(void)
{
	CHILD_CHECK(berth_handle_serial(5) == 0);
	berth_handle_released(5, 0);
	berth_handle_retained(5);
	berth_handle_unmapped(PLACE, MIB);
	CHILD_CHECK(share_charged(0) == 0 && berth_books_count() == 0);
	return 0;
}

static void handles_never_entered_are_ignored(void **state)
{
	(void)state;
	share_run("1G", unknown_body);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, share_setup, share_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_last_of_release_and_unmap_refunds),
		CASE(a_retained_handle_lives_on),
		CASE(one_unmap_covers_several_mappings),
		CASE(bookkeeping_that_comes_late_spares_the_numbers_next_owner),
		CASE(handles_never_entered_are_ignored),
	};

	return cmocka_run_group_tests_name("account: handles", tests, NULL, NULL);
}
