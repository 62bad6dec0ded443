/* SPDX-License-Identifier: Apache-2.0
 *
 * Birth and the refusals: whatever lies at the path, joining ends at once, says why, names the
 * path, and leaves what it refused as it was.
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region/birth.h"
#include "region/layout.h"
#include "scratch.h"

enum { NOBODY = 65534, STRANGER = 12345, SKIPPED = 77 };

static int try_join(const char *path, const struct berth_region_spec *spec,
		    struct berth_reason *reason)
{
	struct berth_region *region = NULL;

	reason->text[0] = '\0';
	int r = berth_region_join(path, spec, 0, &region, NULL, reason);
	if (r == 0)
		berth_region_close(region);
	return r;
}

/* How many GPUs it has, or -errno; the look must say nothing where it fails. */
static int peek_count(const char *path, struct berth_reason *reason)
{
	char uuids[BERTH_GPU_MAX][BERTH_UUID_SIZE];
	uint32_t count = UINT32_MAX;

	memset(uuids, 'x', sizeof uuids);
	int r = berth_region_peek(path, &count, uuids, reason);
	if (r < 0) {
		assert_int_equal(count, UINT32_MAX);
		assert_int_equal(uuids[0][0], 'x');
		return r;
	}
	return (int)count;
}

/* Refused with this error, by a reason that names the path and a remedy; with and without a
 * spec. */
static void assert_refused(const char *path, int err)
{
	struct berth_region_spec spec = spec_of(MIB);
	struct berth_region *region = NULL;
	struct berth_reason reason = { "" };

	assert_int_equal(try_join(path, &spec, &reason), err);
	assert_non_null(strstr(reason.text, path));
	assert_int_equal(try_join(path, NULL, &reason), err);
	assert_non_null(strstr(reason.text, path));
	reason.text[0] = '\0';
	assert_int_equal(berth_region_view(path, &region, &reason), err);
	assert_non_null(strstr(reason.text, path));
	assert_null(region);
	reason.text[0] = '\0';
	assert_int_equal(peek_count(path, &reason), err);
	assert_non_null(strstr(reason.text, path));
}

static void file_write(const char *path, const void *bytes, size_t size, off_t total)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), (ssize_t)size);
	assert_int_equal(ftruncate(fd, total), 0);
	assert_int_equal(close(fd), 0);
}

static int dir_entry_count(const char *dir)
{
	DIR *stream = opendir(dir);
	int count = 0;

	assert_non_null(stream);
	while (readdir(stream))
		count++;
	assert_int_equal(closedir(stream), 0);
	return count - 2;
}

static void test_foreign_file(void **state)
{
	struct scratch *scratch = *state;
	char back[32] = "";

	file_write(scratch->path, "my diploma thesis", 17, 17);
	assert_refused(scratch->path, -EBADMSG);
	int fd = open(scratch->path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, back, sizeof back), 17);
	assert_string_equal(back, "my diploma thesis");
	assert_int_equal(close(fd), 0);
}

