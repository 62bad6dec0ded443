/* SPDX-License-Identifier: Apache-2.0
 *
 * Several processes: of one share, of two, parents and children.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "scene.h"

/* What processes of a test share. */
struct stage {
	pthread_barrier_t barrier;
	_Atomic int granted[2]; /* by turns of the round */
	_Atomic int wrong_count;
};

static struct stage *stage_make(unsigned count)
{
	struct stage *stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;

	if (stage == MAP_FAILED || pthread_barrierattr_init(&attr) ||
	    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) ||
	    pthread_barrier_init(&stage->barrier, &attr, count))
		abort();
	return stage;
}

static int ended_well(pid_t pid)
{
	int status = 0;

	CHILD_CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHILD_CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	return 0;
}

enum { ROUNDS = 60 };

static int race_once(struct stage *stage, int round)
{
	_Atomic int *granted = &stage->granted[round % 2];
	CUdeviceptr block;
	CUresult res;

	pthread_barrier_wait(&stage->barrier);
	stage->granted[(round + 1) % 2] = 0;
	res = cuda.cuMemAlloc_v2(&block, 600 * MIB);
	if (res == CUDA_SUCCESS)
		(*granted)++;
	else if (res != CUDA_ERROR_OUT_OF_MEMORY)
		stage->wrong_count++;
	pthread_barrier_wait(&stage->barrier);
	if (*granted != 1 || scene_booked(0) != 600 * MIB)
		stage->wrong_count++;
	pthread_barrier_wait(&stage->barrier);
	if (res == CUDA_SUCCESS && cuda.cuMemFree_v2(block) != CUDA_SUCCESS)
		stage->wrong_count++;
	pthread_barrier_wait(&stage->barrier);
	if (scene_booked(0) != 0)
		stage->wrong_count++;
	return 0;
}

static int race(unsigned count)
{
	struct stage *stage = stage_make(count);
	pid_t pids[8];

	for (unsigned i = 0; i < count; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			alarm(100); /* a watchdog: the others would wait at the barrier */
			if (scene_start())
				abort();
			for (int round = 0; round < ROUNDS; round++)
				(void)race_once(stage, round); /* it counts what is wrong */
			_exit(0);
		}
	}
	for (unsigned i = 0; i < count; i++)
		CHILD_CHECK(!ended_well(pids[i]));
	CHILD_CHECK(stage->wrong_count == 0);
	return 0;
}

static int race_2_body(void)
{
	return race(2);
}

static int race_8_body(void)
{
	return race(8);
}

/* A3: at most one of two, then of eight, is granted; exactly one, as none is refused for nothing. */
static void processes_that_ask_at_once_never_get_more_than_the_limit(void **state)
{
	(void)state;
	scene_run(&(struct scene){
		.limit = "1024M", .faults = "cuMemAlloc_v2:sleep=1ms", .body = race_2_body });
	scene_run(&(struct scene){
		.limit = "1024M", .faults = "cuMemAlloc_v2:sleep=1ms", .body = race_8_body });
}

static int holder(int told, int end, uint64_t bytes)
{
	CUdeviceptr block;
	char byte;

	if (scene_start() || cuda.cuMemAlloc_v2(&block, bytes) != CUDA_SUCCESS ||
	    write(told, "x", 1) != 1)
		return 1;
	return read(end, &byte, 1) != 0;
}

static int free_of_share(uint64_t *ret_bytes)
{
	size_t free_bytes;
	size_t total_bytes;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS);
	*ret_bytes = free_bytes;
	return 0;
}

static int second_process_body(void)
{
	uint64_t free_bytes = 0;
	int told[2];
	int end[2];
	char byte;
	pid_t pid;
	pid_t second;

	CHILD_CHECK(!pipe(told) && !pipe(end));
	pid = fork();
	if (!pid) {
		close(end[1]);
		_exit(holder(told[1], end[0], 600 * MIB));
	}
	CHILD_CHECK(read(told[0], &byte, 1) == 1);
	second = fork();
	if (!second)
		_exit(free_of_share(&free_bytes) || free_bytes != 424 * MIB);
	CHILD_CHECK(!ended_well(second));
	CHILD_CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
	CHILD_CHECK(!free_of_share(&free_bytes));
	CHILD_CHECK(free_bytes == 1024 * MIB);
	return 0;
}

/* E6 */
static void a_second_process_sees_what_the_first_holds_and_no_more_once_it_is_dead(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = second_process_body });
}

static int fork_child(void)
{
	CUdeviceptr block;
	CUresult res = cuda.cuInit(0);

	/* A driver may refuse a fork child of a process that used it; then nothing is booked. */
	if (res != CUDA_SUCCESS)
		return res != CUDA_ERROR_NOT_INITIALIZED;
	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 100 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 400 * MIB);
	return 0;
}

static int fork_body(void)
{
	struct stat before;
	struct stat after;
	uint64_t free_bytes = 0;
	CUdeviceptr block;
	pid_t pid;

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 300 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(!stat(scene_region(), &before));
	pid = fork();
	if (!pid)
		exit(fork_child()); /* exit handlers run */
	CHILD_CHECK(!ended_well(pid));
	CHILD_CHECK(!stat(scene_region(), &after) && before.st_ino == after.st_ino);
	CHILD_CHECK(scene_booked(0) == 300 * MIB);
	pid = fork();
	if (!pid) {
		/* A third process, by way of exec's clean slate: its driver was never used. */
		_exit(0);
	}
	CHILD_CHECK(!ended_well(pid));
	CHILD_CHECK(cuda.cuMemFree_v2(block) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 0);
	(void)free_bytes;
	return 0;
}

