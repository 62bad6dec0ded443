/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting behind an owner, in each of the ways: nobody enters early, a death lets exactly one in, a
 * deadline is kept and names the owner, and nothing of a waiter is left when it is killed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/process.h"
#include "player.h"

static const uint32_t ways[] = { BERTH_RECORDLOCK_BLOCK, BERTH_RECORDLOCK_POLL,
				 BERTH_RECORDLOCK_BARE };

/* Which of two has answered first; exactly one has. */
static unsigned one_answers(const struct player players[2])
{
	UNTIL(player_answers(&players[0], 0) || player_answers(&players[1], 0));
	sleep_ms(150); /* several pauses: time for a wrong second one */
	assert_int_equal(player_answers(&players[0], 0) + player_answers(&players[1], 0), 1);
	return player_answers(&players[0], 0) ? 0 : 1;
}

static void deaths(const char *path, uint32_t way)
{
	struct player owner;
	struct player waiters[2];
	unsigned first;

	player_start(&owner, path, way);
	player_start(&waiters[0], path, way);
	player_start(&waiters[1], path, way);
	assert_int_equal(player_ask(&owner, 't'), 0);
	player_wait_begin(&waiters[0], path);
	player_wait_begin(&waiters[1], path);
	sleep_ms(150);
	assert_false(player_answers(&waiters[0], 0));
	assert_false(player_answers(&waiters[1], 0));
	assert_int_equal(owner_of(path), owner.pid);

	player_kill(&owner);
	first = one_answers(waiters);
	assert_int_equal(player_hear(&waiters[first]), 0);
	assert_int_equal(owner_of(path), waiters[first].pid);
	assert_int_equal(player_ask(&waiters[first], 'c'), 0);

	player_kill(&waiters[first]);
	assert_int_equal(player_hear(&waiters[!first]), 0);
	assert_int_equal(owner_of(path), waiters[!first].pid);
	assert_int_equal(player_ask(&waiters[!first], 'g'), 0);
	assert_int_equal(owner_of(path), 0);
	assert_int_equal(player_ask(&waiters[!first], 'n'), 0);
	player_end(&waiters[!first]);
	assert_int_equal(owner_of(path), 0);
}

static void test_deaths(void **state)
{
	const struct field *field = *state;

	for (size_t i = 0; i < BERTH_ARRAY_LEN(ways); i++)
		deaths(field->path, ways[i]);
}

static void test_release(void **state)
{
	const struct field *field = *state;

	for (size_t i = 0; i < BERTH_ARRAY_LEN(ways); i++) {
		struct player owner;
		struct player waiter;

		player_start(&owner, field->path, ways[i]);
		player_start(&waiter, field->path, ways[i]);
		assert_int_equal(player_ask(&owner, 't'), 0);
		player_wait_begin(&waiter, field->path);
		assert_int_equal(player_ask(&owner, 'g'), 0);
		assert_int_equal(player_hear(&waiter), 0);
		/* In its own name, not in that of a task that waited for it. */
		assert_int_equal(owner_of(field->path), waiter.pid);
		assert_int_equal(player_ask(&owner, 'n'), -ETIMEDOUT);
		if (ways[i] == BERTH_RECORDLOCK_BLOCK)
			assert_true(player_ask(&waiter, 'b') >= 1);
		else
			assert_int_equal(player_ask(&waiter, 'b'), 0);
		assert_true(ways[i] == BERTH_RECORDLOCK_BLOCK || player_ask(&waiter, 'p') >= 1);
		player_end(&owner);
		player_end(&waiter);
	}
}

