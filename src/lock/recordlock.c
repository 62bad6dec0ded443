/* SPDX-License-Identifier: Apache-2.0
 *
 * The record lock: see berth/recordlock.h for what it promises.
 *
 * Invariant: a lock's *holder* is set only while this process has the kernel's record lock of the byte, or had it
 * and a foreign close dropped it (which berth_recordlock_check finds out); and only while the byte's guard
 * is entered. So two threads never both hold, as the guard is entered once, and two processes never both
 * hold a byte that neither has lost, as the kernel lets one in.
 *
 * Order: guard, kernel lock, keeper; given back in the other order. A lock is given back before its guard, so
 * the next thread finds the byte free or a stranger's.
 *
 * Killed after                    what others see, who repairs
 * guard entered                   nothing: it is this process's own memory
 * kernel lock taken               free as soon as the process's descriptors are closed, by the kernel
 * granted through a proxy         the same; until the record is re-stamped a question for the owner
 *                                 names the proxy, who is dead
 * record re-stamped as a reader   the same: the byte was never without its lock
 * keeper started                  the keeper is a thread of the process and dies with it
 * keeper stopped, lock not given  free by the kernel
 * lock given, guard not left      free; the guard is memory
 *
 * A child forked at any point (by a signal handler too) begins with everything forgotten: epoch.h. A take
 * that finds itself in another epoch than it began in starts over.
 *
 * Rejected: F_OFD_SETLK, whose locks a fork child keeps alive and nobody can name the owner of (pid -1); a
 * semaphore or robust mutex in shared memory: the one outlives its owner, the other compares thread ids of
 * one pid namespace.
 */
/* Exported from libberth: everything else is hidden. */
#pragma GCC visibility push(default)
#include "berth/recordlock.h"
#pragma GCC visibility pop

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/crash_point.h"
#include "base/process.h"
#include "lock/epoch.h"
#include "lock/hint.h"
#include "lock/keeper.h"
#include "lock/kernel.h"
#include "lock/lockfile.h"
#include "lock/poll.h"
#include "lock/proxy.h"

enum told {
	TOLD_NO_PROXY = 1U << 0,
	TOLD_NO_KEEPER = 1U << 1,
	TOLD_ENVIRONMENT = 1U << 2,
};

enum { PROXIES_ENDED_EARLY_MAX = 5 };

struct berth_recordlock {
	struct berth_lockbyte *byte;
	uint32_t flags;
	uint32_t way; /* never AUTO */
	void (*report)(void *arg, int err, const char *text);
	void *report_arg;
	_Atomic uint32_t told; /* enum told */
	struct berth_keeper *keeper;
	struct berth_watch watch; /* used by who has the guard, as is: */
	struct berth_task
		*proxy; /* that was granted this hold; ends by itself, and is reaped at the give */
	uint64_t broken_before; /* the byte's broken_count when the hold began */
	struct berth_lock_counts counts;
	_Atomic uint64_t lost_count;
};

BERTH_PRINTF(4, 5)
static void report(struct berth_recordlock *lock, enum told once, int err, const char *format, ...)
{
	int saved_errno = errno;
	char text[256];
	va_list args;

	if (lock->report == NULL)
		return;
	if (once != 0 &&
	    (atomic_fetch_or_explicit(&lock->told, once, memory_order_relaxed) & once) != 0)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	lock->report(lock->report_arg, err, text);
	errno = saved_errno;
}

static uint32_t way_decide(struct berth_recordlock *lock, uint32_t asked)
{
	const char *text = NULL;

	if (asked != BERTH_RECORDLOCK_AUTO)
		return asked;
	if (!berth_process_is_secure())
		text = getenv("BERTH_RECORDLOCK");
	if (text != NULL && strcmp(text, "block") == 0)
		return BERTH_RECORDLOCK_BLOCK;
	if (text != NULL && strcmp(text, "poll") == 0)
		return BERTH_RECORDLOCK_POLL;
	if (text != NULL && text[0] != '\0')
		report(lock, TOLD_ENVIRONMENT, -EINVAL,
		       "BERTH_RECORDLOCK is neither block nor poll: ignored");
	return lock->byte->file->blocks ? BERTH_RECORDLOCK_BLOCK : BERTH_RECORDLOCK_POLL;
}