/* E6, E11 */
static void a_fork_child_neither_frees_nor_unlinks_what_its_parent_has(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = fork_body });
}

static int second_group(void)
{
	CUdeviceptr block = 7;
	size_t free_bytes;
	size_t bare_bytes;
	size_t total_bytes;

	CHILD_CHECK(!setenv("CUDA_DEVICE_MEMORY_SHARED_CACHE", scene_path("second.cache"), 1));
	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS);
	CHILD_CHECK(berth_driver()->cuMemGetInfo_v2(&bare_bytes, &total_bytes) == CUDA_SUCCESS);
	CHILD_CHECK(free_bytes == bare_bytes && free_bytes < 3 * GIB);
	/* Within its own limit; the card is full. */
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 5 * GIB) == CUDA_ERROR_OUT_OF_MEMORY);
	CHILD_CHECK(block == 7);
	CHILD_CHECK(scene_booked(0) == 5 * GIB + 512 * MIB); /* the first group's */
	CHILD_CHECK(cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS);
	CHILD_CHECK(free_bytes == bare_bytes && total_bytes == 6 * GIB);
	return 0;
}

static int two_groups_body(void)
{
	int told[2];
	int end[2];
	char byte;
	pid_t pid;

	CHILD_CHECK(!pipe(told) && !pipe(end));
	pid = fork();
	if (!pid) {
		close(end[1]);
		_exit(holder(told[1], end[0], 5 * GIB + 512 * MIB));
	}
	CHILD_CHECK(read(told[0], &byte, 1) == 1);
	CHILD_CHECK(!second_group());
	close(end[1]);
	CHILD_CHECK(!ended_well(pid));
	return 0;
}

/* B9 */
static void when_the_card_itself_is_full_the_drivers_refusal_comes_back(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "6G", .body = two_groups_body });
}

static void *init_one(void *arg)
{
	pthread_barrier_wait(arg);
	return (void *)(uintptr_t)cuda.cuInit(0);
}

static int init_body(void)
{
	pthread_barrier_t barrier;
	pthread_t threads[16];
	CUcontext context;
	CUdeviceptr block;

	CHILD_CHECK(!scene_load());
	CHILD_CHECK(!pthread_barrier_init(&barrier, NULL, 16));
	for (int i = 0; i < 16; i++)
		CHILD_CHECK(!pthread_create(&threads[i], NULL, init_one, &barrier));
	for (int i = 0; i < 16; i++) {
		void *res = NULL;

		CHILD_CHECK(!pthread_join(threads[i], &res) && !res);
	}
	CHILD_CHECK(cuda.cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 600 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(scene_booked(0) == 600 * MIB);
	return 0;
}

/* C16 */
static void sixteen_threads_call_cuinit_at_once(void **state)
{
	(void)state;
	scene_run(
		&(struct scene){ .limit = "1G", .faults = "cuInit:sleep=5ms", .body = init_body });
}

static void *cancelled_asker(void *arg)
{
	CUdeviceptr block;

	if (cuda.cuCtxSetCurrent(arg) || pthread_cancel(pthread_self()))
		return NULL;
	/* Fits beside what this process has, so the kernel is asked about the other one. */
	return cuda.cuMemAlloc_v2(&block, 600 * MIB) == CUDA_ERROR_OUT_OF_MEMORY ? arg : NULL;
}

static int cancelled_body(void)
{
	CUcontext context;
	CUdeviceptr block;
	pthread_t thread;
	void *answer = NULL;
	int told[2];
	int end[2];
	char byte;
	pid_t pid;

	CHILD_CHECK(!pipe(told) && !pipe(end));
	pid = fork();
	if (!pid) {
		close(end[1]);
		_exit(holder(told[1], end[0], 600 * MIB));
	}
	CHILD_CHECK(read(told[0], &byte, 1) == 1);
	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
	CHILD_CHECK(!pthread_create(&thread, NULL, cancelled_asker, context));
	CHILD_CHECK(!pthread_join(thread, &answer));
	alarm(100); /* a watchdog: a mutex that the thread took with it is waited for in vain */
	/* The bare driver's call is no place to be cancelled at. */
	CHILD_CHECK(answer == context);
	CHILD_CHECK(cuda.cuMemAlloc_v2(&block, 100 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(cuda.cuMemFree_v2(block) == CUDA_SUCCESS);
	close(end[1]);
	return ended_well(pid);
}

static void a_thread_that_is_cancelled_while_it_asks_takes_no_lock_with_it(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = cancelled_body });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_that_ask_at_once_never_get_more_than_the_limit),
		cmocka_unit_test(
			a_second_process_sees_what_the_first_holds_and_no_more_once_it_is_dead),
		cmocka_unit_test(a_fork_child_neither_frees_nor_unlinks_what_its_parent_has),
		cmocka_unit_test(when_the_card_itself_is_full_the_drivers_refusal_comes_back),
		cmocka_unit_test(sixteen_threads_call_cuinit_at_once),
		cmocka_unit_test(a_thread_that_is_cancelled_while_it_asks_takes_no_lock_with_it),
	};

	return cmocka_run_group_tests_name("hooks: several processes", tests, NULL, NULL);
}
