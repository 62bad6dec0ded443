/* SPDX-License-Identifier: Apache-2.0
 *
 * What an ask and its refund cost, and what 64 processes that ask at once get.
 * Prints "key<TAB>value<TAB>unit" lines. Beside the pair, in the same run: a wait and a post on an
 * uncontended process-shared semaphore without any bookkeeping, which it replaces, and two of the
 * cheapest system calls.
 */
#include <errno.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "contest.h"
#include "region/ledger.h"

enum {
	RACE_PROCESSES = 64,
	RACE_ASKS = 1000000,
	PAIR_ROUNDS = 7, /* the best of these: other programs disturb, nothing speeds up */
};

#define MIB (1ULL << 20)

static int failed(const char *what, int err, const char *why)
{
	(void)fprintf(stderr, "bench-ledger: %s: %s%s%s\n", what, strerror(-err), *why ? ": " : "",
		      why);
	return 1;
}

/* A file of our own in memory, or where TMPDIR says. */
static void path_choose(char *buf, size_t size, const char *what)
{
	const char *dir = getenv("TMPDIR");

	if (!dir)
		dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	(void)snprintf(buf, size, "%s/berth-bench-%ld-%s.cache", dir, (long)getpid(), what);
}

static double best_of(double best, uint64_t start_ns, unsigned pairs)
{
	double ns = (double)(berth_clock_ns() - start_ns) / pairs;

	return best == 0 || ns < best ? ns : best;
}

static int pair_measure(struct berth_seat *seat, unsigned pairs, double *ret_ns)
{
	double best = 0;

	for (int round = 0; round < PAIR_ROUNDS; round++) {
		uint64_t start_ns = berth_clock_ns();

		for (unsigned i = 0; i < pairs; i++) {
			int r = berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 4096);
			if (r < 0)
				return r;
			berth_ledger_refund(seat, 0, BERTH_CHARGE_DATA, 4096);
		}
		best = best_of(best, start_ns, pairs);
	}
	*ret_ns = best;
	return 0;
}

static int semaphore_measure(unsigned pairs, double *ret_ns)
{
	sem_t *semaphore = mmap(NULL, sizeof *semaphore, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double best = 0;

	if (semaphore == MAP_FAILED || sem_init(semaphore, 1, 1) < 0)
		return -errno;
	for (int round = 0; round < PAIR_ROUNDS; round++) {
		uint64_t start_ns = berth_clock_ns();

		for (unsigned i = 0; i < pairs; i++) {
			if (sem_wait(semaphore) < 0 || sem_post(semaphore) < 0)
				return -errno;
		}
		best = best_of(best, start_ns, pairs);
	}
	*ret_ns = best;
	return 0;
}

static double syscall_measure(unsigned pairs)
{
	double best = 0;

	for (int round = 0; round < PAIR_ROUNDS; round++) {
		uint64_t start_ns = berth_clock_ns();

		for (unsigned i = 0; i < 2 * pairs; i++)
			(void)syscall(SYS_getppid); /* always succeeds */
		best = best_of(best, start_ns, pairs);
	}
	return best;
}

static int pairs_run(unsigned pairs)
{
	struct berth_region_spec spec = { .share_name = "bench", .gpu_count = 1, .priority = 1 };
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	struct berth_reason reason = { "" };
	double pair_ns = 0;
	double semaphore_ns = 0;
	char path[4096];

	path_choose(path, sizeof path, "pair");
	spec.gpus[0].memory_limit_bytes = 1024 * MIB;
	int r = berth_region_join(path, &spec, 0, &region, NULL, &reason);
	if (r == 0)
		r = berth_seat_claim(region, 0, &seat, NULL, &reason);
	if (r == 0)
		r = pair_measure(seat, pairs, &pair_ns);
	if (r == 0)
		r = semaphore_measure(pairs, &semaphore_ns);
	berth_seat_leave(seat);
	if (region)
		(void)unlink(path); /* made above */
	berth_region_close(region);
	if (r < 0)
		return failed("pairs", r, reason.text);
	(void)printf("ledger.pair_ns\t%.1f\tns\n", pair_ns);
	(void)printf("ledger.semaphore_pair_ns\t%.1f\tns\n", semaphore_ns);
	(void)printf("ledger.syscall_pair_ns\t%.1f\tns\n", syscall_measure(pairs));
	return 0;
}

static int race_run(uint32_t asks)
{
	char path[4096];
	struct contest contest = {
		.region_path = path,
		.process_count = RACE_PROCESSES,
		.asks_per_thread = asks / RACE_PROCESSES,
		.limit_bytes = 1024 * MIB,
		.ask_max_bytes = 64 * MIB,
		.seed = 20260801,
	};
	struct contest_result result = { 0 };

	path_choose(path, sizeof path, "race");
	int r = contest_run(&contest, &result);
	if (r < 0)
		return failed("race", r, "");
	if (result.failed_count || *result.broken || result.left_charged_bytes)
		return failed("race", -EUCLEAN, result.broken);
	const struct judge_verdict *verdict = &result.verdict;
	double seconds = (double)result.elapsed_ns / (double)BERTH_NS_PER_S;

	(void)printf("ledger.race64.asks\t%" PRIu64 "\tcount\n", verdict->ask_count);
	(void)printf("ledger.race64.refusals\t%" PRIu64 "\tcount\n", verdict->refusal_count);
	(void)printf("ledger.race64.held_max\t%" PRIu64 "\tbytes\n", verdict->held_max_bytes);
	(void)printf("ledger.race64.overshoot\t%" PRIu64 "\tbytes\n", verdict->overshoot_bytes);
	(void)printf("ledger.race64.false_refusals\t%" PRIu64 "\tcount\n",
		     verdict->false_refusal_count);
	(void)printf("ledger.race64.asks_per_s\t%.0f\t1/s\n", (double)verdict->ask_count / seconds);
	return 0;
}

int main(int argc, char **argv)
{
	bool quick = argc == 2 && strcmp(argv[1], "--quick") == 0;

	if (argc > 2 || (argc == 2 && !quick)) {
		(void)fprintf(stderr, "usage: %s [--quick]\n", argv[0]);
		return 2;
	}
	int status = pairs_run(quick ? 200000 : 2000000);

	(void)fflush(stdout);
	return status ? status : race_run(quick ? RACE_ASKS : 4 * RACE_ASKS);
}
