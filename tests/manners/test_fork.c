/* SPDX-License-Identifier: Apache-2.0
 *
 * fork while other threads are anywhere (E10, A30): no lock of ours is held in the child for ever, so
 * whatever the child calls returns, and it ends by exit(). ROUNDS= sets how many forks (500).
 *
 * A simulated driver that was used refuses the children of its process, as drivers do; what ours has
 * to do there it does before: to let go of the parent's seat, and take one.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "busy.h"
#include "region/snapshot.h"
#include "scene.h"

#define WATCHDOG_NS (30 * BERTH_NS_PER_S)

enum { NEIGHBOUR_COUNT = 8, NEIGHBOUR_ROUNDS = 100 };

static unsigned rounds_of(unsigned usual)
{
	const char *text = getenv("ROUNDS");
	unsigned long asked = text ? strtoul(text, NULL, 10) : 0;

	return asked && asked < 1000000 ? (unsigned)asked : usual;
}

/* Where a child that hangs is. */
static void tell_stuck(pid_t pid)
{
	static const char *const files[] = { "wchan", "syscall" };
	char path[64];
	char text[512];

	dprintf(2, "child %d has not come back\n", (int)pid);
	for (int i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text));

		if (length > 0)
			dprintf(2, "%s: %.*s\n", files[i], (int)length, text);
		if (fd >= 0)
			close(fd);
	}
}

/* 0 = it ended by exit(0). */
static int ended_in_time(pid_t pid)
{
	uint64_t deadline_ns = berth_deadline_after(WATCHDOG_NS);
	int status = 0;
	pid_t got;

	CHILD_CHECK(pid > 0);
	while ((got = waitpid(pid, &status, WNOHANG)) == 0 && !berth_deadline_passed(deadline_ns))
		(void)usleep(200);
	if (got == 0) {
		tell_stuck(pid);
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, &status, 0);
		return 1;
	}
	if (status)
		dprintf(2, "child %d ended with 0x%x\n", (int)pid, (unsigned)status);
	return got != pid || status != 0;
}

/* Has this process a seat of its own in the region? */
static bool seated(void)
{
	struct berth_region *region = NULL;
	struct berth_snapshot *taken = NULL;
	bool found = false;

	if (berth_region_view(scene_region(), &region, NULL) == 0 &&
	    berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &taken) == 0) {
		for (uint32_t i = 0; i < taken->seat_count; i++)
			found |= taken->seats[i].pid == getpid() && taken->seats[i].alive;
	}
	berth_snapshot_free(taken);
	berth_region_close(region);
	return found;
}

/* What a child may try; each returns. Not NVML, whose own locks are not made for it. */
static int child_of_busy(void)
{
	CUcontext context = NULL;
	CUdeviceptr block = 0;
	size_t free_bytes;
	size_t total_bytes;
	CUresult res = cuda.cuInit(0);

	CHILD_CHECK(res == CUDA_SUCCESS || res == CUDA_ERROR_NOT_INITIALIZED);
	CHILD_CHECK(seated());
	(void)cuda.cuCtxCreate_v2(&context, 0, 0);
	if (cuda.cuMemAlloc_v2(&block, MIB) == CUDA_SUCCESS)
		CHILD_CHECK(cuda.cuMemFree_v2(block) == CUDA_SUCCESS);
	(void)cuda.cuMemGetInfo_v2(&free_bytes, &total_bytes);
	(void)cuda.cuMemAllocAsync(&block, MIB, NULL);
	(void)cuda.cuDevicePrimaryCtxRetain(&context, 0);
	CHILD_CHECK(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
	CHILD_CHECK(dlsym(RTLD_DEFAULT, "malloc"));
	return 0;
}

/* A bare clone has no handlers run: the C library is in no state for more than this. */
static int bare_child_of_busy(void)
{
	CUdeviceptr block = 7;

	return cuda.cuMemAlloc_v2(&block, MIB) == CUDA_SUCCESS || block != 7;
}

static int busy_body(void)
{
	unsigned rounds = rounds_of(500);

	CHILD_CHECK(!scene_start());
	CHILD_CHECK(!busy_start());
	CHILD_CHECK(busy_await(3));
	for (unsigned i = 0; i < rounds; i++) {
		pid_t pid = fork();

		if (pid == 0)
			exit(child_of_busy()); /* exit handlers and destructors run */
		if (ended_in_time(pid)) {
			dprintf(2, "in round %u\n", i);
			_exit(1); /* threads of ours may be stuck as well */
		}
	}
	for (unsigned i = 0; i < 20; i++) {
		pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

		if (pid == 0)
			syscall(SYS_exit_group, bare_child_of_busy());
		CHILD_CHECK(!ended_in_time(pid));
	}
	CHILD_CHECK(busy_await(3));
	CHILD_CHECK(!busy_end());
	CHILD_CHECK(scene_booked(0) == 0);
	return 0;
}

/* E10 */
static void children_of_a_process_with_a_thread_in_every_hook_come_back(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = busy_body });
}

static _Atomic int gate;

static void *first_init(void *arg)
{
	(void)arg;
	gate = 1;
	(void)cuda.cuInit(0);
	return NULL;
}