static int options_check(const struct berth_recordlock_options *options)
{
	const uint32_t flags_known = BERTH_RECORDLOCK_CREATE | BERTH_RECORDLOCK_PATIENT |
				     BERTH_RECORDLOCK_KEEP | BERTH_RECORDLOCK_TRUSTED;

	if (options->size != sizeof(*options) || options->way > BERTH_RECORDLOCK_BARE ||
	    (options->flags & ~flags_known) != 0 || options->byte < 0)
		return -EINVAL;
	return 0;
}

int berth_recordlock_open(const char *path, const struct berth_recordlock_options *options,
			  struct berth_recordlock **ret_lock)
{
	static const struct berth_recordlock_options defaults = { .size = sizeof(defaults) };
	BERTH_UNCANCELLED;
	int saved_errno = errno;
	struct berth_recordlock *lock = NULL;
	int r;

	if (options == NULL)
		options = &defaults;
	r = options_check(options);
	if (r < 0)
		return r;
	lock = calloc(1, sizeof(*lock));
	r = lock == NULL ? -ENOMEM : berth_lock_epoch_prepare();
	if (r == 0)
		r = berth_lockfile_get(path, (options->flags & BERTH_RECORDLOCK_CREATE) != 0,
				       options->byte == 0 ? BERTH_RECORDLOCK_BYTE : options->byte,
				       &lock->byte);
	if (r == 0 && (options->flags & BERTH_RECORDLOCK_TRUSTED) != 0) {
		r = berth_lockfile_trust(lock->byte->file);
		if (r < 0)
			berth_lockfile_put(lock->byte);
	}
	if (r < 0) {
		free(lock);
		errno = saved_errno;
		return r;
	}
	berth_watch_init(&lock->watch);
	lock->flags = options->flags;
	lock->report = options->report;
	lock->report_arg = options->report_arg;
	lock->way = way_decide(lock, options->way);
	errno = saved_errno;
	*ret_lock = lock;
	return 0;
}

static int try_once(struct berth_recordlock *lock)
{
	berth_lock_count(&lock->counts.try_count);
	return berth_descriptor_set(&lock->byte->file->descriptor, F_SETLK, F_WRLCK,
				    lock->byte->byte);
}

/* The kernel's record names the proxy. A lock of another type *replaces* the record, and the byte is locked
 * against writers all the while; a lock of the same type would be merged into it and leave the name. */
static int restamp(struct berth_recordlock *lock)
{
	struct berth_descriptor *descriptor = &lock->byte->file->descriptor;
	int r = berth_descriptor_set_once(descriptor, F_SETLK, F_RDLCK, lock->byte->byte);

	BERTH_CRASH(lock_half_stamped);
	if (r == 0)
		r = berth_descriptor_set_once(descriptor, F_SETLK, F_WRLCK, lock->byte->byte);
	/* Somebody reads there, who has no business to: not ours alone. Unlocking what we hold can't fail. */
	if (r == -EAGAIN &&
	    berth_descriptor_set_once(descriptor, F_SETLK, F_UNLCK, lock->byte->byte) < 0)
		return -EBADF;
	return r;
}

static int poll_wait(struct berth_recordlock *lock, struct berth_patience *patience)
{
	struct berth_poll poll = {
		.descriptor = &lock->byte->file->descriptor,
		.byte = lock->byte->byte,
		.deadline_ns = berth_patience_deadline(patience),
		.watch = lock->way == BERTH_RECORDLOCK_BARE ? NULL : &lock->watch,
		.patient = (lock->flags & BERTH_RECORDLOCK_PATIENT) != 0,
		.counts = &lock->counts,
	};

	return berth_poll_wait(&poll);
}

/* One proxy's wait. -EAGAIN: wait again. -ECHILD: can't be waited for so. */
static int block_once(struct berth_recordlock *lock, uint64_t deadline_ns)
{
	struct berth_lockbyte *byte = lock->byte;
	struct berth_task *proxy = NULL;
	int r = berth_proxy_wait(&byte->file->descriptor, byte->byte, deadline_ns,
				 &lock->counts.block_count, &proxy);

	BERTH_CRASH(lock_proxy_ended);
	if (r == 0) {
		r = restamp(lock);
		berth_proxy_dismiss(proxy);
		lock->proxy = proxy;
	}
	/* Granted in the last moment, ended by somebody, or the descriptor was lost. */
	else if (r == -ETIMEDOUT || r == -EBADF)
		r = try_once(lock);
	return r == -EBADF ? -EAGAIN : r;
}

