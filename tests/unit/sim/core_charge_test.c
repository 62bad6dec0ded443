/* SPDX-License-Identifier: Apache-2.0
 *
 * A process is killed, or stopped, after each single instruction of a charge and of a refund. What
 * it had must be free after the next look, and what others do meanwhile must stay exact.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/node/node.h"

#define OWN_BYTES   (10ULL << 20) /* of this process, all the time */
#define CHILD_BYTES (3ULL << 20)

enum operation { CHARGE, REFUND };

static char state_path[256];

/* Stops itself right before the operation. */
static void child_run(enum operation operation)
{
	if (sim_node_open() || sim_node_claim())
		_exit(2);
	if (operation == REFUND && sim_node_charge(0, CHILD_BYTES))
		_exit(3);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(77);
	raise(SIGSTOP);
	if (operation == CHARGE && sim_node_charge(0, CHILD_BYTES))
		_exit(4);
	if (operation == REFUND)
		sim_node_refund(0, CHILD_BYTES);
	raise(SIGSTOP);
	_exit(0);
}

static pid_t child_start(enum operation operation)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		child_run(operation);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip(); /* no tracing here */
	assert_true(WIFSTOPPED(status));
	return pid;
}

/* False when the operation was over before that many instructions. */
static bool child_step(pid_t pid, unsigned steps)
{
	int status;

	while (steps-- > 0) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSTOPPED(status));
		if (WSTOPSIG(status) == SIGSTOP)
			return false;
	}
	return true;
}

static void child_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* This process's own operations; they overwrite what the child wrote last. */
static void churn(void)
{
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(sim_node_charge(0, 1 << 20), 0);
		sim_node_refund(0, 1 << 20);
	}
}

static void killed_after_each(enum operation operation, bool churn_before_the_look)
{
	bool is_inside = true;
	unsigned steps;

	for (steps = 0; is_inside; steps++) {
		pid_t pid = child_start(operation);

		is_inside = child_step(pid, steps);
		child_kill(pid);
		if (churn_before_the_look)
			churn();
		sim_node_sweep();
		assert_int_equal(sim_node_used_bytes(0), OWN_BYTES);
		assert_int_equal(sim_node_own_bytes(0), OWN_BYTES);
	}
	/* A charge can't be fewer: the test would step over the wrong thing. */
	assert_true(steps > 50);
}

static void killed_in_a_charge(void **state)
{
	(void)state;
	killed_after_each(CHARGE, false);
}

static void killed_in_a_charge_while_others_work(void **state)
{
	(void)state;
	killed_after_each(CHARGE, true);
}

static void killed_in_a_refund(void **state)
{
	(void)state;
	killed_after_each(REFUND, false);
}

static void killed_in_a_refund_while_others_work(void **state)
{
	(void)state;
	killed_after_each(REFUND, true);
}

static void stopped_in_a_charge(void **state)
{
	bool is_inside = true;

	(void)state;
	for (unsigned steps = 0; is_inside; steps += 3) {
		pid_t pid = child_start(CHARGE);
		int status;

		is_inside = child_step(pid, steps);
		churn();
		assert_int_equal(sim_node_own_bytes(0), OWN_BYTES);
		if (is_inside) {
			/* On to its own stop after the operation. */
			assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
			assert_int_equal(waitpid(pid, &status, 0), pid);
			assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
		}
		assert_int_equal(sim_node_used_bytes(0), OWN_BYTES + CHILD_BYTES);
		child_kill(pid);
		sim_node_sweep();
		assert_int_equal(sim_node_used_bytes(0), OWN_BYTES);
	}
}

/* The dead one's bytes are in the way of an ask that nobody else announced. */
static void an_ask_looks_for_the_dead(void **state)
{
	uint64_t capacity = sim_node_capacity_bytes(0);
	pid_t pid = child_start(CHARGE);

	(void)state;
	assert_false(child_step(pid, 1000000));
	child_kill(pid);
	assert_int_equal(sim_node_used_bytes(0), OWN_BYTES + CHILD_BYTES);
	assert_int_equal(sim_node_charge(0, capacity - OWN_BYTES + 1), -ENOMEM);
	assert_int_equal(sim_node_charge(0, capacity - OWN_BYTES), 0);
	assert_int_equal(sim_node_used_bytes(0), capacity);
	sim_node_refund(0, capacity - OWN_BYTES);
}

static int begin(void **state)
{
	(void)state;
	snprintf(state_path, sizeof(state_path), "/tmp/berth-sim-charge-%d/node", (int)getpid());
	setenv("BERTH_SIM_STATE", state_path, 1);
	setenv("BERTH_SIM_GPUS", "1x1G", 1);
	return sim_node_open() || sim_node_claim() || sim_node_charge(0, OWN_BYTES);
}

static int end(void **state)
{
	(void)state;
	(void)unlink(state_path); /* whatever is left, the next run has another name */
	*strrchr(state_path, '/') = '\0';
	(void)rmdir(state_path);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_in_a_charge),
		cmocka_unit_test(killed_in_a_charge_while_others_work),
		cmocka_unit_test(killed_in_a_refund),
		cmocka_unit_test(killed_in_a_refund_while_others_work),
		cmocka_unit_test(stopped_in_a_charge),
		cmocka_unit_test(an_ask_looks_for_the_dead),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
