/* SPDX-License-Identifier: Apache-2.0
 *
 * The state directory: where it is, how it is made, and whose it may not be.
 */
#include "base/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "child.h"

static char scratch[] = "/tmp/berth-test-state-XXXXXX";
static const char *helper; /* the program to run set-user-ID */

static int group_setup(void **state)
{
	(void)state;
	return mkdtemp(scratch) != NULL && chmod(scratch, 0755) == 0 && chdir(scratch) == 0 ? 0
											    : -1;
}

static int group_teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", scratch);
	return system(command);
}

static int place_child(void *arg)
{
	struct berth_reason reason = { "" };
	char path[BERTH_STATE_DIR_MAX];
	char expected[64];
	char small[8] = "before";

	(void)arg;
	unsetenv("BERTH_STATE_DIR");
	unsetenv("XDG_RUNTIME_DIR");
	if (geteuid() == 0) {
		CHILD_CHECK(berth_state_dir(path, sizeof(path), &reason) == 0);
		CHILD_CHECK(strcmp(path, "/run/berth") == 0);
		setenv("XDG_RUNTIME_DIR", "/run/user/0", 1);
		CHILD_CHECK(berth_state_dir(path, sizeof(path), &reason) == 0);
		CHILD_CHECK(strcmp(path, "/run/berth") == 0);
		unsetenv("XDG_RUNTIME_DIR");
		CHILD_CHECK(seteuid(65534) == 0);
	}
	snprintf(expected, sizeof(expected), "/tmp/berth-%u", (unsigned)geteuid());
	CHILD_CHECK(berth_state_dir(path, sizeof(path), &reason) == 0);
	CHILD_CHECK(strcmp(path, expected) == 0);
	setenv("XDG_RUNTIME_DIR", "", 1);
	CHILD_CHECK(berth_state_dir(path, sizeof(path), &reason) == 0);
	CHILD_CHECK(strcmp(path, expected) == 0);
	setenv("XDG_RUNTIME_DIR", "not/absolute", 1);
	CHILD_CHECK(berth_state_dir(path, sizeof(path), &reason) == 0);
	CHILD_CHECK(strcmp(path, expected) == 0);
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	CHILD_CHECK(berth_state_dir(path, sizeof(path), &reason) == 0);
	CHILD_CHECK(strcmp(path, "/run/user/7/berth") == 0);
	setenv("BERTH_STATE_DIR", "/else/where", 1);
	CHILD_CHECK(berth_state_dir(path, sizeof(path), &reason) == 0);
	CHILD_CHECK(strcmp(path, "/else/where") == 0);

	CHILD_CHECK(berth_state_dir(small, sizeof(small), &reason) == -ENAMETOOLONG);
	CHILD_CHECK(strcmp(small, "before") == 0);
	reason.text[0] = '\0';
	setenv("BERTH_STATE_DIR", "relative", 1);
	CHILD_CHECK(berth_state_dir(path, sizeof(path), &reason) == -EINVAL);
	CHILD_CHECK(strstr(reason.text, "BERTH_STATE_DIR") != NULL);
	return 0;
}

static void test_place(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(place_child, NULL, &result);
}

static void too_long_check(const char *name)
{
	struct berth_reason reason = { "" };
	char path[BERTH_STATE_DIR_MAX];
	char value[2 * BERTH_STATE_DIR_MAX];

	memset(value, 'x', sizeof(value));
	value[0] = '/';
	value[sizeof(value) - 1] = '\0';
	setenv(name, value, 1);
	assert_int_equal(berth_state_dir(path, sizeof(path), &reason), -ENAMETOOLONG);
	assert_non_null(strstr(reason.text, name));
	unsetenv(name);
}

static void test_too_long(void **state)
{
	(void)state;
	too_long_check("BERTH_STATE_DIR");
}

static void use_dir(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	setenv("BERTH_STATE_DIR", path, 1);
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode;
}

static void test_made(void **state)
{
	char path[BERTH_STATE_DIR_MAX];
	char expected[128];
	mode_t before = umask(0);

	(void)state;
	use_dir("new/state");
	assert_int_equal(berth_state_dir_make(NULL, path, sizeof(path), NULL), 0);
	assert_string_equal(path, getenv("BERTH_STATE_DIR"));
	assert_int_equal(berth_state_dir_make("shares/a", path, sizeof(path), NULL), 0);
	snprintf(expected, sizeof(expected), "%s/new/state/shares/a", scratch);
	assert_string_equal(path, expected);
	assert_int_equal(berth_state_dir_make("shares/a", path, sizeof(path), NULL), 0);
	assert_int_equal(mode_of("new/state"), S_IFDIR | 0700);
	assert_int_equal(mode_of("new/state/shares"), S_IFDIR | 0700);
	assert_int_equal(mode_of("new/state/shares/a"), S_IFDIR | 0700);
	umask(before);
}

