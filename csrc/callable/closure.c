/* csrc/callable/closure.c: executes closure plans (call/plan.h), so that C code can call Python
 * functions. The routine nc_entry calls nc_enter here.
 *
 * pycallback.h handles the GIL, exceptions and errno, which do not depend on the signature. This
 * file converts the arguments to objects, and stores the C result in registers.
 *
 * Once the Python function has returned, the callback and its plan may be freed. So nc_enter first
 * copies the parts of the plan that describe the result. */
#include "pycallback.h"

#include "call/entry.h"
#include "call/plan.h"

#include <string.h>

#if NC_HAS_MACHINE_CODE

enum {
    FEW = 8,       /* arguments that fit into the frame's array */
    MOST_MOVES = 4 /* pieces of a result */
};

/* Returns the object for an argument that is not a number or pointer in one word. */
NC_NOINLINE PyObject *other_argument(NcPyCallback *self, const NcClosurePlan *plan, size_t index,
                                     char *block)
{
    _Alignas(16) char scratch[NC_SCRATCH_BYTES];
    const NcStep *step = &plan->steps[index];
    char *at = block + step->at;
    if (step->moves != 0) {
        nc_move_all(step, scratch, block);
        at = scratch + step->at;
    }
    if (step->owner != 0) {
        memcpy(&at, at, sizeof(at));
    }
    switch (step->code) {
    case NC_STEP_BOOL:
        return Py_NewRef(*(const unsigned char *)at != 0 ? Py_True : Py_False);
    case NC_STEP_SCALAR:
        return nc_scalar_to_python(step->letter, at);
    default:
        return nc_pycallback_argument(self, index, at);
    }
}

/* Returns a new reference to the object for an argument, or NULL with an exception. */
NC_HOT_INLINE PyObject *argument(NcPyCallback *self, const NcClosurePlan *plan, size_t index,
                                 char *block)
{
    const NcStep *step = &plan->steps[index];
    const char *at = block + step->at;
    switch (step->code) {
    case NC_STEP_DOUBLE: {
        double number;
        memcpy(&number, at, sizeof(number));
        return nc_pycallback_float(number);
    }
    case NC_STEP_FLOAT: {
        float number;
        memcpy(&number, at, sizeof(number));
        return nc_pycallback_float((double)number);
    }
    case NC_STEP_SIGNED:
        return PyLong_FromLongLong(nc_word_extended(nc_word_at(at), step->size));
    case NC_STEP_UNSIGNED:
        return PyLong_FromUnsignedLongLong(nc_word_cleared(nc_word_at(at), step->size));
    case NC_STEP_POINTER:
        return nc_pycallback_argument(self, index, (void *)(uintptr_t)nc_word_at(at));
    default:
        return other_argument(self, plan, index, block);
    }
}

/* Stores the result in the register block. */
static inline void give(const NcStep *step, char *block, const char *from)
{
    uint64_t word;
    switch (step->code) {
    case NC_STEP_VOID:
        return;
    case NC_STEP_SIGNED: /* some callers rely on sign extension to the whole register */
        word = (uint64_t)nc_word_extended(nc_word_at(from), step->size);
        break;
    case NC_STEP_SCALAR:
        nc_move_all(step, block, from);
        return;
    case NC_STEP_STRUCT:
        if (step->at == NC_NOWHERE) {
            return;
        }
        word = (uint64_t)(uintptr_t)from;
        break;
    default:
        word = nc_word_at(from);
    }
    memcpy(block + step->at, &word, sizeof(word));
}

uint32_t nc_enter(NcStubSlot *slot, char *block)
{
    _Alignas(16) char scratch[NC_SCRATCH_BYTES];
    NcPyCallback *self = (NcPyCallback *)slot->context;
    const NcCallbackSpec *spec = self->spec;
    const NcClosurePlan *plan = spec->plan;
    const uint32_t x87 = plan->x87;
    struct {
        NcStep step;
        NcMove moves[MOST_MOVES];
    } result; /* not cleared: the moves are set below if there are any */
    NcPyCallbackCall call = {.slot = slot};
    PyObject *few[FEW + 1];
    char *out = scratch;
    int *told = NULL;
    result.step = plan->result;
    if (NC_UNLIKELY(result.step.moves != 0)) {
        memcpy(result.moves, (const char *)&plan->result + plan->result.move,
               result.step.moves * sizeof(NcMove));
        result.step.move = sizeof(NcStep);
    }
    if (NC_UNLIKELY(plan->reference != NC_NOWHERE)) {
        memcpy(&out, block + plan->reference, sizeof(out));
    }
    if (NC_UNLIKELY(plan->told != NC_NOWHERE)) {
        memcpy(&told, block + plan->told, sizeof(told));
    }
    /* The whole register is loaded, and a result may be smaller. */
    memset(scratch, 0, sizeof(uint64_t));
    if (NC_LIKELY(spec->enter(self, &call, out))) {
        const size_t count = plan->args;
        PyObject **args =
            count <= FEW ? few : (PyObject **)__builtin_alloca((count + 1) * sizeof(PyObject *));
        for (size_t i = 0; i < count; i++) {
            args[i + 1] = argument(self, plan, i, block);
        }
        nc_pycallback_run(self, &call, args, count, out);
        if (NC_LIKELY(told == NULL || (call.ending & NC_PYCALLBACK_FAILED) == 0)) {
            told = NULL;
        }
    }
    if (NC_UNLIKELY(told != NULL)) {
        *told = 1;
    }
    give(&result.step, block, out);
    return x87;
}

#endif
