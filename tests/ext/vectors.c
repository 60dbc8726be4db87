/* tests/ext/vectors.c: what readers of each kind make of objects, and static types of any rows.
 *
 * A shared library, no module: tests/support/vectors.py opens it. */
#define NC_PROVIDER "vectors"
#include <Python.h>

#include <nativecall/extensibletype.h>
#include <nativecall/nativeapi.h>
#include <nativecall/nativecall_abi.h>
#include <nativecall/nativecallable.h>

/* Whether the handshake accepts what a module offers. */
PyObject *vec_runtime(PyObject *module)
{
    const int suits = nc_runtime_accept(module) != NULL;
    if (!suits && !PyErr_ExceptionMatches(PyExc_ImportError)) {
        return NULL;
    }
    PyErr_Clear();
    return PyBool_FromLong(suits);
}

/* Whether nativecall_abi.h does, where that module is in sys.modules. */
PyObject *vec_look_runtime(void)
{
    return PyBool_FromLong(nc_abi_intern("d:d") != NULL);
}

/* Whether a slot of the type of an object leads anywhere in it, for nativecall_abi.h. */
PyObject *vec_leads(PyObject *obj, size_t id)
{
    (void)nc_abi_intern("d:d");
    return PyBool_FromLong(nc_abi_table(obj, id) != (const void *)&nc_abi_nothing);
}

/* Whether something else is behind a built-in function. */
PyObject *vec_behind(PyObject *obj)
{
    return PyBool_FromLong(nc_abi_behind(obj) != obj);
}

/* What every second-tier interface finds here, whatever it is asked. */
static const PyNativeCallableEntry *offered;

const PyNativeCallableEntry *vec_offered(PyObject *Py_UNUSED(obj), const char *Py_UNUSED(signature),
                                         uintptr_t Py_UNUSED(refuse))
{
    return offered;
}

/* The address of an object's second-tier interface, or None. */
PyObject *vec_api(PyObject *obj)
{
    const NcNativeApi *api;
    if (nc_nativeapi_of(obj, &api) < 0) {
        return NULL;
    }
    return api != NULL ? PyLong_FromVoidPtr((void *)(uintptr_t)api) : Py_NewRef(Py_None);
}

/* Whether an object whose interface offers this entry, or NULL, has it for a reader. */
PyObject *vec_ask(PyObject *obj, const char *signature, Py_ssize_t refuse,
                  const PyNativeCallableEntry *entry)
{
    const PyNativeCallableEntry *found;
    offered = entry;
    if (nc_nativeapi_find(obj, signature, (uintptr_t)refuse, &found) < 0) {
        return NULL;
    }
    return PyBool_FromLong(found != NULL);
}

/* The same by nativecall_abi.h, for which a wrong interface is none. */
PyObject *vec_look(PyObject *obj, const char *signature, Py_ssize_t refuse,
                   const PyNativeCallableEntry *entry)
{
    offered = entry;
    return PyBool_FromLong(nc_abi_ask(obj, signature, (uintptr_t)refuse) != NULL);
}

static PyObject *call(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(args),
                      PyObject *Py_UNUSED(kwargs))
{
    Py_RETURN_NONE;
}

static PyObject *call_otherwise(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return call(self, args, kwargs);
}

/* A static type, which lives for ever. `rows` is a tuple of tuples (id, flags, data); `calls` is 0
 * for no tp_call, or 1 or 2 for one of two functions. */
PyObject *vec_type(const char *name, PyObject *bases, PyObject *rows, Py_ssize_t room,
                   Py_ssize_t offset, int calls)
{
    PyHeapExtensibleTypeObject *made =
        (PyHeapExtensibleTypeObject *)PyMem_Calloc(1, sizeof(PyHeapExtensibleTypeObject));
    PyCustomSlot *slots = (PyCustomSlot *)PyMem_Calloc((size_t)room + 1, sizeof(PyCustomSlot));
    char *kept = (char *)PyMem_Malloc(strlen(name) + 1);
    PyTypeObject *type = (PyTypeObject *)(void *)made;
    Py_ssize_t i;
    if (made == NULL || slots == NULL || kept == NULL) {
        return PyErr_NoMemory();
    }
    for (i = 0; i < PyTuple_GET_SIZE(rows); i++) {
        unsigned long long words[3];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(rows, i), "KKK", &words[0], &words[1], &words[2])) {
            return NULL;
        }
        slots[i].id = (uintptr_t)words[0];
        slots[i].flags = (uint64_t)words[1];
        slots[i].data.objoffset = (intptr_t)words[2];
    }
    Py_SET_REFCNT((PyObject *)type, 1);
    type->tp_name = strcpy(kept, name);
    type->tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type->tp_new = PyType_GenericNew;
    type->tp_call = calls == 1 ? call : calls == 2 ? call_otherwise : NULL;
    Py_INCREF(bases);
    type->tp_bases = bases;
    type->tp_base = (PyTypeObject *)(void *)PyTuple_GET_ITEM(bases, 0);
    made->etp_custom_slots = room != 0 ? NC_STATIC_SLOTS(slots) : NULL;
    made->etp_obj_custom_slots_offset = offset;
    if (PyExtensibleType_Ready(made, room) < 0) {
        return NULL;
    }
    Py_INCREF(type);
    return (PyObject *)type;
}
