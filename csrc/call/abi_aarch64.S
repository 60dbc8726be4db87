/* csrc/call/abi_aarch64.S: nc_invoke (invoke.h), nc_entry and nc_conversion (entry.h) for
 * AAPCS64, the calling convention of 64-bit ARM. A call has one block (invoke.h) for arguments and
 * results; results overwrite arguments. The layout of the block:
 *
 *       0   x0 to x7, then x8
 *      80   v0 to v7, 16 bytes each
 *     208   the caller's x29 and return address (nc_entry and nc_conversion only)
 *     224   the stack arguments */
#include "platform/symbols.inc"

#if defined(__aarch64__) && !defined(_WIN32)

        function nc_invoke
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
2:      sub w2, w2, #2
        add x12, x9, x2, lsl #3
        ldp x10, x11, [x12]
        stp x10, x11, [sp, #-16]!
        cbnz w2, 2b
3:      tst w3, #0xff
        b.eq 5f
        tbnz w3, #8, 4f
        .irp i, 0, 1, 2, 3, 4, 5, 6, 7
        ldr d\i, [x19, #80 + 16 * \i]
        .endr
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
        end nc_invoke

/* On entry, x15 holds the address of the stub's slot. */
        .macro entry name, enter
        function \name
        .cfi_startproc
        hint #34                        /* bti c */
        stp x29, x30, [sp, #-16]!
        .cfi_def_cfa_offset 16
        .cfi_offset x29, -16
        .cfi_offset x30, -8
        mov x29, sp
        .cfi_def_cfa_register x29
        sub sp, sp, #208
        stp x0, x1, [sp, #0]
        stp x2, x3, [sp, #16]
        stp x4, x5, [sp, #32]
        stp x6, x7, [sp, #48]
        str x8, [sp, #64]
        stp q0, q1, [sp, #80]
        stp q2, q3, [sp, #112]
        stp q4, q5, [sp, #144]
        stp q6, q7, [sp, #176]
        mov x0, x15
        mov x1, sp
        bl \enter
        ldp x0, x1, [sp, #0]
        ldp q0, q1, [sp, #80]
        ldp q2, q3, [sp, #112]
        mov sp, x29
        .cfi_def_cfa_register sp
        ldp x29, x30, [sp], #16
        .cfi_def_cfa_offset 0
        .cfi_restore x29
        .cfi_restore x30
        ret
        .cfi_endproc
        end \name
        .endm

        entry nc_entry, SYMBOL(nc_enter)
        entry nc_conversion, SYMBOL(nc_convert)
#endif
