/* csrc/call/abi_x86_64.S: nc_invoke (invoke.h), nc_entry and nc_conversion (entry.h) for the
 * System V ABI of x86-64. The layout of the block:
 *
 *       0   rdi rsi rdx rcx r8 r9, 8 bytes each
 *      48   xmm0 to xmm7, 16 bytes each, only the first 8 used
 *     176   the result: rax at 176, rdx at 184, xmm0 at 192, xmm1 at 208; a result of long doubles
 *           has st0 at 176 and st1 at 192 instead
 *     224   the caller's rbp and return address (nc_entry and nc_conversion only)
 *     240   the stack arguments */
#include "platform/symbols.inc"

#if defined(__x86_64__) && !defined(_WIN32) && !defined(__CYGWIN__)

        function nc_invoke
        .cfi_startproc
        endbr64
        push %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        mov %rsp, %rbp
        .cfi_def_cfa_register %rbp
        push %rbx
        .cfi_offset %rbx, -24
        push %rcx                       /* `how`; its second byte is at -15(%rbp) */
        mov %rdi, %rbx
        mov %rsi, %r11
        mov %ecx, %eax
        test %edx, %edx
        jne 5f
1:      mov 0(%rbx), %rdi
        mov 8(%rbx), %rsi
        mov 16(%rbx), %rdx
        mov 24(%rbx), %rcx
        mov 32(%rbx), %r8
        mov 40(%rbx), %r9
        test %al, %al
        je 2f
        .irp i, 0, 1, 2, 3, 4, 5, 6, 7
        movsd 48+16*\i(%rbx), %xmm\i
        .endr
2:      call *%r11
        cmpb $0, -15(%rbp)
        jne 3f
        mov %rax, 176(%rbx)
        mov %rdx, 184(%rbx)
        movsd %xmm0, 192(%rbx)
        movsd %xmm1, 208(%rbx)
4:      mov -8(%rbp), %rbx
        leave
        .cfi_remember_state
        .cfi_restore %rbx
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_restore_state
3:      fstpt 176(%rbx)
        cmpb $1, -15(%rbp)
        je 4b
        fstpt 192(%rbx)
        jmp 4b
5:      sub $16, %rsp
        movups 224(%rbx, %rdx, 8), %xmm0
        movaps %xmm0, (%rsp)
        sub $2, %edx
        jne 5b
        jmp 1b
        .cfi_endproc
        end nc_invoke

/* On entry, r10 holds the address of the stub's slot. nc_enter and nc_convert return the
 * number of long doubles in the result. */
        .macro entry name, enter
        function \name
        .cfi_startproc
        endbr64
        push %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        mov %rsp, %rbp
        .cfi_def_cfa_register %rbp
        sub $224, %rsp
        mov %rdi, 0(%rsp)
        mov %rsi, 8(%rsp)
        mov %rdx, 16(%rsp)
        mov %rcx, 24(%rsp)
        mov %r8, 32(%rsp)
        mov %r9, 40(%rsp)
        .irp i, 0, 1, 2, 3, 4, 5, 6, 7
        movsd %xmm\i, 48+16*\i(%rsp)
        .endr
        mov %r10, %rdi
        mov %rsp, %rsi
        call \enter
        test %eax, %eax
        jne 7f
        mov 176(%rsp), %rax
        mov 184(%rsp), %rdx
        movsd 192(%rsp), %xmm0
        movsd 208(%rsp), %xmm1
        leave
        .cfi_remember_state
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_restore_state
7:      dec %eax
        je 8f
        fldt 192(%rsp)
8:      fldt 176(%rsp)
        leave
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
        end \name
        .endm

        entry nc_entry, SYMBOL(nc_enter)
        entry nc_conversion, SYMBOL(nc_convert)
#endif
