/* SPDX-License-Identifier: Apache-2.0
 *
 * How long it takes until all of a herd have been through when the owner of what they wait for is killed:
 * from just before kill(SIGKILL) until the last one has given the lock back; each gives it back at once.
 * All are seen waiting before.
 *
 * all is the record lock in the kernel's queue; beside it, round by round in the same run, as many plain
 * processes in fcntl(F_SETLKW), which is what the kernel needs for it, and the record lock in tries
 * without hints. Medians of the rounds. Prints "key<TAB>value<TAB>unit" lines.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "lock_nursery.h"
#include "lock_queue.h"
#include "lock_stage.h"
#include "samples.h"

/* For those who poll, so that their pauses are long and no longer in step when the owner dies. */
#define SETTLE_NS (150 * BERTH_NS_PER_MS)

enum { HERD_COUNT = 3 };

static struct herd {
	const char *name; /* in keys */
	const struct lock_way *way;
	struct lock_path path;
	struct lock_queue queue;
	struct samples times;  /* of the last one, a round each */
	struct samples passes; /* of everyone in every round */
} herds[HERD_COUNT] = {
	{ .name = "all", .way = &lock_way_blocking },
	{ .name = "bare_setlkw", .way = &lock_way_bare },
	{ .name = "polling", .way = &lock_way_polling },
};

static struct lock_nursery nursery;

static int passes_add(struct herd *herd, uint64_t killed_ns)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < herd->queue.count; i++)
		r = samples_add(&herd->passes, herd->queue.visits[i].given_ns - killed_ns);
	return r;
}

static int round_run(struct herd *herd, struct berth_reason *reason)
{
	struct lock_queue *queue = &herd->queue;
	uint64_t last_ns = 0;
	pid_t owner = 0;
	int r = lock_nursery_owner(&nursery, herd->way, herd->path.text, 0, &owner, reason);

	if (r < 0)
		return r;
	lock_queue_begin(queue);
	r = lock_queue_await(queue, reason);
	if (r < 0)
		return r;
	if (!herd->way->is_queue)
		berth_sleep_ns(SETTLE_NS, UINT64_MAX);
	uint64_t killed_ns = berth_clock_ns();
	(void)kill(owner, SIGKILL); /* the nursery hasn't waited for it */
	r = lock_queue_end(queue, reason);
	if (r == 0)
		r = lock_queue_last(queue, &last_ns, reason);
	if (r < 0)
		return r;
	r = samples_add(&herd->times, last_ns - killed_ns);
	if (r == 0)
		r = passes_add(herd, killed_ns);
	return berth_reason_set(reason, r, "no memory");
}

static int herd_print(struct herd *herd, uint32_t count)
{
	char series[64];

	(void)printf("herd.%" PRIu32 ".%s_ms\t%.2f\tms\n", count, herd->name,
		     (double)samples_percentile(&herd->times, 50) / (double)BERTH_NS_PER_MS);
	(void)fflush(stdout);
	(void)snprintf(series, sizeof series, "%" PRIu32 " %s", count, herd->way->name);
	int r = samples_log(&herd->passes, series);
	samples_done(&herd->times);
	samples_done(&herd->passes);
	lock_queue_close(&herd->queue);
	return r;
}

static int size_run(const struct lock_stage *stage, uint32_t count, bool quick,
		    struct berth_reason *reason)
{
	unsigned rounds = quick ? 15 : 51;
	unsigned polling_rounds = quick ? 7 : 15;
	int r = 0;

	for (size_t h = 0; r == 0 && h < HERD_COUNT; h++) {
		herds[h].path = lock_stage_path(stage, herds[h].name);
		herds[h].queue = (struct lock_queue){
			.way = herds[h].way,
			.path = herds[h].path.text,
			.count = count,
		};
		r = lock_queue_open(&herds[h].queue, reason);
	}
	for (unsigned i = 0; r == 0 && i < rounds; i++) {
		for (size_t h = 0; r == 0 && h < HERD_COUNT; h++) {
			if (herds[h].way->is_queue || i < polling_rounds)
				r = round_run(&herds[h], reason);
		}
	}
	for (size_t h = 0; r == 0 && h < HERD_COUNT; h++)
		r = berth_reason_set(reason, herd_print(&herds[h], count),
				     "the samples can't be written");
	return r;
}

static int run(bool quick, struct berth_reason *reason)
{
	struct lock_stage stage;
	int r = lock_stage_open(&stage, NULL, reason);

	if (r == 0)
		r = lock_nursery_open(&nursery, reason);
	if (r == 0)
		r = size_run(&stage, 300, quick, reason);
	if (r == 0)
		r = size_run(&stage, 512, quick, reason);
	if (r < 0)
		return r; /* everybody ends with us */
	r = lock_nursery_close(&nursery, reason);
	return r < 0 ? r : lock_stage_close(&stage, reason);
}

int main(int argc, char **argv)
{
	return lock_bench_main(argc, argv, run);
}
