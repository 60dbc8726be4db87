/* csrc/callable/callbackspec.h: what all callbacks of a signature and of the same options share:
 * where C has the arguments and the result, how both are converted, and what C gets when there is
 * none. Its counterpart for calls from Python is the call spec (layout.h).
 *
 * Made once by Python code, and never changed. */
#ifndef NC_CALLBACKSPEC_H
#define NC_CALLBACKSPEC_H

#include "layout.h"

typedef struct NcPyCallback NcPyCallback;         /* pycallback.h */
typedef struct NcPyCallbackCall NcPyCallbackCall; /* the same */

typedef struct {
    PyObject_HEAD
    int (*enter)(NcPyCallback *, NcPyCallbackCall *, void *out); /* by what is known of the GIL: 1;
                                or 0 with the sentinel in `out`, and the callback may be gone.
                                Set with the first callback */
    PyObject *readers;  /* tuple: for each argument that is no number the call spec of a function
                               that returns it, or what makes an object of it */
    PyObject *objects;  /* tuple: offsets of Python objects in the result */
    NcCallSpec *result; /* has the result as its only argument; NULL for none and objects */
    PyObject *planned;  /* bytes: the closure plan */
    const struct NcClosurePlan *plan; /* the same (call/plan.h) */
    void *sentinel;                   /* what C gets when there is no result; owned */
    size_t size;                      /* its bytes */
    PyObject *keep;                   /* what the sentinel points to; or NULL */
    char letter;                      /* of the result */
    char has_gil;                     /* 1: C code was said to have the GIL when it calls */
    char python_errors; /* 1: exceptions stay set also where there is no call from Python */
    char frees;         /* 1: it takes a pointer and returns nothing, as what C frees memory by */
    char passed;        /* 1: callbacks are passed to a call, and have its stash */
    char kept;          /* 1: C keeps them, and with them the functions that they return */
    char sets_errno;    /* 1: a failure sets errno, and an OSError is told by that alone */
} NcCallbackSpec;

extern PyTypeObject NcCallbackSpec_Type;

#endif
