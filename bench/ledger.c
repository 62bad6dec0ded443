/* SPDX-License-Identifier: Apache-2.0
 *
 * What an ask and its refund cost, and how many of them many processes get. Prints
 * "key<TAB>value<TAB>unit" lines.
 *
 * ledger.pair_ns         one process alone. Beside it, in the same run: a wait and a post on an
 *                        uncontended process-shared semaphore without any bookkeeping, and two of
 *                        the cheapest system calls.
 * ledger.pair_ns.N       one process asks while N living ones, itself included, sit in the region
 *                        and hold something; .after_1000: when all the others have come and gone.
 * ledger.N.asks_per_s    N processes at once, where everything fits, as in normal life: each asks
 *                        and gives back in a loop. semaphore_asks_per_s: the same by the strategy
 *                        that the ledger replaces; 8.over_semaphore: ours over that one.
 * ledger.tight.8         the same where only part of what they want fits.
 * ledger.race64          64 processes race, judged by a count of their own.
 * Of the pairs the best round counts, for nothing makes one too fast. In crowds ours and the baseline
 * take turns and the median round counts: there luck helps too, above all the baseline, whose
 * processes then happen not to meet.
 */
#include <errno.h>
#include <inttypes.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "contest.h"
#include "ledger_crowd.h"
#include "region/ledger.h"

enum {
	RACE_PROCESSES = 64,
	RACE_ASKS = 1000000,
	ROUNDS_MAX = 15,
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

/* A process that sits there, holds a page, and leaves when the gate's other end is closed. */
static void __attribute__((noreturn)) sitter_run(const char *path, int ready_fd, int gate_fd)
{
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	char byte = 1;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody outlives a bench that was broken off */
	int r = berth_region_join(path, NULL, 0, &region, NULL, NULL);
	if (r == 0)
		r = berth_seat_claim(region, 0, &seat, NULL, NULL);
	if (r == 0)
		r = berth_ledger_ask(seat, 0, BERTH_CHARGE_DATA, 4096);
	if (r < 0 || write(ready_fd, &byte, 1) != 1)
		_exit(1);
	(void)close(ready_fd);
	(void)read(gate_fd, &byte, 1); /* nobody writes: it ends with the gate */
	berth_seat_leave(seat);
	berth_region_close(region);
	_exit(0);
}

static int sitters_start(const char *path, unsigned count, const int ready[2], const int gate[2])
{
	for (unsigned i = 0; i < count; i++) {
		char byte;
		pid_t pid = fork();

		if (pid < 0)
			return -errno;
		if (pid == 0) {
			(void)close(gate[1]);
			sitter_run(path, ready[1], gate[0]);
		}
		/* One after the other: how they fare in a crowd is another benchmark's question. */
		if (read(ready[0], &byte, 1) != 1)
			return -EIO;
	}
	return 0;
}

static void pair_print(const char *key, double ns)
{
	(void)printf("ledger.pair_ns.%s\t%.1f\tns\n", key, ns);
	(void)fflush(stdout);
}

/* The seat's pair beside more and more others, then without them again. */
static int seats_measure(const char *path, struct berth_seat *seat, unsigned pairs)
{
	static const unsigned seat_counts[] = { 1, 64, 1000 };
	int ready[2];
	int gate[2];
	unsigned living = 1;
	double ns = 0;
	int r = pipe(ready) < 0 || pipe(gate) < 0 ? -errno : 0;

	for (size_t i = 0; r == 0 && i < BERTH_ARRAY_LEN(seat_counts); i++) {
		char key[16];

		(void)snprintf(key, sizeof key, "%u", seat_counts[i]);
		r = sitters_start(path, seat_counts[i] - living, ready, gate);
		living = seat_counts[i];
		if (r == 0)
			r = pair_measure(seat, pairs / living + 1000, &ns);
		if (r == 0)
			pair_print(key, ns);
	}
	(void)close(gate[1]);
	while (wait(NULL) > 0)
		;
	if (r == 0)
		r = pair_measure(seat, pairs / 10, &ns);
	if (r == 0)
		pair_print("after_1000", ns);
	return r;
}

static int seats_run(unsigned pairs)
{
	struct berth_region_spec spec = { .share_name = "bench", .gpu_count = 1, .priority = 1 };
	struct berth_region *region = NULL;
	struct berth_seat *seat = NULL;
	struct berth_reason reason = { "" };
	char path[4096];

	path_choose(path, sizeof path, "seats");
	spec.gpus[0].memory_limit_bytes = 1024 * MIB;
	int r = berth_region_join(path, &spec, 0, &region, NULL, &reason);
	if (r == 0)
		r = berth_seat_claim(region, 0, &seat, NULL, &reason);
	if (r == 0)
		r = seats_measure(path, seat, pairs);
	berth_seat_leave(seat);
	if (region)
		(void)unlink(path); /* made above */
	berth_region_close(region);
	return r < 0 ? failed("seats", r, reason.text) : 0;
}

static int by_rate(const void *a, const void *b)
{
	const struct crowd_result *x = a;
	const struct crowd_result *y = b;

	return (x->asks_per_s > y->asks_per_s) - (x->asks_per_s < y->asks_per_s);
}

/* The median of some rounds of either strategy, in turns. */
static int crowd_compare(struct crowd *crowd, unsigned rounds, struct crowd_result *ret_ours,
			 struct crowd_result *ret_semaphore)
{
	struct crowd_result results[2][ROUNDS_MAX] = { 0 };

