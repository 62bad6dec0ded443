/* SPDX-License-Identifier: Apache-2.0
 *
 * What ending costs when many that hold memory end at once, and how soon what they held is there for
 * others.
 *
 * In order: each gives up its seat and closes the region, measured around exactly that ("p50_us",
 * "p99_us", "max_us"). Then for each way to end (in order, by exit() alone, by SIGKILL): from the
 * moment at which the last one was seen dead until an ask of the whole limit is granted to a process
 * that sat there all along ("free_ms"; without a way in its name it is the worst one's). That ask
 * meets all the seats of the dead, and leaves them out by itself.
 *
 * After each round the region must be clean: nothing charged, every invariant in place, and the next
 * crowd's asks are all granted. If not, the benchmark fails and says so. Prints
 * "key<TAB>value<TAB>unit" lines.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "crowd.h"
#include "region/ledger.h"
#include "samples.h"

#define MIB         (1ULL << 20)
#define LIMIT_BYTES (64 * 1024 * MIB)
#define ASK_BYTES   (16 * MIB)

enum { GPU_COUNT = 2, ASK_COUNT = 4 };
enum step { STEP_SIT = 1, STEP_LEAVE };
enum way { LEFT, EXITED, KILLED, WAY_COUNT };

static const char *const way_names[WAY_COUNT] = { "left", "exited", "killed" };

/* Rounds, so that a hundredth of the samples is one at least. */
static const struct size {
	uint32_t count;
	unsigned rounds;
} sizes[] = { { 8, 25 }, { 64, 6 }, { 300, 3 } };

static char path[4096];

static int join(struct berth_region **ret_region, struct berth_seat **ret_seat,
		struct berth_reason *reason)
{
	struct berth_region_spec spec = { .share_name = "bench", .gpu_count = GPU_COUNT };

	for (uint32_t i = 0; i < GPU_COUNT; i++) {
		(void)snprintf(spec.gpus[i].uuid, sizeof spec.gpus[i].uuid, "GPU-%u", i);
		spec.gpus[i].memory_limit_bytes = LIMIT_BYTES;
	}
	int r = berth_region_join(path, &spec, 0, ret_region, NULL, reason);
	return r < 0 ? r : berth_seat_claim(*ret_region, 0, ret_seat, NULL, reason);
}

static int act(void *arg, unsigned step, struct crowd_member *self)
{
	static struct berth_region *region;
	static struct berth_seat *seat;

	(void)arg;
	if (step == STEP_LEAVE) {
		berth_seat_leave(seat);
		berth_region_close(region);
		return 0;
	}
	int r = join(&region, &seat, &self->reason);
	for (uint32_t i = 0; r == 0 && i < GPU_COUNT * ASK_COUNT; i++)
		r = berth_ledger_ask(seat, i % GPU_COUNT, BERTH_CHARGE_DATA, ASK_BYTES);
	return berth_reason_set(&self->reason, r, "an ask that fits was not granted");
}

static int charged_check(const struct berth_region *region, uint64_t expected_bytes,
			 struct berth_reason *reason)
{
	for (uint32_t gpu = 0; gpu < GPU_COUNT; gpu++) {
		struct berth_ledger_room room = { 0 };
		int r = berth_ledger_room(region, gpu, &room);

		if (r < 0)
			return berth_reason_set(reason, r, "the books can't be read");
		if (room.charged_bytes != expected_bytes)
			return berth_reason_set(reason, -EUCLEAN,
						"GPU %u: %llu bytes are charged instead of %llu",
						gpu, (unsigned long long)room.charged_bytes,
						(unsigned long long)expected_bytes);
	}
	return 0;
}

/* From since_ns until the whole limit is granted, on every GPU. */
static int whole_ask(struct berth_seat *seat, uint64_t since_ns, uint64_t *ret_ns,
		     struct berth_reason *reason)
{
	uint64_t deadline_ns = berth_deadline_after(10 * BERTH_NS_PER_S);
	int r = 0;

	for (uint32_t gpu = 0; r == 0 && gpu < GPU_COUNT; gpu++) {
		do
			r = berth_ledger_ask(seat, gpu, BERTH_CHARGE_DATA, LIMIT_BYTES);
		while (r == -ENOMEM && !berth_deadline_passed(deadline_ns));
	}
	*ret_ns = berth_clock_ns() - since_ns;
	for (uint32_t gpu = 0; r == 0 && gpu < GPU_COUNT; gpu++)
		berth_ledger_refund(seat, gpu, BERTH_CHARGE_DATA, LIMIT_BYTES);
	return berth_reason_set(reason, r, "the whole limit is not granted though nobody is left");
}

