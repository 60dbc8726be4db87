/* nativecall/detail/boxes.h: the C function inside what other libraries make.
 *
 * nc_box_open says what is in a PyCapsule named by a C declaration (Cython, SciPy), in SciPy's
 * LowLevelCallable, in a function pointer of ctypes or of cffi in both its modes, and in a cfunc of
 * Numba: address, canonical signature, user data, flags.
 *
 * A box that nativecall made of a native callable is what that callable's entry is.
 *
 * What a box does not tell is no error: `signature.status` says that the function's type is
 * unknown, and `unknown` why.
 *
 * Ownership: address and user_data are the box's: hold a reference to it. Nothing is allocated.
 * Threads: with the GIL. */
#ifndef NATIVECALL_BOXES_H
#define NATIVECALL_BOXES_H

#include "boxcffi.h"
#include "boxctypes.h"

NC_C_BEGIN

/* ---- Numba ----------------------------------------------------------------------------------- */

/* A type of Numba, which its name tells: "float64", "int32*". 0, or -1 with an exception. */
NC_STATIC int nc_numba_type(PyObject *type, NcSignatureText *out)
{
    PyObject *name = PyObject_Str(type);
    int status;
    if (name == NULL) {
        return -1;
    }
    status = nc_box_named_type(name, out);
    Py_DECREF(name);
    return status;
}

/* Registers for floating-point arguments, where we know that Numba's complex128 are in two of them
 * as C's are. */
#if defined(__x86_64__) && !defined(_WIN32)
#define NC_NUMBA_COMPLEX 1
#else
#define NC_NUMBA_COMPLEX 0
#endif
#define NC_NUMBA_REGISTERS 8

/* A type that was written from `at` on, of an argument or the result: refused where Numba does not
 * pass it as C does. To LLVM, Numba says of a complex number that it is a struct of two. For a
 * complex64, C has one register. A complex128 for which one register is left goes to memory in C,
 * and is torn apart by LLVM. `taken`: registers of the arguments before. */
NC_STATIC void nc_numba_place(NcSignatureText *out, size_t at, int *taken)
{
    const char *text = out->text + at;
    if (out->status != NC_OK) {
        return;
    }
    if (*text == 'Z') {
        if (!NC_NUMBA_COMPLEX || text[1] != 'd' || *taken == NC_NUMBA_REGISTERS - 1) {
            nc_text_refuse(out, "Numba does not pass one of its complex numbers as C does");
        }
        *taken += *taken < NC_NUMBA_REGISTERS ? 2 : 0;
    } else if (*text == 'f' || *text == 'd') {
        *taken += *taken < NC_NUMBA_REGISTERS;
    }
}

NC_STATIC int nc_box_numba(PyObject *obj, NcBox *box)
{
    PyObject *address = nc_box_attribute(obj, "address");
    PyObject *sig = nc_box_attribute(obj, "_sig");
    PyObject *args = sig != NULL ? nc_box_attribute(sig, "args") : NULL;
    PyObject *result = sig != NULL ? nc_box_attribute(sig, "return_type") : NULL;
    Py_ssize_t i;
    int taken = 0;
    int status = -1;
    if (PyErr_Occurred() || (address != NULL && nc_box_address(address, &box->address) < 0)) {
        goto done;
    }
    box->kind = "a Numba cfunc";
    if (address == NULL || args == NULL || result == NULL || !PyTuple_Check(args)) {
        box->unknown = "this version of Numba hides it";
        nc_text_fail(&box->signature, NC_E_MISSING);
        status = 0;
        goto done;
    }
    if (nc_numba_type(result, &box->signature) < 0) {
        goto done;
    }
    nc_numba_place(&box->signature, 0, &taken);
    taken = 0;
    nc_text_put(&box->signature, ":");
    for (i = 0; i < PyTuple_GET_SIZE(args); i++) {
        size_t at = box->signature.length;
        if (nc_numba_type(PyTuple_GET_ITEM(args, i), &box->signature) < 0) {
            goto done;
        }
        nc_numba_place(&box->signature, at, &taken);
    }
    status = 0;
done:
    Py_XDECREF(address);
    Py_XDECREF(sig);
    Py_XDECREF(args);
    Py_XDECREF(result);
    return status;
}

/* ---- capsules and SciPy ---------------------------------------------------------------------- */

NC_STATIC int nc_box_capsule(PyObject *obj, NcBox *box)
{
    const char *name = PyCapsule_GetName(obj);
    if (name == NULL && PyErr_Occurred()) {
        return -1;
    }
    box->kind = "a capsule";
    box->address = PyCapsule_GetPointer(obj, name);
    if (box->address == NULL) {
        return -1;
    }
    if (name == NULL) {
        box->unknown = "it has no name";
        nc_text_fail(&box->signature, NC_E_MISSING);
    } else {
        (void)nc_declaration_function(name, strlen(name), &box->signature);
        if (box->signature.status != NC_OK) {
            box->unknown = "its name is not the C declaration of a function";
        }
    }
    return 0;
}

