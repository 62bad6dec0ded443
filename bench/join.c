/* SPDX-License-Identifier: Apache-2.0
 *
 * What starting costs when many start at once: our part of cuInit, in each of 1 to 1000 processes
 * that begin at the same moment.
 *
 * Our part is what the preloaded library does before it calls the driver's cuInit, without reading
 * the environment: looking at the region for its GPUs, joining (or making) it, merging limits, and
 * taking a seat. It is measured in each process around exactly that, by the wall, which includes
 * the time that the scheduler gave to others, and by the processor. Four conditions: no region yet
 * ("fresh": all find none at once), one that was just made ("made"), one that as many have left in
 * order ("left"), one in which as many were killed ("killed"). Without a condition in its name a
 * figure is that of the worst one.
 *
 * Beside it, in the same run, what this replaces: a process-shared semaphore under which each
 * joiner looks at all slots from the first one, and asks of each whether its process lives. And up
 * to 64, and for the driver that takes its time, real programs with the library preloaded on the
 * simulated driver (join_program.c). Prints "key<TAB>value<TAB>unit" lines.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/process.h"
#include "crowd.h"
#include "join.h"
#include "region/ledger.h"
#include "samples.h"

enum condition { FRESH, MADE, LEFT, KILLED, CONDITION_COUNT };

static const char *const condition_names[CONDITION_COUNT] = { "fresh", "made", "left", "killed" };

/* Rounds, so that a hundredth of the samples is one at least; fewer where many come at once. */
static const struct size {
	uint32_t count;
	unsigned rounds;
} sizes[] = { { 1, 100 }, { 8, 25 }, { 18, 12 }, { 64, 6 }, { 300, 2 }, { 1000, 1 } };

enum step { STEP_JOIN = 1, STEP_LEAVE };

static char path[4096];

static void spec_fill(struct berth_region_spec *spec)
{
	*spec = (struct berth_region_spec){ .share_name = "bench", .gpu_count = 8, .priority = 1 };
	for (uint32_t i = 0; i < spec->gpu_count; i++) {
		struct berth_region_gpu *gpu = &spec->gpus[i];

		(void)snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%08x-bench", i); /* always fits */
		gpu->memory_limit_bytes = 1ULL << 33;
		gpu->compute_limit_pct = 30;
	}
}

static int join(struct berth_region **ret_region, struct berth_seat **ret_seat,
		struct crowd_member *self)
{
	struct berth_region_spec spec;
	char uuids[BERTH_GPU_MAX][BERTH_UUID_SIZE];
	uint32_t gpu_count;
	int r = berth_region_peek(path, &gpu_count, uuids, &self->reason);

	if (r < 0 && r != -ENOENT) /* joining makes it */
		return r;
	self->reason.text[0] = '\0';
	bool initial = berth_process_in_initial_pid_namespace();
	spec_fill(&spec);
	r = berth_region_join(path, &spec, 0, ret_region, NULL, &self->reason);
	if (r == 0)
		r = berth_seat_claim(*ret_region, initial ? getpid() : 0, ret_seat, NULL,
				     &self->reason);
	return r;
}

static int act(void *arg, unsigned step, struct crowd_member *self)
{
	static struct berth_region *region;
	static struct berth_seat *seat;

	(void)arg;
	if (step == STEP_JOIN)
		return join(&region, &seat, self);
	berth_seat_leave(seat);
	berth_region_close(region);
	return 0;
}

/* An empty region, or none. */
static int prepare_empty(bool made, struct berth_reason *reason)
{
	struct berth_region_spec spec;
	struct berth_region *region = NULL;

	if (unlink(path) < 0 && errno != ENOENT)
		return berth_reason_set(reason, -errno, "%s can't be removed", path);
	if (!made)
		return 0;
	spec_fill(&spec);
	int r = berth_region_join(path, &spec, 0, &region, NULL, reason);
	berth_region_close(region);
	return r;
}

/* A crowd that comes and goes; what joining cost each of them is added to the samples. */
static int round_run(uint32_t count, bool leave, struct samples *wall, struct samples *cpu,
		     struct berth_reason *reason)
{
	struct crowd crowd;
	int r = crowd_gather(&crowd, count, act, NULL);

	if (r < 0)
		return berth_reason_set(reason, r, "%u processes can't be started", count);
	r = crowd_step(&crowd, reason);
	for (uint32_t i = 0; wall && r == 0 && i < count; i++) {
		r = samples_add(wall, crowd.members[i].wall_ns);
		if (r == 0)
			r = samples_add(cpu, crowd.members[i].cpu_ns);
	}
	if (r == 0 && leave)
		r = crowd_step(&crowd, reason);
	(void)crowd_end(&crowd, leave && r == 0 ? CROWD_GOES : CROWD_KILLED);
	return r;
}

static int condition_run(const struct size *size, enum condition condition, struct samples *wall,
			 struct samples *cpu, struct berth_reason *reason)
{
	bool leave = condition == LEFT;
	int r = prepare_empty(condition != FRESH, reason);

	if (r == 0 && condition != FRESH && condition != MADE)
		r = round_run(size->count, leave, NULL, NULL, reason);
	for (unsigned i = 0; r == 0 && i < size->rounds; i++) {
		if (condition == FRESH || condition == MADE)
			r = prepare_empty(condition == MADE, reason);
		if (r == 0)
			r = round_run(size->count, leave, wall, cpu, reason);
	}
	return r;
}

