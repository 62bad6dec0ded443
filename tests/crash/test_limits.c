/* SPDX-License-Identifier: Apache-2.0
 *
 * Death and arrest of who changes a share's limits: a renewal of an empty share, a joiner that
 * brings a smaller limit, and a change by order, upwards and below what is charged, while 1, 8 and
 * 64 others ask. Each limit in force is one that was ordered; who comes isn't held up beyond the
 * bound in recover.c; another change is made after a death, and told -EBUSY beside a stopped one.
 */
#include "stage.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "region/region.h"

#define HELD (900 * MIB)
#define LOW  (500 * MIB)
#define BACK (500 * MIB) /* of HELD: then LOW has room again */

enum { PCT = 50, CROWD = 64 };

static uint64_t ordered_bytes; /* by the victim */

static struct berth_region_gpu gpu_now(uint32_t gpu)
{
	struct berth_region *region = NULL;
	struct berth_region_gpu now;

	assert_int_equal(berth_region_view(stage.path, &region, NULL), 0);
	berth_region_gpu(region, gpu, &now);
	berth_region_close(region);
	return now;
}

static void memory_expect(uint32_t gpu, uint64_t bytes)
{
	uint64_t now = gpu_now(gpu).memory_limit_bytes;

	if (now != bytes)
		FAIL("%llu MiB are in force on GPU %u, not %llu", (unsigned long long)(now / MIB),
		     gpu, (unsigned long long)(bytes / MIB));
}

static bool hit(pid_t victim, bool *ret_stopped)
{
	int status = stage_state_of(victim, "the victim");

	*ret_stopped = WIFSTOPPED(status);
	return stage_was_hit(status);
}

static void all_end(pid_t victim, bool stopped)
{
	if (stopped)
		stage_continue(victim, "the continued victim");
	stage_others_end();
	stage_all_is_free();
}

/* Raises the limit of an empty region; the others come afterwards. */
static int renewer_run(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	if (stage.point == BERTH_CRASH_renew_undoing) {
		berth_crash_arm(BERTH_CRASH_renew_exchanged, BERTH_CRASH_STOP, 2);
		stage_rearm_on_continue(stage.point, stage.action);
	} else {
		berth_crash_arm(stage.point, stage.action, stage.nth);
	}
	int r = stage_enter(2 * LIMIT, BERTH_REGION_RENEW, &region, &seat);
	stage_leave(region, seat);
	return r;
}

static void renewal_play(void)
{
	bool stopped = false;

	stage_clear();
	stage_region_make();
	pid_t victim = stage_start(renewer_run);
	if (!hit(victim, &stopped))
		FAIL("never reached");
	stage_others_start();
	stage_others_go_on();
	stage_next_gets(900 * MIB);
	memory_expect(0, LIMIT); /* the others brought it */
	all_end(victim, stopped);
}

/* Others come between the renewal and its second look, with no limit of their own: the old one is
 * in force again when it has looked. */
static void undone_play(void)
{
	bool stopped = false;

	stage_clear();
	stage_region_make();
	pid_t victim = stage_start_stopped(renewer_run, "the renewal");
	memory_expect(0, 2 * LIMIT);
	stage.brought_bytes = 0;
	stage_others_start();
	stage_others_go_on();
	(void)kill(victim, SIGCONT);
	if (!hit(victim, &stopped))
		FAIL("never reached");
	memory_expect(0, LIMIT);
	stage_others_go_on();
	stage_next_gets(900 * MIB);
	all_end(victim, stopped);
}

/* Brings smaller limits to a share in use. */
static int joiner_run(void)
{
	struct berth_region_spec spec = stage_spec(LOW);
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	spec.gpus[0].compute_limit_pct = PCT;
	spec.gpus[1] = (struct berth_region_gpu){ .uuid = "GPU-two",
						  .memory_limit_bytes = LOW,
						  .compute_limit_pct = PCT };
	berth_crash_arm(stage.point, stage.action, stage.nth);
	int r = berth_region_join(stage.path, &spec, 0, &region, NULL, NULL);
	if (r == 0)
		r = berth_seat_claim(region, 0, &seat, NULL, NULL);
	stage_leave(region, seat);
	return r < 0 ? 32 : 0;
}

static void merge_play(void)
{
	bool stopped = false;

	stage_clear();
	stage_region_make();
	stage_others_start();
	stage_others_go_on();
	pid_t victim = stage_start(joiner_run);
	if (!hit(victim, &stopped))
		FAIL("never reached");
	memory_expect(0, LOW);
	memory_expect(1, stage.nth > 1 ? LOW : 0);
	stage_others_go_on();
	stage_next_gets(LOW - 64 * MIB);
	all_end(victim, stopped);
}

/* A change by order of both GPUs: 0 or -errno. */
static int change(uint64_t bytes)
{
	const struct berth_region_change change = {
		.gpu_mask = 3,
		.memory_set = true,
		.compute_set = true,
		.memory_limit_bytes = bytes,
		.compute_limit_pct = PCT,
	};
	struct berth_region *region = NULL;
	struct berth_reason reason = { "" };
	int r = berth_region_join(stage.path, NULL, 0, &region, NULL, NULL);

	if (r == 0)
		r = berth_region_change(region, &change, NULL, NULL, &reason);
	berth_region_close(region);
	return r;
}

