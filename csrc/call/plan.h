/* csrc/call/plan.h: call plans, closure plans and conversions: how a call of a signature is made,
 * how one is taken, and how one becomes another, as flat data.
 *
 * Idea. nativecall/_plan/callplan.py makes one for each call interface, by the ABI of the platform,
 * and call.c carries it out. A call has a *frame* in memory. It begins with the block, the image of
 * all that the processor has then: registers of arguments, registers of results, the arguments on
 * the stack (invoke.h). What is not in a register as it is lies behind: structs that are cut into
 * pieces, copies, out-parameters, what keeps pointers valid. All places are bytes from the start of
 * the frame.
 *
 * A plan is immutable, and shared by all callables of its call interface. It is the bytes of a
 * Python object, which never moves; callplan.py packs these structs field by field. */
#ifndef NC_PLAN_H
#define NC_PLAN_H

#include "nativecall/detail/core/compiler.h"

#include <stdint.h>
#include <string.h>

/* What a step does. To an argument it converts a value into memory at `at`, then `moves` carry that
 * into registers; to the result the moves come first. */
enum {
    NC_STEP_VOID,     /* a result: none */
    NC_STEP_DOUBLE,   /* in a word of the block, as are all up to BOOL */
    NC_STEP_FLOAT,    /* */
    NC_STEP_SIGNED,   /* an integer of `size` bytes, extended to a word */
    NC_STEP_UNSIGNED, /* the same without a sign */
    NC_STEP_BOOL,     /* */
    NC_STEP_SCALAR,   /* a scalar of any letter; `size` bytes are zero before */
    NC_STEP_POINTER,  /* as are the next but one, kept by the NcPointer at `owner` */
    NC_STEP_OBJECT,   /* as it is */
    NC_STEP_VIEW,     /* of `size` dimensions, whose words are at `memory` */
    NC_STEP_STRUCT,   /* of `memory` bytes, kept by the NcPointer at `owner`, unless that is 0, and
                         `size` is NC_PIECES or NC_WHOLE. A result without moves is written by C, to
                         where the word at `at` leads; with an `owner` there are pointers in it */
    NC_STEP_FUNCTION, /* that C keeps, or another pointer, as above */
    NC_STEP_OUT,      /* the address of out-parameter `memory`, which is not in the frame */
    NC_STEP_LENGTH,   /* `size` bytes: of the text that argument `memory` is, which `owner` keeps;
                         without an owner, of that out-parameter */
};

/* How a struct without pointers is passed. */
enum { NC_PIECES = 1, NC_WHOLE };

typedef struct {
    uint8_t code;
    uint8_t size;
    char letter;   /* of a scalar */
    uint8_t moves; /* how many there are */
    uint32_t at;
    uint32_t owner;
    uint32_t memory;
    uint32_t move; /* the first of them, in bytes from the step on */
} NcStep;

/* Copies `size` bytes; with a size of 0 it stores the address of `from`. A
 * place in a value's memory counts from the start of that, all others from the frame's. */
typedef struct {
    uint32_t from;
    uint32_t to;
    uint32_t size;
} NcMove;

typedef struct NcPlan {
    uint32_t args;    /* how many steps are of arguments that Python passes, in their order */
    uint32_t made;    /* how many, behind them, are of out-parameters that are not in the frame */
    uint32_t lengths; /* and how many, behind these, are of lengths */
    uint32_t extras;  /* whether there are owners, out-parameters, a check, or moves before */
    uint32_t stack;   /* words on the stack, an even number */
    uint32_t how;     /* see nc_invoke */
    uint32_t bytes;   /* of the frame */
    uint32_t owners;  /* how many NcPointers there are */
    uint32_t owned;   /* the first */
    uint32_t outs;    /* out-parameters: where, and bytes in all */
    uint32_t out_bytes;
    uint32_t told; /* the int of NC_ERRORS_ARGUMENT; 0: none */
    NcStep before; /* its moves come before all else */
    NcStep result;
    NcStep steps[]; /* then the moves */
} NcPlan;

/* A closure plan: how a call that C makes becomes one of a Python function. _plan/callplan.py
 * makes it of the same placement, and callable/closure.c carries it out. Nothing lies behind the
 * block: an object that is cut into pieces is put together in a scratch of NC_SCRATCH_BYTES,
 * arguments one after the other, then the result.
 *
 * A step of an argument has `at`, a place in the block or, if it has moves, in the scratch. With an
 * `owner` of 1 the value is where the pointer at `at` leads to. Letters other than those of plain
 * steps are as for calls; views, too, are NC_STEP_POINTER. The step of the result is the other way
 * round; as a reference its `at` is where the caller finds the address again, NC_NOWHERE for
 * nowhere. */
enum { NC_SCRATCH_BYTES = 64 };
#define NC_NOWHERE UINT32_MAX

typedef struct NcClosurePlan {
    uint32_t args;      /* how many steps there are */
    uint32_t reference; /* where the address of the result is, or NC_NOWHERE */
    uint32_t told;      /* where the address of an int is that a failure makes 1, or NC_NOWHERE */
    uint32_t x87;       /* how many long doubles are the result in registers of x86-64 */
    NcStep result;
    NcStep steps[]; /* then the moves */
} NcClosurePlan;

