/* SPDX-License-Identifier: Apache-2.0
 *
 * What a cuMemAlloc + cuMemFree pair costs on the simulated driver, bare and under the interposer
 * with a limit, with 0, 1,000 and 50,000 other allocations live.
 *
 * Two workers, this program again, one without and one with the preload, live through the whole run
 * and measure in turns, so that both meet the same disturbances; of each the best round counts, for
 * nothing makes a round too fast. Prints "key<TAB>value<TAB>unit" lines.
 */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "driver/cuda_functions.h"
#include "place.h"

#define BLOCK_BYTES 4096

static const unsigned live_counts[] = { 0, 1000, 50000 };
#define LIVE_MAX 50000

struct effort {
	unsigned rounds;
	unsigned pairs;
};

static int failed(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench-alloc: %s: %s\n", what, why);
	return 1;
}

/* The worker. */

static struct {
	__typeof__(cuInit) *init;
	__typeof__(cuCtxCreate_v2) *create;
	__typeof__(cuMemAlloc_v2) *alloc;
	__typeof__(cuMemFree_v2) *free;
} cuda;

static int cuda_start(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	CUcontext context;

	if (!driver)
		return failed("libcuda.so.1", dlerror());
	cuda.init = (__typeof__(cuda.init))dlsym(driver, "cuInit");
	cuda.create = (__typeof__(cuda.create))dlsym(driver, "cuCtxCreate_v2");
	cuda.alloc = (__typeof__(cuda.alloc))dlsym(driver, "cuMemAlloc_v2");
	cuda.free = (__typeof__(cuda.free))dlsym(driver, "cuMemFree_v2");
	if (!cuda.init || !cuda.create || !cuda.alloc || !cuda.free)
		return failed("libcuda.so.1", "a function is missing");
	if (cuda.init(0) != CUDA_SUCCESS || cuda.create(&context, 0, 0) != CUDA_SUCCESS)
		return failed("the simulated driver", "cuInit or cuCtxCreate refused");
	return 0;
}

static int live_set(unsigned count)
{
	static CUdeviceptr live[LIVE_MAX];
	static unsigned live_count;

	for (; live_count < count; live_count++) {
		if (cuda.alloc(&live[live_count], BLOCK_BYTES) != CUDA_SUCCESS)
			return failed("cuMemAlloc", "refused");
	}
	for (; live_count > count; live_count--) {
		if (cuda.free(live[live_count - 1]) != CUDA_SUCCESS)
			return failed("cuMemFree", "refused");
	}
	return 0;
}

static int measure(unsigned pairs, double *ret_ns)
{
	uint64_t start_ns = berth_clock_ns();
	CUdeviceptr block;

	for (unsigned i = 0; i < pairs; i++) {
		if (cuda.alloc(&block, BLOCK_BYTES) != CUDA_SUCCESS ||
		    cuda.free(block) != CUDA_SUCCESS)
			return failed("a pair", "refused");
	}
	*ret_ns = (double)(berth_clock_ns() - start_ns) / pairs;
	return 0;
}

/* One order a line, "LIVE PAIRS"; one answer a line, nanoseconds a pair. */
static int worker(void)
{
	unsigned live_count;
	unsigned pairs;
	double ns;
	int err = cuda_start();

	while (!err && scanf("%u %u", &live_count, &pairs) == 2) {
		err = live_count > LIVE_MAX || live_set(live_count) || measure(pairs, &ns);
		if (!err && (printf("%.3f\n", ns) < 0 || fflush(stdout)))
			err = failed("the answer", strerror(errno));
	}
	return err;
}

/* The conductor. */

struct player {
	pid_t pid;
	FILE *orders;
	FILE *answers;
	double best_ns;
};

static struct place place;

