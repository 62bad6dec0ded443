/* SPDX-License-Identifier: Apache-2.0
 *
 * Primary contexts: charged once and given back once, whatever threads do.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "account/primary.h"
#include "share.h"

static int once_body(void)
{
	uint64_t context = 0;

	CHILD_CHECK(!berth_primary_charged(0));
	berth_primary_retained(0, 7, 100 * MIB);
	CHILD_CHECK(berth_primary_charged(0) && !berth_primary_charged(1));
	berth_primary_retained(0, 7, 0);
	CHILD_CHECK(share_charged(0) == 100 * MIB);
	berth_primary_retained(1, 8, 50 * MIB);
	CHILD_CHECK(share_charged(1) == 50 * MIB);
	CHILD_CHECK(berth_primary_gone(0, berth_primary_token(0), &context) && context == 7);
	CHILD_CHECK(share_charged(0) == 0 && share_charged(1) == 50 * MIB);
	CHILD_CHECK(!berth_primary_gone(0, berth_primary_token(0), &context));
	berth_primary_retained(0, 9, 120 * MIB);
	CHILD_CHECK(share_charged(0) == 120 * MIB);
	return 0;
}

static void it_is_charged_while_it_lives_and_once(void **state)
{
	(void)state;
	share_run("1G", once_body);
}

static int order_body(void)
{
	/* The thread that made it is booked after one that found it made, and before one that
	 * looked at its GPU all the while. */
	berth_primary_retained(0, 7, 0);
	berth_primary_retained(0, 7, 100 * MIB);
	berth_primary_retained(0, 7, 700 * MIB);
	CHILD_CHECK(share_charged(0) == 100 * MIB);
	return 0;
}

static void the_first_growth_seen_is_the_one_that_counts(void **state)
{
	(void)state;
	share_run("1G", order_body);
}

static int meanwhile_body(void)
{
	uint64_t token;
	uint64_t context = 0;

	berth_primary_retained(0, 7, 100 * MIB);
	token = berth_primary_token(0);
	berth_primary_retained(0, 7, 0);
	CHILD_CHECK(!berth_primary_gone(0, token, &context) && context == 0);
	CHILD_CHECK(berth_primary_charged(0) && share_charged(0) == 100 * MIB);
	return 0;
}

static void a_retain_booked_meanwhile_keeps_the_charge(void **state)
{
	(void)state;
	share_run("1G", meanwhile_body);
}

static int foreign_body(void)
{
	uint64_t context = 0;

	berth_primary_retained(-19, 7, MIB);
	berth_primary_retained(16, 7, MIB);
	CHILD_CHECK(!berth_primary_gone(-19, 0, &context));
	CHILD_CHECK(berth_primary_charged(-19)); /* nothing to measure */
	CHILD_CHECK(share_charged(0) == 0 && share_charged(1) == 0);
	return 0;
}

static void a_gpu_of_no_share_is_nothing_to_charge(void **state)
{
	(void)state;
	share_run("1G", foreign_body);
}

static int unmeasured_body(void)
{
	uint64_t token;
	uint64_t context = 0;

	berth_primary_retained(0, 7, 100 * MIB);
	token = berth_primary_token(0);
	/* Another thread retains here: the driver makes a new context, charged is seen, nothing measured. */
	CHILD_CHECK(berth_primary_gone(0, token, &context) && share_charged(0) == 0);
	berth_primary_retained(0, 9, 0);
	CHILD_CHECK(share_charged(0) == 100 * MIB);
	CHILD_CHECK(berth_primary_gone(0, berth_primary_token(0), &context) && context == 9);
	CHILD_CHECK(share_charged(0) == 0);
	return 0;
}

static void one_made_unmeasured_is_charged_as_the_last(void **state)
{
	(void)state;
	share_run("1G", unmeasured_body);
}

static pthread_barrier_t barrier;

static void *retain(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&barrier);
	berth_primary_retained(0, 7, 100 * MIB);
	return NULL;
}

static int threads_body(void)
{
	enum { THREADS = 64 };
	pthread_t threads[THREADS];

	CHILD_CHECK(!pthread_barrier_init(&barrier, NULL, THREADS));
	for (int i = 0; i < THREADS; i++)
		CHILD_CHECK(!pthread_create(&threads[i], NULL, retain, NULL));
	for (int i = 0; i < THREADS; i++)
		CHILD_CHECK(!pthread_join(threads[i], NULL));
	CHILD_CHECK(share_charged(0) == 100 * MIB);
	return 0;
}

/* A19 */
static void of_64_threads_one_is_charged(void **state)
{
	(void)state;
	share_run("1G", threads_body);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, share_setup, share_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(it_is_charged_while_it_lives_and_once),
		CASE(the_first_growth_seen_is_the_one_that_counts),
		CASE(a_retain_booked_meanwhile_keeps_the_charge),
		CASE(one_made_unmeasured_is_charged_as_the_last),
		CASE(a_gpu_of_no_share_is_nothing_to_charge),
		CASE(of_64_threads_one_is_charged),
	};

	return cmocka_run_group_tests_name("account: primary contexts", tests, NULL, NULL);
}
