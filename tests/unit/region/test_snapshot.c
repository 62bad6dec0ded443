/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots are consistent while others write, and end whatever state a writer is in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/process.h"
#include "region/ledger.h"
#include "region/snapshot.h"
#include "scratch.h"

static void test_figures(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_snapshot *taken = NULL;
	struct berth_process_id self;

	assert_int_equal(berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &taken), 0);
	assert_int_equal(taken->seat_count, 0);
	assert_string_equal(taken->share_name, "test");
	berth_snapshot_free(taken);
	struct berth_seat *seat = NULL;
	assert_int_equal(berth_seat_claim(region, 99, &seat, NULL, NULL), 0);
	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 5 * MIB), 0);
	berth_ledger_charge(seat, 0, BERTH_CHARGE_MODULE, MIB);

	struct berth_region *view = NULL;
	assert_int_equal(berth_region_view(scratch->path, &view, NULL), 0);
	assert_int_equal(berth_snapshot_take(view, BERTH_SNAPSHOT_LIVENESS, &taken), 0);
	assert_int_equal(taken->gpu_count, 1);
	assert_string_equal(taken->gpus[0].gpu.uuid, GPU_A);
	assert_int_equal(taken->gpus[0].gpu.memory_limit_bytes, 1024 * MIB);
	assert_int_equal(taken->gpus[0].charged_bytes, 6 * MIB);
	assert_int_equal(taken->seat_count, 1);
	const struct berth_snapshot_seat *own = &taken->seats[0];
	assert_int_equal(berth_process_self(&self), 0);
	assert_int_equal(own->pid, self.pid);
	assert_int_equal(own->host_pid, 99);
	assert_int_equal(own->start_ticks, self.start_ticks);
	assert_int_equal(own->pid_namespace, self.pid_namespace);
	assert_true(own->alive);
	assert_false(own->torn);
	assert_false(own->foreign);
	assert_int_equal(own->use[0].module_bytes, MIB);
	assert_int_equal(own->use[0].data_bytes, 5 * MIB);
	assert_int_equal(own->use[0].total_bytes, 6 * MIB);
	berth_snapshot_free(taken);
	berth_region_close(view);
	berth_seat_leave(seat);
	berth_region_close(region);
}

static int die_seated(void *arg)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	if (berth_region_join(arg, NULL, 0, &region, NULL, NULL) < 0 ||
	    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0 ||
	    berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 7 * MIB) < 0)
		return 1;
	(void)raise(SIGKILL);
	return 2;
}

/* Dead, and its sequence number left odd: shown, marked, with the ledger's figure, not counted. */
static void test_torn(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_snapshot *taken = NULL;
	uint64_t sequence = 0;

	assert_int_equal(child_end(child_start(die_seated, scratch->path)), -SIGKILL);
	int fd = open(scratch->path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &sequence, 8, 1856 + 1936), 8);
	sequence++;
	assert_int_equal(sequence & 1, 1);
	assert_int_equal(pwrite(fd, &sequence, 8, 1856 + 1936), 8);
	assert_int_equal(close(fd), 0);
	assert_int_equal(berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &taken), 0);
	assert_int_equal(taken->seat_count, 1);
	assert_true(taken->seats[0].torn);
	assert_false(taken->seats[0].alive);
	assert_int_equal(taken->seats[0].use[0].total_bytes, 7 * MIB);
	assert_int_equal(taken->gpus[0].charged_bytes, 0);
	berth_snapshot_free(taken);
	/* Without asking the kernel it passes for alive. */
	assert_int_equal(berth_snapshot_take(region, 0, &taken), 0);
	assert_true(taken->seats[0].alive);
	berth_snapshot_free(taken);
	/* The next owner's figures are whole. */
	struct berth_seat *seat = claim_or_fail(region);
	assert_int_equal(berth_seat_index(seat), 0);
	check_or_fail(region);
	assert_int_equal(berth_snapshot_take(region, 0, &taken), 0);
	assert_false(taken->seats[0].torn);
	assert_int_equal(taken->seats[0].use[0].total_bytes, 0);
	berth_snapshot_free(taken);
	berth_seat_leave(seat);
	berth_region_close(region);
}

