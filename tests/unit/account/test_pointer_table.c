/* SPDX-License-Identifier: Apache-2.0
 *
 * The pointer table against a model that can't be wrong (an array), through growth, and by threads.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "account/pointer_table.h"

static struct berth_pointer_table table;

static int empty(void **state)
{
	(void)state;
	berth_pointer_table_reset(&table);
	return 0;
}

static void put(enum berth_key_class key_class, uint64_t key, uint64_t bytes, uint64_t owner)
{
	struct berth_block block = { .bytes = bytes, .owner = owner, .gpu = 3 };
	struct berth_block replaced;

	assert_int_equal(berth_pointer_table_put(&table, key_class, key, &block, &replaced), 0);
}

static void an_empty_table_knows_nothing(void **state)
{
	struct berth_block block = { .bytes = 7 };

	(void)state;
	assert_false(berth_pointer_table_get(&table, BERTH_KEY_ADDRESS, 0, &block));
	assert_false(berth_pointer_table_take(&table, BERTH_KEY_ADDRESS, 512, &block));
	assert_int_equal(block.bytes, 7);
	assert_int_equal(berth_pointer_table_count(&table), 0);
}

static void all_fields_come_back(void **state)
{
	struct berth_block in = {
		.bytes = 1ULL << 40, .owner = 9, .maps = 70000, .uses = 5, .gpu = 15
	};
	struct berth_block out = { 0 };
	struct berth_block replaced;

	(void)state;
	assert_int_equal(berth_pointer_table_put(&table, BERTH_KEY_HANDLE, 42, &in, &replaced), 0);
	assert_true(berth_pointer_table_get(&table, BERTH_KEY_HANDLE, 42, &out));
	assert_memory_equal(&in, &out, sizeof(in));
	assert_true(berth_pointer_table_take(&table, BERTH_KEY_HANDLE, 42, &out));
	assert_memory_equal(&in, &out, sizeof(in));
	assert_false(berth_pointer_table_take(&table, BERTH_KEY_HANDLE, 42, &out));
}

static void a_pointer_and_a_handle_of_the_same_number_are_two(void **state)
{
	struct berth_block block = { 0 };

	(void)state;
	put(BERTH_KEY_ADDRESS, 4096, 1, 0);
	put(BERTH_KEY_HANDLE, 4096, 2, 0);
	put(BERTH_KEY_ARRAY, 4096, 3, 0);
	assert_true(berth_pointer_table_take(&table, BERTH_KEY_HANDLE, 4096, &block));
	assert_int_equal(block.bytes, 2);
	assert_true(berth_pointer_table_get(&table, BERTH_KEY_ADDRESS, 4096, &block));
	assert_int_equal(block.bytes, 1);
	assert_int_equal(berth_pointer_table_count(&table), 2);
}

static void putting_a_known_key_hands_the_old_block_back(void **state)
{
	struct berth_block block = { .bytes = 20 };
	struct berth_block replaced = { 0 };

	(void)state;
	put(BERTH_KEY_ADDRESS, 512, 10, 0);
	assert_int_equal(berth_pointer_table_put(&table, BERTH_KEY_ADDRESS, 512, &block, &replaced),
			 1);
	assert_int_equal(replaced.bytes, 10);
	assert_int_equal(berth_pointer_table_count(&table), 1);
	assert_true(berth_pointer_table_take(&table, BERTH_KEY_ADDRESS, 512, &block));
	assert_int_equal(block.bytes, 20);
}

/* Keys are drawn from few numbers, so each is entered, replaced and removed many times. */
static void it_does_what_an_array_does(void **state)
{
	enum { KEYS = 3000, ROUNDS = 300000 };
	static uint64_t model[KEYS];
	unsigned seed = 12345;
	size_t live_count = 0;

	(void)state;
	for (int i = 0; i < KEYS; i++)
		model[i] = 0;
	for (int round = 1; round <= ROUNDS; round++) {
		unsigned key = (unsigned)rand_r(&seed) % KEYS;
		uint64_t address = 0x7f0000000000ULL + key * 512ULL;
		struct berth_block block = { .bytes = (uint64_t)round };
		struct berth_block old = { 0 };

		if (rand_r(&seed) & 1) {
			int known = berth_pointer_table_put(&table, BERTH_KEY_ADDRESS, address,
							    &block, &old);

			assert_int_equal(known, model[key] != 0);
			assert_int_equal(old.bytes, model[key]);
			live_count += model[key] == 0;
			model[key] = block.bytes;
		} else {
			bool known =
				berth_pointer_table_take(&table, BERTH_KEY_ADDRESS, address, &old);

			assert_int_equal(known, model[key] != 0);
			assert_int_equal(old.bytes, model[key]);
			live_count -= model[key] != 0;
			model[key] = 0;
		}
	}
	assert_int_equal(berth_pointer_table_count(&table), live_count);
	for (unsigned key = 0; key < KEYS; key++) {
		struct berth_block block = { 0 };

		assert_int_equal(berth_pointer_table_get(&table, BERTH_KEY_ADDRESS,
							 0x7f0000000000ULL + key * 512ULL, &block),
				 model[key] != 0);
		assert_int_equal(block.bytes, model[key]);
	}
}

