/* SPDX-License-Identifier: Apache-2.0
 *
 * File-system classes: the table, then every mount of this machine (the kernel's name for its type is
 * the judge), then tmpfs and overlay mounted for the test.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/filesystem.h"
#include "child.h"

static void test_types(void **state)
{
	static const struct {
		unsigned long f_type;
		enum berth_fs_class fs_class;
	} rows[] = {
		{ 0xef53, BERTH_FS_LOCAL },
		{ 0x58465342, BERTH_FS_LOCAL },
		{ 0x9123683e, BERTH_FS_LOCAL },
		/* The same number, sign-extended by the kernel. */
		{ 0xffffffff9123683e, BERTH_FS_LOCAL },
		{ 0x01021994, BERTH_FS_LOCAL },
		{ 0x794c7630, BERTH_FS_OVERLAY },
		{ 0x6969, BERTH_FS_NFS },
		{ 0x65735546, BERTH_FS_FUSE },
		{ 0x01021997, BERTH_FS_REMOTE },
		{ 0xff534d42, BERTH_FS_REMOTE },
		{ 0xffffffffff534d42, BERTH_FS_REMOTE },
		{ 0xfe534d42, BERTH_FS_REMOTE },
		{ 0x00c36400, BERTH_FS_REMOTE },
		{ 0, BERTH_FS_UNKNOWN },
		{ 0x9fa0, BERTH_FS_UNKNOWN }, /* proc */
		{ 0x12345678, BERTH_FS_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(rows); i++)
		assert_int_equal(berth_fs_class_of_type(rows[i].f_type), rows[i].fs_class);
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(berth_fs_class_name(BERTH_FS_LOCAL), "local");
	assert_string_equal(berth_fs_class_name(BERTH_FS_OVERLAY), "overlay");
	assert_string_equal(berth_fs_class_name(BERTH_FS_NFS), "nfs");
	assert_string_equal(berth_fs_class_name(BERTH_FS_FUSE), "fuse");
	assert_string_equal(berth_fs_class_name(BERTH_FS_REMOTE), "remote");
	assert_string_equal(berth_fs_class_name(BERTH_FS_UNKNOWN), "unknown");
	assert_string_equal(berth_fs_class_name((enum berth_fs_class)99), "unknown");
}

static int expected_class(const char *type)
{
	static const struct {
		const char *type;
		enum berth_fs_class fs_class;
	} rows[] = {
		{ "ext4", BERTH_FS_LOCAL },       { "ext3", BERTH_FS_LOCAL },
		{ "ext2", BERTH_FS_LOCAL },       { "xfs", BERTH_FS_LOCAL },
		{ "btrfs", BERTH_FS_LOCAL },      { "f2fs", BERTH_FS_LOCAL },
		{ "zfs", BERTH_FS_LOCAL },        { "tmpfs", BERTH_FS_LOCAL },
		{ "ramfs", BERTH_FS_LOCAL },      { "overlay", BERTH_FS_OVERLAY },
		{ "nfs", BERTH_FS_NFS },          { "nfs4", BERTH_FS_NFS },
		{ "9p", BERTH_FS_REMOTE },        { "cifs", BERTH_FS_REMOTE },
		{ "ceph", BERTH_FS_REMOTE },      { "proc", BERTH_FS_UNKNOWN },
		{ "sysfs", BERTH_FS_UNKNOWN },    { "cgroup2", BERTH_FS_UNKNOWN },
		{ "squashfs", BERTH_FS_UNKNOWN },
	};

	for (size_t i = 0; i < BERTH_ARRAY_LEN(rows); i++) {
		if (strcmp(rows[i].type, type) == 0)
			return (int)rows[i].fs_class;
	}
	return -1;
}

/* ext4 in particular is not made for the test: it is there on most machines. */
static void test_mounts_of_this_machine(void **state)
{
	FILE *mounts = fopen("/proc/self/mounts", "re");
	char line[4096];
	unsigned judged = 0;

	(void)state;
	assert_non_null(mounts);
	while (fgets(line, sizeof(line), mounts) != NULL) {
		char path[2048];
		char type[64];
		enum berth_fs_class fs_class;
		struct stat st;
		int expected;
		int fd;

		if (sscanf(line, "%*s %2047s %63s", path, type) != 2)
			continue;
		expected = expected_class(type);
		/* Directories only; one under a later mount shows that one's type. */
		if (expected < 0 || lstat(path, &st) != 0 || !S_ISDIR(st.st_mode))
			continue;
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		assert_int_equal(berth_fs_class_of_fd(fd, &fs_class), 0);
		close(fd);
		if ((int)fs_class != expected)
			fail_msg("%s (%s): %s", path, type, berth_fs_class_name(fs_class));
		judged++;
	}
	fclose(mounts);
	print_message("%u mounts judged\n", judged);
	assert_true(judged > 0);
}

static int class_of(const char *path)
{
	enum berth_fs_class fs_class = BERTH_FS_UNKNOWN;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int err = berth_fs_class_of_fd(fd, &fs_class);

	close(fd);
	return err < 0 ? err : (int)fs_class;
}

static int on_own_mounts(void *arg)
{
	const char *scratch = arg;

	if (unshare(CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", scratch, "tmpfs", 0, NULL) != 0)
		CHILD_SKIP("mounting a tmpfs is not allowed here");
	CHILD_CHECK(class_of(scratch) == BERTH_FS_LOCAL);
	CHILD_CHECK(chdir(scratch) == 0);
	CHILD_CHECK(mkdir("low", 0700) == 0 && mkdir("up", 0700) == 0);
	CHILD_CHECK(mkdir("work", 0700) == 0 && mkdir("all", 0700) == 0);
	if (mount("none", "all", "overlay", 0, "lowerdir=low,upperdir=up,workdir=work") != 0)
		CHILD_SKIP("tmpfs is local; mounting an overlay is not allowed here");
	CHILD_CHECK(class_of("all") == BERTH_FS_OVERLAY);
	CHILD_CHECK(close(creat("all/file", 0600)) == 0);
	CHILD_CHECK(class_of("all/file") == BERTH_FS_OVERLAY);
	CHILD_CHECK(class_of("up/file") == BERTH_FS_LOCAL);
	return 0;
}

static void test_own_mounts(void **state)
{
	char scratch[] = "/tmp/berth-test-fs-XXXXXX";
	struct child_result result;

	(void)state;
	assert_non_null(mkdtemp(scratch));
	child_run(on_own_mounts, scratch, &result);
	rmdir(scratch);
	if (result.status == 77 << 8) {
		print_message("skipped: %s", result.error);
		skip();
	}
	assert_string_equal(result.error, "");
	assert_int_equal(result.status, 0);
}

static void test_bad_descriptor(void **state)
{
	enum berth_fs_class fs_class = BERTH_FS_FUSE;

	(void)state;
	assert_int_equal(berth_fs_class_of_fd(-1, &fs_class), -EBADF);
	assert_int_equal(fs_class, BERTH_FS_FUSE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_mounts_of_this_machine),
		cmocka_unit_test(test_own_mounts),
		cmocka_unit_test(test_bad_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
