/* nativecall/detail/boxctypes.h: the C function in a function pointer of ctypes.
 *
 * The address is read through the buffer that every ctypes object exports; the types come from
 * argtypes and restype. A pointer to what has no name in a signature is "P", as in cffi's boxes.
 *
 * A Structure is known if its fields lie as C's rules place them, or as in a packed struct,
 * whatever `_pack_`, `_align_` and `_layout_` say. A function that ctypes does not just call, but
 * whose result it hands to `errcheck` or to the `_check_retval_` of its restype, is unknown. */
#ifndef NATIVECALL_BOXCTYPES_H
#define NATIVECALL_BOXCTYPES_H

#include "box.h"

NC_C_BEGIN

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
        return nc_box_clear_refusal();
    }
    status = nc_ctypes_type(restype, out, depth);
    nc_text_put(out, ":");
    for (i = 0; status == 0 && i < PyTuple_GET_SIZE(types); i++) {
        status = nc_ctypes_type(PyTuple_GET_ITEM(types, i), out, depth);
    }
    Py_DECREF(types);
    return status;
}

/* Whether a type is a subtype of a class of _ctypes. 1, 0, or -1 with an exception. */
NC_STATIC int nc_ctypes_is(PyObject *type, const char *base)
{
    PyObject *found = nc_box_imported("_ctypes", base);
    int is = found != NULL && PyType_Check(found) &&
             PyType_IsSubtype((PyTypeObject *)(void *)type, (PyTypeObject *)(void *)found);
    Py_XDECREF(found);
    return PyErr_Occurred() ? -1 : is;
}

/* One of a Structure's `_fields_`, appended. 0, or -1 with an exception. */
NC_STATIC int nc_ctypes_field(PyObject *type, PyObject *field, NcBoxStruct *layout,
                              NcSignatureText *out, int depth)
{
    const char *name = NULL;
    PyObject *descriptor;
    size_t at = out->length;
    size_t offset;
    int status;
    if (PyTuple_Check(field) && PyTuple_GET_SIZE(field) == 3) {
        nc_text_refuse(out, "one of its structs has bit-fields");
        return 0;
    }
    if (PyTuple_Check(field) && PyTuple_GET_SIZE(field) == 2 &&
        PyUnicode_Check(PyTuple_GET_ITEM(field, 0))) {
        name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(field, 0));
    }
    if (name == NULL) {
        nc_text_fail(out, NC_E_MISSING);
        return nc_box_no_text();
    }
    if (nc_ctypes_type(PyTuple_GET_ITEM(field, 1), out, depth) < 0) {
        return -1;
    }
    descriptor = nc_box_attribute(type, name);
    if (descriptor == NULL) {
        nc_text_fail(out, NC_E_MISSING);
        return PyErr_Occurred() ? -1 : 0;
    }
    status = nc_box_attribute_size(descriptor, "offset", &offset);
    Py_DECREF(descriptor);
    if (status == 0) {
        nc_box_struct_field(layout, at, offset, out);
    }
    return status;
}

/* A Structure without bases that bring fields; others are not told. 0, or -1 with an exception. */
NC_STATIC int nc_ctypes_struct(PyObject *type, NcSignatureText *out, int depth)
{
    PyObject *base = nc_box_imported("_ctypes", "Structure");
    PyObject *fields = nc_box_attribute(type, "_fields_");
    PyObject *pack = nc_box_attribute(type, "_pack_");
    PyObject *list = NULL;
    NcBoxStruct layout;
    size_t size;
    size_t alignment;
    Py_ssize_t i;
    int packed = pack != NULL && PyLong_Check(pack) && PyLong_AsLong(pack) == 1;
    int status = nc_box_clear_refusal();
    if (status == 0 && (fields == NULL || base == NULL ||
                        ((PyTypeObject *)(void *)type)->tp_base != (PyTypeObject *)(void *)base)) {
        nc_text_fail(out, NC_E_MISSING);
    } else if (status == 0 && (list = PySequence_Tuple(fields)) == NULL) {
        nc_text_fail(out, NC_E_MISSING);
        status = nc_box_clear_refusal();
    }
    Py_XDECREF(base);
    Py_XDECREF(fields);
    Py_XDECREF(pack);
    if (list == NULL) {
        return status;
    }
    nc_box_struct_begin(&layout, out);
    for (i = 0; status == 0 && i < PyTuple_GET_SIZE(list); i++) {
        status = nc_ctypes_field(type, PyTuple_GET_ITEM(list, i), &layout, out, depth);
    }
    Py_DECREF(list);
    if (status < 0 || nc_box_measure("_ctypes", "sizeof", type, &size) < 0 ||
        nc_box_measure("_ctypes", "alignment", type, &alignment) < 0) {
        return -1;
    }
    nc_box_struct_end(&layout, size, alignment, packed, out);
    return 0;
}

/* Whether a simple type is the one that ctypes made of another for the other byte order. Types of
 * one byte are both at once. 1, 0, or -1 with an exception. */