static int block_wait(struct berth_recordlock *lock, struct berth_patience *patience)
{
	uint64_t deadline_ns = berth_patience_deadline(patience);
	unsigned early = 0;
	int r;

	do {
		uint64_t soon_ns = berth_deadline_after(BERTH_NS_PER_S / 2);

		r = block_once(lock, deadline_ns);
		if (r < 0)
			berth_proxy_reap(BERTH_TAKE_PTR(lock->proxy));
		if (r == -EAGAIN && berth_deadline_passed(deadline_ns))
			return -ETIMEDOUT;
		/* Something ends them. */
		if (!berth_deadline_passed(soon_ns))
			early++;
	} while (r == -EAGAIN && early < PROXIES_ENDED_EARLY_MAX);
	if (r == -ECHILD)
		report(lock, TOLD_NO_PROXY, -ECHILD,
		       "no task can be made to wait in the kernel's queue: polling");
	/* The kernel calls it a deadlock when two processes wait for each other, though it may be other threads of
	 * them that hold: the deadline decides. */
	return r == -ECHILD || r == -EDEADLK || r == -EAGAIN ? poll_wait(lock, patience) : r;
}

/* Where /proc was mounted in another pid namespace, a number means another process there. */
static bool proc_is_ours(void)
{
	char text[24];
	ssize_t length = readlink("/proc/self", text, sizeof(text) - 1);

	if (length <= 0)
		return true; /* no /proc: nothing is read there either */
	text[length] = '\0';
	return strtol(text, NULL, 10) == berth_lock_pid();
}

static void owner_fill(struct berth_recordlock_owner *owner, pid_t pid)
{
	BERTH_UNCANCELLED;
	int saved_errno = errno;
	struct berth_process_stat stat;
	int r;

	*owner = (struct berth_recordlock_owner){ 0 };
	if (pid <= 0)
		return;
	if (!proc_is_ours()) {
		owner->pid = pid; /* its numbers are other processes' */
		errno = saved_errno;
		return;
	}
	r = berth_process_stat_read(pid, &stat);
	/* Granted this instant: whom it waits for is meant. */
	if (r == 0 && strcmp(stat.comm, BERTH_PROXY_NAME) == 0) {
		pid = stat.ppid;
		r = berth_process_stat_read(pid, &stat);
	}
	if (r == 0 && (stat.state == 'Z' || stat.state == 'X'))
		r = -ESRCH; /* the dead own nothing: the answer is old */
	if (r == 0)
		*owner = (struct berth_recordlock_owner){ .pid = pid,
							  .start_ticks = stat.start_ticks };
	else if (r != -ESRCH)
		owner->pid = pid; /* /proc doesn't show it */
	errno = saved_errno;
}

static pid_t owner_ask(struct berth_recordlock *lock)
{
	struct flock answer;

	if (berth_descriptor_get(&lock->byte->file->descriptor, F_GETLK, lock->byte->byte,
				 &answer) < 0 ||
	    answer.l_type == F_UNLCK)
		return 0;
	return answer.l_pid;
}

static void keeper_begin(struct berth_recordlock *lock)
{
	int saved_errno = errno;
	int r;

	lock->keeper = NULL; /* in a fork child it was the parent's */
	lock->broken_before = atomic_load_explicit(&lock->byte->broken_count, memory_order_relaxed);
	r = berth_keeper_start(lock->byte, &lock->keeper);
	errno = saved_errno;
	if (r < 0)
		report(lock, TOLD_NO_KEEPER, r,
		       "no task can be made to look after the hold: a foreign close is only seen "
		       "when it is checked");
	BERTH_CRASH(lock_kept);
}

static void hold_begin(struct berth_recordlock *lock)
{
	struct berth_lockbyte *byte = lock->byte;

	BERTH_CRASH(lock_held);
	berth_descriptor_learn_naming(&byte->file->descriptor, byte->byte, berth_lock_pid());
	atomic_store_explicit(&byte->broken, 0, memory_order_relaxed);
	if ((lock->flags & BERTH_RECORDLOCK_KEEP) != 0)
		keeper_begin(lock);
	/* Release pairs with the acquires of holder: the keeper is seen with it. */
	atomic_store_explicit(&byte->holder, (uintptr_t)lock, memory_order_release);
}

static int wait_in_turn(struct berth_recordlock *lock, struct berth_patience *patience)
{
	BERTH_UNCANCELLED;
	int saved_errno = errno;
	int r;

	BERTH_CRASH(lock_busy);
	if (patience->timeout_ms == 0)
		r = -ETIMEDOUT;
	else if (lock->way == BERTH_RECORDLOCK_BLOCK)
		r = block_wait(lock, patience);
	else
		r = poll_wait(lock, patience);
	errno = saved_errno;
	return r;
}

