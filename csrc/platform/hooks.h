/* csrc/platform/hooks.h: the Python functions that the core calls.
 *
 * Hooks are set once, group by group. nativecall/_values/callinterface.py sets the hooks of call
 * interfaces, and nativecall/_native_objects sets the hooks of native objects. All others are set
 * on demand: each begins as a function that imports the hook's module at its first call
 * (nc_hooks_put_off).
 *
 * Threads: everything here needs the GIL, in the package's interpreter (gil.h). A hook is replaced
 * once, atomically, and the placeholder stays alive. Read hooks with NC_HOOK. */
#pragma once

#include "nativecall/detail/core/base.h"
#include <Python.h>

typedef struct {
    /* Calls and entries: nativecall/_callable/hooks.py. */
    PyObject *thunk_specs;  /* bounded cache, a dict with put(key, spec); NULL until
                               nativecall._callable.hooks is imported */
    PyObject *make_wrapper; /* (callable) -> function that makes its calls */
    PyObject *plan;         /* (call interface, fixed arguments or None) -> bytes: its call plan */
    PyObject *extended; /* (call interface, types) -> the call interface of a variadic function with
                           additional arguments of these types */
    PyObject *extra_argument; /* (value, index, name, policies) -> (its type, value to convert) */
    PyObject *failure;        /* (name, convention, result, code): raises the failure's exception */
    PyObject *specialize;     /* (callable, signature): adds a missing entry if it can be made */
    PyObject *no_entry;       /* (callable, text or None): raises NoEntryError */
    PyObject *no_overload;    /* (callable, *arguments): raises the TypeError for no match */
    /* Values: nativecall/_callable/arguments.py. */
    PyObject *pointer_argument; /* (ctype, value, who, index, call interface) -> (address, object to
                                keep[, Stash]); for an array without a buffer, (Memory, object to
                                keep) */
    PyObject *pointer_type;     /* (ctype) -> the cffi type of pointer results of this type */
    PyObject *match;         /* (ctype, value, read-only, policies) -> cost of an argument, or -1 */
    PyObject *struct_buffer; /* (ctype, value, format, itemsize) -> whether the items are
                                structs of this ctype */
    PyObject *refuse; /* (call interface, index, value, the object that messages name, the name of
                         that object's type, who, why, letter): raises the error for a refused
                         buffer */
    PyObject *passed; /* (ctype, call interface, index) -> (text, Signature, CallbackSpec or None)
                         if the argument is a function; else None */
    /* Values in memory: nativecall/_values/storage.py. */
    PyObject *store;     /* (ctype, value, address, who, keep, read-only, policies): writes any
                                value to memory */
    PyObject *load;      /* (ctype, address, policies) -> the value in memory */
    PyObject *layout;    /* (struct, policies) -> the Layout of its Records */
    PyObject *out_array; /* (ctype, policies) -> a function that makes arrays
                            (values/outparameters.c) */
    PyObject *out_store; /* (ctype, length, value, address, owner, who, keep, policies): writes the
                            value that Python passes to an out-parameter's memory */
    /* Native objects: nativecall/_native_objects. NULL until that package is imported. */
    PyObject *describe_class; /* (name, bases, namespace) -> the class's declarations */
    PyObject *publish_class;  /* (class, address of its NcClass) -> dict of attributes */
    PyObject *view_array;     /* (array, name, address in the first object, code or None, class that
                                 defines the field) -> NumPy view of the field in all objects */
    /* Set when the package is imported. */
    PyObject *describe; /* (Signature, hidden arguments, policies) -> a call interface's parts */
    PyObject *cif_of;   /* (signature in any spelling) -> its call interface */
} NcHooks;

extern NcHooks nc_hooks;
#define NC_HOOK(name) ((PyObject *)nc_load_acquire_ptr(&nc_hooks.name))

/* Installs placeholders that import the real hooks at their first call. Returns 0, or -1 with an
 * exception. */
int nc_hooks_put_off(void);
