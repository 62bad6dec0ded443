/* SPDX-License-Identifier: Apache-2.0
 *
 * What a lock costs those who wait for it in turn: many processes that ask at the same moment, each of
 * which holds it for 5 ms, asleep, once. The ideal is the sum of the holds, as long as they really were;
 * wall is from the moment at which all may ask until the last one has given it back. A wait is from
 * asking to holding; total_ms is the wall time of a round. Ratios and totals are medians of the rounds.
 *
 * Without a word of the way it is the record lock in the kernel's queue; "polling" is the record lock in
 * tries without hints, in the same run. Without --quick also with holds of 300 ms, keys
 * contention.300ms.N.…. Prints "key<TAB>value<TAB>unit" lines.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "lock_queue.h"
#include "lock_stage.h"
#include "samples.h"

static const struct contest {
	const char *prefix; /* of its keys */
	uint32_t count;
	unsigned hold_ms;
	unsigned rounds;         /* in the queue */
	unsigned polling_rounds; /* fewer, as they are long */
	bool quick;              /* also then */
} contests[] = {
	{ "contention", 8, 5, 15, 15, true },
	{ "contention", 64, 5, 5, 3, true },
	{ "contention", 300, 5, 3, 1, true },
	{ "contention.300ms", 8, 300, 3, 3, false },
	{ "contention.300ms", 128, 300, 1, 1, false },
	{ "contention.300ms", 300, 300, 1, 0, false },
};

struct figures {
	struct samples waits;
	struct samples walls;
	struct samples ratios; /* in billionths */
	uint32_t failure_count;
};

static int round_add(const struct lock_queue *queue, uint64_t begun_ns, struct figures *figures)
{
	uint64_t last_ns = begun_ns;
	uint64_t held_ns = 0;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < queue->count; i++) {
		const struct lock_visit *visit = &queue->visits[i];

		if (visit->err < 0) {
			figures->failure_count++;
			continue;
		}
		held_ns += visit->giving_ns - visit->taken_ns;
		if (visit->given_ns > last_ns)
			last_ns = visit->given_ns;
		r = samples_add(&figures->waits, visit->taken_ns - visit->asked_ns);
	}
	if (r < 0 || held_ns == 0)
		return r;
	double ratio = (double)(last_ns - begun_ns) / (double)held_ns;
	r = samples_add(&figures->walls, last_ns - begun_ns);
	return r < 0 ? r : samples_add(&figures->ratios, (uint64_t)(ratio * 1e9));
}

static double ms(struct samples *samples, unsigned percent)
{
	return (double)samples_percentile(samples, percent) / (double)BERTH_NS_PER_MS;
}

static int figures_print(const struct contest *contest, const struct lock_way *way,
			 struct figures *figures)
{
	static const struct {
		const char *name;
		unsigned percent;
	} columns[] = { { "median", 50 }, { "p95", 95 }, { "p99", 99 }, { "max", 100 } };
	char prefix[64];

	(void)snprintf(prefix, sizeof prefix, "%s.%" PRIu32 "%s", contest->prefix, contest->count,
		       way == &lock_way_polling ? ".polling" : "");
	(void)printf("%s.wall_over_ideal\t%.3f\tratio\n", prefix,
		     (double)samples_percentile(&figures->ratios, 50) / 1e9);
	for (size_t i = 0; i < BERTH_ARRAY_LEN(columns); i++)
		(void)printf("%s.wait.%s_ms\t%.2f\tms\n", prefix, columns[i].name,
			     ms(&figures->waits, columns[i].percent));
	(void)printf("%s.total_ms\t%.1f\tms\n", prefix, ms(&figures->walls, 50));
	(void)printf("%s.failures\t%" PRIu32 "\tcount\n", prefix, figures->failure_count);
	(void)fflush(stdout);
	(void)snprintf(prefix, sizeof prefix, "%" PRIu32 " x %u ms %s", contest->count,
		       contest->hold_ms, way->name);
	int r = samples_log(&figures->waits, prefix);
	samples_done(&figures->waits);
	samples_done(&figures->walls);
	samples_done(&figures->ratios);
	return r;
}

static int rounds_run(const struct contest *contest, struct lock_queue *queue, unsigned rounds,
		      struct berth_reason *reason)
{
	struct figures figures = { 0 };
	int r = lock_queue_open(queue, reason);

	for (unsigned i = 0; r == 0 && i < rounds; i++) {
		uint64_t begun_ns = berth_clock_ns();

		lock_queue_begin(queue);
		r = lock_queue_end(queue, reason);
		if (r == 0)
			r = berth_reason_set(reason, round_add(queue, begun_ns, &figures),
					     "no memory");
	}
	if (r == 0)
		r = berth_reason_set(reason, figures_print(contest, queue->way, &figures),
				     "the samples can't be written");
	if (r == 0)
		lock_queue_close(queue);
	return r; /* if it failed, everybody ends with us */
}

static int contest_run(const struct lock_stage *stage, const struct contest *contest,
		       const struct lock_way *way, unsigned rounds, struct berth_reason *reason)
{
	static struct lock_path path;
	static struct lock_queue queue;

	path = lock_stage_path(stage, way->name);
	queue = (struct lock_queue){
		.way = way,
		.path = path.text,
		.hold_ns = contest->hold_ms * BERTH_NS_PER_MS,
		.count = contest->count,
	};
	return rounds ? rounds_run(contest, &queue, rounds, reason) : 0;
}

static int run(bool quick, struct berth_reason *reason)
{
	struct lock_stage stage;
	int r = lock_stage_open(&stage, NULL, reason);

	for (size_t i = 0; r == 0 && i < BERTH_ARRAY_LEN(contests); i++) {
		const struct contest *contest = &contests[i];

		if (quick && !contest->quick)
			continue;
		r = contest_run(&stage, contest, &lock_way_blocking, contest->rounds, reason);
		if (r == 0)
			r = contest_run(&stage, contest, &lock_way_polling, contest->polling_rounds,
					reason);
	}
	return r < 0 ? r : lock_stage_close(&stage, reason);
}

int main(int argc, char **argv)
{
	return lock_bench_main(argc, argv, run);
}
