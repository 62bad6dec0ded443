/* SPDX-License-Identifier: Apache-2.0
 *
 * netfs_crowd FILE [--NAME VALUE]...: an owner of a lock and a crowd behind it, each a process; says what was
 * seen, one "name<TAB>value" a line, and judges nothing: the scripts do.
 *
 *	--way auto|block|poll|setlkw|setlk  how to take it: the library, or the bare system calls  [auto]
 *	--waiters N        how many stand behind the owner, 128 at most  [16]
 *	--timeout-ms N     each waiter's deadline  [30000]
 *	--settle-ms N      how long all of them are left to wait  [500]
 *	--event EVENT      what happens then  [kill]
 *		kill       the owner is killed (SIGKILL)
 *		give       the owner gives it back
 *		waiters    the waiters are killed, one after the other
 *		COMMAND    anything else is a shell command
 *	--patience-ms N    how long the waiters have to come back after it; who hasn't is killed  [60000]
 *	--then COMMAND     run after the patience, of which there is a second helping. Before, one waiter
 *	                   that hasn't come back is killed ("hangs_dying": it isn't gone after 2 s)
 *
 * The event comes when each waiter was *seen* to wait: it has begun to take, hasn't come back, and its
 * process was found asleep twice. Times are counted from right before the event, on one clock for all.
 *
 * Exclusion is judged without the lock: who comes in puts its number into shared memory where nobody's may
 * stand ("overlaps"), and nobody may come in before the owner's end ("early").
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
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
#include "base/process.h"
#include "netfs/taker.h"

#define WAITERS_MAX 128
#define LOOK_NS     (20 * BERTH_NS_PER_MS)
#define INSIDE_NS   (200 * BERTH_NS_PER_US)
#define DEATH_NS    (2 * BERTH_NS_PER_S) /* who isn't gone after that can't be killed */
/* An owner's end gives back a lock: with a server that has just come back that takes as long as the recovery. */
#define OWNER_DEATH_NS (60 * BERTH_NS_PER_S)

enum waiter_state {
	WAITER_BORN,
	WAITER_ASKS,
	WAITER_BACK, /* from take, one way or the other; the rest of the row is filled in */
};

struct waiter {
	_Atomic int state;
	int err;
	uint64_t asked_ns, back_ns;
	pid_t named_pid;
	struct berth_recordlock_trace trace;
	/* the parent's own */
	pid_t pid;
	unsigned asleep_count;
	bool gone, was_killed;
};

static struct hall {
	_Atomic int owner_state; /* 1: has it; < 0: -errno */
	_Atomic uint64_t end_ns; /* right before the event */
	_Atomic unsigned inside, overlap_count, report_count;
	char report[160]; /* the latest */
	struct waiter waiters[WAITERS_MAX];
} * hall;

static struct {
	const char *path, *event, *then;
	enum taker_way way;
	unsigned waiter_count;
	int64_t timeout_ms, settle_ms, patience_ms;
} plan = { .event = "kill",
	   .waiter_count = 16,
	   .timeout_ms = 30000,
	   .settle_ms = 500,
	   .patience_ms = 60000 };

static uint64_t plan_ns(int64_t ms)
{
	return (uint64_t)ms * BERTH_NS_PER_MS;
}

static void hear(void *arg, int err, const char *text)
{
	(void)arg;
	(void)snprintf(hall->report, sizeof(hall->report), "%s: %s", strerrorname_np(abs(err)),
		       text);
	atomic_fetch_add(&hall->report_count, 1);
}

/* Gives it back when a byte comes, or the pipe's other end closes. */
static _Noreturn void owner_live(int told_fd)
{
	struct taker taker;
	char told = 0;
	int err = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The owner needn't wait: by a try, which a file system that grants no wait grants too. */
	err = taker_open(&taker, plan.way == TAKER_SETLKW ? TAKER_SETLK : plan.way, plan.path, hear,
			 NULL);
	if (err == 0)
		err = taker_take(&taker, 10000, NULL);
	atomic_store(&hall->owner_state, err == 0 ? 1 : err);
	if (err != 0)
		_exit(1);
	(void)!read(told_fd, &told, 1); /* whatever it says */
	atomic_store(&hall->end_ns, berth_clock_ns());
	err = taker_give(&taker);
	for (;;) /* alive: what the waiters get, they get by the unlock */
		(void)pause();
}

