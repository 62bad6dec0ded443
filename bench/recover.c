/* SPDX-License-Identifier: Apache-2.0
 *
 * How soon a dead process's memory is another's, and what a stopped process costs. A victim holds
 * 700 of 1024 MiB while it asks, gives back, leaves and comes again in a tight loop, beside eight
 * others at work; at a random instant it gets SIGKILL, and the next process asks for 900 MiB until
 * it is granted: the time from the signal to that answer, if the victim died with its 700 MiB; if it
 * died coming or leaving, without them, the time is under "between". Beside it, "gone" is what the
 * kernel takes until waitid returns. An ask that began after that and was refused is counted; there should be
 * none. With SIGSTOP: what one ask that fits costs the next.
 *
 * Beside it, in the same run and with the same trials, two ways to keep such books under one lock
 * (recover_rivals.c). A stopped owner of theirs stops everybody for ever, so that isn't measured.
 * Prints "key<TAB>value<TAB>unit" lines.
 */
#include "recover.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
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
#include "region/ledger.h"
#include "samples.h"

#define HELD_BYTES (700 * MIB)
#define NEED_BYTES (900 * MIB)
#define FIT_BYTES  (200 * MIB)
#define ANSWER_NS  (60 * BERTH_NS_PER_S) /* for the answer: then the run has failed */
#define INSTANT_NS (2 * BERTH_NS_PER_MS) /* within which the signal comes */

enum { OTHER_COUNT = 8, LIFE_ASKS = 256, SEED = 20260801 };

static struct board {
	_Atomic bool ended;
	_Atomic uint32_t entered_count; /* of the others and the asker */
	_Atomic uint32_t ready_trial;   /* the victim holds what it shall hold */
	_Atomic int32_t victim;
	_Atomic bool holding;      /* the victim has HELD_BYTES */
	_Atomic uint64_t delay_ns; /* before the signal */
	_Atomic uint64_t signalled_ns;
	_Atomic uint64_t answered_ns;      /* 0: it failed */
	_Atomic uint64_t refused_start_ns; /* when the last ask that was refused began */
} * board;

static struct {
	const struct recover_way *way;
	pid_t others[OTHER_COUNT];
	pid_t asker;
	int order[2];  /* a byte to the asker: 'k' kill and ask, 's' ask beside a stopped one */
	int report[2]; /* a byte back */
	uint32_t trial;
	uint32_t random;
	uint32_t refused_count; /* after the victim was gone */
	struct samples answers;
	struct samples between;
	struct samples gone;
	struct samples stopped;
} run = { .random = SEED };

static uint32_t random_next(void)
{
	run.random = run.random * 1664525U + 1013904223U;
	return run.random >> 8;
}

static pid_t child_start(int (*body)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* can't fail */
		_exit(body());
	}
	return pid;
}

static int other_body(void)
{
	if (run.way->enter() < 0)
		return 1;
	atomic_fetch_add(&board->entered_count, 1);
	for (uint32_t i = 0; !atomic_load(&board->ended); i++) {
		if (run.way->ask(65536) == 0)
			run.way->refund(65536);
		if (i % 16 == 0)
			berth_sleep_ns(BERTH_NS_PER_MS / 10, UINT64_MAX);
	}
	run.way->leave();
	return 0;
}

static int victim_body(void)
{
	uint32_t trial = run.trial;

	for (;;) {
		if (run.way->enter() < 0 || run.way->ask(HELD_BYTES) < 0)
			return 1;
		atomic_store(&board->holding, true);
		atomic_store(&board->ready_trial, trial);
		for (uint32_t i = 0; i < LIFE_ASKS; i++) {
			uint64_t bytes = 1 + i % 64 * MIB;

			if (run.way->ask(bytes) == 0)
				run.way->refund(bytes);
		}
		atomic_store(&board->holding, false);
		run.way->refund(HELD_BYTES);
		run.way->leave();
	}
}

/* Sends the signal itself, so that nothing but the answer is in the time. */
static void kill_and_ask(void)
{
	berth_sleep_ns(atomic_load(&board->delay_ns), UINT64_MAX);
	uint64_t deadline_ns = berth_deadline_after(ANSWER_NS);
	uint64_t start_ns = berth_clock_ns();

	atomic_store(&board->signalled_ns, start_ns);
	(void)kill(atomic_load(&board->victim), SIGKILL); /* it is there: nobody waited for it */
	while (run.way->ask(NEED_BYTES) < 0) {
		atomic_store(&board->refused_start_ns, start_ns);
		if (berth_deadline_passed(deadline_ns))
			return;
		(void)sched_yield(); /* always succeeds */
		start_ns = berth_clock_ns();
	}
	atomic_store(&board->answered_ns, berth_clock_ns());
	run.way->refund(NEED_BYTES);
}

