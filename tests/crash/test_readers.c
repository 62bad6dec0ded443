/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers that are stopped in the middle of a read while what they read changes. Races that chance
 * finds once in a million asks, made to happen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crash_point.h"
#include "region/ledger.h"
#include "region/snapshot.h"

#define MIB ((uint64_t)1 << 20)

/* Two seats of this process, 0 and 1; the reader comes third. */
static struct {
	char path[128];
	struct berth_region *regions[2];
	struct berth_seat *seats[2];
} stage;

static int ask(int i, uint64_t bytes)
{
	return berth_ledger_ask(stage.seats[i], 0, BERTH_CHARGE_DATA, bytes);
}

static void refund(int i, uint64_t bytes)
{
	berth_ledger_refund(stage.seats[i], 0, BERTH_CHARGE_DATA, bytes);
}

static int setup(void **state)
{
	struct berth_region_spec spec = { .gpu_count = 1, .priority = 1 };

	(void)state;
	spec.gpus[0].memory_limit_bytes = 1024 * MIB;
	for (int i = 0; i < 2; i++) {
		if (berth_region_join(stage.path, &spec, 0, &stage.regions[i], NULL, NULL) < 0 ||
		    berth_seat_claim(stage.regions[i], 0, &stage.seats[i], NULL, NULL) < 0)
			return -1;
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		berth_seat_leave(stage.seats[i]);
		berth_region_close(stage.regions[i]);
	}
	return unlink(stage.path);
}

/* Starts the reader and waits until it has stopped. */
static pid_t reader_start(int (*body)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* can't fail */
		_exit(body());
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	return pid;
}

static int reader_end(pid_t pid)
{
	int status = 0;

	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* An ask that stops when it has read the first seat. */
static int ask_300(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	if (berth_region_join(stage.path, NULL, 0, &region, NULL, NULL) < 0 ||
	    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0)
		return 100;
	berth_crash_arm(BERTH_CRASH_ledger_ask_collecting, BERTH_CRASH_STOP, 1);
	int r = berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 300 * MIB);
	berth_seat_leave(seat);
	berth_region_close(region);
	return -r;
}

/* 600M move from the seat that was read to the one that wasn't: read together they are 1200M,
 * although there was room for 300M all the while. */
static void test_bytes_move_on(void **state)
{
	(void)state;
	assert_int_equal(ask(0, 600 * MIB), 0);
	pid_t pid = reader_start(ask_300);
	refund(0, 600 * MIB);
	assert_int_equal(ask(1, 600 * MIB), 0);
	assert_int_equal(reader_end(pid), 0);
}

/* The other way round they are 0M when read together: the newcomer must not be let in beside
 * them. */
static int ask_900(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	if (berth_region_join(stage.path, NULL, 0, &region, NULL, NULL) < 0 ||
	    berth_seat_claim(region, 0, &seat, NULL, NULL) < 0)
		return 100;
	berth_crash_arm(BERTH_CRASH_ledger_ask_collecting, BERTH_CRASH_STOP, 1);
	int r = berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 900 * MIB);
	berth_seat_leave(seat);
	berth_region_close(region);
	return -r;
}

static void test_bytes_move_back(void **state)
{
	(void)state;
	assert_int_equal(ask(1, 600 * MIB), 0);
	pid_t pid = reader_start(ask_900);
	refund(1, 600 * MIB);
	assert_int_equal(ask(0, 600 * MIB), 0);
	assert_int_equal(reader_end(pid), ENOMEM);
}

/* A snapshot that stops when it has read some of a seat's figures. 0 = they belong together. */
static int snapshot_check(void)
{
	struct berth_region *region = NULL;
	struct berth_snapshot *taken = NULL;

	if (berth_region_view(stage.path, &region, NULL) < 0)
		return 100;
	berth_crash_arm(BERTH_CRASH_snapshot_copying, BERTH_CRASH_STOP, 1);
	if (berth_snapshot_take(region, 0, &taken) < 0)
		return 101;
	const struct berth_snapshot_use *use = &taken->seats[0].use[0];
	int status = taken->seats[0].torn ? 1
		     : use->context_bytes + use->module_bytes + use->data_bytes != use->total_bytes
			     ? 2
			     : 0;
	berth_snapshot_free(taken);
	berth_region_close(region);
	return status;
}

static void test_figures_change(void **state)
{
	(void)state;
	berth_ledger_charge(stage.seats[0], 0, BERTH_CHARGE_CONTEXT, MIB);
	pid_t pid = reader_start(snapshot_check);
	berth_ledger_charge(stage.seats[0], 0, BERTH_CHARGE_CONTEXT, MIB);
	assert_int_equal(ask(0, 5 * MIB), 0);
	assert_int_equal(reader_end(pid), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_bytes_move_on),
		TEST(test_bytes_move_back),
		TEST(test_figures_change),
	};

	(void)snprintf(stage.path, sizeof stage.path, "%s/berth-readers-%ld.cache",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
