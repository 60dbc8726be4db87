/* csrc/conformance/providers.c: the module nativecall.conformance._providers. The conformance kit
 * tests consumers with correct and broken types and objects. This module creates those that Python
 * code cannot create.
 *
 * This file includes only provide.h, as any provider could. The kit builds the test cases in Python
 * (nativecall/conformance/_hostile.py), and allocates their tables with cffi.
 *
 *     make_type(name, is_ready, array, room, offset, bases, call)     a static type
 *     view(object)                                       a built-in function bound to the object
 *     behind(object)                                     the callable behind a built-in view, or
 *                                                        any other object itself
 *     finds_alone(find, object, signature, seconds)      whether `find` of tier 2 returns within
 *                                                        `seconds` when a thread without a thread
 *                                                        state calls it and the caller of this
 *                                                        function holds the GIL
 *
 * All created objects are immortal. All functions need the GIL. Without the GIL, finds_alone stops
 * all other threads, as the garbage collector does. */
#include "nativecall/provide.h"

/* ---- objects --------------------------------------------------------------------------------- */

#define WORDS 4
#define API_WORD 2 /* address of the entries of tier 2; a NULL signature ends them */

typedef struct {
    PyObject_HEAD
    uintptr_t words[WORDS];
    PyMethodDef view;
} Object;

static PyObject *object_call(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(args),
                             PyObject *Py_UNUSED(kwargs))
{
    return PyFloat_FromDouble(-1.0);
}

static PyObject *other_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return object_call(self, args, kwargs);
}

static PyObject *bound_call(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(arg))
{
    return PyFloat_FromDouble(-1.0);
}

static PyObject *object_new(PyTypeObject *type, PyObject *Py_UNUSED(args),
                            PyObject *Py_UNUSED(kwargs))
{
    Object *self = (Object *)(void *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->view.ml_name = "view";
        self->view.ml_meth = bound_call;
        self->view.ml_flags = METH_O;
    }
    return (PyObject *)self;
}

