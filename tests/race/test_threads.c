/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads of one process that share one mapping: some share a seat, some have one of their own in
 * the same region and ask, refund and charge by force; others read, come and leave, merge limits of
 * their own, and change the limit by order. Built with ThreadSanitizer this shows that every access
 * to the mapping that races is an atomic one. (One mapping: the sanitizer knows addresses, not files.)
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
#include "region/map.h"
#include "region/snapshot.h"

#define MIB   ((uint64_t)1 << 20)
#define LIMIT (100 * MIB)

enum { SEATS = 3, THREADS_PER_SEAT = 2, ASKS = 100000, READS = 2000, OTHERS = 5 };

static struct {
	char path[128];
	struct berth_region *region;
	struct berth_seat *seats[SEATS];
	_Atomic int64_t held_bytes; /* surely, by all */
	_Atomic uint32_t overshoots;
	_Atomic uint32_t grants;
	_Atomic uint32_t failures;
	_Atomic uint32_t changes;
	_Atomic bool ended;
} stage;

/* A region object of its own, since it takes one seat each, on the same mapping. */
static struct berth_region *alias_make(const struct berth_region *region)
{
	struct berth_region *alias = malloc(sizeof *alias);

	assert_non_null(alias);
	memcpy(alias, region, sizeof *alias);
	atomic_init(&alias->own_seat, -1);
	return alias;
}

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
		if (i % 16 == 0) {
			berth_ledger_charge(seat, 0, BERTH_CHARGE_CONTEXT, bytes);
			berth_ledger_refund(seat, 0, BERTH_CHARGE_CONTEXT, bytes);
		}
	}
	return NULL;
}

/* Up and down by order, while joiners lower it to LIMIT or less: never above LIMIT. */
static void *orderer(void *arg)
{
	struct berth_region_change change = { .gpu_mask = 1, .memory_set = true };

	(void)arg;
	for (uint64_t i = 0; !atomic_load(&stage.ended); i++) {
		struct berth_reason reason = { "" };

		change.memory_limit_bytes = LIMIT - i % 4 * 20 * MIB;
		if (berth_region_change(stage.region, &change, NULL, NULL, &reason) < 0)
			atomic_fetch_add(&stage.failures, 1);
		atomic_fetch_add(&stage.changes, 1);
		(void)usleep(100);
	}
	return NULL;
}

static void *merger(void *arg)
{
	struct berth_region_spec spec = { .gpu_count = 1, .priority = 1 };

	(void)arg;
	for (uint64_t i = 0; !atomic_load(&stage.ended); i++) {
		struct berth_region_gpu gpu;
		struct berth_region_joined joined;
		struct berth_reason reason = { "" };

		spec.gpus[0].memory_limit_bytes = LIMIT - i % 3 * 30 * MIB;
		if (berth_region_limit(stage.region, &spec, &joined, &reason) < 0)
			atomic_fetch_add(&stage.failures, 1);
		berth_region_gpu(stage.region, 0, &gpu);
		if (gpu.memory_limit_bytes > LIMIT)
			atomic_fetch_add(&stage.failures, 1);
		(void)usleep(300);
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

			if (!taken->seats[s].torn &&
			    use->context_bytes + use->data_bytes != use->total_bytes)
				atomic_fetch_add(&stage.failures, 1);
		}
		berth_snapshot_free(taken);
	}
	return NULL;
}

/* Comes, sits, asks, leaves. */
static void *visitor(void *arg)
{
	struct berth_region *region = arg;

	while (!atomic_load(&stage.ended)) {
		struct berth_seat *seat = NULL;

		if (berth_seat_claim(region, 0, &seat, NULL, NULL) < 0) {
			atomic_fetch_add(&stage.failures, 1);
			continue;
		}
		if (berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, MIB) == 0)
			berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, MIB);
		if (berth_seat_reap_all(region) != 0)
			atomic_fetch_add(&stage.failures, 1); /* nobody dies here */
		berth_seat_leave(seat);
	}
	return NULL;
}

static void stage_judge(void)
{
	struct berth_ledger_room room = { 0 };
	struct berth_reason reason = { "" };

	assert_int_equal(atomic_load(&stage.failures), 0);
	assert_int_equal(atomic_load(&stage.overshoots), 0);
	assert_true(atomic_load(&stage.grants) > 0);
	assert_true(atomic_load(&stage.changes) > 0);
	assert_int_equal(berth_ledger_room(stage.region, 0, &room), 0);
	assert_int_equal(room.charged_bytes, 0);
	if (berth_region_check(stage.region, &reason) < 0)
		fail_msg("%s", reason.text);
}

static void test_threads(void **state)
{
	struct berth_region_spec spec = { .gpu_count = 1, .priority = 1 };
	struct berth_reason reason = { "" };
	struct berth_region *aliases[SEATS + 1];
	pthread_t askers[SEATS * THREADS_PER_SEAT];
	pthread_t others[OTHERS];

	(void)state;
	spec.gpus[0].memory_limit_bytes = LIMIT;
	assert_int_equal(berth_region_join(stage.path, &spec, 0, &stage.region, NULL, &reason), 0);
	for (int i = 0; i <= SEATS; i++)
		aliases[i] = alias_make(stage.region);
	for (int i = 0; i < SEATS; i++)
		assert_int_equal(berth_seat_claim(aliases[i], 0, &stage.seats[i], NULL, &reason),
				 0);
	assert_int_equal(pthread_create(&others[0], NULL, visitor, aliases[SEATS]), 0);
	assert_int_equal(pthread_create(&others[1], NULL, reader, aliases[0]), 0);
	assert_int_equal(pthread_create(&others[2], NULL, reader, stage.region), 0);
	assert_int_equal(pthread_create(&others[3], NULL, orderer, NULL), 0);
	assert_int_equal(pthread_create(&others[4], NULL, merger, NULL), 0);
	for (int i = 0; i < SEATS * THREADS_PER_SEAT; i++)
		assert_int_equal(pthread_create(&askers[i], NULL, asker, stage.seats[i % SEATS]),
				 0);
	for (int i = 0; i < SEATS * THREADS_PER_SEAT; i++)
		assert_int_equal(pthread_join(askers[i], NULL), 0);
	atomic_store(&stage.ended, true);
	for (int i = 0; i < OTHERS; i++)
		assert_int_equal(pthread_join(others[i], NULL), 0);
	stage_judge();
	for (int i = 0; i < SEATS; i++)
		berth_seat_leave(stage.seats[i]);
	for (int i = 0; i <= SEATS; i++)
		free(aliases[i]); /* what they point to is the region's */
	berth_region_close(stage.region);
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
