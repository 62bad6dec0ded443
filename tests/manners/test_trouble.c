/* SPDX-License-Identifier: Apache-2.0
 *
 * A region that can't be had, in each way that a file system or a kernel can say no (E3, E15): cuInit
 * returns an error, one line names the path, the program lives on without a GPU and without a
 * limit lifted.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "region/seat.h"
#include "scene.h"

static int refused(void)
{
	CUdeviceptr block = 7;
	CUresult res;

	CHILD_CHECK(!scene_load());
	res = cuda.cuInit(0);
	CHILD_CHECK(res == CUDA_ERROR_NOT_PERMITTED || res == CUDA_ERROR_OPERATING_SYSTEM ||
		    res == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, MIB) != CUDA_SUCCESS && block == 7);
	CHILD_CHECK(cuda.cuInit(0) == res); /* and not again in words */
	return 0;
}

/* Runs body, which ends in a refusal, and checks the one line. */
static void expect_refusal(int (*body)(void), const char *named)
{
	static char error[8192];
	const char *newline;

	scene_run(&(struct scene){ .limit = "1G", .body = body, .ret_error = error });
	newline = strchr(error, '\n');
	if (!newline || newline[1] || (named && !strstr(error, named)))
		print_error("it said: %s\n", error);
	assert_non_null(newline);
	assert_string_equal(newline, "\n");
	if (named)
		assert_non_null(strstr(error, named));
}

static int write_file(const char *path, const void *bytes, size_t size, off_t total)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	CHILD_CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && !ftruncate(fd, total));
	close(fd);
	return 0;
}

static int directory_body(void)
{
	CHILD_CHECK(!mkdir(scene_region(), 0700));
	return refused();
}

static void a_directory_in_its_place(void **state)
{
	(void)state;
	expect_refusal(directory_body, "share.cache");
}

static int empty_body(void)
{
	CHILD_CHECK(!write_file(scene_region(), "", 0, 0));
	return refused();
}

static void an_empty_file(void **state)
{
	(void)state;
	expect_refusal(empty_body, "share.cache");
}

static int zeros_body(void)
{
	CHILD_CHECK(!write_file(scene_region(), "", 0, 8 << 20));
	return refused();
}

static void a_file_full_of_zeros(void **state)
{
	(void)state;
	expect_refusal(zeros_body, "share.cache");
}

static int foreign_body(void)
{
	CHILD_CHECK(!write_file(scene_region(), "#!/bin/sh\necho hello\n", 21, 8 << 20));
	return refused();
}

static void a_foreign_file(void **state)
{
	(void)state;
	expect_refusal(foreign_body, "share.cache");
}

/* A real region cut off: what lies beyond its end must never be touched. */
static int cut_body(void)
{
	struct berth_region_spec spec = { .share_name = "cut", .gpu_count = 1 };
	struct berth_region_joined joined;
	struct berth_region *region = NULL;

	strcpy(spec.gpus[0].uuid, "GPU-0");
	CHILD_CHECK(!berth_region_join(scene_region(), &spec, 0, &region, &joined, NULL));
	berth_region_close(region);
	CHILD_CHECK(!truncate(scene_region(), 65536));
	return refused();
}

static void a_region_cut_short(void **state)
{
	(void)state;
	expect_refusal(cut_body, "share.cache");
}

static int symlink_body(void)
{
	CHILD_CHECK(!symlink("/etc/passwd", scene_region()));
	return refused();
}

static void a_symbolic_link(void **state)
{
	(void)state;
	expect_refusal(symlink_body, "share.cache");
}

static int fifo_body(void)
{
	CHILD_CHECK(!mkfifo(scene_region(), 0600));
	return refused();
}

static void a_fifo_does_not_hang_it(void **state)
{
	(void)state;
	expect_refusal(fifo_body, "share.cache");
}

static int absent_body(void)
{
	CHILD_CHECK(
		!setenv("CUDA_DEVICE_MEMORY_SHARED_CACHE", scene_path("no/such/place.cache"), 1));
	return refused();
}

static void a_folder_that_is_not_there(void **state)
{
	(void)state;
	expect_refusal(absent_body, "no/such/place.cache");
}

static int unwritable_body(void)
{
	CHILD_CHECK(!mkdir(scene_path("locked"), 0755));
	CHILD_CHECK(!setenv("CUDA_DEVICE_MEMORY_SHARED_CACHE", scene_path("locked/a.cache"), 1));
	CHILD_CHECK(!chmod(scene_path("locked"), 0555) && !chmod(scene_path("."), 0777));
	if (!geteuid())
		CHILD_CHECK(!setresuid(65534, 65534, 65534));
	return refused();
}

