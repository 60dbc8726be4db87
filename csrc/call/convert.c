/* csrc/call/convert.c: executes conversions (plan.h) for Thunks and ufunc loops. For Thunks, the
 * routine nc_conversion calls nc_convert here.
 *
 * The block of the incoming call and the frame of the outgoing call lie on the C stack. Ops before
 * the call fill the frame. Ops after it write through the caller's pointers and store the result in
 * the block. If an op fails, separate ops store the values that C gets instead. Nothing here needs
 * the GIL. The GIL is taken only to call functions that need it, and to handle exceptions.
 *
 * A Thunk may be deallocated during its own call. Its memory, spec and conversion stay valid until
 * 256 more Thunks have ended (call/thunkobject.h). */
#include "convert.h"

#include "entry.h"
#include "failure.h"
#include "invoke.h"
#include "plan.h"
#include "thunk.h"

#include "values/names.h"
#include "values/scalars.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#if NC_HAS_MACHINE_CODE

enum { MOST_SCALAR = 32 };

/* One call. */
typedef struct {
    const NcConversion *plan;
    void *function;
    NcThunk *thunk; /* NULL for loops, whose ops do not use it */
    char *base[NC_BASES];
    int taken;     /* how the GIL was taken */
    uint32_t step; /* the failed step; NC_NOWHERE: nothing to raise */
    uint64_t bits; /* the value of the failed step */
} Run;

static inline char *place(const Run *now, uint8_t base, uint32_t at)
{
    char *found = now->base[base & NC_BASE_MASK] + at;
    if (base & NC_BASE_POINTER) {
        memcpy(&found, found, sizeof(found));
    }
    return found;
}

static inline void copy_bytes(char *to, const char *from, size_t size)
{
    if (NC_LIKELY(size == 8)) {
        memcpy(to, from, 8);
    } else if (size == 4) {
        memcpy(to, from, 4);
    } else {
        memcpy(to, from, size);
    }
}

/* Returns a word whose low bytes are the `size` bytes at `from`. */
static inline uint64_t read_word(const char *from, uint32_t size)
{
    uint64_t word = 0;
    copy_bytes((char *)&word, from, size);
    return word;
}

static int fail(Run *now, uint32_t step, uint64_t bits)
{
    now->step = step;
    now->bits = bits;
    return -1;
}

/* Executes `count` ops. Returns 0, or -1 if an op failed. */
static int perform(Run *now, const NcOp *op, uint32_t count)
{
    const int keep = (now->plan->flags & NC_CONVERSION_KEEPS) != 0;
    for (const NcOp *end = op + count; op < end; op++) {
        const char *from = place(now, op->source, op->from) + op->offset;
        char *to = place(now, op->target, op->to);
        double number;
        float single;
        int32_t integer;
        uint64_t word;
        char made[MOST_SCALAR]; /* source and target may overlap */
        switch (op->code) {
        case NC_OP_COPY:
            copy_bytes(to, from, op->size);
            break;
        case NC_OP_SIGNED:
            nc_word_put(to, (uint64_t)nc_word_extended(read_word(from, op->size), op->size));
            break;
        case NC_OP_UNSIGNED:
            nc_word_put(to, read_word(from, op->size));
            break;
        case NC_OP_TRUTH:
            nc_word_put(to, *from != 0);
            break;
        case NC_OP_ADDRESS:
            nc_word_put(to, (uint64_t)(uintptr_t)from);
            break;
        case NC_OP_CLEAR:
            memset(to, 0, op->size);
            break;
        case NC_OP_WIDEN:
            memcpy(&single, from, sizeof(single));
            number = (double)single;
            memcpy(to, &number, sizeof(number));
            break;
        case NC_OP_INTEGER:
            memcpy(&integer, from, sizeof(integer));
            number = (double)integer;
            memcpy(to, &number, sizeof(number));
            break;
        case NC_OP_NARROW:
            memcpy(&number, from, sizeof(number));
            single = (float)number;
            if (NC_UNLIKELY(isinf(single)) && !isinf(number)) {
                return fail(now, op->step, nc_word_at(from));
            }
            memcpy(to, &single, sizeof(single));
            break;
        case NC_OP_EQUAL:
        case NC_OP_OTHER:
            word = nc_read_integer(op->letter, from);
            if (NC_UNLIKELY((word == op->size) != (op->code == NC_OP_EQUAL))) {
                return fail(now, op->step, word);
            }
            break;
        case NC_OP_ERRNO:
            nc_word_put(to, (uint64_t)errno);
            break;
        case NC_OP_RAISED:
            nc_word_put(to, (uint64_t)nc_thunk_raised());
            break;
        case NC_OP_CALL:
            nc_invoke(now->base[NC_BASE_FRAME], now->function, now->plan->stack, now->plan->how);
            break;
        case NC_OP_NO_ERRNO:
            errno = 0;
            break;
        case NC_OP_TAKE_GIL:
            if ((now->taken = nc_thunk_take_gil()) < 0) {
                return fail(now, NC_NOWHERE, 0);
            }
            break;
        case NC_OP_DROP_GIL:
            nc_thunk_drop_gil(now->thunk, now->taken, keep);
            break;
        case NC_OP_SETTLE:
            nc_thunk_settle(now->thunk);
            break;
        default:
            if (!nc_thunk_convert(op->letter, from, op->becomes, made, op->exact, &word)) {
                return fail(now, op->step, word);
            }
            memcpy(to, made, op->size);
        }
    }
    return 0;
}