/* With the guard. */
static int take_guarded(struct berth_recordlock *lock, struct berth_patience *patience,
			struct berth_recordlock_owner *ret_owner)
{
	int r;

	BERTH_CRASH(lock_guarded);
	r = try_once(lock);
	if (r == -EAGAIN)
		r = wait_in_turn(lock, patience);
	if (r == -ETIMEDOUT && ret_owner != NULL)
		owner_fill(ret_owner, owner_ask(lock));
	if (r < 0 && r != -ETIMEDOUT)
		report(lock, 0, r, "the lock can't be taken: %s", strerror(-r));
	return r;
}

static int take_once(struct berth_recordlock *lock, struct berth_patience *patience,
		     struct berth_recordlock_owner *ret_owner)
{
	int r = berth_guard_enter(&lock->byte->guard, patience);

	if (r < 0) {
		if (ret_owner != NULL)
			owner_fill(ret_owner, berth_lock_pid());
		return r;
	}
	r = take_guarded(lock, patience, ret_owner);
	if (r < 0)
		berth_guard_leave(&lock->byte->guard);
	else
		hold_begin(lock);
	return r;
}

int berth_recordlock_take(struct berth_recordlock *lock, int64_t timeout_ms,
			  struct berth_recordlock_owner *ret_owner)
{
	struct berth_patience patience = { .timeout_ms = timeout_ms };
	uint32_t epoch = berth_lock_epoch();

	if (timeout_ms < 0)
		return -EINVAL;
	for (;;) {
		int r = take_once(lock, &patience, ret_owner);
		uint32_t now = berth_lock_epoch();

		if (now == epoch)
			return r;
		/* A signal handler has forked in the middle of it, and this is the child. */
		epoch = now;
	}
}

static bool hold_is_ours(const struct berth_recordlock *lock)
{
	(void)berth_lock_epoch(); /* a bare clone's child forgets here */
	return (atomic_load_explicit(&lock->byte->holder, memory_order_acquire) &
		~BERTH_HOLDER_BUSY) == (uintptr_t)lock;
}

/* From held to busy or to not held. Of several threads that try one succeeds; false: it isn't held any more. */
static bool hold_change(struct berth_recordlock *lock, uintptr_t to)
{
	uintptr_t holder = (uintptr_t)lock;

	while (!atomic_compare_exchange_weak_explicit(&lock->byte->holder, &holder, to,
						      memory_order_acquire, memory_order_relaxed)) {
		if ((holder & ~BERTH_HOLDER_BUSY) != (uintptr_t)lock)
			return false;
		/* Busy for one lock call: or the compare failed for no reason. */
		holder = (uintptr_t)lock;
		(void)BERTH_KERNEL_1(sched_yield, 0);
	}
	return true;
}

/* After hold_change: what goes with the hold. */
static void hold_clean(struct berth_recordlock *lock)
{
	struct berth_lockbyte *byte = lock->byte;

	if (lock->keeper == NULL)
		return;
	berth_keeper_stop(BERTH_TAKE_PTR(lock->keeper));
	atomic_fetch_add_explicit(&lock->lost_count,
				  atomic_load_explicit(&byte->broken_count, memory_order_relaxed) -
					  lock->broken_before,
				  memory_order_relaxed);
}

/* Not held by the kernel's account, or it can't be told: take it again. The hold is busy, so no other thread gives it
 * back in the middle and leaves the byte locked by nobody. */
static int hold_renew(struct berth_recordlock *lock)
{
	struct berth_lockbyte *byte = lock->byte;
	int r;

	if (!hold_change(lock, (uintptr_t)lock | BERTH_HOLDER_BUSY))
		return -EPERM;
	r = berth_descriptor_set(&byte->file->descriptor, F_SETLK, F_WRLCK, byte->byte);
	if (r == -EAGAIN) {
		struct berth_task *proxy = BERTH_TAKE_PTR(lock->proxy);

		hold_clean(lock);
		atomic_fetch_add_explicit(&lock->lost_count, 1, memory_order_relaxed);
		atomic_store_explicit(&byte->holder, 0, memory_order_relaxed);
		berth_guard_leave(&byte->guard);
		berth_proxy_reap(proxy);
		report(lock, 0, -EOWNERDEAD,
		       "a close of the file elsewhere in this process had dropped the lock: "
		       "somebody else has it");
		return -EOWNERDEAD;
	}
	if (r == 0) {
		atomic_fetch_add_explicit(&lock->lost_count, 1, memory_order_relaxed);
		atomic_store_explicit(&byte->broken, 0, memory_order_relaxed); /* found by both */
	}
	atomic_store_explicit(&byte->holder, (uintptr_t)lock, memory_order_release);
	if (r < 0)
		return r;
	report(lock, 0, -EINTR,
	       "a close of the file elsewhere in this process had dropped the lock: taken again");
	return 1;
}

