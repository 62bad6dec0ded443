/* SPDX-License-Identifier: Apache-2.0
 *
 * Two pid namespaces with equal pids in one region (L18): both pid 1 and both pid 2 sit there, none
 * takes another's seat for a left-over, and the dead of either are found and emptied from the other
 * and from outside. A whole namespace that is killed at once leaves nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "actor.h"
#include "base/clock.h"
#include "region/ledger.h"
#include "region/snapshot.h"
#include "scratch.h"

enum { SPACE_COUNT = 2, PER_SPACE = 2 };

struct space {
	const char *path;
	struct actor *actors; /* its pid 1 and its pid 2 */
};

static int second_run(void *arg)
{
	struct space *space = arg;

	return getpid() == 2 ? actor_obey(&space->actors[1], space->path) : 3;
}

/* pid 1 of a namespace: it goes, and all of it go. */
static int first_run(void *arg)
{
	struct space *space = arg;
	pid_t pid = child_start(second_run, space);

	return getpid() == 1 && pid == 2 ? actor_obey(&space->actors[0], space->path) : 3;
}

/* Stands between: its children are in a namespace of their own. */
static int space_run(void *arg)
{
	if (unshare(CLONE_NEWPID) < 0)
		return 77;
	return child_end(child_start(first_run, arg)) == -SIGKILL ? 0 : 1;
}

static bool namespaces_allowed(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(CLONE_NEWPID) < 0);
	return child_end(pid) == 0;
}

struct stage {
	struct berth_region *region;
	struct berth_seat *seat; /* the test's own, outside */
	struct actor *actors;
	struct space spaces[SPACE_COUNT];
	pid_t pids[SPACE_COUNT];
};

static void stage_open(struct stage *stage, struct scratch *scratch)
{
	struct berth_region_spec spec = spec_of(1024 * MIB);

	stage->actors = actors_make();
	stage->region = join_or_fail(scratch->path, &spec);
	stage->seat = claim_or_fail(stage->region);
	for (int i = 0; i < SPACE_COUNT; i++) {
		stage->spaces[i] = (struct space){ scratch->path, &stage->actors[i * PER_SPACE] };
		stage->pids[i] = child_start(space_run, &stage->spaces[i]);
	}
	for (int i = 0; i < SPACE_COUNT * PER_SPACE; i++)
		actor_await(&stage->actors[i]);
}

static void stage_close(struct stage *stage)
{
	berth_seat_leave(stage->seat);
	berth_region_close(stage->region);
	actors_free(stage->actors);
}

static void await_death(struct stage *stage, const struct actor *actor)
{
	uint64_t deadline_ns = berth_deadline_after(60 * BERTH_NS_PER_S);

	while (berth_seat_alive(stage->region, actor->seat) != 0 &&
	       !berth_deadline_passed(deadline_ns))
		(void)usleep(200);
	assert_int_equal(berth_seat_alive(stage->region, actor->seat), 0);
}

/* As a container ends: its first process is killed from outside, and the kernel kills the rest. */
static void space_kill(struct stage *stage, int i)
{
	char path[64];
	char text[32] = "";

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)stage->pids[i],
		       (int)stage->pids[i]);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	assert_int_equal(fclose(file), 0);
	assert_int_equal(kill((pid_t)strtol(text, NULL, 10), SIGKILL), 0);
	assert_int_equal(child_end(stage->pids[i]), 0);
	for (int k = 0; k < PER_SPACE; k++)
		await_death(stage, &stage->spaces[i].actors[k]);
}

/* Four seats of others, two of pid 1 and two of pid 2, in two namespaces that aren't ours. */
static void equal_pids_differ(struct stage *stage)
{
	struct berth_snapshot *taken = NULL;
	uint64_t spaces[3] = { 0 };
	int found[3] = { 0 };

	assert_int_equal(berth_snapshot_take(stage->region, BERTH_SNAPSHOT_LIVENESS, &taken), 0);
	assert_int_equal(taken->seat_count, 5);
	for (uint32_t i = 0; i < taken->seat_count; i++) {
		const struct berth_snapshot_seat *seat = &taken->seats[i];

		assert_true(seat->alive);
		if (seat->pid == getpid()) {
			spaces[2] = seat->pid_namespace;
			continue;
		}
		assert_in_range(seat->pid, 1, 2);
		found[seat->pid]++;
		if (seat->pid == 1)
			spaces[found[1] - 1] = seat->pid_namespace;
	}
	assert_int_equal(found[1], 2);
	assert_int_equal(found[2], 2);
	assert_true(spaces[0] != spaces[1] && spaces[0] != spaces[2] && spaces[1] != spaces[2]);
	berth_snapshot_free(taken);
}

static void test_equal_pids(void **state)
{
	struct stage stage = { 0 };

	if (!namespaces_allowed()) {
		print_message("no pid namespace can be made here (needs root): skipped\n");
		skip();
	}
	stage_open(&stage, *state);
	struct actor *a1 = &stage.actors[0];
	struct actor *b1 = &stage.actors[2];
	struct actor *b2 = &stage.actors[3];

	for (int i = 0; i < SPACE_COUNT * PER_SPACE; i++)
		assert_int_equal(actor_do(&stage.actors[i], ACTOR_ASK, 150 * MIB), 0);
	equal_pids_differ(&stage);
	/* Nobody reaps anybody, and each sees all. */
	for (int i = 0; i < SPACE_COUNT * PER_SPACE; i++) {
		assert_int_equal(actor_do(&stage.actors[i], ACTOR_REAP, 0), 0);
		for (int k = 0; k < SPACE_COUNT * PER_SPACE; k++)
			assert_int_equal(
				actor_do(&stage.actors[i], ACTOR_ALIVE, stage.actors[k].seat), 1);
	}
	assert_int_equal(actor_do(a1, ACTOR_CHARGED, 0), 600 * MIB);
	assert_int_equal(actor_do(a1, ACTOR_ASK, 425 * MIB), -ENOMEM);
	/* pid 2 of the one dies: pid 1 of the other finds it, and has its room. */
	actor_die(b2);
	await_death(&stage, b2);
	assert_int_equal(actor_do(a1, ACTOR_ALIVE, b2->seat), 0);
	assert_int_equal(actor_do(a1, ACTOR_REAP, 0), 1);
	assert_int_equal(actor_do(b1, ACTOR_CHARGED, 0), 450 * MIB);
	assert_int_equal(actor_do(a1, ACTOR_ASK, 574 * MIB), 0);
	assert_int_equal(actor_do(b1, ACTOR_ASK, 1), -ENOMEM);
	/* pid 1 of the one is killed, and with it all that is left there; the other has its room. */
	space_kill(&stage, 0);
	assert_int_equal(actor_do(b1, ACTOR_ALIVE, a1->seat), 0);
	assert_int_equal(actor_do(b1, ACTOR_ASK, 874 * MIB), 0);
	assert_int_equal(charged_bytes(stage.region, 0), 1024 * MIB);
	/* And the last one is found dead from outside. */
	space_kill(&stage, 1);
	assert_int_equal(berth_ledger_ask(stage.seat, 0, BERTH_CHARGE_DATA, 1024 * MIB), 0);
	assert_int_equal(berth_seat_reap_all(stage.region), 0); /* the asker has emptied it */
	berth_ledger_refund(stage.seat, 0, BERTH_CHARGE_DATA, 1024 * MIB);
	assert_int_equal(charged_bytes(stage.region, 0), 0);
	check_or_fail(stage.region);
	stage_close(&stage);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_equal_pids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
