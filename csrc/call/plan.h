/* csrc/call/plan.h: call plans and closure plans: how a call of a signature is made, and how one is
 * taken, as flat data.
 *
 * Idea. nativecall/_plan/callplan.py makes one for each call spec, by the ABI of the platform, and
 * call.c carries it out. A call has a *frame* in memory. It begins with the block, the image of all
 * that the processor has then: registers of arguments, registers of results, the arguments on the
 * stack (invoke.h). What is not in a register as it is lies behind: structs that are cut into
 * pieces, copies, out-parameters, what keeps pointers valid. All places are bytes from the start of
 * the frame.
 *
 * A plan is immutable, and shared by all callables of its call spec. It is the bytes of a Python
 * object, which never moves; callplan.py packs these structs field by field. */
#ifndef NC_PLAN_H
#define NC_PLAN_H

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
    NC_STEP_STRUCT,   /* kept by the NcPointer at `owner`, unless that is 0 */
    NC_STEP_FUNCTION, /* that C keeps, or another pointer, as above */
    NC_STEP_LENGTH,   /* `size` bytes: of the text that argument `memory` is, which `owner` keeps */
};

typedef struct {
    uint8_t code;
    uint8_t size;
    char letter;   /* of a scalar */
    uint8_t moves; /* how many there are */
    uint32_t at;
    uint32_t owner;
    uint32_t memory;
    uint32_t move; /* the first of them */
} NcStep;

/* Copies `size` bytes; with a size of 0 it stores the address of `from`. */
typedef struct {
    uint32_t from;
    uint32_t to;
    uint32_t size;
} NcMove;

typedef struct NcPlan {
    uint32_t args;    /* how many steps are of arguments that Python passes, in their order */
    uint32_t lengths; /* and how many, behind them, are of lengths */
    uint32_t stack;   /* words on the stack */
    uint32_t how;     /* see nc_invoke */
    uint32_t bytes;   /* of the frame */
    uint32_t owners;  /* how many NcPointers there are */
    uint32_t owned;   /* the first */
    uint32_t outs;    /* out-parameters: where, and bytes in all */
    uint32_t out_bytes;
    uint32_t told;  /* the int of NC_ERRORS_ARGUMENT; 0: none */
    uint32_t moves; /* those of no step, which are the first, for every call */
    NcStep result;
    NcStep steps[]; /* then the moves */
} NcPlan;

/* A closure plan: how a call that C makes becomes one of a Python function. _plan/closureplan.py
 * makes it of the same placement, and callback/closure.c carries it out. Nothing lies behind the
 * block: an object that is cut into pieces is put together in a scratch of NC_SCRATCH_BYTES,
 * arguments one after the other, then the result.
 *
 * A step of an argument has `at`, a place in the block or, if it has moves, in the scratch. With an
 * `owner` of 1 the value is where the pointer at `at` leads to. `memory` is the number of bytes of
 * NC_STEP_BYTES. Letters other than those of plain steps are as for calls; views, too, are
 * NC_STEP_POINTER. The step of the result is the other way round; as a reference its `at` is where
 * the caller finds the address again, NC_NOWHERE for nowhere. */
enum { NC_STEP_BYTES = NC_STEP_LENGTH + 1 /* a value as bytes, whatever its type is */ };
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

#define NC_PLAN_MOVES(plan)                                                                        \
    ((const NcMove *)(const void *)&(plan)->steps[(plan)->args + (plan)->lengths])
#define NC_CLOSURE_MOVES(plan) ((const NcMove *)(const void *)&(plan)->steps[(plan)->args])

/* A word of a block, and the integer of so many bytes that is its lower end. */
static inline uint64_t nc_word_at(const char *from)
{
    uint64_t word;
    memcpy(&word, from, sizeof(word));
    return word;
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
