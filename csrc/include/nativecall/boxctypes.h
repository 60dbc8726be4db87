/* nativecall/boxctypes.h: the C function in a function pointer of ctypes.
 *
 * The address is read through the buffer that every ctypes object exports; the types come from
 * argtypes and restype. A pointer to what has no name in a signature is "P", as in cffi's boxes. */
#ifndef NATIVECALL_BOXCTYPES_H
#define NATIVECALL_BOXCTYPES_H

#include "box.h"

#ifdef __cplusplus
extern "C" {
#endif

NC_STATIC int nc_ctypes_type(PyObject *type, NcSignatureText *out, int depth);

/* "R:A", appended. `argtypes` and `restype` are borrowed. 0, or -1 with an exception. */
NC_STATIC int nc_ctypes_signature(PyObject *argtypes, PyObject *restype, NcSignatureText *out,
                                  int depth)
{
    PyObject *types = PySequence_Tuple(argtypes); /* it may be a list */
    Py_ssize_t i;
    int status;
    if (types == NULL) {
        nc_text_fail(out, NC_E_MISSING);
        return nc_box_shrug();
    }
    status = nc_ctypes_type(restype, out, depth);
    nc_text_put(out, ":");
    for (i = 0; status == 0 && i < PyTuple_GET_SIZE(types); i++) {
        status = nc_ctypes_type(PyTuple_GET_ITEM(types, i), out, depth);
    }
    Py_DECREF(types);
    return status;
}

/* The fields of a Structure without bases that bring fields; others are not told. */
NC_STATIC int nc_ctypes_struct(PyObject *type, PyObject *fields, NcSignatureText *out, int depth)
{
    PyObject *list = PySequence_Tuple(fields);
    PyObject *pack = NULL;
    Py_ssize_t i;
    int status = -1;
    if (list == NULL) {
        nc_text_fail(out, NC_E_MISSING);
        return nc_box_shrug();
    }
    pack = nc_box_attribute(type, "_pack_");
    if (PyErr_Occurred()) {
        goto done;
    }
    if (pack != NULL && !(PyLong_Check(pack) && PyLong_AsLong(pack) == 1)) {
        PyErr_Clear();
        nc_text_fail(out, NC_E_MISSING);
    }
    nc_text_put(out, pack != NULL ? "=T{" : "T{");
    for (i = 0; i < PyTuple_GET_SIZE(list); i++) {
        PyObject *field = PyTuple_GET_ITEM(list, i);
        if (!PyTuple_Check(field) || PyTuple_GET_SIZE(field) != 2) {
            nc_text_fail(out, NC_E_MISSING); /* a bit-field */
        } else if (nc_ctypes_type(PyTuple_GET_ITEM(field, 1), out, depth) < 0) {
            goto done;
        }
    }
    nc_text_put(out, "}");
    status = 0;
done:
    Py_XDECREF(pack);
    Py_DECREF(list);
    return status;
}

/* The letter of a simple type of ctypes. */
NC_STATIC void nc_ctypes_simple(const char *letter, NcSignatureText *out)
{
    static const char ours[] = "?bBhHiIlLqQfdgc";
    if (letter[0] == '\0' || letter[1] != '\0') {
        nc_text_fail(out, NC_E_MISSING);
    } else if (strchr(ours, *letter) != NULL) {
        nc_text_put(out, letter);
    } else if (*letter == 'P') {
        nc_text_put(out, "P");
    } else if (*letter == 'z') {
        nc_text_put(out, "&c");
    } else if (*letter == 'Z') {
        nc_text_put(out, "&" NC_WCHAR_CODE);
    } else if (*letter == 'O') {
        nc_text_put(out, "O");
    } else {
        nc_text_fail(out, NC_E_MISSING);
    }
}

/* A type of ctypes, appended; None is void. 0, or -1 with an exception. */
NC_STATIC int nc_ctypes_type(PyObject *type, NcSignatureText *out, int depth)
{
    PyObject *value = NULL;
    PyObject *restype = NULL;
    int status = 0;
    if (type == Py_None) {
        nc_text_put(out, "v");
        return 0;
    }
    if (!PyType_Check(type) || depth > NC_DECLARATION_MAX_DEPTH) {
        nc_text_fail(out, NC_E_MISSING);
        return 0;
    }
    if ((value = nc_box_attribute(type, "_type_")) != NULL) {
        /* Arrays have _length_; they are no arguments, and in structs they are not told. */
        PyObject *length = nc_box_attribute(type, "_length_");
        if (length != NULL || PyErr_Occurred()) {
            Py_XDECREF(length);
            nc_text_fail(out, NC_E_MISSING);
        } else if (PyUnicode_Check(value)) {
            const char *letter = PyUnicode_AsUTF8(value);
            nc_ctypes_simple(letter != NULL ? letter : "", out);
            PyErr_Clear();
        } else {
            size_t before = out->length;
            nc_text_put(out, "&");
            status = nc_ctypes_type(value, out, depth + 1);
            if (out->status == NC_E_MISSING) {
                /* A pointer to what has no name here. */
                out->status = NC_OK;
                out->length = before;
                nc_text_put(out, "P");
            }
        }
    } else if (!PyErr_Occurred() && (value = nc_box_attribute(type, "_argtypes_")) != NULL) {
        restype = nc_box_attribute(type, "_restype_");
        nc_text_put(out, "X{");
        if (restype == NULL) {
            nc_text_fail(out, NC_E_MISSING);
        } else {
            status = nc_ctypes_signature(value, restype, out, depth + 1);
        }
        nc_text_put(out, "}");
    } else if (!PyErr_Occurred() && (value = nc_box_attribute(type, "_fields_")) != NULL) {
        /* A union has fields as well. */
        int is_struct = 0;
        PyObject *structure = nc_box_imported("_ctypes", "Structure");
        if (structure != NULL) {
            is_struct =
                PyType_IsSubtype((PyTypeObject *)(void *)type, (PyTypeObject *)(void *)structure) &&
                ((PyTypeObject *)(void *)type)->tp_base == (PyTypeObject *)(void *)structure;
            Py_DECREF(structure);
        }
        if (is_struct) {
            status = nc_ctypes_struct(type, value, out, depth + 1);
        } else {
            nc_text_fail(out, NC_E_MISSING);
        }
    } else {
        nc_text_fail(out, NC_E_MISSING);
    }
    Py_XDECREF(value);
    Py_XDECREF(restype);
    return PyErr_Occurred() ? -1 : status;
}

NC_STATIC int nc_box_ctypes(PyObject *obj, NcBox *box)
{
    PyObject *argtypes = nc_box_attribute(obj, "argtypes");
    PyObject *restype = nc_box_attribute(obj, "restype");
    PyObject *errcheck = nc_box_attribute(obj, "errcheck");
    PyObject *flags = nc_box_attribute(obj, "_flags_");
    Py_buffer view;
    int status = -1;
    if (PyErr_Occurred()) {
        goto done;
    }
    box->kind = "a ctypes function pointer";
    /* The memory of a ctypes object is what it stands for: here, one pointer. */
    if (PyObject_GetBuffer(obj, &view, PyBUF_SIMPLE) < 0) {
        goto done;
    }
    if ((size_t)view.len == sizeof box->address) {
        memcpy(&box->address, view.buf, sizeof box->address);
    }
    PyBuffer_Release(&view);
    /* FUNCFLAG_PYTHONAPI: of PyDLL or PYFUNCTYPE, to be called with the GIL; ctypes looks for an
     * exception after such calls. */
    if (flags != NULL && PyLong_Check(flags) && (PyLong_AsLong(flags) & 4) != 0) {
        box->flags |= NC_FLAG_NEEDS_GIL | NC_ERRORS_PYTHON;
    }
    if (argtypes == NULL || argtypes == Py_None || restype == NULL) {
        box->unknown = "its argtypes are not set";
        nc_text_fail(&box->signature, NC_E_MISSING);
    } else if (errcheck != NULL && errcheck != Py_None) {
        box->unknown = "its errcheck is for Python callers only";
        nc_text_fail(&box->signature, NC_E_MISSING);
    } else if (nc_ctypes_signature(argtypes, restype, &box->signature, 0) < 0) {
        goto done;
    }
    status = 0;
done:
    Py_XDECREF(argtypes);
    Py_XDECREF(restype);
    Py_XDECREF(errcheck);
    Py_XDECREF(flags);
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
