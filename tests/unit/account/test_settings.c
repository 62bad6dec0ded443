/* SPDX-License-Identifier: Apache-2.0
 *
 * Which override file is believed. (How the real one is found and used: tests/e2e/override.sh.)
 */
#include "account/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "child.h"
#include "policy/override.h"

static char file[64];
static char text[BERTH_OVERRIDE_TEXT_MAX + 1];

static int setup(void **state)
{
	int fd;

	(void)state;
	strcpy(file, "/tmp/berth-override-XXXXXX");
	fd = mkstemp(file);
	return fd < 0 || dprintf(fd, "A=b\n") != 4 || fchmod(fd, 0644) != 0 || close(fd) != 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)unlink(file);
	(void)rmdir(file);
	return 0;
}

static ssize_t look(struct berth_reason *reason)
{
	reason->text[0] = '\0';
	return berth_settings_override_read(file, text, sizeof(text), reason);
}

static void refused(ssize_t err, const char *word)
{
	struct berth_reason reason;
	ssize_t result = look(&reason);

	if (result != err || strstr(reason.text, file) != reason.text ||
	    strstr(reason.text, word) == NULL)
		fail_msg("%zd: \"%s\"", result, reason.text);
}

static void need_root(void)
{
	if (geteuid() == 0)
		return;
	print_message("skipped: takes root\n");
	skip();
}

static void none_is_no_error(void **state)
{
	struct berth_reason reason;

	(void)state;
	assert_int_equal(unlink(file), 0);
	assert_int_equal(look(&reason), -ENOENT);
	assert_string_equal(reason.text, "");
}

static int no_descriptors(void *arg)
{
	struct rlimit limit = { 0, 0 };
	struct berth_reason reason;

	(void)arg;
	CHILD_CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	CHILD_CHECK(look(&reason) == -EMFILE && strstr(reason.text, file));
	CHILD_CHECK(!unlink(file));
	CHILD_CHECK(look(&reason) == -ENOENT);
	return 0;
}

/* None to be had: nothing is asked of a program where there is no file, and believed where there is one. */
static void without_descriptors_only_its_absence_is_seen(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(no_descriptors, NULL, &result);
}

static void roots_file_is_read(void **state)
{
	struct berth_reason reason;

	(void)state;
	need_root();
	assert_int_equal(look(&reason), 4);
	assert_string_equal(text, "A=b\n");
	assert_int_equal(chmod(file, 0400), 0);
	assert_int_equal(look(&reason), 4);
	assert_int_equal(truncate(file, 0), 0);
	assert_int_equal(look(&reason), 0);
}

static void others_files_are_not(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(chown(file, 1000, 0), 0);
	refused(-EPERM, "belongs to user 1000");
	assert_int_equal(chown(file, 0, 0), 0);
	assert_int_equal(chmod(file, 0664), 0);
	refused(-EPERM, "by others than root");
	assert_int_equal(chmod(file, 0646), 0);
	refused(-EPERM, "by others than root");
}

static void other_things_are_not(void **state)
{
	char target[80];

	(void)state;
	need_root();
	(void)snprintf(target, sizeof(target), "%s.target", file);
	assert_int_equal(rename(file, target), 0);
	assert_int_equal(symlink(target, file), 0);
	refused(-ELOOP, "symbolic link");
	assert_int_equal(unlink(target), 0);
	refused(-ELOOP, "symbolic link"); /* one that leads nowhere, too */
	assert_int_equal(unlink(file), 0);
	assert_int_equal(mkdir(file, 0755), 0);
	refused(-EPERM, "not a regular file");
	assert_int_equal(rmdir(file), 0);
	assert_int_equal(mkfifo(file, 0644), 0);
	refused(-EPERM, "not a regular file");
}

static int unreadable(void *arg)
{
	struct berth_reason reason;

	(void)arg;
	CHILD_CHECK(!setgid(65534) && !setuid(65534));
	CHILD_CHECK(look(&reason) == -EACCES && strstr(reason.text, file));
	return 0;
}

static void an_unreadable_one_is_refused(void **state)
{
	struct child_result result;

	(void)state;
	need_root();
	assert_int_equal(chmod(file, 0600), 0);
	child_run_ok(unreadable, NULL, &result);
}

static void a_huge_one_is_refused(void **state)
{
	struct berth_reason reason;

	(void)state;
	need_root();
	assert_int_equal(truncate(file, BERTH_OVERRIDE_TEXT_MAX), 0);
	assert_int_equal(look(&reason), BERTH_OVERRIDE_TEXT_MAX);
	assert_int_equal(truncate(file, BERTH_OVERRIDE_TEXT_MAX + 1), 0);
	refused(-EFBIG, "too large");
	assert_int_equal(truncate(file, 1 << 30), 0);
	refused(-EFBIG, "too large");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(none_is_no_error),      CASE(without_descriptors_only_its_absence_is_seen),
		CASE(roots_file_is_read),    CASE(others_files_are_not),
		CASE(other_things_are_not),  CASE(an_unreadable_one_is_refused),
		CASE(a_huge_one_is_refused),
	};

	return cmocka_run_group_tests_name("account: settings", tests, NULL, NULL);
}
