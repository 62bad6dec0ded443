/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program does to our descriptor, and what a close of the same file does to the lock: it is seen
 * before the next guarded write, taken again within a look of the keeper's, and no file of the program's is
 * ever locked or closed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "player.h"

static void foreign_close(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
}

static int report_err;

static void on_report(void *arg, int err, const char *text)
{
	(void)arg;
	(void)text;
	report_err = err;
}

static struct berth_recordlock *open_reporting(const char *path, uint32_t flags)
{
	const struct berth_recordlock_options options = { .size = sizeof(options),
							  .flags = flags,
							  .report = on_report };
	struct berth_recordlock *lock = NULL;

	report_err = 0;
	assert_int_equal(berth_recordlock_open(path, &options, &lock), 0);
	return lock;
}

static void test_seen(void **state)
{
	const struct field *field = *state;
	struct berth_recordlock *lock = open_reporting(field->path, 0);
	FILE *file;

	assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0);
	assert_int_equal(berth_recordlock_check(lock), 0);
	foreign_close(field->path);
	assert_int_equal(owner_of(field->path), 0);
	assert_int_equal(berth_recordlock_check(lock), 1);
	assert_int_equal(report_err, -EINTR);
	assert_int_equal(owner_of(field->path), getpid());
	assert_int_equal(berth_recordlock_check(lock), 0);
	file = fopen(field->path, "re");
	assert_non_null(file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(berth_recordlock_check(lock), 1);
	assert_int_equal(berth_recordlock_check(lock), 0);
	assert_int_equal(trace_of(lock).lost_count, 2);
	/* Lost and given back: no error, and free for the next. */
	foreign_close(field->path);
	assert_int_equal(berth_recordlock_give(lock), 0);
	assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0);
	berth_recordlock_close(lock);
}

static void test_taken_by_another(void **state)
{
	const struct field *field = *state;
	struct berth_recordlock *lock = open_reporting(field->path, 0);
	struct player other;

	player_start(&other, field->path, BERTH_RECORDLOCK_BLOCK);
	assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0);
	player_wait_begin(&other, field->path);
	foreign_close(field->path);
	assert_int_equal(player_hear(&other), 0);
	assert_int_equal(berth_recordlock_check(lock), -EOWNERDEAD);
	assert_int_equal(report_err, -EOWNERDEAD);
	assert_int_equal(berth_recordlock_check(lock), -EPERM);
	assert_int_equal(berth_recordlock_give(lock), -EPERM);
	assert_int_equal(owner_of(field->path), other.pid);
	assert_int_equal(berth_recordlock_take(lock, 0, NULL), -ETIMEDOUT);
	assert_int_equal(player_ask(&other, 'g'), 0);
	assert_int_equal(berth_recordlock_take(lock, LONG_MS, NULL), 0);
	player_end(&other);
	berth_recordlock_close(lock);
}

static void owned_again(const char *path)
{
	UNTIL(owner_of(path) == getpid());
}

static int tasks_count(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = 0;

	assert_non_null(tasks);
	for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks))
		count += entry->d_name[0] != '.';
	(void)closedir(tasks);
	return count;
}

static void test_kept(void **state)
{
	const struct field *field = *state;
	struct berth_recordlock *lock = open_reporting(field->path, BERTH_RECORDLOCK_KEEP);
	int before = tasks_count();

	assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0);
	assert_int_equal(tasks_count(), before + 1);
	foreign_close(field->path);
	owned_again(field->path); /* without a check */
	assert_int_equal(berth_recordlock_check(lock), 1);
	assert_int_equal(report_err, -EINTR);
	assert_int_equal(berth_recordlock_check(lock), 0);
	closefrom(3);
	owned_again(field->path);
	assert_int_equal(berth_recordlock_check(lock), 1);
	assert_int_equal(berth_recordlock_check(lock), 0);
	assert_int_equal(berth_recordlock_give(lock), 0);
	assert_int_equal(tasks_count(), before);
	assert_int_equal(trace_of(lock).lost_count, 2);
	sleep_ms(120); /* nobody takes it again */
	assert_int_equal(owner_of(field->path), 0);
	assert_int_equal(children_count(), 0);
	berth_recordlock_close(lock);
}

static int keep_and_drop_rights(void *arg)
{
	struct berth_recordlock *lock = open_reporting(arg, BERTH_RECORDLOCK_KEEP);
	int before = tasks_count(); /* a sanitizer has its own */

	if (berth_recordlock_take(lock, 0, NULL) != 0 || tasks_count() != before + 1)
		return 1;
	if (setresuid(65534, 65534, 65534) != 0)
		return 2;
	UNTIL(tasks_count() == before);
	if (berth_recordlock_check(lock) != 0 || report_err != -EPERM)
		return 3;
	foreign_close(arg);
	if (berth_recordlock_check(lock) != 1)
		return 4;
	return berth_recordlock_give(lock) != 0 ? 5 : 0;
}

/* A keeper keeps no rights that the program gives up. */
static void test_rights_dropped(void **state)
{
	struct field *field = *state;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(field->dir, 0755), 0);
	assert_int_equal(in_child(keep_and_drop_rights, field->path), 0);
}

