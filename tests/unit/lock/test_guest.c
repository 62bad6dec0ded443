/* SPDX-License-Identifier: Apache-2.0
 *
 * A wait is a guest: whatever the program does with signals, timers, children and limits goes on beside it
 * unchanged, and where no task can be made the wait goes on by polling.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "player.h"

static _Atomic int alarm_count;
static _Atomic int child_signal_count;
static _Atomic int child_seen_count;
static _Atomic bool may_wait;

static void on_alarm(int signal)
{
	int saved_errno = errno;

	(void)signal;
	alarm_count++;
	/* Nothing of ours is a child that the program could wait for. */
	if (may_wait && (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD))
		child_seen_count++;
	errno = saved_errno;
}

static void on_child(int signal)
{
	(void)signal;
	child_signal_count++;
}

static int descriptors_count(void)
{
	DIR *fds = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(fds);
	for (struct dirent *entry = readdir(fds); entry != NULL; entry = readdir(fds))
		count++;
	(void)closedir(fds);
	return count;
}

/* In a child, whose sibling is the owner: so it has no child of its own. */
static int wait_among_signals(const char *path, uint32_t way)
{
	const struct itimerval often = { .it_interval.tv_usec = 5000, .it_value.tv_usec = 5000 };
	struct sigaction on_alarm_action = { .sa_handler = on_alarm };
	struct sigaction on_child_action = { .sa_handler = on_child };
	struct sigaction after;
	struct itimerval timer;
	sigset_t mask_before;
	sigset_t mask_after;
	int descriptors = descriptors_count();
	struct berth_recordlock *lock = open_way(path, way, 0);
	uint64_t before_ns = berth_clock_ns();

	may_wait = true;
	(void)sigaction(SIGALRM, &on_alarm_action, NULL);
	(void)sigaction(SIGCHLD, &on_child_action, NULL);
	(void)sigemptyset(&mask_before);
	(void)sigaddset(&mask_before, SIGUSR2);
	(void)sigprocmask(SIG_SETMASK, &mask_before, NULL);
	(void)setitimer(ITIMER_REAL, &often, NULL);
	if (berth_recordlock_take(lock, 300, NULL) != -ETIMEDOUT)
		return 1;
	if (berth_clock_ns() - before_ns < 300 * BERTH_NS_PER_MS)
		return 2;
	if (getitimer(ITIMER_REAL, &timer) != 0 || timer.it_interval.tv_usec != 5000)
		return 3;
	(void)setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	if (alarm_count == 0 || child_signal_count != 0 || child_seen_count != 0)
		return 4;
	if (sigaction(SIGALRM, NULL, &after) != 0 || after.sa_handler != on_alarm)
		return 5;
	(void)sigprocmask(SIG_SETMASK, NULL, &mask_after);
	for (int signal = 1; signal < 32; signal++) {
		if (sigismember(&mask_after, signal) != sigismember(&mask_before, signal))
			return 6;
	}
	if (waitpid(-1, NULL, WNOHANG | __WALL) != -1 || errno != ECHILD)
		return 7;
	berth_recordlock_close(lock);
	return descriptors_count() != descriptors ? 8 : 0;
}

struct place {
	const char *path;
	uint32_t way;
	int owner_fd; /* tells the owner what to do */
};

static int among_signals(void *arg)
{
	const struct place *place = arg;

	return wait_among_signals(place->path, place->way);
}

static void test_signals(void **state)
{
	const struct field *field = *state;
	struct player owner;

	player_start(&owner, field->path, BERTH_RECORDLOCK_BLOCK);
	assert_int_equal(player_ask(&owner, 't'), 0);
	for (uint32_t way = BERTH_RECORDLOCK_BLOCK; way <= BERTH_RECORDLOCK_BARE; way++) {
		struct place place = { .path = field->path, .way = way };

		assert_int_equal(in_child(among_signals, &place), 0);
	}
	player_end(&owner);
}

static int report_err;
static int report_count;

static void on_report(void *arg, int err, const char *text)
{
	(void)arg;
	(void)text;
	report_err = err;
	report_count++;
}

static struct berth_recordlock *open_reporting(const char *path, uint32_t flags)
{
	const struct berth_recordlock_options options = { .size = sizeof(options),
							  .way = BERTH_RECORDLOCK_BLOCK,
							  .flags = flags,
							  .report = on_report };
	struct berth_recordlock *lock = NULL;

	return berth_recordlock_open(path, &options, &lock) == 0 ? lock : NULL;
}

