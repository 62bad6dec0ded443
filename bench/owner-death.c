/* SPDX-License-Identifier: Apache-2.0
 *
 * How soon a lock is another's when its owner is killed: from just before kill(SIGKILL), in the process
 * that sends it, until the waiter holds the lock. One owner, one waiter that is seen waiting first; a
 * polling waiter is given time to reach its long pauses, in a random instant of which the signal comes.
 *
 * blocking, hinted and polling are the record lock's ways to wait; polling has no hints, as such locks
 * are mostly written. floor is a plain process in fcntl(F_SETLKW): the kernel's own time, below which
 * nothing that uses file locks gets. All of them take turns, trial by trial, so what disturbs the machine
 * disturbs all. big: the owner has 512 MiB resident, and the kernel frees memory before locks.
 * Prints "key<TAB>value<TAB>unit" lines.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "lock_nursery.h"
#include "lock_queue.h"
#include "lock_stage.h"
#include "samples.h"

#define BIG_BYTES ((size_t)512 << 20)

enum { SEED = 20260801, SERIES_COUNT = 4 };

/* When the signal comes after the waiter was seen waiting: the first of its growing pauses are over, and
 * the range is longer than a pause of the longest kind, 50 ms. Nobody pauses in a queue. */
#define POLL_FIRST_NS  (30 * BERTH_NS_PER_MS)
#define POLL_RANGE_NS  (60 * BERTH_NS_PER_MS)
#define QUEUE_RANGE_NS (5 * BERTH_NS_PER_MS)

static struct series {
	const char *name;
	const struct lock_way *way;
	struct lock_path path;
	struct lock_queue waiter; /* of one */
	struct samples small;
	struct samples big;
	bool has_big;
} all[SERIES_COUNT] = {
	{ .name = "blocking", .way = &lock_way_blocking, .has_big = true },
	{ .name = "hinted", .way = &lock_way_hinted },
	{ .name = "polling", .way = &lock_way_polling },
	{ .name = "floor", .way = &lock_way_bare, .has_big = true },
};

static struct lock_nursery nursery;

static uint64_t random_below(uint64_t limit)
{
	static uint64_t state = SEED;

	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (state >> 33) % limit;
}

static void instant_await(const struct lock_way *way)
{
	uint64_t ns = way->is_queue ? random_below(QUEUE_RANGE_NS)
				    : POLL_FIRST_NS + random_below(POLL_RANGE_NS);

	berth_sleep_ns(ns, UINT64_MAX);
}

static int trial_run(struct series *series, size_t resident_bytes, struct samples *samples,
		     struct berth_reason *reason)
{
	struct lock_queue *waiter = &series->waiter;
	uint64_t last_ns = 0;
	pid_t owner = 0;
	int r = lock_nursery_owner(&nursery, series->way, series->path.text, resident_bytes, &owner,
				   reason);

	if (r < 0)
		return r;
	lock_queue_begin(waiter);
	r = lock_queue_await(waiter, reason);
	if (r < 0)
		return r;
	instant_await(series->way);
	uint64_t killed_ns = berth_clock_ns();
	(void)kill(owner, SIGKILL); /* the nursery hasn't waited for it */
	r = lock_queue_end(waiter, reason);
	if (r == 0)
		r = lock_queue_last(waiter, &last_ns, reason);
	if (r < 0)
		return r;
	if (waiter->visits[0].taken_ns < killed_ns)
		return berth_reason_set(reason, -EUCLEAN, "%s: entered beside the living owner",
					series->name);
	r = samples_add(samples, waiter->visits[0].taken_ns - killed_ns);
	return berth_reason_set(reason, r, "no memory");
}

/* In another order each time, so that none always follows the same one. */
static void order_shuffle(size_t order[SERIES_COUNT])
{
	for (size_t i = 0; i < SERIES_COUNT; i++)
		order[i] = i;
	for (size_t i = SERIES_COUNT - 1; i > 0; i--) {
		size_t other = random_below(i + 1);
		size_t index = order[i];

		order[i] = order[other];
		order[other] = index;
	}
}

static int round_run(bool big, struct berth_reason *reason)
{
	size_t order[SERIES_COUNT];
	int r = 0;

	order_shuffle(order);
	for (size_t i = 0; r == 0 && i < SERIES_COUNT; i++) {
		struct series *series = &all[order[i]];

		if (!big)
			r = trial_run(series, 0, &series->small, reason);
		else if (series->has_big)
			r = trial_run(series, BIG_BYTES, &series->big, reason);
	}
	return r;
}

static int trials_run(unsigned count, unsigned big_count, struct berth_reason *reason)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < count; i++)
		r = round_run(false, reason);
	for (unsigned i = 0; r == 0 && i < big_count; i++)
		r = round_run(true, reason);
	return r;
}

static double us(struct samples *samples, unsigned percent)
{
	return (double)samples_percentile(samples, percent) / (double)BERTH_NS_PER_US;
}

static int series_print(struct series *series)
{
	static const struct {
		const char *name;
		unsigned percent;
	} columns[] = {
		{ "min", 0 }, { "median", 50 }, { "p95", 95 }, { "p99", 99 }, { "max", 100 }
	};
	char name[64];

	for (size_t i = 0; i < BERTH_ARRAY_LEN(columns); i++)
		(void)printf("owner_death.%s.%s_us\t%.1f\tus\n", series->name, columns[i].name,
			     us(&series->small, columns[i].percent));
	(void)snprintf(name, sizeof name, "%s", series->name);
	int r = samples_log(&series->small, name);
	if (r < 0 || !series->has_big)
		return r;
	(void)printf("owner_death.big.%s.median_us\t%.1f\tus\n", series->name,
		     us(&series->big, 50));
	(void)snprintf(name, sizeof name, "%s of 512 MiB", series->name);
	return samples_log(&series->big, name);
}

static int print_all(struct berth_reason *reason)
{
	int r = 0;

	for (size_t s = 0; r == 0 && s < SERIES_COUNT; s++)
		r = series_print(&all[s]);
	(void)printf("owner_death.polling_over_blocking\t%.1f\tratio\n",
		     us(&all[2].small, 50) / us(&all[0].small, 50));
	return berth_reason_set(reason, r, "the samples can't be written");
}

static int run(bool quick, struct berth_reason *reason)
{
	struct lock_stage stage;
	int r = lock_stage_open(&stage, NULL, reason);

	if (r == 0)
		r = lock_nursery_open(&nursery, reason);
	for (size_t s = 0; r == 0 && s < SERIES_COUNT; s++) {
		all[s].path = lock_stage_path(&stage, all[s].name);
		all[s].waiter = (struct lock_queue){
			.way = all[s].way,
			.path = all[s].path.text,
			.count = 1,
		};
		r = lock_queue_open(&all[s].waiter, reason);
	}
	if (r == 0)
		r = trials_run(quick ? 200 : 1000, quick ? 7 : 51, reason);
	if (r == 0)
		r = print_all(reason);
	if (r < 0)
		return r; /* everybody ends with us */
	for (size_t s = 0; s < SERIES_COUNT; s++) {
		lock_queue_close(&all[s].waiter);
		samples_done(&all[s].small);
		samples_done(&all[s].big);
	}
	r = lock_nursery_close(&nursery, reason);
	return r < 0 ? r : lock_stage_close(&stage, reason);
}

int main(int argc, char **argv)
{
	return lock_bench_main(argc, argv, run);
}
