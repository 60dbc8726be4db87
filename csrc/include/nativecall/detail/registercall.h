/* nativecall/detail/registercall.h: calls a C function whose signature is known only at run time.
 *
 *     NcRegisterCall how;
 *     if (nc_registercall_prepare("d:id", 4, &how) == NC_OK) {
 *         const void *args[] = {&n, &x};                  // an int32_t and a double
 *         nc_registercall(&how, function, &y, args);
 *     }
 *
 * Idea:       System V x86-64 and AAPCS64 assign integers to one set of registers and floats to
 *             another, each in argument order. Arguments that do not fit go on the stack in order,
 *             in 8-byte words. So one C function type serves all scalar signatures: a call through
 *             it fills all registers of both sets and enough stack words. The callee ignores the
 *             registers and words that are not its arguments. No generated code is needed.
 *
 * Accepts:    canonical signatures of integers, floats, complex numbers, pointers and objects, up
 *             to NC_REGISTERCALL_STACK stack words. NC_E_MISSING is returned for:
 *             - structs by value, views, complex long double and variadic functions;
 *             - long double on AAPCS64, because it fills a 16-byte register;
 *             - stack arguments on ARM macOS, because they share words there;
 *             - all signatures on other platforms.
 *             dynamiccall.h skips entries with such signatures.
 *
 * Threads:    pure functions, except for the callee. No GIL needed.
 * Errors:     NC_E_MISSING, NC_E_FORMAT, NC_E_TOOLONG. A call cannot fail.
 * Ownership:  nothing is allocated; an NcRegisterCall does not point to the signature's text.
 * Source:     System V ABI, AMD64 supplement, 3.2.3; Procedure Call Standard for the Arm 64-bit
 *             Architecture, 6.8. */
#ifndef NATIVECALL_REGISTERCALL_H
#define NATIVECALL_REGISTERCALL_H

#include "core/signaturecursor.h"

NC_C_BEGIN

#define NC_REGISTERCALL_FLOATS 8
#if defined(__x86_64__) && !defined(_WIN32) && !defined(__CYGWIN__) && UINTPTR_MAX > 0xFFFFFFFF
#define NC_REGISTERCALL_SYSV 1
#define NC_REGISTERCALL_AAPCS64 0
#define NC_REGISTERCALL_INTS 6
#define NC_REGISTERCALL_STACK 24
#elif defined(__aarch64__) && defined(__AARCH64EL__) && UINTPTR_MAX > 0xFFFFFFFF
#define NC_REGISTERCALL_SYSV 0
#define NC_REGISTERCALL_AAPCS64 1
#define NC_REGISTERCALL_INTS 8
#if defined(__APPLE__)
#define NC_REGISTERCALL_STACK 0
#else
#define NC_REGISTERCALL_STACK 24
#endif
#else
#define NC_REGISTERCALL_SYSV 0
#define NC_REGISTERCALL_AAPCS64 0
#define NC_REGISTERCALL_INTS 8
#define NC_REGISTERCALL_STACK 0
#endif

#define NC_REGISTERCALL_WORDS                                                                      \
    (NC_REGISTERCALL_INTS + NC_REGISTERCALL_FLOATS + NC_REGISTERCALL_STACK)

/* The location of an argument, or of one part of a complex number. */
typedef struct {
    unsigned char argument; /* its index */
    unsigned char from;     /* byte offset in the argument */
    unsigned char size;     /* bytes: 1, 2, 4 or 8 */
    unsigned char is_signed;
    unsigned char word; /* index among all words: integers, floats, stack */
} NcRegisterPart;

/* How to call functions of one signature. */
typedef struct {
    size_t parts;        /* in use */
    size_t stack;        /* stack words in use */
    char result;         /* as returned by nc_registercall_row */
    unsigned char size;  /* bytes of the result, or of one of its two registers */
    unsigned char count; /* fixed arguments */
    NcRegisterPart part[NC_REGISTERCALL_WORDS];
} NcRegisterCall;

/* ---- preparing ------------------------------------------------------------------------------- */

typedef struct {
    size_t ints;
    size_t floats;
} NcRegistersUsed;

/* Place `count` parts of equal size in registers of one kind or, if they do not fit, on the
 * stack. */
