/* nativecall/detail/boxcffi.h: the C function in a function pointer of cffi, or behind `lib.f`.
 *
 * In ABI mode, and for ffi.callback() and ffi.addressof(lib, "f"), a function is CData and its type
 * can be walked. In API mode `lib.f` is a built-in function, for which the module's own `ffi` gives
 * the CData.
 *
 * A struct is known if its fields lie as C's rules place them, or as in a packed struct, so that
 * the signature means the same layout. Types that have no signature are unknown by value and "P"
 * behind a pointer. */
#ifndef NATIVECALL_BOXCFFI_H
#define NATIVECALL_BOXCFFI_H

#include "box.h"

NC_C_BEGIN

NC_STATIC int nc_cffi_function(PyObject *ctype, NcSignatureText *out, int depth);

NC_STATIC int nc_cffi_type(PyObject *ctype, NcSignatureText *out, int depth);

/* One of a struct's pairs of name and field, appended. 0, or -1 with an exception. */
NC_STATIC int nc_cffi_field(PyObject *pair, NcBoxStruct *layout, NcSignatureText *out, int depth)
{
    PyObject *field =
        PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2 ? PyTuple_GET_ITEM(pair, 1) : NULL;
    PyObject *type = field != NULL ? nc_box_attribute(field, "type") : NULL;
    PyObject *bits = field != NULL ? nc_box_attribute(field, "bitsize") : NULL;
    size_t at = out->length;
    size_t offset;
    int status = -1;
    if (PyErr_Occurred()) {
        goto done;
    }
    if (type == NULL || bits == NULL) {
        nc_text_fail(out, NC_E_MISSING);
        status = 0;
    } else if (PyLong_AsLong(bits) != -1) { /* -1: all of the type's */
        nc_text_refuse(out, "one of its structs has bit-fields");
        status = PyErr_Occurred() ? -1 : 0;
    } else if (!PyErr_Occurred() && nc_cffi_type(type, out, depth) == 0 &&
               nc_box_attribute_size(field, "offset", &offset) == 0) {
        nc_box_struct_field(layout, at, offset, out);
        status = 0;
    }
done:
    Py_XDECREF(type);
    Py_XDECREF(bits);
    return status;
}

NC_STATIC int nc_cffi_struct(PyObject *ctype, NcSignatureText *out, int depth)
{
    PyObject *fields = nc_box_attribute(ctype, "fields"); /* None: opaque */
    PyObject *pairs = NULL; /* a tuple: no attribute of a field can change it */
    NcBoxStruct layout;
    size_t size;
    size_t alignment;
    Py_ssize_t i;
    int status = 0;
    if (fields == NULL || !PyList_Check(fields)) {
        Py_XDECREF(fields);
        nc_text_refuse(out, "one of its structs is not declared in full");
        return PyErr_Occurred() ? -1 : 0;
    }
    pairs = PyList_AsTuple(fields);
    Py_DECREF(fields);
    if (pairs == NULL) {
        return -1;
    }
    nc_box_struct_begin(&layout, out);
    for (i = 0; status == 0 && i < PyTuple_GET_SIZE(pairs); i++) {
        status = nc_cffi_field(PyTuple_GET_ITEM(pairs, i), &layout, out, depth);
    }
    Py_DECREF(pairs);
    if (status < 0 || nc_box_measure("_cffi_backend", "sizeof", ctype, &size) < 0 ||
        nc_box_measure("_cffi_backend", "alignof", ctype, &alignment) < 0) {
        return -1;
    }
    nc_box_struct_end(&layout, size, alignment, 0, out);
    return 0;
}

/* A type of cffi, appended. 0, or -1 with an exception. */
NC_STATIC int nc_cffi_type(PyObject *ctype, NcSignatureText *out, int depth)
{
    PyObject *kind = NULL;
    PyObject *value = NULL;
    size_t at = out->length;
    int before = out->status;
    int status = 0;
    if (depth > NC_DECLARATION_MAX_DEPTH) {
        nc_text_fail(out, NC_E_MISSING);
        return 0;
    }
    kind = nc_box_attribute(ctype, "kind");
    if (kind == NULL || !PyUnicode_Check(kind)) {
        nc_text_fail(out, NC_E_MISSING);
    } else if (PyUnicode_CompareWithASCIIString(kind, "void") == 0) {
        nc_text_put(out, "v");
    } else if (PyUnicode_CompareWithASCIIString(kind, "primitive") == 0) {
        value = nc_box_attribute(ctype, "cname");
        status = value != NULL ? nc_box_named_type(value, out) : 0;
    } else if (PyUnicode_CompareWithASCIIString(kind, "pointer") == 0) {
        value = nc_box_attribute(ctype, "item");
        nc_text_put(out, "&");
        status = value != NULL ? nc_cffi_type(value, out, depth + 1) : 0;
        nc_text_end_pointer(out, at, before);
    } else if (PyUnicode_CompareWithASCIIString(kind, "function") == 0) {
        nc_text_put(out, "X{");
        status = nc_cffi_function(ctype, out, depth + 1);
        nc_text_put(out, "}");
    } else if (PyUnicode_CompareWithASCIIString(kind, "struct") == 0) {
        status = nc_cffi_struct(ctype, out, depth + 1);
    } else {
        nc_text_fail(out, NC_E_MISSING); /* unions, enums and arrays, which no callback has */
    }
    Py_XDECREF(kind);
    Py_XDECREF(value);
    return PyErr_Occurred() ? -1 : status;
}

