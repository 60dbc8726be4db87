/* csrc/callable/library.c: opens shared libraries, and makes native callables for their functions.
 *
 * A library is never unloaded, because its threads, signal handlers and thread-local destructors
 * may run until the process ends.
 *
 * Threads: everything here needs the GIL, and releases it while the loader runs. A Library never
 * changes. On free-threaded builds, a lock guards the list of living ones. */
#include "callinterface.h"
#include "core/core.h"
#include "call/kept.h"
#include "construct.h"

#include "platform/functions.h"
#include "platform/links.h"
#include "platform/lists.h"
#include "platform/lock.h"

#include <string.h>

enum { TEXT = 4096 }; /* bytes for a path or a loader's message */

/* There is only one Library object for each file, however often the file is opened. So `kept` keeps
 * the functions that the library's C code stores alive while any user of the file remains. */
typedef struct Library {
    PyObject_HEAD
    void *handle;         /* the loader's; hidden from Python code */
    PyObject *kept;       /* dict: functions that the library's C code stores (kept.h) */
    struct Library *next; /* list of all living Library objects (platform/links.h) */
    struct Library **from;
} Library;

static Library *living;
static NcLock living_lock;

static void library_dealloc(PyObject *object)
{
    Library *self = (Library *)(void *)object;
    PyObject_GC_UnTrack(object);
    NC_LOCK(&living_lock);
    NC_UNLINK(self);
    NC_UNLOCK(&living_lock);
    Py_XDECREF(self->kept);
    PyObject_GC_Del(object);
}

PyObject *nc_library_kept(PyObject *owner)
{
    PyObject *kept = NULL;
    if (owner != NULL && Py_IS_TYPE(owner, &NcLibrary_Type)) {
        return ((Library *)(void *)owner)->kept;
    }
    if (owner != NULL && PyObject_TypeCheck(owner, (PyTypeObject *)(void *)&NcCallable_Type)) {
        const NcCallable *callable = (const NcCallable *)(void *)owner;
        NC_BEGIN_SECTION(owner);
        PyObject *owners = nc_more(callable)->owners;
        kept = nc_library_kept(owners != NULL ? owners : callable->owner);
        NC_END_SECTION();
        return kept;
    }
    const int is_list = owner != NULL && PyList_Check(owner);
    if (is_list || (owner != NULL && PyTuple_Check(owner))) { /* several owners, or a symbol */
        for (Py_ssize_t i = 0; kept == NULL && i < PySequence_Fast_GET_SIZE(owner); i++) {
            kept = nc_library_kept(PySequence_Fast_GET_ITEM(owner, i));
        }
    }
    return kept;
}

PyObject *nc_library_keeps(PyObject *Py_UNUSED(module), PyObject *owner)
{
    return PyBool_FromLong(nc_library_kept(owner) != NULL);
}

/* No tp_clear: the collector breaks a cycle by clearing the dictionary `kept`. */
static int library_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((Library *)(void *)object)->kept);
    return 0;
}

/* Looks up a symbol without the GIL, because the loader may run the library's code, or wait for a
 * thread that runs such code. */
static int look_up(PyObject *object, const char *name, const char *version, void **address)
{
    void *handle = ((Library *)(void *)object)->handle;
    int status;
    Py_BEGIN_ALLOW_THREADS status = nc_core_library_symbol(handle, name, version, address);
    Py_END_ALLOW_THREADS return status;
}

/* symbol(name, version=None): returns the address of a symbol (bytes), or of one version of the
 * symbol. Returns 0 if there is no such symbol. */
static PyObject *library_symbol(PyObject *object, PyObject *args)
{
    const char *name;
    const char *version = NULL;
    void *address = NULL;
    if (!PyArg_ParseTuple(args, "y|z", &name, &version)) {
        return NULL;
    }
    int status = look_up(object, name, version, &address);
    if (status == NC_E_FORMAT) {
        /* Only loaders with dlvsym, such as glibc's, look up versions. */
        PyErr_SetString(PyExc_NotImplementedError,
                        "this platform does not support symbol versions; omit 'version'");
        return NULL;
    }
    return PyLong_FromVoidPtr(status == NC_OK ? address : NULL);
}

/* function(name, signature, library, class): makes the callable of a function from its signature or
 * call interface, without options. The callable's owner is a tuple of the given class: (this
 * library, library, name, None, None). Raises the error for an invalid signature. Returns None if
 * Python code must handle the arguments or raise the error: for a missing symbol, a name or
 * signature that is not an exact str, or a signature with Python objects. */
