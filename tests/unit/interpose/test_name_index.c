/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of names: exact, whatever collides, and built by many at once.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "interpose/name_index.h"

#define NAME_COUNT (BERTH_NAME_SLOT_COUNT / 2)

static char texts[NAME_COUNT][16];
static const char *names[NAME_COUNT];

static int make_names(void **state)
{
	(void)state;
	for (int i = 0; i < NAME_COUNT; i++) {
		snprintf(texts[i], sizeof(texts[i]), "cuName%d", i * 7919);
		names[i] = texts[i];
	}
	return 0;
}

static void test_exact(void **state)
{
	struct berth_name_index index = { .names = names, .name_count = NAME_COUNT };

	(void)state;
	for (int i = 0; i < NAME_COUNT; i++) {
		char other[32];

		assert_int_equal(berth_name_index_find(&index, names[i]), i);
		for (char c = 'A'; c <= 'z'; c++) {
			snprintf(other, sizeof(other), "%s%c", names[i], c);
			assert_int_equal(berth_name_index_find(&index, other), -1);
		}
	}
}

static void test_odd_names(void **state)
{
	static const char *const odd[] = { "", "c", "same", "same", "x" };
	struct berth_name_index index = { .names = odd, .name_count = 5 };
	char longest[BERTH_NAME_LENGTH_MAX + 2];

	(void)state;
	assert_int_equal(berth_name_index_find(&index, NULL), -1);
	assert_int_equal(berth_name_index_find(&index, ""), 0);
	assert_int_equal(berth_name_index_find(&index, "c"), 1);
	assert_int_equal(berth_name_index_find(&index, "same"), 2);
	assert_int_equal(berth_name_index_find(&index, "x"), 4);
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(berth_name_index_find(&index, longest), -1);
}

static struct berth_name_index shared;

static void *find_all(void *barrier)
{
	intptr_t wrong = 0;

	pthread_barrier_wait(barrier);
	for (int i = 0; i < NAME_COUNT; i++)
		wrong += berth_name_index_find(&shared, names[i]) != i;
	return (void *)wrong;
}

static void test_built_by_many(void **state)
{
	enum { THREAD_COUNT = 8 };

	(void)state;
	for (int round = 0; round < 20; round++) {
		pthread_t threads[THREAD_COUNT];
		pthread_barrier_t barrier;

		memset(&shared, 0, sizeof(shared));
		shared.names = names;
		shared.name_count = NAME_COUNT;
		pthread_barrier_init(&barrier, NULL, THREAD_COUNT);
		for (int i = 0; i < THREAD_COUNT; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, find_all, &barrier), 0);
		for (int i = 0; i < THREAD_COUNT; i++) {
			void *wrong;

			pthread_join(threads[i], &wrong);
			assert_null(wrong);
		}
		pthread_barrier_destroy(&barrier);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_odd_names),
		cmocka_unit_test(test_built_by_many),
	};

	return cmocka_run_group_tests(tests, make_names, NULL);
}
