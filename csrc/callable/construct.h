/* csrc/callable/construct.h: makes native callables, and gives them entries and owners.
 *
 * A callable of one entry takes 192 bytes on 64 bits: what is seldom used (layout.h, NcMore) is
 * allocated when there is something to put there.
 *
 * Threads: everything here needs the GIL. Readers of the tables need nothing (calltable.h). */
#ifndef NC_CONSTRUCT_H
#define NC_CONSTRUCT_H

#include "layout.h"

/* The class of the callables that are made here: nativecall.NativeCallable once that is set, its
 * base before. It lives as long as the process. */
extern PyTypeObject *nc_callable_class;

/* The type's tp_new: a callable without entries. */
PyObject *nc_callable_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);

/* Frees the tables and leaves none. No reader may be left. */
void nc_callable_clear_tables(NcCallable *self);

/* Keeps an owner as long as the callable, once however often it comes, and as the last one of all;
 * None counts once there are others before it. -1 with an exception. */
int nc_callable_own(NcCallable *self, PyObject *owner);
/* Gives a new callable a name and a doc, either of which may be NULL. -1 with an exception. */
int nc_callable_say(NcCallable *self, PyObject *name, PyObject *doc);

/* The last of the owners, a borrowed reference; None without any. */
PyObject *nc_callable_owner(const NcCallable *self);

/* Publishes tables outside of the object, before a view or a second entry is made. -1 with an
 * exception. */
int nc_callable_move_tables(NcCallable *self);

/* Adds an entry to both tables, and puts another function into one. -1 with an exception; readers
 * then see what they saw. */
int nc_callable_append(NcCallable *self, const NcCallInterface *cif, uintptr_t flags, void *target);
int nc_callable_change(NcCallable *self, Py_ssize_t position, void *target);

/* Whether calls of Python's go through functions of Python's that are named after what they call
 * (nativecall/_callable/trace.py). Set once, before there are callables. */
extern int nc_calls_traced;

/* The first entry of an empty callable, which makes it a single. -1 with an exception. */
int nc_callable_begin(NcCallable *self, NcCallInterface *cif, void *target, uintptr_t flags,
                      PyObject *owner);

/* A callable of one entry. Its name may be NULL. NULL with an exception. */
PyObject *nc_callable_make(NcCallInterface *cif, void *target, uintptr_t flags, PyObject *owner,
                           PyObject *name);

/* A callable of one entry that comes of another: an overload of it, a thunk of it. Its name, where
 * none is given (NULL), and its doc are those of the other. NULL with an exception. */
PyObject *nc_callable_derive(NcCallable *self, NcCallInterface *cif, void *target, uintptr_t flags,
                             PyObject *owner, PyObject *name);

/* The entry that a single has now as a callable of its own. NULL with an exception. */
PyObject *nc_callable_alone(NcCallable *single);

/* What comes of a native method takes the same objects as its first argument, and owns their class.
 * Takes over `made`, which it returns; NULL is passed on, or says that memory is short. */
PyObject *nc_callable_share_self(const NcCallable *method, PyObject *made);

/* Module functions, METH_FASTCALL. */
PyObject *nc_wrapped(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

#endif
