/* SPDX-License-Identifier: Apache-2.0
 *
 * See proxy.h and task.h.
 *
 * Invariant: a proxy ends, and keeps a lock that nobody wants no longer than HANDOVER_NS. It ends when it was
 * granted and told so, at its own deadline (a timer of its own, two seconds at most), at its parent's SIGKILL,
 * with the thread that waits for it (PR_SET_PDEATHSIG: the thread that made it, which also covers an execve by another
 * thread; not if the program has dropped rights since: hence the two seconds).
 *
 * Who is granted a lock has it only when the parent has claimed it: a parent that is stopped meanwhile (SIGSTOP, a
 * debugger) would else own it for as long as he sleeps. Claim and withdrawal are one compare-and-swap.
 *
 * Killed or stopped                 what others see, who repairs
 * parent, proxy not yet started     nothing
 * parent, proxy before prctl        the proxy sees that its parent is another one, and ends
 * parent killed, proxy waits        killed by the kernel; its place in the queue is gone
 * parent killed, proxy granted      the table's last user ends: free. Not a moment longer than its exit
 * parent stopped, proxy granted     the proxy withdraws after HANDOVER_NS: free
 * parent stopped, has claimed       a stopped owner: as if it had been stopped a moment later
 * proxy (by an administrator)       the parent finds no answer, tries the lock itself, waits again
 * proxy, granted, not yet said      the parent tries the lock: it is its own already
 *
 * Rejected: a signal or timer to end a wait of this thread (they are the program's); a thread that waits (it
 * can't be ended alone without a signal that has a handler); a fork child (its locks are its own).
 */
#include "lock/proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crash_point.h"
#include "lock/counts.h"
#include "lock/epoch.h"
#include "lock/kernel.h"
#include "lock/task.h"

/* What a proxy has in its task's room. */
struct proxy {
	const struct berth_descriptor *descriptor;
	int64_t byte;
	uint64_t left_ns;
	pid_t parent;
	_Atomic int32_t
		answer; /* by the proxy: 0 none yet (or a fork child's page), GRANTED, -errno */
	_Atomic uint32_t claim; /* a futex; by whoever is first */
};

enum { GRANTED = 1 };
enum { UNCLAIMED = 0, CLAIMED, WITHDRAWN };

/* So long a granted proxy waits for its parent. */
#define HANDOVER_NS (50 * BERTH_NS_PER_MS)
/* So long a proxy may outlive a parent who can't end it, and as much again by chance: a crowd that came at once
 * doesn't begin anew at once. */
#define SLICE_NS BERTH_NS_PER_S
/* Its own timer is for when its parent can't end it. */
#define TIMER_LATER_NS (20 * BERTH_NS_PER_MS)
/* A proxy that is told to end is given so long: on a broken file system a killed task may stay. */
#define END_NS BERTH_NS_PER_S

_Static_assert(sizeof(struct proxy) <= BERTH_TASK_ROOM_BYTES, "fits in the room");

/* As the kernel takes it; libc's struct sigaction is another one. */
struct kernel_sigaction {
	void *handler; /* NULL = SIG_DFL */
	unsigned long flags;
	void *restorer;
	unsigned long mask;
};

static void timer_start(uint64_t left_ns)
{
	const struct kernel_sigaction deadly = { 0 };
	const unsigned long alarm_only = 1UL << (SIGALRM - 1);
	struct {
		struct {
			long sec;
			long usec;
		} interval, value;
	} timer = { 0 };

	timer.value.sec = (long)(left_ns / BERTH_NS_PER_S);
	timer.value.usec = (long)(left_ns % BERTH_NS_PER_S / BERTH_NS_PER_US) + 1;
	if (timer.value.usec > 999999)
		timer.value.usec = 999999;
	(void)BERTH_KERNEL_4(rt_sigaction, SIGALRM, &deadly, NULL, sizeof(unsigned long));
	(void)BERTH_KERNEL_3(setitimer, 0 /* ITIMER_REAL */, &timer, NULL);
	(void)BERTH_KERNEL_4(rt_sigprocmask, SIG_UNBLOCK, &alarm_only, NULL, sizeof(alarm_only));
}

static bool claim(struct proxy *proxy, uint32_t as)
{
	uint32_t none = UNCLAIMED;

	return atomic_compare_exchange_strong_explicit(&proxy->claim, &none, as,
						       memory_order_acq_rel, memory_order_acquire);
}

static void withdraw(const struct proxy *proxy)
{
	int r = berth_descriptor_set_once(proxy->descriptor, F_SETLK, F_UNLCK, proxy->byte);

	(void)r; /* what can't be unlocked is freed with the table, or at the next give */
}