struct figures {
	double p50_us;
	double p99_us;
	double max_us;
	double cpu_p50_us;
};

static double us(uint64_t ns)
{
	return (double)ns / (double)BERTH_NS_PER_US;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static void figures_print(uint32_t count, const char *condition, const struct figures *figures)
{
	(void)printf("join.%u%s.p50_us\t%.1f\tus\n", count, condition, figures->p50_us);
	(void)printf("join.%u%s.p99_us\t%.1f\tus\n", count, condition, figures->p99_us);
	(void)printf("join.%u%s.max_us\t%.1f\tus\n", count, condition, figures->max_us);
	(void)printf("join.%u%s.cpu_p50_us\t%.1f\tus\n", count, condition, figures->cpu_p50_us);
	(void)fflush(stdout);
}

static int size_run(const struct size *size, struct berth_reason *reason)
{
	struct figures worst = { 0 };
	int r = 0;

	for (enum condition c = FRESH; r == 0 && c < CONDITION_COUNT; c++) {
		struct samples wall = { 0 };
		struct samples cpu = { 0 };
		char name[16];

		r = condition_run(size, c, &wall, &cpu, reason);
		struct figures figures = {
			.p50_us = us(samples_percentile(&wall, 50)),
			.p99_us = us(samples_percentile(&wall, 99)),
			.max_us = us(samples_percentile(&wall, 100)),
			.cpu_p50_us = us(samples_percentile(&cpu, 50)),
		};
		(void)snprintf(name, sizeof name, ".%s", condition_names[c]); /* always fits */
		if (r == 0)
			figures_print(size->count, name, &figures);
		worst.p50_us = larger(worst.p50_us, figures.p50_us);
		worst.p99_us = larger(worst.p99_us, figures.p99_us);
		worst.max_us = larger(worst.max_us, figures.max_us);
		worst.cpu_p50_us = larger(worst.cpu_p50_us, figures.cpu_p50_us);
		samples_done(&wall);
		samples_done(&cpu);
	}
	if (r == 0)
		figures_print(size->count, "", &worst);
	return r;
}

/* One at a time, each beside `dead_count` dead seats: what it costs by the processor. */
static int growth_measure(uint32_t dead_count, unsigned rounds, double *ret_us,
			  struct berth_reason *reason)
{
	struct samples wall = { 0 };
	struct samples cpu = { 0 };
	int r = prepare_empty(true, reason);

	if (r == 0 && dead_count)
		r = round_run(dead_count, false, NULL, NULL, reason);
	for (unsigned i = 0; r == 0 && i < rounds; i++)
		r = round_run(1, dead_count == 0, &wall, &cpu, reason);
	*ret_us = us(samples_percentile(&cpu, 50));
	samples_done(&wall);
	samples_done(&cpu);
	return r;
}

static int growth_run(unsigned rounds, struct berth_reason *reason)
{
	double none_us = 0;
	double dead_us = 0;
	int r = growth_measure(0, rounds, &none_us, reason);

	if (r == 0)
		r = growth_measure(1000, rounds, &dead_us, reason);
	if (r == 0) {
		(void)printf("join.beside_none_us\t%.1f\tus\n", none_us);
		(void)printf("join.beside_1000_dead_us\t%.1f\tus\n", dead_us);
		(void)printf("join.growth\t%.2f\tratio\n", dead_us / none_us);
		(void)fflush(stdout);
	}
	return r;
}

static int baseline_run(uint32_t count, unsigned rounds, struct berth_reason *reason)
{
	struct samples wall = { 0 };
	int r = semaphore_measure(path, count, rounds, &wall, reason);

	if (r == 0) {
		(void)printf("join.%u.semaphore_p50_us\t%.1f\tus\n", count,
			     us(samples_percentile(&wall, 50)));
		(void)printf("join.%u.semaphore_p99_us\t%.1f\tus\n", count,
			     us(samples_percentile(&wall, 99)));
		(void)fflush(stdout);
	}
	samples_done(&wall);
	return r;
}

static int regions_run(bool quick, struct berth_reason *reason)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < BERTH_ARRAY_LEN(sizes); i++) {
		struct size size = sizes[i];

		if (!quick)
			size.rounds *= 5;
		r = size_run(&size, reason);
	}
	if (r == 0)
		r = growth_run(quick ? 100 : 400, reason);
	if (r == 0)
		r = baseline_run(64, quick ? 6 : 30, reason);
	if (r == 0)
		r = baseline_run(300, quick ? 2 : 10, reason);
	(void)unlink(path); /* made above */
	return r;
}

int main(int argc, char **argv)
{
	const char *dir = getenv("TMPDIR");
	struct berth_reason reason = { "" };
	bool quick = argc == 2 && strcmp(argv[1], "--quick") == 0;

	if (argc == 3 && strcmp(argv[1], "--program") == 0)
		return program_live(argv[2]);
	if (argc > 2 || (argc == 2 && !quick)) {
		(void)fprintf(stderr, "usage: %s [--quick]\n", argv[0]);
		return 2;
	}
	if (!dir)
		dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	(void)snprintf(path, sizeof path, "%s/berth-bench-%ld.cache", dir, (long)getpid());
	int r = regions_run(quick, &reason);
	if (r == 0)
		r = programs_run(quick, &reason);
	if (r < 0) {
		(void)fprintf(stderr, "bench-join: %s: %s\n", reason.text, strerror(-r));
		return 1;
	}
	return 0;
}
