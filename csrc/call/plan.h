/* csrc/call/plan.h: call plans, closure plans and conversions: flat data that describes how to make
 * a call, how to receive a call, and how to convert a received call to an outgoing one.
 *
 * How it works. nativecall/_plan/callplan.py makes a plan for each call interface, according to the
 * platform's ABI. call.c executes the plan. A call has a *frame* in memory. The frame begins with
 * the block, an image of the processor's state: argument registers, result registers and stack
 * arguments (invoke.h). After the block comes everything that does not go into registers unchanged:
 * structs that are split into pieces, copies, out-parameters, and owners of pointers. All offsets
 * are bytes from the start of the frame.
 *
 * A plan is immutable, and shared by all callables of its call interface. It is stored in a Python
 * bytes object, which never moves. callplan.py packs these structs field by field. */
#pragma once

#include "nativecall/detail/core/compiler.h"

#include <stdint.h>
#include <string.h>

/* What a step does. For an argument, the step converts a value and stores it at offset `at`. Then
 * its moves copy that memory into registers. For a result, the moves come first. */
enum {
    NC_STEP_VOID,     /* no result; or an out-parameter's initial value, which is converted later */
    NC_STEP_DOUBLE,   /* in a word of the block, as for all codes up to BOOL */
    NC_STEP_FLOAT,    /* */
    NC_STEP_SIGNED,   /* an integer of `size` bytes, extended to a word by its sign */
    NC_STEP_UNSIGNED, /* the same, extended by zeros */
    NC_STEP_BOOL,     /* */
    NC_STEP_SCALAR,   /* any scalar letter; `size` bytes are cleared first */
    NC_STEP_POINTER,  /* kept valid by the NcPointer at `owner`, as for VIEW and FUNCTION */
    NC_STEP_OBJECT,   /* a Python object */
    NC_STEP_VIEW,     /* has `size` dimensions; its words are at `memory` */
    NC_STEP_STRUCT,   /* An argument has `memory` bytes. If it has pointers, the NcPointer at
                         `owner` keeps them valid. Otherwise `owner` is 0, and `size` is NC_PIECES
                         or NC_WHOLE. For a result, `owner` is 1 if it has pointers. If a result has
                         no moves, C writes it to the address stored at `at` */
    NC_STEP_FUNCTION, /* like POINTER, for a function pointer or void * that C may store */
    NC_STEP_OUT,      /* the address of out-parameter `memory`, which is not in the frame */
    NC_STEP_LENGTH,   /* the length of a text, an integer of `size` bytes. The text is argument
                         `memory`, kept valid by the NcPointer at `owner`. If `owner` is 0, it is
                         out-parameter `memory` */
};

/* How a struct without pointers is passed. */
enum { NC_PIECES = 1, NC_WHOLE };

typedef struct {
    uint8_t code;
    uint8_t size;
    char letter;   /* of a scalar */
    uint8_t moves; /* number of moves */
    uint32_t at;
    uint32_t owner;
    uint32_t memory;
    uint32_t move; /* offset of the first move, from the step */
} NcStep;

/* Copies `size` bytes; a size of 0 stores the address of `from`. Offsets in a value's memory count
 * from the start of that memory, all other offsets from the start of the frame. */
typedef struct {
    uint32_t from;
    uint32_t to;
    uint32_t size;
} NcMove;

typedef struct NcPlan {
    uint32_t args;    /* number of steps for arguments that Python passes, in order */
    uint32_t made;    /* number of steps after these, for out-parameters outside the frame */
    uint32_t lengths; /* number of steps after those, for lengths */
    uint32_t extras;  /* whether there are owners, out-parameters, a check, or moves in `before` */
    uint32_t stack;   /* words on the stack, an even number */
    uint32_t how;     /* see nc_invoke */
    uint32_t bytes;   /* of the frame */
    uint32_t owners;  /* number of NcPointers */
    uint32_t owned;   /* offset of the first NcPointer */
    uint32_t outs;    /* offset of the out-parameters, which have `out_bytes` bytes */
    uint32_t out_bytes;
    uint32_t told; /* offset of the int of NC_ERRORS_ARGUMENT; 0: none */
    NcStep before; /* its moves are executed first */
    NcStep result;
    NcStep steps[]; /* then the moves */
} NcPlan;

