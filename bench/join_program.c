/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs with the library preloaded, on the simulated driver, that call cuInit at once. This
 * program again, started anew with the preload, gathers them: each member loads the driver first and
 * then calls cuInit on the word. Our part is what the library itself says of it at its debug level
 * (looking for the region's path, joining, taking a seat); the rest is the driver's.
 *
 * With a driver whose cuInit takes 5 ms: how long it takes until all of 200 are through, over what
 * it would take if these 5 ms were all, one after the other on each processor. Sleeping drivers
 * don't need a processor, so it can be below 1; a lock of ours across the driver's call would make
 * it the number of processors.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "crowd.h"
#include "driver/cuda_functions.h"
#include "join.h"
#include "place.h"

enum step { STEP_LOAD = 1, STEP_INIT };

#define SLOW_INIT_NS (5 * BERTH_NS_PER_MS)
#define SLOW_COUNT   200

static struct place place;

/* In the preloaded process. */

static int act(void *arg, unsigned step, struct crowd_member *self)
{
	static __typeof__(cuInit) *init;

	(void)arg;
	if (step == STEP_LOAD) {
		void *driver = dlopen("libcuda.so.1", RTLD_NOW);

		init = driver ? (__typeof__(init))dlsym(driver, "cuInit") : NULL;
		return init ? 0
			    : berth_reason_set(&self->reason, -ENOENT, "libcuda.so.1: %s",
					       dlerror());
	}
	CUresult result = init(0);
	return result == CUDA_SUCCESS
		       ? 0
		       : berth_reason_set(&self->reason, -EIO, "cuInit answered %d", (int)result);
}

static int crowd_run(uint32_t count, uint64_t *ret_wall_ns, struct berth_reason *reason)
{
	struct crowd crowd;
	int r = crowd_gather(&crowd, count, act, NULL);

	if (r < 0)
		return berth_reason_set(reason, r, "%u programs can't be started", count);
	r = crowd_step(&crowd, reason);
	uint64_t start_ns = berth_clock_ns();
	if (r == 0)
		r = crowd_step(&crowd, reason);
	*ret_wall_ns = berth_clock_ns() - start_ns;
	(void)crowd_end(&crowd, CROWD_KILLED);
	return r;
}

/* "… start: region PATH joined, seat 3, 120 us, 0 dead seats reaped, …" */
static int log_read(const char *path, struct samples *samples)
{
	FILE *log = fopen(path, "re");
	char line[4096];
	int r = log ? 0 : -errno;

	while (r == 0 && fgets(line, sizeof line, log)) {
		const char *found = strstr(line, "start: region ");
		unsigned long long microseconds;

		found = found ? strstr(found, ", seat ") : NULL;
		if (found && sscanf(found, ", seat %*u, %llu us", &microseconds) == 1)
			r = samples_add(samples, microseconds * BERTH_NS_PER_US);
	}
	if (log)
		(void)fclose(log); /* only read */
	return r;
}

static void figures_print(uint32_t count, struct samples *samples)
{
	static const struct {
		unsigned percent;
		const char *name;
	} figures[] = { { 50, "p50" }, { 99, "p99" }, { 100, "max" } };

	for (size_t i = 0; i < BERTH_ARRAY_LEN(figures); i++)
		(void)printf("join.%u.preload.%s_us\t%.1f\tus\n", count, figures[i].name,
			     (double)samples_percentile(samples, figures[i].percent) /
				     (double)BERTH_NS_PER_US);
}

static int measured_run(uint32_t count, unsigned rounds, struct berth_reason *reason)
{
	struct samples samples = { 0 };
	uint64_t wall_ns;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < rounds; i++)
		r = crowd_run(count, &wall_ns, reason);
	if (r == 0)
		r = log_read(getenv("BERTH_LOG_FILE"), &samples);
	if (r == 0 && samples.count != (size_t)count * rounds)
		r = berth_reason_set(reason, -EBADMSG, "%zu of %u programs told their part",
				     samples.count, count * rounds);
	if (r == 0)
		figures_print(count, &samples);
	samples_done(&samples);
	return r;
}

