/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight programs allocate and free 256 MiB blocks under the preload while in each a watch thread asks
 * NVML, through Berth, what HAMi's watcher asks every 120 ms: use, memory, processes. Once each NVML
 * answer takes 50 ms, once none; the two kinds of runs take turns, so that noise meets both. An
 * allocation must not be felt to wait for NVML: the ratio of the two p99 is what this is about.
 *
 * The simulated driver takes 600 us for an allocation, as a real one does for such a block (and
 * doesn't use the processor meanwhile, so that eight of them measure Berth and not the queue for it).
 * Blocks are not written to: they take no memory of this machine.
 */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "driver/cuda_functions.h"
#include "driver/nvml_functions.h"
#include "place.h"
#include "samples.h"

#define BLOCK_BYTES ((size_t)256 << 20)
#define WATCH_NS    (120 * BERTH_NS_PER_MS)

enum { WORKERS = 8, HELD = 2, SAMPLES_MAX = 1 << 16 };

struct worker {
	_Alignas(64) uint32_t sample_count;
	_Atomic uint64_t poll_count;
	_Atomic uint64_t poll_ns;
	uint64_t sample_ns[SAMPLES_MAX]; /* each an allocation */
};

struct hall {
	_Atomic uint32_t ready_count;
	_Atomic bool open;
	_Atomic bool closed;
	struct worker workers[WORKERS];
};

static int failed(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench-alloc-storm: %s: %s\n", what, why);
	return 1;
}

/* ---- the worker: this program again, under the preload ---- */

static struct {
	__typeof__(cuInit) *init;
	__typeof__(cuCtxCreate_v2) *create;
	__typeof__(cuMemAlloc_v2) *alloc;
	__typeof__(cuMemFree_v2) *free;
	__typeof__(nvmlInit_v2) *nvml_init;
	__typeof__(nvmlDeviceGetHandleByIndex_v2) *nvml_handle;
	__typeof__(nvmlDeviceGetUtilizationRates) *nvml_use;
	__typeof__(nvmlDeviceGetMemoryInfo) *nvml_memory;
	__typeof__(nvmlDeviceGetComputeRunningProcesses_v3) *nvml_processes;
	struct hall *hall;
	struct worker *worker;
} own;

static void *symbol(void *library, const char *name)
{
	void *found = library ? dlsym(library, name) : NULL;

	if (!found)
		_exit(failed(name, "not found"));
	return found;
}

static void symbols_find(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);

	own.init = (__typeof__(own.init))symbol(cuda, "cuInit");
	own.create = (__typeof__(own.create))symbol(cuda, "cuCtxCreate_v2");
	own.alloc = (__typeof__(own.alloc))symbol(cuda, "cuMemAlloc_v2");
	own.free = (__typeof__(own.free))symbol(cuda, "cuMemFree_v2");
	own.nvml_init = (__typeof__(own.nvml_init))symbol(nvml, "nvmlInit_v2");
	own.nvml_handle =
		(__typeof__(own.nvml_handle))symbol(nvml, "nvmlDeviceGetHandleByIndex_v2");
	own.nvml_use = (__typeof__(own.nvml_use))symbol(nvml, "nvmlDeviceGetUtilizationRates");
	own.nvml_memory = (__typeof__(own.nvml_memory))symbol(nvml, "nvmlDeviceGetMemoryInfo");
	own.nvml_processes = (__typeof__(own.nvml_processes))symbol(
		nvml, "nvmlDeviceGetComputeRunningProcesses_v3");
}

static void poll_once(nvmlDevice_t device)
{
	nvmlProcessInfo_t processes[2 * WORKERS];
	unsigned int count = 2 * WORKERS;
	nvmlUtilization_t use;
	nvmlMemory_t memory;
	uint64_t start_ns = berth_clock_ns();

	if (own.nvml_use(device, &use) || own.nvml_memory(device, &memory) ||
	    own.nvml_processes(device, &count, processes))
		_exit(failed("NVML", "an answer is an error"));
	atomic_fetch_add(&own.worker->poll_ns, berth_clock_ns() - start_ns);
	atomic_fetch_add(&own.worker->poll_count, 1);
}

