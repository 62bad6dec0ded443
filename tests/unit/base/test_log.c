/* SPDX-License-Identifier: Apache-2.0
 *
 * The log: what it prints, and all that it must not do to the program it is in.
 */
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <printf.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "child.h"

#define HOUR_NS (3600 * BERTH_NS_PER_S)

static char scratch[] = "/tmp/berth-test-log-XXXXXX";

static int group_setup(void **state)
{
	(void)state;
	unsetenv("BERTH_LOG_LEVEL");
	unsetenv("BERTH_LOG_FILE");
	unsetenv("LIBCUDA_LOG_LEVEL");
	return mkdtemp(scratch) != NULL && chdir(scratch) == 0 ? 0 : -1;
}

static int group_teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", scratch);
	return system(command);
}

struct level_row {
	const char *own;  /* BERTH_LOG_LEVEL */
	const char *hami; /* LIBCUDA_LOG_LEVEL */
	int level;
};

static int level_child(void *arg)
{
	const struct level_row *row = arg;

	if (row->own != NULL)
		setenv("BERTH_LOG_LEVEL", row->own, 1);
	if (row->hami != NULL)
		setenv("LIBCUDA_LOG_LEVEL", row->hami, 1);
	CHILD_CHECK((int)berth_log_level() == row->level);
	/* Read once: the program's later changes don't count. */
	setenv("BERTH_LOG_LEVEL", "trace", 1);
	CHILD_CHECK((int)berth_log_level() == row->level);
	for (int level = BERTH_LOG_ERROR; level <= BERTH_LOG_TRACE; level++)
		berth_log((enum berth_log_level)level, "%d", level);
	return 0;
}

static void test_levels(void **state)
{
	static const struct level_row rows[] = {
		{ NULL, NULL, 0 },       { "error", NULL, 0 },   { "warning", NULL, 1 },
		{ "info", NULL, 2 },     { "debug", NULL, 3 },   { "trace", NULL, 4 },
		{ "0", NULL, 0 },        { "3", NULL, 3 },       { "4", NULL, 4 },
		{ "9", NULL, 4 },        { "99999", NULL, 4 },   { NULL, "0", 0 },
		{ NULL, "1", 1 },        { NULL, "2", 2 },       { NULL, "3", 3 },
		{ NULL, "4", 3 },        { NULL, "77", 3 },      { "warning", "4", 1 },
		{ "0", "4", 0 },         { "nonsense", "2", 2 }, { "nonsense", NULL, 0 },
		{ "", NULL, 0 },         { "", "1", 1 },         { "-1", NULL, 0 },
		{ NULL, "nonsense", 0 },
	};

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(rows); i++) {
		struct child_result result;
		int lines = 0;

		child_run_ok(level_child, (void *)(uintptr_t)&rows[i], &result);
		for (const char *c = result.error; *c != '\0'; c++)
			lines += *c == '\n';
		assert_int_equal(lines, rows[i].level + 1);
	}
}

static int line_child(void *arg)
{
	(void)arg;
	berth_log_set_level(BERTH_LOG_TRACE);
	berth_error("a%sb%d", "\n\x1b[31m\x7f", 7);
	berth_warning("w");
	berth_info("i");
	berth_debug("d");
	berth_log(BERTH_LOG_TRACE, "t");
	return 0;
}

static void test_lines(void **state)
{
	struct child_result result;
	char expected[512];
	int pid = 0;

	(void)state;
	child_run_ok(line_child, NULL, &result);
	assert_int_equal(sscanf(result.error, "berth[%d]: ", &pid), 1);
	assert_int_not_equal(pid, getpid());
	snprintf(expected, sizeof(expected),
		 "berth[%d]: error: a\\x0a\\x1b[31m\\x7fb7\nberth[%d]: warning: w\n"
		 "berth[%d]: info: i\nberth[%d]: debug: d\nberth[%d]: trace: t\n",
		 pid, pid, pid, pid, pid);
	assert_string_equal(result.error, expected);
}