static _Noreturn void waiter_live(struct waiter *self, unsigned number)
{
	struct berth_recordlock_owner owner = { 0 };
	struct taker taker;
	unsigned nobody = 0;
	int err = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	err = taker_open(&taker, plan.way, plan.path, hear, NULL);
	self->asked_ns = berth_clock_ns();
	atomic_store(&self->state, WAITER_ASKS);
	if (err == 0)
		err = taker_take(&taker, plan.timeout_ms, &owner);
	self->back_ns = berth_clock_ns();
	if (err == 0) {
		if (!atomic_compare_exchange_strong(&hall->inside, &nobody, number + 1))
			atomic_fetch_add(&hall->overlap_count, 1);
		berth_sleep_ns(INSIDE_NS, UINT64_MAX);
		if (atomic_exchange(&hall->inside, 0) != number + 1)
			atomic_fetch_add(&hall->overlap_count, 1);
		err = taker_give(&taker);
	}
	if (taker.lock != NULL || taker.fd >= 0)
		taker_trace(&taker, &self->trace);
	self->err = err;
	self->named_pid = owner.pid;
	atomic_store(&self->state, WAITER_BACK);
	_exit(0);
}

static bool waiter_is_back(const struct waiter *waiter)
{
	return atomic_load(&waiter->state) == WAITER_BACK;
}

static char process_state(pid_t pid)
{
	struct berth_process_stat stat;

	return berth_process_stat_read(pid, &stat) == 0 ? stat.state : '?';
}

/* True when the child is gone, which is also when it is a zombie that waitpid takes away. */
static bool child_gone(pid_t pid, uint64_t patience_ns)
{
	uint64_t deadline_ns = berth_deadline_after(patience_ns);

	while (waitpid(pid, NULL, WNOHANG) == 0) {
		if (berth_deadline_passed(deadline_ns))
			return false;
		berth_sleep_ns(BERTH_NS_PER_MS / 2, deadline_ns);
	}
	return true;
}

static struct {
	unsigned seen, killed, unkillable, hangs_dying;
	uint64_t slowest_death_ns;
} seen;

static void kill_and_look(struct waiter *waiter)
{
	uint64_t begin_ns = berth_clock_ns();

	if (!waiter_is_back(waiter) && !waiter->was_killed) {
		waiter->was_killed = true;
		seen.killed++;
	}
	(void)kill(waiter->pid, SIGKILL);
	waiter->gone = child_gone(waiter->pid, DEATH_NS);
	if (berth_clock_ns() - begin_ns > seen.slowest_death_ns)
		seen.slowest_death_ns = berth_clock_ns() - begin_ns;
	if (!waiter->gone)
		(void)fprintf(stderr, "netfs_crowd: %d survives SIGKILL in state %c\n",
			      (int)waiter->pid, process_state(waiter->pid));
}

/* Until each waiter was found asleep twice in its wait; returns how many were. */
static unsigned see_them_wait(void)
{
	uint64_t deadline_ns = berth_deadline_after(20 * BERTH_NS_PER_S);
	unsigned waiting = 0;

	while (waiting < plan.waiter_count && !berth_deadline_passed(deadline_ns)) {
		berth_sleep_ns(LOOK_NS, deadline_ns);
		waiting = 0;
		for (unsigned i = 0; i < plan.waiter_count; i++) {
			struct waiter *waiter = &hall->waiters[i];
			char state = process_state(waiter->pid);

			if (atomic_load(&waiter->state) != WAITER_ASKS)
				continue;
			waiter->asleep_count += state == 'S' || state == 'D' ? 1 : 0;
			waiting += waiter->asleep_count >= 2 ? 1 : 0;
		}
	}
	return waiting;
}

/* How many have not come back after the patience. */
static unsigned wait_for_them(void)
{
	uint64_t deadline_ns = berth_deadline_after(plan_ns(plan.patience_ms));
	unsigned left = 0;

	for (;;) {
		left = 0;
		for (unsigned i = 0; i < plan.waiter_count; i++)
			left += waiter_is_back(&hall->waiters[i]) || hall->waiters[i].was_killed
					? 0
					: 1;
		if (left == 0 || berth_deadline_passed(deadline_ns))
			return left;
		berth_sleep_ns(5 * BERTH_NS_PER_MS, deadline_ns);
	}
}

static void event(pid_t owner, int tell_fd)
{
	atomic_store(&hall->end_ns, berth_clock_ns());
	if (strcmp(plan.event, "kill") == 0) {
		(void)kill(owner, SIGKILL);
	} else if (strcmp(plan.event, "give") == 0) {
		(void)!write(tell_fd, "g", 1); /* the owner stamps the time again, and exactly */
	} else if (strcmp(plan.event, "waiters") == 0) {
		for (unsigned i = 0; i < plan.waiter_count; i++)
			kill_and_look(&hall->waiters[i]);
	} else if (system(plan.event) != 0) {
		(void)fprintf(stderr, "netfs_crowd: %s: failed\n", plan.event);
	}
}

