/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls without libc: for the tasks of task.h, which run on their creator's thread pointer and
 * must not touch what libc keeps there (errno, the cancellation state). A negative result is -errno.
 */
#ifndef BERTH_LOCK_KERNEL_H
#define BERTH_LOCK_KERNEL_H

#include <sys/syscall.h>

#define BERTH_KERNEL_INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__)

/* NOLINTNEXTLINE(readability-function-size): a system call has its number and six arguments */
BERTH_KERNEL_INLINE long berth_kernel_call(long number, long a, long b, long c, long d, long e,
					   long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

#elif defined(__aarch64__)

/* NOLINTNEXTLINE(readability-function-size): likewise */
BERTH_KERNEL_INLINE long berth_kernel_call(long number, long a, long b, long c, long d, long e,
					   long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

#else
#error "no system calls for this processor yet"
#endif

#define BERTH_KERNEL_1(name, a)    berth_kernel_call(SYS_##name, (long)(a), 0, 0, 0, 0, 0)
#define BERTH_KERNEL_2(name, a, b) berth_kernel_call(SYS_##name, (long)(a), (long)(b), 0, 0, 0, 0)
#define BERTH_KERNEL_3(name, a, b, c) \
	berth_kernel_call(SYS_##name, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define BERTH_KERNEL_4(name, a, b, c, d) \
	berth_kernel_call(SYS_##name, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define BERTH_KERNEL_6(name, a, b, c, d, e, f)                                               \
	berth_kernel_call(SYS_##name, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), \
			  (long)(f))

#endif
