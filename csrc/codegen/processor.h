/* csrc/codegen/processor.h: what the processor says of itself. */
#ifndef NC_PROCESSOR_H
#define NC_PROCESSOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* processor(): bytes that are equal where LLVM would find the same processor with the same
 * features, and differ where it would not; b"" where that is not known. */
PyObject *nc_processor(PyObject *module, PyObject *none);

#endif
