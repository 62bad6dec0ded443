/* SPDX-License-Identifier: Apache-2.0
 *
 * A member's life: open the lock, then take it, be inside, give it back, as often as the plan says.
 */
#include "recordlock_hall.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { THREADS_MAX = 16 };

struct life {
	struct rlcrowd *crowd;
	struct rlcrowd_hall *hall;
	const struct rlcrowd_plan *plan;
	struct berth_recordlock *lock;
	uint32_t slot; /* the first */
};

struct strand { /* a thread of it */
	struct life *life;
	uint32_t tag;
	struct rlcrowd_member *self;
	uint64_t random;
	bool given_up; /* the witness was left early, for a foreign close */
	pthread_t thread;
};

void rlcrowd_word_wake(_Atomic uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void rlcrowd_word_wait(_Atomic uint32_t *word, uint32_t seen)
{
	(void)syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

/* splitmix64 */
uint64_t rlcrowd_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ULL;
	uint64_t z = *state;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static void note_fault(struct rlcrowd_member *self, const char *where, int err)
{
	if (self->err)
		return;
	(void)snprintf(self->where, sizeof self->where, "%s", where);
	self->err = err;
}

static void witness_enter(struct strand *s)
{
	struct rlcrowd_hall *hall = s->life->hall;
	uint32_t before = atomic_exchange(&hall->inside, s->tag);

	/* Somebody killed inside could not say so. */
	if (before && !atomic_load(&hall->members[before - 1].doomed))
		atomic_fetch_add(&hall->overlap_count, 1);
	atomic_store(&hall->last, s->tag);
	atomic_fetch_add(&hall->entry_count, 1);
	s->self->enter_ns = berth_clock_ns();
	atomic_fetch_add(&s->self->entered_count, 1);
	atomic_store(&s->self->state, RLCROWD_INSIDE);
}

static void witness_look(struct strand *s)
{
	if (atomic_load(&s->life->hall->last) != s->tag)
		atomic_fetch_add(&s->life->hall->overlap_count, 1);
}

static void witness_leave(struct strand *s)
{
	uint32_t tag = s->tag;

	witness_look(s);
	s->self->leave_ns = berth_clock_ns();
	if (!atomic_compare_exchange_strong(&s->life->hall->inside, &tag, 0))
		atomic_fetch_add(&s->life->hall->overlap_count, 1);
}

/* 0, or the child's pid where it stays. */
static int64_t fork_child(struct life *life, bool gives)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		while (!gives && kill(life->hall->maker_pid, 0) == 0)
			(void)usleep(100000);
		int r = berth_recordlock_check(life->lock) == -EPERM
				? berth_recordlock_give(life->lock)
				: 0;
		berth_recordlock_close(life->lock);
		_exit(r == -EPERM ? 0 : 1);
	}
	if (child < 0)
		return -errno;
	if (!gives)
		return child;
	if (waitpid(child, &status, 0) != child)
		return -errno;
	return status ? -EPROTO : 0;
}

static int64_t word_obey(struct strand *s, uint32_t word)
{
	struct life *life = s->life;

	switch (word) {
	case RLCROWD_FOREIGN_CLOSE:
		if (!s->given_up)
			witness_leave(s);
		s->given_up = true;
		return close(open(life->crowd->path, O_RDWR | O_CLOEXEC)) ? -errno : 0;
	case RLCROWD_CHECK:
		return berth_recordlock_check(life->lock);
	case RLCROWD_FORK_GIVES:
	case RLCROWD_FORK_SLEEPS:
		return fork_child(life, word == RLCROWD_FORK_GIVES);
	default:
		return -EINVAL;
	}
}

static void stay_until_told(struct strand *s)
{
	for (;;) {
		uint32_t word = atomic_load(&s->self->word);

		if (word == RLCROWD_LEAVE)
			return;
		if (word == 0) {
			rlcrowd_word_wait(&s->self->word, 0);
			continue;
		}
		atomic_store(&s->self->answer, word_obey(s, word));
		atomic_store(&s->self->word, 0);
		rlcrowd_word_wake(&s->self->word);
	}
}

static void stay(struct strand *s)
{
	uint32_t most_us = s->life->plan->hold_max_us;

	if (s->life->plan->hold_until_told) {
		stay_until_told(s);
		return;
	}
	for (int i = 0; i < 3; i++) {
		witness_look(s);
		if (most_us)
			(void)usleep((useconds_t)(rlcrowd_random(&s->random) % (most_us / 2)));
		else
			(void)sched_yield(); /* always succeeds */
	}
}

