/* SPDX-License-Identifier: Apache-2.0
 *
 * Primary contexts: made once, gone once, whatever threads do.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "account/primary.h"

static int forget(void **state)
{
	(void)state;
	berth_primary_forget();
	return 0;
}

static void only_the_first_retain_makes_it(void **state)
{
	uint64_t context = 0;

	(void)state;
	assert_false(berth_primary_charged(0));
	assert_true(berth_primary_retained(0, 7));
	assert_true(berth_primary_charged(0));
	assert_false(berth_primary_charged(1));
	assert_false(berth_primary_retained(0, 7));
	assert_true(berth_primary_retained(1, 8));
	assert_true(berth_primary_gone(0, berth_primary_token(0), &context));
	assert_int_equal(context, 7);
	assert_false(berth_primary_gone(0, berth_primary_token(0), &context));
	assert_true(berth_primary_retained(0, 9));
}

static void a_retain_booked_meanwhile_keeps_the_charge(void **state)
{
	uint64_t token;
	uint64_t context = 0;

	(void)state;
	assert_true(berth_primary_retained(0, 7));
	token = berth_primary_token(0);
	assert_false(berth_primary_retained(0, 7));
	assert_false(berth_primary_gone(0, token, &context));
	assert_int_equal(context, 0);
	assert_true(berth_primary_charged(0));
}

static void a_gpu_of_no_share_is_nothing_to_charge(void **state)
{
	uint64_t context = 0;

	(void)state;
	assert_false(berth_primary_retained(-19, 7));
	assert_false(berth_primary_retained(16, 7));
	assert_false(berth_primary_gone(-19, 0, &context));
}

static pthread_barrier_t barrier;

static void *retain(void *arg)
{
	pthread_barrier_wait(&barrier);
	*(int *)arg = berth_primary_retained(3, 7);
	return NULL;
}

/* A19 */
static void of_64_threads_one_is_the_first(void **state)
{
	enum { THREADS = 64 };
	pthread_t threads[THREADS];
	int first[THREADS];
	int first_count = 0;

	(void)state;
	assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, retain, &first[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		first_count += first[i];
	}
	assert_int_equal(first_count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(only_the_first_retain_makes_it, forget),
		cmocka_unit_test_setup(a_retain_booked_meanwhile_keeps_the_charge, forget),
		cmocka_unit_test_setup(a_gpu_of_no_share_is_nothing_to_charge, forget),
		cmocka_unit_test_setup(of_64_threads_one_is_the_first, forget),
	};

	return cmocka_run_group_tests_name("account: primary contexts", tests, NULL, NULL);
}
