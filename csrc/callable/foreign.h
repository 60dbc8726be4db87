/* csrc/callable/foreign.h: converts a native callable to a foreign callable, the function object of
 * another library: `f.to_ctypes()`, `f.to_cffi()`, `f.to_capsule()` and `f.to_scipy()`.
 *
 * A foreign callable keeps alive a callable of one entry: a copy of the entry as it was at the
 * conversion. The copy owns the memory and code that the entry uses.
 *
 * Foreign callables are cached: one of each kind for each entry. An overloaded callable also caches
 * the LowLevelCallable that to_scipy() returns without arguments. If the callable belongs to a
 * subclass whose objects may keep other memory alive, the foreign callable also keeps the callable
 * alive, and is not cached. The cache creates no reference cycle.
 *
 * Guarantees. A cached foreign callable is returned only while the entries are unchanged, and while
 * it still holds the cached copy. A released cffi pointer no longer holds its copy. If you set an
 * attribute of a ctypes pointer, such as `argtypes`, the pointer gets a new copy. The collector
 * sees the contents of the cache, capsules included.
 *
 * Threads: everything here needs the GIL. On free-threaded builds, the cache of a callable is read
 * and changed in the callable's critical section, and bridges and recipes are set once. */
#pragma once

#include "layout.h"

/* The methods of the type, METH_FASTCALL | METH_KEYWORDS. All take signature=None; to_cffi takes
 * ffi=None, to_capsule name=None and to_scipy user_data=None. */
NcKeywordMethod nc_foreign_ctypes, nc_foreign_cffi, nc_foreign_capsule, nc_foreign_scipy;

/* `_as_parameter_`: the object that ctypes passes for a callable argument. If the callable has
 * several entries, or none that ctypes can call, the object raises an exception when ctypes reads
 * the object's own `_as_parameter_`. */
PyObject *nc_foreign_parameter(PyObject *callable, void *closure);

extern const char nc_doc_to_ctypes[], nc_doc_to_cffi[], nc_doc_to_capsule[], nc_doc_to_scipy[];

/* _alone(signature), METH_O: returns a new callable with only the entry that now has this
 * signature. None selects the only entry. */
PyObject *nc_foreign_entry(PyObject *callable, PyObject *signature);

/* Empties the cache. Call it when entries are added or replaced, and from tp_clear. May run
 * arbitrary Python code. */
void nc_foreign_forget(NcCallable *self);

/* Called by the type's tp_traverse. */
int nc_foreign_traverse(const NcMore *more, visitproc visit, void *arg);

/* Call once, before the first conversion. Returns -1 with an exception on failure. */
int nc_foreign_ready(void);
