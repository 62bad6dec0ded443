/* SPDX-License-Identifier: Apache-2.0
 *
 * See proxy.h and task.h.
 *
 * Invariant: a proxy ends, whatever happens: granted; at its own deadline, by a timer of its own; at its
 * parent's SIGKILL; with the thread that waits for it (PR_SET_PDEATHSIG: the thread that made it,
 * which also covers an execve by another thread). A lock that it is granted when nobody waits
 * any more is freed when the last sharer of the table ends, which is then the proxy itself.
 *
 * Killed                            what others see, who repairs
 * parent, proxy not yet started     nothing
 * parent, proxy before prctl        the proxy sees that its parent is another one, and ends
 * parent, proxy waits               killed by the kernel; its place in the queue is gone
 * parent, proxy granted             the table's last user ends: free. Not a moment longer than its exit
 * proxy (by an administrator)       the parent finds no answer, tries the lock itself, waits again
 * proxy, granted, not yet said      the parent tries the lock: it is its own already
 *
 * Rejected: a signal or timer to end a wait of this thread (they are the program's); a thread that waits (it
 * can't be ended alone without a signal that has a handler); a fork child (its locks are its own).
 */
#include "lock/proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
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
	_Atomic int32_t answer; /* by the proxy; UNANSWERED until then */
};

#define UNANSWERED (-EINPROGRESS)
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

static void proxy_body(void *room)
{
	struct proxy *proxy = room;

	(void)BERTH_KERNEL_2(prctl, PR_SET_PDEATHSIG, SIGKILL);
	if (BERTH_KERNEL_1(getppid, 0) == proxy->parent) {
		timer_start(proxy->left_ns);
		atomic_store_explicit(&proxy->answer,
				      berth_descriptor_set_once(proxy->descriptor, F_SETLKW,
								F_WRLCK, proxy->byte),
				      memory_order_release);
	}
	(void)BERTH_KERNEL_1(exit_group, 0);
	__builtin_unreachable();
}

/* After unshare(CLONE_NEWPID) the next child is the first process of the new namespace, which dies with it:
 * that place is the program's. The name is missing while there is no first one yet (and before Linux 4.12). */
static bool children_go_elsewhere(void)
{
	struct stat own;
	struct stat theirs;

	if (BERTH_KERNEL_4(newfstatat, AT_FDCWD, "/proc/self/ns/pid", &own, 0) < 0)
		return false; /* no /proc: can't be told */
	return BERTH_KERNEL_4(newfstatat, AT_FDCWD, "/proc/self/ns/pid_for_children", &theirs, 0) <
		       0 ||
	       own.st_ino != theirs.st_ino;
}

static int proxy_end(struct berth_task *task, uint64_t deadline_ns)
{
	struct proxy *proxy = (struct proxy *)(void *)task->room;
	int answer = 0;

	if (berth_task_join(task, deadline_ns) < 0) {
		BERTH_CRASH(lock_proxy_late);
		berth_task_kill(task);
		if (berth_task_join(task, berth_deadline_after(END_NS)) < 0)
			return -ETIMEDOUT; /* its memory stays its own: it may still wake up */
	}
	answer = atomic_load_explicit(&proxy->answer, memory_order_acquire);
	berth_task_free(task);
	if (answer == UNANSWERED || answer == -EAGAIN)
		return -ETIMEDOUT;
	return answer;
}

int berth_proxy_wait(const struct berth_descriptor *descriptor, int64_t byte, uint64_t deadline_ns,
		     _Atomic uint64_t *count)
{
	struct berth_task *task = NULL;
	struct proxy *proxy = NULL;

	if (children_go_elsewhere() || berth_task_new(&task) < 0)
		return -ECHILD;
	proxy = (struct proxy *)(void *)task->room;
	proxy->descriptor = descriptor;
	proxy->byte = byte;
	proxy->left_ns = berth_deadline_left_ns(deadline_ns) + TIMER_LATER_NS;
	proxy->parent = berth_lock_pid();
	atomic_store_explicit(&proxy->answer, UNANSWERED, memory_order_relaxed);
	if (berth_task_start(task, true, proxy_body) < 0) {
		berth_task_free(task);
		return -ECHILD;
	}
	berth_lock_count(count);
	return proxy_end(task, deadline_ns);
}
