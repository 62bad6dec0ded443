/* SPDX-License-Identifier: Apache-2.0
 *
 * A dead process's seat, emptied on the way of refusals: it had 600 of 1024 MiB, and eight who sit
 * there already ask for 200 MiB at once. Five are granted, three refused, and the seat is emptied
 * exactly once: also when the one who empties it is stopped on the way, or killed.
 */
#include "stage.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/entry.h"
#include "region/map.h"
#include "region/snapshot.h"

#define DEAD (600 * MIB)
#define ASK  (200 * MIB)

enum { ASKER_COUNT = 8, GRANT_COUNT = 5, ROUNDS = 50 };

enum answer { ANSWER_NONE, ANSWER_GRANTED, ANSWER_REFUSED };

/* What the file says of the dead one's seat. */
struct trace {
	uint64_t generation;
	uint64_t changes;
	uint64_t versions[BERTH_GPU_MAX];
};

static struct {
	bool stops; /* who empties the seat stops at stage.point */
	pid_t askers[ASKER_COUNT];
	struct berth_region *region;
	uint32_t dead_seat;
	struct trace before;
} scene;

static int asker_run(int number)
{
	_Atomic uint64_t *answer = &stage.board->asks[number];
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	int r = stage_enter(LIMIT, 0, &region, &seat);

	atomic_fetch_add(&stage.board->count, 1);
	stage_wait_for(&stage.board->buried);
	if (scene.stops)
		berth_crash_arm(stage.point, BERTH_CRASH_STOP, 1);
	if (r != 0)
		return r;
	r = stage_ask(seat, ASK);
	berth_crash_arm(stage.point, BERTH_CRASH_NONE, 0); /* its own seat it empties in peace */
	if (r != 0 && r != -ENOMEM)
		return 71;
	atomic_store(answer, r == 0 ? ANSWER_GRANTED : ANSWER_REFUSED);
	/* Nobody gives back before all have asked. */
	stage_wait_for(&stage.board->ended);
	if (r == 0)
		stage_refund(seat, ASK);
	stage_leave(region, seat);
	return 0;
}

static int dead_run(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	int r = stage_enter(LIMIT, 0, &region, &seat);

	if (r != 0 || stage_ask(seat, DEAD) < 0)
		return 72;
	atomic_store(&stage.board->asks[ASKER_COUNT], berth_seat_index(seat));
	(void)raise(SIGKILL);
	return 73;
}

static struct trace trace_take(void)
{
	struct berth_layout_tail *tail = &scene.region->layout->tail;
	struct trace trace = { .generation = atomic_load(&tail->generation[scene.dead_seat]),
			       .changes = atomic_load(&tail->change_count) };

	for (int i = 0; i < BERTH_GPU_MAX; i++)
		trace.versions[i] =
			berth_word_version(atomic_load(&tail->ledger[i][scene.dead_seat].word));
	return trace;
}

static void scene_set(void)
{
	uint64_t deadline_ns = berth_deadline_after(WATCHDOG_NS);

	stage_clear();
	stage_region_make();
	for (int i = 0; i < ASKER_COUNT; i++) {
		scene.askers[i] = stage_fork();
		if (scene.askers[i] == 0)
			_exit(asker_run(i));
	}
	while (atomic_load(&stage.board->count) < ASKER_COUNT) {
		if (berth_deadline_passed(deadline_ns))
			FAIL("the askers don't come");
		berth_sleep_ns(BERTH_NS_PER_MS / 20, UINT64_MAX);
	}
	if (!WIFSIGNALED(stage_state_of(stage_start(dead_run), "the dead")))
		FAIL("the dead one lives");
	scene.dead_seat = (uint32_t)atomic_load(&stage.board->asks[ASKER_COUNT]);
	assert_int_equal(berth_region_join(stage.path, NULL, 0, &scene.region, NULL, NULL), 0);
	scene.before = trace_take();
	assert_int_equal(scene.before.generation & 1, 1);
	atomic_store(&stage.board->buried, true);
}

static int answers_count(enum answer answer)
{
	int count = 0;

	for (int i = 0; i < ASKER_COUNT; i++)
		count += atomic_load(&stage.board->asks[i]) == answer;
	return count;
}

static void answers_wait(int count)
{
	uint64_t deadline_ns = berth_deadline_after(WATCHDOG_NS);

	while (ASKER_COUNT - answers_count(ANSWER_NONE) < count) {
		if (berth_deadline_passed(deadline_ns))
			FAIL("only %d answers of %d", ASKER_COUNT - answers_count(ANSWER_NONE),
			     count);
		berth_sleep_ns(BERTH_NS_PER_MS / 20, UINT64_MAX);
	}
}