/* The GPUs are told before anybody joins, as they are told afterwards. */
static void test_peek(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(MIB);
	char uuids[BERTH_GPU_MAX][BERTH_UUID_SIZE];
	struct berth_reason reason = { "" };
	uint64_t damage = BERTH_GPU_MAX + 1;
	uint32_t count = 0;

	assert_int_equal(peek_count(scratch->path, &reason), -ENOENT);
	spec.gpu_count = BERTH_GPU_MAX;
	for (uint32_t i = 0; i < BERTH_GPU_MAX; i++) {
		memset(spec.gpus[i].uuid, 'a' + (int)i, BERTH_UUID_SIZE); /* cut to size */
		spec.gpus[i].memory_limit_bytes = MIB;
	}
	assert_int_equal(berth_birth_make(scratch->path, &spec, false, NULL), 0);
	assert_int_equal(berth_region_peek(scratch->path, &count, uuids, NULL), 0);
	assert_int_equal(count, BERTH_GPU_MAX);
	for (uint32_t i = 0; i < BERTH_GPU_MAX; i++) {
		assert_int_equal(strlen(uuids[i]), BERTH_UUID_SIZE - 1);
		assert_memory_equal(uuids[i], spec.gpus[i].uuid, BERTH_UUID_SIZE - 1);
	}
	int fd = open(scratch->path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(
		pwrite(fd, &damage, sizeof damage, offsetof(struct berth_layout_head, gpu_count)),
		(ssize_t)sizeof damage);
	assert_int_equal(close(fd), 0);
	reason.text[0] = '\0';
	assert_int_equal(peek_count(scratch->path, &reason), -EBADMSG);
	assert_non_null(strstr(reason.text, "is damaged: it claims 17 GPUs"));
}

static void test_empty_file(void **state)
{
	struct scratch *scratch = *state;

	file_write(scratch->path, "", 0, 0);
	assert_refused(scratch->path, -EBADMSG);
}

/* The right size, but the mark of completion is missing. */
static void test_half_written(void **state)
{
	struct scratch *scratch = *state;

	file_write(scratch->path, "", 0, (off_t)BERTH_LAYOUT_SIZE);
	assert_refused(scratch->path, -EBADMSG);
}

static void test_large_foreign_file(void **state)
{
	struct scratch *scratch = *state;

	file_write(scratch->path, "GIF89a", 6, 64 << 20);
	assert_refused(scratch->path, -EBADMSG);
}

/* A whole region cut short must never be mapped. */
static void test_cut_short(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(MIB);

	berth_region_close(join_or_fail(scratch->path, &spec));
	assert_int_equal(truncate(scratch->path, (off_t)BERTH_LAYOUT_SIZE - 65536), 0);
	assert_refused(scratch->path, -EPROTONOSUPPORT);
	assert_int_equal(truncate(scratch->path, 4096), 0);
	assert_refused(scratch->path, -EBADMSG);
}

/* HAMi's own region: its mark and size, no tail of ours. */
static void test_other_implementation(void **state)
{
	struct scratch *scratch = *state;
	static const int32_t head[3] = { 19920718, 1, 2 };

	file_write(scratch->path, head, sizeof head, 2008952);
	assert_refused(scratch->path, -EPROTONOSUPPORT);
	assert_int_equal(truncate(scratch->path, 8 << 20), 0);
	assert_refused(scratch->path, -EPROTONOSUPPORT);
}

static void patch(const char *path, off_t offset, uint32_t value)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	assert_int_equal(pwrite(fd, &value, sizeof value, offset), sizeof value);
	assert_int_equal(close(fd), 0);
}

static void test_other_version(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(MIB);

	berth_region_close(join_or_fail(scratch->path, &spec));
	patch(scratch->path, 2031616 + 8, 0xdeadbeef); /* the signature */
	assert_refused(scratch->path, -EPROTONOSUPPORT);
}

static void test_other_major(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(MIB);

	berth_region_close(join_or_fail(scratch->path, &spec));
	patch(scratch->path, 4, 2);
	assert_refused(scratch->path, -EPROTONOSUPPORT);
}

static void test_impossible_gpu_count(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(MIB);

	berth_region_close(join_or_fail(scratch->path, &spec));
	patch(scratch->path, 56, 17);
	assert_refused(scratch->path, -EBADMSG);
}

static void test_not_a_file(void **state)
{
	struct scratch *scratch = *state;
	struct berth_reason reason;
	char link[PATH_MAX + 8];
	struct berth_region_spec spec = spec_of(MIB);

	assert_int_equal(mkdir(scratch->path, 0700), 0);
	assert_refused(scratch->path, -EISDIR);
	assert_int_equal(rmdir(scratch->path), 0);

	assert_int_equal(mkfifo(scratch->path, 0600), 0);
	assert_int_equal(try_join(scratch->path, &spec, &reason), -EINVAL);
	assert_non_null(strstr(reason.text, "regular"));
	assert_int_equal(unlink(scratch->path), 0);

	(void)snprintf(link, sizeof link, "%s.link", scratch->path);
	berth_region_close(join_or_fail(scratch->path, &spec));
	assert_int_equal(symlink(scratch->path, link), 0);
	assert_refused(link, -ELOOP);
	assert_int_equal(unlink(scratch->path), 0); /* now it dangles */
	assert_refused(link, -ELOOP);
	assert_int_equal(access(scratch->path, F_OK), -1);
}

static void test_absent(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(MIB);
	struct berth_reason reason;
	char path[PATH_MAX + 16];

	assert_int_equal(try_join(scratch->path, NULL, &reason), -ENOENT);
	assert_non_null(strstr(reason.text, scratch->path));
	assert_int_equal(access(scratch->path, F_OK), -1); /* never made on the way */
	(void)snprintf(path, sizeof path, "%s/missing/r.cache", scratch->dir);
	assert_int_equal(try_join(path, &spec, &reason), -ENOENT);
	assert_non_null(strstr(reason.text, path));
	assert_non_null(strstr(reason.text, "directory"));
}

static int as_user(uid_t uid)
{
	return setgid(uid) < 0 || setuid(uid) < 0 ? -1 : 0;
}

