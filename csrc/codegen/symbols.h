/* csrc/codegen/symbols.h: what generated code needs of the core and of the running Python.
 *
 * nativecall/_codegen/trampolinecode.py writes code that reads objects and calls functions. It
 * hard-codes neither offsets nor addresses: both come from here, as they are in this process. */
#ifndef NC_SYMBOLS_H
#define NC_SYMBOLS_H

#include "values/pointers.h"

/* How an argument is converted, as one word of a table that generated code has:
 *     bits 0 to 7    letter of the argument, as in a call spec
 *     bit 8          1 when it has an owner: the next NcPointer at the start of the frame
 *     bits 9 to 15   dimensions of a view
 *     bits 16 to 31  number of the argument, from 0
 *     bits 32 to 63  where its value goes, in bytes from the start of the frame
 * A zero word ends a table. Pointers and views are given by their owner's address. */
#define NC_STEP_LETTER(step) ((char)((step) & 0xFF))
#define NC_STEP_HAS_OWNER(step) (((step) >> 8 & 1) != 0)
#define NC_STEP_NDIM(step) ((Py_ssize_t)((step) >> 9 & 0x7F))
#define NC_STEP_INDEX(step) ((Py_ssize_t)((step) >> 16 & 0xFFFF))
#define NC_STEP_OFFSET(step) ((step) >> 32)

/* Converts the arguments of a table, in its order. 0 with all owners in use, or -1 with an
 * exception and none. */
int nc_convert_arguments(NcCallable *self, PyObject *const *args, const uint64_t *steps,
                         char *frame);

/* 0 where the C stack has room for so many bytes of arguments, or -1 with an exception. */
int nc_require_stack(NcCallable *self, size_t bytes);

/* The vectorcall forms of generated code, by its method's calling convention. */
PyObject *nc_vectorcall_NOARGS(PyObject *self, PyObject *const *args, size_t nargsf,
                               PyObject *kwnames);
PyObject *nc_vectorcall_O(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames);
PyObject *nc_vectorcall_FASTCALL(PyObject *self, PyObject *const *args, size_t nargsf,
                                 PyObject *kwnames);

/* nc_release_pointers as a function. */
PyObject *nc_release_and_return(PyObject *value, NcPointer *pointers, size_t count);

/* Results of C functions; NULL where a Python function left an exception (exceptions.h). */
PyObject *nc_result_double(double number);
PyObject *nc_result_integer(long long number);

/* Raises at once what a Python function among the arguments left, before the result is looked at.
 * 0, or -1 with that exception. The pointers stay to be released. */
int nc_settle(NcPointer *pointers, size_t count);

/* Fills the table `nc_symbols` (layout.h), before anything is made that has it. Its first
 * place is the number of threads with an exception that a Python function left there
 * (nc_left_count). */
void nc_symbols_ready(void);

#endif