static double ms_since(uint64_t ns, uint64_t begin_ns)
{
	return ((double)ns - (double)begin_ns) / 1e6;
}

static void say_count(const char *name, uint64_t count)
{
	(void)printf("%s\t%" PRIu64 "\n", name, count);
}

static void say_ms(const char *name, double ms)
{
	(void)printf("%s\t%.1f\n", name, ms);
}

static void say_traces(void)
{
	static const char *const names[] = { "auto", "block", "poll", "bare" };
	struct berth_recordlock_trace sum = { 0 };
	double rate = 0;

	for (unsigned i = 0; i < plan.waiter_count; i++) {
		const struct waiter *waiter = &hall->waiters[i];
		double s = ms_since(waiter->back_ns, waiter->asked_ns) / 1e3;

		if (!waiter_is_back(waiter))
			continue;
		sum.way = waiter->trace.way;
		sum.try_count += waiter->trace.try_count;
		sum.block_count += waiter->trace.block_count;
		sum.nap_count += waiter->trace.nap_count;
		sum.hint_count += waiter->trace.hint_count;
		if (s > 0.5 && (double)waiter->trace.try_count / s > rate)
			rate = (double)waiter->trace.try_count / s;
	}
	(void)printf("way\t%s\n", sum.way < 4 ? names[sum.way] : "?");
	say_count("tries", sum.try_count);
	say_count("blocks", sum.block_count);
	say_count("naps", sum.nap_count);
	say_count("hints", sum.hint_count);
	(void)printf("tries_per_s\t%.1f\n", rate);
}

static void say_ends(pid_t owner)
{
	uint64_t end_ns = atomic_load(&hall->end_ns);
	unsigned entered = 0, early = 0, timed_out = 0, refused = 0, named = 0;
	uint64_t first_ns = UINT64_MAX, last_ns = 0;
	double late_ms = 0;
	int error = 0;

	for (unsigned i = 0; i < plan.waiter_count; i++) {
		const struct waiter *waiter = &hall->waiters[i];
		double over_ms =
			ms_since(waiter->back_ns, waiter->asked_ns) - (double)plan.timeout_ms;

		if (!waiter_is_back(waiter))
			continue;
		late_ms = over_ms > late_ms ? over_ms : late_ms;
		if (waiter->err == 0) {
			entered++;
			early += waiter->back_ns < end_ns ? 1 : 0;
			first_ns = waiter->back_ns < first_ns ? waiter->back_ns : first_ns;
			last_ns = waiter->back_ns > last_ns ? waiter->back_ns : last_ns;
			continue;
		}
		timed_out += waiter->err == -ETIMEDOUT ? 1 : 0;
		refused += waiter->err == -ETIMEDOUT ? 0 : 1;
		named += waiter->err == -ETIMEDOUT && waiter->named_pid == owner ? 1 : 0;
		error = waiter->err == -ETIMEDOUT ? error : waiter->err;
	}
	say_count("entered", entered);
	if (entered > 0) {
		say_ms("first_ms", ms_since(first_ns, end_ns));
		say_ms("last_ms", ms_since(last_ns, end_ns));
	}
	say_count("early", early);
	say_count("overlaps", atomic_load(&hall->overlap_count));
	say_count("timed_out", timed_out);
	say_count("named_the_owner", named);
	say_ms("late_ms", late_ms);
	say_count("refused", refused);
	(void)printf("error\t%s\n", error == 0 ? "none" : strerrorname_np(-error));
}

static void say_all(pid_t owner, unsigned slow)
{
	say_count("waiters", plan.waiter_count);
	say_count("seen_waiting", seen.seen);
	say_ends(owner);
	say_count("slow", slow);
	say_count("killed", seen.killed);
	say_count("hangs_dying", seen.hangs_dying);
	say_count("unkillable", seen.unkillable);
	say_ms("slowest_death_ms", (double)seen.slowest_death_ns / 1e6);
	say_traces();
	say_count("reports", atomic_load(&hall->report_count));
	(void)printf("report\t%s\n", hall->report);
}