static void it_grows_and_loses_nothing(void **state)
{
	enum { COUNT = 50000 };
	struct berth_block block;

	(void)state;
	for (uint64_t i = 0; i < COUNT; i++)
		put(BERTH_KEY_ADDRESS, i << 21, i + 1, 0);
	assert_int_equal(berth_pointer_table_count(&table), COUNT);
	for (uint64_t i = 0; i < COUNT; i++) {
		assert_true(berth_pointer_table_take(&table, BERTH_KEY_ADDRESS, i << 21, &block));
		assert_int_equal(block.bytes, i + 1);
	}
	assert_int_equal(berth_pointer_table_count(&table), 0);
}

static bool of_owner(enum berth_key_class key_class, const struct berth_block *block, void *arg)
{
	return key_class == BERTH_KEY_ADDRESS && block->owner == *(uint64_t *)arg;
}

static uint64_t drained_bytes;

static void add_drained(const struct berth_block *block, void *arg)
{
	(void)arg;
	drained_bytes += block->bytes;
}

static void a_drain_takes_all_of_one_owner_and_no_other(void **state)
{
	uint64_t owner = 2;
	struct berth_block block;

	(void)state;
	drained_bytes = 0;
	for (uint64_t i = 0; i < 9999; i++)
		put(BERTH_KEY_ADDRESS, i * 512, 1, i % 3);
	put(BERTH_KEY_HANDLE, 1, 1, 2);
	berth_pointer_table_drain(&table, of_owner, add_drained, &owner);
	assert_int_equal(drained_bytes, 3333);
	assert_int_equal(berth_pointer_table_count(&table), 6667);
	for (uint64_t i = 0; i < 9999; i++)
		assert_int_equal(
			berth_pointer_table_get(&table, BERTH_KEY_ADDRESS, i * 512, &block),
			i % 3 != 2);
}

enum { THREADS = 8, EACH = 40000 };

/* Each thread owns its keys; the shards are everybody's. */
static void *churn(void *arg)
{
	uint64_t mine = (uint64_t)(uintptr_t)arg << 40;
	uintptr_t wrong_count = 0;

	for (uint64_t i = 0; i < EACH; i++) {
		struct berth_block block = { .bytes = i + 1 };
		struct berth_block old;

		wrong_count += berth_pointer_table_put(&table, BERTH_KEY_ADDRESS, mine + i * 512,
						       &block, &old) != 0;
		if (i < 100)
			continue;
		wrong_count += !berth_pointer_table_take(&table, BERTH_KEY_ADDRESS,
							 mine + (i - 100) * 512, &old) ||
			       old.bytes != i - 99;
	}
	return (void *)wrong_count;
}

static void eight_threads_at_once(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++) {
		void *wrong_count = NULL;

		assert_int_equal(pthread_join(threads[i], &wrong_count), 0);
		assert_null(wrong_count);
	}
	assert_int_equal(berth_pointer_table_count(&table), THREADS * 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_empty_table_knows_nothing, empty),
		cmocka_unit_test_setup(all_fields_come_back, empty),
		cmocka_unit_test_setup(a_pointer_and_a_handle_of_the_same_number_are_two, empty),
		cmocka_unit_test_setup(putting_a_known_key_hands_the_old_block_back, empty),
		cmocka_unit_test_setup(it_does_what_an_array_does, empty),
		cmocka_unit_test_setup(it_grows_and_loses_nothing, empty),
		cmocka_unit_test_setup(a_drain_takes_all_of_one_owner_and_no_other, empty),
		cmocka_unit_test_setup(eight_threads_at_once, empty),
	};

	return cmocka_run_group_tests_name("account: pointer table", tests, NULL, NULL);
}
