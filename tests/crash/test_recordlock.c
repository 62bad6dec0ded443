/* SPDX-License-Identifier: Apache-2.0
 *
 * The record lock, killed at every named point of a take, a wait in either way, a keeper's look and a give.
 * After the kill: what it had is free at once, while the process that owns the lock lives on undisturbed;
 * no task that it made is left; and everybody else can use the lock.
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

#include "base/attributes.h"
#include "base/clock.h"
#include "base/crash_point.h"
#include "player.h"

enum { SHORT_MS = 60, ROUNDS = 50 };

static const struct {
	const char *name;
	const char *where;
} points[] = {
#define CRASH_POINT(name, where) { #name, where },
#include "base/crash_points.def"
#undef CRASH_POINT
};

/* Behind an owner: waits that end at their deadline, and waits that end with the lock. */
static void wait_behind(const struct player *owner, const char *path, uint32_t way)
{
	struct berth_recordlock *lock = open_way(path, way, 0);

	for (int i = 0; i < ROUNDS; i++) {
		if (player_ask(owner, 't') != 0)
			_exit(10);
		if (i < 2 && berth_recordlock_take(lock, SHORT_MS, NULL) != -ETIMEDOUT)
			_exit(11);
		if (player_ask(owner, 's') != 0)
			_exit(12);
		if (berth_recordlock_take(lock, LONG_MS, NULL) != 0)
			_exit(13);
		if (berth_recordlock_give(lock) != 0)
			_exit(14);
		/* On a slow machine the owner was faster: another round. */
		if (i > 1 && (trace_of(lock).block_count >= 4 || trace_of(lock).nap_count >= 8))
			break;
	}
	berth_recordlock_close(lock);
}

static void victim(enum berth_crash_point point, unsigned nth, const struct player *owner,
		   const char *path)
{
	struct berth_recordlock *lock =
		open_way(path, BERTH_RECORDLOCK_AUTO, BERTH_RECORDLOCK_KEEP);

	berth_crash_arm(point, BERTH_CRASH_KILL, nth);
	for (int i = 0; i < 2; i++) {
		if (berth_recordlock_take(lock, 0, NULL) != 0)
			_exit(1);
		if (berth_recordlock_check(lock) != 0 || berth_recordlock_give(lock) != 0)
			_exit(2);
	}
	wait_behind(owner, path, BERTH_RECORDLOCK_BLOCK);
	wait_behind(owner, path, BERTH_RECORDLOCK_POLL);
	_exit(3); /* the point was never reached */
}

/* The victim's tasks are ours by now (PR_SET_CHILD_SUBREAPER). All but the owner must end by themselves. */
static void reap_orphans(const struct player *owner)
{
	uint64_t deadline_ns = berth_deadline_after(10 * BERTH_NS_PER_S);

	while (children_count() > 1) {
		pid_t child = waitpid(-1, NULL, WNOHANG | __WALL);

		assert_true(child != owner->pid);
		assert_false(berth_deadline_passed(deadline_ns));
		if (child <= 0)
			sleep_ms(1);
	}
}

static void play(const struct field *field, enum berth_crash_point point, unsigned nth)
{
	struct player owner;
	struct berth_recordlock *lock = NULL;
	pid_t holder;
	pid_t child;
	int status = 0;

	player_start(&owner, field->path, BERTH_RECORDLOCK_BLOCK);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		victim(point, nth, &owner, field->path);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		fail_msg("not killed there: status %x", (unsigned)status);

	holder = owner_of(field->path);
	reap_orphans(&owner);
	if (holder != 0 && holder != owner.pid) /* only a task that was still on its way out */
		holder = owner_of(field->path);
	assert_true(holder == 0 || holder == owner.pid);
	player_end(&owner);
	assert_int_equal(owner_of(field->path), 0);

	for (uint32_t way = BERTH_RECORDLOCK_BLOCK; way <= BERTH_RECORDLOCK_POLL; way++) {
		lock = open_way(field->path, way, 0);
		assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0);
		assert_int_equal(berth_recordlock_check(lock), 0);
		assert_int_equal(owner_of(field->path), getpid());
		berth_recordlock_close(lock);
	}
}

static void test_point(void **state)
{
	enum berth_crash_point point = (enum berth_crash_point)(uintptr_t)*state;
	void *field = NULL;

	assert_int_equal(field_setup(&field), 0);
	for (unsigned nth = 1; nth <= 2; nth++)
		play(field, point, nth);
	assert_int_equal(field_teardown(&field), 0);
}

int main(void)
{
	struct CMUnitTest tests[BERTH_CRASH_COUNT];
	size_t count = 0;

	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		return 1;
	for (uintptr_t i = 0; i < BERTH_CRASH_COUNT; i++) {
		if (strncmp(points[i].where, "lock/", 5) != 0)
			continue;
		tests[count++] = (struct CMUnitTest){
			.name = points[i].name,
			.test_func = test_point,
			.initial_state = (void *)i,
		};
	}
	return _cmocka_run_group_tests("recordlock", tests, count, NULL, NULL);
}