	for (unsigned i = 0; i < 2 * rounds; i++) {
		crowd->strategy = i % 2 ? CROWD_SEMAPHORE : CROWD_LEDGER;
		int r = crowd_run(crowd, &results[i % 2][i / 2]);
		if (r < 0)
			return failed("crowd", r, "");
	}
	for (int s = 0; s < 2; s++)
		qsort(results[s], rounds, sizeof results[s][0], by_rate);
	*ret_ours = results[0][rounds / 2];
	*ret_semaphore = results[1][rounds / 2];
	return 0;
}

static int crowds_run(unsigned rounds)
{
	static const unsigned process_counts[] = { 1, 2, 8, 64 };
	char path[4096];
	struct crowd crowd = {
		.region_path = path,
		.limit_bytes = 1024 * MIB,
		.ask_bytes = MIB,
		.duration_ns = 200 * BERTH_NS_PER_MS,
	};

	path_choose(path, sizeof path, "crowd");
	for (size_t i = 0; i < BERTH_ARRAY_LEN(process_counts); i++) {
		struct crowd_result ours = { 0 };
		struct crowd_result semaphore = { 0 };
		unsigned n = process_counts[i];

		crowd.process_count = n;
		if (crowd_compare(&crowd, rounds, &ours, &semaphore))
			return 1;
		(void)printf("ledger.%u.asks_per_s\t%.0f\t1/s\n", n, ours.asks_per_s);
		(void)printf("ledger.%u.semaphore_asks_per_s\t%.0f\t1/s\n", n,
			     semaphore.asks_per_s);
		(void)printf("ledger.%u.over_semaphore\t%.2f\tratio\n", n,
			     ours.asks_per_s / semaphore.asks_per_s);
		(void)fflush(stdout);
	}
	return 0;
}

/* Each keeps up to three blocks and asks for the next: 32 blocks are wanted, 8 fit. A refusal makes
 * it give one back, so that how many are granted is up to how they meet. */
static int tight_run(unsigned rounds)
{
	char path[4096];
	struct crowd crowd = {
		.region_path = path,
		.process_count = 8,
		.limit_bytes = 1024 * MIB,
		.ask_bytes = 128 * MIB,
		.held_count = 3,
		.duration_ns = 200 * BERTH_NS_PER_MS,
	};
	struct crowd_result ours = { 0 };
	struct crowd_result semaphore = { 0 };

	path_choose(path, sizeof path, "tight");
	if (crowd_compare(&crowd, rounds, &ours, &semaphore))
		return 1;
	(void)printf("ledger.tight.8.asks_per_s\t%.0f\t1/s\n", ours.asks_per_s);
	(void)printf("ledger.tight.8.granted_pct\t%.1f\t%%\n", ours.granted_pct);
	(void)printf("ledger.tight.8.semaphore_asks_per_s\t%.0f\t1/s\n", semaphore.asks_per_s);
	(void)printf("ledger.tight.8.semaphore_granted_pct\t%.1f\t%%\n", semaphore.granted_pct);
	return fflush(stdout);
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
	unsigned pairs = quick ? 200000 : 2000000;
	unsigned rounds = quick ? 5 : ROUNDS_MAX;
	int status = pairs_run(pairs);

	(void)fflush(stdout);
	status = status ? status : seats_run(pairs);
	status = status ? status : crowds_run(rounds);
	status = status ? status : tight_run(rounds);
	return status ? status : race_run(quick ? RACE_ASKS : 4 * RACE_ASKS);
}
