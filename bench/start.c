/* SPDX-License-Identifier: Apache-2.0
 *
 * What a container's start costs when many programs start in it at once. Their pids mean nothing outside,
 * so their host pids have to be found; a context takes 297 ms to make, as on a real card. In a fresh
 * pid namespace, on the simulated driver, all call cuInit at the same moment, and when the last is through,
 * all make their first context. Three ways, in one run:
 *
 *	broker     the preloaded library, and a broker on the host (berthd)
 *	probe      the preloaded library without a broker: proved with the first context (src/interpose/probe.h)
 *	throwaway  without us: in cuInit, one process at a time under one lock, each makes a context and
 *	           destroys it to see which pid comes into NVML's list and leaves it again
 *
 * start.N.WAY.init_ms: until the last of N is through cuInit; .ready_ms: with the first context, the
 * sum of both; .found: how many know their host pid then. --quick compares 40, since 300 by the third way take
 * 89 s; the others are measured with 300, too. Needs root, for the pid namespace.
 * Prints "key<TAB>value<TAB>unit" lines.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "crowd.h"
#include "driver/cuda_functions.h"
#include "place.h"
#include "region/snapshot.h"

enum way { BROKER, PROBE, THROWAWAY, WAY_COUNT };
static const char *const way_names[WAY_COUNT] = { "broker", "probe", "throwaway" };

enum step { STEP_LOAD = 1, STEP_INIT, STEP_CONTEXT };

#define SLOW_CONTEXT "cuCtxCreate_v2:sleep=297ms"
#define BROKER_UP_NS (10 * BERTH_NS_PER_S)

static struct place place;

/* In the namespace. */

static struct {
	__typeof__(cuInit) *init;
	__typeof__(cuCtxCreate_v2) *create;
	__typeof__(cuCtxDestroy_v2) *destroy;
} driver;

static int driver_load(struct berth_reason *reason)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library)
		return berth_reason_set(reason, -ENOENT, "libcuda.so.1: %s", dlerror());
	driver.init = (__typeof__(driver.init))dlsym(library, "cuInit");
	driver.create = (__typeof__(driver.create))dlsym(library, "cuCtxCreate_v2");
	driver.destroy = (__typeof__(driver.destroy))dlsym(library, "cuCtxDestroy_v2");
	return driver.init && driver.create && driver.destroy
		       ? 0
		       : berth_reason_set(reason, -ENOENT, "the driver lacks a function");
}

static int answered(CUresult res, const char *call, struct berth_reason *reason)
{
	return res == CUDA_SUCCESS
		       ? 0
		       : berth_reason_set(reason, -EIO, "%s answered %d", call, (int)res);
}