struct writer {
	struct berth_seat *seat;
	_Atomic bool ended;
};

/* Data and module bytes rise and fall by the same amount, so every whole set of figures has a total
 * of their sum. */
static void *writer_run(void *arg)
{
	struct writer *writer = arg;

	while (!atomic_load(&writer->ended)) {
		for (uint64_t i = 1; i < 20; i++)
			berth_ledger_charge(writer->seat, 0,
					    i % 2 ? BERTH_CHARGE_DATA : BERTH_CHARGE_MODULE, i);
		for (uint64_t i = 1; i < 20; i++)
			berth_ledger_refund(writer->seat, 0,
					    i % 2 ? BERTH_CHARGE_DATA : BERTH_CHARGE_MODULE, i);
	}
	return NULL;
}

static void test_consistent_while_written(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(0);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct writer writer = { .seat = claim_or_fail(region) };
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, writer_run, &writer), 0);
	for (int i = 0; i < 400000; i++) {
		struct berth_snapshot *taken = NULL;

		assert_int_equal(berth_snapshot_take(region, 0, &taken), 0);
		const struct berth_snapshot_use *use = &taken->seats[0].use[0];
		if (!taken->seats[0].torn)
			assert_int_equal(use->data_bytes + use->module_bytes, use->total_bytes);
		assert_true(use->total_bytes <= 190);
		berth_snapshot_free(taken);
		if (i % 20000 == 0)
			check_or_fail(region);
	}
	atomic_store(&writer.ended, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(charged_bytes(region, 0), 0);
	berth_seat_leave(writer.seat);
	berth_region_close(region);
}

/* The checker sees what it is for: each planted fault is found. */
static void assert_found(const char *path, struct berth_region *region, off_t offset, size_t size,
			 uint64_t value)
{
	struct berth_reason reason = { "" };
	uint64_t before = 0;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	assert_int_equal(pread(fd, &before, size, offset), (ssize_t)size);
	assert_int_equal(pwrite(fd, &value, size, offset), (ssize_t)size);
	assert_int_equal(berth_region_check(region, &reason), -EUCLEAN);
	assert_non_null(strstr(reason.text, path));
	assert_int_equal(pwrite(fd, &before, size, offset), (ssize_t)size);
	assert_int_equal(close(fd), 0);
	check_or_fail(region);
}

static void test_checker_finds_faults(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct berth_seat *seat = claim_or_fail(region);
	off_t base = 1856;

	assert_int_equal(berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 5 * MIB), 0);
	check_or_fail(region);
	assert_found(scratch->path, region, 0, 4, 1);                  /* completion mark */
	assert_found(scratch->path, region, 4, 4, 3);                  /* version */
	assert_found(scratch->path, region, 56, 8, 2);                 /* number of GPUs */
	assert_found(scratch->path, region, 2008896, 4, 2000);         /* more seats than exist */
	assert_found(scratch->path, region, 2008896, 4, 0);            /* taken beyond the end */
	assert_found(scratch->path, region, 2031616, 8, 0);            /* tail's magic */
	assert_found(scratch->path, region, base + 8 + 32, 8, 4);      /* mirror's total */
	assert_found(scratch->path, region, base + 8 + 16, 8, 0);      /* mirror's kind */
	assert_found(scratch->path, region, base + 1960, 4, 77);       /* pid in an empty seat */
	assert_found(scratch->path, region, base + 1960 + 1936, 8, 1); /* its sequence odd */
	assert_found(scratch->path, region, base + 1960 + 40, 8, 9);   /* bytes in its mirror */
	berth_seat_leave(seat);
	berth_region_close(region);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_figures),
		TEST(test_torn),
		TEST(test_consistent_while_written),
		TEST(test_checker_finds_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
