/* SPDX-License-Identifier: Apache-2.0
 *
 * fork, raw clone and threads: a child has no part in its parent's seat, can't harm it, and can
 * have one of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/ledger.h"
#include "region/snapshot.h"
#include "scratch.h"

struct house {
	const char *path;
	struct berth_region *region;
	struct berth_seat *seat;
};

static struct house house_open(struct scratch *scratch)
{
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct house house = { .path = scratch->path };

	house.region = join_or_fail(scratch->path, &spec);
	house.seat = claim_or_fail(house.region);
	assert_int_equal(berth_ledger_ask(house.seat, 0, BERTH_CHARGE_DATA, 600 * MIB), 0);
	return house;
}

static void house_close(struct house *house)
{
	assert_int_equal(berth_seat_alive(house->region, berth_seat_index(house->seat)), 1);
	assert_int_equal(charged_bytes(house->region, 0), 600 * MIB);
	check_or_fail(house->region);
	berth_seat_leave(house->seat);
	berth_region_close(house->region);
}

/* Everything that a child might call on what it inherited: refused or nothing, never a crash. */
static int use_inherited(void *arg)
{
	struct house *house = arg;
	struct berth_region_gpu gpu;
	struct berth_ledger_room room;
	struct berth_snapshot *taken = NULL;
	struct berth_seat *second = NULL;

	if (berth_ledger_ask(house->seat, 0, BERTH_CHARGE_DATA, 1) != -ECHILD)
		return 1;
	berth_ledger_charge(house->seat, 0, BERTH_CHARGE_DATA, 1);
	berth_ledger_refund(house->seat, 0, BERTH_CHARGE_DATA, 600 * MIB);
	berth_seat_set_host_pid(house->seat, 1, (struct berth_host_pid_note){ 0 });
	berth_region_gpu(house->region, 0, &gpu);
	if (berth_ledger_room(house->region, 0, &room) != -ECHILD)
		return 2;
	if (berth_snapshot_take(house->region, 0, &taken) != -ECHILD)
		return 3;
	if (berth_region_check(house->region, NULL) != -ECHILD)
		return 4;
	if (berth_seat_claim(house->region, 0, &second, NULL, NULL) != -ECHILD)
		return 5;
	if (berth_seat_alive(house->region, 0) != -ECHILD)
		return 6;
	if (berth_seat_reap_all(house->region) != -ECHILD ||
	    berth_seat_reap(house->region, 0) != -ECHILD)
		return 7;
	if (gpu.memory_limit_bytes != 0 || berth_region_gpu_find(house->region, GPU_A) != -ECHILD)
		return 8;
	return 0;
}

static void test_child_uses_inherited(void **state)
{
	struct house house = house_open(*state);

	assert_int_equal(child_end(child_start(use_inherited, &house)), 0);
	house_close(&house);
}

/* The same without any handler of the C library. */
static void test_raw_clone(void **state)
{
	struct house house = house_open(*state);
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		syscall(SYS_exit_group, use_inherited(&house));
	assert_int_equal(child_end(pid), 0);
	house_close(&house);
}

static int forget_all(void *arg)
{
	struct house *house = arg;

	berth_seat_forget(house->seat);
	berth_region_forget(house->region);
	return 0;
}

/* What a tidy exit handler does in the parent must be harmless in the child. */
static int leave_and_close(void *arg)
{
	struct house *house = arg;

	berth_seat_leave(house->seat);
	berth_region_close(house->region);
	return 0;
}

/* The child ends normally: same file, same books, and a third process joins them. */
static void test_child_exits(void **state)
{
	struct scratch *scratch = *state;
	struct house house = house_open(scratch);
	struct stat before;
	struct stat after;

	assert_int_equal(stat(scratch->path, &before), 0);
	assert_int_equal(child_end(child_start(forget_all, &house)), 0);
	assert_int_equal(child_end(child_start(leave_and_close, &house)), 0);
	assert_int_equal(stat(scratch->path, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	struct berth_region *third = join_or_fail(scratch->path, NULL);
	assert_int_equal(charged_bytes(third, 0), 600 * MIB);
	berth_region_close(third);
	house_close(&house);
}

static int own_seat_in_child(void *arg)
{
	struct house *house = arg;
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	forget_all(house);
	if (berth_region_join(house->path, NULL, 0, &region, NULL, NULL) < 0 ||
	    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0)
		return 1;
	if (berth_seat_index(seat) != 1)
		return 2;
	if (berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 425 * MIB) != -ENOMEM)
		return 3;
	if (berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 424 * MIB) != 0)
		return 4;
	berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, 424 * MIB);
	berth_seat_leave(seat);
	berth_region_close(region);
	return 0;
}