static int long_line_child(void *arg)
{
	char text[3000];

	(void)arg;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	berth_error("%s", text);
	/* Two bytes a character: wherever the cut falls, it isn't inside one. */
	for (size_t i = 0; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa9", 2);
	text[sizeof(text) - 2] = '\0';
	berth_error("%s", text);
	berth_error(".%s", text);
	return 0;
}

static void test_long_lines(void **state)
{
	struct child_result result;
	char *line = result.error;

	(void)state;
	child_run_ok(long_line_child, NULL, &result);
	for (int i = 0; i < 3; i++) {
		char *end = strchr(line, '\n');

		assert_non_null(end);
		assert_true(end + 1 - line <= 1000);
		assert_true(end + 1 - line >= 990);
		/* No half character, which would have been escaped. */
		*end = '\0';
		assert_null(strstr(line, "\\x"));
		line = end + 1;
	}
	assert_string_equal(line, "");
}

static int errno_child(void *arg)
{
	(void)arg;
	errno = ENOTTY;
	berth_error("x");
	CHILD_CHECK(errno == ENOTTY);
	berth_debug("not printed");
	CHILD_CHECK(errno == ENOTTY);
	berth_log_set_fd(1000); /* not open: the write fails */
	berth_error("lost");
	CHILD_CHECK(errno == ENOTTY);
	berth_log_set_fd(-1);
	setenv("BERTH_LOG_FILE", "/not/there", 1);
	berth_error("back");
	CHILD_CHECK(errno == ENOTTY);
	close(STDERR_FILENO);
	berth_error("nowhere to go");
	CHILD_CHECK(errno == ENOTTY);
	return 0;
}

static void test_errno_and_closed_descriptors(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(errno_child, NULL, &result);
	assert_non_null(strstr(result.error, "error: x\n"));
	assert_null(strstr(result.error, "lost"));
	assert_non_null(strstr(result.error, "error: back\n"));
}

static int broken_pipe_child(void *arg)
{
	sigset_t set;
	int ends[2];

	(void)arg;
	CHILD_CHECK(pipe(ends) == 0);
	close(ends[0]);
	berth_log_set_fd(ends[1]);
	berth_error("nobody reads");
	/* Alive; and no signal is left over for when the program unblocks it. */
	sigpending(&set);
	CHILD_CHECK(sigismember(&set, SIGPIPE) == 0);
	sigprocmask(SIG_BLOCK, NULL, &set);
	CHILD_CHECK(sigismember(&set, SIGPIPE) == 0);

	/* One of the program's own that was pending before still is. */
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGPIPE);
	berth_error("nobody reads");
	sigpending(&set);
	CHILD_CHECK(sigismember(&set, SIGPIPE) == 1);
	return 0;
}

static void test_broken_pipe(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(broken_pipe_child, NULL, &result);
}