/* The three ways are ways to wait for the same lock. */
static void test_mixed(void **state)
{
	const struct field *field = *state;
	struct player players[3];

	for (size_t i = 0; i < 3; i++)
		player_start(&players[i], field->path, ways[i]);
	for (size_t i = 0; i < 3; i++) {
		const struct player *owner = &players[i];
		const struct player *first = &players[(i + 1) % 3];
		const struct player *second = &players[(i + 2) % 3];

		assert_int_equal(player_ask(owner, 't'), 0);
		player_wait_begin(first, field->path);
		player_wait_begin(second, field->path);
		assert_int_equal(player_ask(owner, 'g'), 0);
		UNTIL(player_answers(first, 0) || player_answers(second, 0));
		if (player_answers(second, 0)) {
			const struct player *other = first;

			first = second;
			second = other;
		}
		assert_int_equal(player_hear(first), 0);
		sleep_ms(100);
		assert_false(player_answers(second, 0));
		assert_int_equal(player_ask(first, 'g'), 0);
		assert_int_equal(player_hear(second), 0);
		assert_int_equal(player_ask(second, 'g'), 0);
	}
	for (size_t i = 0; i < 3; i++)
		player_end(&players[i]);
}

static void test_deadline(void **state)
{
	const struct field *field = *state;
	struct berth_process_stat stat;
	struct player owner;

	player_start(&owner, field->path, BERTH_RECORDLOCK_AUTO);
	assert_int_equal(player_ask(&owner, 't'), 0);
	assert_int_equal(berth_process_stat_read(owner.pid, &stat), 0);
	for (size_t i = 0; i < BERTH_ARRAY_LEN(ways); i++) {
		struct berth_recordlock *lock = open_way(field->path, ways[i], 0);
		struct berth_recordlock_owner named = { 0 };
		uint64_t before_ns = berth_clock_ns();

		errno = 99;
		assert_int_equal(berth_recordlock_take(lock, 150, &named), -ETIMEDOUT);
		assert_true(berth_clock_ns() - before_ns >= 150 * BERTH_NS_PER_MS);
		assert_int_equal(errno, 99);
		assert_int_equal(named.pid, owner.pid);
		assert_int_equal(named.start_ticks, stat.start_ticks);
		assert_int_equal(berth_recordlock_take(lock, 1, NULL), -ETIMEDOUT);
		named = (struct berth_recordlock_owner){ 0 };
		assert_int_equal(berth_recordlock_take(lock, 0, &named), -ETIMEDOUT);
		assert_int_equal(named.pid, owner.pid);
		assert_int_equal(berth_recordlock_give(lock), -EPERM);
		assert_int_equal(berth_recordlock_check(lock), -EPERM);
		assert_int_equal(children_count(), 1); /* the owner */
		berth_recordlock_close(lock);
	}
	player_end(&owner);
}

/* The tasks in the kernel's queue that have this parent. */
static pid_t proxy_of(pid_t parent)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	pid_t found = 0;

	assert_non_null(proc);
	while ((entry = readdir(proc)) != NULL) {
		struct berth_process_stat stat;
		int pid = atoi(entry->d_name);

		if (pid > 0 && berth_process_stat_read(pid, &stat) == 0 && stat.ppid == parent)
			found = pid;
	}
	(void)closedir(proc);
	return found;
}

/* A waiter that is killed takes its proxy along, while the owner lives on: at once, and not only when the proxy's
 * own time is up, a second later. (Most of them, as the machine may be slow.) */
static void test_killed_waiter(void **state)
{
	const struct field *field = *state;
	struct player owner;
	int quick = 0;

	player_start(&owner, field->path, BERTH_RECORDLOCK_BLOCK);
	assert_int_equal(player_ask(&owner, 't'), 0);
	for (int round = 0; round < 10; round++) {
		struct berth_process_stat stat;
		struct player waiter;
		uint64_t soon_ns;
		pid_t proxy;

		player_start(&waiter, field->path, BERTH_RECORDLOCK_BLOCK);
		player_wait_begin(&waiter, field->path);
		proxy = proxy_of(waiter.pid);
		assert_true(proxy > 0);
		soon_ns = berth_deadline_after(BERTH_NS_PER_S / 2);
		player_kill(&waiter);
		/* Gone or a zombie that its new parent has not looked at yet. */
		UNTIL(berth_process_stat_read(proxy, &stat) != 0 || stat.state == 'Z');
		quick += !berth_deadline_passed(soon_ns);
		assert_int_equal(owner_of(field->path), owner.pid);
	}
	assert_in_range(quick, 5, 10);
	assert_int_equal(player_ask(&owner, 'g'), 0);
	assert_int_equal(owner_of(field->path), 0);
	player_end(&owner);
}

