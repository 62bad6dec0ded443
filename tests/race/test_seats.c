/* SPDX-License-Identifier: Apache-2.0
 *
 * Many processes come at once, sit, die and come again: each gets a seat, no two the same, and what
 * the dead leave is found by those who need it. PROCS=N scales it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "region/ledger.h"

#define MIB ((uint64_t)1 << 20)

enum { PROCS_MAX = 1000, GENERATIONS = 5 };

static char path[128];

struct hall {
	_Atomic uint32_t open;
	_Atomic uint32_t seated_count;
	_Atomic uint32_t sitters[BERTH_SEAT_MAX]; /* how many sit there now */
	_Atomic uint32_t clashes;
	_Atomic uint64_t slowest_ns;
};

static void slowest_note(struct hall *hall, uint64_t ns)
{
	uint64_t slowest = atomic_load(&hall->slowest_ns);

	while (ns > slowest && !atomic_compare_exchange_weak(&hall->slowest_ns, &slowest, ns))
		;
}

static int come(struct hall *hall, uint32_t generation)
{
	struct berth_region_spec spec = { .gpu_count = 1, .priority = 1 };
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	struct berth_reason reason = { "" };

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody outlives a test that failed */
	spec.gpus[0].memory_limit_bytes = 1024 * MIB;
	while (atomic_load(&hall->open) < generation)
		berth_sleep_ns(BERTH_NS_PER_MS / 10, UINT64_MAX);
	uint64_t start_ns = berth_clock_ns();
	int r = berth_region_join(path, &spec, 0, &region, NULL, &reason);
	if (r == 0)
		r = berth_seat_claim(region, 0, &seat, NULL, &reason);
	slowest_note(hall, berth_clock_ns() - start_ns);
	if (r < 0) {
		(void)fprintf(stderr, "seats: %s\n", reason.text);
		return 1;
	}
	if (berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 1000) < 0)
		return 2;
	if (atomic_fetch_add(&hall->sitters[berth_seat_index(seat)], 1) != 0)
		atomic_fetch_add(&hall->clashes, 1);
	atomic_fetch_add(&hall->seated_count, 1);
	(void)pause();
	return 3;
}

static void test_crowds(void **state)
{
	const char *text = getenv("PROCS");
	long wanted = text ? strtol(text, NULL, 10) : 0;
	uint32_t count = wanted > 0 && wanted <= PROCS_MAX ? (uint32_t)wanted : 64;
	struct hall *hall =
		mmap(NULL, sizeof *hall, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[PROCS_MAX];
	struct berth_reason reason = { "" };

	(void)state;
	for (uint32_t generation = 1; generation <= GENERATIONS; generation++) {
		struct berth_region *region = NULL;
		struct berth_ledger_room room = { 0 };

		memset(hall->sitters, 0, sizeof hall->sitters);
		atomic_store(&hall->seated_count, 0);
		atomic_store(&hall->slowest_ns, 0);
		for (uint32_t i = 0; i < count; i++) {
			pids[i] = fork();
			if (pids[i] == 0)
				_exit(come(hall, generation));
		}
		atomic_store(&hall->open, generation);
		while (atomic_load(&hall->seated_count) < count) {
			berth_sleep_ns(BERTH_NS_PER_MS, UINT64_MAX);
			assert_int_equal(waitpid(-1, NULL, WNOHANG), 0); /* none gives up */
		}
		assert_int_equal(atomic_load(&hall->clashes), 0);
		print_message("%u at once: the slowest took %llu us\n", count,
			      (unsigned long long)atomic_load(&hall->slowest_ns) / 1000);
		assert_int_equal(berth_region_join(path, NULL, 0, &region, NULL, NULL), 0);
		assert_int_equal(berth_ledger_room(region, 0, &room), 0);
		assert_int_equal(room.charged_bytes, 1000 * count); /* the living's, exactly */
		if (berth_region_check(region, &reason) < 0)
			fail_msg("%s", reason.text);
		for (uint32_t i = 0; i < count; i++) {
			assert_int_equal(kill(pids[i], SIGKILL), 0);
			assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
		}
		assert_int_equal(berth_ledger_room(region, 0, &room), 0);
		assert_int_equal(room.charged_bytes, 0);
		berth_region_close(region);
	}
	assert_int_equal(munmap(hall, sizeof *hall), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_crowds) };

	(void)snprintf(path, sizeof path, "%s/berth-seats-%ld.cache",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(path); /* made by the test */
	return failed;
}