/* A closure plan: how to receive a call from C and call a Python function. _plan/callplan.py makes
 * it from the same argument placement as a call plan. callable/closure.c executes it. The frame
 * consists of the block alone. Values that are split into pieces are assembled in a scratch area of
 * NC_SCRATCH_BYTES, one value at a time.
 *
 * In an argument's step, `at` is an offset in the block or, if the step has moves, in the scratch
 * area. If `owner` is 1, the pointer at `at` points to the value. Letters are as in call plans.
 * Views are NC_STEP_POINTER, too. The result's step works in the other direction. If the result is
 * returned by reference, `at` is the offset at which the caller expects the result's address;
 * NC_NOWHERE if it expects none. */
enum { NC_SCRATCH_BYTES = 64 };
#define NC_NOWHERE UINT32_MAX

typedef struct NcClosurePlan {
    uint32_t args;      /* number of steps */
    uint32_t reference; /* offset of the result's address, or NC_NOWHERE */
    uint32_t told;      /* offset of the address of an int that a failure sets to 1, or
                           NC_NOWHERE */
    uint32_t x87;       /* number of long doubles that are returned in x87 registers */
    NcStep result;
    NcStep steps[]; /* then the moves */
} NcClosurePlan;

/* A conversion: how a C function of one signature calls a function of another signature.
 * _plan/conversion.py makes conversions from the plans of _plan/conversionplan.py. call/convert.c
 * executes a conversion without Python, or _codegen/conversioncode.py compiles it. Each op moves or
 * checks one value, or is a step of the call. Offsets count from one of four bases. At the offset
 * is the value itself or, with NC_BASE_POINTER, a pointer to it. */
enum {
    NC_BASE_FRAME, /* the frame of the outgoing call, as for call plans */
    NC_BASE_BLOCK, /* the block of the incoming call, as for closure plans */
    NC_BASE_BOUND, /* the Thunk */
    NC_BASE_DATA,  /* constants of the conversion */
    NC_BASES,
    NC_BASE_MASK = 3,
    NC_BASE_POINTER = 4 /* the offset leads to a pointer to the value */
};

enum {
    NC_OP_COPY,     /* `size` bytes */
    NC_OP_SIGNED,   /* an integer of `size` bytes, extended to a word by its sign */
    NC_OP_UNSIGNED, /* the same, extended by zeros */
    NC_OP_TRUTH,    /* whether a byte is not 0, as a word */
    NC_OP_ADDRESS,  /* the address of the source, as a word */
    NC_OP_CLEAR,    /* clear `size` bytes of the target */
    NC_OP_NUMBER,   /* convert a scalar of type `letter` to type `becomes` */
    NC_OP_WIDEN,    /* a float to a double */
    NC_OP_NARROW,   /* a double to a float */
    NC_OP_INTEGER,  /* an int to a double */
    NC_OP_EQUAL,    /* fail if an integer is not equal to `size` */
    NC_OP_OTHER,    /* fail if an integer is equal to `size` */
    NC_OP_ERRNO,    /* errno, as a word */
    NC_OP_RAISED,   /* whether a Python exception is set, as a word */
    NC_OP_CALL,     /* call the function */
    NC_OP_NO_ERRNO, /* clear errno */
    NC_OP_TAKE_GIL, /* take the GIL, or fail */
    NC_OP_DROP_GIL, /* release it */
    NC_OP_SETTLE,   /* raise or report an exception that the function left set */
};

typedef struct {
    uint8_t code;
    uint8_t source; /* the base of `from` */
    uint8_t target; /* the base of `to` */
    uint8_t exact;  /* for numbers: 1 if rounding is a failure */
    char letter;
    char becomes;
    uint16_t step; /* the plan's step, for errors */
    uint32_t from;
    uint32_t offset; /* added to the pointer */
    uint32_t to;
    uint32_t size;
} NcOp;