NC_STATIC int nc_registercall_place(NcRegisterCall *how, NcRegistersUsed *used, size_t argument,
                                    const NcSignatureType *type, int is_float, size_t count,
                                    size_t size)
{
    size_t *next = is_float ? &used->floats : &used->ints;
    const size_t all = is_float ? NC_REGISTERCALL_FLOATS : NC_REGISTERCALL_INTS;
    const int in_registers = *next + count <= all;

    if (!in_registers) {
        const size_t bytes = count * size;
        if (NC_REGISTERCALL_AAPCS64) {
            *next = all; /* the remaining registers stay unused */
        }
        if (type->code == 'g' && how->stack % 2 != 0) {
            how->stack++; /* long double is aligned to 16 bytes */
        }
        /* In memory, the two floats of a complex number share one word. */
        if (bytes <= 8) {
            size = bytes;
            count = 1;
        }
        if (how->stack + count > NC_REGISTERCALL_STACK) {
            return NC_E_MISSING;
        }
    }
    for (size_t i = 0; i < count; i++) {
        NcRegisterPart *part = &how->part[how->parts++];
        size_t word = NC_REGISTERCALL_INTS + NC_REGISTERCALL_FLOATS;
        if (in_registers) {
            word = (is_float ? NC_REGISTERCALL_INTS : 0) + (*next)++;
        } else {
            word += how->stack++;
        }
        part->argument = (unsigned char)argument;
        part->from = (unsigned char)(i * size);
        part->size = (unsigned char)size;
        part->is_signed = type->kind == NC_KIND_INT && nc_scalar_is_signed(type->code);
        part->word = (unsigned char)word;
    }
    return NC_OK;
}

/* Return how a type is passed: 'i' in an integer register, 'f' in a float register, 'p' in two
 * float registers, 'g' as an x87 80-bit float (arguments in memory, results in st(0)), 'v' for
 * void, or 0 if it is unsupported. */
NC_STATIC char nc_registercall_row(const NcSignatureType *type)
{
    switch (type->kind) {
    case NC_KIND_VOID:
        return 'v';
    case NC_KIND_FLOAT:
        return type->code != 'g' ? 'f' : NC_REGISTERCALL_SYSV ? 'g' : 0;
    case NC_KIND_COMPLEX:
        return type->code == 'g' ? 0 : NC_REGISTERCALL_SYSV && type->size == 8 ? 'f' : 'p';
    case NC_KIND_STRUCT:
    case NC_KIND_UNION:
    case NC_KIND_ARRAY:
    case NC_KIND_VIEW:
        return 0;
    default:
        return 'i';
    }
}

/* Prepare calls of functions with a canonical signature. Return NC_E_MISSING if the signature is
 * unsupported. */
NC_STATIC int nc_registercall_prepare(const char *signature, size_t length, NcRegisterCall *how)
{
    NcRegistersUsed used = {0, 0};
    NcRegistersUsed full = {NC_REGISTERCALL_INTS, NC_REGISTERCALL_FLOATS};
    NcSignatureCursor cursor;
    NcSignatureType type;
    int status = nc_signature_open(signature, length, &cursor);

    how->parts = 0;
    how->stack = 0;
    if (status == NC_OK &&
        (cursor.variadic || !(NC_REGISTERCALL_SYSV || NC_REGISTERCALL_AAPCS64))) {
        return NC_E_MISSING;
    }
    for (size_t index = 0; status == NC_OK; index++) {
        status = nc_signature_next(&cursor, &type);
        if (status == NC_E_MISSING) {
            how->count = (unsigned char)(index - 1);
            return NC_OK;
        }
        const char row = status == NC_OK ? nc_registercall_row(&type) : 0;
        const size_t words = row == 'p' || row == 'g' ? 2 : 1;
        if (row == 0) {
            return status == NC_OK ? NC_E_MISSING : status;
        }
        if (index == 0) { /* the result */
            how->result = row;
            how->size = (unsigned char)(row == 'p' ? type.size / 2 : type.size);
        } else {
            status = nc_registercall_place(how, row == 'g' ? &full : &used, index - 1, &type,
                                           row != 'i', words, type.size / words);
        }
    }
    return status;
}

/* ---- calling --------------------------------------------------------------------------------- */

/* All words of a call. Floats are stored as their bits. */
typedef struct {
    uint64_t word[NC_REGISTERCALL_WORDS];
} NcRegisters;

NC_STATIC_INLINE double nc_registers_double(const NcRegisters *all, size_t i)
{
    double value;
    memcpy(&value, &all->word[NC_REGISTERCALL_INTS + i], sizeof value);
    return value;
}

/* A result in two floating-point registers. Both ABIs return a struct of two doubles this way. */
typedef struct {
    double first;
    double second;
} NcTwoDoubles;

#define NC_RC_U4 uint64_t, uint64_t, uint64_t, uint64_t
#define NC_RC_D8 double, double, double, double, double, double, double, double
#define NC_RC_W4(all, i) all->word[i], all->word[(i) + 1], all->word[(i) + 2], all->word[(i) + 3]
#if NC_REGISTERCALL_INTS == 6
#define NC_RC_TYPES uint64_t, uint64_t, NC_RC_U4, NC_RC_D8
#define NC_RC_INTS(all) all->word[0], all->word[1], NC_RC_W4(all, 2)
#else
#define NC_RC_TYPES NC_RC_U4, NC_RC_U4, NC_RC_D8
#define NC_RC_INTS(all) NC_RC_W4(all, 0), NC_RC_W4(all, 4)
#endif
#define NC_RC_FLOATS(all)                                                                          \
    nc_registers_double(all, 0), nc_registers_double(all, 1), nc_registers_double(all, 2),         \
        nc_registers_double(all, 3), nc_registers_double(all, 4), nc_registers_double(all, 5),     \
        nc_registers_double(all, 6), nc_registers_double(all, 7)