static int slow_run(uint32_t count, unsigned rounds, struct berth_reason *reason)
{
	double ideal_ns =
		(double)count * (double)SLOW_INIT_NS / (double)sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t worst_ns = 0;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < rounds; i++) {
		uint64_t wall_ns = 0;

		r = crowd_run(count, &wall_ns, reason);
		worst_ns = wall_ns > worst_ns ? wall_ns : worst_ns;
	}
	if (r < 0)
		return r;
	(void)printf("join.e5_wall_ms\t%.1f\tms\n", (double)worst_ns / (double)BERTH_NS_PER_MS);
	(void)printf("join.e5_wall_over_ideal\t%.2f\tratio\n", (double)worst_ns / ideal_ns);
	return 0;
}

int program_live(const char *word)
{
	struct berth_reason reason = { "" };
	bool slow = getenv("BERTH_SIM_FAULTS") != NULL;
	uint32_t count = 0;
	unsigned rounds = 0;

	if (sscanf(word, "%ux%u", &count, &rounds) != 2 || count == 0)
		return 2;
	int r = slow ? slow_run(count, rounds, &reason) : measured_run(count, rounds, &reason);
	if (r < 0)
		(void)fprintf(stderr, "bench-join: programs: %s\n", reason.text);
	return r < 0;
}

/* In the conductor. */

static int environment_make(bool slow)
{
	char value[4200];

	(void)snprintf(value, sizeof value, "%s/log", place.scratch);
	if (unlink(value) < 0 && errno != ENOENT)
		return -errno;
	if (setenv("BERTH_LOG_FILE", value, 1) || setenv("BERTH_LOG_LEVEL", "debug", 1) ||
	    setenv("BERTH_STATE_DIR", place.scratch, 1) || setenv("BERTH_SIM_GPUS", "2x8G", 1) ||
	    setenv("CUDA_DEVICE_MEMORY_LIMIT", "4G", 1) || unsetenv("BERTH_REGION") ||
	    unsetenv("CUDA_DEVICE_MEMORY_SHARED_CACHE") || unsetenv("BERTH_SIM_FAULTS"))
		return -errno;
	if (slow && setenv("BERTH_SIM_FAULTS", "cuInit:sleep=5ms", 1))
		return -errno;
	(void)snprintf(value, sizeof value, "%s/lib/sim", place.build);
	if (setenv("LD_LIBRARY_PATH", value, 1))
		return -errno;
	(void)snprintf(value, sizeof value, "%s/lib/libberth-cuda.so", place.build);
	return access(value, R_OK) < 0 || setenv("LD_PRELOAD", value, 1) ? -errno : 0;
}

static int program_run(uint32_t count, unsigned rounds, bool slow, struct berth_reason *reason)
{
	char word[32];
	int status = 0;

	(void)snprintf(word, sizeof word, "%ux%u", count, rounds); /* always fits */
	(void)fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		if (environment_make(slow) == 0)
			execl("/proc/self/exe", "bench-join", "--program", word, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return berth_reason_set(reason, -errno, "programs can't be started");
	return status == 0 ? 0
			   : berth_reason_set(reason, -EIO, "the preloaded programs failed (%d)",
					      status);
}

int programs_run(bool quick, struct berth_reason *reason)
{
	static const struct {
		uint32_t count;
		unsigned rounds;
	} sizes[] = { { 1, 50 }, { 8, 13 }, { 18, 6 }, { 64, 3 } };
	unsigned factor = quick ? 1 : 5;
	int r = place_open(&place);

	if (r < 0)
		return berth_reason_set(reason, r, "no scratch directory");
	for (size_t i = 0; r == 0 && i < BERTH_ARRAY_LEN(sizes); i++)
		r = program_run(sizes[i].count, sizes[i].rounds * factor, false, reason);
	if (r == 0)
		r = program_run(SLOW_COUNT, factor, true, reason);
	place_close(&place);
	return r;
}