static void proxy_hand_over(struct proxy *proxy)
{
	const struct timespec bound = { .tv_nsec = HANDOVER_NS };
	const unsigned long all = ~0UL;

	/* The timer would now end a proxy that has the lock in its hands. */
	(void)BERTH_KERNEL_4(rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof(all));
	atomic_store_explicit(&proxy->answer, GRANTED, memory_order_release);
	berth_task_say(proxy);
	while (BERTH_KERNEL_4(futex, &proxy->claim, FUTEX_WAIT, UNCLAIMED, &bound) == 0 &&
	       atomic_load_explicit(&proxy->claim, memory_order_acquire) == UNCLAIMED)
		;
	if (claim(proxy, WITHDRAWN))
		withdraw(proxy);
}

static void proxy_body(void *room)
{
	struct proxy *proxy = room;

	(void)BERTH_KERNEL_2(prctl, PR_SET_PDEATHSIG, SIGKILL);
	(void)BERTH_KERNEL_2(prctl, PR_SET_NAME, BERTH_PROXY_NAME);
	if (BERTH_KERNEL_1(getppid, 0) == proxy->parent) {
		int r;

		timer_start(proxy->left_ns);
		r = berth_descriptor_set_once(proxy->descriptor, F_SETLKW, F_WRLCK, proxy->byte);
		if (r == 0)
			proxy_hand_over(proxy);
		else
			atomic_store_explicit(&proxy->answer, r, memory_order_release);
	}
	(void)BERTH_KERNEL_1(exit_group, 0);
	__builtin_unreachable();
}

/* After unshare(CLONE_NEWPID) the next child is the first process of the new namespace, which dies with it:
 * that place is the program's. The name is missing while there is no first one yet (and before Linux 4.12). */
static bool children_go_elsewhere(void)
{
	struct stat own = { 0 };
	struct stat theirs = { 0 };

	if (BERTH_KERNEL_4(newfstatat, AT_FDCWD, "/proc/self/ns/pid", &own, 0) < 0)
		return false; /* no /proc: can't be told */
	return BERTH_KERNEL_4(newfstatat, AT_FDCWD, "/proc/self/ns/pid_for_children", &theirs, 0) <
		       0 ||
	       own.st_ino != theirs.st_ino;
}

/* At the deadline, or where it has ended. */
static int proxy_end(struct berth_task *task)
{
	struct proxy *proxy = (struct proxy *)(void *)task->room;
	int answer = 0;

	berth_task_kill(task);
	if (berth_task_join(task, berth_deadline_after(END_NS)) < 0) {
		/* Its memory stays its own: it may still wake up, and must then unlock nothing. */
		(void)claim(proxy, CLAIMED);
		return -ETIMEDOUT;
	}
	answer = atomic_load_explicit(&proxy->answer, memory_order_acquire);
	berth_task_free(task);
	return answer == 0 || answer == GRANTED || answer == -EAGAIN ? -ETIMEDOUT : answer;
}

static uint64_t slice_ns(uint64_t left_ns)
{
	uint64_t slice = SLICE_NS + berth_clock_ns() % SLICE_NS;

	return left_ns < slice ? left_ns + TIMER_LATER_NS : slice;
}

int berth_proxy_wait(const struct berth_descriptor *descriptor, int64_t byte, uint64_t deadline_ns,
		     _Atomic uint64_t *count, struct berth_task **ret_proxy)
{
	struct berth_task *task = NULL;
	struct proxy *proxy = NULL;

	if (children_go_elsewhere() || berth_task_new(&task) < 0)
		return -ECHILD;
	proxy = (struct proxy *)(void *)task->room;
	proxy->descriptor = descriptor;
	proxy->byte = byte;
	proxy->left_ns = slice_ns(berth_deadline_left_ns(deadline_ns));
	proxy->parent = berth_lock_pid();
	if (berth_task_start(task, true, proxy_body) < 0) {
		berth_task_free(task);
		return -ECHILD;
	}
	berth_lock_count(count);
	if (berth_task_hear(task, deadline_ns) < 0)
		BERTH_CRASH(lock_proxy_late);
	if (atomic_load_explicit(&proxy->answer, memory_order_acquire) == GRANTED &&
	    claim(proxy, CLAIMED)) {
		*ret_proxy = task;
		return 0;
	}
	return proxy_end(task);
}

void berth_proxy_dismiss(struct berth_task *task)
{
	struct proxy *proxy = (struct proxy *)(void *)task->room;

	(void)BERTH_KERNEL_3(futex, &proxy->claim, FUTEX_WAKE, 1);
}

void berth_proxy_reap(struct berth_task *task)
{
	if (task == NULL)
		return;
	if (berth_task_join(task, berth_deadline_after(END_NS)) < 0) {
		berth_task_kill(task); /* somebody has stopped it */
		if (berth_task_join(task, berth_deadline_after(END_NS)) < 0)
			return;
	}
	berth_task_free(task);
}