/* One that an administrator opened for reading stays as it is. */
static void test_kept(void **state)
{
	char path[BERTH_STATE_DIR_MAX];

	(void)state;
	use_dir("readable");
	assert_int_equal(mkdir("readable", 0755), 0);
	assert_int_equal(berth_state_dir_make("", path, sizeof(path), NULL), 0);
	assert_int_equal(mode_of("readable"), S_IFDIR | 0755);
}

static void refused(const char *subdir, int err, const char *word)
{
	struct berth_reason reason = { "" };
	char path[BERTH_STATE_DIR_MAX] = "before";

	assert_int_equal(berth_state_dir_make(subdir, path, sizeof(path), &reason), err);
	assert_string_equal(path, "before");
	assert_non_null(strstr(reason.text, word));
}

static void test_refused(void **state)
{
	(void)state;
	assert_int_equal(mkdir("open", 0700), 0);
	assert_int_equal(chmod("open", 0777), 0);
	use_dir("open");
	refused(NULL, -EPERM, "chmod go-w");

	assert_int_equal(mkdir("group", 0700), 0);
	assert_int_equal(chmod("group", 0770), 0);
	use_dir("group");
	refused(NULL, -EPERM, "chmod go-w");

	assert_int_equal(mkdir("real", 0700), 0);
	assert_int_equal(symlink("real", "link"), 0);
	use_dir("link");
	refused(NULL, -ENOTDIR, "link");

	assert_int_equal(close(creat("file", 0600)), 0);
	use_dir("file");
	refused(NULL, -ENOTDIR, "not a directory");
	use_dir("file/under");
	refused(NULL, -ENOTDIR, "file/under");

	/* A trap below it. */
	use_dir("real");
	assert_int_equal(symlink("/tmp", "real/shares"), 0);
	refused("shares", -ENOTDIR, "shares");

	setenv("BERTH_STATE_DIR", "/proc/berth", 1);
	refused(NULL, -ENOENT, "/proc/berth");
}

static void test_foreign(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: giving a directory away takes root\n");
		skip();
	}
	assert_int_equal(mkdir("foreign", 0700), 0);
	assert_int_equal(chown("foreign", 65534, 65534), 0);
	use_dir("foreign");
	refused(NULL, -EPERM, "belongs to user 65534");
}

static int unwritable_child(void *arg)
{
	struct berth_reason reason = { "" };
	char path[BERTH_STATE_DIR_MAX];

	(void)arg;
	if (geteuid() != 0)
		CHILD_SKIP("becoming another user takes root");
	CHILD_CHECK(setgid(65534) == 0 && setuid(65534) == 0);
	use_dir("not-mine");
	CHILD_CHECK(berth_state_dir_make(NULL, path, sizeof(path), &reason) == -EACCES);
	CHILD_CHECK(strstr(reason.text, "not-mine") != NULL);
	CHILD_CHECK(strstr(reason.text, "Permission denied") != NULL);
	return 0;
}

static void test_unwritable(void **state)
{
	struct child_result result;

	(void)state;
	child_run_ok(unwritable_child, NULL, &result);
}

/* A program that runs with another user's rights believes nothing of its caller's environment. */
static void test_set_user_id(void **state)
{
	char command[1024];
	char line[256] = "";
	struct statvfs fs;
	FILE *output;

	(void)state;
	if (geteuid() != 0 || statvfs(scratch, &fs) != 0 || (fs.f_flag & ST_NOSUID) != 0) {
		print_message("skipped: set-user-ID takes root and a file system that allows it\n");
		skip();
	}
	snprintf(command, sizeof(command),
		 "cp %s suid && chown 65534 suid && chmod 4755 suid && "
		 "BERTH_STATE_DIR=%s/evil XDG_RUNTIME_DIR=%s/evil BERTH_LOG_FILE=%s/evil-log "
		 "./suid 2>/dev/null",
		 helper, scratch, scratch, scratch);
	output = popen(command, "re");
	assert_non_null(output);
	assert_non_null(fgets(line, sizeof(line), output));
	assert_int_equal(pclose(output), 0);
	assert_string_equal(line, "secure=1 dir=/tmp/berth-65534\n");
	assert_int_equal(access("evil-log", F_OK), -1);

	/* The same program without the bit: it does. */
	snprintf(command, sizeof(command), "BERTH_STATE_DIR=%s/mine BERTH_LOG_FILE=%s/log %s",
		 scratch, scratch, helper);
	output = popen(command, "re");
	assert_non_null(output);
	assert_non_null(fgets(line, sizeof(line), output));
	assert_int_equal(pclose(output), 0);
	snprintf(command, sizeof(command), "secure=0 dir=%s/mine\n", scratch);
	assert_string_equal(line, command);
	assert_int_equal(access("log", F_OK), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_place),      cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_made),       cmocka_unit_test(test_kept),
		cmocka_unit_test(test_refused),    cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_unwritable), cmocka_unit_test(test_set_user_id),
	};

	if (argc != 2)
		return 2;
	helper = argv[1];
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
