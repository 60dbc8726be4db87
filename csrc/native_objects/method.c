/* csrc/native_objects/method.c: the descriptor of a native method. A call from Python becomes a
 * call of the native callable. The callable's trampoline passes C either the address of the
 * object, or the address of the fields that the method's class declares. `p.f()` allocates no bound
 * method.
 *
 * Threads: everything here needs the GIL. */
#include "platform/functions.h"
#include "platform/lock.h"

#include "nativecall/nativeobject.h"
#include "callable/construct.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyTypeObject *type;   /* the class that defines the method */
    const NcClass *cls;   /* the native class of `type`, which keeps it alive */
    NcCallable *callable; /* NULL: abstract */
    PyObject *name;
    PyObject *signature; /* text */
    PyObject *doc;
} Method;

/* Checks that the first argument is an object of the class or a subclass, and that the method is
 * not abstract. Returns 0, or -1 with TypeError. */
static int check_call(const Method *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs < 1) {
        PyErr_Format(PyExc_TypeError,
                     "method '%U' of '%s' objects needs an object as its first argument",
                     self->name, self->type->tp_name);
    } else if (nc_object_of_python(args[0], self->cls) == NULL) {
        PyErr_Format(PyExc_TypeError,
                     "method '%U' of '%s' objects does not apply to a '%.200s' "
                     "object",
                     self->name, self->type->tp_name, Py_TYPE(args[0])->tp_name);
    } else if (self->callable == NULL) {
        PyErr_Format(PyExc_TypeError, "method '%U' of '%s' is abstract", self->name,
                     self->type->tp_name);
    } else {
        return 0;
    }
    return -1;
}

/* Slow path: objects of subclasses, and errors. */
NC_NOINLINE PyObject *method_call_checked(const Method *self, PyObject *const *args, size_t nargsf,
                                          PyObject *names)
{
    const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (check_call(self, args, nargs) < 0) {
        return NULL;
    }
    return self->callable->vectorcall((PyObject *)self->callable, args, (size_t)nargs, names);
}

static PyObject *method_call(PyObject *descriptor, PyObject *const *args, size_t nargsf,
                             PyObject *names)
{
    const Method *self = (const Method *)(const void *)descriptor;
    const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (NC_UNLIKELY(nargs < 1 || Py_TYPE(args[0]) != self->type || self->callable == NULL)) {
        return method_call_checked(self, args, nargsf, names);
    }
    return self->callable->vectorcall((PyObject *)self->callable, args, (size_t)nargs, names);
}

static PyObject *method_get(PyObject *descriptor, PyObject *object, PyObject *type)
{
    (void)type;
    return object == NULL ? Py_NewRef(descriptor) : PyMethod_New(descriptor, object);
}

/* Binds a callable to the method: the callable's first argument may then be an object of the class.
 * None means an abstract method. Returns 0, or -1 with an exception. */
static int bind_callable(Method *self, PyObject *given, int takes_fields)
{
    if (given == Py_None) {
        return 0;
    }
    NcCallable *callable = (NcCallable *)(void *)given;
    if (!PyObject_TypeCheck(given, (PyTypeObject *)(void *)&NcCallable_Type) ||
        !nc_has_one(callable) || callable->cif->nargs == 0 ||
        callable->cif->arguments[0].code != 'P' || nc_more(callable)->self_class != NULL) {
        PyErr_Format(PyExc_TypeError,
                     "a method needs a callable with one entry whose first argument is a pointer, "
                     "and that no other method uses (got %R)",
                     given);
        return -1;
    }
    NcMore *more = nc_callable_more(callable);
    if (more == NULL || nc_callable_own(callable, (PyObject *)self->type) < 0) {
        return -1;
    }
    more->self_class = self->cls;
    more->takes_fields = takes_fields;
    self->callable = (NcCallable *)(void *)Py_NewRef(given);
    return 0;
}

/* Method(class, name, callable, takes_fields, signature, doc): a method. `callable` has one entry,
 * or is None for an abstract method. */
static PyObject *method_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *cls;
    PyObject *name;
    PyObject *callable;
    int takes_fields;
    PyObject *signature;
    PyObject *doc;
    if ((kwargs != NULL && PyDict_GET_SIZE(kwargs) != 0) ||
        !PyArg_ParseTuple(args, "O!UOpUO:Method", &PyType_Type, &cls, &name, &callable,
                          &takes_fields, &signature, &doc)) {
        return NULL;
    }
    const NcClass *native = nc_type_class((PyTypeObject *)(void *)cls);
    if (native == NULL) {
        return PyErr_Format(PyExc_TypeError, "%R is not a class of native objects", cls);
    }
    Method *self = (Method *)(void *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    NC_SHARE(self);
    self->vectorcall = method_call;
    self->type = (PyTypeObject *)(void *)Py_NewRef(cls);
    self->cls = native;
    self->name = Py_NewRef(name);
    self->signature = Py_NewRef(signature);
    self->doc = Py_NewRef(doc);
    if (bind_callable(self, callable, takes_fields) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int method_traverse(PyObject *object, visitproc visit, void *arg)
{
    Method *self = (Method *)(void *)object;
    Py_VISIT(self->type);
    Py_VISIT(self->callable);
    return 0;
}

/* No tp_clear: the collector breaks a cycle at the class or its namespace. */
static void method_dealloc(PyObject *object)
{
    Method *self = (Method *)(void *)object;
    PyObject_GC_UnTrack(object);
    Py_XDECREF(self->type);
    Py_XDECREF(self->callable);
    Py_XDECREF(self->name);
    Py_XDECREF(self->signature);
    Py_XDECREF(self->doc);
    PyObject_GC_Del(object);
}

static PyObject *method_repr(PyObject *object)
{
    Method *self = (Method *)(void *)object;
    return PyUnicode_FromFormat("<native method '%U' of '%s' objects, %U>", self->name,
                                self->type->tp_name, self->signature);
}

static PyMemberDef members[] = {
    {"__name__", T_OBJECT, offsetof(Method, name), READONLY, NULL},
    {"__objclass__", T_OBJECT, offsetof(Method, type), READONLY, NULL},
    {"__doc__", T_OBJECT, offsetof(Method, doc), READONLY, NULL},
    {"__wrapped__", T_OBJECT, offsetof(Method, callable), READONLY,
     "The native callable; None for an abstract method."},
    {"signature", T_OBJECT, offsetof(Method, signature), READONLY,
     "The signature as text, including self."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject NcMethod_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall.Method",
    .tp_doc = "A native method.",
    .tp_basicsize = sizeof(Method),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = method_new,
    .tp_dealloc = method_dealloc,
    .tp_traverse = method_traverse,
    .tp_repr = method_repr,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Method, vectorcall),
    .tp_descr_get = method_get,
    .tp_members = members,
};