#define NC_RC_AT (NC_REGISTERCALL_INTS + NC_REGISTERCALL_FLOATS)

/* Keep sanitizers from reporting the call: it deliberately uses a different function type. */
#if defined(__clang__)
#define NC_RC_DELIBERATE __attribute__((no_sanitize("undefined")))
#else
#define NC_RC_DELIBERATE
#endif

#if NC_REGISTERCALL_STACK
#define NC_RC_STACK(name, type)                                                                    \
    if (stack > 8) {                                                                               \
        return ((type (*)(NC_RC_TYPES, NC_RC_U4, NC_RC_U4, NC_RC_U4, NC_RC_U4, NC_RC_U4,           \
                          NC_RC_U4))function)(                                                     \
            NC_RC_INTS(all), NC_RC_FLOATS(all), NC_RC_W4(all, NC_RC_AT),                           \
            NC_RC_W4(all, NC_RC_AT + 4), NC_RC_W4(all, NC_RC_AT + 8),                              \
            NC_RC_W4(all, NC_RC_AT + 12), NC_RC_W4(all, NC_RC_AT + 16),                            \
            NC_RC_W4(all, NC_RC_AT + 20));                                                         \
    }                                                                                              \
    if (stack > 0) {                                                                               \
        return ((type (*)(NC_RC_TYPES, NC_RC_U4, NC_RC_U4))function)(                              \
            NC_RC_INTS(all), NC_RC_FLOATS(all), NC_RC_W4(all, NC_RC_AT),                           \
            NC_RC_W4(all, NC_RC_AT + 4));                                                          \
    }
#else
#define NC_RC_STACK(name, type) (void)stack;
#endif

#define NC_RC_DEFINE(name, type)                                                                   \
    NC_RC_DELIBERATE NC_STATIC type name(uintptr_t function, const NcRegisters *all, size_t stack) \
    {                                                                                              \
        NC_RC_STACK(name, type)                                                                    \
        return ((type (*)(NC_RC_TYPES))function)(NC_RC_INTS(all), NC_RC_FLOATS(all));              \
    }

NC_RC_DEFINE(nc_registercall_int, uint64_t)
NC_RC_DEFINE(nc_registercall_float, double)
NC_RC_DEFINE(nc_registercall_two, NcTwoDoubles)
NC_RC_DEFINE(nc_registercall_long_double, long double)

#undef NC_RC_DEFINE
#undef NC_RC_STACK

/* Load an argument's part as a word. Integers are extended to 64 bits: both ABIs allow it, and some
 * callees rely on it. */
NC_STATIC_INLINE uint64_t nc_registercall_load(const NcRegisterPart *part, const void *argument)
{
    const char *at = (const char *)argument + part->from;
    uint64_t word = 0;
    memcpy(&word, at, part->size);
    if (part->is_signed && part->size < 8) {
        const uint64_t sign = UINT64_C(1) << (8 * part->size - 1);
        word = (word ^ sign) - sign;
    }
    return word;
}

/* Call a function of the prepared signature. args[i] points to the i-th argument, and `result` to
 * memory for the result. Pass NULL for `result` if there is no result or you do not want it. */
NC_NOINLINE NC_OPAQUE void nc_registercall(const NcRegisterCall *how, void *function, void *result,
                                           const void *const *args)
{
    const uintptr_t address = (uintptr_t)function;
    NcRegisters all;
    uint64_t integer;
    double number;
    long double wide;
    NcTwoDoubles two;
    char spare[16];

    memset(&all, 0, how->stack != 0 ? sizeof all : NC_RC_AT * sizeof all.word[0]);
    for (size_t i = 0; i < how->parts; i++) {
        const NcRegisterPart *part = &how->part[i];
        all.word[part->word] = nc_registercall_load(part, args[part->argument]);
    }
    if (result == NULL) {
        result = spare;
    }
    switch (how->result) {
    case 'f':
        number = nc_registercall_float(address, &all, how->stack);
        memcpy(result, &number, how->size);
        break;
    case 'p':
        two = nc_registercall_two(address, &all, how->stack);
        memcpy(result, &two.first, how->size);
        memcpy((char *)result + how->size, &two.second, how->size);
        break;
    case 'g':
        wide = nc_registercall_long_double(address, &all, how->stack);
        memcpy(result, &wide, sizeof wide);
        break;
    default:
        integer = nc_registercall_int(address, &all, how->stack);
        memcpy(result, &integer, how->size);
        break;
    }
}

NC_C_END

#endif
