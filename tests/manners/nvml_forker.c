/* SPDX-License-Identifier: Apache-2.0
 *
 * Forks of a program whose other thread is in calls of ours: each must leave a child that can work.
 *
 *	nvml_forker nvml    a thread makes contexts, which we measure through NVML; the children start NVML
 *	nvml_forker walk    a thread looks symbols up; the children, of a bare clone, fork themselves
 *
 * Who hangs is ended by an alarm, and the program fails. A child of the second kind that waits in each of its forks
 * for a thread that it doesn't have fails, too: the wait is bounded by 2 s, so 1 s tells.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "driver/cuda_functions.h"
#include "driver/nvml_functions.h"

enum { NVML_FORKS = 100, CLONES = 40, HANG_S = 20 };

static _Atomic bool ended;

static void *make_contexts(void *arg)
{
	CUcontext context = NULL;

	while (!atomic_load(&ended)) {
		if (cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS)
			(void)cuCtxDestroy_v2(context); /* just made */
	}
	return arg;
}

static void *look_up(void *arg)
{
	while (!atomic_load(&ended)) {
		(void)dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
		(void)dlsym(RTLD_NEXT, "cuMemAlloc_v2");
	}
	return arg;
}

static int await(pid_t pid)
{
	int status = 0;

	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									       : 1;
}

static int nvml_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)alarm(HANG_S);
		/* The simulated one refuses a child; what counts is that it answers. */
		if (nvmlInit_v2() == NVML_SUCCESS)
			(void)nvmlShutdown();
		_exit(0);
	}
	return await(pid);
}

static int cloned_child(void)
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0) {
		uint64_t start_ns = berth_clock_ns();

		(void)alarm(HANG_S);
		for (int i = 0; i < 2; i++) {
			pid_t child = fork();

			if (child == 0)
				_exit(0);
			(void)waitpid(child, NULL, 0);
		}
		_exit(berth_clock_ns() - start_ns > 3 * BERTH_NS_PER_S);
	}
	return await(pid);
}

int main(int argc, char **argv)
{
	bool nvml = argc == 2 && strcmp(argv[1], "nvml") == 0;
	pthread_t thread;
	int failed = 0;

	if (nvml && cuInit(0) != CUDA_SUCCESS)
		return 2;
	if (pthread_create(&thread, NULL, nvml ? make_contexts : look_up, NULL))
		return 2;
	for (int i = 0; i < (nvml ? NVML_FORKS : CLONES) && failed == 0; i++)
		failed += nvml ? nvml_child() : cloned_child();
	atomic_store(&ended, true);
	(void)pthread_join(thread, NULL); /* it ends by the word */
	(void)printf(failed ? "failed\n" : "ok\n");
	return failed != 0;
}
