/* SPDX-License-Identifier: Apache-2.0
 *
 * See keeper.h and task.h. A keeper is a thread, not a process: it ends with the process and with an execve,
 * its hold is not bound to the life of the thread that took the lock, and the kernel's record names
 * our pid when it takes the lock again.
 *
 * It must not keep rights that the program gives up: setuid(2) and the like are done by libc in each thread it
 * knows, and it doesn't know this one. So at each look the keeper compares the rights that the process shows
 * (/proc/self/status, which is the first thread's) with those it saw when it began, and ends if they are others. Where
 * there is no /proc there is no keeper.
 *
 * Killed anywhere: it dies with its process, whose locks are freed. In a fork child there is none.
 */
#include "lock/keeper.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <time.h>

#include "base/clock.h"
#include "lock/epoch.h"
#include "lock/kernel.h"
#include "lock/task.h"

#define LOOK_EVERY_NS (50 * BERTH_NS_PER_MS)

enum { STATUS_CHUNK = 512 };

struct keeping {
	uint64_t rights; /* see rights_of_process */
	struct berth_lockbyte *byte;
	pid_t pid;
	_Atomic uint32_t stop; /* a futex */
};

_Static_assert(sizeof(struct keeping) <= BERTH_TASK_ROOM_BYTES, "fits in the room");

/* Which lines of /proc/self/status count, by their beginnings: Uid, Gid, Groups, CapInh … CapAmb. */
static bool line_counts(const char begin[2], size_t length)
{
	return length >= 2 && ((begin[0] == 'U' && begin[1] == 'i') ||
			       (begin[0] == 'G' && (begin[1] == 'i' || begin[1] == 'r')) ||
			       (begin[0] == 'C' && begin[1] == 'a'));
}

struct summing {
	uint64_t sum; /* FNV-1a */
	char begin[2];
	size_t length;
};

static void sum_char(struct summing *summing, char c)
{
	if (summing->length < 2)
		summing->begin[summing->length] = c;
	summing->length++;
	if (line_counts(summing->begin, summing->length))
		summing->sum = (summing->sum ^ (unsigned char)c) * 0x100000001b3UL;
	if (c == '\n')
		summing->length = 0;
}

/* A number that is another one if the rights are, 0 = can't be read. */
static uint64_t rights_of_process(void)
{
	struct summing summing = { .sum = 0xcbf29ce484222325UL };
	char text[STATUS_CHUNK];
	long length;
	int fd =
		(int)BERTH_KERNEL_4(openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	while ((length = BERTH_KERNEL_3(read, fd, text, sizeof(text))) > 0) {
		for (long i = 0; i < length; i++)
			/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): the kernel has written it */
			sum_char(&summing, text[i]);
	}
	(void)BERTH_KERNEL_1(close, fd);
	return length < 0 ? 0 : summing.sum;
}

static void keeper_look(struct keeping *keeping)
{
	struct berth_lockbyte *byte = keeping->byte;

	if (berth_descriptor_held(&byte->file->descriptor, byte->byte, keeping->pid) != 0)
		return;
	/* Before the lock is taken: a check in between must not find it held and whole. */
	atomic_store_explicit(&byte->broken, 1, memory_order_release);
	if (berth_descriptor_set(&byte->file->descriptor, F_SETLK, F_WRLCK, byte->byte) == 0)
		atomic_fetch_add_explicit(&byte->broken_count, 1, memory_order_relaxed);
}

static void keeper_body(void *room)
{
	struct keeping *keeping = room;
	const struct timespec nap = { .tv_nsec = LOOK_EVERY_NS };

	while (atomic_load_explicit(&keeping->stop, memory_order_acquire) == 0) {
		if (BERTH_KERNEL_4(futex, &keeping->stop, FUTEX_WAIT_PRIVATE, 0, &nap) !=
		    -ETIMEDOUT)
			continue;
		if (rights_of_process() != keeping->rights) {
			atomic_store_explicit(&keeping->byte->unkept, 1, memory_order_relaxed);
			break;
		}
		keeper_look(keeping);
	}
	(void)BERTH_KERNEL_1(exit, 0);
	__builtin_unreachable();
}

int berth_keeper_start(struct berth_lockbyte *byte, struct berth_keeper **ret_keeper)
{
	struct berth_task *task = NULL;
	struct keeping *keeping = NULL;
	uint64_t rights = rights_of_process();
	int r = rights == 0 ? -ENOENT : berth_task_new(&task);

	if (r < 0)
		return r;
	atomic_store_explicit(&byte->unkept, 0, memory_order_relaxed);
	keeping = (struct keeping *)(void *)task->room;
	keeping->rights = rights;
	keeping->byte = byte;
	keeping->pid = berth_lock_pid();
	atomic_store_explicit(&keeping->stop, 0, memory_order_relaxed);
	r = berth_task_start(task, false, keeper_body);
	if (r < 0) {
		berth_task_free(task);
		return r;
	}
	*ret_keeper = (struct berth_keeper *)(void *)task;
	return 0;
}

void berth_keeper_stop(struct berth_keeper *keeper)
{
	struct berth_task *task = (struct berth_task *)(void *)keeper;
	struct keeping *keeping = NULL;

	if (task == NULL)
		return;
	keeping = (struct keeping *)(void *)task->room;
	atomic_store_explicit(&keeping->stop, 1, memory_order_release);
	(void)BERTH_KERNEL_3(futex, &keeping->stop, FUTEX_WAKE_PRIVATE, 1);
	while (berth_task_join(task, berth_deadline_after(BERTH_NS_PER_S)) < 0)
		; /* it is at most in a look of its own: local memory and one lock call */
	berth_task_free(task);
}