/* Emptied, and by one process once; times_max: how often its figures may have been zeroed. */
static void emptied_expect(uint64_t times_max)
{
	struct trace after = trace_take();
	struct berth_reason reason = { "" };

	if (after.generation != scene.before.generation + 1)
		FAIL("the generation went from %llu to %llu",
		     (unsigned long long)scene.before.generation,
		     (unsigned long long)after.generation);
	for (uint32_t i = 0; i < berth_region_gpu_count(scene.region); i++) {
		uint64_t times = after.versions[i] - scene.before.versions[i];

		if (times < 1 || times > times_max)
			FAIL("GPU %u's charge was zeroed %llu times", i, (unsigned long long)times);
	}
	if (berth_region_check(scene.region, &reason) < 0)
		FAIL("%s", reason.text);
}

static void seats_expect(uint32_t count)
{
	struct berth_snapshot *taken = NULL;

	assert_int_equal(berth_snapshot_take(scene.region, BERTH_SNAPSHOT_LIVENESS, &taken), 0);
	assert_int_equal(taken->seat_count, count);
	berth_snapshot_free(taken);
}

static void scene_end(pid_t killed)
{
	atomic_store(&stage.board->ended, true);
	for (int i = 0; i < ASKER_COUNT; i++) {
		if (scene.askers[i] != killed)
			stage_end_well(scene.askers[i], "an asker");
	}
	berth_region_close(scene.region);
	stage_all_is_free();
}

static void test_all_at_once(void **state)
{
	(void)state;
	scene.stops = false;
	for (int i = 0; i < ROUNDS; i++) {
		scene_set();
		answers_wait(ASKER_COUNT);
		assert_int_equal(answers_count(ANSWER_GRANTED), GRANT_COUNT);
		emptied_expect(1);
		assert_int_equal(trace_take().changes, scene.before.changes + 1);
		seats_expect(ASKER_COUNT);
		scene_end(0);
	}
}

/* The one who is stopped, or 0 if none is within the watchdog. */
static pid_t stopped_find(void)
{
	uint64_t deadline_ns = berth_deadline_after(WATCHDOG_NS);

	for (int i = 0; !berth_deadline_passed(deadline_ns); i = (i + 1) % ASKER_COUNT) {
		int status = 0;

		if (waitpid(scene.askers[i], &status, WNOHANG | WUNTRACED) == scene.askers[i]) {
			if (!WIFSTOPPED(status))
				FAIL("an asker ended: %#x", (unsigned)status);
			return scene.askers[i];
		}
		berth_sleep_ns(BERTH_NS_PER_MS / 20, UINT64_MAX);
	}
	return 0;
}

/* Who empties the seat stops there, then goes on. */
static void continued_play(void)
{
	scene_set();
	pid_t stopped = stopped_find();
	if (stopped == 0)
		FAIL("nobody empties the seat");
	answers_wait(ASKER_COUNT - 1);
	assert_int_equal(answers_count(ANSWER_GRANTED), GRANT_COUNT);
	(void)kill(stopped, SIGCONT);
	answers_wait(ASKER_COUNT);
	assert_int_equal(answers_count(ANSWER_GRANTED), GRANT_COUNT);
	emptied_expect(1);
	seats_expect(ASKER_COUNT);
	scene_end(0);
}

/* Who empties the seat stops there, then is killed: another begins again. */
static void killed_play(void)
{
	scene_set();
	pid_t stopped = stopped_find();
	if (stopped == 0)
		FAIL("nobody empties the seat");
	answers_wait(ASKER_COUNT - 1);
	assert_int_equal(answers_count(ANSWER_GRANTED), GRANT_COUNT);
	(void)kill(stopped, SIGKILL);
	if (!WIFSIGNALED(stage_state_of(stopped, "the stopped one")))
		FAIL("it lives");
	assert_true(berth_seat_reap_all(scene.region) >= 1);
	emptied_expect(2);
	seats_expect(ASKER_COUNT - 1);
	scene_end(stopped);
}

static void test_stopped_on_the_way(void **state)
{
	static const enum berth_crash_point points[] = {
		BERTH_CRASH_reap_locked,    BERTH_CRASH_reap_unnamed,
		BERTH_CRASH_reap_uncharged, BERTH_CRASH_reap_mirror_zeroing,
		BERTH_CRASH_reap_zeroed,    BERTH_CRASH_reap_emptied,
	};

	(void)state;
	scene.stops = true;
	for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
		stage.point = points[i];
		stage.action = BERTH_CRASH_STOP;
		continued_play();
		stage.action = BERTH_CRASH_KILL;
		killed_play();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_at_once),
		cmocka_unit_test(test_stopped_on_the_way),
	};

	stage.nth = 1;
	stage.other_count = ASKER_COUNT;
	return cmocka_run_group_tests(tests, stage_setup, stage_teardown);
}
