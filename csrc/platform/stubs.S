/* csrc/platform/stubs.S: NC_STUB_REGION bytes of identical stubs (stub.h), and the memory of their
 * slots. Every slot is at the same distance from its stub. The linker fixes this distance, from
 * nc_stubs to nc_slots. So a copy of the stubs' pages also works if its slots are at the same
 * distance. */
#include "stub_sizes.h"
#include "symbols.inc"

#if NC_HAS_MACHINE_CODE

#if defined(__APPLE__)
        .section __TEXT,__nc_stubs,regular,pure_instructions
#elif defined(__ELF__)
        .section .text.nc_stubs, "ax", %progbits
#else
        .text
#endif
        .p2align NC_STUB_PAGE_BITS
        .globl SYMBOL(nc_stubs)
#if defined(__ELF__)
        .hidden nc_stubs
#endif
SYMBOL(nc_stubs):
#if defined(__x86_64__)
        .rept NC_STUB_REGION / NC_STUB_BYTES
0:      endbr64
        leaq SYMBOL(nc_slots) + (0b - SYMBOL(nc_stubs))(%rip), %r10
        jmp *(%r10)
        .p2align 4, 0xcc
        .endr
#else
        .set at, 0
        .rept NC_STUB_REGION / NC_STUB_BYTES
        hint #34                        /* bti c */
#if defined(__APPLE__)
        adrp x15, SYMBOL(nc_slots)@PAGE + at
        add x15, x15, SYMBOL(nc_slots)@PAGEOFF + at
#else
        adrp x15, nc_slots + at
        add x15, x15, :lo12:nc_slots + at
#endif
        ldr x16, [x15]
        br x16
        .p2align 5
        .set at, at + NC_STUB_BYTES
        .endr
#endif

#if defined(__APPLE__)
        .globl SYMBOL(nc_slots)
        .zerofill __DATA, __nc_slots, SYMBOL(nc_slots), NC_STUB_REGION, NC_STUB_PAGE_BITS
#else
#if defined(__ELF__)
        .section .bss.nc_slots, "aw", %nobits
        .hidden nc_slots
#else
        .bss
#endif
        .p2align NC_STUB_PAGE_BITS
        .globl nc_slots
nc_slots:
        .skip NC_STUB_REGION
#endif

/* The code to which freed stubs jump. */
        function nc_stub_ended
#if defined(__x86_64__)
        endbr64
        and $-16, %rsp
#if defined(_WIN32)
        sub $32, %rsp
        mov %r10, %rcx
#else
        mov %r10, %rdi
#endif
        call SYMBOL(nc_stub_called_after_end)
#else
        hint #34
        mov x0, x15
        b SYMBOL(nc_stub_called_after_end)
#endif
        end nc_stub_ended
#endif