static void ask_beside(void)
{
	atomic_store(&board->signalled_ns, berth_clock_ns());
	if (run.way->ask(FIT_BYTES) < 0)
		return;
	atomic_store(&board->answered_ns, berth_clock_ns());
	run.way->refund(FIT_BYTES);
}

static int asker_body(void)
{
	char order;

	if (run.way->enter() < 0)
		return 1;
	atomic_fetch_add(&board->entered_count, 1);
	while (read(run.order[0], &order, 1) == 1 && order != 'e') {
		atomic_store(&board->answered_ns, 0);
		atomic_store(&board->refused_start_ns, 0);
		if (order == 'k')
			kill_and_ask();
		else
			ask_beside();
		if (write(run.report[1], "", 1) != 1)
			return 1;
	}
	run.way->leave();
	return 0;
}

static bool order_give(char order)
{
	return write(run.order[1], &order, 1) == 1;
}

static bool report_take(void)
{
	char byte;

	return read(run.report[0], &byte, 1) == 1 && atomic_load(&board->answered_ns) != 0;
}

static pid_t victim_start(void)
{
	run.trial++;
	atomic_store(&board->holding, false);
	pid_t pid = child_start(victim_body);
	atomic_store(&board->victim, pid);
	while (pid > 0 && atomic_load(&board->ready_trial) != run.trial) {
		if (waitpid(pid, NULL, WNOHANG) != 0)
			return -1;
		berth_sleep_ns(BERTH_NS_PER_MS / 20, UINT64_MAX);
	}
	return pid;
}

static int kill_trial(void)
{
	siginfo_t info;

	atomic_store(&board->delay_ns, random_next() % INSTANT_NS);
	pid_t victim = victim_start();
	if (victim < 0 || !order_give('k'))
		return -ECHILD;
	if (waitid(P_PID, (id_t)victim, &info, WEXITED) < 0)
		return -errno;
	uint64_t gone_ns = berth_clock_ns();
	if (!report_take())
		return -ETIMEDOUT;
	uint64_t signalled_ns = atomic_load(&board->signalled_ns);
	run.refused_count += atomic_load(&board->refused_start_ns) > gone_ns;
	int r = samples_add(atomic_load(&board->holding) ? &run.answers : &run.between,
			    atomic_load(&board->answered_ns) - signalled_ns);
	return r < 0 ? r : samples_add(&run.gone, gone_ns - signalled_ns);
}

static int stop_trial(void)
{
	pid_t victim = victim_start();
	siginfo_t info;

	if (victim < 0)
		return -ECHILD;
	berth_sleep_ns(random_next() % INSTANT_NS, UINT64_MAX);
	(void)kill(victim, SIGSTOP); /* it is ours */
	if (waitid(P_PID, (id_t)victim, &info, WSTOPPED | WEXITED) < 0)
		return -errno;
	bool answered = order_give('s') && report_take();
	(void)kill(victim, SIGKILL);
	if (waitid(P_PID, (id_t)victim, &info, WEXITED) < 0)
		return -errno;
	return answered ? samples_add(&run.stopped, atomic_load(&board->answered_ns) -
							    atomic_load(&board->signalled_ns))
			: -ETIMEDOUT;
}

static int cast_start(void)
{
	memset(board, 0, sizeof *board);
	run.trial = 0;
	run.refused_count = 0;
	if (pipe(run.order) < 0 || pipe(run.report) < 0)
		return -errno;
	run.asker = child_start(asker_body);
	for (int i = 0; i < OTHER_COUNT; i++)
		run.others[i] = child_start(other_body);
	uint64_t deadline_ns = berth_deadline_after(ANSWER_NS);
	while (atomic_load(&board->entered_count) < OTHER_COUNT + 1) {
		if (berth_deadline_passed(deadline_ns))
			return -ETIMEDOUT;
		berth_sleep_ns(BERTH_NS_PER_MS, UINT64_MAX);
	}
	return 0;
}

