/* csrc/call/invoke_aarch64.S: nc_invoke (invoke.h) by AAPCS64. The block, with results where
 * arguments are:
 *
 *       0   x0 to x7, then x8
 *      80   v0 to v7, 16 bytes each
 *     208   two words that are not used
 *     224   the stack */
#if defined(__aarch64__) && !defined(_WIN32)

#if defined(__APPLE__)
#define NAME _nc_invoke
        .private_extern NAME
#else
#define NAME nc_invoke
        .hidden NAME
        .type NAME, %function
#endif
        .text
        .globl NAME
        .p2align 5
NAME:
        .cfi_startproc
        hint #34                        /* bti c */
        stp x29, x30, [sp, #-32]!
        .cfi_def_cfa_offset 32
        .cfi_offset x29, -32
        .cfi_offset x30, -24
        mov x29, sp
        .cfi_def_cfa_register x29
        str x19, [sp, #16]
        .cfi_offset x19, -16
        mov x19, x0
        mov x16, x1
        mov w2, w2
        cbz w2, 3f
        add x9, x19, #224
        tbz w2, #0, 2f
        sub w2, w2, #1                  /* the last word alone */
        ldr x10, [x9, x2, lsl #3]
        stp x10, xzr, [sp, #-16]!
        cbz w2, 3f
2:      sub w2, w2, #2
        add x12, x9, x2, lsl #3
        ldp x10, x11, [x12]
        stp x10, x11, [sp, #-16]!
        cbnz w2, 2b
3:      tst w3, #0xff
        b.eq 5f
        tbnz w3, #8, 4f
        ldr d0, [x19, #80]
        ldr d1, [x19, #96]
        ldr d2, [x19, #112]
        ldr d3, [x19, #128]
        ldr d4, [x19, #144]
        ldr d5, [x19, #160]
        ldr d6, [x19, #176]
        ldr d7, [x19, #192]
        b 5f
4:      ldp q0, q1, [x19, #80]
        ldp q2, q3, [x19, #112]
        ldp q4, q5, [x19, #144]
        ldp q6, q7, [x19, #176]
5:      ldr x8, [x19, #64]
        ldp x0, x1, [x19, #0]
        ldp x2, x3, [x19, #16]
        ldp x4, x5, [x19, #32]
        ldp x6, x7, [x19, #48]
        blr x16
        stp x0, x1, [x19, #0]
        stp q0, q1, [x19, #80]
        stp q2, q3, [x19, #112]
        mov sp, x29
        .cfi_def_cfa_register sp
        ldr x19, [sp, #16]
        ldp x29, x30, [sp], #32
        .cfi_def_cfa_offset 0
        .cfi_restore x19
        .cfi_restore x29
        .cfi_restore x30
        ret
        .cfi_endproc
#if !defined(__APPLE__)
        .size NAME, . - NAME

        /* BTI: without the mark here the whole library would lose it. */
        .section .note.gnu.property, "a"
        .p2align 3
        .long 4, 16, 5
        .asciz "GNU"
        .long 0xc0000000, 4, 1, 0
#endif
#endif
#if defined(__ELF__)
        .section .note.GNU-stack, "", %progbits
#endif