static int full_pipe_child(void *arg)
{
	int ends[2];

	(void)arg;
	CHILD_CHECK(pipe(ends) == 0);
	CHILD_CHECK(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
	while (write(ends[1], "x", 1) == 1)
		;
	/* Blocking again: a plain write would wait for a reader for ever. */
	CHILD_CHECK(fcntl(ends[1], F_SETFL, 0) == 0);
	berth_log_set_fd(ends[1]);
	berth_error("no room");
	return 0;
}

static void test_full_pipe(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(full_pipe_child, NULL, &result);
}

/* A conversion of printf's that logs: a message caused by writing a message. */
static int nested_print(FILE *stream, const struct printf_info *info, const void *const *args)
{
	(void)info;
	(void)args;
	berth_error("nested");
	return fprintf(stream, "outer");
}

static int nested_arginfo(const struct printf_info *info, size_t n, int *types, int *sizes)
{
	(void)info;
	(void)n;
	(void)types;
	(void)sizes;
	return 0;
}

static int recursion_child(void *arg)
{
	(void)arg;
	CHILD_CHECK(register_printf_specifier('Y', nested_print, nested_arginfo) == 0);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	berth_error("%Y");
#pragma GCC diagnostic pop
	/* The inner one is dropped, the next is not. */
	berth_error("after");
	return 0;
}

static void test_recursion(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(recursion_child, NULL, &result);
	assert_null(strstr(result.error, "nested"));
	assert_non_null(strstr(result.error, "error: outer\n"));
	assert_non_null(strstr(result.error, "error: after\n"));
}

struct holder {
	int ready[2];
	int release[2];
};

static void *stdio_holder(void *arg)
{
	const struct holder *holder = arg;
	char byte;

	flockfile(stderr);
	flockfile(stdout);
	(void)!write(holder->ready[1], "x", 1);
	(void)!read(holder->release[0], &byte, 1);
	funlockfile(stdout);
	funlockfile(stderr);
	return NULL;
}

/* Another thread holds stdio's locks until after the message. */
static void test_stdio_locks(void **state)
{
	struct holder holder;
	pthread_t thread;
	char text[128] = "";
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(holder.ready), 0);
	assert_int_equal(pipe(holder.release), 0);
	assert_int_equal(pthread_create(&thread, NULL, stdio_holder, &holder), 0);
	assert_int_equal(read(holder.ready[0], text, 1), 1);
	berth_log_set_fd(ends[1]);
	berth_error("goes its own way");
	berth_log_set_fd(-1);
	assert_int_equal(write(holder.release[1], "x", 1), 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "error: goes its own way\n"));
	for (int i = 0; i < 2; i++) {
		close(ends[i]);
		close(holder.ready[i]);
		close(holder.release[i]);
	}
}

static int open_count(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	if (dir == NULL)
		return -1;
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

static int file_child(void *arg)
{
	struct stat st;
	int before = open_count();

	setenv("BERTH_LOG_FILE", arg, 1);
	berth_log_set_level(BERTH_LOG_INFO);
	umask(0);
	berth_info("one");
	/* No descriptor stays that the program could close and get again. */
	CHILD_CHECK(open_count() == before);
	CHILD_CHECK(stat(arg, &st) == 0 && st.st_mode == (S_IFREG | 0600));
	/* The name was copied. */
	unsetenv("BERTH_LOG_FILE");
	berth_error("two");
	if (fork() == 0) {
		berth_info("child");
		_exit(0);
	}
	CHILD_CHECK(wait(NULL) > 0);
	/* A descriptor that is set wins, -1 goes back. */
	berth_log_set_fd(STDERR_FILENO);
	berth_info("shown");
	berth_log_set_fd(-1);
	berth_info("three");
	return 0;
}

static void test_file(void **state)
{
	struct child_result result;
	char path[128];
	char text[1024] = "";
	int pids[4] = { 0 };
	FILE *file;

	(void)state;
	snprintf(path, sizeof(path), "%s/log", scratch);
	child_run_ok(file_child, path, &result);
	assert_non_null(strstr(result.error, "info: shown\n"));
	assert_null(strstr(result.error, "one"));
	file = fopen(path, "re");
	assert_non_null(file);
	assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	assert_int_equal(sscanf(text,
				"berth[%d]: info: one\nberth[%d]: error: two\n"
				"berth[%d]: info: child\nberth[%d]: info: three\n",
				&pids[0], &pids[1], &pids[2], &pids[3]),
			 4);
	assert_true(pids[0] == pids[1] && pids[0] == pids[3] && pids[0] != pids[2]);
}

static int bad_file_child(void *arg)
{
	setenv("BERTH_LOG_FILE", arg, 1);
	berth_log_set_level(BERTH_LOG_INFO);
	berth_info("quiet");
	berth_error("loud");
	return 0;
}

static void test_files_that_will_not_do(void **state)
{
	struct child_result result;
	char path[128];
	struct stat st;

	(void)state;
	assert_int_equal(close(creat("victim", 0600)), 0);
	assert_int_equal(symlink("victim", "link"), 0);
	assert_int_equal(mkfifo("fifo", 0600), 0);
	snprintf(path, sizeof(path), "%s/link", scratch);
	child_run_ok(bad_file_child, path, &result);
	assert_non_null(strstr(result.error, "error: loud\n"));
	assert_null(strstr(result.error, "quiet"));
	assert_int_equal(stat("victim", &st), 0);
	assert_int_equal(st.st_size, 0);

	/* A FIFO nobody reads, a directory. */
	snprintf(path, sizeof(path), "%s/fifo", scratch);
	child_run_ok(bad_file_child, path, &result);
	assert_non_null(strstr(result.error, "error: loud\n"));
	child_run_ok(bad_file_child, scratch, &result);
	assert_non_null(strstr(result.error, "error: loud\n"));

	/* A relative path means another file after each chdir: not taken. */
	child_run_ok(bad_file_child, (char[]){ "relative" }, &result);
	assert_non_null(strstr(result.error, "error: loud\n"));
	assert_int_equal(access("relative", F_OK), -1);
}

static void test_rate_limit(void **state)
{
	struct berth_log_limit limit = { 0 };
	uint32_t dropped = 99;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_true(berth_log_allow(&limit, 3, HOUR_NS, &dropped));
		assert_int_equal(dropped, 0);
	}
	dropped = 99;
	for (int i = 0; i < 5; i++)
		assert_false(berth_log_allow(&limit, 3, HOUR_NS, &dropped));
	assert_int_equal(dropped, 99);

	/* An hour later. */
	limit.window_start_ns -= limit.window_start_ns > HOUR_NS ? HOUR_NS : 0;
	if (limit.window_start_ns + HOUR_NS > berth_clock_ns())
		limit = (struct berth_log_limit){ 1, 3, 5 }; /* up for less than an hour */
	assert_true(berth_log_allow(&limit, 3, berth_clock_ns() - limit.window_start_ns, &dropped));
	assert_int_equal(dropped, 5);
	assert_true(berth_log_allow(&limit, 3, HOUR_NS, &dropped));
	assert_int_equal(dropped, 0);
	assert_true(berth_log_allow(&limit, 3, HOUR_NS, NULL));
	assert_false(berth_log_allow(&limit, 3, HOUR_NS, NULL));
	assert_false(berth_log_allow(&limit, 0, HOUR_NS, NULL));
}