/* The older strategy; the lock's end is the process's or this descriptor's. */
static int throw_away(struct berth_reason *reason)
{
	struct flock whole = { .l_type = F_WRLCK };
	BERTH_FD int lock = open(getenv("BENCH_START_LOCK"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CUcontext context = NULL;

	if (lock < 0 || fcntl(lock, F_SETLKW, &whole) < 0)
		return berth_reason_set(reason, -errno, "the lock can't be taken");
	int r = answered(driver.create(&context, 0, 0), "cuCtxCreate", reason);
	return r < 0 ? r : answered(driver.destroy(context), "cuCtxDestroy", reason);
}

static int act(void *arg, unsigned step, struct crowd_member *self)
{
	const enum way *way = arg;
	CUcontext context = NULL;

	if (step == STEP_LOAD)
		return driver_load(&self->reason);
	if (step == STEP_CONTEXT)
		return answered(driver.create(&context, 0, 0), "cuCtxCreate", &self->reason);
	int r = answered(driver.init(0), "cuInit", &self->reason);
	return r < 0 || *way != THROWAWAY ? r : throw_away(&self->reason);
}

/* How many of the share know their host pid. */
static int found_count(uint32_t *ret_count)
{
	struct berth_region *region = NULL;
	struct berth_snapshot *snapshot = NULL;
	int r = berth_region_view(getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE"), &region, NULL);

	if (r == 0)
		r = berth_snapshot_take(region, BERTH_SNAPSHOT_LIVENESS, &snapshot);
	*ret_count = 0;
	for (uint32_t i = 0; r == 0 && i < snapshot->seat_count; i++)
		*ret_count += snapshot->seats[i].alive && snapshot->seats[i].host_pid != 0;
	berth_snapshot_free(snapshot);
	berth_region_close(region);
	return r;
}

static int timed_step(struct crowd *crowd, double *ret_ms, struct berth_reason *reason)
{
	uint64_t start_ns = berth_clock_ns();
	int r = crowd_step(crowd, reason);

	*ret_ms = (double)(berth_clock_ns() - start_ns) / (double)BERTH_NS_PER_MS;
	return r;
}

static int crowd_run(uint32_t count, enum way way, struct berth_reason *reason)
{
	struct crowd crowd;
	double load_ms, init_ms = 0, context_ms = 0;
	uint32_t found = 0;
	int r = crowd_gather(&crowd, count, act, &way);

	if (r < 0)
		return berth_reason_set(reason, r, "%u programs can't be started", count);
	r = timed_step(&crowd, &load_ms, reason);
	if (r == 0)
		r = timed_step(&crowd, &init_ms, reason);
	if (r == 0)
		r = timed_step(&crowd, &context_ms, reason);
	if (r == 0 && way != THROWAWAY)
		r = found_count(&found);
	(void)crowd_end(&crowd, CROWD_KILLED);
	if (r < 0)
		return r;
	(void)printf("start.%u.%s.init_ms\t%.1f\tms\n", count, way_names[way], init_ms);
	(void)printf("start.%u.%s.ready_ms\t%.1f\tms\n", count, way_names[way],
		     init_ms + context_ms);
	if (way != THROWAWAY)
		(void)printf("start.%u.%s.found\t%u\tcount\n", count, way_names[way], found);
	return 0;
}

static int inside(const char *word)
{
	struct berth_reason reason = { "" };
	unsigned count = 0, way = 0;

	if (sscanf(word, "%u,%u", &count, &way) != 2 || count == 0 || way >= WAY_COUNT)
		return 2;
	int r = crowd_run(count, (enum way)way, &reason);
	if (r < 0)
		(void)fprintf(stderr, "bench-start: %s: %s\n", way_names[way],
			      reason.text[0] ? reason.text : strerror(-r));
	return r < 0;
}

/* Outside. */

static int environment_make(enum way way)
{
	char value[4200];
	static const char *const unwanted[] = { "BERTH_REGION", "BERTH_SHARE", "BERTH_LOG_LEVEL",
						"CUDA_VISIBLE_DEVICES", "LIBVGPU_HOSTPID_BROKER" };

	for (size_t i = 0; i < BERTH_ARRAY_LEN(unwanted); i++)
		(void)unsetenv(unwanted[i]); /* fails for bad names only */
	(void)snprintf(value, sizeof value, "%s/lib/sim", place.build);
	if (setenv("LD_LIBRARY_PATH", value, 1) || setenv("BERTH_SIM_GPUS", "1x80G", 1) ||
	    setenv("BERTH_SIM_PROC", "/proc", 1) || setenv("BERTH_SIM_FAULTS", SLOW_CONTEXT, 1))
		return -errno;
	(void)snprintf(value, sizeof value, "%s/lock", place.scratch);
	if (setenv("BENCH_START_LOCK", value, 1) || setenv("BERTH_STATE_DIR", place.scratch, 1))
		return -errno;
	if (way == THROWAWAY)
		return unsetenv("LD_PRELOAD") ? -errno : 0;
	(void)snprintf(value, sizeof value, "%s/region", place.scratch);
	if (setenv("CUDA_DEVICE_MEMORY_SHARED_CACHE", value, 1) ||
	    setenv("CUDA_DEVICE_MEMORY_LIMIT", "70G", 1))
		return -errno;
	(void)unlink(value); /* each run makes its own */
	(void)snprintf(value, sizeof value, "%s/lib/libberth-cuda.so", place.build);
	return access(value, R_OK) < 0 || setenv("LD_PRELOAD", value, 1) ? -errno : 0;
}

static pid_t broker_start(const char *node)
{
	char program[4200], socket_path[128];
	uint64_t deadline_ns = berth_deadline_after(BROKER_UP_NS);

	(void)snprintf(program, sizeof program, "%s/bin/berthd", place.build);
	(void)snprintf(socket_path, sizeof socket_path, "%s/broker.sock", node);
	pid_t pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* else it stays until killed */
		(void)setenv("BERTH_NODE_DIR", node, 1);
		execl(program, "berthd", "--any-namespace", (char *)NULL);
		_exit(127);
	}
	while (pid > 0 && access(socket_path, F_OK) < 0 && !berth_deadline_passed(deadline_ns))
		berth_sleep_ns(10 * BERTH_NS_PER_MS, deadline_ns);
	return pid;
}

static void broker_end(pid_t pid)
{
	if (pid <= 0)
		return;
	(void)kill(pid, SIGTERM); /* ours, and not waited for yet */
	(void)waitpid(pid, NULL, 0);
}

/* The first process of a new pid namespace, with the outer /proc. */
static int namespace_run(uint32_t count, enum way way)
{
	char word[32];
	int status = 0;

	(void)snprintf(word, sizeof word, "%u,%u", count, (unsigned)way); /* always fits */
	pid_t pid = fork();
	if (pid == 0) {
		if (environment_make(way) < 0 || unshare(CLONE_NEWPID) < 0)
			_exit(126);
		pid_t first = fork();
		if (first == 0) {
			execl("/proc/self/exe", "bench-start", "--inside", word, (char *)NULL);
			_exit(127);
		}
		if (first < 0 || waitpid(first, &status, 0) != first)
			_exit(125);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 124);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -errno;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 126) {
		(void)fprintf(stderr, "bench-start: no pid namespace can be made: needs root\n");
		return -EPERM;
	}
	return status == 0 ? 0 : -EIO;
}

static int way_run(uint32_t count, enum way way, double *ret_ready_ms)
{
	char node[80];
	pid_t broker = 0;
	double ready_ms = 0;
	char line[256];
	int pipe_fds[2];

	(void)snprintf(node, sizeof node, "%s/node-%s", place.scratch, way_names[way]);
	if ((mkdir(node, 0755) < 0 && errno != EEXIST) || setenv("BERTH_NODE_DIR", node, 1) ||
	    pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	if (way == BROKER)
		broker = broker_start(node);
	(void)fflush(stdout);
	int kept = dup(STDOUT_FILENO);
	(void)dup2(pipe_fds[1], STDOUT_FILENO); /* what is printed passes through here */
	(void)close(pipe_fds[1]);               /* a copy */
	int r = namespace_run(count, way);
	(void)dup2(kept, STDOUT_FILENO);
	(void)close(kept); /* a copy */
	broker_end(broker);
	FILE *printed = fdopen(pipe_fds[0], "r");
	while (printed && fgets(line, sizeof line, printed)) {
		const char *found = strstr(line, ".ready_ms\t");

		if (found)
			ready_ms = strtod(found + sizeof ".ready_ms\t" - 1, NULL);
		(void)fputs(line, stdout);
	}
	if (printed)
		(void)fclose(printed); /* only read */
	(void)fflush(stdout);
	*ret_ready_ms = ready_ms;
	return r;
}

static int size_run(uint32_t count, bool with_throwaway)
{
	double ready_ms[WAY_COUNT] = { 0 };
	int r = 0;

	for (unsigned way = 0; r == 0 && way < WAY_COUNT; way++) {
		if (way != THROWAWAY || with_throwaway)
			r = way_run(count, (enum way)way, &ready_ms[way]);
	}
	for (unsigned way = 0; r == 0 && with_throwaway && way < THROWAWAY; way++)
		(void)printf("start.%u.throwaway_over_%s\t%.1f\tratio\n", count, way_names[way],
			     ready_ms[THROWAWAY] / ready_ms[way]);
	return r;
}

int main(int argc, char **argv)
{
	bool quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
	int r;

	if (argc == 3 && strcmp(argv[1], "--inside") == 0)
		return inside(argv[2]);
	if (argc > 2 || (argc == 2 && !quick)) {
		(void)fprintf(stderr, "usage: %s [--quick]\n", argv[0]);
		return 2;
	}
	r = place_open(&place);
	if (r == 0 && chmod(place.scratch, 0755) < 0)
		r = -errno;
	if (r == 0)
		r = size_run(40, true);
	if (r == 0)
		r = size_run(300, !quick);
	place_close(&place);
	if (r < 0)
		(void)fprintf(stderr, "bench-start: %s\n", strerror(-r));
	return r < 0;
}