static int join_as_nobody(void *arg)
{
	struct scratch *scratch = arg;
	struct berth_region_spec spec = spec_of(MIB);
	struct berth_reason reason;

	if (as_user(NOBODY) < 0)
		return SKIPPED;
	int r = try_join(scratch->path, &spec, &reason);
	return strstr(reason.text, scratch->path) ? -r : 200;
}

static void skip_unless_root(void)
{
	if (geteuid() != 0) {
		print_message("needs root: skipped\n");
		skip();
	}
}

static void test_unwritable_directory(void **state)
{
	skip_unless_root();
	assert_int_equal(chmod(((struct scratch *)*state)->dir, 0755), 0);
	assert_int_equal(child_end(child_start(join_as_nobody, *state)), EACCES);
}

static void test_file_of_another_user(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(MIB);

	skip_unless_root();
	berth_region_close(join_or_fail(scratch->path, &spec));
	assert_int_equal(chmod(scratch->dir, 0755), 0);
	assert_int_equal(child_end(child_start(join_as_nobody, scratch)), EACCES);
}

/* A stranger's region in a directory like /tmp is not believed, not even by root and not even if
 * its rights would let us. */
static void test_stranger_in_sticky_directory(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(MIB);
	char link_path[PATH_MAX], path[2 * PATH_MAX];

	skip_unless_root();
	berth_region_close(join_or_fail(scratch->path, &spec));
	assert_int_equal(chmod(scratch->path, 0666), 0);
	assert_int_equal(chown(scratch->path, STRANGER, STRANGER), 0);
	berth_region_close(join_or_fail(scratch->path, &spec)); /* not sticky: the owner's matter */
	assert_int_equal(chmod(scratch->dir, 01777), 0);
	assert_refused(scratch->path, -EPERM);
	assert_int_equal(child_end(child_start(join_as_nobody, scratch)), EPERM);
	/* Nor by another name of the directory, as /var/lock is one of /run/lock. */
	(void)snprintf(link_path, sizeof(link_path), "%s/again", scratch->dir);
	(void)snprintf(path, sizeof(path), "%s/%s", link_path, strrchr(scratch->path, '/') + 1);
	assert_int_equal(symlink(scratch->dir, link_path), 0);
	assert_refused(path, -EPERM);
	assert_int_equal(chown(scratch->dir, STRANGER, STRANGER), 0);
	berth_region_close(join_or_fail(scratch->path, &spec)); /* the directory's owner */
}

static int private_tmpfs(const char *dir, unsigned long flags, const char *options)
{
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", dir, "tmpfs", flags, options) < 0)
		return -1;
	return 0;
}

static int join_on_full_tmpfs(void *arg)
{
	struct scratch *scratch = arg;
	struct berth_region_spec spec = spec_of(MIB);
	struct berth_reason reason;

	if (private_tmpfs(scratch->dir, 0, "size=1m") < 0)
		return SKIPPED;
	for (int named = 0; named < 2; named++) {
		reason.text[0] = '\0';
		if (berth_birth_make(scratch->path, &spec, named, &reason) != -ENOSPC)
			return 1;
		if (!strstr(reason.text, scratch->path) || !strstr(reason.text, "space"))
			return 2;
		if (dir_entry_count(scratch->dir) != 0)
			return 3;
	}
	return try_join(scratch->path, &spec, &reason) == -ENOSPC ? 0 : 4;
}

static void skip_or_equal(int status, int expected)
{
	if (status == SKIPPED) {
		print_message("can't mount here: skipped\n");
		skip();
	}
	assert_int_equal(status, expected);
}

static void test_full_file_system(void **state)
{
	skip_or_equal(child_end(child_start(join_on_full_tmpfs, *state)), 0);
}

static int join_on_readonly(void *arg)
{
	struct scratch *scratch = arg;
	struct berth_region_spec spec = spec_of(MIB);
	struct berth_reason reason;

	if (private_tmpfs(scratch->dir, MS_RDONLY, NULL) < 0)
		return SKIPPED;
	int r = try_join(scratch->path, &spec, &reason);
	return strstr(reason.text, scratch->path) ? -r : 200;
}

