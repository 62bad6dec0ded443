/* SPDX-License-Identifier: Apache-2.0
 *
 * See stack_player.h.
 */
#include "stack_player.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "driver/cuda_functions.h"

enum { TICKETS = 64, YIELD_ONE_IN = 4 };

static struct {
	__typeof__(cuInit) *init;
	__typeof__(cuCtxCreate_v2) *create;
	__typeof__(cuCtxSetCurrent) *set_current;
	__typeof__(cuMemAlloc_v2) *alloc;
	__typeof__(cuMemFree_v2) *free;
	CUcontext context;
	struct stack_hall *hall;
} player;

struct one {
	struct stack_thread *books;
	uint64_t random;
	CUdeviceptr held[STACK_HELD_MAX];
	unsigned held_count;
	pthread_t thread;
};

/* splitmix64 */
static uint64_t random_next(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ULL;
	uint64_t z = *state;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static void failed(const char *what, CUresult result)
{
	(void)fprintf(stderr, "player: %s: %d\n", what, (int)result);
	atomic_fetch_add(&player.hall->failures, 1);
}

/* All magnitudes alike, from one unit to the whole limit. */
static size_t size_choose(uint64_t *random)
{
	uint64_t max_units = player.hall->ask_max_bytes / player.hall->unit_bytes;
	unsigned magnitudes = 64 - (unsigned)__builtin_clzll(max_units);

	max_units >>= random_next(random) % magnitudes;
	return (1 + random_next(random) % max_units) * player.hall->unit_bytes;
}

static void one_free(struct one *one)
{
	CUresult result = player.free(one->held[--one->held_count]);

	if (result != CUDA_SUCCESS)
		failed("cuMemFree", result);
}

static void one_ask(struct one *one)
{
	CUdeviceptr block = 0;
	size_t bytes = size_choose(&one->random);

	atomic_fetch_add(&one->books->calls, 1);
	CUresult result = player.alloc(&block, bytes);
	atomic_fetch_add(&one->books->calls, 1);
	if (result == CUDA_SUCCESS) {
		one->held[one->held_count++] = block;
		atomic_fetch_add(&one->books->granted_count, 1);
	} else if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		atomic_fetch_add(&one->books->refused_count, 1);
	} else {
		failed("cuMemAlloc", result);
	}
	/* Others run while we hold: see contest.c. */
	if (random_next(&one->random) % YIELD_ONE_IN == 0)
		(void)sched_yield(); /* always succeeds */
	while (one->held_count == STACK_HELD_MAX ||
	       (one->held_count && random_next(&one->random) % 2))
		one_free(one);
}

static void *one_run(void *arg)
{
	struct one *one = arg;
	CUresult result = player.set_current(player.context);

	if (result != CUDA_SUCCESS)
		failed("cuCtxSetCurrent", result);
	while (atomic_fetch_sub(&player.hall->asks_left, TICKETS) > 0) {
		for (int i = 0; i < TICKETS; i++)
			one_ask(one);
	}
	while (one->held_count)
		one_free(one);
	return NULL;
}

static int driver_start(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	if (!driver)
		return -1;
	player.init = (__typeof__(player.init))dlsym(driver, "cuInit");
	player.create = (__typeof__(player.create))dlsym(driver, "cuCtxCreate_v2");
	player.set_current = (__typeof__(player.set_current))dlsym(driver, "cuCtxSetCurrent");
	player.alloc = (__typeof__(player.alloc))dlsym(driver, "cuMemAlloc_v2");
	player.free = (__typeof__(player.free))dlsym(driver, "cuMemFree_v2");
	if (!player.init || !player.create || !player.set_current || !player.alloc || !player.free)
		return -1;
	if (player.init(0) != CUDA_SUCCESS || player.create(&player.context, 0, 0) != CUDA_SUCCESS)
		return -1;
	return 0;
}

static void wait_for(_Atomic uint32_t *word)
{
	while (!atomic_load(word))
		berth_sleep_ns(BERTH_NS_PER_MS, UINT64_MAX);
}

int stack_player_run(int hall_fd, uint32_t place, uint64_t seed)
{
	struct one ones[STACK_THREADS_MAX] = { 0 };
	void *memory = mmap(NULL, sizeof(struct stack_hall), PROT_READ | PROT_WRITE, MAP_SHARED,
			    hall_fd, 0);

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody outlives a race that was broken off */
	if (memory == MAP_FAILED)
		return 1;
	player.hall = memory;
	if (driver_start()) {
		failed("the driver can't be started", CUDA_ERROR_NOT_INITIALIZED);
		return 1;
	}
	atomic_store(&player.hall->ready[place], 1);
	wait_for(&player.hall->open);
	for (uint32_t i = 0; i < player.hall->thread_count; i++) {
		ones[i].books = &player.hall->threads[place][i];
		ones[i].random = random_next(&seed);
		if (i && pthread_create(&ones[i].thread, NULL, one_run, &ones[i]))
			return 1;
	}
	(void)one_run(&ones[0]);
	for (uint32_t i = 1; i < player.hall->thread_count; i++)
		(void)pthread_join(ones[i].thread, NULL); /* it was created above */
	atomic_store(&player.hall->done[place], 1);
	wait_for(&player.hall->leave);
	return 0;
}