static void cast_end(void)
{
	atomic_store(&board->ended, true);
	(void)order_give('e'); /* else it ends with us */
	(void)waitpid(run.asker, NULL, 0);
	for (int i = 0; i < OTHER_COUNT; i++)
		(void)waitpid(run.others[i], NULL, 0);
	for (int i = 0; i < 2; i++) {
		(void)close(run.order[i]); /* pipes of ours */
		(void)close(run.report[i]);
	}
}

static void print_ms(const char *what, struct samples *samples)
{
	static const struct {
		const char *name;
		unsigned percent;
	} columns[] = { { "p50", 50 }, { "p99", 99 }, { "max", 100 } };

	for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
		(void)printf("%s%s.%s_ms\t%.3f\tms\n", run.way->prefix, what, columns[i].name,
			     (double)samples_percentile(samples, columns[i].percent) /
				     (double)BERTH_NS_PER_MS);
	samples_done(samples);
}

static int way_run(const struct recover_way *way, unsigned trials)
{
	bool ours = way == &recover_ours;

	run.way = way;
	int r = way->prepare();
	if (r < 0)
		return r;
	r = cast_start();
	while (r == 0 && run.answers.count < trials)
		r = kill_trial();
	for (unsigned i = 0; r == 0 && ours && i < trials; i++)
		r = stop_trial();
	if (r < 0)
		return r; /* the children end with us */
	cast_end();
	way->finish();
	(void)printf("%s.trials\t%zu\tcount\n", way->prefix, run.answers.count);
	print_ms("", &run.answers);
	print_ms(".between", &run.between);
	print_ms(".gone", &run.gone);
	(void)printf("%s.refused_after_gone\t%" PRIu32 "\tcount\n", way->prefix, run.refused_count);
	if (ours)
		print_ms(".stopped", &run.stopped);
	(void)fflush(stdout);
	return 0;
}

static struct {
	char path[4096];
	struct berth_region *region;
	struct berth_seat *seat;
} own;

static int own_join(void)
{
	struct berth_region_spec spec = { .share_name = "bench", .gpu_count = 1, .priority = 1 };

	spec.gpus[0].memory_limit_bytes = LIMIT_BYTES;
	return berth_region_join(own.path, &spec, 0, &own.region, NULL, NULL);
}

static int own_prepare(void)
{
	const char *dir = getenv("TMPDIR");

	if (!dir)
		dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	(void)snprintf(own.path, sizeof own.path, "%s/berth-bench-%ld-recover.cache", dir,
		       (long)getpid());
	int r = own_join();
	berth_region_close(own.region);
	own.region = NULL;
	return r;
}

static int own_enter(void)
{
	int r = own.region ? 0 : own_join();

	return r < 0 ? r : berth_seat_claim(own.region, 0, &own.seat, NULL, NULL);
}

static int own_ask(uint64_t bytes)
{
	return berth_ledger_ask(own.seat, 0, BERTH_CHARGE_DATA, bytes);
}

static void own_refund(uint64_t bytes)
{
	berth_ledger_refund(own.seat, 0, BERTH_CHARGE_DATA, bytes);
}

static void own_leave(void)
{
	berth_seat_leave(own.seat);
	own.seat = NULL;
}

static void own_finish(void)
{
	(void)unlink(own.path); /* made above */
}

const struct recover_way recover_ours = {
	.prefix = "recover",
	.prepare = own_prepare,
	.enter = own_enter,
	.ask = own_ask,
	.refund = own_refund,
	.leave = own_leave,
	.finish = own_finish,
};

static int failed(const struct recover_way *way, int err)
{
	(void)fprintf(stderr, "bench-recover: %s: %s\n", way->prefix, strerror(-err));
	if (way == &recover_ours)
		own_finish();
	return 1;
}

int main(int argc, char **argv)
{
	static const struct recover_way *const ways[] = { &recover_ours, &recover_robust,
							  &recover_semaphore };
	bool quick = argc == 2 && strcmp(argv[1], "--quick") == 0;

	if (argc > 2 || (argc == 2 && !quick)) {
		(void)fprintf(stderr, "usage: %s [--quick]\n", argv[0]);
		return 2;
	}
	board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (board == MAP_FAILED)
		return failed(&recover_ours, -errno);
	for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
		/* The semaphore's wait takes most of the time. */
		unsigned trials = ways[i] == &recover_semaphore ? 100 : quick ? 200 : 2000;
		int r = way_run(ways[i], trials);

		if (r < 0)
			return failed(ways[i], r);
	}
	(void)printf("recover.semaphore.wait_ms\t%d\tms\n", RECOVER_SEMAPHORE_WAIT_MS);
	return 0;
}
