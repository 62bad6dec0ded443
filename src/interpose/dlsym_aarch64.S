/* SPDX-License-Identifier: Apache-2.0
 *
 * dlsym and dlvsym on aarch64: ask lookup.c, then return its value, or jump to the real function as
 * if this one had never been. What the real one needs is in x0, x1, x2 and the return address in
 * x30. The jump goes through x16, which may land on the `bti c` of a function. `hint #34` is that
 * instruction for assemblers that don't know its name; older processors do nothing there.
 */
	.text

	.hidden	berth_lookup_dlsym
	.globl	dlsym
	.type	dlsym, %function
	.p2align 4
dlsym:
	.cfi_startproc
	hint	#34
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	mov	x2, x30
	bl	berth_lookup_dlsym
	mov	x16, x0
	mov	x17, x1
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_restore 30
	.cfi_restore 29
	.cfi_def_cfa_offset 0
	cbz	x16, 1f
	br	x16
1:	mov	x0, x17
	ret
	.cfi_endproc
	.size	dlsym, . - dlsym

	.hidden	berth_lookup_dlvsym
	.globl	dlvsym
	.type	dlvsym, %function
	.p2align 4
dlvsym:
	.cfi_startproc
	hint	#34
	stp	x29, x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset 29, -48
	.cfi_offset 30, -40
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	mov	x3, x30
	bl	berth_lookup_dlvsym
	mov	x16, x0
	mov	x17, x1
	ldr	x2, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #48
	.cfi_restore 30
	.cfi_restore 29
	.cfi_def_cfa_offset 0
	cbz	x16, 1f
	br	x16
1:	mov	x0, x17
	ret
	.cfi_endproc
	.size	dlvsym, . - dlvsym

	.section .note.GNU-stack, "", %progbits
