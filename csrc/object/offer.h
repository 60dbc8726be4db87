/* csrc/object/offer.h: what objects of other providers offer, as Python code sees it: entries of
 * their call tables, through a built-in view too, and of `__nativecall_api__`.
 *
 * Everything is read as any consumer reads it (nativecallable.h, nativeapi.h). Entries of a later
 * ABI and entries without a function are left out. Threads: with the GIL. */
#ifndef NC_OFFER_H
#define NC_OFFER_H

#include "layout.h"

/* native_offer(object): (offset, [(signature, flags, address), ...]): where in the object, or in
 * the one that it is a view of, the call table is, None for `__nativecall_api__`, and what is told
 * of it. None for an object that offers nothing, and for our own callables; TypeError for a wrong
 * `__nativecall_api__`. */
PyObject *nc_native_offer(PyObject *module, PyObject *object);

/* native_entry(object, signature): (flags, address) of the entry of a canonical signature, None
 * where there is none. A provider may make it, and raise an exception. */
PyObject *nc_native_entry(PyObject *module, PyObject *args);

#endif
