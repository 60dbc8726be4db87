/* csrc/callable/builtinview.c: implements builtinview.h, built-in functions that call native
 * callables. */
#include "builtinview.h"

#include "call/call.h"
#include "call/calls.h"
#include "platform/compat.h"
#include "construct.h"
#include "overload.h"
#include "values/names.h"

/* Sets the C function and calling convention of a single's view. The METH_* flag depends only on
 * the number of arguments, and on whether the function is variadic. */
static void describe_single(NcCallable *self, PyMethodDef *method)
{
    const NcCallInterface *cif = self->cif;
    const int is_wrapper = self->vectorcall == nc_vectorcall_wrapper;
    if (!is_wrapper && self->vectorcall != nc_vectorcall_plan) {
        method->ml_meth = cif->trampoline->method;
        method->ml_flags = cif->trampoline->method_flags;
    } else if (cif->nargs > 1 || cif->variadic) {
        method->ml_meth = NC_METHOD(is_wrapper ? nc_method_wrapper : nc_method_plan);
        method->ml_flags = METH_FASTCALL;
    } else if (cif->nargs == 1) {
        method->ml_meth = is_wrapper ? nc_method_wrapper_O : nc_method_plan_O;
        method->ml_flags = METH_O;
    } else {
        method->ml_meth = is_wrapper ? nc_method_wrapper_NOARGS : nc_method_plan_NOARGS;
        method->ml_flags = METH_NOARGS;
    }
}

static void describe_overloaded(PyMethodDef *method)
{
    method->ml_meth = NC_METHOD(nc_method_overloaded);
    method->ml_flags = METH_FASTCALL;
}

/* Registers views with `pickle` before the first view is created. Returns 0, or -1 with an
 * exception. */
static int tell_how_to_pickle(void)
{
    static int is_told;
    PyObject *module = is_told ? NULL : PyImport_ImportModule("nativecall._callable.views");
    is_told |= module != NULL;
    Py_XDECREF(module);
    return is_told ? 0 : -1;
}

/* A callable with its name and docstring. */
typedef struct {
    NcCallable *self;
    PyObject *name;
    const char *name_text, *doc;
} Described;

/* Fills the callable's PyMethodDef, unless another thread has done so: see NC_ALONE. */
static int fill(PyObject *Py_UNUSED(any), void *given)
{
    const Described *from = (const Described *)given;
    PyMethodDef *method = &from->self->as.view;
    if (method->ml_name == NULL) {
        nc_more(from->self)->name = from->name;
        method->ml_doc = from->doc;
        method->ml_name = from->name_text;
        if (nc_more(from->self)->parts != NULL) {
            describe_overloaded(method);
        } else {
            describe_single(from->self, method);
        }
    }
    return 0;
}

/* Fills the callable's PyMethodDef before its first view is created. Returns 0, or -1 with an
 * exception. */
static int describe(NcCallable *self)
{
    PyObject *name = nc_callable_name(self);
    const char *name_text = name != NULL ? PyUnicode_AsUTF8(name) : NULL;
    const char *doc = NULL;
    if (name_text == NULL || tell_how_to_pickle() < 0 || nc_callable_move_tables(self) < 0) {
        return -1;
    }
    PyObject *found = nc_kept(&nc_more(self)->doc);
    if (found == NULL) {
        found =
            nc_keep_first(&nc_more(self)->doc, PyObject_GetAttrString((PyObject *)self, "__doc__"));
    }
    if (found == NULL || (PyUnicode_Check(found) && (doc = PyUnicode_AsUTF8(found)) == NULL)) {
        return -1;
    }
    Described described = {self, name, name_text, doc};
    NC_ALONE(fill, &described);
    return 0;
}

PyObject *nc_builtinview_get(PyObject *object, void *Py_UNUSED(closure))
{
    NcCallable *self = (NcCallable *)(void *)object;
    if (nc_native_table(object) == NULL) {
        return nc_callable_error(
            self, PyExc_AttributeError,
            "has no built-in view: '%s' overrides __call__, which a view would not run",
            Py_TYPE(object)->tp_name);
    }
    PyObject *view = nc_more(self)->view != NULL ? nc_weakref_get(nc_more(self)->view) : NULL;
    if (view != NULL) {
        return view;
    }
    if (self->cif == NULL && nc_more(self)->parts == NULL) {
        return nc_callable_error(
            self, PyExc_AttributeError, "has no built-in view: it has no entries%s",
            nc_more(self)->specializer != NULL ? " yet; ask for one as in f['d:d']"
                                               : "; add one first");
    }
    if (self->as.view.ml_name == NULL && describe(self) < 0) {
        return NULL;
    }
    view = nc_callable_shared(PyCFunction_NewEx(&self->as.view, object, NULL));
    if (view == NULL) {
        return NULL;
    }
    PyObject *reference = PyWeakref_NewRef(view, NULL);
    if (reference == NULL) {
        Py_DECREF(view);
        return NULL;
    }
    Py_XSETREF(nc_more(self)->view, reference);
    return view;
}

/* The vectorcall function of CPython for METH_FASTCALL built-in functions. */
static vectorcallfunc vectorcall_fast;

int nc_builtinview_ready(void)
{
    static PyMethodDef fast = {"fast", NULL, METH_FASTCALL, NULL};
    fast.ml_meth = NC_METHOD(nc_method_overloaded);
    PyObject *made = PyCFunction_NewEx(&fast, NULL, NULL);
    if (made == NULL) {
        return -1;
    }
    vectorcall_fast = ((PyCFunctionObject *)(void *)made)->vectorcall;
    Py_DECREF(made);
    return 0;
}

static int overload(PyObject *Py_UNUSED(any), void *given)
{
    NcCallable *self = (NcCallable *)given;
    PyWeakReference *reference = (PyWeakReference *)(void *)nc_more(self)->view;
    if (self->as.view.ml_name != NULL) {
        describe_overloaded(&self->as.view);
    }
    if (reference != NULL && reference->wr_object != Py_None) {
        ((PyCFunctionObject *)(void *)reference->wr_object)->vectorcall = vectorcall_fast;
    }
    self->vectorcall = nc_vectorcall_overloaded;
    return 0;
}

void nc_builtinview_overload(NcCallable *self)
{
    NC_ALONE(overload, self);
}
