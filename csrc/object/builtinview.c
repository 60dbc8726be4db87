/* csrc/object/builtinview.c: the views of builtinview.h. */
#include "builtinview.h"

#include "callablecalls.h"
#include "overload.h"

static PyObject *living_view(NcCallable *self)
{
    return self->view != NULL ? nc_weakref_get(self->view) : NULL;
}

/* The built-in form of what calls a single; of the same convention whatever that is. */
static void describe_single(NcCallable *self, PyMethodDef *method)
{
    const NcCallSpec *spec = self->spec;
    if (self->vectorcall != nc_vectorcall_fallback) {
        const NcTrampoline *code =
            self->generated != NULL ? &self->generated->code : spec->trampoline;
        method->ml_meth = code->method;
        method->ml_flags = code->method_flags;
    } else if (spec->nargs > 1 || spec->variadic) {
        method->ml_meth = (PyCFunction)(void (*)(void))nc_method_fallback;
        method->ml_flags = METH_FASTCALL;
    } else {
        method->ml_meth = spec->nargs == 1 ? nc_method_fallback_O : nc_method_fallback_NOARGS;
        method->ml_flags = spec->nargs == 1 ? METH_O : METH_NOARGS;
    }
}

PyObject *nc_builtinview_get(PyObject *object, void *Py_UNUSED(closure))
{
    NcCallable *self = (NcCallable *)(void *)object;
    PyObject *view;
    if (nc_native_table(object) == NULL) {
        PyErr_Format(
            PyExc_AttributeError,
            "'%U' has no built-in view: '%s' overrides __call__, which a view would not run",
            self->name, Py_TYPE(object)->tp_name);
        return NULL;
    }
    view = living_view(self);
    if (view != NULL) {
        return view;
    }
    if (self->spec == NULL && self->parts == NULL) {
        return nc_vectorcall_empty(object, NULL, 0, NULL);
    }
    if (self->parts == NULL && !self->decided && nc_callable_generate(self, NULL) < 0) {
        return NULL;
    }
    PyMethodDef *method = self->parts != NULL ? &self->view_overloaded : &self->view_single;
    if (method->ml_name == NULL) {
        const char *name = PyUnicode_AsUTF8(self->name);
        const char *doc = NULL;
        PyObject *doc_found;
        if (name == NULL) {
            return NULL;
        }
        if (self->doc == Py_None) {
            doc_found = PyObject_GetAttrString(object, "__doc__");
            if (doc_found == NULL) {
                return NULL;
            }
            Py_SETREF(self->doc, doc_found);
        }
        if (PyUnicode_Check(self->doc)) {
            doc = PyUnicode_AsUTF8(self->doc);
            if (doc == NULL) {
                return NULL;
            }
        }
        if (self->parts != NULL) {
            method->ml_meth = (PyCFunction)(void (*)(void))nc_method_overloaded;
            method->ml_flags = METH_FASTCALL;
        } else {
            describe_single(self, method);
        }
        method->ml_doc = doc;
        method->ml_name = name;
    }
    view = PyCFunction_NewEx(method, object, self->module);
    if (view == NULL) {
        return NULL;
    }
    PyObject *reference = PyWeakref_NewRef(view, NULL);
    if (reference == NULL) {
        Py_DECREF(view);
        return NULL;
    }
    Py_XSETREF(self->view, reference);
    return view;
}

void nc_builtinview_overload(NcCallable *self)
{
    if (self->view_single.ml_flags == METH_O) {
        self->view_single.ml_meth = nc_method_overloaded_O;
    } else if (self->view_single.ml_flags == METH_NOARGS) {
        self->view_single.ml_meth = nc_method_overloaded_NOARGS;
    } else if (self->view_single.ml_flags == METH_FASTCALL) {
        self->view_single.ml_meth = (PyCFunction)(void (*)(void))nc_method_overloaded;
    }
    Py_CLEAR(self->view);
}
