/* SPDX-License-Identifier: Apache-2.0
 *
 * The hall is memory that all share: the number of the step that members may take, how many have
 * taken it, and what each has to say. Both numbers are futexes.
 */
#include "crowd.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define LEAVE_STEP UINT32_MAX

struct crowd_hall {
	_Atomic uint32_t step;
	_Atomic uint32_t done_count; /* of the step; also those who arrived, before the first */
	struct crowd_member members[];
};

static size_t hall_size(uint32_t count)
{
	return sizeof(struct crowd_hall) + count * sizeof(struct crowd_member);
}

static void word_wake(_Atomic uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Returns at any time; the caller looks again. */
static void word_wait(_Atomic uint32_t *word, uint32_t seen, const struct timespec *timeout)
{
	(void)syscall(SYS_futex, word, FUTEX_WAIT, seen, timeout, NULL, 0);
}

static uint64_t cpu_ns(void)
{
	struct timespec t = { 0 };

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* can't fail for this clock */
	return (uint64_t)t.tv_sec * BERTH_NS_PER_S + (uint64_t)t.tv_nsec;
}

static uint32_t step_await(struct crowd_hall *hall, uint32_t taken)
{
	uint32_t step = atomic_load(&hall->step);

	for (; step == taken; step = atomic_load(&hall->step))
		word_wait(&hall->step, taken, NULL);
	return step;
}

static void step_report(struct crowd_hall *hall, uint32_t count)
{
	if (atomic_fetch_add(&hall->done_count, 1) + 1 == count)
		word_wake(&hall->done_count);
}

static _Noreturn void member_live(struct crowd *crowd, uint32_t index, crowd_act_fn act, void *arg)
{
	struct crowd_hall *hall = crowd->hall;
	struct crowd_member *self = &hall->members[index];

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody outlives who gathered them */
	self->err = 0;                          /* its page is there before anything is measured */
	step_report(hall, crowd->count);
	for (uint32_t step = step_await(hall, 0); step != LEAVE_STEP;
	     step = step_await(hall, step)) {
		uint64_t start_cpu_ns = cpu_ns();
		uint64_t start_ns = berth_clock_ns();

		self->err = act(arg, step, self);
		self->end_ns = berth_clock_ns();
		self->cpu_ns = cpu_ns() - start_cpu_ns;
		self->wall_ns = self->end_ns - start_ns;
		step_report(hall, crowd->count);
	}
	exit(0);
}

/* 0 when all have reported, -ECHILD when a member that hasn't can't any more. */
static int reports_await(struct crowd *crowd)
{
	const struct timespec patience = { .tv_nsec = 20 * (long)BERTH_NS_PER_MS };
	uint32_t done = atomic_load(&crowd->hall->done_count);

	for (; done < crowd->count; done = atomic_load(&crowd->hall->done_count)) {
		siginfo_t dead = { 0 };

		word_wait(&crowd->hall->done_count, done, &patience);
		if (waitid(P_ALL, 0, &dead, WEXITED | WNOHANG | WNOWAIT) == 0 && dead.si_pid != 0 &&
		    atomic_load(&crowd->hall->done_count) < crowd->count)
			return -ECHILD;
	}
	return 0;
}

int crowd_gather(struct crowd *crowd, uint32_t count, crowd_act_fn act, void *arg)
{
	*crowd = (struct crowd){ .count = count, .pids = calloc(count, sizeof(pid_t)) };
	void *hall = mmap(NULL, hall_size(count), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int r = 0;

	if (hall != MAP_FAILED) {
		crowd->hall = hall;
		crowd->members = crowd->hall->members;
	}
	if (!crowd->pids || !crowd->hall)
		r = -ENOMEM;
	(void)fflush(NULL); /* members must not print it again */
	for (uint32_t i = 0; r == 0 && i < count; i++) {
		crowd->pids[i] = fork();
		if (crowd->pids[i] == 0)
			member_live(crowd, i, act, arg);
		if (crowd->pids[i] < 0)
			r = -errno;
	}
	if (r == 0)
		r = reports_await(crowd);
	if (r < 0)
		(void)crowd_end(crowd, CROWD_KILLED); /* the error that counts is r */
	return r;
}

void crowd_step_begin(struct crowd *crowd)
{
	atomic_store(&crowd->hall->done_count, 0);
	atomic_fetch_add(&crowd->hall->step, 1);
	word_wake(&crowd->hall->step);
}

int crowd_step_end(struct crowd *crowd, struct berth_reason *reason)
{
	int r = reports_await(crowd);

	if (r < 0)
		return berth_reason_set(reason, r, "one of %u processes ended early", crowd->count);
	for (uint32_t i = 0; i < crowd->count; i++) {
		const struct crowd_member *member = &crowd->members[i];

		if (member->err)
			return berth_reason_set(reason, member->err, "process %u of %u: %s (%s)", i,
						crowd->count, member->reason.text,
						strerror(-member->err));
	}
	return 0;
}

int crowd_step(struct crowd *crowd, struct berth_reason *reason)
{
	crowd_step_begin(crowd);
	return crowd_step_end(crowd, reason);
}

uint64_t crowd_end(struct crowd *crowd, enum crowd_end end)
{
	uint64_t last_ns = 0;

	if (crowd->hall && end == CROWD_GOES) {
		atomic_store(&crowd->hall->step, LEAVE_STEP);
		word_wake(&crowd->hall->step);
	}
	for (uint32_t i = 0; crowd->pids && i < crowd->count && end == CROWD_KILLED; i++) {
		if (crowd->pids[i] > 0)
			(void)kill(crowd->pids[i], SIGKILL); /* our child, not waited for yet */
	}
	for (uint32_t i = 0; crowd->pids && i < crowd->count; i++) {
		if (crowd->pids[i] > 0 && waitpid(crowd->pids[i], NULL, 0) == crowd->pids[i])
			last_ns = berth_clock_ns();
	}
	if (crowd->hall)
		(void)munmap(crowd->hall, hall_size(crowd->count)); /* can't fail: we mapped it */
	free(crowd->pids);
	*crowd = (struct crowd){ 0 };
	return last_ns;
}
