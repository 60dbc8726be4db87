/* csrc/codegen/processor.c: identifies the processor as LLVM does, by CPUID. The disk cache reuses
 * machine code only on the same processor. */
#include "platform/functions.h"

#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__)

#include <cpuid.h>

/* The CPUID data that LLVM reads: leaf, subleaf, and which of the four registers. Registers that
 * identify the current core or count cores are left out. */
static const struct {
    uint32_t leaf;
    uint32_t part;
    int registers[4];
} read_by_llvm[] = {
    {0, 0, {0, 1, 1, 1}},          {1, 0, {1, 0, 1, 1}},          {7, 0, {1, 1, 1, 1}},
    {7, 1, {1, 1, 1, 1}},          {0xd, 1, {1, 0, 0, 0}},        {0x14, 0, {0, 1, 0, 0}},
    {0x19, 0, {0, 1, 0, 0}},       {0x1e, 1, {1, 0, 0, 0}},       {0x24, 0, {0, 1, 0, 0}},
    {0x80000001, 0, {0, 0, 1, 1}}, {0x80000008, 0, {0, 1, 0, 0}},
};
enum { LEAVES = sizeof(read_by_llvm) / sizeof(read_by_llvm[0]) };

/* processor(): returns bytes. Two results are equal if and only if LLVM would detect the same
 * processor with the same features. Returns b"" if the processor is unknown. */
PyObject *nc_processor(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    uint32_t words[LEAVES + 1][4] = {{0}};
    for (int i = 0; i < LEAVES; i++) {
        uint32_t *found = words[i];
        if (!__get_cpuid_count(read_by_llvm[i].leaf, read_by_llvm[i].part, &found[0], &found[1],
                               &found[2], &found[3])) {
            continue;
        }
        for (int which = 0; which < 4; which++) {
            found[which] = read_by_llvm[i].registers[which] ? found[which] : 0;
        }
    }
    if ((words[1][2] >> 27 & 1) != 0) {
        /* the registers that the system saves; LLVM avoids instructions that use other registers */
        __asm__("xgetbv" : "=a"(words[LEAVES][0]), "=d"(words[LEAVES][3]) : "c"(0));
    }
    return PyBytes_FromStringAndSize((const char *)words, sizeof(words));
}

#else

PyObject *nc_processor(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyBytes_FromStringAndSize("", 0);
}

#endif
