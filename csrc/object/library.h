/* csrc/object/library.h: open shared libraries, and their functions as native callables.
 *
 * A library is closed with the last reference to it, which its functions' owners have as well. All
 * of this needs the GIL, and drops it while the loader works. */
#ifndef NC_LIBRARY_H
#define NC_LIBRARY_H

#include "layout.h"

/* Its methods, for Python code:
 *     symbol(name), versioned(name, version)
 *         the address of a symbol, 0 for none; names are bytes
 *     function(name, signature, library, class)
 *         the callable of a function without options, by its signature or its call spec; its owner
 *         is a tuple of that class:
 *         (this library, library, name, None, None). None where it is for Python code to say what
 *         is meant, or what is wrong: there is no such symbol, name or signature are no exact str,
 *         the signature has Python objects. What is wrong with a signature is raised. */
extern PyTypeObject NcLibrary_Type;

/* open_library(path, flags): opens the library at a path given as bytes, the process itself for
 * None; flags as nc_core_library_open has them. What the loader says against it is an OSError. */
PyObject *nc_open_library(PyObject *module, PyObject *args);

#endif