/* A waiter that is stopped while it is granted the lock doesn't keep it, and goes on to wait when it runs again. */
static void test_stopped_waiter(void **state)
{
	const struct field *field = *state;

	for (uint32_t way = BERTH_RECORDLOCK_BLOCK; way <= BERTH_RECORDLOCK_POLL; way++) {
		struct player owner;
		struct player waiter;

		player_start(&owner, field->path, way);
		player_start(&waiter, field->path, way);
		assert_int_equal(player_ask(&owner, 't'), 0);
		player_wait_begin(&waiter, field->path);
		assert_int_equal(kill(waiter.pid, SIGSTOP), 0);
		sleep_ms(20);
		assert_int_equal(player_ask(&owner, 'g'), 0);
		UNTIL(owner_of(field->path) == 0);
		assert_int_equal(player_ask(&owner, 't'), 0);
		assert_int_equal(kill(waiter.pid, SIGCONT), 0);
		sleep_ms(100);
		assert_false(player_answers(&waiter, 0));
		assert_int_equal(player_ask(&owner, 'g'), 0);
		assert_int_equal(player_hear(&waiter), 0);
		assert_int_equal(owner_of(field->path), waiter.pid);
		player_end(&owner);
		player_end(&waiter);
	}
}

static void drop_rights(int signal)
{
	(void)signal;
	(void)setresuid(65534, 65534, 65534);
}

/* The kernel may not tell the proxy then that its parent has died. It isn't left over for long all the same. */
static void test_dropped_rights(void **state)
{
	const struct field *field = *state;
	const struct sigaction action = { .sa_handler = drop_rights };
	struct berth_process_stat stat;
	struct player owner;
	pid_t child;
	pid_t proxy;

	if (geteuid() != 0)
		skip();
	player_start(&owner, field->path, BERTH_RECORDLOCK_BLOCK);
	assert_int_equal(player_ask(&owner, 't'), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		(void)sigaction(SIGUSR1, &action, NULL);
		_exit(berth_recordlock_take(open_way(field->path, BERTH_RECORDLOCK_BLOCK, 0),
					    LONG_MS, NULL) != 0);
	}
	UNTIL(proxy_of(child) != 0);
	proxy = proxy_of(child);
	assert_int_equal(kill(child, SIGUSR1), 0);
	sleep_ms(50);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	UNTIL(berth_process_stat_read(proxy, &stat) != 0 || stat.state == 'Z');
	assert_int_equal(owner_of(field->path), owner.pid);
	player_end(&owner);
}

static int wait_for_parents(void *arg)
{
	char path[PATH_MAX + 8];
	struct berth_recordlock *own = NULL;
	struct berth_recordlock *other = open_way(arg, BERTH_RECORDLOCK_BLOCK, 0);

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)snprintf(path, sizeof(path), "%s.b", (const char *)arg);
	own = open_way(path, BERTH_RECORDLOCK_BLOCK, BERTH_RECORDLOCK_CREATE);
	return berth_recordlock_take(own, 0, NULL) != 0 ||
	       berth_recordlock_take(other, LONG_MS, NULL) != 0;
}

/* Two processes that wait for each other are no deadlock: other threads may hold. The deadline decides. */
static void test_crosswise(void **state)
{
	struct field *field = *state;
	struct berth_recordlock *own = open_way(field->path, BERTH_RECORDLOCK_BLOCK, 0);
	struct berth_recordlock *other = NULL;
	char path[PATH_MAX + 8];
	int status = 0;
	pid_t child;

	(void)snprintf(path, sizeof(path), "%s.b", field->path);
	other = open_way(path, BERTH_RECORDLOCK_BLOCK, BERTH_RECORDLOCK_CREATE);
	assert_int_equal(berth_recordlock_take(own, 0, NULL), 0);
	child = fork();
	if (child == 0)
		_exit(wait_for_parents(field->path));
	UNTIL(proxy_of(child) != 0);
	sleep_ms(20);
	assert_int_equal(berth_recordlock_take(other, 300, NULL), -ETIMEDOUT);
	assert_int_equal(berth_recordlock_give(own), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(berth_recordlock_take(other, LONG_MS, NULL), 0);
	berth_recordlock_close(own);
	berth_recordlock_close(other);
}

static int storm_of_hints(void *arg)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		int fd = open(arg, O_RDONLY | O_CLOEXEC);

		(void)close(fd);
		sleep_ms(1);
	}
	return 0;
}