static PyObject *library_function(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *name = nargs == 4 ? args[0] : NULL;
    Py_ssize_t length = 0;
    void *address = NULL;
    PyObject *made = NULL;
    if (name == NULL || !PyType_Check(args[3]) ||
        !PyType_IsSubtype((PyTypeObject *)(void *)args[3], &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "function() takes a name, a signature, the library's name "
                                         "and the class of its owner");
        return NULL;
    }
    int known = Py_IS_TYPE(args[1], &NcCallInterface_Type);
    if (!PyUnicode_CheckExact(name) || (!known && !PyUnicode_CheckExact(args[1]))) {
        Py_RETURN_NONE;
    }
    NcCallInterface *cif =
        known ? (NcCallInterface *)(void *)Py_NewRef(args[1]) : nc_callinterface_of(args[1]);
    if (cif == NULL) {
        return NULL;
    }
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (text == NULL) {
        PyErr_Clear(); /* the name has lone surrogates, so no symbol has this name */
    }
    if (text == NULL || cif->has_objects || (Py_ssize_t)strlen(text) != length ||
        look_up(object, text, NULL, &address) != NC_OK || address == NULL) {
        Py_DECREF(cif);
        Py_RETURN_NONE;
    }
    PyObject *owner =
        nc_tuple_as(args[3], PyTuple_Pack(5, object, args[2], name, Py_None, Py_None));
    if (owner != NULL) {
        made = nc_callable_shared(nc_callable_make(cif, address, 0, owner, name));
        Py_DECREF(owner);
    }
    Py_DECREF(cif);
    return made;
}

/* ---- the type -------------------------------------------------------------------------------- */

/* path: the path of the file as bytes; None if the loader does not report the path. */
static PyObject *library_get_path(PyObject *object, void *Py_UNUSED(closure))
{
    char path[TEXT];
    if (nc_core_library_path(((Library *)(void *)object)->handle, path, sizeof path) != NC_OK ||
        path[0] == '\0') {
        Py_RETURN_NONE;
    }
    return PyBytes_FromString(path);
}

static PyMethodDef library_methods[] = {
    {"function", NC_METHOD(library_function), METH_FASTCALL,
     "function(name, signature, library, owner): the callable of a function, or None"},
    {"symbol", library_symbol, METH_VARARGS, "symbol(name, version=None): an address, 0 for none"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef library_getset[] = {
    {"path", library_get_path, NULL, "the file, or None if the loader does not report it", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject NcLibrary_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.Library",
    .tp_doc = "An open shared library; it stays open until the process ends.",
    .tp_basicsize = sizeof(Library),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = library_dealloc,
    .tp_traverse = library_traverse,
    .tp_methods = library_methods,
    .tp_getset = library_getset,
};

/* The base class of nativecall.Library. CPython finds at most 30 names fast in instances of a class
 * that all store their attributes alike ("inline values"). A size of items prevents that, so each
 * instance has a dict of its own, where CPython finds every name fast and without counting. */
typedef struct {
    PyObject_VAR_HEAD PyObject *weakrefs;
} LibraryBase;

static void library_base_dealloc(PyObject *object)
{
    PyObject_ClearWeakRefs(object);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *library_base_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *made = PyType_GenericNew(type, args, kwargs);
    if (made != NULL) {
        NC_SHARE(made);
    }
    return made;
}

PyTypeObject NcLibraryBase_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall.LibraryBase",
    .tp_basicsize = sizeof(LibraryBase),
    .tp_itemsize = 1,
    .tp_weaklistoffset = offsetof(LibraryBase, weakrefs),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_dealloc = library_base_dealloc,
    .tp_new = library_base_new,
};

/* open_library(path, flags): opens the library at a path (bytes), or the process itself for None.
 * Flags are those of nc_core_library_open. Loader errors raise OSError. */
PyObject *nc_open_library(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *path;
    unsigned int flags;
    char message[TEXT] = "";
    const char *name = NULL;
    void *handle = NULL;
    Library *self;
    int status;
    if (!PyArg_ParseTuple(args, "OI", &path, &flags)) {
        return NULL;
    }
    if (path != Py_None) {
        if (!PyBytes_Check(path)) {
            return PyErr_Format(PyExc_TypeError,
                                "the path of a library must be bytes or None (got %.200s)",
                                Py_TYPE(path)->tp_name);
        }
        name = PyBytes_AS_STRING(path);
    }
    Py_BEGIN_ALLOW_THREADS status =
        nc_core_library_open(name, flags, &handle, message, sizeof message);
    Py_END_ALLOW_THREADS if (status != NC_OK)
    {
        PyObject *text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
        if (text != NULL) {
            PyErr_SetObject(PyExc_OSError, text);
            Py_DECREF(text);
        }
        return NULL;
    }
    PyObject *kept = PyDict_New();
    Library *made = kept != NULL ? PyObject_GC_New(Library, &NcLibrary_Type) : NULL;
    if (made == NULL) {
        Py_XDECREF(kept);
        return NULL;
    }
    made->handle = handle;
    made->kept = kept;
    NC_FINDABLE(made);
    PyObject_GC_Track(made);
    NC_LOCK(&living_lock);
    self = living;
    while (self != NULL && !(self->handle == handle && NC_FOUND(self))) {
        self = self->next;
    }
    if (self == NULL) {
        NC_LINK(living, made);
    } else { /* not in the list, or another thread could find it */
        made->next = NULL;
        made->from = &made->next;
    }
    NC_UNLOCK(&living_lock);
    if (self != NULL) {
        Py_DECREF(made);
        return (PyObject *)self;
    }
    return (PyObject *)made;
}
