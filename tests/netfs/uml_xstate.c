/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into user-mode-linux (uml.sh). It restores its programs' vector registers with
 * PTRACE_SETREGSET, of as many bytes as the largest processor known at its time had (2696); a kernel
 * takes all registers or none (EFAULT), so on a processor with more of them (AMX: 11008 bytes) it dies at its
 * first program. Here the missing rest is added, in its initial state.
 *
 * Memory: one static buffer; user-mode-linux's kernel is one thread.
 */
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#if defined(__x86_64__)

#define HEADER_AT          512   /* of an XSAVE area: which components are in it */
#define HEADER_LEGACY_BITS 0x2ff /* x87, SSE, AVX, MPX, AVX-512, PKRU: what lies below 2696 */

__attribute__((visibility("default"))) long ptrace(enum __ptrace_request request, ...);

static _Alignas(64) unsigned char whole[65536];
static size_t whole_size; /* what the kernel wants; 0 = not asked yet */

static long xstate_set(pid_t pid, void *kind, struct iovec *given)
{
	struct iovec all = { .iov_base = whole, .iov_len = sizeof(whole) };
	uint64_t present = 0;

	if (whole_size == 0 && syscall(SYS_ptrace, PTRACE_GETREGSET, pid, kind, &all) == 0)
		whole_size = all.iov_len;
	if (whole_size <= given->iov_len || given->iov_len < HEADER_AT + sizeof(present))
		return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, kind, given);
	memset(whole, 0, whole_size);
	memcpy(whole, given->iov_base, given->iov_len);
	memcpy(&present, whole + HEADER_AT, sizeof(present));
	present &= HEADER_LEGACY_BITS;
	memcpy(whole + HEADER_AT, &present, sizeof(present));
	all.iov_len = whole_size;
	return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, kind, &all);
}

/* As libc's: a look at memory comes back as the result. */
long ptrace(enum __ptrace_request request, ...)
{
	va_list args;
	pid_t pid = 0;
	void *address = NULL, *data = NULL;
	long word = 0;

	va_start(args, request);
	pid = va_arg(args, pid_t);
	address = va_arg(args, void *);
	data = va_arg(args, void *);
	va_end(args);

	if (request == PTRACE_SETREGSET && (uintptr_t)address == NT_X86_XSTATE)
		return xstate_set(pid, address, data);
	if (request != PTRACE_PEEKTEXT && request != PTRACE_PEEKDATA && request != PTRACE_PEEKUSER)
		return syscall(SYS_ptrace, request, pid, address, data);
	if (syscall(SYS_ptrace, request, pid, address, &word) != 0)
		return -1;
	errno = 0;
	return word;
}

#endif
