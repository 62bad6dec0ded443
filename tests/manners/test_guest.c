/* SPDX-License-Identifier: Apache-2.0
 *
 * A guest leaves the house as it was: umask, signals, environment, errno, descriptors, threads,
 * locale, working directory, silence. And in a program that uses no GPU it does nothing at all.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "scene.h"

/* A whole life on the GPU, with a refusal. */
static int use_gpu(void)
{
	CUcontext context = NULL;
	CUdeviceptr block;
	CUdeviceptr more;

	CHILD_CHECK(cuda.cuInit(0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 600 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&more, 600 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(cuda.cuMemFree_v2(block) == CUDA_SUCCESS);
	return 0;
}

/* umask() tells by setting: /proc tells without. */
static int umask_now(void)
{
	char text[4096];
	ssize_t length;
	char *line;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length <= 0)
		return -1;
	text[length] = '\0';
	line = strstr(text, "\nUmask:");
	return line ? (int)strtol(line + 7, NULL, 8) : -1;
}

static _Atomic int stop_watching;

static void *watch_umask(void *arg)
{
	(void)arg;
	while (!stop_watching) {
		if (umask_now() != 027)
			return (void *)1;
	}
	return NULL;
}

static int umask_body(void)
{
	struct stat st;
	pthread_t watcher;
	void *wrong = NULL;
	int fd;

	umask(027);
	CHILD_CHECK(umask_now() == 027);
	CHILD_CHECK(!scene_load());
	CHILD_CHECK(!pthread_create(&watcher, NULL, watch_umask, NULL));
	CHILD_CHECK(!use_gpu());
	stop_watching = 1;
	CHILD_CHECK(!pthread_join(watcher, &wrong) && !wrong);
	fd = open(scene_path("mine"), O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
	CHILD_CHECK(fd >= 0 && !fstat(fd, &st) && (st.st_mode & 0777) == 0640);
	CHILD_CHECK(umask_now() == 027);
	return 0;
}

/* E14 */
static void the_umask_is_never_another_not_for_an_instant(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = umask_body });
}

static void on_signal(int number)
{
	(void)number;
}

static int signals_body(void)
{
	struct sigaction before[65];
	struct sigaction after;
	sigset_t mask_before;
	sigset_t mask_after;

	CHILD_CHECK(!scene_load());
	CHILD_CHECK(signal(SIGUSR1, on_signal) != SIG_ERR && signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	sigemptyset(&mask_before);
	sigaddset(&mask_before, SIGUSR2);
	CHILD_CHECK(!pthread_sigmask(SIG_SETMASK, &mask_before, NULL));
	for (int i = 1; i <= 64; i++)
		(void)sigaction(i, NULL, &before[i]); /* two belong to libc */
	CHILD_CHECK(!use_gpu());
	CHILD_CHECK(!pthread_sigmask(SIG_SETMASK, NULL, &mask_after));
	for (int i = 1; i <= 64; i++) {
		CHILD_CHECK(sigismember(&mask_before, i) == sigismember(&mask_after, i));
		if (!sigaction(i, NULL, &after))
			CHILD_CHECK(after.sa_handler == before[i].sa_handler &&
				    after.sa_flags == before[i].sa_flags);
	}
	return 0;
}

static void signal_handlers_and_mask_are_untouched(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = signals_body });
}

extern char **environ;

static int surroundings_body(void)
{
	char *copies[512];
	char **pointers[1] = { environ };
	char cwd_before[4096];
	char cwd_after[4096];
	char *locale;
	size_t count = 0;

	CHILD_CHECK(!scene_load());
	CHILD_CHECK(getcwd(cwd_before, sizeof(cwd_before)));
	locale = strdup(setlocale(LC_ALL, NULL));
	for (; environ[count]; count++) {
		CHILD_CHECK(count < 512);
		copies[count] = strdup(environ[count]);
	}
	CHILD_CHECK(!use_gpu());
	CHILD_CHECK(environ == pointers[0]);
	for (size_t i = 0; i < count; i++)
		CHILD_CHECK(environ[i] && !strcmp(environ[i], copies[i]));
	CHILD_CHECK(!environ[count]);
	CHILD_CHECK(getcwd(cwd_after, sizeof(cwd_after)) && !strcmp(cwd_before, cwd_after));
	CHILD_CHECK(!strcmp(setlocale(LC_ALL, NULL), locale));
	return 0;
}

static void environment_directory_and_locale_are_untouched(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = surroundings_body });
}

static int errno_body(void)
{
	CUdeviceptr block;

	CHILD_CHECK(!scene_start());
	errno = 77;
	CHILD_CHECK(cuda.cuInit(0) == CUDA_SUCCESS && errno == 77);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 2 * GIB) == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(errno == 77);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 64 * MIB) == CUDA_SUCCESS && errno == 77);
	CHILD_CHECK(cuda.cuMemFree_v2(block) == CUDA_SUCCESS && errno == 77);
	return 0;
}

static int first_errno_body(void)
{
	CHILD_CHECK(!scene_load());
	/* Warm: what the driver itself does to errno on its first call is not ours. */
	CHILD_CHECK(berth_driver()->cuInit(0) == CUDA_SUCCESS);
	errno = 77;
	CHILD_CHECK(cuda.cuInit(0) == CUDA_SUCCESS && errno == 77);
	return 0;
}

static void errno_is_kept_also_through_the_first_cuinit_and_a_refusal(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = errno_body });
	scene_run(&(struct scene){ .limit = "1G", .body = first_errno_body });
}