/* Whether a tuple is a LowLevelCallable; one of a SciPy that is no longer in sys.modules is known
 * by the name of its class. 1, 0, or -1 with an exception. */
NC_STATIC int nc_box_is_scipy(PyObject *obj)
{
    PyTypeObject *type;
    int is;
    if (PyTuple_GET_SIZE(obj) != 3 || !PyCapsule_CheckExact(PyTuple_GET_ITEM(obj, 0))) {
        return 0;
    }
    is = nc_box_is(obj, "scipy._lib._ccallback", "LowLevelCallable");
    type = Py_TYPE(obj); /* only now: modules may have a __getattr__, and classes go */
    while (is == 0 && type != NULL) {
        is = strcmp(type->tp_name, "LowLevelCallable") == 0;
        type = type->tp_base;
    }
    return is;
}

/* The raw capsule in a LowLevelCallable: SciPy keeps the user data in its context. The object that
 * it was made of comes next. */
NC_STATIC int nc_box_scipy(PyObject *obj, NcBox *box)
{
    PyObject *capsule = PyTuple_GET_ITEM(obj, 0);
    PyObject *origin = PyTuple_GET_ITEM(obj, 1);
    int is = 0;
    if (nc_box_capsule(capsule, box) < 0) {
        return -1;
    }
    box->kind = "a LowLevelCallable";
    box->user_data = PyCapsule_GetContext(capsule);
    if (box->user_data == NULL && PyErr_Occurred()) {
        return -1;
    }
    /* None: the context is what the inner capsule had, and was not given to be passed on. */
    box->has_user_data = PyTuple_GET_ITEM(obj, 2) != Py_None;
    while (PyTuple_Check(origin) && (is = nc_box_is_scipy(origin)) > 0) {
        origin = PyTuple_GET_ITEM(origin, 1);
    }
    is = is < 0 ? -1 : nc_box_is(origin, "_ctypes", "CFuncPtr");
    return is > 0 ? nc_ctypes_flags(origin, &box->flags) : is;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* What obj itself tells. 1; 0 when it is no box that we know; -1 with an exception. */
NC_STATIC int nc_box_read(PyObject *obj, NcBox *box)
{
    int found = 0;
    if (PyFunction_Check(obj) || PyType_Check(obj)) {
        return 0; /* the commonest callables of all */
    }
    if (PyCapsule_CheckExact(obj)) {
        found = nc_box_capsule(obj, box) < 0 ? -1 : 1;
    } else if (PyTuple_Check(obj)) {
        found = PyTuple_CheckExact(obj) ? 0 : nc_box_is_scipy(obj);
        found = found > 0 && nc_box_scipy(obj, box) < 0 ? -1 : found;
    } else if (PyCFunction_CheckExact(obj)) {
        found = nc_box_cffi_api(obj, box);
    } else if ((found = nc_box_is(obj, "_ctypes", "CFuncPtr")) != 0) {
        found = found < 0 || nc_box_ctypes(obj, box) < 0 ? -1 : 1;
    } else if ((found = nc_box_is(obj, "_cffi_backend", "_CDataBase")) != 0) {
        found = found < 0 ? -1 : nc_box_cffi(obj, box);
    } else if ((found = nc_box_is(obj, "numba.core.ccallback", "CFunc")) != 0) {
        found = found < 0 || nc_box_numba(obj, box) < 0 ? -1 : 1;
    }
    if (found > 0 && nc_text_canonical(&box->signature) != NC_OK && box->unknown == NULL) {
        box->unknown =
            box->signature.why != NULL ? box->signature.why : "one of its types has no signature";
    }
    return found;
}

/* Looks into obj. 1; 0 when it is no box that we know; -1 with an exception. */
NC_STATIC int nc_box_open(PyObject *obj, NcBox *box)
{
    int found;
    memset(box, 0, offsetof(NcBox, signature));
    nc_text_init(&box->signature);
    found = nc_box_read(obj, box);
    if (found > 0 && box->address != NULL && !box->python && nc_box_own_entry(obj, box) < 0) {
        return -1;
    }
    if (found > 0 && box->unknown == NULL && strchr(box->signature.text, 'O') != NULL) {
        box->flags |= NC_FLAG_NEEDS_GIL; /* who has an object, however, needs it */
    }
    return found;
}

NC_C_END

#endif
