/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a record lock: what is refused and with what, which file is made, which way is chosen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attributes.h"
#include "player.h"

static int open_error(const char *path, uint32_t flags)
{
	const struct berth_recordlock_options options = { .size = sizeof(options), .flags = flags };
	struct berth_recordlock *lock = NULL;
	int r = berth_recordlock_open(path, &options, &lock);

	if (r == 0)
		berth_recordlock_close(lock);
	return r;
}

static void test_refused(void **state)
{
	const struct field *field = *state;
	char path[PATH_MAX + 32];

	(void)snprintf(path, sizeof(path), "%s/link", field->dir);
	assert_int_equal(symlink("a.lock", path), 0);
	assert_int_equal(open_error(path, 0), -ELOOP);
	assert_int_equal(open_error(path, BERTH_RECORDLOCK_CREATE), -ELOOP);
	assert_int_equal(open_error(field->dir, 0), -EISDIR);
	(void)snprintf(path, sizeof(path), "%s/pipe", field->dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(open_error(path, 0), -EINVAL);
	(void)snprintf(path, sizeof(path), "%s/none", field->dir);
	assert_int_equal(open_error(path, 0), -ENOENT);
	(void)snprintf(path, sizeof(path), "%s/none/at/all", field->dir);
	assert_int_equal(open_error(path, BERTH_RECORDLOCK_CREATE), -ENOENT);
	(void)snprintf(path, sizeof(path), "%s/none/", field->path);
	assert_int_equal(open_error(path, 0), -ENOTDIR);
}

static void test_options(void **state)
{
	const struct field *field = *state;
	struct berth_recordlock *lock = NULL;
	struct berth_recordlock_options options = { .size = sizeof(options) };

	options.size--;
	assert_int_equal(berth_recordlock_open(field->path, &options, &lock), -EINVAL);
	options.size++;
	options.way = 4;
	assert_int_equal(berth_recordlock_open(field->path, &options, &lock), -EINVAL);
	options.way = 0;
	options.flags = 1U << 4;
	assert_int_equal(berth_recordlock_open(field->path, &options, &lock), -EINVAL);
	options.flags = 0;
	options.byte = -1;
	assert_int_equal(berth_recordlock_open(field->path, &options, &lock), -EINVAL);
	assert_null(lock);
	options.byte = 0;
	assert_int_equal(berth_recordlock_open(field->path, &options, &lock), 0);
	assert_int_equal(berth_recordlock_take(lock, -1, NULL), -EINVAL);
	berth_recordlock_close(lock);
	berth_recordlock_close(NULL);
}

static int as_nobody(void *arg)
{
	return setgid(65534) != 0 || setuid(65534) != 0 || open_error(arg, 0) != -EACCES;
}

static void test_unwritable(void **state)
{
	struct field *field = *state;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(field->dir, 0755), 0);
	assert_int_equal(in_child(as_nobody, field->path), 0);
}

