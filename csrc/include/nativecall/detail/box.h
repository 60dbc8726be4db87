/* nativecall/detail/box.h: what every box has, and how foreign objects are asked.
 *
 * Idea:    a box is an object of another library that holds a C function pointer and knows its
 *          type, but nothing of us. boxes.h opens them.
 * Own:     what nativecall made of a native callable (`f.to_capsule()` and its like) has the entry
 *          with it, because no box says all that an entry does. nc_box_own_entry() finds it.
 * Others:  the package may know boxes that no header opens; nc_box_native() asks it.
 * Imports: nothing, ever. An object of a library exists only if that library is in sys.modules, and
 *          is asked through its own attributes.
 * Errors:  an attribute that is missing is no error: a box that does not tell its function's type
 *          has an unknown signature. Exceptions other than AttributeError and TypeError, which
 *          foreign attributes may raise, are passed on.
 * Threads: with the GIL. */
#ifndef NATIVECALL_BOX_H
#define NATIVECALL_BOX_H

#include <Python.h>

#include "compat.h"
#include "declaration.h"
#include "../nativecallable.h"

NC_C_BEGIN

typedef struct {
    const char *kind;    /* "a ctypes function pointer", for messages; static */
    void *address;       /* of the function, may be NULL */
    void *user_data;     /* NULL unless has_user_data */
    int has_user_data;   /* the function must get user_data in one of its arguments */
    uintptr_t flags;     /* NC_FLAG_* */
    int python;          /* Python code looks at its results, so the function alone is not it */
    int own_entry;       /* signature and flags are those of the entry that it was made of */
    const char *unknown; /* why the signature is not known, static; NULL: it is */
    NcSignatureText signature; /* canonical */
} NcBox;

/* ---- attributes ------------------------------------------------------------------------------ */

/* Clears the exceptions that say only that an object has no such attribute, or one of another type.
 * 0, or -1 with another exception. */
NC_STATIC int nc_box_clear_refusal(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_AttributeError) &&
        !PyErr_ExceptionMatches(PyExc_TypeError)) {
        return -1;
    }
    PyErr_Clear();
    return 0;
}

/* An attribute, a new reference; NULL with or without an exception. An exception that is set
 * already stays, so that several attributes can be asked for and one check is enough. */
NC_STATIC PyObject *nc_box_attribute(PyObject *obj, const char *name)
{
    PyObject *value = PyErr_Occurred() ? NULL : PyObject_GetAttrString(obj, name);
    if (value == NULL) {
        (void)nc_box_clear_refusal();
    }
    return value;
}

/* A module's attribute if the module is imported, a new reference; NULL with or without an
 * exception. */
NC_STATIC PyObject *nc_box_imported(const char *module, const char *name)
{
    PyObject *found = nc_dict_item(PyImport_GetModuleDict(), module);
    PyObject *value;
    if (found == NULL) {
        return NULL;
    }
    value = nc_box_attribute(found, name);
    Py_DECREF(found);
    return value;
}

/* Whether obj is an instance of a class of an imported module. 1, 0, or -1 with an exception. */
NC_STATIC int nc_box_is(PyObject *obj, const char *module, const char *name)
{
    PyObject *type = nc_box_imported(module, name);
    int is = 0; /* obj's own class is read when no more Python code runs */
    if (type != NULL) {
        is = PyType_Check(type) && PyType_IsSubtype(Py_TYPE(obj), (PyTypeObject *)(void *)type);
        Py_DECREF(type);
    } else if (PyErr_Occurred()) {
        is = -1;
    }
    return is;
}

/* Whether an attribute, a string, is this text. 1, 0, or -1 with an exception. */
NC_STATIC int nc_box_attribute_is(PyObject *obj, const char *name, const char *text)
{
    PyObject *value = nc_box_attribute(obj, name);
    int is = 0;
    if (value != NULL) {
        is = PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, text) == 0;
        Py_DECREF(value);
    }
    return PyErr_Occurred() ? -1 : is;
}

/* An integer attribute's value as an address. 0, or -1 with an exception. */
NC_STATIC int nc_box_address(PyObject *value, void **out)
{
    *out = PyLong_AsVoidPtr(value);
    return *out == NULL && PyErr_Occurred() ? -1 : 0;
}

/* What a module's function says of an object, a count of bytes; SIZE_MAX where it says nothing.
 * 0, or -1 with an exception. */
NC_STATIC int nc_box_measure(const char *module, const char *function, PyObject *obj, size_t *out)
{
    PyObject *measure = nc_box_imported(module, function);
    PyObject *value = measure != NULL ? PyObject_CallFunctionObjArgs(measure, obj, NULL) : NULL;
    *out = value != NULL ? PyLong_AsSize_t(value) : SIZE_MAX;
    Py_XDECREF(measure);
    Py_XDECREF(value);
    return nc_box_clear_refusal();
}

/* The same of an attribute. */
NC_STATIC int nc_box_attribute_size(PyObject *obj, const char *name, size_t *out)
{
    PyObject *value = nc_box_attribute(obj, name);
    *out = value != NULL ? PyLong_AsSize_t(value) : SIZE_MAX;
    Py_XDECREF(value);
    return nc_box_clear_refusal();
}

/* Clears the exception of a string that has no UTF-8. 0, or -1 with another exception. */
NC_STATIC int nc_box_no_text(void)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_UnicodeError)) {
        return -1;
    }
    PyErr_Clear();
    return 0;
}