static void test_child_takes_its_own(void **state)
{
	struct house house = house_open(*state);

	assert_int_equal(child_end(child_start(own_seat_in_child, &house)), 0);
	house_close(&house);
}

static int wait_for_end(void *arg)
{
	(void)arg;
	(void)pause();
	return 0;
}

struct family {
	const char *path;
	int report;
};

/* Takes a seat, forks a child that stays, tells its pid, dies. */
static int father(void *arg)
{
	struct family *family = arg;
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	if (berth_region_join(family->path, NULL, 0, &region, NULL, NULL) < 0 ||
	    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0 ||
	    berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, MIB) < 0)
		return 1;
	pid_t son = fork(); /* outlives us */
	if (son == 0)
		_exit(wait_for_end(NULL));
	if (write(family->report, &son, sizeof son) != sizeof son)
		return 2;
	(void)raise(SIGKILL);
	return 3;
}

/* A child that outlives its parent doesn't keep the seat, even if it never cared for it. */
static void test_orphan_keeps_nothing(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	int pipe_ends[2];
	pid_t son = 0;

	assert_int_equal(pipe(pipe_ends), 0);
	struct family family = { scratch->path, pipe_ends[1] };
	assert_int_equal(child_end(child_start(father, &family)), -SIGKILL);
	assert_int_equal(read(pipe_ends[0], &son, sizeof son), sizeof son);
	int alive = berth_seat_alive(region, 0);
	uint64_t charged = charged_bytes(region, 0);
	assert_int_equal(kill(son, SIGKILL), 0); /* was there all the while */
	assert_int_equal(alive, 0);
	assert_int_equal(charged, 0);
	assert_int_equal(close(pipe_ends[0]) | close(pipe_ends[1]), 0);
	berth_region_close(region);
}

struct churn {
	const char *path;
	_Atomic bool ended;
	_Atomic int failures;
};

/* Claims and leaves without a pause, so that forks fall into every window. */
static void *churn_run(void *arg)
{
	struct churn *churn = arg;

	while (!atomic_load(&churn->ended)) {
		struct berth_region *region = NULL;
		struct berth_seat *seat = NULL;

		if (berth_region_join(churn->path, NULL, 0, &region, NULL, NULL) < 0 ||
		    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0)
			atomic_fetch_add(&churn->failures, 1);
		berth_seat_leave(seat);
		berth_region_close(region);
	}
	return NULL;
}

/* Children forked while another thread is in the middle of a claim inherit no lock of it. */
static void test_fork_during_claims(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(1024 * MIB);
	struct berth_region *region = join_or_fail(scratch->path, &spec);
	struct churn churn = { .path = scratch->path };
	pid_t sons[64];
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, churn_run, &churn), 0);
	for (size_t i = 0; i < 64; i++)
		sons[i] = child_start(wait_for_end, NULL);
	atomic_store(&churn.ended, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(atomic_load(&churn.failures), 0);
	for (uint32_t i = 0; i < 16; i++)
		assert_int_equal(berth_seat_alive(region, i), 0);
	assert_int_equal(berth_seat_reap_all(region), 0);
	struct berth_seat *seat = claim_or_fail(region);
	assert_int_equal(berth_seat_index(seat), 0); /* no reap byte is stuck either */
	for (size_t i = 0; i < 64; i++) {
		assert_int_equal(kill(sons[i], SIGKILL), 0);
		assert_int_equal(child_end(sons[i]), -SIGKILL);
	}
	berth_seat_leave(seat);
	berth_region_close(region);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_child_uses_inherited), TEST(test_raw_clone),
		TEST(test_child_exits),          TEST(test_child_takes_its_own),
		TEST(test_orphan_keeps_nothing), TEST(test_fork_during_claims),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