static void test_closed_between(void **state)
{
	const struct field *field = *state;
	struct berth_recordlock *lock = open_way(field->path, 0, 0);

	for (int i = 0; i < 3; i++) {
		closefrom(3);
		assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0);
		assert_int_equal(owner_of(field->path), getpid());
		assert_int_equal(berth_recordlock_check(lock), 0);
		assert_int_equal(berth_recordlock_give(lock), 0);
		assert_int_equal(owner_of(field->path), 0);
	}
	assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0);
	closefrom(3);
	assert_int_equal(berth_recordlock_check(lock), 1);
	closefrom(3);
	assert_int_equal(berth_recordlock_give(lock), 0);
	closefrom(3);
	berth_recordlock_close(lock);
}

static bool locked_anywhere(const char *path)
{
	struct flock lock = { .l_type = F_WRLCK };
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		int fd = open(path, O_RDWR | O_CLOEXEC);

		_exit(fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status != 0;
}

/* Which number has the file? */
static int number_of(const char *path)
{
	char link[64];
	char target[PATH_MAX];

	for (int fd = 3; fd < 4096; fd++) {
		ssize_t length;

		(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		length = readlink(link, target, sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		if (strcmp(target, path) == 0)
			return fd;
	}
	return -1;
}

/* Every moment at which the program can put a file of its own in the place of our descriptor. It holds a lock on
 * that file itself, on the very byte. */
static void test_number_used_again(void **state)
{
	const struct field *field = *state;
	struct berth_recordlock *lock = open_way(field->path, 0, 0);
	struct flock own = { .l_type = F_WRLCK, .l_start = BERTH_RECORDLOCK_BYTE, .l_len = 1 };
	char path[PATH_MAX + 8];
	int number = number_of(field->path);
	int fd;

	(void)snprintf(path, sizeof(path), "%s.db", field->path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && number >= 0);
	assert_int_equal(write(fd, "0123456789", 10), 10); /* it stands somewhere */
	assert_int_equal(dup2(fd, number), number);
	assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0); /* between holds */
	assert_false(locked_anywhere(path));
	assert_int_equal(owner_of(field->path), getpid());

	number = number_of(field->path);
	assert_int_equal(fcntl(fd, F_SETLK, &own), 0);
	assert_int_equal(dup2(fd, number), number); /* during a hold */
	assert_int_equal(berth_recordlock_check(lock), 1);
	assert_int_equal(owner_of(field->path), getpid());

	number = number_of(field->path);
	assert_int_equal(dup2(fd, number), number); /* before it is given back */
	assert_int_equal(berth_recordlock_give(lock), 0);
	assert_true(locked_anywhere(path));
	assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0);
	number = number_of(field->path);
	assert_int_equal(dup2(fd, number), number); /* before it is closed */
	berth_recordlock_close(lock);
	assert_true(locked_anywhere(path));
	assert_int_equal(lseek(number, 0, SEEK_CUR), 10);
	(void)close(fd);
}

/* A lock of our own may get the number of another one of ours. */
static void test_numbers_crossed(void **state)
{
	const struct field *field = *state;
	struct berth_recordlock *first = open_way(field->path, 0, 0);
	struct berth_recordlock *second = NULL;
	char path[PATH_MAX + 8];
	int number = number_of(field->path);

	(void)snprintf(path, sizeof(path), "%s.b", field->path);
	(void)close(number);
	second = open_way(path, 0, BERTH_RECORDLOCK_CREATE);
	assert_int_equal(number_of(path), number);
	assert_int_equal(berth_recordlock_take(first, 0, NULL), 0);
	assert_int_equal(owner_of(field->path), getpid());
	assert_false(locked_anywhere(path));
	assert_int_equal(berth_recordlock_take(second, 0, NULL), 0);
	assert_int_equal(owner_of(path), getpid());
	berth_recordlock_close(first);
	assert_int_equal(owner_of(field->path), 0);
	assert_int_equal(berth_recordlock_check(second), 0);
	berth_recordlock_close(second);
}

static void test_moved_away(void **state)
{
	const struct field *field = *state;
	struct berth_recordlock *lock = open_way(field->path, 0, 0);
	char path[PATH_MAX + 8];

	(void)snprintf(path, sizeof(path), "%s.old", field->path);
	assert_int_equal(rename(field->path, path), 0);
	assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0); /* it has the file still */
	assert_int_equal(berth_recordlock_give(lock), 0);
	closefrom(3);
	assert_int_equal(berth_recordlock_take(lock, 0, NULL), -ESTALE);
	assert_int_equal(close(open(field->path, O_CREAT | O_RDWR | O_CLOEXEC, 0600)), 0);
	assert_int_equal(berth_recordlock_take(lock, 0, NULL), -ESTALE);
	assert_false(locked_anywhere(field->path));
	assert_int_equal(unlink(field->path), 0);
	assert_int_equal(rename(path, field->path), 0);
	assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0);
	berth_recordlock_close(lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_seen, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_taken_by_another, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_kept, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_rights_dropped, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_closed_between, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_number_used_again, field_setup,
						field_teardown),
		cmocka_unit_test_setup_teardown(test_numbers_crossed, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_moved_away, field_setup, field_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