static void test_readonly_file_system(void **state)
{
	skip_or_equal(child_end(child_start(join_on_readonly, *state)), EROFS);
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static void test_mode(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(MIB);
	mode_t before = umask(0777);

	berth_region_close(join_or_fail(scratch->path, &spec));
	assert_int_equal(mode_of(scratch->path), 0600);
	assert_int_equal(unlink(scratch->path), 0);
	spec.mode = 0664;
	berth_region_close(join_or_fail(scratch->path, &spec));
	assert_int_equal(mode_of(scratch->path), 0664);
	assert_int_equal(umask(before), 0777); /* and it is as we set it */
}

static void test_too_many_gpus(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(MIB);
	struct berth_reason reason;

	spec.gpu_count = BERTH_GPU_MAX + 1;
	assert_int_equal(try_join(scratch->path, &spec, &reason), -EINVAL);
	assert_int_equal(access(scratch->path, F_OK), -1);
}

static void test_relative_path(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(MIB);
	int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(chdir(scratch->dir), 0);
	struct berth_region *region = join_or_fail("region.cache", &spec);
	assert_int_equal(fchdir(here), 0);
	assert_int_equal(close(here), 0);
	assert_string_equal(berth_region_path(region), scratch->path);
	struct berth_seat *seat = claim_or_fail(region); /* finds the file again */
	assert_int_equal(berth_seat_alive(region, berth_seat_index(seat)), 1);
	berth_seat_leave(seat);
	berth_region_close(region);
}

struct rush {
	const char *path;
	bool named;
};

/* 1 = made it, 0 = another did. */
static int rush_make(void *arg)
{
	struct rush *rush = arg;
	struct berth_region_spec spec = spec_of(MIB);
	struct berth_region_joined joined = { 0 };
	struct berth_region *region = NULL;

	if (rush->named) {
		int r = berth_birth_make(rush->path, &spec, true, NULL);
		return r == 0 ? 1 : r == -EEXIST ? 0 : 100;
	}
	if (berth_region_join(rush->path, &spec, 0, &region, &joined, NULL) < 0)
		return 100;
	return joined.created;
}

static void rush_run(struct scratch *scratch, bool named)
{
	struct rush rush = { scratch->path, named };
	pid_t pids[16];
	int created = 0;

	for (int i = 0; i < 16; i++)
		pids[i] = child_start(rush_make, &rush);
	for (int i = 0; i < 16; i++)
		created += child_end(pids[i]);
	assert_int_equal(created, 1);
	assert_int_equal(dir_entry_count(scratch->dir), 1);
	struct berth_region *region = join_or_fail(scratch->path, NULL);
	check_or_fail(region);
	berth_region_close(region);
}

static void test_sixteen_at_once(void **state)
{
	rush_run(*state, false);
}

static void test_sixteen_at_once_named(void **state)
{
	rush_run(*state, true);
}

/* What a dead creator left is removed; a living one's file and similar names are not. */
static void test_orphans(void **state)
{
	struct scratch *scratch = *state;
	struct berth_region_spec spec = spec_of(MIB);
	char orphan[PATH_MAX + 64];
	char living[PATH_MAX + 64];
	char other[PATH_MAX + 64];

	(void)snprintf(orphan, sizeof orphan, "%s/.region.cache.1-1.birth", scratch->dir);
	(void)snprintf(living, sizeof living, "%s/.region.cache.2-2.birth", scratch->dir);
	(void)snprintf(other, sizeof other, "%s/.other.cache.1-1.birth", scratch->dir);
	file_write(orphan, "", 0, 0);
	file_write(living, "", 0, 0);
	file_write(other, "", 0, 0);
	int fd = open(living, O_RDWR | O_CLOEXEC);
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = BERTH_LOCK_CREATION, .l_len = 1
	};
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	assert_int_equal(berth_birth_make(scratch->path, &spec, true, NULL), 0);
	assert_int_equal(access(orphan, F_OK), -1);
	assert_int_equal(access(living, F_OK), 0);
	assert_int_equal(access(other, F_OK), 0);
	assert_int_equal(close(fd), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_foreign_file),
		TEST(test_peek),
		TEST(test_empty_file),
		TEST(test_half_written),
		TEST(test_large_foreign_file),
		TEST(test_cut_short),
		TEST(test_other_implementation),
		TEST(test_other_version),
		TEST(test_other_major),
		TEST(test_impossible_gpu_count),
		TEST(test_not_a_file),
		TEST(test_absent),
		TEST(test_unwritable_directory),
		TEST(test_file_of_another_user),
		TEST(test_stranger_in_sticky_directory),
		TEST(test_full_file_system),
		TEST(test_readonly_file_system),
		TEST(test_mode),
		TEST(test_too_many_gpus),
		TEST(test_relative_path),
		TEST(test_sixteen_at_once),
		TEST(test_sixteen_at_once_named),
		TEST(test_orphans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
