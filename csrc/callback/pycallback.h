/* csrc/callback/pycallback.h: Python functions as C function pointers: what generated code, the
 * callbacks that nativecall/_codegen/callback.py writes, works with.
 *
 * Idea. A stub (stub.h) leads C code to the callback of a signature's shape and to an NcPyCallback,
 * the object that knows the Python function. The callback makes Python objects of the arguments.
 * All that does not depend on their types is here:
 *
 *     if (!self->spec->enter(self, &call, &result)) return result;
 *     args[1] = nc_pycallback_float(x);
 *     nc_pycallback_run(self, &call, args, 1, &result);
 *     return result;
 *
 * Where no code can be generated, ctypes makes the C pointer and calls the NcPyCallback as a Python
 * object; the same functions see to the same results and the same errors.
 *
 * Exceptions. When the function raises, whatever it is, or its result does not convert, C gets the
 * sentinel. ground/exceptions.h says where the exception goes; a report has the function as its
 * object.
 *
 * Objects. Arguments are borrowed from C, in structs too; the Python function gets references of
 * its own. Results are C's: each object in one, a sentinel included, comes with a new reference.
 *
 * Where the C stack has no room for a call (stack.h), that is the exception, and nothing runs.
 *
 * errno belongs to C: a call leaves it as it was, unless the Python function called set_errno().
 *
 * Life. A call that runs holds a reference, so the function may close or delete what it was called
 * by. If that was the last reference, the machine code still has to return, and nothing tells when
 * it has. So it stays in memory from then on: one piece of code for each shape that this happened
 * to.
 *
 * While Python shuts down, threads that would have to take the GIL get the sentinel. An
 * NcPyCallback that dies then leaves its memory and its code to them.
 *
 * Threads. C code calls in any thread, also one that Python has never seen. What is in an
 * NcPyCallback is read and changed with the GIL, but for `symbols` and `spec`, which never change.
 * Another thread may drop the last reference just when the last call has left Python and is about
 * to return: the code is still there then, because nativecall/_codegen/callback.py forgets code
 * much later. */
#ifndef NC_PYCALLBACK_H
#define NC_PYCALLBACK_H

#include "callbackspec.h"
#include "ground/gil.h"
#include "object/failure.h"
#include "values/pointers.h"

#include "nativecall/detail/callbackcalls.h"

#include <errno.h>

/* One call, in the frame of the callback. */
struct NcPyCallbackCall {
    int ending;       /* how it acquired the GIL (ground/gil.h), and what its end has to see to
                         besides: NC_PYCALLBACK_...; how it ended */
    int error_number; /* errno for C */
    int *outer;       /* that of the callback outside of this one */
    NcRaised before;  /* what the C code had raised */
};

enum {
    NC_PYCALLBACK_ACQUIRED = NC_GIL_RESTORED | NC_GIL_ENSURED,
    NC_PYCALLBACK_RESTORE = 4, /* an exception in `before` */
    NC_PYCALLBACK_FAILED = 8   /* nothing: it has ended, and C got the sentinel */
};

struct NcPyCallback {
    PyObject_HEAD
    void *const *symbols; /* what generated code refers to (symbols.c) */
    NcCallbackSpec *spec;
    PyObject *function; /* NULL once closed */
    PyObject *names;    /* str: what the function is called in messages; or a tuple of that and what
                           begins messages on the result, a str or a name and an index of an
                           argument; since the first of them name, str, the names before, None */
    PyObject *kept;     /* what the last result points into, or NULL; of one that was passed to a
                           call a list, of that call's stash and of what all results point into */
    void *stub;         /* the C function pointer; owned; NULL with ctypes */
};

/* Calls the function with args[1] to args[count] and drops these, which may be NULL after an
 * exception; args[0] is for the callee to use. Writes the C result, or the sentinel, and ends the
 * call. */
void nc_pycallback_run(NcPyCallback *self, NcPyCallbackCall *call, PyObject **args, size_t count,
                       void *out);

/* A float. A new reference, or NULL. */
PyObject *nc_pycallback_float(double number);

/* The object for argument `index`, which is given as its value where it is a pointer, else as its
 * address. A new reference, or NULL. */
PyObject *nc_pycallback_argument(NcPyCallback *self, size_t index, void *given);

/* What was made of argument `index`. Where that failed since text does not decode, the exception
 * has a note that says which argument of which function that is. */
PyObject *nc_pycallback_noted(const NcPyCallback *self, size_t index, PyObject *made);

/* ---- for the object, and for what ctypes calls ----------------------------------------------- */

/* What begins and ends a call, outside of all else. */
static inline void nc_pycallback_errno_take(NcPyCallbackCall *call)
{
    call->error_number = errno;
    call->outer = nc_errno_of_callback;
    nc_errno_of_callback = &call->error_number;
}

static inline void nc_pycallback_errno_give(const NcPyCallbackCall *call)
{
    nc_errno_of_callback = call->outer;
    errno = call->error_number;
}

/* Sets `enter` of a spec. */
void nc_pycallback_set_enter(NcCallbackSpec *spec);

/* What the function is called in messages, a borrowed str. */
static inline PyObject *nc_pycallback_name(const NcPyCallback *self)
{
    return PyTuple_Check(self->names) ? PyTuple_GET_ITEM(self->names, 0) : self->names;
}

/* The stash of the call that the function was passed to, or NULL. */
static inline NcStash *nc_pycallback_stash(const NcPyCallback *self)
{
    return self->spec->passed && self->kept != NULL
               ? (NcStash *)(void *)PyList_GET_ITEM(self->kept, 0)
               : NULL;
}

/* Whether the call that the function was passed to fails already, with what it raised in a thread
 * where no Python code waits. */
int nc_pycallback_has_failed(const NcPyCallback *self);
/* Raises RecursionError. */
void nc_pycallback_too_deep(const NcPyCallback *self);
/* What a report names: the function, or its name once closed. */
PyObject *nc_pycallback_reported_as(const NcPyCallback *self);
/* Finds the place for the exception that is set; a new reference to what is to be left in the
 * thread, or NULL. `holding`: C called with the GIL. */
PyObject *nc_pycallback_place_exception(NcPyCallback *self, int has_before, int holding);

/* Calls the function with args[1] to args[count]; a new reference, or NULL. */
PyObject *nc_pycallback_call(NcPyCallback *self, PyObject **args, size_t count);
/* An object that C gave as an argument: a new reference; NULL with an exception where C gave
 * NULL. */
PyObject *nc_pycallback_object_argument(const NcPyCallback *self, size_t index, PyObject *given);
/* Writes what the function returned as the C result, whatever it is. 0, or -1. */
int nc_pycallback_store(NcPyCallback *self, PyObject *value, void *out);

/* Gives C references of its own to the objects in the sentinel, which becomes its result. */
void nc_pycallback_reference_sentinel(const NcPyCallback *self);
/* Drops these references again, where that was the last sentinel that C got in this thread and C's
 * result is lost; ctypes gives none with an exception. */
void nc_pycallback_release_sentinel(const NcPyCallback *self);
/* Forgets which sentinel was the last, before a call that may release one. */
void nc_pycallback_forget_sentinels(void);

#endif
