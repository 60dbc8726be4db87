/* csrc/call/abi_win64.S: nc_invoke (invoke.h), nc_entry and nc_conversion (entry.h) for the
 * calling convention of 64-bit Windows. The layout of the block:
 *
 *       0   rcx rdx r8 r9
 *      32   xmm0 to xmm3, 16 bytes each, only the first 8 used
 *      96   the result in rax
 *     112   the result in xmm0
 *     128   the caller's rbp and return address (nc_entry and nc_conversion only)
 *     144   the caller's 32 bytes of shadow space (nc_entry and nc_conversion only)
 *     176   the stack arguments */
#include "platform/symbols.inc"

#if defined(__x86_64__) && (defined(_WIN32) || defined(__CYGWIN__))

        .text
        .globl nc_invoke
        .def nc_invoke; .scl 2; .type 32; .endef
        .p2align 5
        .seh_proc nc_invoke
nc_invoke:
        push %rbp
        .seh_pushreg %rbp
        push %rbx
        .seh_pushreg %rbx
        sub $8, %rsp
        .seh_stackalloc 8
        mov %rsp, %rbp
        .seh_setframe %rbp, 0
        .seh_endprologue
        mov %rcx, %rbx
        mov %rdx, %r11
        mov %r8d, %r8d
        test %r8d, %r8d
        je 2f
1:      pushq 168(%rbx, %r8, 8)
        pushq 160(%rbx, %r8, 8)
        sub $2, %r8d
        jne 1b
2:      sub $32, %rsp
        mov 0(%rbx), %rcx
        mov 8(%rbx), %rdx
        mov 16(%rbx), %r8
        mov 24(%rbx), %r9
        movsd 32(%rbx), %xmm0
        movsd 48(%rbx), %xmm1
        movsd 64(%rbx), %xmm2
        movsd 80(%rbx), %xmm3
        call *%r11
        mov %rax, 96(%rbx)
        movsd %xmm0, 112(%rbx)
        lea 8(%rbp), %rsp
        pop %rbx
        pop %rbp
        ret
        .seh_endproc

/* On entry, r10 holds the address of the stub's slot. */
        .macro entry name, enter
        .globl \name
        .def \name; .scl 2; .type 32; .endef
        .p2align 5
        .seh_proc \name
\name:
        push %rbp
        .seh_pushreg %rbp
        sub $160, %rsp                  /* 128 for the block, 32 for shadow space of the callee */
        .seh_stackalloc 160
        lea 160(%rsp), %rbp
        .seh_setframe %rbp, 160
        .seh_endprologue
        mov %rcx, -128(%rbp)
        mov %rdx, -120(%rbp)
        mov %r8, -112(%rbp)
        mov %r9, -104(%rbp)
        movsd %xmm0, -96(%rbp)
        movsd %xmm1, -80(%rbp)
        movsd %xmm2, -64(%rbp)
        movsd %xmm3, -48(%rbp)
        mov %r10, %rcx
        lea -128(%rbp), %rdx
        call \enter
        mov -32(%rbp), %rax
        movsd -16(%rbp), %xmm0
        lea 0(%rbp), %rsp
        pop %rbp
        ret
        .seh_endproc
        .endm

        entry nc_entry, nc_enter
        entry nc_conversion, nc_convert
#endif