static void *watch(void *arg)
{
	nvmlDevice_t device = arg;

	while (!atomic_load(&own.hall->closed)) {
		poll_once(device);
		berth_sleep_ns(WATCH_NS, UINT64_MAX);
	}
	return NULL;
}

static int blocks_play(void)
{
	CUdeviceptr held[HELD];
	unsigned count = 0;

	while (!atomic_load(&own.hall->closed)) {
		uint64_t start_ns = berth_clock_ns();
		CUresult result = own.alloc(&held[count], BLOCK_BYTES);
		uint64_t ns = berth_clock_ns() - start_ns;

		if (result != CUDA_SUCCESS)
			return failed("cuMemAlloc", "refused");
		if (own.worker->sample_count < SAMPLES_MAX)
			own.worker->sample_ns[own.worker->sample_count++] = ns;
		for (count++; count == HELD; count--) {
			if (own.free(held[count - 1]) != CUDA_SUCCESS)
				return failed("cuMemFree", "refused");
		}
	}
	return 0;
}

static int worker_run(int hall_fd, unsigned index)
{
	void *memory =
		mmap(NULL, sizeof(struct hall), PROT_READ | PROT_WRITE, MAP_SHARED, hall_fd, 0);
	nvmlDevice_t device = NULL;
	CUcontext context = NULL;
	pthread_t watcher;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody outlives a bench that was broken off */
	if (memory == MAP_FAILED || index >= WORKERS)
		return failed("the hall", strerror(errno));
	own.hall = memory;
	own.worker = &own.hall->workers[index];
	symbols_find();
	if (own.init(0) || own.create(&context, 0, 0) || own.nvml_init() ||
	    own.nvml_handle(0, &device))
		return failed("the simulated driver", "it refused");
	atomic_fetch_add(&own.hall->ready_count, 1);
	while (!atomic_load(&own.hall->open))
		berth_sleep_ns(BERTH_NS_PER_MS, UINT64_MAX);
	if (pthread_create(&watcher, NULL, watch, device))
		return failed("the watch thread", "not created");
	int err = blocks_play();
	(void)pthread_join(watcher, NULL); /* it was created above */
	return err;
}

/* ---- the conductor ---- */

struct kind {
	const char *faults;
	struct samples samples;
	uint64_t poll_count;
	uint64_t poll_ns;
};

static struct place place;

static int environment_set(const char *faults)
{
	char value[4200];

	(void)snprintf(value, sizeof(value), "%s/lib/sim", place.build);
	if (setenv("LD_LIBRARY_PATH", value, 1) || setenv("BERTH_STATE_DIR", place.scratch, 1) ||
	    setenv("BERTH_SIM_GPUS", "1x16G", 1) || setenv("BERTH_SIM_FAULTS", faults, 1) ||
	    setenv("CUDA_DEVICE_MEMORY_LIMIT", "12G", 1) || unsetenv("BERTH_REGION") ||
	    unsetenv("CUDA_DEVICE_MEMORY_SHARED_CACHE"))
		return -1;
	(void)snprintf(value, sizeof(value), "%s/lib/libberth-cuda.so", place.build);
	return access(value, R_OK) || setenv("LD_PRELOAD", value, 1);
}

static pid_t worker_start(const struct kind *kind, int hall_fd, unsigned index)
{
	char fd_text[16];
	char index_text[16];
	pid_t pid = fork();

	if (pid)
		return pid;
	(void)snprintf(fd_text, sizeof(fd_text), "%d", hall_fd);
	(void)snprintf(index_text, sizeof(index_text), "%u", index);
	if (environment_set(kind->faults))
		_exit(failed("the environment", strerror(errno)));
	execl("/proc/self/exe", "bench-alloc-storm", "--worker", fd_text, index_text, (char *)NULL);
	_exit(failed("exec", strerror(errno)));
}

static int workers_ready(struct hall *hall)
{
	while (atomic_load(&hall->ready_count) < WORKERS) {
		if (waitpid(-1, NULL, WNOHANG) != 0)
			return failed("a worker", "it ended early");
		berth_sleep_ns(BERTH_NS_PER_MS, UINT64_MAX);
	}
	return 0;
}

