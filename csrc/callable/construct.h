/* csrc/callable/construct.h: makes native callables, and adds entries and owners to them.
 *
 * A callable of one entry takes 192 bytes on 64-bit platforms. Rarely used fields (layout.h,
 * NcMore) are allocated on demand.
 *
 * Threads: everything here needs the GIL. Readers of the tables need no lock (calltable.h). */
#pragma once

#include "layout.h"

/* The class of new callables: nativecall.NativeCallable, or its base class until NativeCallable is
 * created. Lives as long as the process. */
extern PyTypeObject *nc_callable_class;

/* The type's tp_new: a callable without entries. */
PyObject *nc_callable_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);

/* Frees the tables and publishes empty ones. No reader may be left. */
void nc_callable_clear_tables(NcCallable *self);

/* Keeps an owner alive as long as the callable lives, and makes it the last of the owners. An owner
 * that is already in the list is moved, not added. None is recorded only if another owner was
 * recorded before. Returns -1 with an exception on failure. */
int nc_callable_own(NcCallable *self, PyObject *owner);
/* Sets the name and doc of a new callable; either may be NULL. Returns -1 with an exception on
 * failure. */
int nc_callable_say(NcCallable *self, PyObject *name, PyObject *doc);

/* Moves the tables out of the object. Call this before you make a view or add a second entry.
 * Returns -1 with an exception on failure. */
int nc_callable_move_tables(NcCallable *self);

/* nc_callable_append adds an entry to both tables. nc_callable_change points an entry to another
 * function. They return -1 with an exception on failure; readers then see the old tables. */
int nc_callable_append(NcCallable *self, const NcCallInterface *cif, uintptr_t flags, void *target);
int nc_callable_change(NcCallable *self, Py_ssize_t position, void *target);

/* Whether calls from Python go through Python functions named after their targets
 * (nativecall/_callable/trace.py). Set once, before there are callables. */
extern int nc_calls_traced;

/* Adds the first entry to an empty callable. Returns -1 with an exception on failure. */
int nc_callable_begin(NcCallable *self, NcCallInterface *cif, void *target, uintptr_t flags,
                      PyObject *owner);

/* Lets threads share a callable or its view (NC_SHARE), which may then end late, unless it frees
 * something. Returns it; NULL stays NULL. */
PyObject *nc_callable_shared(PyObject *made);

/* Makes a callable of one entry; the name may be NULL. Returns NULL with an exception on
 * failure. */
PyObject *nc_callable_make(NcCallInterface *cif, void *target, uintptr_t flags, PyObject *owner,
                           PyObject *name);

/* Makes a callable of one entry that derives from `self`: an overload or a thunk. The new callable
 * gets the doc of `self` and, if `name` is NULL, the name of `self`. Returns NULL with an exception
 * on failure. */
PyObject *nc_callable_derive(NcCallable *self, NcCallInterface *cif, void *target, uintptr_t flags,
                             PyObject *owner, PyObject *name);

/* Makes a new callable with the entry that `single` has now. Returns NULL with an exception on
 * failure. */
PyObject *nc_callable_alone(NcCallable *single);

/* Call this for `made`, a callable derived from a native method. `made` then accepts the same
 * objects as its first argument, and owns their class. Takes over and returns `made`, which may be
 * NULL. Returns NULL with an exception on failure. */
PyObject *nc_callable_share_self(const NcCallable *method, PyObject *made);

/* Module functions, METH_FASTCALL. */
PyObject *nc_wrapped(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