NC_STATIC int nc_ctypes_swapped(PyObject *type)
{
    static const char *const names[] = {"__ctype_le__", "__ctype_be__"};
    PyObject *native = nc_box_attribute(type, names[PY_BIG_ENDIAN]);
    PyObject *other = nc_box_attribute(type, names[!PY_BIG_ENDIAN]);
    int swapped = other == type && native != type;
    Py_XDECREF(native);
    Py_XDECREF(other);
    return PyErr_Occurred() ? -1 : swapped;
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
    int is;
    int status = 0;
    if (type == Py_None) {
        nc_text_put(out, "v");
        return 0;
    }
    if (!PyType_Check(type) || depth > NC_DECLARATION_MAX_DEPTH) {
        nc_text_fail(out, NC_E_MISSING);
        return 0;
    }
    if ((is = nc_ctypes_is(type, "_SimpleCData")) != 0) {
        status = is < 0 ? -1 : nc_ctypes_swapped(type);
        value = status == 0 ? nc_box_attribute(type, "_type_") : NULL;
        if (status > 0) {
            nc_text_refuse(out, "one of its types has the byte order of another machine");
        } else if (value != NULL && PyUnicode_Check(value)) {
            const char *letter = PyUnicode_AsUTF8(value);
            nc_ctypes_simple(letter != NULL ? letter : "", out);
            status = letter != NULL ? 0 : nc_box_no_text();
        } else {
            nc_text_fail(out, NC_E_MISSING);
        }
    } else if ((is = nc_ctypes_is(type, "_Pointer")) != 0) {
        size_t at = out->length;
        int before = out->status;
        value = is > 0 ? nc_box_attribute(type, "_type_") : NULL;
        nc_text_put(out, "&");
        if (value == NULL) {
            nc_text_fail(out, NC_E_MISSING);
        } else {
            status = nc_ctypes_type(value, out, depth + 1);
        }
        nc_text_end_pointer(out, at, before);
    } else if ((is = nc_ctypes_is(type, "CFuncPtr")) != 0) {
        value = is > 0 ? nc_box_attribute(type, "_argtypes_") : NULL;
        restype = nc_box_attribute(type, "_restype_");
        nc_text_put(out, "X{");
        if (value == NULL || restype == NULL) {
            nc_text_fail(out, NC_E_MISSING);
        } else {
            status = nc_ctypes_signature(value, restype, out, depth + 1);
        }
        nc_text_put(out, "}");
    } else if ((is = nc_ctypes_is(type, "Structure")) != 0) {
        status = is < 0 ? -1 : nc_ctypes_struct(type, out, depth + 1);
    } else {
        nc_text_fail(out, NC_E_MISSING); /* unions, arrays, and what is no type of ctypes */
    }
    Py_XDECREF(value);
    Py_XDECREF(restype);
    return PyErr_Occurred() ? -1 : (status < 0 ? -1 : 0);
}

/* Adds the flags of a function pointer's function. 0, or -1 with an exception. */
NC_STATIC int nc_ctypes_flags(PyObject *obj, uintptr_t *out)
{
    PyObject *flags = nc_box_attribute(obj, "_flags_");
    /* FUNCFLAG_PYTHONAPI: of PyDLL or PYFUNCTYPE, to be called with the GIL; ctypes looks for an
     * exception after such calls. */
    if (flags != NULL && PyLong_Check(flags) && (PyLong_AsLong(flags) & 4) != 0) {
        *out |= NC_FLAG_NEEDS_GIL | NC_ERRORS_PYTHON;
    }
    Py_XDECREF(flags);
    return PyErr_Occurred() ? -1 : 0;
}

NC_STATIC int nc_box_ctypes(PyObject *obj, NcBox *box)
{
    PyObject *argtypes = nc_box_attribute(obj, "argtypes");
    PyObject *restype = nc_box_attribute(obj, "restype");
    PyObject *errcheck = nc_box_attribute(obj, "errcheck");
    PyObject *checks = restype != NULL ? nc_box_attribute(restype, "_check_retval_") : NULL;
    Py_buffer view;
    int status = -1;
    if (nc_ctypes_flags(obj, &box->flags) < 0) {
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
    box->python = (errcheck != NULL && errcheck != Py_None) || checks != NULL;
    if (argtypes == NULL || argtypes == Py_None || restype == NULL) {
        box->unknown = "its argtypes are not set";
        nc_text_fail(&box->signature, NC_E_MISSING);
    } else if (box->python) {
        box->unknown = checks == NULL
                           ? "its errcheck is for Python callers only"
                           : "the _check_retval_ of its restype is for Python callers only";
        nc_text_fail(&box->signature, NC_E_MISSING);
    } else if (nc_ctypes_signature(argtypes, restype, &box->signature, 0) < 0) {
        goto done;
    }
    status = 0;
done:
    Py_XDECREF(argtypes);
    Py_XDECREF(restype);
    Py_XDECREF(errcheck);
    Py_XDECREF(checks);
    return status;
}

NC_C_END

#endif
