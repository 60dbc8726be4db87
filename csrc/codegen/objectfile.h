/* csrc/codegen/objectfile.h: object files of generated code, loaded without a linker where they
 * refer to nothing outside of themselves.
 *
 * LLVM's linker takes a sixth of a millisecond for every file, and needs LLVM. Code that finds all
 * it calls through its arguments, as that of nativecall/_codegen does, has nothing to be linked
 * with. */
#ifndef NC_OBJECTFILE_H
#define NC_OBJECTFILE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* load_object(data, names): (keep, addresses) of the functions and constants of those names, valid
 * while `keep` lives, and after that at the end of the process; None for what has to be linked.
 * That is what refers to something outside, what can be written to or unwound, a name that is
 * missing, a file that is damaged or of another format than ELF for x86-64, and a system that
 * refuses the pages. With the GIL; of `data` nothing is kept. */
PyObject *nc_load_object(PyObject *module, PyObject *args);

/* has_room(bytes): whether so much memory is to be had now, of which nothing is touched. A limit on
 * address space is what Linux enforces. */
PyObject *nc_has_room(PyObject *module, PyObject *bytes);

#endif