/* false: no more rounds. */
static bool round_play(struct strand *s)
{
	struct rlcrowd_member *self = s->self;
	struct berth_recordlock_owner owner = { 0 };

	atomic_store(&self->state, RLCROWD_WAITING);
	uint64_t start_ns = berth_clock_ns();
	int r = berth_recordlock_take(s->life->lock, s->life->plan->timeout_ms, &owner);
	self->wait_ns = berth_clock_ns() - start_ns;
	if (r == -ETIMEDOUT) {
		self->owner = owner;
		atomic_fetch_add(&self->timeout_count, 1);
		return true;
	}
	if (r) {
		note_fault(self, "take", r);
		return false;
	}
	witness_enter(s);
	stay(s);
	if (s->given_up) {
		atomic_store(&self->answer, berth_recordlock_give(s->life->lock));
		return false;
	}
	r = berth_recordlock_check(s->life->lock);
	if (r)
		note_fault(self, "check", r);
	witness_leave(s);
	r = berth_recordlock_give(s->life->lock);
	if (r)
		note_fault(self, "give", r);
	return r == 0;
}

static void *strand_run(void *arg)
{
	struct strand *s = arg;
	uint32_t rounds = s->life->plan->round_count;

	for (uint32_t i = 0;
	     rounds == RLCROWD_FOR_EVER ? !atomic_load(&s->life->hall->closed) : i < rounds; i++) {
		if (!round_play(s))
			break;
		/* The lock isn't fair: who asks again at once gets it before those whom he has just woken. */
		if (s->life->plan->hold_max_us)
			(void)usleep((useconds_t)(rlcrowd_random(&s->random) %
						  s->life->plan->hold_max_us));
	}
	return NULL;
}

static void *go_run(void *arg)
{
	struct life *life = arg;
	struct rlcrowd_member *self = &life->hall->members[life->slot];

	for (;;) {
		uint32_t word = atomic_load(&self->word);

		if (word == RLCROWD_EXIT)
			_exit(0);
		if (word == RLCROWD_EXEC) {
			(void)execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		rlcrowd_word_wait(&self->word, word);
	}
	return NULL;
}

static void *fork_run(void *arg)
{
	struct life *life = arg;
	struct rlcrowd_member *self = &life->hall->members[life->slot];

	while (atomic_load(&self->state) != RLCROWD_DONE) {
		int64_t r = fork_child(life, true);

		if (r)
			note_fault(self, "fork child", (int)r);
		(void)usleep(2000);
	}
	return NULL;
}

static int helpers_start(struct life *life, pthread_t *ret_forker)
{
	pthread_t goer;
	int r = life->plan->can_go ? pthread_create(&goer, NULL, go_run, life) : 0;

	if (r == 0 && life->plan->forks_all_the_time)
		r = pthread_create(ret_forker, NULL, fork_run, life);
	return -r;
}

static int strands_run(struct life *life, uint32_t thread_count)
{
	struct strand strands[THREADS_MAX];
	int r = 0;

	for (uint32_t i = 0; i < thread_count; i++)
		strands[i] = (struct strand){
			.life = life,
			.tag = life->slot + i + 1,
			.self = &life->hall->members[life->slot + i],
			.random = berth_clock_ns() ^ (life->slot + i),
		};
	for (uint32_t i = 1; i < thread_count && r == 0; i++)
		r = -pthread_create(&strands[i].thread, NULL, strand_run, &strands[i]);
	if (r == 0)
		(void)strand_run(&strands[0]); /* its faults are noted */
	for (uint32_t i = 1; i < thread_count && r == 0; i++)
		r = -pthread_join(strands[i].thread, NULL);
	return r;
}

_Noreturn void rlcrowd_member_live(struct rlcrowd *crowd, uint32_t slot, uint32_t thread_count,
				   const struct rlcrowd_plan *plan)
{
	struct life life = { .crowd = crowd, .hall = crowd->hall, .plan = plan, .slot = slot };
	struct rlcrowd_member *self = &crowd->members[slot];
	struct berth_recordlock_options options = {
		.size = sizeof options,
		.way = plan->way,
		.flags = plan->flags | BERTH_RECORDLOCK_CREATE,
	};
	pthread_t forker;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody outlives who made the crowd */
	for (uint32_t i = 0; i < thread_count; i++) {
		self[i].pid = getpid();
		atomic_store(&self[i].state, RLCROWD_BORN);
	}
	int r = thread_count > THREADS_MAX
			? -EINVAL
			: berth_recordlock_open(crowd->path, &options, &life.lock);
	if (r)
		note_fault(self, "open", r);
	else if ((r = helpers_start(&life, &forker)) || (r = strands_run(&life, thread_count)))
		note_fault(self, "thread", r);
	if (life.lock)
		berth_recordlock_trace(life.lock, &self->trace);
	for (uint32_t i = 0; i < thread_count; i++)
		atomic_store(&self[i].state, RLCROWD_DONE);
	if (r == 0 && plan->forks_all_the_time)
		(void)pthread_join(forker, NULL); /* it was made */
	berth_recordlock_close(life.lock);
	_exit(r ? 1 : 0);
}