struct host {
	struct berth_region *region;
	struct berth_seat *seat; /* of the process that sits there all along */
	struct samples leaving;
	struct samples freeing[WAY_COUNT];
};

static int crowd_live(struct host *host, struct crowd *crowd, enum way way,
		      struct berth_reason *reason)
{
	int r = crowd_step(crowd, reason);

	if (r == 0)
		r = charged_check(host->region, crowd->count * ASK_COUNT * ASK_BYTES, reason);
	if (r < 0 || way != LEFT)
		return r;
	r = crowd_step(crowd, reason);
	for (uint32_t i = 0; r == 0 && i < crowd->count; i++)
		r = samples_add(&host->leaving, crowd->members[i].wall_ns);
	return r;
}

static int round_run(struct host *host, uint32_t count, enum way way, struct berth_reason *reason)
{
	struct crowd crowd;
	uint64_t free_ns = 0;
	int r = crowd_gather(&crowd, count, act, NULL);

	if (r < 0)
		return berth_reason_set(reason, r, "%u processes can't be started", count);
	r = crowd_live(host, &crowd, way, reason);
	uint64_t last_ns = crowd_end(&crowd, r < 0 || way == KILLED ? CROWD_KILLED : CROWD_GOES);
	if (r == 0)
		r = whole_ask(host->seat, last_ns, &free_ns, reason);
	if (r == 0)
		r = samples_add(&host->freeing[way], free_ns);
	if (r == 0)
		r = charged_check(host->region, 0, reason);
	return r < 0 ? r : berth_region_check(host->region, reason);
}

static void figures_print(struct host *host, uint32_t count)
{
	static const struct {
		unsigned percent;
		const char *name;
	} figures[] = { { 50, "p50" }, { 99, "p99" }, { 100, "max" } };
	uint64_t worst_ns = 0;

	for (size_t i = 0; i < BERTH_ARRAY_LEN(figures); i++)
		(void)printf("exit.%u.%s_us\t%.1f\tus\n", count, figures[i].name,
			     (double)samples_percentile(&host->leaving, figures[i].percent) /
				     (double)BERTH_NS_PER_US);
	for (enum way way = LEFT; way < WAY_COUNT; way++) {
		uint64_t ns = samples_percentile(&host->freeing[way], 100);

		worst_ns = ns > worst_ns ? ns : worst_ns;
		(void)printf("exit.%u.%s.free_ms\t%.3f\tms\n", count, way_names[way],
			     (double)ns / (double)BERTH_NS_PER_MS);
	}
	(void)printf("exit.%u.free_ms\t%.3f\tms\n", count,
		     (double)worst_ns / (double)BERTH_NS_PER_MS);
	(void)fflush(stdout);
}

static int size_run(const struct size *size, unsigned factor, struct berth_reason *reason)
{
	struct host host = { 0 };
	int r = join(&host.region, &host.seat, reason);

	for (unsigned i = 0; r == 0 && i < size->rounds * factor; i++) {
		for (enum way way = LEFT; r == 0 && way < WAY_COUNT; way++)
			r = round_run(&host, size->count, way, reason);
	}
	if (r == 0)
		figures_print(&host, size->count);
	samples_done(&host.leaving);
	for (enum way way = LEFT; way < WAY_COUNT; way++)
		samples_done(&host.freeing[way]);
	berth_seat_leave(host.seat);
	berth_region_close(host.region);
	return r;
}

int main(int argc, char **argv)
{
	const char *dir = getenv("TMPDIR");
	struct berth_reason reason = { "" };
	bool quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
	int r = 0;

	if (argc > 2 || (argc == 2 && !quick)) {
		(void)fprintf(stderr, "usage: %s [--quick]\n", argv[0]);
		return 2;
	}
	if (!dir)
		dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	(void)snprintf(path, sizeof path, "%s/berth-bench-%ld.cache", dir, (long)getpid());
	for (size_t i = 0; r == 0 && i < BERTH_ARRAY_LEN(sizes); i++)
		r = size_run(&sizes[i], quick ? 1 : 5, &reason);
	(void)unlink(path); /* made above */
	if (r < 0) {
		(void)fprintf(stderr, "bench-exit: %s: %s\n", reason.text, strerror(-r));
		return 1;
	}
	return 0;
}
