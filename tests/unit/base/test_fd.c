/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors, small files, directories made whatever the umask.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "child.h"

static char scratch[] = "/tmp/berth-test-fd-XXXXXX";

static int group_setup(void **state)
{
	(void)state;
	return mkdtemp(scratch) != NULL && chdir(scratch) == 0 ? 0 : -1;
}

static int group_teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "chmod -R u+rwX %s; rm -rf %s", scratch, scratch);
	return system(command);
}

static void file_make(const char *path, const char *content)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	fputs(content, file);
	assert_int_equal(fclose(file), 0);
}

static void test_close(void **state)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int number = fd;

	(void)state;
	errno = ENOTTY;
	berth_fd_close(&fd);
	assert_int_equal(fd, -1);
	assert_int_equal(fcntl(number, F_GETFD), -1);
	errno = ENOTTY;
	berth_fd_close(&fd);
	assert_int_equal(errno, ENOTTY);
	/* A bad one changes errno inside, not outside. */
	fd = 1 << 20;
	berth_fd_close(&fd);
	assert_int_equal(errno, ENOTTY);
	assert_int_equal(fd, -1);
}

static int cleaned_up(int *ret_inner)
{
	BERTH_FD int kept = open("/dev/null", O_RDONLY | O_CLOEXEC);
	BERTH_FD int dropped = open("/dev/null", O_RDONLY | O_CLOEXEC);

	*ret_inner = dropped;
	return BERTH_TAKE_FD(kept);
}

static void test_cleanup_and_take(void **state)
{
	int inner = -1;
	int outer = cleaned_up(&inner);

	(void)state;
	assert_true(fcntl(outer, F_GETFD) >= 0);
	assert_int_equal(fcntl(inner, F_GETFD), -1);
	close(outer);
}

static void stats_equal(const struct stat *a, const struct stat *b)
{
	assert_true(a->st_dev == b->st_dev && a->st_ino == b->st_ino);
	assert_int_equal(a->st_mode, b->st_mode);
	assert_int_equal(a->st_nlink, b->st_nlink);
	assert_int_equal(a->st_uid, b->st_uid);
	assert_int_equal(a->st_gid, b->st_gid);
	assert_true(a->st_rdev == b->st_rdev);
	assert_true(a->st_size == b->st_size && a->st_blocks == b->st_blocks);
	assert_true(a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
		    a->st_mtim.tv_nsec == b->st_mtim.tv_nsec);
	assert_true(a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
		    a->st_ctim.tv_nsec == b->st_ctim.tv_nsec);
}

/* Against glibc's own, field by field. */
static void test_stat(void **state)
{
	struct stat ours;
	struct stat theirs;
	int fd;

	(void)state;
	file_make("stat-file", "0123456789");
	assert_int_equal(symlink("stat-file", "stat-link"), 0);
	fd = open("stat-file", O_RDONLY | O_CLOEXEC);
	assert_int_equal(berth_fd_stat(fd, &ours), 0);
	assert_int_equal(fstat(fd, &theirs), 0);
	stats_equal(&ours, &theirs);
	assert_int_equal(ours.st_size, 10);
	close(fd);

	assert_int_equal(berth_path_lstat(AT_FDCWD, "stat-link", &ours), 0);
	assert_int_equal(lstat("stat-link", &theirs), 0);
	stats_equal(&ours, &theirs);
	assert_true(S_ISLNK(ours.st_mode));
	assert_int_equal(berth_path_lstat(AT_FDCWD, "/dev/null", &ours), 0);
	assert_int_equal(lstat("/dev/null", &theirs), 0);
	stats_equal(&ours, &theirs);

	theirs = ours;
	assert_int_equal(berth_path_lstat(AT_FDCWD, "not-there", &ours), -ENOENT);
	assert_int_equal(berth_fd_stat(-1, &ours), -EBADF);
	stats_equal(&ours, &theirs);
}

static void test_file_read(void **state)
{
	char buf[11];

	(void)state;
	file_make("ten", "0123456789");
	file_make("eleven", "0123456789a");
	file_make("none", "");
	assert_int_equal(berth_file_read(AT_FDCWD, "ten", buf, sizeof(buf)), 10);
	assert_string_equal(buf, "0123456789");
	assert_int_equal(berth_file_read(AT_FDCWD, "eleven", buf, sizeof(buf)), -EFBIG);
	assert_int_equal(berth_file_read_head(AT_FDCWD, "eleven", buf, sizeof(buf)), 10);
	assert_string_equal(buf, "0123456789");
	assert_int_equal(berth_file_read(AT_FDCWD, "none", buf, sizeof(buf)), 0);
	assert_string_equal(buf, "");
	assert_int_equal(berth_file_read(AT_FDCWD, "ten", buf, 0), -EINVAL);
	assert_int_equal(berth_file_read(AT_FDCWD, "ten", buf, 1), -EFBIG);
	assert_int_equal(berth_file_read(AT_FDCWD, "absent", buf, sizeof(buf)), -ENOENT);
	assert_int_equal(berth_file_read(AT_FDCWD, ".", buf, sizeof(buf)), -EISDIR);
	/* Nobody writes into it: empty, not a wait for ever. */
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_int_equal(berth_file_read(AT_FDCWD, "fifo", buf, sizeof(buf)), 0);
}

static void on_alarm(int signal)
{
	(void)signal;
}

#define WRITE_BYTES (4U << 20)

static int write_under_signals(void *arg)
{
	const struct sigaction action = { .sa_handler = on_alarm };
	const struct itimerval often = { { 0, 300 }, { 0, 300 } };
	unsigned char *buf = malloc(WRITE_BYTES);

	for (size_t i = 0; i < WRITE_BYTES; i++)
		buf[i] = (unsigned char)(i * 31 >> 8 ^ i);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	CHILD_CHECK(berth_fd_write_all(*(int *)arg, buf, WRITE_BYTES) == 0);
	free(buf);
	return 0;
}