#define THREADS 4
#define TRIES   20000
#define BURST   100

static struct berth_log_limit shared_limit;
static _Atomic int allowed_count;

static void *limit_thread(void *arg)
{
	(void)arg;
	for (int i = 0; i < TRIES; i++) {
		if (berth_log_allow(&shared_limit, BURST, HOUR_NS, NULL))
			allowed_count++;
	}
	return NULL;
}

static void test_rate_limit_of_threads(void **state)
{
	pthread_t threads[THREADS];
	uint32_t dropped = 0;

	(void)state;
	/* The first message opens the window: at its turn the count may be out by one. */
	assert_true(berth_log_allow(&shared_limit, BURST, HOUR_NS, &dropped));
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, limit_thread, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(allowed_count, BURST - 1);
	assert_int_equal(shared_limit.dropped_count, THREADS * TRIES - (BURST - 1));
}

static int once_child(void *arg)
{
	(void)arg;
	for (int i = 0; i < 3; i++)
		berth_log_once(BERTH_LOG_ERROR, "said %d", i);
	berth_log_once(BERTH_LOG_ERROR, "another place");
	return 0;
}

static void test_once(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(once_child, NULL, &result);
	assert_non_null(strstr(result.error, "said 0\n"));
	assert_null(strstr(result.error, "said 1"));
	assert_non_null(strstr(result.error, "another place\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_long_lines),
		cmocka_unit_test(test_errno_and_closed_descriptors),
		cmocka_unit_test(test_broken_pipe),
		cmocka_unit_test(test_full_pipe),
		cmocka_unit_test(test_recursion),
		cmocka_unit_test(test_stdio_locks),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_files_that_will_not_do),
		cmocka_unit_test(test_rate_limit),
		cmocka_unit_test(test_rate_limit_of_threads),
		cmocka_unit_test(test_once),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
