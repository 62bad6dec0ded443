/* SPDX-License-Identifier: Apache-2.0
 *
 * dlsym and dlvsym on x86-64: ask lookup.c, then return its value, or jump to the real function as
 * if this one had never been. What the real one needs is in rdi, rsi, rdx and the return address;
 * everything else that is changed here belongs to a callee anyway. rsp is 8 off a multiple of 16 at
 * entry and a multiple of 16 at the call.
 */
	.text

	.hidden	berth_lookup_dlsym
	.globl	dlsym
	.type	dlsym, @function
	.p2align 4
dlsym:
	.cfi_startproc
	endbr64
	movq	(%rsp), %rdx
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	berth_lookup_dlsym
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%rax, %rax
	je	1f
	jmp	*%rax
1:	movq	%rdx, %rax
	ret
	.cfi_endproc
	.size	dlsym, . - dlsym

	.hidden	berth_lookup_dlvsym
	.globl	dlvsym
	.type	dlvsym, @function
	.p2align 4
dlvsym:
	.cfi_startproc
	endbr64
	movq	(%rsp), %rcx
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	call	berth_lookup_dlvsym
	movq	%rdx, %rcx
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%rax, %rax
	je	1f
	jmp	*%rax
1:	movq	%rcx, %rax
	ret
	.cfi_endproc
	.size	dlvsym, . - dlvsym

	.section .note.GNU-stack, "", @progbits
