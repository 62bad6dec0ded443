/* SPDX-License-Identifier: Apache-2.0
 *
 * Several processes on one GPU: they share its time, and none of them can take it along when it dies.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine_fixture.h"
#include "sim/node/node.h"
#include "sim/node/timeline.h"

/* 300 ms of work, in ms of device time from begin to end. */
static float measure(void)
{
	CUevent start, end;
	float ms;

	CHECK_OK(cuEventCreate(&start, 0));
	CHECK_OK(cuEventCreate(&end, 0));
	CHECK_OK(cuEventRecord(start, NULL));
	engine_run_slow(NULL, 150);
	CHECK_OK(cuEventRecord(end, NULL));
	CHECK_OK(cuEventSynchronize(end));
	CHECK_OK(cuEventElapsedTime(&ms, start, end));
	return ms;
}

static void share(int socket)
{
	float ms;

	engine_begin();
	core_tell(socket);
	core_wait(socket);
	ms = measure();
	core_send(socket, &ms, sizeof(ms));
}

static void run_two(float ms[2])
{
	struct core_child children[2];

	core_node_new("1x1G");
	for (int i = 0; i < 2; i++) {
		children[i] = core_start(share);
		core_wait(children[i].socket);
	}
	for (int i = 0; i < 2; i++)
		core_tell(children[i].socket);
	for (int i = 0; i < 2; i++)
		core_receive(children[i].socket, &ms[i], sizeof(ms[i]));
	for (int i = 0; i < 2; i++)
		assert_true(core_succeeded(&children[i]));
}

/* 300 ms of work each, begun together: each sees the other's share in its own. On a busy machine
 * one may begin when the other is done, so there are some tries. */
static void two_processes_take_turns(void **state)
{
	float ms[2] = { 0, 0 };

	(void)state;
	for (int round = 0; round < 10 && ms[0] <= 310.0F && ms[1] <= 310.0F; round++) {
		run_two(ms);
		assert_true(ms[0] >= 299.9F && ms[1] >= 299.9F);
	}
	assert_true(ms[0] > 310.0F || ms[1] > 310.0F);
}

static void hog(int socket)
{
	engine_begin();
	engine_run_slow(NULL, 100000);
	core_tell(socket);
	pause();
}

static void work_after_a_death(int socket)
{
	float ms, least = 0;

	engine_begin();
	core_tell(socket);
	core_wait(socket);
	for (int round = 0; round < 5; round++) {
		ms = measure();
		least = round && least < ms ? least : ms;
	}
	core_send(socket, &least, sizeof(least));
}

/* 200 s are queued by a process that is killed: those that live share only with each other. The
 * least of some rounds, since on a busy machine one may have begun late. */
static void the_dead_queue_nothing(void **state)
{
	struct core_child steady, child;
	float ms;

	(void)state;
	core_node_new("1x1G");
	steady = core_start(work_after_a_death);
	core_wait(steady.socket);
	child = core_start(hog);
	core_wait(child.socket);
	core_kill(&child);
	core_tell(steady.socket);
	core_receive(steady.socket, &ms, sizeof(ms));
	assert_true(core_succeeded(&steady));
	assert_true(ms >= 299.9F && ms < 450.0F);
}

/* Killed with the timeline's lock, in the middle of a change. */
static void dies_with_the_lock(int socket)
{
	struct sim_timeline *line;

	engine_begin();
	engine_run_slow(NULL, 10);
	/* This program's own copy of the node code stands beside the library's. */
	CHECK(sim_node_open() == 0);
	CHECK(sim_node_claim() == 0);
	line = sim_node_timeline(0);
	while (atomic_load(&line->clock.holder))
		sched_yield();
	atomic_store(&line->clock.holder,
		     atomic_load(&sim_node()->processes[sim_node_row()].generation));
	line->active_count = 0;
	core_tell(socket);
	pause();
}

static void a_dead_holder_is_no_obstacle(void **state)
{
	struct core_child child;
	float ms;

	(void)state;
	core_node_new("1x1G");
	child = core_start(dies_with_the_lock);
	core_wait(child.socket);
	core_kill(&child);
	child = core_start(share);
	core_wait(child.socket);
	core_tell(child.socket);
	core_receive(child.socket, &ms, sizeof(ms));
	assert_true(core_succeeded(&child));
	assert_true(ms >= 299.9F);
}

static void launch_for_ever(int socket)
{
	engine_begin();
	core_tell(socket);
	for (;;)
		engine_run_slow(NULL, 1);
}

/* Whatever instruction the others are killed at, one that lives gets its work done. */
static void kills_at_random_times_stop_nobody(void **state)
{
	struct core_child steady;
	float ms;

	(void)state;
	core_node_new("1x1G");
	steady = core_start(share);
	core_wait(steady.socket);
	for (unsigned i = 0; i < 60; i++) {
		struct core_child child = core_start(launch_for_ever);

		core_wait(child.socket);
		usleep(i * 37 % 1000);
		core_kill(&child);
		if (i == 5)
			core_tell(steady.socket);
	}
	core_receive(steady.socket, &ms, sizeof(ms));
	assert_true(core_succeeded(&steady));
	assert_true(ms >= 299.9F);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_processes_take_turns),
		cmocka_unit_test(the_dead_queue_nothing),
		cmocka_unit_test(a_dead_holder_is_no_obstacle),
		cmocka_unit_test(kills_at_random_times_stop_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
