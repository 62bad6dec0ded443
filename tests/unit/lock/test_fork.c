/* SPDX-License-Identifier: Apache-2.0
 *
 * A fork child owns nothing, gives nothing back that is its parent's, releases nothing by its end, and can use
 * the lock like anybody else: however it was made (fork, a bare clone, in a signal handler in the
 * middle of a wait) and whatever its parent's threads were at.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "player.h"

static pid_t by_fork(void)
{
	return fork();
}

/* No fork handler runs. */
static pid_t by_clone(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static pid_t (*const births[])(void) = { by_fork, by_clone };

/* The number of the first thing that is wrong, else 0. */
static int child_without(struct berth_recordlock *lock)
{
	struct berth_recordlock_owner owner = { 0 };

	if (berth_recordlock_check(lock) != -EPERM)
		return 1;
	if (berth_recordlock_give(lock) != -EPERM)
		return 2;
	if (berth_recordlock_take(lock, 30, &owner) != -ETIMEDOUT)
		return 3;
	if (owner.pid != getppid())
		return 4;
	berth_recordlock_close(lock);
	return 0;
}

static int status_of(pid_t child)
{
	int status = 0;

	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void test_owns_nothing(void **state)
{
	const struct field *field = *state;

	for (uint32_t flags = 0; flags <= BERTH_RECORDLOCK_KEEP; flags += BERTH_RECORDLOCK_KEEP) {
		struct berth_recordlock *lock = open_way(field->path, 0, flags);

		assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0);
		for (size_t i = 0; i < 2; i++) {
			pid_t child = births[i]();

			if (child == 0)
				_exit(child_without(lock));
			assert_int_equal(status_of(child), 0);
			assert_int_equal(owner_of(field->path), getpid());
			assert_int_equal(berth_recordlock_check(lock), 0);
		}
		assert_int_equal(berth_recordlock_give(lock), 0);
		berth_recordlock_close(lock);
	}
}

/* Its end, and even its closing of everything, is its own affair. */
static int child_closes(struct berth_recordlock *lock)
{
	(void)lock;
	closefrom(3);
	return 0;
}

/* What the parent gives up it can take, and keep when the parent comes back. */
static int child_takes(struct berth_recordlock *lock)
{
	if (berth_recordlock_take(lock, LONG_MS, NULL) != 0)
		return 1;
	if (berth_recordlock_check(lock) != 0)
		return 2;
	sleep_ms(50);
	return berth_recordlock_give(lock) != 0 ? 3 : 0;
}

static void test_uses_it(void **state)
{
	const struct field *field = *state;

	for (size_t i = 0; i < 2; i++) {
		struct berth_recordlock *lock = open_way(field->path, 0, 0);
		pid_t child;

		assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0);
		child = births[i]();
		if (child == 0)
			_exit(child_closes(lock));
		assert_int_equal(status_of(child), 0);
		assert_int_equal(berth_recordlock_check(lock), 0);
		child = births[i]();
		if (child == 0)
			_exit(child_takes(lock));
		sleep_ms(30);
		assert_int_equal(berth_recordlock_check(lock), 0);
		assert_int_equal(berth_recordlock_give(lock), 0);
		UNTIL(owner_of(field->path) == child);
		assert_int_equal(berth_recordlock_take(lock, LONG_MS, NULL), 0);
		assert_int_equal(status_of(child), 0);
		berth_recordlock_close(lock);
	}
}

struct busy {
	const char *path;
	_Atomic bool stop;
};

/* Opens, holds and closes all the time, so that a fork finds every state of it. */
static void *busy_work(void *arg)
{
	struct busy *busy = arg;

	while (!busy->stop) {
		struct berth_recordlock *lock = NULL;

		if (berth_recordlock_open(busy->path, NULL, &lock) != 0)
			continue;
		(void)berth_recordlock_take(lock, LONG_MS, NULL);
		berth_recordlock_close(lock);
	}
	return NULL;
}

static int child_beside_busy(struct berth_recordlock *lock, const char *path)
{
	struct berth_recordlock *own = NULL;

	(void)alarm(60);
	if (berth_recordlock_open(path, NULL, &own) != 0)
		return 1;
	if (berth_recordlock_take(own, LONG_MS, NULL) != 0)
		return 2;
	if (berth_recordlock_give(own) != 0)
		return 3;
	berth_recordlock_close(own);
	if (berth_recordlock_take(lock, LONG_MS, NULL) != 0)
		return 4;
	return berth_recordlock_give(lock) != 0 ? 5 : 0;
}

static void test_forked_beside_threads(void **state)
{
	const struct field *field = *state;
	struct busy busy = { .path = field->path };
	struct berth_recordlock *lock = open_way(field->path, 0, 0);
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, busy_work, &busy), 0);
	for (int i = 0; i < 60; i++) {
		/* Bare clones only of one thread: libc's own allocator isn't made for others. */
		pid_t child = fork();

		if (child == 0)
			_exit(child_beside_busy(lock, field->path));
		assert_int_equal(status_of(child), 0);
	}
	busy.stop = true;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	berth_recordlock_close(lock);
}

static _Atomic pid_t handler_child;
static _Atomic int handler_birth;

static void fork_in_handler(int signal)
{
	pid_t child;

	(void)signal;
	if (handler_child != 0)
		return;
	child = births[handler_birth]();
	if (child != 0)
		handler_child = child;
	else
		handler_child = -1;
}

/* The child comes back from the handler into the middle of its parent's wait. */
static void handler_fork(const char *path, uint32_t way, int birth)
{
	const struct itimerval soon = { .it_value.tv_usec = 40000 };
	struct sigaction action = { .sa_handler = fork_in_handler };
	struct berth_recordlock *lock = open_way(path, way, 0);
	struct berth_recordlock_owner owner = { 0 };
	struct player player;
	pid_t self = getpid();
	int r;

	player_start(&player, path, BERTH_RECORDLOCK_BLOCK);
	assert_int_equal(player_ask(&player, 't'), 0);
	handler_child = 0;
	handler_birth = birth;
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	r = berth_recordlock_take(lock, 300, &owner);
	if (getpid() != self) {
		if (r != -ETIMEDOUT || owner.pid != player.pid)
			_exit(1);
		_exit(berth_recordlock_give(lock) == -EPERM ? 0 : 2);
	}
	assert_int_equal(r, -ETIMEDOUT);
	assert_int_equal(status_of(handler_child), 0);
	assert_int_equal(player_ask(&player, 'g'), 0);
	assert_int_equal(berth_recordlock_take(lock, LONG_MS, NULL), 0);
	assert_int_equal(owner_of(path), self);
	berth_recordlock_close(lock);
	player_end(&player);
}

static void test_forked_in_handler(void **state)
{
	const struct field *field = *state;

	for (uint32_t way = BERTH_RECORDLOCK_BLOCK; way <= BERTH_RECORDLOCK_POLL; way++) {
		handler_fork(field->path, way, 0);
		handler_fork(field->path, way, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_owns_nothing, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_uses_it, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_forked_beside_threads, field_setup,
						field_teardown),
		cmocka_unit_test_setup_teardown(test_forked_in_handler, field_setup,
						field_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