/* The type that a string names, appended. 0, or -1 with an exception. */
NC_STATIC int nc_box_named_type(PyObject *name, NcSignatureText *out)
{
    Py_ssize_t length = 0;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &length) : NULL;
    if (text == NULL) {
        nc_text_fail(out, NC_E_FORMAT);
        return nc_box_no_text();
    } else {
        nc_declaration_type(text, (size_t)length, out);
    }
    return 0;
}

/* ---- our own --------------------------------------------------------------------------------- */

/* What a function of the package answers about obj, if the package is imported: a native callable,
 * a new reference; NULL for None or with an exception. */
NC_STATIC PyObject *nc_box_ask(const char *question, PyObject *obj)
{
    PyObject *ask = nc_box_imported("nativecall", question);
    PyObject *answer = ask != NULL ? PyObject_CallOneArg(ask, obj) : NULL;
    Py_XDECREF(ask);
    if (answer == NULL || answer == Py_None || PyCustomSlots_Import() < 0) {
        Py_XDECREF(answer);
        answer = NULL;
    }
    return answer;
}

/* Asks the package for the native callable of an object that boxes.h does not know: it has bridges
 * for more libraries, and such that others registered (nativecall.register_box). *out is a new
 * reference, or NULL where there is none. 0, or -1 with an exception. */
NC_STATIC int nc_box_native(PyObject *obj, PyObject **out)
{
    PyObject *self = PyCFunction_CheckExact(obj) ? PyCFunction_GET_SELF(obj) : obj;
    *out = NULL;
    if (self != NULL && !PyModule_Check(self) && !PyFunction_Check(obj) && !PyMethod_Check(obj) &&
        !PyType_Check(obj)) { /* not the commonest callables of all */
        *out = nc_box_ask("_native_of", obj);
    }
    return *out == NULL && PyErr_Occurred() ? -1 : 0;
}

/* Takes signature and flags from the entry that nativecall made a box of, if it is one of its
 * boxes. The entry is believed for the very function that the box holds. 1, 0, or -1 with an
 * exception. */
NC_STATIC int nc_box_own_entry(PyObject *obj, NcBox *box)
{
    PyObject *callable = nc_box_ask("_own_entry", obj);
    const PyNativeCallableEntry *entry;
    if (callable == NULL) {
        return nc_box_clear_refusal();
    }
    (void)PyCustomSlots_Import();
    entry = nc_native_next(callable, NULL);
    if (entry != NULL && nc_calltable_funcptr(entry) == box->address) {
        nc_text_init(&box->signature);
        box->unknown = nc_text_put(&box->signature, entry->signature) == NC_OK
                           ? NULL
                           : "its signature is too long";
        box->flags = entry->flags;
        box->own_entry = 1;
    }
    Py_DECREF(callable);
    return box->own_entry;
}

/* ---- structs --------------------------------------------------------------------------------- */

/* The text of a struct as it grows, beside the two layouts that a text can mean. A library has more
 * ways to lay out a struct than these, and passing by value by another layout is a wrong call: so
 * each field's place is compared, whatever put it there. */
typedef struct {
    size_t at;        /* offset of the struct in the text */
    size_t alignment; /* by C's rules */
    size_t natural;   /* end of the fields by C's rules; SIZE_MAX once one lies elsewhere */
    size_t packed;    /* the same without padding */
} NcBoxStruct;

NC_STATIC void nc_box_struct_begin(NcBoxStruct *self, NcSignatureText *out)
{
    self->at = out->length;
    self->alignment = 1;
    self->natural = 0;
    self->packed = 0;
    nc_text_put(out, "T{");
}

/* The field that is written from `at` on lies at this offset. */
NC_STATIC void nc_box_struct_field(NcBoxStruct *self, size_t at, size_t offset,
                                   NcSignatureText *out)
{
    NcSignatureReader reader;
    NcSignatureType type;
    if (out->status != NC_OK) {
        return;
    }
    memset(&reader, 0, sizeof reader);
    reader.text = out->text + at;
    reader.length = out->length - at;
    type.kind = NC_KIND_VOID;
    if (nc_reader_type(&reader, NC_PLACE_FIELD, 1, &type) != NC_OK) {
        nc_text_fail(out, NC_E_FORMAT);
        return;
    }
    if (self->natural != SIZE_MAX) {
        self->natural = nc_signature_round_up(self->natural, type.alignment);
        self->natural = self->natural == offset ? offset + type.size : SIZE_MAX;
    }
    if (self->packed != SIZE_MAX) {
        self->packed = self->packed == offset ? offset + type.size : SIZE_MAX;
    }
    self->alignment = type.alignment > self->alignment ? type.alignment : self->alignment;
}

/* Ends the struct, which has this size and alignment. `packed`: what it is where both layouts fit,
 * as for a struct of bytes. */
NC_STATIC void nc_box_struct_end(NcBoxStruct *self, size_t size, size_t alignment, int packed,
                                 NcSignatureText *out)
{
    int fits_packed = self->packed == size && alignment == 1;
    int fits_natural = self->natural != SIZE_MAX && alignment == self->alignment &&
                       size == nc_signature_round_up(self->natural, alignment);
    nc_text_put(out, "}");
    if (out->status != NC_OK) {
        return;
    }
    if (self->packed == 0) {
        nc_text_refuse(out, "one of its structs has no fields");
    } else if (!fits_packed && !fits_natural) {
        nc_text_refuse(out, "one of its structs has a layout that no signature describes");
    } else if (fits_packed && (packed || !fits_natural) && nc_text_put(out, "=") == NC_OK) {
        memmove(out->text + self->at + 1, out->text + self->at, out->length - self->at - 1);
        out->text[self->at] = '=';
    }
}

NC_C_END

#endif
