/* SPDX-License-Identifier: Apache-2.0
 *
 * Crash points really kill and stop, where and when they were told to, and nowhere else.
 */
#include "base/crash_point.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/attributes.h"
#include "child.h"

static void test_names(void **state)
{
	(void)state;
	for (int i = 0; i < BERTH_CRASH_COUNT; i++) {
		assert_non_null(berth_crash_point_names[i]);
		assert_true(strlen(berth_crash_point_names[i]) > 0);
		for (int j = 0; j < i; j++)
			assert_string_not_equal(berth_crash_point_names[i],
						berth_crash_point_names[j]);
	}
}

#ifdef BERTH_CRASH_POINTS

struct plan {
	const char *env; /* BERTH_CRASH_AT; NULL: armed by the function */
	enum berth_crash_point point;
	enum berth_crash_action action;
	unsigned nth;
	unsigned reach_count; /* how often each point is reached */
};

/* Exit status: how often the point was passed alive. */
static int walk(void *arg)
{
	const struct plan *plan = arg;
	unsigned passed = 0;

	if (plan->env != NULL)
		setenv("BERTH_CRASH_AT", plan->env, 1);
	else
		berth_crash_arm(plan->point, plan->action, plan->nth);
	for (unsigned i = 0; i < plan->reach_count; i++) {
		for (int point = 0; point < BERTH_CRASH_COUNT; point++) {
			if (point == (int)plan->point)
				dprintf(2, "%u", passed);
			errno = ENOTTY;
			berth_crash_reached((enum berth_crash_point)point);
			if (errno != ENOTTY)
				return 99;
			if (point == (int)plan->point)
				passed++;
		}
	}
	return (int)passed;
}

static void test_every_point_kills(void **state)
{
	struct child_result result;

	(void)state;
	for (int point = 0; point < BERTH_CRASH_COUNT; point++) {
		struct plan plan = { .point = (enum berth_crash_point)point,
				     .env = berth_crash_point_names[point],
				     .reach_count = 2 };

		child_run(walk, &plan, &result);
		assert_true(WIFSIGNALED(result.status));
		assert_int_equal(WTERMSIG(result.status), SIGKILL);
		/* It got there once, and no further. */
		assert_string_equal(result.error, "0");

		plan.env = NULL;
		plan.action = BERTH_CRASH_KILL;
		plan.nth = 2;
		child_run(walk, &plan, &result);
		assert_int_equal(WTERMSIG(result.status), SIGKILL);
		assert_string_equal(result.error, "01");
	}
}

static void test_spellings(void **state)
{
	static const struct {
		const char *action;
		const char *trace; /* of a killed one; NULL: it lives, and complains */
	} rows[] = {
		{ "", "0" },          { ":kill", "0" },
		{ ":kill:1", "0" },   { ":kill:3", "012" },
		{ ":", NULL },        { ":die", NULL },
		{ ":kil", NULL },     { ":kill:", NULL },
		{ ":kill:0", NULL },  { ":kill:-1", NULL },
		{ ":kill:+1", NULL }, { ":kill: 1", NULL },
		{ ":kill:3x", NULL }, { ":kill:99999999999", NULL },
		{ "x", NULL },
	};

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(rows); i++) {
		char env[128];
		struct plan plan = { .point = BERTH_CRASH_COUNT - 1, .env = env, .reach_count = 4 };
		struct child_result result;

		snprintf(env, sizeof(env), "%s%s", berth_crash_point_names[BERTH_CRASH_COUNT - 1],
			 rows[i].action);
		child_run(walk, &plan, &result);
		if (rows[i].trace != NULL) {
			assert_true(WIFSIGNALED(result.status));
			assert_string_equal(result.error, rows[i].trace);
		} else {
			assert_true(WIFEXITED(result.status));
			assert_int_equal(WEXITSTATUS(result.status), 4);
			assert_non_null(strstr(result.error, "BERTH_CRASH_AT"));
		}
	}
}

static void test_not_armed(void **state)
{
	struct plan plan = { .action = BERTH_CRASH_NONE, .reach_count = 3 };
	struct child_result result;

	(void)state;
	child_run(walk, &plan, &result);
	assert_int_equal(result.status, 3 << 8);
	/* Beyond what is reached. */
	plan = (struct plan){ .action = BERTH_CRASH_KILL, .nth = 4, .reach_count = 3 };
	child_run(walk, &plan, &result);
	assert_int_equal(result.status, 3 << 8);
	plan = (struct plan){ .env = "", .reach_count = 1 };
	child_run(walk, &plan, &result);
	assert_int_equal(result.status, 1 << 8);
}

static void test_stop_and_go_on(void **state)
{
	struct plan plan = { .point = 0, .reach_count = 3 };
	char env[128];
	int status = 0;
	pid_t pid;

	(void)state;
	snprintf(env, sizeof(env), "%s:stop:2", berth_crash_point_names[0]);
	plan.env = env;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(STDERR_FILENO);
		_exit(walk(&plan));
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(WSTOPSIG(status), SIGSTOP);
	/* Continued, it goes on, and isn't stopped again. */
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 3);
}

/* What is armed is inherited over fork, and kills the child, not its parent. */
static int child_of_child(void *arg)
{
	int status = 0;
	pid_t pid;

	(void)arg;
	berth_crash_arm(0, BERTH_CRASH_KILL, 2);
	berth_crash_reached(0);
	pid = fork();
	if (pid == 0) {
		berth_crash_reached(0);
		_exit(0);
	}
	CHILD_CHECK(waitpid(pid, &status, 0) == pid);
	CHILD_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	return 0;
}

static void test_after_fork(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(child_of_child, NULL, &result);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
#ifdef BERTH_CRASH_POINTS
		cmocka_unit_test(test_every_point_kills),
		cmocka_unit_test(test_spellings),
		cmocka_unit_test(test_not_armed),
		cmocka_unit_test(test_stop_and_go_on),
		cmocka_unit_test(test_after_fork),
#endif
	};

#ifndef BERTH_CRASH_POINTS
	printf("built without BERTH_CRASH_POINTS: only the names can be checked\n");
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
