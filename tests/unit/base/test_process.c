/* SPDX-License-Identifier: Apache-2.0
 *
 * Process identity: the parser on texts, then on real processes that are named to deceive it.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/process.h"
#include "child.h"

#define TAIL " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 -15 16 17 18 987654 19 20\n"

static void test_stat_texts(void **state)
{
	static const struct {
		const char *text;
		const char *comm; /* NULL: refused */
		char state;
	} rows[] = {
		{ "42 (cat) S" TAIL, "cat", 'S' },
		{ "42 (a Zoo) R" TAIL, "a Zoo", 'R' },
		{ "42 () Z x) S" TAIL, ") Z x", 'S' },
		{ "42 () Z 1 () S" TAIL, ") Z 1 (", 'S' },
		{ "42 (               ) D" TAIL, "               ", 'D' },
		{ "42 (\n) t" TAIL, "\n", 't' },
		{ "42 () X" TAIL, "", 'X' },
		{ "42 ((((() I" TAIL, "((((", 'I' },
		{ "42 (cat) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654", "cat", 'S' },
		{ "42 (cat) S 1 2 3 4 5 18446744073709551615 7 8 9 10 11 12 13 14 15 16 17 18 "
		  "987654 1",
		  "cat", 'S' },

		{ "", NULL, 0 },
		{ "42", NULL, 0 },
		{ "(cat) S" TAIL, NULL, 0 },
		{ "x (cat) S" TAIL, NULL, 0 },
		{ "42 cat S" TAIL, NULL, 0 },
		{ "42 (cat S" TAIL, NULL, 0 },
		{ "42 )cat( S" TAIL, NULL, 0 },
		{ "42 (cat)", NULL, 0 },
		{ "42 (cat) ", NULL, 0 },
		{ "42 (cat)  1" TAIL, NULL, 0 },
		{ "42 (cat) SS" TAIL, NULL, 0 },
		{ "42 (cat) S 1 2 3\n", NULL, 0 },
		{ "42 (cat) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18\n", NULL, 0 },
		{ "42 (cat) S 1 2 3 4 5 x 7 8 9 10 11 12 13 14 15 16 17 18 987654\n", NULL, 0 },
		{ "42 (cat) S -1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654\n", NULL, 0 },
		{ "42 (cat) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 98x654\n", NULL, 0 },
		{ "42 (cat) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 - 1\n", NULL, 0 },
		{ "42 (cat) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 "
		  "99999999999999999999999 1\n",
		  NULL, 0 },
		{ "42 (0123456789012345678901234567890123456789012345678901234567890123) S" TAIL,
		  NULL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(rows); i++) {
		struct berth_process_stat stat = { .state = '?' };
		int err = berth_process_stat_parse(rows[i].text, &stat);

		if (rows[i].comm == NULL) {
			if (err != -EBADMSG || stat.state != '?')
				fail_msg("accepted: %s", rows[i].text);
			continue;
		}
		if (err != 0)
			fail_msg("refused: %s", rows[i].text);
		assert_string_equal(stat.comm, rows[i].comm);
		assert_int_equal(stat.state, rows[i].state);
		assert_int_equal(stat.ppid, 1);
		assert_true(stat.start_ticks == 987654);
	}
}

struct named {
	pid_t pid;
	int hold; /* closing it ends the child */
};

/* A child of that name, ready and waiting. */
static struct named named_start(const char *name)
{
	struct named child;
	int hold[2];
	int ready[2];
	char byte;

