/* csrc/codegen/symbols.c: generated trampolines as objects, and what generated code needs. */
#include "symbols.h"

#include "thunk.h"

#include "values/aggregates.h"
#include "callback/pycallback.h"
#include "object/callablecalls.h"
#include "object/failure.h"
#include "values/fortran.h"
#include "ground/address.h"
#include "ground/stack.h"
#include "ground/stub.h"
#include "values/names.h"

#include <string.h>
#include <structmember.h>

/* ---- the beginning of a call ----------------------------------------------------------------- */

int nc_convert_arguments(NcCallable *self, PyObject *const *args, const uint64_t *steps,
                         char *frame)
{
    NcPointer *owners = (NcPointer *)(void *)frame;
    size_t used = 0;
    int ran = 0; /* code that may be anything's */
    for (uint64_t step = *steps; step != 0; step = *++steps) {
        Py_ssize_t index = NC_STEP_INDEX(step);
        PyObject *value = args[index];
        char code = NC_STEP_LETTER(step);
        void *place = frame + NC_STEP_OFFSET(step);
        NcPointer *owner = NULL;
        int status;
        if (NC_STEP_HAS_OWNER(step)) {
            owner = &owners[used++];
            owner->buffer.obj = NULL;
            owner->keep = NULL;
        }
        if (code == 'P') {
            status = nc_convert_pointer_on(self, index, value, owner, 0);
        } else if (code == 'V') {
            status =
                nc_convert_view(self, index, value, NC_STEP_NDIM(step), (intptr_t *)place, owner);
        } else if (code == 'T') {
            status = nc_store_argument(self, index, value, place, owner);
        } else {
            status = nc_convert_scalar((PyObject *)self, index, value, code, place);
            ran |= !PyFloat_CheckExact(value) && !PyLong_CheckExact(value) && !PyBool_Check(value);
        }
        ran |= status > 0;
        if (NC_UNLIKELY(status < 0)) {
            (void)nc_release_and_return(NULL, owners, used);
            return -1;
        }
    }
    if (ran && used != 0 && nc_check_unmoved((PyObject *)self, owners, used) < 0) {
        (void)nc_release_and_return(NULL, owners, used);
        return -1;
    }
    return 0;
}

typedef PyObject *(*FastMethod)(PyObject *self, PyObject *const *args, Py_ssize_t nargs);

static inline int is_regular(PyObject *kwnames, size_t nargsf, Py_ssize_t count)
{
    return NC_LIKELY(kwnames == NULL && PyVectorcall_NARGS(nargsf) == count) ? 1 : 0;
}

PyObject *nc_vectorcall_NOARGS(PyObject *object, PyObject *const *args, size_t nargsf,
                               PyObject *kwnames)
{
    NcCallable *self = (NcCallable *)(void *)object;
    if (!is_regular(kwnames, nargsf, 0)) {
        return nc_call_irregular(self, args, nargsf, kwnames);
    }
    return self->generated->code.method(object, NULL);
}

PyObject *nc_vectorcall_O(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    NcCallable *self = (NcCallable *)(void *)object;
    if (!is_regular(kwnames, nargsf, 1)) {
        return nc_call_irregular(self, args, nargsf, kwnames);
    }
    return self->generated->code.method(object, args[0]);
}

/* The method counts the arguments. */
PyObject *nc_vectorcall_FASTCALL(PyObject *object, PyObject *const *args, size_t nargsf,
                                 PyObject *kwnames)
{
    NcCallable *self = (NcCallable *)(void *)object;
    if (NC_UNLIKELY(kwnames != NULL)) {
        return nc_call_irregular(self, args, nargsf, kwnames);
    }
    FastMethod method = (FastMethod)(void (*)(void))self->generated->code.method;
    return method(object, args, PyVectorcall_NARGS(nargsf));
}

int nc_require_stack(NcCallable *self, size_t bytes)
{
    PyObject *name = nc_callable_name(self);
    return name != NULL ? nc_stack_require(name, bytes) : -1;
}

/* ---- the end of a call ----------------------------------------------------------------------- */

PyObject *nc_release_and_return(PyObject *value, NcPointer *pointers, size_t count)
{
    return nc_release_pointers(value, pointers, count);
}

PyObject *nc_result_double(double number)
{
    return nc_is_left() && nc_left_raise() ? NULL : PyFloat_FromDouble(number);
}

PyObject *nc_result_integer(long long number)
{
    return nc_is_left() && nc_left_raise() ? NULL : PyLong_FromLongLong(number);
}

int nc_settle(NcPointer *pointers, size_t count)
{
    PyObject *first = NULL;
    for (size_t i = 0; i < count; i++) {
        if (pointers[i].keep != NULL) {
            nc_pointer_close(&pointers[i], &first);
        }
    }
    if (first == NULL) {
        return 0;
    }
    (void)nc_stash_raise(NULL, first);
    return -1;
}

/* ---- the object ------------------------------------------------------------------------------ */

/* Trampoline(method_flags, address, keep): machine code of a built-in method of that calling
 * convention, which stays in memory while `keep` lives. */