/* After a failed op, raises the exception and stores the values that C gets. */
NC_NOINLINE void show(Run *now)
{
    const NcConversion *plan = now->plan;
    int *told = NULL;
    if (plan->told != NC_NOWHERE) {
        told = (int *)(void *)place(now, NC_BASE_BLOCK | NC_BASE_POINTER, plan->told);
    }
    if (now->step != NC_NOWHERE) {
        nc_thunk_failed(now->thunk, now->step, now->bits, plan->flags, plan->tested, told);
    }
    (void)perform(now, plan->ops + plan->count, plan->failed);
}

uint32_t nc_convert(NcStubSlot *slot, char *block)
{
    NcThunk *thunk = (NcThunk *)slot->context;
    const NcConversion *plan = thunk->spec->conversion;
    Run now = {.plan = plan, .function = thunk->target, .thunk = thunk};
    now.base[NC_BASE_FRAME] = (char *)__builtin_alloca_with_align(plan->bytes, 128);
    now.base[NC_BASE_BLOCK] = block;
    now.base[NC_BASE_BOUND] = (char *)thunk;
    now.base[NC_BASE_DATA] = (char *)(uintptr_t)plan + plan->data;
    if (NC_UNLIKELY(perform(&now, plan->ops, plan->count) < 0)) {
        show(&now);
    }
    return plan->x87;
}

/* ---- loops of ufuncs ------------------------------------------------------------------------- */

/* A call of a loop. */
typedef struct {
    const NcLoop *loop;
    const NcLoopArray *arrays;
    const uint32_t *axes;
    const Py_ssize_t *lengths; /* of core dimensions */
    const Py_ssize_t *steps;
    char **at;     /* the element of each operand */
    char **copies; /* a contiguous copy of each array, or NULL */
} Loop;

static Py_ssize_t length_of(const Loop *now, const NcLoopArray *array, uint32_t axis)
{
    return now->lengths[now->axes[array->axis + axis]];
}

/* Returns the size of a contiguous copy, or 0 if the array is contiguous or has no items. */
static size_t bytes_to_copy(const Loop *now, const NcLoopArray *array)
{
    Py_ssize_t size = (Py_ssize_t)array->size;
    int has_gaps = 0;
    for (uint32_t axis = array->count; axis-- > 0;) {
        const Py_ssize_t length = length_of(now, array, axis);
        has_gaps |= length > 1 && now->steps[array->step + axis] != size;
        size *= length;
    }
    return has_gaps ? (size_t)size : 0;
}

/* Copies an array, starting at dimension `axis`. A side whose steps are NULL is contiguous. Returns
 * the number of bytes copied. */
static size_t copy_array(const Loop *now, const NcLoopArray *array, uint32_t axis, char *to,
                         const Py_ssize_t *to_steps, const char *from, const Py_ssize_t *from_steps)
{
    if (axis == array->count) {
        copy_bytes(to, from, array->size);
        return array->size;
    }
    size_t done = 0;
    for (Py_ssize_t i = 0; i < length_of(now, array, axis); i++) {
        done += copy_array(
            now, array, axis + 1, to + (to_steps != NULL ? i * to_steps[axis] : (Py_ssize_t)done),
            to_steps, from + (from_steps != NULL ? i * from_steps[axis] : (Py_ssize_t)done),
            from_steps);
    }
    return done;
}

/* Prepares the arrays for one loop element: fills them, and sets the addresses that the function
 * gets. */
static void begin_arrays(const Loop *now)
{
    for (uint32_t i = 0; i < now->loop->arrays; i++) {
        const NcLoopArray *array = &now->arrays[i];
        const Py_ssize_t *steps = now->steps + array->step;
        const char *from = now->at[array->operand];
        char *to = now->copies[i] != NULL ? now->copies[i] : now->at[array->operand];
        if (array->given != NC_NOWHERE) {
            from = now->at[array->given];
            (void)copy_array(now, array, 0, to, now->copies[i] != NULL ? NULL : steps, from,
                             now->steps + array->given_step);
        } else if (now->copies[i] != NULL) {
            (void)copy_array(now, array, 0, to, NULL, from, steps);
        }
    }
    for (uint32_t i = 0; i < now->loop->arrays; i++) {
        if (now->copies[i] != NULL) {
            now->at[now->arrays[i].operand] = now->copies[i];
        }
    }
}