	assert_int_equal(pipe(hold), 0);
	assert_int_equal(pipe(ready), 0);
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (child.pid == 0) {
		close(hold[1]);
		close(ready[0]);
		prctl(PR_SET_NAME, name);
		(void)!write(ready[1], "x", 1);
		_exit((int)read(hold[0], &byte, 1));
	}
	close(hold[0]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	child.hold = hold[1];
	return child;
}

static void wait_zombie(pid_t pid)
{
	siginfo_t info;

	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

static void test_evil_names(void **state)
{
	static const char *const names[] = {
		"a Zoo", ") Z x", ") Z 1 (", "               ", "two\nlines", ") Z 0 0 0 0 0 0",
		"",      ")",     "(",       "\xff\xfe\x01",
	};
	uint64_t tick_ns = BERTH_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(names); i++) {
		uint64_t before_ns = berth_clock_boot_ns();
		struct named child = named_start(names[i]);
		uint64_t after_ns = berth_clock_boot_ns();
		struct berth_process_id id = { .pid = child.pid };
		struct berth_process_stat stat;

		assert_int_equal(berth_process_stat_read(child.pid, &stat), 0);
		assert_string_equal(stat.comm, names[i]);
		assert_true(stat.state == 'S' || stat.state == 'R');
		assert_int_equal(stat.ppid, getpid());
		assert_true(stat.start_ticks + 1 >= before_ns / tick_ns);
		assert_true(stat.start_ticks <= after_ns / tick_ns + 1);

		id.start_ticks = stat.start_ticks;
		assert_true(berth_process_same(&id));
		id.start_ticks++;
		assert_false(berth_process_same(&id));
		id.start_ticks--;

		close(child.hold);
		wait_zombie(child.pid);
		assert_int_equal(berth_process_stat_read(child.pid, &stat), 0);
		assert_int_equal(stat.state, 'Z');
		assert_false(berth_process_same(&id));

		assert_int_equal(waitpid(child.pid, NULL, 0), child.pid);
		assert_int_equal(berth_process_stat_read(child.pid, &stat), -ESRCH);
		assert_false(berth_process_same(&id));
	}
}

static void test_no_such_process(void **state)
{
	struct berth_process_stat stat;

	(void)state;
	assert_int_equal(berth_process_stat_read(0, &stat), -ESRCH);
	assert_int_equal(berth_process_stat_read(-1, &stat), -ESRCH);
	/* Above the largest pid_max. */
	assert_int_equal(berth_process_stat_read(1 << 23, &stat), -ESRCH);
}

static void test_self(void **state)
{
	struct berth_process_id id;
	struct berth_process_stat stat;

	(void)state;
	assert_int_equal(berth_process_self(&id), 0);
	assert_int_equal(id.pid, getpid());
	assert_true(id.pid_namespace != 0);
	assert_int_equal(berth_process_stat_read(getpid(), &stat), 0);
	assert_true(stat.start_ticks == id.start_ticks);
	assert_true(berth_process_same(&id));

	/* An id of another namespace is nobody here, whatever its numbers. */
	id.pid_namespace++;
	assert_false(berth_process_same(&id));
	id.pid_namespace = 0;
	assert_true(berth_process_same(&id));
}

static int self_in_child(void *arg)
{
	const struct berth_process_id *parent = arg;
	struct berth_process_id id;

	CHILD_CHECK(berth_process_self(&id) == 0);
	CHILD_CHECK(id.pid == getpid() && id.pid != parent->pid);
	CHILD_CHECK(id.pid_namespace == parent->pid_namespace);
	CHILD_CHECK(berth_process_same(parent));
	return 0;
}

static void test_self_after_fork(void **state)
{
	struct child_result result;
	struct berth_process_id id;

	(void)state;
	assert_int_equal(berth_process_self(&id), 0);
	child_run_ok(self_in_child, &id, &result);
}

static int in_new_namespace(void *arg)
{
	const struct berth_process_id *outer = arg;
	struct berth_process_id id;
	int status = 0;
	pid_t pid;

	if (unshare(CLONE_NEWPID | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) != 0)
		CHILD_SKIP("pid namespaces are not allowed here");
	pid = fork();
	if (pid == 0) {
		/* /proc is still the outer one: number 1 in it is somebody else. */
		CHILD_CHECK(getpid() == 1);
		CHILD_CHECK(berth_process_self(&id) == 0);
		CHILD_CHECK(id.pid == 1);
		CHILD_CHECK(id.pid_namespace != 0 && id.pid_namespace != outer->pid_namespace);
		CHILD_CHECK(id.start_ticks >= outer->start_ticks);
		CHILD_CHECK(!berth_process_in_initial_pid_namespace());
		_exit(0);
	}
	CHILD_CHECK(waitpid(pid, &status, 0) == pid);
	return status == 0 ? 0 : 1;
}

static void test_pid_namespace(void **state)
{
	struct child_result result;
	struct berth_process_id id;
	char link[64] = "";

	(void)state;
	assert_int_equal(berth_process_self(&id), 0);
	assert_true(readlink("/proc/self/ns/pid", link, sizeof(link) - 1) > 0);
	assert_int_equal(berth_process_in_initial_pid_namespace(),
			 strcmp(link, "pid:[4026531836]") == 0);
	child_run_ok(in_new_namespace, &id, &result);
}

/* Where /proc hides a process, it must not be called dead. */
static int behind_hidepid(void *arg)
{
	struct berth_process_id id = { .pid = 1, .start_ticks = 12345 };
	struct berth_process_stat stat;

	(void)arg;
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("proc", "/proc", "proc", 0, "hidepid=2") != 0)
		CHILD_SKIP("mounting /proc is not allowed here");
	CHILD_CHECK(setgid(65534) == 0 && setuid(65534) == 0);
	CHILD_CHECK(berth_process_stat_read(1, &stat) == -EACCES);
	CHILD_CHECK(berth_process_same(&id));
	CHILD_CHECK(berth_process_stat_read(1 << 23, &stat) == -ESRCH);
	CHILD_CHECK(berth_process_stat_read(getpid(), &stat) == 0);
	return 0;
}