static int samples_collect(struct kind *kind, const struct hall *hall)
{
	for (unsigned w = 0; w < WORKERS; w++) {
		const struct worker *worker = &hall->workers[w];

		for (uint32_t i = 0; i < worker->sample_count; i++) {
			if (samples_add(&kind->samples, worker->sample_ns[i]))
				return failed("samples", "no memory");
		}
		kind->poll_count += atomic_load(&worker->poll_count);
		kind->poll_ns += atomic_load(&worker->poll_ns);
	}
	return 0;
}

static int round_play(struct kind *kind, struct hall *hall, int hall_fd, uint64_t duration_ns)
{
	int err = 0;

	for (unsigned w = 0; !err && w < WORKERS; w++)
		err = worker_start(kind, hall_fd, w) < 0;
	err = err || workers_ready(hall);
	atomic_store(&hall->open, true);
	if (!err)
		berth_sleep_ns(duration_ns, UINT64_MAX);
	atomic_store(&hall->closed, true);
	for (int status = 0; wait(&status) > 0;)
		err |= status != 0;
	return err ? failed("a round", "a worker failed") : samples_collect(kind, hall);
}

static int round_run(struct kind *kind, uint64_t duration_ns)
{
	int fd = memfd_create("berth-alloc-storm", 0);
	void *memory = MAP_FAILED;
	int err;

	if (fd >= 0 && ftruncate(fd, sizeof(struct hall)) == 0)
		memory = mmap(NULL, sizeof(struct hall), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return failed("the hall", strerror(errno));
	err = round_play(kind, memory, fd, duration_ns);
	(void)munmap(memory, sizeof(struct hall));
	(void)close(fd);
	return err;
}

static double us(struct kind *kind, unsigned percent)
{
	return (double)samples_percentile(&kind->samples, percent) / 1000;
}

static void kinds_print(struct kind *slow, struct kind *instant)
{
	printf("allocstorm.p50_us\t%.1f\tus\n", us(slow, 50));
	printf("allocstorm.p99_us\t%.1f\tus\n", us(slow, 99));
	printf("allocstorm.instant_p50_us\t%.1f\tus\n", us(instant, 50));
	printf("allocstorm.instant_p99_us\t%.1f\tus\n", us(instant, 99));
	printf("allocstorm.ratio\t%.3f\tratio\n", us(slow, 99) / us(instant, 99));
	printf("allocstorm.allocations\t%zu\tcount\n", slow->samples.count);
	printf("allocstorm.instant_allocations\t%zu\tcount\n", instant->samples.count);
	printf("allocstorm.polls\t%" PRIu64 "\tcount\n", slow->poll_count);
	printf("allocstorm.poll_ms\t%.1f\tms\n",
	       slow->poll_count ? (double)slow->poll_ns / (double)slow->poll_count / 1e6 : 0);
}

int main(int argc, char **argv)
{
	struct kind slow = { .faults = "cuMemAlloc_v2:sleep=600us;nvmlDeviceGet*:sleep=50ms" };
	struct kind instant = { .faults = "cuMemAlloc_v2:sleep=600us" };
	bool quick = argc == 2 && !strcmp(argv[1], "--quick");
	unsigned rounds = quick ? 3 : 10;
	int err = 0;

	if (argc == 4 && !strcmp(argv[1], "--worker"))
		return worker_run((int)strtol(argv[2], NULL, 10),
				  (unsigned)strtoul(argv[3], NULL, 10));
	if (argc > 1 && !quick)
		return failed("usage", "bench-alloc-storm [--quick]") + 1;
	err = place_open(&place);
	if (err)
		return failed("a scratch directory", strerror(-err));
	for (unsigned round = 0; !err && round < 2 * rounds; round++)
		err = round_run(round % 2 ? &slow : &instant, 3 * BERTH_NS_PER_S);
	if (!err)
		kinds_print(&slow, &instant);
	samples_done(&slow.samples);
	samples_done(&instant.samples);
	place_close(&place);
	return err;
}
