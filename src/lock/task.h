/* SPDX-License-Identifier: Apache-2.0
 *
 * A task of the kernel's that does one small thing for a lock: a *proxy* (a process that shares memory
 * and descriptors with its parent) or a *keeper* (a thread of this process). Neither is known to
 * libc, and both have every signal blocked.
 *
 * What such a task may do. It runs on its creator's thread pointer: no libc call, no errno, no stack
 * protector, no sanitizer. The files with its code are compiled so (CMakeLists.txt), and call
 * berth_kernel_call only.
 *
 * Memory: one mapping, with a guard page below the stack. It isn't inherited with its contents: in a
 * fork child it reads as zeros, so a child that a signal handler forked in the middle of a wait finds
 * a task that has ended.
 */
#ifndef BERTH_LOCK_TASK_H
#define BERTH_LOCK_TASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attributes.h"

#define BERTH_TASK_ROOM_BYTES 256

enum { BERTH_TASK_RUNS = 1, BERTH_TASK_SAID = 2 };

/* At the top of the mapping, above the stack. */
struct berth_task {
	/* A shared futex: BERTH_TASK_RUNS, then what the task says, then 0: by the kernel, when it ends. */
	_Atomic uint32_t alive;
	uint32_t is_process;
	pid_t id; /* 0 = not started */
	void *mapping;
	size_t mapping_size;
	_Alignas(16) unsigned char room[BERTH_TASK_ROOM_BYTES]; /* the task's own state */
};

/* -ENOSYS where tasks are not to be made (under valgrind, which knows no such thing), -ENOMEM. */
BERTH_MUST_CHECK int berth_task_new(struct berth_task **ret_task);

/* The body must not return; it is called with the room. -errno of clone(2). Not sent to the parent: any
 * signal at a proxy's end. */
BERTH_MUST_CHECK int berth_task_start(struct berth_task *task, bool as_process,
				      void (*body)(void *room));

/* Waits till the task says something, or has ended. -ETIMEDOUT. */
BERTH_MUST_CHECK int berth_task_hear(struct berth_task *task, uint64_t deadline_ns);

/* Waits till the task has ended. -ETIMEDOUT at the deadline. Handlers of the program run meanwhile. */
BERTH_MUST_CHECK int berth_task_join(struct berth_task *task, uint64_t deadline_ns);

/* SIGKILL, proxies only. */
void berth_task_kill(const struct berth_task *task);

/* In the task: its creator wakes up and finds what was written before. */
void berth_task_say(void *room);

/* Only after its end, or if it was never started: reaps it and frees the mapping. NULL is fine. */
void berth_task_free(struct berth_task *task);

#endif
