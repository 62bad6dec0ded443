/* SPDX-License-Identifier: Apache-2.0
 *
 * See task.h. What isn't shared with a proxy, and why: CLONE_SIGHAND, so that it may have a timer and a
 * default SIGALRM of its own; CLONE_FS, as a process that shares it may not enter a mount namespace
 * and loses the rights of set-user-ID programs that it starts. CLONE_UNTRACED: a debugger of the
 * program isn't told of it and doesn't stop it.
 *
 * Why no pidfd: it would need a free descriptor just when the program may have none, and its number
 * could be closed by a program that closes all and be used again. The pid alone is an identity
 * here: a child isn't reaped but by us. A program that waits with __WALL can do it after its
 * end; the kill comes only while the word says that it lives.
 */
#include "lock/task.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crash_point.h"
#include "lock/kernel.h"

#define STACK_BYTES 8192

/* Valgrind ends a program that makes a task other than a libc thread. It answers a request that is no
 * operation on the real machine. */
static bool under_valgrind(void)
{
#if defined(__x86_64__)
	volatile unsigned long request[6] = { 0x1001, 0, 0, 0, 0, 0 };
	unsigned long answer = 0;

	__asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi\n\t"
			 "rolq $61, %%rdi; rolq $51, %%rdi\n\t"
			 "xchgq %%rbx, %%rbx"
			 : "=d"(answer)
			 : "a"(&request[0]), "0"(0UL)
			 : "cc", "memory");
	return answer != 0;
#elif defined(__aarch64__)
	volatile unsigned long request[6] = { 0x1001, 0, 0, 0, 0, 0 };
	register unsigned long x3 __asm__("x3") = 0;
	register volatile unsigned long *x4 __asm__("x4") = &request[0];

	__asm__ volatile("ror x12, x12, #3; ror x12, x12, #13\n\t"
			 "ror x12, x12, #51; ror x12, x12, #61\n\t"
			 "orr x10, x10, x10"
			 : "+r"(x3)
			 : "r"(x4)
			 : "cc", "memory", "x12");
	return x3 != 0;
#endif
}

int berth_task_new(struct berth_task **ret_task)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t used = (STACK_BYTES + sizeof(struct berth_task) + page - 1) / page * page;
	unsigned char *mapping = NULL;
	struct berth_task *task = NULL;

	if (under_valgrind())
		return -ENOSYS;
	mapping =
		mmap(NULL, page + used, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mapping == MAP_FAILED)
		return -ENOMEM;
	/* Refused by old kernels (4.14) and when the map is full: then it is a little less safe. */
	(void)mprotect(mapping, page, PROT_NONE);
	(void)madvise(mapping + page, used, MADV_WIPEONFORK);
	task = (struct berth_task *)(void *)(mapping + page + used - sizeof(*task));
	task->mapping = mapping;
	task->mapping_size = page + used;
	*ret_task = task;
	return 0;
}

/* Returns the new task's id in the parent. The task begins in body, on the given stack. */
static long task_clone(unsigned long flags, void *stack, _Atomic uint32_t *word,
		       void (*body)(void *), void *arg)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = (long)word;
	register long r8 __asm__("r8") = (long)arg; /* the kernel ignores it: no CLONE_SETTLS */
	register long r9 __asm__("r9") = (long)body;
	long result;

	__asm__ volatile("syscall\n\t"
			 "testq %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xorl %%ebp, %%ebp\n\t"
			 "movq %%r8, %%rdi\n\t"
			 "callq *%%r9\n\t"
			 "ud2\n"
			 "1:"
			 : "=a"(result)
			 : "a"(SYS_clone), "D"(flags), "S"(stack), "d"(0L), "r"(r10), "r"(r8),
			   "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = SYS_clone;
	register long x0 __asm__("x0") = (long)flags;
	register long x1 __asm__("x1") = (long)stack;
	register long x2 __asm__("x2") = 0;
	register long x3 __asm__("x3") = 0;
	register long x4 __asm__("x4") = (long)word;
	register long x5 __asm__("x5") = (long)body;
	register long x6 __asm__("x6") = (long)arg;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, #0\n\t"
			 "mov x0, x6\n\t"
			 "blr x5\n\t"
			 "brk #0\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5), "r"(x6)
			 : "memory");
	return x0;