/* However many hints come: 20 tries a second. */
static void test_tries(void **state)
{
	struct field *field = *state;
	struct berth_recordlock *lock = open_way(field->path, BERTH_RECORDLOCK_POLL, 0);
	struct player owner;
	uint64_t seconds;
	uint64_t before_ns;
	pid_t child;

	player_start(&owner, field->path, BERTH_RECORDLOCK_BLOCK);
	assert_int_equal(player_ask(&owner, 't'), 0);
	child = fork();
	if (child == 0)
		_exit(storm_of_hints(field->path));
	before_ns = berth_clock_ns();
	assert_int_equal(berth_recordlock_take(lock, 2500, NULL), -ETIMEDOUT);
	seconds = (berth_clock_ns() - before_ns) / BERTH_NS_PER_S + 1;
	assert_in_range(trace_of(lock).try_count, 2, 20 * seconds);
	assert_int_equal(trace_of(lock).block_count, 0);
	assert_int_equal(trace_of(lock).hint_count, 0); /* none of them was worth a try */
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	player_end(&owner);
	berth_recordlock_close(lock);
}

/* The patient's pauses grow, the others' don't. */
static void test_patient(void **state)
{
	const struct field *field = *state;
	struct berth_recordlock *patient =
		open_way(field->path, BERTH_RECORDLOCK_BARE, BERTH_RECORDLOCK_PATIENT);
	struct berth_recordlock *lock = open_way(field->path, BERTH_RECORDLOCK_BARE, 0);
	struct player owner;

	player_start(&owner, field->path, BERTH_RECORDLOCK_BLOCK);
	assert_int_equal(player_ask(&owner, 't'), 0);
	assert_int_equal(berth_recordlock_take(patient, 1500, NULL), -ETIMEDOUT);
	assert_int_equal(berth_recordlock_take(lock, 1500, NULL), -ETIMEDOUT);
	assert_in_range(trace_of(patient).nap_count, 2, 12);
	assert_true(trace_of(lock).nap_count > trace_of(patient).nap_count);
	player_end(&owner);
	berth_recordlock_close(patient);
	berth_recordlock_close(lock);
}

/* A hint ends the pause of who would else sleep a second. How many it ended: none, if it came just when one was
 * over anyway. */
static uint64_t hinted(const struct field *field, char how)
{
	struct berth_recordlock *lock =
		open_way(field->path, BERTH_RECORDLOCK_POLL, BERTH_RECORDLOCK_PATIENT);
	struct player owner;
	uint64_t count;
	pid_t killer;

	player_start(&owner, field->path, BERTH_RECORDLOCK_POLL);
	assert_int_equal(player_ask(&owner, 't'), 0);
	killer = fork();
	if (killer == 0) {
		sleep_ms(2000);
		if (how == 'k')
			_exit(kill(owner.pid, SIGKILL));
		_exit(write(owner.tell_fd, "g", 1) != 1);
	}
	assert_int_equal(berth_recordlock_take(lock, LONG_MS, NULL), 0);
	count = trace_of(lock).hint_count;
	assert_int_equal(waitpid(killer, NULL, 0), killer);
	berth_recordlock_close(lock);
	player_kill(&owner);
	return count;
}

static void test_hints(void **state)
{
	const struct field *field = *state;
	int fd = open(field->path, O_WRONLY | O_CLOEXEC);

	/* A release is told by a read, of which an empty file has none. */
	assert_int_equal(write(fd, "x", 1), 1);
	(void)close(fd);
	assert_true(hinted(field, 'g') > 0 || hinted(field, 'g') > 0);
	assert_true(hinted(field, 'k') > 0 || hinted(field, 'k') > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_deaths, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_release, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_mixed, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_deadline, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_killed_waiter, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_stopped_waiter, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_dropped_rights, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_crosswise, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_tries, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_patient, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_hints, field_setup, field_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