/* A pipe takes it piece by piece, interrupted often. */
static void test_write_all(void **state)
{
	int data[2];
	size_t done = 0;
	int status = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(data), 0);
	pid = fork();
	if (pid == 0) {
		close(data[0]);
		_exit(write_under_signals(&data[1]));
	}
	close(data[1]);
	for (;;) {
		unsigned char piece[4096];
		ssize_t n = read(data[0], piece, sizeof(piece));

		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n; i++, done++)
			assert_int_equal(piece[i], (unsigned char)(done * 31 >> 8 ^ done));
	}
	close(data[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(done, WRITE_BYTES);
	assert_int_equal(berth_fd_write_all(-1, "x", 1), -EBADF);
	assert_int_equal(berth_fd_write_all(-1, "", 0), 0);
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode;
}

static const char *in_scratch(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	return path;
}

static void test_dir_make(void **state)
{
	static const mode_t masks[] = { 0, 022, 077, 0777 };
	char name[64];

	(void)state;
	for (size_t i = 0; i < BERTH_ARRAY_LEN(masks); i++) {
		mode_t before = umask(masks[i]);

		snprintf(name, sizeof(name), "made-%o/a//b/", (unsigned)masks[i]);
		assert_int_equal(berth_dir_make(in_scratch(name), 0755), 0);
		/* Again: it is there. */
		assert_int_equal(berth_dir_make(in_scratch(name), 0700), 0);
		assert_int_equal(umask(before), masks[i]);

		snprintf(name, sizeof(name), "made-%o", (unsigned)masks[i]);
		assert_int_equal(mode_of(name), S_IFDIR | 0755);
		snprintf(name, sizeof(name), "made-%o/a", (unsigned)masks[i]);
		assert_int_equal(mode_of(name), S_IFDIR | 0755);
		snprintf(name, sizeof(name), "made-%o/a/b", (unsigned)masks[i]);
		assert_int_equal(mode_of(name), S_IFDIR | 0755);
	}
	assert_int_equal(berth_dir_make(in_scratch("sticky"), 01777), 0);
	assert_int_equal(mode_of("sticky"), S_IFDIR | 01777);
	assert_int_equal(berth_dir_make("/", 0700), 0);
}

static void test_dir_make_refuses(void **state)
{
	char name[400];

	(void)state;
	file_make("plain", "x");
	assert_int_equal(mkdir("target", 0700), 0);
	assert_int_equal(symlink("target", "to-dir"), 0);
	assert_int_equal(symlink("nowhere", "dangling"), 0);

	assert_int_equal(berth_dir_make("relative", 0700), -EINVAL);
	assert_int_equal(berth_dir_make("", 0700), -EINVAL);
	assert_int_equal(berth_dir_make(in_scratch("plain"), 0700), -ENOTDIR);
	assert_int_equal(berth_dir_make(in_scratch("plain/under"), 0700), -ENOTDIR);
	/* The last one as a link is refused, one on the way is followed. */
	assert_int_equal(berth_dir_make(in_scratch("to-dir"), 0700), -ENOTDIR);
	assert_int_equal(berth_dir_make(in_scratch("dangling"), 0700), -ENOTDIR);
	assert_int_equal(access("nowhere", F_OK), -1);
	assert_int_equal(berth_dir_make(in_scratch("to-dir/new"), 0700), 0);
	assert_int_equal(mode_of("target/new"), S_IFDIR | 0700);
	memset(name, 'n', 300);
	name[300] = '\0';
	assert_int_equal(berth_dir_make(in_scratch(name), 0700), -ENAMETOOLONG);
}

static int dir_make_as_nobody(void *arg)
{
	struct stat st;

	(void)arg;
	CHILD_CHECK(geteuid() != 0 || (setgid(65534) == 0 && setuid(65534) == 0));
	umask(0777);
	CHILD_CHECK(berth_dir_make(in_scratch("open/mine/deep"), 0700) == 0);
	CHILD_CHECK(lstat("open/mine/deep", &st) == 0);
	CHILD_CHECK(st.st_mode == (S_IFDIR | 0700) && st.st_uid == geteuid());
	CHILD_CHECK(lstat("open/mine", &st) == 0 && st.st_mode == (S_IFDIR | 0700));
	CHILD_CHECK(geteuid() == 0 || berth_dir_make("/proc/not-mine", 0700) < 0);
	return 0;
}

static void test_dir_make_without_privilege(void **state)
{
	struct child_result result;

	(void)state;
	assert_int_equal(chmod(scratch, 0755), 0);
	assert_int_equal(mkdir("open", 0700), 0);
	assert_int_equal(chmod("open", 0777), 0);
	child_run_ok(dir_make_as_nobody, NULL, &result);
}

static void test_descriptors_do_not_leak(void **state)
{
	char buf[64];
	int before = dup(0);
	int after;

	(void)state;
	close(before);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(berth_dir_make(in_scratch("leak/a/b"), 0700), 0);
		assert_true(berth_dir_make("/proc/version/x", 0700) < 0);
		assert_true(berth_file_read(AT_FDCWD, "/proc/version", buf, sizeof(buf)) < 0);
	}
	after = dup(0);
	close(after);
	assert_int_equal(before, after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_cleanup_and_take),
		cmocka_unit_test(test_stat),
		cmocka_unit_test(test_file_read),
		cmocka_unit_test(test_write_all),
		cmocka_unit_test(test_dir_make),
		cmocka_unit_test(test_dir_make_refuses),
		cmocka_unit_test(test_dir_make_without_privilege),
		cmocka_unit_test(test_descriptors_do_not_leak),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