static const struct option options[] = {
	{ "way", required_argument, NULL, 'w' },
	{ "waiters", required_argument, NULL, 'n' },
	{ "timeout-ms", required_argument, NULL, 't' },
	{ "settle-ms", required_argument, NULL, 's' },
	{ "event", required_argument, NULL, 'e' },
	{ "patience-ms", required_argument, NULL, 'p' },
	{ "then", required_argument, NULL, 'x' },
	{ 0 },
};

static bool plan_way(const char *name)
{
	for (unsigned i = 0; i < TAKER_WAY_COUNT; i++) {
		if (strcmp(taker_way_names[i], name) == 0) {
			plan.way = i;
			return true;
		}
	}
	return false;
}

static bool plan_read(int argc, char **argv)
{
	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 'w' && !plan_way(optarg))
			return false;
		if (c == 'n')
			plan.waiter_count = (unsigned)atoi(optarg);
		else if (c == 't')
			plan.timeout_ms = atoll(optarg);
		else if (c == 's')
			plan.settle_ms = atoll(optarg);
		else if (c == 'p')
			plan.patience_ms = atoll(optarg);
		else if (c == 'e')
			plan.event = optarg;
		else if (c == 'x')
			plan.then = optarg;
		else if (c != 'w')
			return false;
	}
	plan.path = argv[optind];
	return plan.path != NULL && plan.waiter_count >= 1 && plan.waiter_count <= WAITERS_MAX;
}

static pid_t owner_start(int told[2])
{
	uint64_t deadline_ns = berth_deadline_after(15 * BERTH_NS_PER_S);
	pid_t pid = pipe2(told, O_CLOEXEC) != 0 ? -1 : fork();

	if (pid == 0) {
		(void)close(told[1]);
		owner_live(told[0]);
	}
	while (pid > 0 && atomic_load(&hall->owner_state) == 0 &&
	       !berth_deadline_passed(deadline_ns))
		berth_sleep_ns(BERTH_NS_PER_MS, deadline_ns);
	return pid;
}

static bool waiters_start(void)
{
	for (unsigned i = 0; i < plan.waiter_count; i++) {
		struct waiter *waiter = &hall->waiters[i];
		pid_t pid = fork();

		if (pid == 0)
			waiter_live(waiter, i);
		if (pid < 0)
			return false;
		waiter->pid = pid;
	}
	return true;
}

static unsigned second_helping(unsigned slow)
{
	for (unsigned i = 0; slow > 0 && i < plan.waiter_count; i++) {
		if (!waiter_is_back(&hall->waiters[i])) {
			kill_and_look(&hall->waiters[i]);
			seen.hangs_dying =
				hall->waiters[i].gone ? 0 : 1; /* for good? see the end */
			break;
		}
	}
	if (system(plan.then) != 0)
		(void)fprintf(stderr, "netfs_crowd: %s: failed\n", plan.then);
	return wait_for_them();
}

int main(int argc, char **argv)
{
	int told[2];
	unsigned slow = 0;
	pid_t owner = 0;

	hall = mmap(NULL, sizeof(*hall), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (hall == MAP_FAILED || !plan_read(argc, argv)) {
		(void)fprintf(stderr, "usage: netfs_crowd FILE [--NAME VALUE]...\n");
		return 2;
	}
	owner = owner_start(told);
	if (owner <= 0 || atomic_load(&hall->owner_state) != 1) {
		int state = atomic_load(&hall->owner_state);

		(void)printf("owner\t%s\nreports\t%u\nreport\t%s\n",
			     state == 0 ? "hangs" : strerrorname_np(-state),
			     atomic_load(&hall->report_count), hall->report);
		if (owner > 0)
			(void)kill(owner, SIGKILL);
		return 3;
	}
	(void)printf("owner\thas it\n");
	if (!waiters_start()) {
		(void)kill(owner, SIGKILL);
		return 4; /* the waiters that there are go with their parent */
	}
	seen.seen = see_them_wait();
	berth_sleep_ns(plan_ns(plan.settle_ms), UINT64_MAX);
	event(owner, told[1]);
	slow = wait_for_them();
	say_count("slow_at_first", slow);
	if (plan.then != NULL)
		slow = second_helping(slow);
	for (unsigned i = 0; i < plan.waiter_count; i++) {
		if (!hall->waiters[i].gone)
			kill_and_look(&hall->waiters[i]);
		seen.unkillable += hall->waiters[i].gone ? 0 : 1;
	}
	(void)kill(owner, SIGKILL);
	seen.unkillable += child_gone(owner, OWNER_DEATH_NS) ? 0 : 1;
	say_all(owner, slow);
	return 0;
}