static int without_proc(void *arg)
{
	struct berth_process_id id = { .pid = getppid(), .start_ticks = 12345 };
	struct berth_process_stat stat;

	(void)arg;
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", "/proc", "tmpfs", 0, NULL) != 0)
		CHILD_SKIP("mounting over /proc is not allowed here");
	CHILD_CHECK(berth_process_stat_read(getppid(), &stat) == -EACCES);
	CHILD_CHECK(berth_process_same(&id));
	CHILD_CHECK(berth_process_self(&id) == -ENOENT);
	CHILD_CHECK(berth_boot_id() == 0);
	CHILD_CHECK(!berth_process_in_initial_pid_namespace());
	return 0;
}

static void test_hidden_is_not_dead(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(behind_hidepid, NULL, &result);
	child_run_ok(without_proc, NULL, &result);
}

static void test_command(void **state)
{
	int hold[2];
	int ready[2];
	char command[256];
	char text[8];
	struct named child;
	struct berth_process_stat stat;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(hold), 0);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		dup2(hold[0], STDIN_FILENO);
		dup2(ready[1], STDOUT_FILENO);
		close(hold[1]);
		close(ready[0]);
		execl("/bin/sh", "sh", "-c", "echo; read x; :", "an\nargument", "\xc3\xa9",
		      "\x1b[2J", (char *)NULL);
		_exit(127);
	}
	close(ready[1]);
	/* The shell's newline: it is executed. It waits for input until it is killed. */
	assert_int_equal(read(ready[0], text, 1), 1);
	assert_true(berth_process_command(pid, command, sizeof(command)) > 0);
	assert_string_equal(command, "sh -c echo; read x; : an\\x0aargument \xc3\xa9 \\x1b[2J");
	assert_int_equal(berth_process_command(pid, text, sizeof(text)), 7);
	assert_string_equal(text, "sh -c e");
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ready[0]);
	close(hold[0]);
	close(hold[1]);
	assert_int_equal(berth_process_command(pid, command, sizeof(command)), -ESRCH);

	/* A zombie has no command line any more. */
	child = named_start("evil\x1bname");
	close(child.hold);
	wait_zombie(child.pid);
	assert_int_equal(berth_process_stat_read(child.pid, &stat), 0);
	assert_true(berth_process_command(child.pid, command, sizeof(command)) > 0);
	assert_string_equal(command, "[evil\\x1bname]");
	assert_int_equal(waitpid(child.pid, NULL, 0), child.pid);
}

static void test_boot_id(void **state)
{
	char text[64] = "";
	unsigned long a = 0;
	unsigned long b = 0;
	unsigned long c = 0;
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	(void)state;
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	assert_int_equal(sscanf(text, "%8lx-%4lx-%4lx-", &a, &b, &c), 3);
	assert_true(berth_boot_id() == (a << 32 | b << 16 | c));
	assert_true(berth_boot_id() != 0);
}

static void test_not_secure(void **state)
{
	(void)state;
	assert_false(berth_process_is_secure());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stat_texts),
		cmocka_unit_test(test_evil_names),
		cmocka_unit_test(test_no_such_process),
		cmocka_unit_test(test_self),
		cmocka_unit_test(test_self_after_fork),
		cmocka_unit_test(test_pid_namespace),
		cmocka_unit_test(test_hidden_is_not_dead),
		cmocka_unit_test(test_command),
		cmocka_unit_test(test_boot_id),
		cmocka_unit_test(test_not_secure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