static int player_environment(bool berth)
{
	char value[4200];

	(void)snprintf(value, sizeof(value), "%s/lib/sim", place.build);
	if (setenv("LD_LIBRARY_PATH", value, 1) || setenv("BERTH_STATE_DIR", place.scratch, 1) ||
	    setenv("BERTH_SIM_GPUS", "1x8G", 1) || unsetenv("BERTH_REGION") ||
	    unsetenv("CUDA_DEVICE_MEMORY_SHARED_CACHE"))
		return -1;
	(void)snprintf(value, sizeof(value), "%s/lib/libberth-cuda.so", place.build);
	if (!berth)
		return unsetenv("LD_PRELOAD") || unsetenv("CUDA_DEVICE_MEMORY_LIMIT");
	if (access(value, R_OK))
		return -1;
	return setenv("LD_PRELOAD", value, 1) || setenv("CUDA_DEVICE_MEMORY_LIMIT", "4G", 1);
}

static int player_start(struct player *player, bool berth)
{
	int orders[2];
	int answers[2];

	if (pipe(orders) || pipe(answers))
		return failed("pipe", strerror(errno));
	player->pid = fork();
	if (player->pid < 0)
		return failed("fork", strerror(errno));
	if (!player->pid) {
		if (dup2(orders[0], 0) < 0 || dup2(answers[1], 1) < 0)
			_exit(failed("dup2", strerror(errno)));
		for (int fd = 3; fd < 16; fd++)
			(void)close(fd);
		if (player_environment(berth))
			_exit(failed("the environment", strerror(errno)));
		execl("/proc/self/exe", "bench-alloc", "--worker", (char *)NULL);
		_exit(failed("exec", strerror(errno)));
	}
	(void)close(orders[0]);
	(void)close(answers[1]);
	player->orders = fdopen(orders[1], "w");
	player->answers = fdopen(answers[0], "r");
	return player->orders && player->answers ? 0 : failed("fdopen", strerror(errno));
}

static int player_round(struct player *player, unsigned live_count, unsigned pairs)
{
	double ns;

	if (fprintf(player->orders, "%u %u\n", live_count, pairs) < 0 || fflush(player->orders) ||
	    fscanf(player->answers, "%lf", &ns) != 1)
		return failed("a worker", "it ended early");
	if (player->best_ns == 0 || ns < player->best_ns)
		player->best_ns = ns;
	return 0;
}

static int player_end(struct player *player)
{
	int status = 0;

	if (player->orders)
		(void)fclose(player->orders); /* the worker ends on the end of its orders */
	if (player->pid <= 0 || waitpid(player->pid, &status, 0) != player->pid)
		return 1;
	return status != 0;
}

static int compare(struct player *bare, struct player *berth, unsigned live_count,
		   const struct effort *effort)
{
	bare->best_ns = 0;
	berth->best_ns = 0;
	for (unsigned round = 0; round < effort->rounds; round++) {
		if (player_round(bare, live_count, effort->pairs) ||
		    player_round(berth, live_count, effort->pairs))
			return 1;
	}
	printf("alloc.bare_ns.%u\t%.1f\tns\n", live_count, bare->best_ns);
	printf("alloc.berth_ns.%u\t%.1f\tns\n", live_count, berth->best_ns);
	printf("alloc.overhead_ns.%u\t%.1f\tns\n", live_count, berth->best_ns - bare->best_ns);
	return fflush(stdout);
}

static int conduct(const struct effort *effort)
{
	struct player bare = { 0 };
	struct player berth = { 0 };
	int err = player_start(&bare, false) || player_start(&berth, true);

	for (size_t i = 0; !err && i < BERTH_ARRAY_LEN(live_counts); i++)
		err = compare(&bare, &berth, live_counts[i], effort);
	err |= player_end(&bare);
	err |= player_end(&berth);
	return err;
}

int main(int argc, char **argv)
{
	struct effort effort = { .rounds = 200, .pairs = 20000 };
	int err;

	if (argc == 2 && !strcmp(argv[1], "--worker"))
		return worker();
	if (argc == 2 && !strcmp(argv[1], "--quick"))
		effort = (struct effort){ .rounds = 200, .pairs = 5000 };
	else if (argc != 1)
		return failed("usage", "bench-alloc [--quick]") + 1;
	err = place_open(&place);
	if (err)
		return failed("a scratch directory", strerror(-err));
	err = conduct(&effort);
	place_close(&place);
	return err;
}
