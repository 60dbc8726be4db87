/* csrc/call/thunkobject.h: thunks as objects: what owns a C function that calls another one,
 * and what all that do the same share.
 *
 * A ThunkSpec is worked out once by Python code (_callable/thunk.py) for a signature and what is
 * wanted of it, and never changed. A Thunk is made of one by the million: it is the context of its
 * stub (platform/stub.h), so generated code, or call/convert.c, reads the function to call and the
 * values that are bound where they are in it, and no other memory is needed.
 *
 * Threads: everything here needs the GIL, calls of a thunk nothing: what they read is complete
 * before the C function pointer is handed out, and not written while the Thunk lives. A call that
 * is under way when the last reference goes may still read it, so the memory, the code and the name
 * stay until 256 others have come to their end. */
#ifndef NC_THUNKOBJECT_H
#define NC_THUNKOBJECT_H

#include "layout.h"

/* An argument that is bound. */
typedef struct {
    Py_ssize_t index;
    size_t offset; /* of its value, from the start of the Thunk */
} NcPlace;

typedef struct {
    PyObject_VAR_HEAD           /* of `places` */
        NcCallInterface *inner; /* of the function that is called, but for its check */
    NcCallInterface *wanted; /* of the signature that was asked for; NULL where values are bound */
    NcCallInterface *outer;  /* of the thunk, but for the same check */
    PyObject *helper;        /* Python's: store(…), maker(…) and pickled(…) */
    void *code;              /* what stubs lead to; NULL where the function's own pointer does */
    const struct NcConversion *conversion; /* what that carries out (call/plan.h), or NULL */
    PyObject *code_owner;                  /* keeps both in memory */
    uintptr_t flags;                       /* of the thunk's entry */
    size_t bytes;                          /* of values, in all */
    size_t kept;                           /* where the Thunk has its tuple; 0 for none */
    unsigned stack; /* about how much of the C stack a call takes, with thunks below it */
    char lasts;     /* 1 unless memory was short, and the code may come yet */
    NcPlace places[1];
} NcThunkSpec;

typedef struct {
    PyObject_VAR_HEAD       /* bytes of values */
        PyObject *function; /* the callable that is called; once the Thunk has ended its name */
    NcThunkSpec *spec;
    void *pointer; /* the C function pointer; of a stub its own */
    void *target;  /* the C function that is called */
    /* Values follow, or else nc_symbols; then a tuple of what was bound and is not read back from
       there, and of what pointers point into, where the spec says so. */
} NcThunk;

extern PyTypeObject NcThunkSpec_Type;
extern PyTypeObject NcThunk_Type;

/* The thunk of a function that is `target` by now, with values[i] bound as argument i for each
 * place of the spec. NULL with an exception: a value does not fit, or nothing makes such
 * pointers. */
NcThunk *nc_thunk_new(NcCallable *function, NcThunkSpec *spec, void *target,
                      PyObject *const *values);

/* How much of the C stack a call of a function takes for the thunks that it is made of. */
unsigned nc_thunk_stack(const NcCallable *function);

#endif