static int changer_run(void)
{
	berth_crash_arm(stage.point, stage.action, stage.nth);
	return change(ordered_bytes) < 0 ? 33 : 0;
}

static int second_run(void)
{
	return change(2 * LIMIT) < 0 ? 34 : 0;
}

static int busy_run(void)
{
	return change(2 * LIMIT) != -EBUSY ? 35 : 0;
}

static int refused_run(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	int r = stage_enter(0, 0, &region, &seat);

	if (r == 0 && stage_ask(seat, 1) != -ENOMEM)
		r = 36;
	stage_leave(region, seat);
	return r;
}

/* Holds HELD; gives BACK when told. */
static int holder_run(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	int r = stage_enter(LIMIT, 0, &region, &seat);

	if (r == 0 && stage_ask(seat, HELD) < 0)
		r = 37;
	atomic_store(&stage.board->seated, true);
	stage_wait_for(&stage.board->staged);
	stage_refund(seat, BACK);
	atomic_store(&stage.board->granted, true);
	stage_wait_for(&stage.board->ended);
	stage_refund(seat, HELD - BACK);
	stage_leave(region, seat);
	return r;
}

/* With what is in force now: asks fit, or are refused until BACK is given back. */
static void asks_expect(pid_t holder, uint64_t limit_bytes)
{
	int status = 0;

	if (limit_bytes >= HELD) {
		stage_next_gets(limit_bytes - HELD - 64 * MIB);
		return;
	}
	stage_end_well(stage_start(refused_run), "who is refused");
	atomic_store(&stage.board->staged, true);
	if (!stage_reaches(holder, &stage.board->granted, &status))
		FAIL("the holder ended: %#x", (unsigned)status);
	stage_next_gets(limit_bytes - (HELD - BACK) - 64 * MIB);
}

static void change_second(pid_t victim, bool stopped)
{
	if (stopped) {
		if (ordered_bytes > LIMIT) /* takes 1 s */
			stage_end_well(stage_start(busy_run), "who changes beside a stopped one");
		stage_continue(victim, "the continued changer");
		memory_expect(0, ordered_bytes);
		memory_expect(1, ordered_bytes);
	}
	stage_end_well(stage_start(second_run), "the second change");
	memory_expect(0, 2 * LIMIT);
	memory_expect(1, 2 * LIMIT);
	assert_int_equal(gpu_now(1).compute_limit_pct, PCT);
}

static void change_play(void)
{
	bool stored = stage.point == BERTH_CRASH_limit_change_stored;
	uint64_t now_bytes = stored ? ordered_bytes : LIMIT;
	bool stopped = false;
	int status = 0;

	stage_clear();
	stage.may_be_refused = ordered_bytes < LIMIT;
	stage_region_make();
	stage_others_start();
	stage_others_go_on();
	pid_t holder = stage_start(holder_run);
	if (!stage_reaches(holder, &stage.board->seated, &status))
		FAIL("the holder ended: %#x", (unsigned)status);
	pid_t victim = stage_start(changer_run);
	if (!hit(victim, &stopped))
		FAIL("never reached");
	memory_expect(0, now_bytes);
	memory_expect(1, stored && stage.nth > 1 ? ordered_bytes : 0);
	stage.brought_bytes = 0;
	stage_others_go_on();
	asks_expect(holder, now_bytes);
	change_second(victim, stopped);
	stage_others_go_on();
	stage_next_gets(LIMIT);
	atomic_store(&stage.board->staged, true);
	stage_others_end();
	stage_end_well(holder, "the holder");
	stage_all_is_free();
}

static void changes_play(void)
{
	ordered_bytes = 2 * LIMIT;
	change_play();
	ordered_bytes = LOW;
	change_play();
}

/* nth_max: how often a point is reached on the way, once a GPU. In a crowd the first has to do. */
static void play_each(void (*play)(void), unsigned nth_max)
{
	for (stage.nth = 1; stage.nth <= nth_max; stage.nth++) {
		if (stage.nth == 1 || stage.other_count < CROWD)
			play();
	}
}

static void play_all(void)
{
	switch (stage.point) {
	case BERTH_CRASH_renew_locked:
		play_each(renewal_play, 1);
		break;
	case BERTH_CRASH_renew_exchanging:
	case BERTH_CRASH_renew_exchanged:
		play_each(renewal_play, 2);
		break;
	case BERTH_CRASH_renew_undoing:
		play_each(undone_play, 1);
		break;
	case BERTH_CRASH_limit_merging:
		play_each(merge_play, 4); /* in the join, and again with the seat */
		break;
	case BERTH_CRASH_limit_change_stored:
		play_each(changes_play, 2);
		break;
	default:
		play_each(changes_play, 1);
	}
}

static void test_point(void **state)
{
	stage_rounds(state, play_all);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv, "limits", test_point);
}