/* The very first cuInit of a process is under way in a thread when another one forks. */
static int early_fork(unsigned delay)
{
	pthread_t thread;

	CHILD_CHECK(!pthread_create(&thread, NULL, first_init, NULL));
	while (!gate)
		;
	for (volatile unsigned i = 0; i < delay; i++)
		;
	pid_t pid = fork();
	if (pid == 0) {
		CUdeviceptr block = 0;
		CUresult res;

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* if it hangs, its parent is killed */
		res = cuda.cuInit(0);
		CHILD_CHECK(res == CUDA_SUCCESS || res == CUDA_ERROR_NOT_INITIALIZED);
		CHILD_CHECK(seated());
		(void)cuda.cuMemAlloc_v2(&block, MIB);
		exit(0);
	}
	CHILD_CHECK(!ended_in_time(pid));
	CHILD_CHECK(!pthread_join(thread, NULL));
	CHILD_CHECK(seated());
	return 0;
}

static int early_body(void)
{
	unsigned rounds = rounds_of(500) / 2;

	CHILD_CHECK(!scene_load());
	for (unsigned i = 0; i < rounds; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(early_fork(i % 125 * 400));
		CHILD_CHECK(!ended_in_time(pid));
		/* Made anew now and then: making a share takes longer than joining it. */
		if (i % 2)
			CHILD_CHECK(!unlink(scene_region()));
	}
	return 0;
}

static void children_forked_during_the_first_cuinit_come_back(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = early_body });
}

static struct {
	CUcontext context;
	CUdeviceptr block;
	_Atomic int inside;
	_Atomic int finished;
	_Atomic int wrong;
	_Atomic int neighbours_done;
} slow;

static void *slow_free(void *arg)
{
	(void)arg;
	(void)cuda.cuCtxSetCurrent(slow.context);
	slow.inside = 1;
	if (cuda.cuMemFree_v2(slow.block) != CUDA_SUCCESS)
		slow.wrong = 1;
	slow.finished = 1;
	return NULL;
}

static void *neighbour(void *arg)
{
	CUdeviceptr block = 0;

	(void)arg;
	if (cuda.cuCtxSetCurrent(slow.context) != CUDA_SUCCESS)
		slow.wrong = 2;
	for (int i = 0; i < NEIGHBOUR_ROUNDS && !slow.wrong; i++) {
		if (cuda.cuMemAlloc_v2(&block, MIB) != CUDA_SUCCESS ||
		    cuda.cuMemFree_v2(block) != CUDA_SUCCESS)
			slow.wrong = 3;
	}
	slow.neighbours_done++;
	return NULL;
}

static int faults_write(const char *text)
{
	const char *path = scene_path("faults");
	const char *fresh = scene_path("faults.new");
	FILE *file = fopen(fresh, "we");

	CHILD_CHECK(file && fputs(text, file) >= 0 && !fclose(file));
	CHILD_CHECK(!rename(fresh, path));
	return 0;
}

/* The first free never comes back until it is told to: all else goes on beside it. */
static int beside_slow_free(void)
{
	pthread_t threads[NEIGHBOUR_COUNT];
	uint64_t deadline_ns = berth_deadline_after(WATCHDOG_NS);

	for (int i = 0; i < NEIGHBOUR_COUNT; i++)
		CHILD_CHECK(!pthread_create(&threads[i], NULL, neighbour, NULL));
	pid_t pid = fork();
	if (pid == 0)
		exit(child_of_busy());
	CHILD_CHECK(!ended_in_time(pid));
	while (slow.neighbours_done < NEIGHBOUR_COUNT && !berth_deadline_passed(deadline_ns))
		(void)usleep(1000);
	CHILD_CHECK(slow.neighbours_done == NEIGHBOUR_COUNT && !slow.wrong);
	CHILD_CHECK(!slow.finished);
	/* It isn't freed before the driver says so. */
	CHILD_CHECK(scene_booked(0) == 100 * MIB);
	for (int i = 0; i < NEIGHBOUR_COUNT; i++)
		CHILD_CHECK(!pthread_join(threads[i], NULL));
	return 0;
}

static int slow_body(void)
{
	pthread_t thread;

	CHILD_CHECK(!faults_write("cuMemFree_v2:block:nth=1\n"));
	CHILD_CHECK(!setenv("BERTH_SIM_FAULT_FILE", scene_path("faults"), 1));
	CHILD_CHECK(!scene_start());
	CHILD_CHECK(cuda.cuMemAlloc_v2(&slow.block, 100 * MIB) == CUDA_SUCCESS);
	CHILD_CHECK(berth_driver()->cuCtxGetCurrent(&slow.context) == CUDA_SUCCESS);
	CHILD_CHECK(!pthread_create(&thread, NULL, slow_free, NULL));
	while (!slow.inside)
		(void)sched_yield();
	(void)usleep(100000); /* the driver counts calls: this one is to be the first */
	CHILD_CHECK(!beside_slow_free());
	CHILD_CHECK(!faults_write("# none\n"));
	CHILD_CHECK(!pthread_join(thread, NULL));
	CHILD_CHECK(slow.finished && !slow.wrong && scene_booked(0) == 0);
	return 0;
}

/* A30 */
static void a_slow_free_holds_up_nobody_and_no_child(void **state)
{
	(void)state;
	scene_run(&(struct scene){ .limit = "1G", .body = slow_body });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(children_of_a_process_with_a_thread_in_every_hook_come_back),
		cmocka_unit_test(children_forked_during_the_first_cuinit_come_back),
		cmocka_unit_test(a_slow_free_holds_up_nobody_and_no_child),
	};

	return cmocka_run_group_tests_name("manners: fork", tests, NULL, NULL);
}
