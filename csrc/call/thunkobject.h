/* csrc/call/thunkobject.h: thunks as Python objects. A Thunk owns a C function that calls another C
 * function. Thunks with the same signature and conversion share a ThunkSpec.
 *
 * Python code (_callable/thunk.py) makes a ThunkSpec once for a signature and a conversion. The
 * spec never changes, and may have millions of Thunks. A Thunk is the context of its stub
 * (platform/stub.h). So generated code reads the function and the bound values from the Thunk, and
 * needs no other memory. call/convert.c also reads the conversion, which it finds through the spec.
 *
 * Threads: everything here needs the GIL, except calls of a thunk. The data that a call reads is
 * complete before the C function pointer is published, and does not change while the Thunk lives. A
 * call that is running when the last reference is dropped may still read this data. So the memory,
 * the code and the name stay until 256 more thunks have ended. */
#pragma once

#include "layout.h"

/* A bound argument. */
typedef struct {
    Py_ssize_t index;
    size_t offset; /* of the bound value, from the start of the Thunk */
} NcPlace;

typedef struct {
    PyObject_VAR_HEAD           /* number of places */
        NcCallInterface *inner; /* of the inner function, without its check */
    NcCallInterface *wanted;    /* of the requested signature; NULL if values are bound */
    NcCallInterface *outer;     /* of the thunk, without the check */
    PyObject *helper;           /* a Python object with methods store, maker and pickled */
    void *code;                 /* the code of stubs; NULL if the function's own pointer is used */
    const struct NcConversion *conversion; /* the conversion that `code` executes (call/plan.h), or
                                              NULL */
    PyObject *code_owner;                  /* owns `code` or `conversion` */
    uintptr_t flags;                       /* of the thunk's entry */
    size_t bytes;                          /* of a Thunk's values and tuple */
    size_t kept;                           /* offset of the Thunk's tuple; 0 for none */
    unsigned stack; /* estimate of the C stack that a call uses, with nested thunks */
    char lasts; /* 0: do not cache; memory was short, and a spec made later may have better code */
    NcPlace places[1];
} NcThunkSpec;

typedef struct {
    PyObject_VAR_HEAD       /* bytes of values */
        PyObject *function; /* the inner callable; after the Thunk has ended, the callable's name */
    NcThunkSpec *spec;
    void *pointer; /* the C function pointer; owned if it is a stub */
    void *target;  /* the inner C function */
    /* The bound values follow; if there are none, the address of nc_symbols follows. After them
     * comes a tuple, if the spec needs one. The tuple keeps the bound values that cannot be read
     * back from memory, and the targets of pointers. */
} NcThunk;

extern PyTypeObject NcThunkSpec_Type;
extern PyTypeObject NcThunk_Type;

/* Makes a thunk of a function whose current target is `target`. For each place of the spec,
 * values[index] is bound as argument `index`. Returns NULL with an exception if a value does not
 * fit, or the system refuses stubs. */
NcThunk *nc_thunk_new(NcCallable *function, NcThunkSpec *spec, void *target,
                      PyObject *const *values);

/* The C stack that a call of a function needs for all nested thunks. */
unsigned nc_thunk_stack(const NcCallable *function);