/* Only the interposer's part: the driver's own descriptors are there before, and so is the region, or
 * the management library would be asked for the GPUs and open its own. */
static int closed_body(void)
{
	struct stat st;
	int spare = fcntl(2, F_DUPFD_CLOEXEC, 100);
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		_exit(scene_start());
	CHILD_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHILD_CHECK(!scene_load());
	CHILD_CHECK(berth_driver()->cuInit(0) == CUDA_SUCCESS);
	close(0);
	close(1);
	close(2);
	if (cuda.cuInit(0) != CUDA_SUCCESS || fstat(0, &st) != -1 || fstat(1, &st) != -1 ||
	    fstat(2, &st) != -1) {
		dprintf(spare, "one of the closed 0, 1, 2 is open\n");
		return 1;
	}
	CHILD_CHECK(dup2(spare, 2) == 2);
	CHILD_CHECK(scene_booked(0) == 0); /* it is attached */
	return 0;
}

static void descriptors_0_1_2_that_were_closed_stay_closed(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = closed_body });
}

static int entries(const char *path)
{
	DIR *directory = opendir(path);
	int count = 0;

	if (!directory)
		return -1;
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static int threads_body(void)
{
	int before;

	CHILD_CHECK(!scene_load());
	CHILD_CHECK(berth_driver()->cuInit(0) == CUDA_SUCCESS);
	before = entries("/proc/self/task");
	CHILD_CHECK(before > 0);
	CHILD_CHECK(!use_gpu());
	CHILD_CHECK(entries("/proc/self/task") == before);
	return 0;
}

static void no_thread_is_started(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = threads_body });
}

static int quiet_body(void)
{
	CHILD_CHECK(!scene_load());
	return use_gpu();
}

static void nothing_is_printed(void **state)
{
	static char error[8192];

	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = quiet_body, .ret_error = error });
	assert_string_equal(error, "");
}

static int run_shell(void)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		execl("/bin/sh", "sh", "-c",
		      "test $(ls /proc/self/task | wc -l) = 1 && grep -q libberth-cuda "
		      "/proc/$$/maps",
		      (char *)NULL);
		_exit(99);
	}
	CHILD_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHILD_CHECK(access(scene_region(), F_OK));
	CHILD_CHECK(entries(scene_path(".")) == 2); /* "." and ".." */
	return 0;
}

static void a_program_without_a_gpu_opens_no_region(void **state)
{
	static char error[8192];

	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = run_shell, .ret_error = error });
	assert_string_equal(error, "");
	/* Nor is it told that its limit can't be read. */
	scene_run(&(struct scene){ .limit = "plenty", .body = run_shell, .ret_error = error });
	assert_string_equal(error, "");
}

/* C9: names that only look like the driver's. */
static int look_alike_body(void)
{
	CHILD_CHECK(!dlsym(RTLD_DEFAULT, "curl_easy_init"));
	CHILD_CHECK(!dlsym(RTLD_DEFAULT, "cudaMalloc"));
	CHILD_CHECK(!dlsym(RTLD_DEFAULT, "c") && !dlsym(RTLD_DEFAULT, ""));
	CHILD_CHECK(dlsym(RTLD_DEFAULT, "malloc"));
	CHILD_CHECK(access(scene_region(), F_OK));
	CHILD_CHECK(entries(scene_path(".")) == 2);
	return 0;
}

static void looking_up_names_that_begin_alike_starts_nothing(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = look_alike_body });
}

static int exec_body(void)
{
	char pid_text[32];
	int told[2];
	int status = 0;
	char byte;
	pid_t pid;

	CHILD_CHECK(!pipe(told));
	pid = fork();
	if (!pid) {
		CUdeviceptr block;

		if (scene_start() || cuda.cuMemAlloc_v2(&block, 600 * MIB) != CUDA_SUCCESS ||
		    scene_booked(0) != 600 * MIB)
			_exit(1);
		(void)snprintf(pid_text, sizeof(pid_text), "echo >&%d; exec sleep 30", told[1]);
		execl("/bin/sh", "sh", "-c", pid_text, (char *)NULL);
		_exit(99);
	}
	close(told[1]);
	CHILD_CHECK(read(told[0], &byte, 1) == 1);
	/* The same process, another program: what the old one held is free. */
	CHILD_CHECK(scene_booked(0) == 0);
	CHILD_CHECK(!kill(pid, SIGKILL) && waitpid(pid, &status, 0) == pid);
	CHILD_CHECK(WIFSIGNALED(status));
	return 0;
}

static void an_exec_gives_back_what_the_old_program_held(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = exec_body });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_umask_is_never_another_not_for_an_instant),
		cmocka_unit_test(signal_handlers_and_mask_are_untouched),
		cmocka_unit_test(environment_directory_and_locale_are_untouched),
		cmocka_unit_test(errno_is_kept_also_through_the_first_cuinit_and_a_refusal),
		cmocka_unit_test(descriptors_0_1_2_that_were_closed_stay_closed),
		cmocka_unit_test(no_thread_is_started),
		cmocka_unit_test(nothing_is_printed),
		cmocka_unit_test(a_program_without_a_gpu_opens_no_region),
		cmocka_unit_test(looking_up_names_that_begin_alike_starts_nothing),
		cmocka_unit_test(an_exec_gives_back_what_the_old_program_held),
	};

	return cmocka_run_group_tests_name("manners: guest", tests, NULL, NULL);
}