/* Allocates the contiguous copies. Returns 0, or -1 with MemoryError. */
static int make_copies(const Loop *now)
{
    for (uint32_t i = 0; i < now->loop->arrays; i++) {
        const size_t bytes = now->arrays[i].is_dense ? bytes_to_copy(now, &now->arrays[i]) : 0;
        if (bytes != 0 && (now->copies[i] = (char *)PyMem_RawMalloc(bytes)) == NULL) {
            PyGILState_STATE state = PyGILState_Ensure();
            PyErr_NoMemory();
            PyGILState_Release(state);
            return -1;
        }
    }
    return 0;
}

/* Returns 0 if all lengths fit the function's integer arguments, otherwise -1 with an exception. */
static int check_lengths(const NcLoop *loop, const NcLoopLength *length, const Py_ssize_t *lengths,
                         NcCallable *function)
{
    for (uint32_t i = 0; i < loop->lengths; i++, length++) {
        if ((uint64_t)lengths[length->dimension] > nc_integer_kind(length->letter)->high) {
            PyGILState_STATE state = PyGILState_Ensure();
            if (!PyErr_Occurred()) {
                nc_callable_error(function, PyExc_OverflowError,
                                  "cannot take an array with a dimension of %zd: the type of its "
                                  "length is '%c'",
                                  lengths[length->dimension], length->letter);
            }
            PyGILState_Release(state);
            return -1;
        }
    }
    return 0;
}

void nc_loop_failed(const NcLoopData *data, uint64_t bits, uint32_t flags, uint32_t errors)
{
    const int is_code = (flags & NC_CONVERSION_BY_CODE) != 0;
    if (errors != NC_ERRORS_PYTHON) {
        PyGILState_STATE state = PyGILState_Ensure();
        (void)nc_fail(data->callable, PyLong_FromLongLong(is_code ? 0 : (long long)bits), errors,
                      is_code ? (int)bits : 0);
        PyGILState_Release(state);
    }
}

/* Calls the function for each element; stops at the first failure. */
static void run_loop(const Loop *loop, Run *now, char **args, Py_ssize_t count,
                     const NcLoopData *data)
{
    const NcConversion *plan = now->plan;
    for (Py_ssize_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < loop->loop->operands; k++) {
            loop->at[k] = args[k] + i * loop->steps[k];
        }
        begin_arrays(loop);
        if (perform(now, plan->ops, plan->count) < 0) {
            nc_loop_failed(data, now->bits, plan->flags, plan->errors);
            return;
        }
        for (uint32_t k = 0; k < loop->loop->arrays; k++) {
            const uint32_t operand = loop->arrays[k].operand;
            if (loop->copies[k] != NULL && loop->arrays[k].is_output) {
                (void)copy_array(loop, &loop->arrays[k], 0,
                                 args[operand] + i * loop->steps[operand],
                                 loop->steps + loop->arrays[k].step, loop->copies[k], NULL);
            }
        }
    }
}

void nc_loop(char **args, const Py_ssize_t *dimensions, const Py_ssize_t *steps, void *given)
{
    const NcLoopData *data = (const NcLoopData *)given;
    const NcLoop *loop = data->loop;
    const NcConversion *plan =
        (const NcConversion *)(const void *)((const char *)loop + loop->data);
    const size_t words = loop->operands + loop->dimensions + loop->steps;
    char **block = (char **)__builtin_alloca((words + loop->arrays) * sizeof(char *));
    Loop now = {loop,         (const NcLoopArray *)(const void *)(loop + 1),
                NULL,         dimensions + 1,
                steps,        block,
                block + words};
    const NcLoopLength *lengths = (const NcLoopLength *)(const void *)(now.arrays + loop->arrays);
    Run one = {.plan = plan, .function = data->function};
    PyGILState_STATE state = loop->needs_gil ? PyGILState_Ensure() : PyGILState_UNLOCKED;
    now.axes = (const uint32_t *)(const void *)(lengths + loop->lengths);
    memset(now.copies, 0, loop->arrays * sizeof(char *));
    memcpy(block + loop->operands, dimensions + 1, loop->dimensions * sizeof(char *));
    memcpy(block + loop->operands + loop->dimensions, steps + loop->operands,
           loop->steps * sizeof(char *));
    one.base[NC_BASE_FRAME] = (char *)__builtin_alloca_with_align(plan->bytes, 128);
    one.base[NC_BASE_BLOCK] = (char *)block;
    one.base[NC_BASE_DATA] = (char *)(uintptr_t)plan + plan->data;
    if (dimensions[0] > 0 && check_lengths(loop, lengths, now.lengths, data->callable) == 0 &&
        make_copies(&now) == 0) {
        run_loop(&now, &one, args, dimensions[0], data);
    }
    for (uint32_t i = 0; i < loop->arrays; i++) {
        PyMem_RawFree(now.copies[i]);
    }
    if (loop->needs_gil) {
        PyGILState_Release(state);
    }
}

#endif
