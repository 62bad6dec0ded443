/* SPDX-License-Identifier: Apache-2.0
 *
 * The peak of a GPU's used bytes: exact while nobody dies, never with the bytes of the dead.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/node/node.h"

#define UNIT SIM_CHARGE_UNIT

static char state_path[256];

/* A process that has so many units until it is killed. */
static pid_t neighbour_start(uint64_t units)
{
	char byte;
	int ready[2];
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (sim_node_open() || sim_node_claim() || sim_node_charge(0, units * UNIT) ||
		    write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void kill_now(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void the_most_at_one_time(void **state)
{
	(void)state;
	sim_node_peak_start(0);
	assert_int_equal(sim_node_peak_bytes(0), 0);
	assert_int_equal(sim_node_charge(0, 10 * UNIT), 0);
	assert_int_equal(sim_node_charge(0, 1), 0); /* a whole unit */
	sim_node_refund(0, 8 * UNIT);
	assert_int_equal(sim_node_charge(0, 2 * UNIT), 0);
	assert_int_equal(sim_node_peak_bytes(0), 11 * UNIT);
	sim_node_peak_start(0); /* from what there is now */
	assert_int_equal(sim_node_peak_bytes(0), 5 * UNIT);
	sim_node_refund(0, 4 * UNIT);
	sim_node_refund(0, 1);
	assert_int_equal(sim_node_peak_bytes(0), 5 * UNIT);
	assert_int_equal(sim_node_used_bytes(0), 0);
	assert_int_equal(sim_node_short_refund_count(0), 0);
}

static void of_all_together(void **state)
{
	pid_t pid;

	(void)state;
	sim_node_peak_start(0);
	assert_int_equal(sim_node_charge(0, 3 * UNIT), 0);
	pid = neighbour_start(7);
	assert_int_equal(sim_node_peak_bytes(0), 10 * UNIT);
	sim_node_refund(0, 3 * UNIT);
	kill_now(pid);
}

static void without_the_dead(void **state)
{
	pid_t pid = neighbour_start(100);

	(void)state;
	kill_now(pid);
	assert_int_equal(sim_node_used_bytes(0), 100 * UNIT); /* nobody has noticed */
	sim_node_peak_start(0);
	assert_int_equal(sim_node_peak_bytes(0), 0);
	pid = neighbour_start(100);
	assert_int_equal(sim_node_peak_bytes(0), 100 * UNIT);
	kill_now(pid);
	assert_int_equal(sim_node_charge(0, 60 * UNIT), 0); /* beside the dead one's */
	assert_int_equal(sim_node_peak_bytes(0), 100 * UNIT);
	assert_int_equal(sim_node_charge(0, 50 * UNIT), 0);
	assert_int_equal(sim_node_peak_bytes(0), 110 * UNIT);
	sim_node_refund(0, 110 * UNIT);
}

static void giving_back_too_much(void **state)
{
	(void)state;
	assert_int_equal(sim_node_charge(0, 2 * UNIT), 0);
	sim_node_refund(0, 3 * UNIT);
	assert_int_equal(sim_node_used_bytes(0), 0);
	assert_int_equal(sim_node_short_refund_count(0), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_most_at_one_time),
		cmocka_unit_test(of_all_together),
		cmocka_unit_test(without_the_dead),
		cmocka_unit_test(giving_back_too_much),
	};
	int failed;

	(void)snprintf(state_path, sizeof state_path, "/tmp/berth-peak-%ld", (long)getpid());
	if (setenv("BERTH_SIM_STATE", state_path, 1) || setenv("BERTH_SIM_GPUS", "1x1G", 1) ||
	    sim_node_open() || sim_node_claim())
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink(state_path);
	return failed;
}