/* "R:A" of a function type, appended. */
NC_STATIC int nc_cffi_function(PyObject *ctype, NcSignatureText *out, int depth)
{
    PyObject *args = nc_box_attribute(ctype, "args");
    PyObject *result = nc_box_attribute(ctype, "result");
    PyObject *ellipsis = nc_box_attribute(ctype, "ellipsis");
    Py_ssize_t i;
    int status = PyErr_Occurred() ? -1 : 0;
    if (args == NULL || result == NULL || ellipsis == NULL || !PyTuple_Check(args)) {
        nc_text_fail(out, NC_E_MISSING);
    } else {
        status = nc_cffi_type(result, out, depth);
        nc_text_put(out, ":");
        for (i = 0; status == 0 && i < PyTuple_GET_SIZE(args); i++) {
            status = nc_cffi_type(PyTuple_GET_ITEM(args, i), out, depth);
        }
        /* cffi says "ellipsis" of every type that libffi cannot call, so the name decides. */
        if (ellipsis == Py_True) {
            PyObject *cname = nc_box_attribute(ctype, "cname");
            const char *text = cname != NULL ? PyUnicode_AsUTF8(cname) : NULL;
            if (text != NULL && strstr(text, "...") != NULL) {
                nc_text_put(out, ".");
            }
            Py_XDECREF(cname);
        }
    }
    Py_XDECREF(args);
    Py_XDECREF(result);
    Py_XDECREF(ellipsis);
    return status;
}

/* A cffi function pointer. 1, 0 when obj is another kind of CData, or -1 with an exception. */
NC_STATIC int nc_box_cffi(PyObject *obj, NcBox *box)
{
    PyObject *backend = nc_dict_item(PyImport_GetModuleDict(), "_cffi_backend");
    PyObject *ctype = NULL;
    PyObject *word = NULL;
    PyObject *pointer = NULL;
    PyObject *address = NULL;
    int status = -1;
    if (backend == NULL || (ctype = PyObject_CallMethod(backend, "typeof", "O", obj)) == NULL) {
        goto done;
    }
    status = nc_box_attribute_is(ctype, "kind", "function");
    if (status <= 0) {
        goto done;
    }
    status = -1;
    box->kind = "a cffi function pointer";
    if ((word = PyObject_CallMethod(backend, "new_primitive_type", "s", "uintptr_t")) == NULL ||
        (pointer = PyObject_CallMethod(backend, "cast", "OO", word, obj)) == NULL ||
        (address = PyNumber_Long(pointer)) == NULL || nc_box_address(address, &box->address) < 0 ||
        nc_cffi_function(ctype, &box->signature, 0) < 0) {
        goto done;
    }
    status = 1;
done:
    Py_XDECREF(backend);
    Py_XDECREF(ctype);
    Py_XDECREF(word);
    Py_XDECREF(pointer);
    Py_XDECREF(address);
    return status;
}

/* `lib.f` of an API-mode module: a built-in function, whose pointer the module's ffi knows. */
NC_STATIC int nc_box_cffi_api(PyObject *obj, NcBox *box)
{
    PyObject *self = PyCFunction_GET_SELF(obj);
    PyObject *module = NULL;
    PyObject *ffi = NULL;
    PyObject *name = NULL;
    PyObject *pointer = NULL;
    int status = 0;
    if (self == NULL || strcmp(Py_TYPE(self)->tp_name, "_cffi_backend.Lib") != 0) {
        return 0;
    }
    name = nc_box_attribute(obj, "__name__");
    module = nc_box_attribute(obj, "__module__");
    if (name != NULL && module != NULL && PyUnicode_Check(module)) {
        PyObject *found = PyDict_GetItemWithError(PyImport_GetModuleDict(), module);
        Py_XINCREF(found); /* its __getattr__ may take it out of sys.modules */
        ffi = found != NULL ? nc_box_attribute(found, "ffi") : NULL;
        Py_XDECREF(found);
    }
    if (ffi != NULL) {
        pointer = PyObject_CallMethod(ffi, "addressof", "OO", self, name);
        status = pointer != NULL ? nc_box_cffi(pointer, box) : -1;
    }
    Py_XDECREF(name);
    Py_XDECREF(module);
    Py_XDECREF(ffi);
    Py_XDECREF(pointer);
    return PyErr_Occurred() ? -1 : status;
}

NC_C_END

#endif
