/* csrc/platform/hooks.h: the Python functions that the core calls.
 *
 * Each is set once, with its neighbours. Those of call interfaces are set by
 * nativecall/_values/callinterface.py, those of native objects by nativecall/_native_objects. All
 * others set themselves: each begins as a function that imports the module of the hook when it is
 * called first (nc_hooks_put_off).
 *
 * Threads: with the GIL, in the interpreter of the package (gil.h). */
#ifndef NC_HOOKS_H
#define NC_HOOKS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

typedef struct {
    /* Of calls and entries: nativecall/_callable/hooks.py. */
    PyObject *thunk_specs;  /* dict with put(key, spec), which keeps a number of them; NULL before
                                 `thunks` was called */
    PyObject *make_wrapper; /* (callable) -> function that makes its calls */
    PyObject *plan;         /* (call interface, fixed arguments or None) -> bytes: its call plan */
    PyObject *extended; /* (call interface, types) -> the call interface of a variadic function with
                                 arguments of these after those that it names */
    PyObject *extra_argument; /* (value, index, name, policies) -> (its type, what is converted) */
    PyObject *failure;        /* (name, convention, result, code): raises what they mean */
    PyObject *specialize;     /* (callable, signature): adds a missing entry if it can be made */
    PyObject *no_entry;       /* (callable, text or None): raises that there is no such entry */
    PyObject *no_overload;    /* (callable, *arguments): raises that no entry takes these */
    PyObject *bridge; /* (name) -> the module that makes the foreign callables of a library */
    PyObject *thunks; /* () -> the module of bind, convert and spec_of (bind.c) */
    /* Of values: nativecall/_callable/arguments.py. */
    PyObject
        *pointer_argument;   /* (ctype, value, who, index) -> (address, object to keep[, Stash]), or
                                (Memory, object to keep) for an array to be taken as a buffer */
    PyObject *pointer_type;  /* (ctype) -> the cffi type that such pointers come back as */
    PyObject *match;         /* (ctype, value, read-only, policies) -> cost of an argument, or -1 */
    PyObject *struct_buffer; /* (ctype, value, format, itemsize) -> whether these are structs */
    PyObject *refuse; /* (call interface, index, value, what messages tell of, its type's name,
                                who, why, letter): raises why a buffer is refused */
    PyObject *passed; /* (ctype, call interface, index) -> None, or of functions that are such
                                arguments (text, Signature, CallbackSpec or None) */
    /* Of values in memory: nativecall/_values/storage.py. */
    PyObject *store;     /* (ctype, value, address, who, keep, read-only, policies): writes any
                                value to memory */
    PyObject *load;      /* (ctype, address, policies) -> the value in memory */
    PyObject *layout;    /* (struct, policies) -> the Layout of such Records */
    PyObject *out_array; /* (ctype, policies) -> what makes arrays (values/outparameters.c) */
    PyObject *out_store; /* (ctype, length, value, address, owner, who, keep, policies): writes
                                what Python passes to the memory of an out-parameter */
    /* Of native objects: nativecall/_native_objects. NULL until these are imported. */
    PyObject *describe_class; /* (name, bases, namespace) -> what a class declares */
    PyObject *publish_class;  /* (class, address of its native one): its descriptors */
    PyObject *view_array;     /* of objects' fields, for NumPy */
    /* The others are there from the beginning. */
    PyObject *describe; /* (Signature, hidden arguments, policies) -> a call interface's parts */
    PyObject *cif_of;   /* (signature in any spelling) -> its call interface */
} NcHooks;

extern NcHooks nc_hooks;

/* Makes the hooks set themselves when they are called: 0, or -1 with an exception. */
int nc_hooks_put_off(void);

#endif