/* No further process is allowed: told once, then polled. */
static int without_tasks(void *arg)
{
	const struct place *place = arg;
	const struct rlimit none = { 0, 0 };
	struct berth_recordlock *lock = open_reporting(place->path, BERTH_RECORDLOCK_KEEP);
	struct berth_recordlock_trace trace;

	if (lock == NULL || setrlimit(RLIMIT_NPROC, &none) != 0)
		return 1;
	if (setgid(65534) != 0 || setuid(65534) != 0)
		return 2;
	for (int i = 0; i < 2; i++) {
		if (berth_recordlock_take(lock, 100, NULL) != -ETIMEDOUT)
			return 3;
	}
	berth_recordlock_trace(lock, &trace);
	if (report_count != 1 || report_err != -ECHILD || trace.block_count != 0 ||
	    trace.nap_count == 0)
		return 4;
	if (write(place->owner_fd, "g", 1) != 1 || berth_recordlock_take(lock, LONG_MS, NULL) != 0)
		return 5;
	/* Held, but nobody looks after it. */
	if (report_count != 2 || report_err != -EAGAIN || berth_recordlock_check(lock) != 0)
		return 6;
	return berth_recordlock_give(lock) != 0 ? 7 : 0;
}

/* Runs body beside an owner of the lock, which it tells to give the lock back. */
static void beside_owner(const struct field *field, uint32_t way, int (*body)(void *))
{
	struct place place = { .path = field->path, .way = way };
	struct player owner;

	player_start(&owner, field->path, BERTH_RECORDLOCK_BLOCK);
	assert_int_equal(player_ask(&owner, 't'), 0);
	place.owner_fd = owner.tell_fd;
	assert_int_equal(in_child(body, &place), 0);
	assert_int_equal(player_hear(&owner), 0);
	player_end(&owner);
}

static void test_no_tasks(void **state)
{
	if (geteuid() != 0)
		skip();
	beside_owner(*state, BERTH_RECORDLOCK_BLOCK, without_tasks);
}

/* Not one descriptor is free: neither a task nor polling needs any. */
static int without_descriptors(void *arg)
{
	const struct place *place = arg;
	struct berth_recordlock *lock = open_way(place->path, place->way, 0);
	struct berth_recordlock *other = NULL;
	const struct rlimit few = { 32, 32 };

	if (setrlimit(RLIMIT_NOFILE, &few) != 0)
		return 1;
	while (dup(0) >= 0)
		;
	if (berth_recordlock_take(lock, 100, NULL) != -ETIMEDOUT)
		return 2;
	/* A file that is open here needs none, another one does. */
	if (berth_recordlock_open(place->path, NULL, &other) != 0)
		return 3;
	if (write(place->owner_fd, "g", 1) != 1 || berth_recordlock_take(other, LONG_MS, NULL) != 0)
		return 4;
	if (berth_recordlock_open("/proc/self/oom_score_adj", NULL, &other) != -EMFILE)
		return 5;
	return berth_recordlock_check(lock) == -EPERM ? 0 : 6;
}

static void test_no_descriptors(void **state)
{
	for (uint32_t way = BERTH_RECORDLOCK_BLOCK; way <= BERTH_RECORDLOCK_POLL; way++)
		beside_owner(*state, way, without_descriptors);
}

/* The first process of a namespace that the program has made is the program's to choose. */
static int before_new_namespace(void *arg)
{
	struct berth_recordlock *lock = open_way(arg, BERTH_RECORDLOCK_BLOCK, 0);
	int status = 0;
	pid_t child;

	if (unshare(CLONE_NEWPID) != 0)
		return 77;
	if (berth_recordlock_take(lock, 50, NULL) != -ETIMEDOUT)
		return 1;
	child = fork();
	if (child < 0)
		return 2; /* it has had its first process, and is over */
	if (child == 0)
		_exit(getpid() != 1);
	if (waitpid(child, &status, 0) != child || status != 0)
		return 3;
	return 0;
}

static void test_namespace(void **state)
{
	struct field *field = *state;
	struct player owner;
	int r;

	player_start(&owner, field->path, BERTH_RECORDLOCK_BLOCK);
	assert_int_equal(player_ask(&owner, 't'), 0);
	r = in_child(before_new_namespace, field->path);
	player_end(&owner);
	if (r == 77)
		skip();
	assert_int_equal(r, 0);
}

/* A program that runs another one in its place leaves no hold behind, nor who would renew it. */
static void test_exec(void **state)
{
	const struct field *field = *state;
	char byte;
	int ends[2];
	int status = 0;
	pid_t child;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		struct berth_recordlock *lock = open_way(field->path, 0, BERTH_RECORDLOCK_KEEP);

		if (berth_recordlock_take(lock, 0, NULL) != 0)
			_exit(1);
		(void)execl("/bin/sleep", "sleep", "60", (char *)NULL);
		_exit(2);
	}
	(void)close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 0); /* closed by the execve */
	(void)close(ends[0]);
	UNTIL(owner_of(field->path) == 0);
	sleep_ms(120);
	assert_int_equal(owner_of(field->path), 0);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_signals, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_no_tasks, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_no_descriptors, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_namespace, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_exec, field_setup, field_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