static void a_folder_that_may_not_be_written(void **state)
{
	(void)state;
	expect_refusal(unwritable_body, "locked/a.cache");
}

/* A file system of our own, in our own mount namespace; -1 where this is not allowed. */
static int mount_own(const char *options, unsigned long flags)
{
	const char *place = scene_path("mounted");

	if (mkdir(place, 0700))
		return -1;
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("berth-test", place, "tmpfs", flags, options))
		return -1;
	return setenv("CUDA_DEVICE_MEMORY_SHARED_CACHE", scene_path("mounted/a.cache"), 1);
}

static int read_only_body(void)
{
	if (mount_own("size=8m", MS_RDONLY))
		return dprintf(2, "skipped: mounted/a.cache: no mount namespace here\n") < 0;
	return refused();
}

static void a_read_only_file_system(void **state)
{
	(void)state;
	expect_refusal(read_only_body, "mounted/a.cache");
}

static int full_body(void)
{
	if (mount_own("size=1m", 0))
		return dprintf(2, "skipped: mounted/a.cache: no mount namespace here\n") < 0;
	CHILD_CHECK(!refused());
	CHILD_CHECK(access(scene_path("mounted/a.cache"), F_OK)); /* not even a part of it */
	return 0;
}

/* Full at creation is an error then, not a SIGBUS later. */
static void a_full_file_system(void **state)
{
	(void)state;
	expect_refusal(full_body, "mounted/a.cache");
}

static int no_descriptors_body(void)
{
	struct rlimit limit = { 3, 3 };
	CUdeviceptr block = 7;

	CHILD_CHECK(!scene_load());
	CHILD_CHECK(berth_driver()->cuInit(0) == CUDA_SUCCESS);
	CHILD_CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	CHILD_CHECK(cuda.cuInit(0) != CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, MIB) != CUDA_SUCCESS && block == 7);
	return 0;
}

static void no_descriptors_left(void **state)
{
	(void)state;
	expect_refusal(no_descriptors_body, "left of 3 (RLIMIT_NOFILE); close some or raise");
}

/* A sandbox that refuses record locks by descriptor: no liveness, so no seat. */
static int sandbox_body(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, F_OFD_GETLK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(filter) / sizeof(filter[0]), .filter = filter };
	CUdeviceptr block = 7;

	CHILD_CHECK(!scene_load());
	CHILD_CHECK(berth_driver()->cuInit(0) == CUDA_SUCCESS);
	/* 36 to 38: the commands of open-file-description locks; 1024 and up are others. */
	CHILD_CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHILD_CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	CHILD_CHECK(cuda.cuInit(0) != CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, MIB) != CUDA_SUCCESS && block == 7);
	return 0;
}

static void a_sandbox_without_the_locks(void **state)
{
	(void)state;
	expect_refusal(sandbox_body, NULL);
}

static int left_over_body(void)
{
	CUdeviceptr block;

	/* Beside it, files that others may have left: none of them matters. */
	CHILD_CHECK(!write_file(scene_path("share.cache.lock"), "12345\n", 6, 6));
	CHILD_CHECK(!write_file(scene_path(".share.cache.tmp"), "x", 1, 1));
	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, MIB) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == MIB);
	return 0;
}

/* E3 */
static void left_over_files_beside_it_are_in_nobodys_way(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = left_over_body });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_directory_in_its_place),
		cmocka_unit_test(an_empty_file),
		cmocka_unit_test(a_file_full_of_zeros),
		cmocka_unit_test(a_foreign_file),
		cmocka_unit_test(a_region_cut_short),
		cmocka_unit_test(a_symbolic_link),
		cmocka_unit_test(a_fifo_does_not_hang_it),
		cmocka_unit_test(a_folder_that_is_not_there),
		cmocka_unit_test(a_folder_that_may_not_be_written),
		cmocka_unit_test(a_read_only_file_system),
		cmocka_unit_test(a_full_file_system),
		cmocka_unit_test(no_descriptors_left),
		cmocka_unit_test(a_sandbox_without_the_locks),
		cmocka_unit_test(left_over_files_beside_it_are_in_nobodys_way),
	};

	return cmocka_run_group_tests_name("manners: trouble with the region", tests, NULL, NULL);
}