int berth_recordlock_check(struct berth_recordlock *lock)
{
	struct berth_lockbyte *byte = lock->byte;
	int r;

	if (!hold_is_ours(lock))
		return -EPERM;
	if (atomic_load_explicit(&byte->unkept, memory_order_relaxed) != 0 &&
	    atomic_exchange_explicit(&byte->unkept, 0, memory_order_relaxed) != 0)
		report(lock, TOLD_NO_KEEPER, -EPERM,
		       "the program's rights are others now: nobody looks after the hold any more");
	r = berth_descriptor_held(&byte->file->descriptor, byte->byte, berth_lock_pid());
	if (r < 0)
		return r;
	if (r == 0)
		return hold_renew(lock);
	if (atomic_load_explicit(&byte->broken, memory_order_relaxed) == 0 ||
	    atomic_exchange_explicit(&byte->broken, 0, memory_order_acquire) == 0)
		return 0;
	report(lock, 0, -EINTR,
	       "a close of the file elsewhere in this process had dropped the lock: it was taken "
	       "again");
	return 1;
}

/* Where nobody waits in the kernel's queue, a release tells the pollers: reading is an event to who
 * watches the file. Never by closing something, which would drop the locks of the file's other bytes. */
static void hint_give(const struct berth_lockfile *file)
{
	char byte;
	int fd = atomic_load_explicit(&file->descriptor.number, memory_order_relaxed);

	(void)BERTH_KERNEL_4(pread64, fd, &byte, 1, 0); /* of an empty file no event: a hint less */
}

int berth_recordlock_give(struct berth_recordlock *lock)
{
	struct berth_lockbyte *byte = lock->byte;
	struct berth_task *proxy = NULL;
	int r;

	if (!hold_is_ours(lock) || !hold_change(lock, 0))
		return -EPERM;
	proxy = BERTH_TAKE_PTR(lock->proxy);
	hold_clean(lock);
	BERTH_CRASH(lock_giving);
	r = berth_descriptor_set_once(&byte->file->descriptor, F_SETLK, F_UNLCK, byte->byte);
	BERTH_CRASH(lock_given);
	if (lock->way == BERTH_RECORDLOCK_POLL) {
		hint_give(byte->file);
		berth_watch_rest(&lock->watch);
	}
	berth_guard_leave(&byte->guard);
	berth_proxy_reap(proxy);
	/* The program has closed the descriptor: it dropped the lock itself. */
	if (r == -EBADF)
		return 0;
	if (r < 0)
		report(lock, 0, r, "the lock can't be given back: %s", strerror(-r));
	return r;
}

void berth_recordlock_close(struct berth_recordlock *lock)
{
	BERTH_UNCANCELLED;
	int saved_errno = errno;

	if (lock == NULL)
		return;
	if (hold_is_ours(lock))
		(void)berth_recordlock_give(lock); /* reported; the kernel frees it at the latest
						    * when the file is closed */
	berth_watch_done(&lock->watch);
	berth_lockfile_put(lock->byte);
	free(lock);
	errno = saved_errno;
}

void berth_recordlock_trace(const struct berth_recordlock *lock,
			    struct berth_recordlock_trace *ret_trace)
{
	struct berth_recordlock_trace trace = {
		.try_count = atomic_load_explicit(&lock->counts.try_count, memory_order_relaxed),
		.block_count =
			atomic_load_explicit(&lock->counts.block_count, memory_order_relaxed),
		.nap_count = atomic_load_explicit(&lock->counts.nap_count, memory_order_relaxed),
		.hint_count = atomic_load_explicit(&lock->counts.hint_count, memory_order_relaxed),
		.lost_count = atomic_load_explicit(&lock->lost_count, memory_order_relaxed),
		.way = lock->way,
	};

	*ret_trace = trace;
}
