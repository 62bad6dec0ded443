/* SPDX-License-Identifier: Apache-2.0
 *
 * Death and arrest of who makes the region, at each crash point of a birth and in both its ways: a
 * nameless file, and a file under a temporary name. Then 1, 8 and 64 others come and work, the next
 * gets its answers, and no temporary name is left over: a dead creator's is removed by the next
 * creator, a living one's never.
 */
#include "stage.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "region/birth.h"

static bool named;

static int maker_run(void)
{
	struct berth_region_spec spec = stage_spec(LIMIT);
	int r = berth_birth_make(stage.path, &spec, true, NULL);

	return r == 0 || r == -EEXIST ? 0 : 31;
}

static int victim_run(void)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;

	berth_crash_arm(stage.point, stage.action, 1);
	int r = named ? maker_run() : 0;
	if (r == 0)
		r = stage_enter(LIMIT, 0, &region, &seat);
	stage_leave(region, seat);
	return r;
}

static int orphan_run(void)
{
	berth_crash_arm(BERTH_CRASH_birth_sized, BERTH_CRASH_KILL, 1);
	return maker_run();
}

static void orphan_make(void)
{
	if (!WIFSIGNALED(stage_state_of(stage_start(orphan_run), "the orphan's maker")))
		FAIL("its maker lives");
}

static int temporaries_count(void)
{
	DIR *dir = opendir(stage.dir);
	int count = 0;

	assert_non_null(dir);
	for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
		count += strstr(entry->d_name, ".birth") != NULL;
	assert_int_equal(closedir(dir), 0);
	return count;
}

static void temporaries_expect(int count, const char *when)
{
	if (temporaries_count() != count)
		FAIL("%d temporary names %s, not %d", temporaries_count(), when, count);
}

/* Is there a temporary name at this point? */
static bool name_given(void)
{
	return named && strcmp(berth_crash_point_names[stage.point], "birth_turn_taken") != 0;
}

/* The next creator, where there are no nameless files: it removes what the dead left. */
static void named_comes(bool stopped)
{
	bool locked = stage.point != BERTH_CRASH_birth_named &&
		      stage.point != BERTH_CRASH_birth_orphan_found;

	stage_end_well(stage_start(maker_run), "the next creator");
	temporaries_expect(stopped && locked && name_given() ? 1 : 0, "after the next creator");
}

static void play(void)
{
	stage_clear();
	stage.nth = 1;
	if (stage.point == BERTH_CRASH_birth_orphan_found)
		orphan_make();
	pid_t victim = stage_start(victim_run);
	int status = stage_state_of(victim, "the victim");
	bool stopped = WIFSTOPPED(status);

	if (!stage_was_hit(status))
		FAIL("never reached");
	temporaries_expect(name_given() ? 1 : 0, "after the victim");
	if (named)
		named_comes(stopped);
	stage_others_start();
	stage_others_go_on();
	stage_next_gets(900 * MIB);
	if (stopped)
		stage_continue(victim, "the continued victim");
	stage_others_end();
	temporaries_expect(0, "at the end");
	stage_all_is_free();
}

static void play_both(void)
{
	if (stage.point != BERTH_CRASH_birth_named &&
	    stage.point != BERTH_CRASH_birth_orphan_found) {
		named = false;
		play();
	}
	named = true;
	play();
}

static void test_point(void **state)
{
	stage_rounds(state, play_both);
}

static int slow_maker_run(void)
{
	berth_crash_arm(BERTH_CRASH_birth_named, BERTH_CRASH_STOP, 1);
	stage_rearm_on_continue(BERTH_CRASH_birth_filled, BERTH_CRASH_STOP);
	return maker_run();
}

static int slow_cleaner_run(void)
{
	berth_crash_arm(BERTH_CRASH_birth_orphan_found, BERTH_CRASH_STOP, 1);
	stage_rearm_on_continue(BERTH_CRASH_birth_file_made, BERTH_CRASH_KILL);
	return maker_run();
}

/* A creator whose file was taken for an orphan before it was locked, and removed when it was whole:
 * it makes another. */
static void test_name_is_lost(void **state)
{
	int status = 0;

	(void)state;
	stage_clear();
	pid_t maker = stage_start_stopped(slow_maker_run, "the creator");
	pid_t cleaner = stage_start_stopped(slow_cleaner_run, "the clean-up");
	(void)kill(maker, SIGCONT);
	status = stage_state_of(maker, "the creator");
	assert_true(WIFSTOPPED(status));
	temporaries_expect(1, "while both are stopped");
	(void)kill(cleaner, SIGCONT);
	status = stage_state_of(cleaner, "the clean-up");
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	temporaries_expect(1, "after the clean-up: its own");
	stage_continue(maker, "the creator, continued,");
	temporaries_expect(0, "at the end");
	stage_next_gets(900 * MIB);
	stage_all_is_free();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest more[] = { cmocka_unit_test(test_name_is_lost) };
	int failed = stage_main(argc, argv, "birth", test_point);

	return failed + (argc < 2 ? cmocka_run_group_tests(more, stage_setup, stage_teardown) : 0);
}