static PyMethodDef object_methods[] = {
    {"method", bound_call, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

/* make_type(name, is_ready, array, room, offset, bases, call): return a static type. If
 * `is_ready`, the runtime readies the type; otherwise PyType_Ready does. `array` is the address of
 * `room` rows, or 0. `call` selects tp_call: 'a' or 'b' for one of two functions, else NULL. */
static PyObject *make_type(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *name;
    int is_ready;
    unsigned long long array;
    Py_ssize_t room;
    Py_ssize_t offset;
    PyObject *bases;
    const char *call;
    if (!PyArg_ParseTuple(args, "spKnnO!s", &name, &is_ready, &array, &room, &offset, &PyTuple_Type,
                          &bases, &call)) {
        return NULL;
    }
    if (nc_abi_intern("") == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "there is no runtime in this process");
        return NULL;
    }
    PyHeapExtensibleTypeObject *made =
        (PyHeapExtensibleTypeObject *)PyMem_RawCalloc(1, sizeof *made);
    char *kept = (char *)PyMem_RawMalloc(strlen(name) + 1);
    if (made == NULL || kept == NULL) {
        return PyErr_NoMemory();
    }
    strcpy(kept, name);
    PyTypeObject *type = (PyTypeObject *)(void *)made;
    Py_SET_REFCNT((PyObject *)type, 1);
    type->tp_name = kept;
    type->tp_basicsize = (Py_ssize_t)sizeof(Object);
    type->tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type->tp_new = object_new;
    type->tp_methods = object_methods;
    type->tp_call = call[0] == 'a' ? object_call : call[0] == 'b' ? other_call : NULL;
    if (PyTuple_GET_SIZE(bases) > 0) {
        type->tp_bases = Py_NewRef(bases);
        type->tp_base = (PyTypeObject *)(void *)Py_NewRef(PyTuple_GET_ITEM(bases, 0));
    }
    made->etp_custom_slots = (PyCustomSlotTable *)(uintptr_t)array;
    made->etp_obj_custom_slots_offset = offset;
    if ((is_ready ? nc_runtime->ready(made, room) : PyType_Ready(type)) < 0) {
        return NULL;
    }
    return Py_NewRef(made);
}

static PyObject *view(PyObject *Py_UNUSED(module), PyObject *self)
{
    return PyCFunction_New(&((Object *)(void *)self)->view, self);
}

static PyObject *behind(PyObject *Py_UNUSED(module), PyObject *object)
{
    return Py_NewRef(nc_abi_behind(object));
}

/* ---- tier 2 ---------------------------------------------------------------------------------- */

static const PyNativeCallableEntry *offered(PyObject *object)
{
    return (const PyNativeCallableEntry *)((Object *)(void *)object)->words[API_WORD];
}

static const PyNativeCallableEntry *find(PyObject *object, const char *signature, uintptr_t refuse)
{
    return nc_provided(offered(object), signature, refuse, 0);
}

/* Broken on purpose: sets an exception and still returns an entry. */
static const PyNativeCallableEntry *find_and_raise(PyObject *object, const char *signature,
                                                   uintptr_t refuse)
{
    PyErr_SetString(PyExc_LookupError, signature);
    return find(object, signature, refuse);
}

static const PyNativeCallableEntry *entry_at(PyObject *object, size_t position)
{
    return nc_provided(offered(object), NULL, 0, position);
}

typedef struct {
    const PyNativeCallableEntry *(*find)(PyObject *, const char *, uintptr_t);
    PyObject *object;
    char signature[64];
    PyThread_type_lock done;
    int seconds;
    int asked, found;
} Question;

static void answer(void *given)
{
    Question *question = (Question *)given;
    (void)question->find(question->object, question->signature, 0);
    PyThread_release_lock(question->done);
}

static int ask(PyObject *Py_UNUSED(object), void *given)
{
    Question *question = (Question *)given;
    question->asked = PyThread_start_new_thread(answer, question) != PYTHREAD_INVALID_THREAD_ID;
    question->found =
        question->asked &&
        PyThread_acquire_lock_timed(question->done, (PY_TIMEOUT_T)question->seconds * 1000000, 0) ==
            PY_LOCK_ACQUIRED;
    return 0;
}

static PyObject *finds_alone(PyObject *Py_UNUSED(module), PyObject *args)
{
    unsigned long long address;
    PyObject *object;
    const char *signature;
    Question *question = (Question *)PyMem_RawCalloc(1, sizeof *question);
    if (question == NULL || (question->done = PyThread_allocate_lock()) == NULL) {
        return PyErr_NoMemory();
    }
    if (!PyArg_ParseTuple(args, "KOsi", &address, &object, &signature, &question->seconds)) {
        return NULL;
    }
    const uintptr_t find = (uintptr_t)address;
    memcpy(&question->find, &find, sizeof find);
    question->object = Py_NewRef(object);
    strncpy(question->signature, signature, sizeof question->signature - 1);
    PyThread_acquire_lock(question->done, WAIT_LOCK);
#if defined(Py_GIL_DISABLED)
    PyUnstable_GC_VisitObjects(ask, question); /* one of them */
#else
    (void)ask(object, question);
#endif
    if (!question->asked) {
        PyErr_SetString(PyExc_RuntimeError, "cannot start a thread");
    }
    /* Before Python 3.12, an exception that `find` sets appears in this thread, which holds the
     * GIL. */
    return PyErr_Occurred() ? NULL : PyBool_FromLong(question->found);
}

/* ---- the functions of entries ---------------------------------------------------------------- */

#define FUNCTION(n)                                                                                \
    static double function_##n(double x)                                                           \
    {                                                                                              \
        return x + n;                                                                              \
    }
#define ALL(ROW) ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7)
ALL(FUNCTION)

#define ADDRESS(function) ((unsigned long long)(uintptr_t)(function))
#define ARGUMENT(n) , ADDRESS(function_##n)

static PyMethodDef methods[] = {
    {"make_type", make_type, METH_VARARGS, NULL},
    {"view", view, METH_O, NULL},
    {"behind", behind, METH_O, NULL},
    {"finds_alone", finds_alone, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module)
{
    PyObject *functions = Py_BuildValue("(KKKKKKKK)" ALL(ARGUMENT));
    PyObject *api = Py_BuildValue("{sKsKsK}", "find", ADDRESS(find), "find_and_raise",
                                  ADDRESS(find_and_raise), "entry", ADDRESS(entry_at));
    int failed = PyModule_AddObjectRef(module, "functions", functions) < 0 ||
                 PyModule_AddObjectRef(module, "api", api) < 0 ||
                 PyModule_AddIntConstant(module, "words", (long)offsetof(Object, words)) < 0;
    Py_XDECREF(functions);
    Py_XDECREF(api);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, (void *)(uintptr_t)module_exec},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_providers",  .m_doc = "The C part of the conformance kit.",
    .m_methods = methods,  .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__providers(void);

PyMODINIT_FUNC PyInit__providers(void)
{
    return PyModuleDef_Init(&definition);
}
