/* SPDX-License-Identifier: Apache-2.0
 *
 * What taking and giving back costs when nobody else wants the lock, beside the two system calls of which
 * it is made, on the same byte of the same file: on a file system in memory and on the disk's. Blocks of
 * pairs take turns in one run; medians of the blocks, and of the ratios of neighbours. "poll" is the
 * record lock in the way of file systems that must not block. Without a file system's name: the worse of
 * the two.
 *
 * calls_per_pair is how many system calls a pair makes, counted by ptrace: a figure that no load on the
 * machine changes. Left out where ptrace isn't allowed. Prints "key<TAB>value<TAB>unit" lines.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "lock_stage.h"
#include "lock_way.h"
#include "samples.h"

enum { PAIRS = 200, FIRST_PAIRS = 10, TRACED_PAIRS = 50, TIMEOUT_MS = 1000 };
enum kind { SYSCALLS, BLOCK, POLL, KIND_COUNT };

static const struct lock_way *const ways[KIND_COUNT] = {
	[SYSCALLS] = &lock_way_bare,
	[BLOCK] = &lock_way_blocking,
	[POLL] = &lock_way_hinted,
};

struct figures {
	double pair_ns[KIND_COUNT];
	double over[KIND_COUNT]; /* of SYSCALLS */
	double calls_per_pair;   /* of BLOCK; 0: can't be counted */
};

static int pairs_make(struct lock_user *user, unsigned count)
{
	/* One try is all that the system calls are; the record lock is used as by everybody. */
	int64_t timeout_ms = user->lock ? TIMEOUT_MS : 0;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < count; i++) {
		r = user->way->take(user, timeout_ms);
		if (r == 0)
			r = user->way->give(user);
	}
	return r;
}

static int block_measure(struct lock_user *user, struct samples *blocks)
{
	uint64_t start_ns = berth_clock_ns();
	int r = pairs_make(user, PAIRS);
	uint64_t end_ns = berth_clock_ns();

	return r < 0 ? r : samples_add(blocks, end_ns - start_ns);
}

/* The median of the ratios of neighbours: both were made in the same phase of the machine. */
static int over_measure(const struct samples *blocks, const struct samples *syscalls,
			double *ret_over)
{
	struct samples ratios = { 0 }; /* in billionths */
	int r = 0;

	for (size_t i = 0; r == 0 && i < blocks->count; i++)
		r = samples_add(&ratios,
				(uint64_t)((double)blocks->ns[i] * 1e9 / (double)syscalls->ns[i]));
	if (r == 0)
		*ret_over = (double)samples_percentile(&ratios, 50) / 1e9;
	samples_done(&ratios);
	return r;
}

static int blocks_measure(struct lock_user *users, unsigned count, struct figures *figures)
{
	struct samples blocks[KIND_COUNT] = { 0 };
	int r = 0;

	for (unsigned i = 0; r == 0 && i < count; i++) {
		for (int kind = 0; r == 0 && kind < KIND_COUNT; kind++)
			r = block_measure(&users[kind], &blocks[kind]);
	}
	/* Before their order is lost to the percentiles. */
	for (int kind = 0; r == 0 && kind < KIND_COUNT; kind++)
		r = over_measure(&blocks[kind], &blocks[SYSCALLS], &figures->over[kind]);
	for (int kind = 0; kind < KIND_COUNT; kind++) {
		figures->pair_ns[kind] = (double)samples_percentile(&blocks[kind], 50) / PAIRS;
		samples_done(&blocks[kind]);
	}
	return r;
}

static void __attribute__((noreturn)) traced_live(const char *path, unsigned pairs)
{
	struct lock_user user = { 0 };

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* can't fail */
	if (ways[BLOCK]->open(ways[BLOCK], path, &user) < 0 ||
	    ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 || raise(SIGSTOP) != 0)
		_exit(1);
	_exit(pairs_make(&user, pairs) == 0 ? 0 : 1);
}

/* How many stops at the entry or the exit of a system call; 0: can't be counted. */
static unsigned stops_count(const char *path, unsigned pairs)
{
	unsigned count = 0;
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		traced_live(path, pairs);
	while (pid > 0 && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		count += WSTOPSIG(status) == SIGTRAP;
		if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) < 0)
			break;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? count : 0;
}

static double calls_count(const char *path)
{
	/* What is done once, at the first pair, doesn't count. */
	unsigned few = stops_count(path, FIRST_PAIRS);
	unsigned many = stops_count(path, FIRST_PAIRS + TRACED_PAIRS);

	return few && many > few ? (double)(many - few) / 2 / TRACED_PAIRS : 0;
}

static int place_measure(const char *base, bool quick, struct figures *figures,
			 struct berth_reason *reason)
{
	struct lock_user users[KIND_COUNT] = { 0 };
	struct lock_stage stage;
	int r = lock_stage_open(&stage, base, reason);

	if (r < 0)
		return r;
	struct lock_path path = lock_stage_path(&stage, "lock");
	for (int kind = 0; r == 0 && kind < KIND_COUNT; kind++)
		r = ways[kind]->open(ways[kind], path.text, &users[kind]);
	if (r == 0)
		r = blocks_measure(users, quick ? 5000 : 20000, figures);
	(void)berth_reason_set(reason, r, "%s", path.text);
	for (int kind = 0; kind < KIND_COUNT; kind++) {
		if (users[kind].way)
			users[kind].way->close(&users[kind]);
	}
	if (r < 0)
		return r;
	figures->calls_per_pair = calls_count(path.text);
	return lock_stage_close(&stage, reason);
}

static void figures_print(const char *prefix, const struct figures *figures)
{
	(void)printf("%s.pair_ns\t%.0f\tns\n", prefix, figures->pair_ns[BLOCK]);
	(void)printf("%s.syscalls_ns\t%.0f\tns\n", prefix, figures->pair_ns[SYSCALLS]);
	(void)printf("%s.over_syscalls\t%.3f\tratio\n", prefix, figures->over[BLOCK]);
	(void)printf("%s.poll.pair_ns\t%.0f\tns\n", prefix, figures->pair_ns[POLL]);
	(void)printf("%s.poll.over_syscalls\t%.3f\tratio\n", prefix, figures->over[POLL]);
	if (figures->calls_per_pair > 0)
		(void)printf("%s.calls_per_pair\t%.2f\tcount\n", prefix, figures->calls_per_pair);
	(void)fflush(stdout);
}

static int run(bool quick, struct berth_reason *reason)
{
	struct figures memory = { 0 };
	struct figures disk = { 0 };
	int r = place_measure(NULL, quick, &memory, reason);

	if (r < 0)
		return r;
	figures_print("uncontended.tmpfs", &memory);
	r = place_measure("/var/tmp", quick, &disk, reason);
	if (r < 0)
		return r;
	figures_print("uncontended.disk", &disk);
	figures_print("uncontended", disk.over[BLOCK] > memory.over[BLOCK] ? &disk : &memory);
	return 0;
}

int main(int argc, char **argv)
{
	return lock_bench_main(argc, argv, run);
}
