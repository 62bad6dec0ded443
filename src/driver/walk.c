/* SPDX-License-Identifier: Apache-2.0
 *
 * Two counters against each other, as in Dekker's algorithm: who walks first counts itself, then looks
 * whether somebody forks; who forks first counts itself, then looks whether somebody walks. One of
 * two that meet sees the other, for which all accesses are sequentially consistent.
 */
#include "driver/walk.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/clock.h"
#include "driver/elf.h"

#define WAIT_NS (2 * BERTH_NS_PER_S)
#define NAP_NS  (100 * BERTH_NS_PER_US)
#define YIELDS  20

static struct {
	_Atomic bool registered;
	_Atomic pid_t pid; /* whose counters they are */
	_Atomic unsigned walking_count;
	_Atomic unsigned forking_count;
} walks;

/* Initial-exec: other models may allocate on first use. A signal handler may fork inside a walk. */
static __thread unsigned own_walks __attribute__((tls_model("initial-exec")));
static __thread bool forking_here __attribute__((tls_model("initial-exec")));

/* False: the bound was reached. */
static bool await(const _Atomic unsigned *count, unsigned most)
{
	uint64_t deadline_ns = berth_deadline_after(WAIT_NS);

	for (unsigned i = 0; atomic_load(count) > most; i++) {
		if (berth_deadline_passed(deadline_ns))
			return false;
		/* A walk takes microseconds, a call of NVML's milliseconds: leave it the processor. */
		if (i < YIELDS)
			(void)sched_yield(); /* always succeeds */
		else
			berth_sleep_ns(NAP_NS, deadline_ns);
	}
	return true;
}

/* The child of a bare clone runs no handler: what it inherited are counts of threads that it hasn't. */
static void notice_bare_clone(void)
{
	pid_t before = atomic_load(&walks.pid);
	pid_t self = getpid();

	if (before == self || !atomic_compare_exchange_strong(&walks.pid, &before, self))
		return;
	atomic_store(&walks.forking_count, 0);
	atomic_store(&walks.walking_count, own_walks);
}

static void fork_prepare(void)
{
	if (forking_here)
		return;
	notice_bare_clone();
	forking_here = true;
	atomic_fetch_add(&walks.forking_count, 1);
	(void)await(&walks.walking_count, own_walks); /* either way the fork goes on */
}

/* Only if prepare ran in this fork. */
static void fork_parent(void)
{
	if (forking_here)
		atomic_fetch_sub(&walks.forking_count, 1);
	forking_here = false;
}

static void fork_child(void)
{
	atomic_store(&walks.pid, getpid());
	atomic_store(&walks.forking_count, 0);
	atomic_store(&walks.walking_count, own_walks);
	forking_here = false;
}

/* Before main, where no other thread is about to fork: a fork that has begun when a handler is
 * registered doesn't run it. ENOMEM: it goes without. */
__attribute__((constructor)) static void walk_register(void)
{
	pid_t none = 0;

	(void)atomic_compare_exchange_strong(&walks.pid, &none, getpid()); /* else it is set */
	if (!atomic_exchange(&walks.registered, true))
		(void)pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* The handlers may be there twice: whichever comes first in a fork does the work. */
void berth_walk_before_others(void)
{
	static _Atomic bool done;

	if (!atomic_exchange(&done, true))
		(void)pthread_atfork(fork_prepare, fork_parent, fork_child); /* ENOMEM: as it was */
}

void berth_walk_enter(void)
{
	walk_register();
	notice_bare_clone();
	atomic_fetch_add(&walks.walking_count, 1);
	while (own_walks == 0 && atomic_load(&walks.forking_count) != 0) {
		atomic_fetch_sub(&walks.walking_count, 1);
		bool ended = await(&walks.forking_count, 0);
		atomic_fetch_add(&walks.walking_count, 1);
		if (!ended)
			break;
	}
	own_walks++;
}

void berth_walk_leave(void)
{
	own_walks--;
	atomic_fetch_sub(&walks.walking_count, 1);
}

int berth_walk_objects(berth_walk_visitor *visit, void *arg)
{
	static _Atomic(void *) cache;
	void *real = atomic_load_explicit(&cache, memory_order_relaxed);

	if (real == NULL) {
		if (berth_elf_libc_symbol("dl_iterate_phdr", &real) != 0)
			return 0;
		/* Relaxed: the code behind the address was there before this library. */
		atomic_store_explicit(&cache, real, memory_order_relaxed);
	}
	berth_walk_enter();
	int r = ((int (*)(berth_walk_visitor *, void *))real)(visit, arg);
	berth_walk_leave();
	return r;
}