enum {
    NC_CONVERSION_KEEPS = 1,      /* the exception stays set in the thread state */
    NC_CONVERSION_SETS_ERRNO = 2, /* errno shows a failure */
    NC_CONVERSION_REACHES_C = 4,  /* C sees failures of the function itself, so raise nothing */
    NC_CONVERSION_TELLS = 8,      /* failures set the caller's int; the function does not set it */
    NC_CONVERSION_BY_CODE = 16,   /* the function reports failures by errno or its last argument */
};

typedef struct NcConversion {
    uint32_t count;  /* number of ops */
    uint32_t failed; /* number of ops after these, run after a failure */
    uint32_t bytes;  /* of the frame */
    uint32_t stack;  /* as in a call plan */
    uint32_t how;
    uint32_t x87; /* as in a closure plan */
    uint32_t flags;
    uint32_t errors; /* NC_ERRORS_*, of the function */
    uint32_t tested; /* the step that checks for the function's own failure, or NC_NOWHERE */
    uint32_t told;   /* offset in the block of the address of the caller's int, or NC_NOWHERE */
    uint32_t data;   /* offset of the constants */
    NcOp ops[];
} NcConversion;

/* A ufunc loop over a C function (nativecall/_ufunc/): runs the conversion once for each element.
 * The block of the incoming call consists of words: the address of each operand's element, the core
 * dimensions, and the steps of all operands along the core dimensions. */
typedef struct NcLoop {
    uint32_t operands;
    uint32_t dimensions;
    uint32_t steps;     /* core steps, of all operands */
    uint32_t needs_gil; /* 1: the loop runs with the GIL held */
    uint32_t arrays;    /* number of NcLoopArrays, which follow */
    uint32_t lengths;   /* number of NcLoopLengths, which follow these */
    uint32_t axes;      /* number of dimension indices that follow, array by array */
    uint32_t data;      /* offset of the conversion from the start */
} NcLoop;

/* An operand with core dimensions, whose address the function gets. */
typedef struct {
    uint32_t operand;
    uint32_t given;      /* the operand that initialises the array, or NC_NOWHERE */
    uint32_t step;       /* index of its first step among all steps */
    uint32_t given_step; /* the same for `given` */
    uint32_t axis;       /* index of its first dimension among `axes` */
    uint32_t count;      /* number of its dimensions */
    uint32_t size;       /* of an item */
    uint32_t is_dense;   /* 1: the function expects a contiguous array */
    uint32_t is_output;  /* 1: a contiguous copy is written back */
} NcLoopArray;

/* A length that the function gets as an integer of type `letter`. */
typedef struct {
    uint32_t dimension;
    char letter;
    char unused[3];
} NcLoopLength;

/* Moves a piece smaller than a word. It must not touch any other bytes, since the next page may be
 * unmapped. */
NC_COLD void nc_move_some(char *to, const char *from, size_t size)
{
    memcpy(to, from, size);
}

/* Executes the moves of a step. `to` and `from` are a value's memory or the frame. */
static inline void nc_move_all(const NcStep *step, char *to, const char *from)
{
    const NcMove *one = (const NcMove *)(const void *)((const char *)step + step->move);
    for (unsigned left = step->moves; left != 0; left--, one++) {
        const char *source = from + one->from;
        char *target = to + one->to;
        if (NC_LIKELY(one->size == 8)) {
            memcpy(target, source, 8);
        } else if (one->size == 4) {
            memcpy(target, source, 4);
        } else if (one->size != 0) {
            nc_move_some(target, source, one->size);
        } else {
            memcpy(target, &source, sizeof(source));
        }
    }
}

/* nc_word_at reads a word of a block; nc_word_put writes one. nc_word_extended sign-extends the
 * integer in the low `size` bytes of a word; nc_word_cleared zero-extends it. */
static inline uint64_t nc_word_at(const char *from)
{
    uint64_t word;
    memcpy(&word, from, sizeof(word));
    return word;
}

static inline void nc_word_put(char *to, uint64_t word)
{
    memcpy(to, &word, sizeof(word));
}

static inline int64_t nc_word_extended(uint64_t bits, unsigned size)
{
    unsigned spare = 64 - 8 * size;
    return (int64_t)(bits << spare) >> spare;
}

static inline uint64_t nc_word_cleared(uint64_t bits, unsigned size)
{
    unsigned spare = 64 - 8 * size;
    return bits << spare >> spare;
}
