/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of one process: some share a seat, some have one of their own in the same region, others
 * read. Built with ThreadSanitizer this shows that every access to the mapping that races is an
 * atomic one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "region/ledger.h"
#include "region/snapshot.h"

#define MIB   ((uint64_t)1 << 20)
#define LIMIT (100 * MIB)

enum { SEATS = 3, THREADS_PER_SEAT = 2, ASKS = 3000, READS = 300 };

static struct {
	char path[128];
	struct berth_region *regions[SEATS];
	struct berth_seat *seats[SEATS];
	_Atomic int64_t held_bytes; /* surely, by all */
	_Atomic uint32_t overshoots;
	_Atomic uint32_t grants;
	_Atomic uint32_t failures;
	_Atomic bool ended;
} stage;

static void *asker(void *arg)
{
	struct berth_seat *seat = arg;
	uint32_t random = (uint32_t)(uintptr_t)arg;

	for (int i = 0; i < ASKS; i++) {
		random = random * 1664525U + 1013904223U;
		uint64_t bytes = 1 + (random >> 8) % (60 * MIB);
		int r = berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, bytes);

		if (r == -ENOMEM)
			continue;
		if (r < 0) {
			atomic_fetch_add(&stage.failures, 1);
			continue;
		}
		atomic_fetch_add(&stage.grants, 1);
		int64_t held = atomic_fetch_add(&stage.held_bytes, (int64_t)bytes) + (int64_t)bytes;
		if (held > (int64_t)LIMIT)
			atomic_fetch_add(&stage.overshoots, 1);
		atomic_fetch_sub(&stage.held_bytes, (int64_t)bytes);
		berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, bytes);
	}
	return NULL;
}

static void *reader(void *arg)
{
	const struct berth_region *region = arg;

	for (int i = 0; i < READS; i++) {
		struct berth_snapshot *taken = NULL;
		struct berth_ledger_room room = { 0 };

		if (berth_snapshot_take(region, i % 2 ? BERTH_SNAPSHOT_LIVENESS : 0, &taken) < 0 ||
		    berth_ledger_room(region, 0, &room) < 0)
			atomic_fetch_add(&stage.failures, 1);
		for (uint32_t s = 0; taken && s < taken->seat_count; s++) {
			const struct berth_snapshot_use *use = &taken->seats[s].use[0];

			if (!taken->seats[s].torn && use->data_bytes != use->total_bytes)
				atomic_fetch_add(&stage.failures, 1);
		}
		berth_snapshot_free(taken);
	}
	return NULL;
}

/* Comes, sits, asks, leaves. */
static void *visitor(void *arg)
{
	(void)arg;
	while (!atomic_load(&stage.ended)) {
		struct berth_region *region = NULL;
		struct berth_seat *seat = NULL;

		if (berth_region_join(stage.path, NULL, 0, &region, NULL, NULL) < 0 ||
		    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0) {
			atomic_fetch_add(&stage.failures, 1);
			berth_region_close(region);
			continue;
		}
		if (berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, MIB) == 0)
			berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, MIB);
		if (berth_seat_reap_all(region) != 0)
			atomic_fetch_add(&stage.failures, 1); /* nobody dies here */
		berth_seat_leave(seat);
		berth_region_close(region);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct berth_region_spec spec = { .gpu_count = 1, .priority = 1 };
	struct berth_ledger_room room = { 0 };
	struct berth_reason reason = { "" };
	pthread_t askers[SEATS * THREADS_PER_SEAT];
	pthread_t others[3];

	(void)state;
	spec.gpus[0].memory_limit_bytes = LIMIT;
	for (int i = 0; i < SEATS; i++) {
		assert_int_equal(
			berth_region_join(stage.path, &spec, 0, &stage.regions[i], NULL, &reason),
			0);
		assert_int_equal(
			berth_seat_claim(stage.regions[i], 0, &stage.seats[i], NULL, &reason), 0);
	}
	assert_int_equal(pthread_create(&others[0], NULL, visitor, NULL), 0);
	assert_int_equal(pthread_create(&others[1], NULL, reader, stage.regions[0]), 0);
	assert_int_equal(pthread_create(&others[2], NULL, reader, stage.regions[1]), 0);
	for (int i = 0; i < SEATS * THREADS_PER_SEAT; i++)
		assert_int_equal(pthread_create(&askers[i], NULL, asker, stage.seats[i % SEATS]),
				 0);
	for (int i = 0; i < SEATS * THREADS_PER_SEAT; i++)
		assert_int_equal(pthread_join(askers[i], NULL), 0);
	atomic_store(&stage.ended, true);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_join(others[i], NULL), 0);
	assert_int_equal(atomic_load(&stage.failures), 0);
	assert_int_equal(atomic_load(&stage.overshoots), 0);
	assert_true(atomic_load(&stage.grants) > 0);
	assert_int_equal(berth_ledger_room(stage.regions[0], 0, &room), 0);
	assert_int_equal(room.charged_bytes, 0);
	if (berth_region_check(stage.regions[0], &reason) < 0)
		fail_msg("%s", reason.text);
	for (int i = 0; i < SEATS; i++) {
		berth_seat_leave(stage.seats[i]);
		berth_region_close(stage.regions[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_threads) };

	(void)snprintf(stage.path, sizeof stage.path, "%s/berth-threads-%ld.cache",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(stage.path); /* made by the test */
	return failed;
}
