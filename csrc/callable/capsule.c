/* csrc/callable/capsule.c: the capsules of capsule.h. */
#include "capsule.h"

#include "platform/address.h"

#include <string.h>

/* The name and the owner of a capsule in one block, which its name leads to. Not the capsule's
 * context: SciPy hands that to the function as its user_data. Only a capsule without a name, which
 * SciPy refuses, has it there. */
typedef struct {
    PyObject *owner; /* kept alive by the capsule */
    char name[1];    /* the capsule's name, as long as it needs to be */
} NamedOwner;

static NamedOwner *block_of(PyObject *capsule)
{
    const char *name = PyCapsule_GetName(capsule);
    if (name == NULL) {
        return (NamedOwner *)PyCapsule_GetContext(capsule);
    }
    return (NamedOwner *)(uintptr_t)(name - offsetof(NamedOwner, name));
}

static void capsule_free(PyObject *capsule)
{
    NamedOwner *block = block_of(capsule);
    Py_DECREF(block->owner);
    PyMem_Free(block);
}

/* No other capsule has the destructor. */
int nc_capsule_is_ours(PyObject *object)
{
    return PyCapsule_CheckExact(object) && PyCapsule_GetDestructor(object) == capsule_free;
}

PyObject *nc_capsule_new(void *pointer, const char *name, size_t length, PyObject *owner)
{
    NamedOwner *block = (NamedOwner *)PyMem_Malloc(sizeof(NamedOwner) + length);
    if (block == NULL) {
        return PyErr_NoMemory();
    }
    memcpy(block->name, name, length);
    block->name[length] = '\0';
    PyObject *made = PyCapsule_New(pointer, length != 0 ? block->name : NULL, NULL);
    if (made == NULL || (length == 0 && PyCapsule_SetContext(made, block) < 0) ||
        PyCapsule_SetDestructor(made, capsule_free) < 0) {
        PyMem_Free(block);
        Py_XDECREF(made);
        return NULL;
    }
    block->owner = Py_NewRef(owner);
    return made;
}

PyObject *nc_capsule_owner(PyObject *capsule)
{
    return block_of(capsule)->owner;
}

/* capsule(address, name, owner): a PyCapsule named `name` (bytes). */
PyObject *nc_capsule(PyObject *Py_UNUSED(module), PyObject *args)
{
    void *pointer;
    PyObject *owner;
    const char *name;
    Py_ssize_t length;
    return PyArg_ParseTuple(args, "O&y#O", nc_take_address, &pointer, &name, &length, &owner)
               ? nc_capsule_new(pointer, name, (size_t)length, owner)
               : NULL;
}

/* capsule_entry(capsule), METH_O: the callable of one entry that a capsule of nc_capsule owns, if
 * its function is the one that the capsule holds; else None. */
PyObject *nc_capsule_entry(PyObject *Py_UNUSED(module), PyObject *made)
{
    PyObject *owner = nc_capsule_is_ours(made) ? block_of(made)->owner : NULL;
    const PyNativeCallableTable *table;
    if (owner == NULL || !PyObject_TypeCheck(owner, (PyTypeObject *)&NcCallable_Type)) {
        Py_RETURN_NONE;
    }
    table = ((NcCallable *)(void *)owner)->calls;
    return Py_NewRef(nc_calltable_count(table) == 1 &&
                             nc_calltable_funcptr(&table->entries[0]) ==
                                 PyCapsule_GetPointer(made, PyCapsule_GetName(made))
                         ? owner
                         : Py_None);
}