static void test_created(void **state)
{
	const struct field *field = *state;
	char path[PATH_MAX + 32];
	mode_t before = umask(0777);
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/new", field->dir);
	errno = 99;
	assert_int_equal(open_error(path, BERTH_RECORDLOCK_CREATE), 0);
	assert_int_equal(errno, 99);
	assert_int_equal(umask(before), 0777);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	/* An existing one is left as it is. */
	assert_int_equal(chmod(field->path, 0640), 0);
	assert_int_equal(open_error(field->path, BERTH_RECORDLOCK_CREATE), 0);
	assert_int_equal(stat(field->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(st.st_size, 0);
}

static void test_trusted(void **state)
{
	const struct field *field = *state;
	struct berth_recordlock *lock = NULL;

	for (int known = 0; known <= 1; known++) {
		if (known)
			lock = open_way(field->path, 0, 0);
		assert_int_equal(chmod(field->path, 0644), 0);
		closefrom(3);
		assert_int_equal(open_error(field->path, BERTH_RECORDLOCK_TRUSTED), 0);
		assert_int_equal(chmod(field->path, 0664), 0);
		assert_int_equal(open_error(field->path, BERTH_RECORDLOCK_TRUSTED), -EPERM);
		assert_int_equal(chmod(field->path, 0646), 0);
		assert_int_equal(open_error(field->path, BERTH_RECORDLOCK_TRUSTED), -EPERM);
		assert_int_equal(open_error(field->path, 0), 0);
		assert_int_equal(chmod(field->path, 0600), 0);
		if (geteuid() != 0)
			continue;
		assert_int_equal(chown(field->path, 65534, 0), 0);
		assert_int_equal(open_error(field->path, BERTH_RECORDLOCK_TRUSTED), -EPERM);
		assert_int_equal(chown(field->path, 0, 0), 0);
	}
	berth_recordlock_close(lock);
}

/* Locked by another process's own words, on this byte and no other. */
static int foreign_try(const char *path, int64_t byte)
{
	struct flock lock = { .l_type = F_WRLCK, .l_start = byte, .l_len = 1 };
	int status = 0;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		int fd = open(path, O_RDWR | O_CLOEXEC);

		_exit(fd >= 0 && fcntl(fd, F_SETLK, &lock) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WEXITSTATUS(status);
}

static void test_bytes(void **state)
{
	static const int64_t bytes[] = { 1, 4096, BERTH_RECORDLOCK_BYTE, INT64_C(1) << 42,
					 INT64_MAX - 1 };
	const struct field *field = *state;

	for (size_t i = 0; i < BERTH_ARRAY_LEN(bytes); i++) {
		const struct berth_recordlock_options options = { .size = sizeof(options),
								  .byte = bytes[i] };
		struct berth_recordlock *lock = NULL;

		assert_int_equal(berth_recordlock_open(field->path, &options, &lock), 0);
		assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0);
		assert_int_equal(foreign_try(field->path, bytes[i]), 1);
		assert_int_equal(foreign_try(field->path, bytes[i] - 1), 0);
		assert_int_equal(foreign_try(field->path, bytes[i] + (bytes[i] < INT64_MAX - 1)),
				 bytes[i] == INT64_MAX - 1);
		assert_int_equal(berth_recordlock_check(lock), 0);
		assert_int_equal(berth_recordlock_give(lock), 0);
		assert_int_equal(foreign_try(field->path, bytes[i]), 0);
		berth_recordlock_close(lock);
	}
}

/* Two locks of one file exclude each other, are given back one by one, and closing one keeps the other. */
static void test_shared_file(void **state)
{
	const struct field *field = *state;
	const struct berth_recordlock_options other = { .size = sizeof(other), .byte = 7 };
	char path[PATH_MAX + 32];
	struct berth_recordlock *first = open_way(field->path, 0, 0);
	struct berth_recordlock *second = NULL;
	struct berth_recordlock *third = NULL;
	struct berth_recordlock_owner owner = { 0 };

	(void)snprintf(path, sizeof(path), "%s/hard", field->dir);
	assert_int_equal(link(field->path, path), 0);
	second = open_way(path, 0, 0);
	assert_int_equal(berth_recordlock_open(field->path, &other, &third), 0);
	assert_int_equal(berth_recordlock_take(first, 0, NULL), 0);
	assert_int_equal(berth_recordlock_take(third, 0, NULL), 0);
	assert_int_equal(berth_recordlock_take(second, 0, &owner), -EDEADLK);
	assert_int_equal(owner.pid, getpid());
	berth_recordlock_close(open_way(field->path, 0, 0));
	assert_int_equal(berth_recordlock_check(first), 0);
	assert_int_equal(berth_recordlock_give(second), -EPERM);
	assert_int_equal(berth_recordlock_check(second), -EPERM);
	berth_recordlock_close(second);
	berth_recordlock_close(third); /* held: is given back */
	assert_int_equal(foreign_try(field->path, 7), 0);
	assert_int_equal(foreign_try(field->path, BERTH_RECORDLOCK_BYTE), 1);
	assert_int_equal(berth_recordlock_check(first), 0);
	assert_int_equal(berth_recordlock_give(first), 0);
	assert_int_equal(berth_recordlock_give(first), -EPERM);
	berth_recordlock_close(first);
}

static int report_count;

static void on_report(void *arg, int err, const char *text)
{
	(void)arg;
	assert_int_equal(err, -EINVAL);
	assert_non_null(strstr(text, "BERTH_RECORDLOCK"));
	report_count++;
}

static uint32_t way_of(const char *path, uint32_t way)
{
	const struct berth_recordlock_options options = { .size = sizeof(options),
							  .way = way,
							  .report = on_report };
	struct berth_recordlock *lock = NULL;
	uint32_t got;

	assert_int_equal(berth_recordlock_open(path, &options, &lock), 0);
	got = trace_of(lock).way;
	berth_recordlock_close(lock);
	return got;
}

static void test_way(void **state)
{
	const struct field *field = *state;

	(void)unsetenv("BERTH_RECORDLOCK");
	assert_int_equal(way_of(field->path, BERTH_RECORDLOCK_AUTO), BERTH_RECORDLOCK_BLOCK);
	assert_int_equal(setenv("BERTH_RECORDLOCK", "poll", 1), 0);
	assert_int_equal(way_of(field->path, BERTH_RECORDLOCK_AUTO), BERTH_RECORDLOCK_POLL);
	assert_int_equal(way_of(field->path, BERTH_RECORDLOCK_BLOCK), BERTH_RECORDLOCK_BLOCK);
	assert_int_equal(way_of(field->path, BERTH_RECORDLOCK_BARE), BERTH_RECORDLOCK_BARE);
	assert_int_equal(setenv("BERTH_RECORDLOCK", "block", 1), 0);
	assert_int_equal(way_of(field->path, BERTH_RECORDLOCK_AUTO), BERTH_RECORDLOCK_BLOCK);
	assert_int_equal(way_of(field->path, BERTH_RECORDLOCK_POLL), BERTH_RECORDLOCK_POLL);
	assert_int_equal(report_count, 0);
	assert_int_equal(setenv("BERTH_RECORDLOCK", "blocking", 1), 0);
	assert_int_equal(way_of(field->path, BERTH_RECORDLOCK_AUTO), BERTH_RECORDLOCK_BLOCK);
	assert_int_equal(report_count, 1);
	(void)unsetenv("BERTH_RECORDLOCK");
}

/* A relative path is that of the working directory at open, whatever becomes of it. */
static void test_relative(void **state)
{
	const struct field *field = *state;
	struct berth_recordlock *lock = NULL;
	char before[PATH_MAX];

	assert_non_null(getcwd(before, sizeof(before)));
	assert_int_equal(chdir(field->dir), 0);
	lock = open_way("a.lock", 0, 0);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0);
	assert_int_equal(berth_recordlock_give(lock), 0);
	closefrom(3); /* must be opened again by its path */
	assert_int_equal(berth_recordlock_take(lock, 0, NULL), 0);
	assert_int_equal(owner_of(field->path), getpid());
	berth_recordlock_close(lock);
	assert_int_equal(chdir(before), 0);
}

/* 0, 1 and 2 stay the program's. */
static int without_standard(void *arg)
{
	struct berth_recordlock *lock = NULL;

	for (int fd = 0; fd < 3; fd++)
		(void)close(fd);
	if (berth_recordlock_open(arg, NULL, &lock) != 0)
		return 1;
	if (fcntl(0, F_GETFD) != -1 || fcntl(1, F_GETFD) != -1 || fcntl(2, F_GETFD) != -1)
		return 2;
	if (berth_recordlock_take(lock, 0, NULL) != 0)
		return 3;
	closefrom(0);
	if (berth_recordlock_check(lock) != 1)
		return 4;
	return fcntl(0, F_GETFD) == -1 && fcntl(1, F_GETFD) == -1 && fcntl(2, F_GETFD) == -1 ? 0
											     : 5;
}

static void test_standard_numbers(void **state)
{
	struct field *field = *state;

	assert_int_equal(in_child(without_standard, field->path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_refused, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_options, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_unwritable, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_created, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_trusted, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_bytes, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_shared_file, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_way, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_relative, field_setup, field_teardown),
		cmocka_unit_test_setup_teardown(test_standard_numbers, field_setup, field_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