#endif
}

int berth_task_start(struct berth_task *task, bool as_process, void (*body)(void *room))
{
	unsigned long flags = CLONE_VM | CLONE_FILES | CLONE_UNTRACED | CLONE_CHILD_CLEARTID;
	/* All of them, libc's own too: none of the program's handlers may run on our stack. */
	unsigned long all = ~0UL;
	unsigned long before = 0;
	long id;

	if (!as_process)
		flags |= CLONE_SIGHAND | CLONE_THREAD;
	task->is_process = as_process;
	/* Relaxed: the system call orders it before the task. */
	atomic_store_explicit(&task->alive, BERTH_TASK_RUNS, memory_order_relaxed);
	(void)BERTH_KERNEL_4(rt_sigprocmask, SIG_BLOCK, &all, &before, sizeof(all));
	id = task_clone(flags, task, &task->alive, body, task->room);
	(void)BERTH_KERNEL_4(rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	if (id < 0) {
		atomic_store_explicit(&task->alive, 0, memory_order_relaxed);
		return (int)id;
	}
	task->id = (pid_t)id;
	BERTH_CRASH(lock_task_started);
	return 0;
}

/* Not a private futex: the kernel wakes the shared one. */
static long word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t deadline_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(deadline_ns / BERTH_NS_PER_S),
		.tv_nsec = (long)(deadline_ns % BERTH_NS_PER_S),
	};

	return BERTH_KERNEL_6(futex, word, FUTEX_WAIT_BITSET, value, &until, NULL,
			      FUTEX_BITSET_MATCH_ANY);
}

int berth_task_hear(struct berth_task *task, uint64_t deadline_ns)
{
	/* Acquire pairs with the release in say, and the kernel clears the word after all else. */
	while (atomic_load_explicit(&task->alive, memory_order_acquire) == BERTH_TASK_RUNS) {
		if (word_wait(&task->alive, BERTH_TASK_RUNS, deadline_ns) == -ETIMEDOUT)
			return -ETIMEDOUT;
	}
	return 0;
}

int berth_task_join(struct berth_task *task, uint64_t deadline_ns)
{
	uint32_t value;

	while ((value = atomic_load_explicit(&task->alive, memory_order_acquire)) != 0) {
		if (word_wait(&task->alive, value, deadline_ns) == -ETIMEDOUT)
			return -ETIMEDOUT;
	}
	return 0;
}

void berth_task_say(void *room)
{
	struct berth_task *task = (struct berth_task *)(void *)((unsigned char *)room -
								offsetof(struct berth_task, room));

	atomic_store_explicit(&task->alive, BERTH_TASK_SAID, memory_order_release);
	(void)BERTH_KERNEL_3(futex, &task->alive, FUTEX_WAKE, 1);
}

void berth_task_kill(const struct berth_task *task)
{
	if (task->is_process && atomic_load_explicit(&task->alive, memory_order_relaxed) != 0)
		(void)BERTH_KERNEL_2(kill, task->id, SIGKILL); /* refused if rights were
								* dropped: it has its own timer */
}

void berth_task_free(struct berth_task *task)
{
	if (task == NULL)
		return;
	if (task->is_process && task->id > 0) {
		/* -ECHILD: somebody waited for everything there is, or this is a fork child. */
		while (BERTH_KERNEL_6(waitid, P_PID, task->id, NULL, WEXITED | __WALL, NULL, 0) ==
		       -EINTR)
			;
	}
	(void)munmap(task->mapping, task->mapping_size); /* can't fail: we mapped it */
}