static PyObject *generated_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *address;
    PyObject *keep;
    int flags;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "Trampoline() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "iO!O", &flags, &PyLong_Type, &address, &keep)) {
        return NULL;
    }
    void *method = nc_address(address, "the code of a trampoline cannot be at address 0");
    if (method == NULL) {
        return NULL;
    }
    if (flags != METH_NOARGS && flags != METH_O && flags != METH_FASTCALL) {
        PyErr_Format(PyExc_ValueError, "%d is no calling convention of a trampoline", flags);
        return NULL;
    }
    NcGenerated *self = (NcGenerated *)(void *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->code.method_flags = flags;
    self->code.method = (PyCFunction)(uintptr_t)method;
    self->code.vectorcall = flags == METH_NOARGS ? nc_vectorcall_NOARGS
                            : flags == METH_O    ? nc_vectorcall_O
                                                 : nc_vectorcall_FASTCALL;
    self->symbols = nc_symbols;
    self->keep = Py_NewRef(keep);
    return (PyObject *)self;
}

static void generated_dealloc(PyObject *object)
{
    NcGenerated *self = (NcGenerated *)(void *)object;
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs(object);
    }
    Py_XDECREF(self->keep);
    Py_TYPE(object)->tp_free(object);
}

static PyMemberDef generated_members[] = {
    {"keep", T_OBJECT, offsetof(NcGenerated, keep), READONLY, "keeps the machine code in memory"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject NcGenerated_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._types.Trampoline",
    .tp_doc = "Generated code for the calls of one shape of signature, one set of flags.",
    .tp_basicsize = sizeof(NcGenerated),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_weaklistoffset = offsetof(NcGenerated, weakrefs),
    .tp_new = generated_new,
    .tp_dealloc = generated_dealloc,
    .tp_members = generated_members,
};

/* ---- layout ---------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    size_t number;
} Number;

static const Number layout[] = {
    {"object_refcount", offsetof(PyObject, ob_refcnt)},
    {"object_type", offsetof(PyObject, ob_type)},
    {"type_as_buffer", offsetof(PyTypeObject, tp_as_buffer)},
    {"type_flags", offsetof(PyTypeObject, tp_flags)},
    {"heap_type", Py_TPFLAGS_HEAPTYPE},
    {"getbuffer", offsetof(PyBufferProcs, bf_getbuffer)},
    {"releasebuffer", offsetof(PyBufferProcs, bf_releasebuffer)},
    {"object_size", offsetof(PyVarObject, ob_size)},
    {"float_value", offsetof(PyFloatObject, ob_fval)},
    {"tuple_items", offsetof(PyTupleObject, ob_item)},
    {"int_tagged", NC_INT_IS_TAGGED},
    {"int_size", NC_INT_SIZE_OFFSET},
    {"int_digit", NC_INT_DIGIT_OFFSET},
    {"has_immortals", NC_HAS_IMMORTALS},
    {"int_digit_bytes", sizeof(digit)},
    {"int_digit_bits", PyLong_SHIFT},
    {"long_bytes", sizeof(long)},
    {"callable_target", offsetof(NcCallable, single.entries[0].funcptr)},
    {"callable_spec", offsetof(NcCallable, spec)},
    {"callable_generated", offsetof(NcCallable, generated)},
    {"generated_symbols", offsetof(NcGenerated, symbols)},
    {"spec_arguments", offsetof(NcCallSpec, arguments)},
    {"argument_bytes", sizeof(NcArgument)},
    {"argument_size", offsetof(NcArgument, export.size)},
    {"argument_mask", offsetof(NcArgument, export.mask)},
    {"argument_flags", offsetof(NcArgument, export.flags)},
    {"argument_format", offsetof(NcArgument, export.format)},
    {"pycallback_symbols", offsetof(NcPyCallback, symbols)},
    {"pycallback_spec", offsetof(NcPyCallback, spec)},
    {"callbackspec_enter", offsetof(NcCallbackSpec, enter)},
    {"pycallback_call_bytes", sizeof(NcPyCallbackCall)},
    {"pycallback_call_ending", offsetof(NcPyCallbackCall, ending)},
    {"pycallback_failed", NC_PYCALLBACK_FAILED},
    {"stub_context", offsetof(NcStubSlot, context)},
    {"thunk_target", offsetof(NcThunk, target)},
    {"thunk_values", sizeof(NcThunk)},
    {"pointer_bytes", sizeof(NcPointer)},
    {"pointer_address", offsetof(NcPointer, address)},
    {"pointer_buffer", offsetof(NcPointer, buffer)},
    {"pointer_start", offsetof(NcPointer, buffer.buf)},
    {"pointer_format", offsetof(NcPointer, buffer.format)},
    {"pointer_itemsize", offsetof(NcPointer, buffer.itemsize)},
    {"pointer_object", offsetof(NcPointer, buffer.obj)},
    {"pointer_keep", offsetof(NcPointer, keep)},
    {"METH_NOARGS", METH_NOARGS},
    {"METH_O", METH_O},
    {"METH_FASTCALL", METH_FASTCALL},
};

/* code_layout(): {name: offset, size or other number}. */
PyObject *nc_code_layout(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyObject *found = PyDict_New();
    for (size_t i = 0; found != NULL && i < sizeof(layout) / sizeof(layout[0]); i++) {
        PyObject *number = PyLong_FromSize_t(layout[i].number);
        if (number == NULL || PyDict_SetItemString(found, layout[i].name, number) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(number);
    }
    return found;
}

/* ---- symbols --------------------------------------------------------------------------------- */

/* What generated code refers to, DATA(name, address) or FUNCTION(name). The numbers of its places
 * are in the code, the addresses in a table that it finds through the callable: linking
 * an object file that needs no address takes half the time. */
#define SYMBOLS(DATA, FUNCTION)                                                                    \
    DATA(left, NULL)                                                                               \
    DATA(PyFloat_Type, &PyFloat_Type)                                                              \
    DATA(PyLong_Type, &PyLong_Type)                                                                \
    DATA(PyTuple_Type, &PyTuple_Type)                                                              \
    DATA(Py_None, Py_None)                                                                         \
    DATA(Py_True, Py_True)                                                                         \
    DATA(Py_False, Py_False)                                                                       \
    FUNCTION(PyBool_FromLong)                                                                      \
    FUNCTION(PyBuffer_Release)                                                                     \
    FUNCTION(PyErr_Occurred)                                                                       \
    FUNCTION(PyEval_RestoreThread)                                                                 \
    FUNCTION(PyEval_SaveThread)                                                                    \
    FUNCTION(PyFloat_FromDouble)                                                                   \
    FUNCTION(PyLong_FromLong)                                                                      \
    FUNCTION(PyLong_FromLongLong)                                                                  \
    FUNCTION(PyLong_FromUnsignedLongLong)                                                          \
    FUNCTION(Py_DecRef)                                                                            \
    FUNCTION(memcpy)                                                                               \
    FUNCTION(nc_call_irregular)                                                                    \
    FUNCTION(nc_pycallback_argument)                                                               \
    FUNCTION(nc_pycallback_float)                                                                  \
    FUNCTION(nc_pycallback_run)                                                                    \
    FUNCTION(nc_convert_arguments)                                                                 \
    FUNCTION(nc_convert_pointer_on)                                                                \
    FUNCTION(nc_drop_result)                                                                       \
    FUNCTION(nc_errno_clear)                                                                       \
    FUNCTION(nc_errno_keep)                                                                        \
    FUNCTION(nc_exception_settle)                                                                  \
    FUNCTION(nc_fail)                                                                              \
    FUNCTION(nc_fail_length)                                                                       \
    FUNCTION(nc_release_and_return)                                                                \
    FUNCTION(nc_left_raise)                                                                        \
    FUNCTION(nc_load_result)                                                                       \
    FUNCTION(nc_pointer_to_python)                                                                 \
    FUNCTION(nc_result_double)                                                                     \
    FUNCTION(nc_result_integer)                                                                    \
    FUNCTION(nc_result_lose)                                                                       \
    FUNCTION(nc_scalar_to_python)                                                                  \
    FUNCTION(nc_settle)                                                                            \
    FUNCTION(nc_require_stack)                                                                     \
    FUNCTION(nc_text_length)                                                                       \
    FUNCTION(nc_take_object)                                                                       \
    FUNCTION(nc_take_outs)                                                                         \
    FUNCTION(nc_thunk_convert)                                                                     \
    FUNCTION(nc_thunk_errno)                                                                       \
    FUNCTION(nc_thunk_failed)                                                                      \
    FUNCTION(nc_thunk_raised)                                                                      \
    FUNCTION(nc_thunk_set_errno)                                                                   \
    FUNCTION(nc_thunk_take_gil)                                                                    \
    FUNCTION(nc_thunk_drop_gil)                                                                    \
    FUNCTION(nc_thunk_settle)

#define SYMBOL_NAME(name) #name,
#define DATA_NAME(name, address) #name,
#define SYMBOL_ADDRESS(name) (void *)(uintptr_t)name,
#define DATA_ADDRESS(name, address) address,

static const char *const symbol_names[] = {SYMBOLS(DATA_NAME, SYMBOL_NAME)};
static void *places[sizeof(symbol_names) / sizeof(symbol_names[0])];

void *const *const nc_symbols = places;

void nc_symbols_ready(void)
{
    /* Not static: on Windows the addresses of imported data are known only now. */
    void *const addresses[] = {SYMBOLS(DATA_ADDRESS, SYMBOL_ADDRESS)};
    memcpy(places, addresses, sizeof(places));
    nc_left_mirror(&places[0]);
}

/* code_symbols(): {name: address}, in the order of that table. */
PyObject *nc_code_symbols(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyObject *found = PyDict_New();
    for (size_t i = 0; found != NULL && i < sizeof(symbol_names) / sizeof(symbol_names[0]); i++) {
        PyObject *address = PyLong_FromVoidPtr(places[i]);
        if (address == NULL || PyDict_SetItemString(found, symbol_names[i], address) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(address);
    }
    return found;
}

/* symbols_address(): where that table is, for code that others generate. */
PyObject *nc_symbols_address(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromVoidPtr((void *)places);
}