/* A conversion: how a C function of one signature calls one of another. _plan/conversion.py makes
 * it of a plan of _plan/nodes.py, and call/convert.c carries it out, without Python, or code that
 * _codegen/conversioncode.py writes of it. Each op moves or checks one value, or is a step of the
 * call. Where a value is counts from one of four bases; it may be a pointer to the value. */
enum {
    NC_BASE_FRAME, /* the frame of the call that is made, as for call plans */
    NC_BASE_BLOCK, /* the block of the call that is taken, as for closure plans */
    NC_BASE_BOUND, /* the Thunk */
    NC_BASE_DATA,  /* constants of the conversion */
    NC_BASES,
    NC_BASE_MASK = 3,
    NC_BASE_POINTER = 4 /* a pointer to it is there */
};

enum {
    NC_OP_COPY,     /* `size` bytes */
    NC_OP_SIGNED,   /* an integer of `size` bytes, extended to a word */
    NC_OP_UNSIGNED, /* the same without a sign */
    NC_OP_TRUTH,    /* a byte that is 0 or not, as a word */
    NC_OP_ADDRESS,  /* the address of the source, as a word */
    NC_OP_CLEAR,    /* `size` zeros to the target */
    NC_OP_NUMBER,   /* a scalar of a letter as one of another */
    NC_OP_WIDEN,    /* a float as a double */
    NC_OP_NARROW,   /* a double as a float */
    NC_OP_INTEGER,  /* an int as a double */
    NC_OP_EQUAL,    /* nothing; an integer of a letter that is not `size` fails */
    NC_OP_OTHER,    /* nothing; one that is `size` fails */
    NC_OP_ERRNO,    /* errno, as a word */
    NC_OP_RAISED,   /* whether a Python exception is set, as a word */
    NC_OP_CALL,     /* the function is called */
    NC_OP_NO_ERRNO, /* errno becomes 0 */
    NC_OP_TAKE_GIL, /* the GIL is taken, or C gets the result of a failure */
    NC_OP_DROP_GIL, /* and given back */
    NC_OP_SETTLE,   /* an exception that the function left finds a place */
};

typedef struct {
    uint8_t code;
    uint8_t source; /* the base of `from` */
    uint8_t target; /* the base of `to` */
    uint8_t exact;  /* of a number: whether it may not be rounded */
    char letter;
    char becomes;
    uint16_t step; /* what fails */
    uint32_t from;
    uint32_t offset; /* behind the pointer */
    uint32_t to;
    uint32_t size;
} NcOp;

enum {
    NC_CONVERSION_KEEPS = 1,      /* what failed stays set in the thread state */
    NC_CONVERSION_SETS_ERRNO = 2, /* a failure is shown by errno */
    NC_CONVERSION_REACHES_C = 4,  /* the caller sees that the function itself failed */
    NC_CONVERSION_TELLS = 8,      /* by the caller's int, which the function does not know */
    NC_CONVERSION_BY_CODE = 16,   /* the function fails by errno, or by its last argument */
};

typedef struct NcConversion {
    uint32_t count;  /* how many ops there are */
    uint32_t failed; /* and how many, behind them, where one of them fails */
    uint32_t bytes;  /* of the frame */
    uint32_t stack;  /* as of a call plan */
    uint32_t how;
    uint32_t x87; /* as of a closure plan */
    uint32_t flags;
    uint32_t errors; /* NC_ERRORS_*, of the function */
    uint32_t tested; /* the step that is the function's own failure, or NC_NOWHERE */
    uint32_t told;   /* where in the block the address of the caller's int is, or NC_NOWHERE */
    uint32_t data;   /* bytes from the start */
    NcOp ops[];
} NcConversion;

/* A loop of a ufunc around a C function (nativecall/_ufunc/): how often NumPy says, the conversion
 * of one element. The block that this takes has the address of each operand's element, the lengths
 * of the core dimensions, and the steps of all operands along these, a word each. */
typedef struct NcLoop {
    uint32_t operands;
    uint32_t dimensions;
    uint32_t steps;     /* core steps, of all operands */
    uint32_t needs_gil; /* 1: around the loop */
    uint32_t arrays;    /* how many of these follow, */
    uint32_t lengths;   /* then of these, */
    uint32_t axes;      /* then the dimensions of each array in turn, */
    uint32_t data;      /* then the conversion, so many bytes from the start */
} NcLoop;

/* An operand with core dimensions that the function gets the address of. */
typedef struct {
    uint32_t operand;
    uint32_t given; /* the operand that it has the contents of before the call, or NC_NOWHERE */
    uint32_t step;  /* where its steps begin among all, then those of `given` */
    uint32_t given_step;
    uint32_t axis; /* where its dimensions begin, and how many there are */
    uint32_t count;
    uint32_t size;      /* of an item */
    uint32_t is_dense;  /* 1: the function takes it for one without gaps */
    uint32_t is_output; /* 1: of a copy without gaps the contents go back */
} NcLoopArray;

/* A length that the function gets as an integer of a letter. */
typedef struct {
    uint32_t dimension;
    char letter;
    char unused[3];
} NcLoopLength;

/* A piece that is no word, and never more than it: what lies behind may be another page. */
NC_COLD void nc_move_some(char *to, const char *from, size_t size)
{
    memcpy(to, from, size);
}

/* The moves of a step, from and to a value's memory or the frame. */
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

/* A word of a block, and the integer of so many bytes that is its lower end. */
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

#endif
