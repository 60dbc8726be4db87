/* csrc/callback/callback.h: Python functions as C function pointers: what generated code, the
 * closures that nativecall/_codegen/callback.py writes, works with.
 *
 * Idea. A stub (stub.h) leads C code to the closure of a signature's shape and to an NcClosure, the
 * object that knows the Python function. The closure makes Python objects of the arguments. All
 * that does not depend on their types is here:
 *
 *     if (!self->enter(self, &call, &result)) return result;
 *     args[1] = nc_closure_float(self, x);
 *     nc_closure_run(self, &call, args, 1, &result);
 *     return result;
 *
 * Where no code can be generated, ctypes makes the C pointer and calls the NcClosure as a Python
 * object; the same functions see to the same results and the same errors.
 *
 * Exceptions. When the function raises, whatever it is, or its result does not convert, C gets the
 * sentinel. The exception goes to one place, the first of these that there is:
 *
 *   1. the stash of the call from Python that the function was passed to (exceptions.h); further
 *   calls
 *      of the function give the sentinel at once
 *   2. the thread state, where it stays set, if some call from Python is under way in
 *      this thread, or the C code is told to expect that; further closures give their sentinels at
 *      once while it is set
 *   3. sys.unraisablehook, with the function as the object
 *
 * An exception that C code had set itself is put aside during the call. It is the one that stays.
 *
 * Objects. Arguments are borrowed from C, in structs too; the Python function gets references of
 * its own. Results are C's: each object in one, a sentinel included, comes with a new reference.
 *
 * Where the C stack has no room for a call (stack.h), that is the exception, and nothing runs.
 *
 * Life. A call that runs holds a reference, so the function may close or delete what it was called
 * by. If that was the last reference, the machine code still has to return, and nothing tells when
 * it has. So it stays in memory from then on: one piece of code for each shape that this happened
 * to.
 *
 * While Python shuts down, threads that would have to take the GIL get the sentinel. An NcClosure
 * that dies then leaves its memory and its code to them.
 *
 * Threads. C code calls in any thread, also one that Python has never seen. What is in an NcClosure
 * is read and changed with the GIL, but for `enter` and `symbols`, which never change. Code that
 * the last reference to a closure goes with in another thread, just when the last call has left
 * Python and is about to return, stays mapped: nativecall/_codegen/callback.py forgets it much
 * later. */
#ifndef NC_CLOSURE_H
#define NC_CLOSURE_H

#include "values/pointers.h"

#include "nativecall/detail/callbackcalls.h"

/* One call, in the frame of the closure. */
typedef struct {
    int ending;           /* what its end has to see to besides: NC_CLOSURE_... */
    PyGILState_STATE gil; /* what PyGILState_Ensure returned */
    NcRaised before;      /* what the C code had raised */
} NcClosureCall;

enum {
    NC_CLOSURE_GIVE_UP = 1, /* the thread state had been given up, and will be again */
    NC_CLOSURE_RELEASE = 2, /* PyGILState_Ensure made one instead */
    NC_CLOSURE_RESTORE = 4  /* an exception in `before` */
};

typedef struct NcClosure NcClosure;

#define NC_CLOSURE_SPARES 4

struct NcClosure {
    PyObject_HEAD
    vectorcallfunc vectorcall; /* as ctypes calls it */
    void *const *symbols;      /* what generated code refers to (symbols.c) */
    int (*enter)(NcClosure *, NcClosureCall *, void *out); /* by what is known of the GIL: 1; or 0
                                with the sentinel in `out`, and the closure may be gone */
    void *sentinel;     /* what C gets when there is no result; owned */
    size_t size;        /* its bytes */
    PyObject *objects;  /* tuple: offsets of Python objects in the result */
    PyObject *function; /* NULL once closed */
    PyObject *name;     /* str: what the function is called in messages */
    PyObject *who;      /* str: begins messages on the result */
    PyObject *record;   /* stores the usual values of a struct result; or NULL */
    PyObject *readers;  /* tuple: for each argument that is no number, what makes an object of it */
    PyObject
        *writer; /* (value, address, keep): stores a struct; with ctypes (self, value) -> object */
    PyObject *for_ctypes; /* with ctypes: tuple of the sentinel as ctypes takes it, and the class of
                             a result that holds a reraiser, or None; else NULL */
    Py_ssize_t running;   /* with ctypes: calls that run */
    NcPlan *plan;    /* has the result as its only argument; NULL for none and Python objects */
    PyObject *stash; /* an NcStash; or NULL */
    PyObject *kept;  /* what the last result points into, or the list of all; or NULL */
    PyObject *machine_code; /* keeps it in memory; NULL with ctypes */
    PyObject *keep;         /* lives as long, for what the sentinel points to; or NULL */
    void *stub;             /* the C function pointer; owned; NULL with ctypes */
    PyObject *spares[NC_CLOSURE_SPARES]; /* floats that nobody else holds, for arguments */
    size_t spare_count;
    char code;          /* letter of the result */
    int stays;          /* 1: exceptions stay set also where there is no call from Python */
    PyObject *weakrefs; /* weak references to this object */
};

extern PyTypeObject NcClosure_Type;

/* Calls the function with args[1] to args[count] and drops these, which may be NULL after an
 * exception; args[0] is for the callee to use. Writes the C result, or the sentinel, and ends the
 * call. */
void nc_closure_run(NcClosure *self, NcClosureCall *call, PyObject **args, size_t count, void *out);

/* A float. A new reference, or NULL. */
PyObject *nc_closure_float(NcClosure *self, double number);

/* The object for argument `index`, which is given as its value where it is a pointer, else as its
 * address. A new reference, or NULL. */
PyObject *nc_closure_argument(NcClosure *self, size_t index, void *given);

/* Types; -1 with an exception. */
int nc_closure_ready(PyObject *module);

#endif
