/* csrc/call/convert.h: runs ufunc loops without generated code.
 *
 * Threads: NumPy calls loops, usually with the GIL released. */
#pragma once

#include "layout.h"

#include "platform/stub_sizes.h"

/* The user data of a ufunc loop, which NumPy passes as the last argument. */
typedef struct {
    void *function;
    NcCallable *callable;      /* exceptions name it */
    const struct NcLoop *loop; /* generated loops get nc_symbols here */
} NcLoopData;

#if NC_HAS_MACHINE_CODE
/* Raises the exception that the function's error convention requires. With NC_ERRORS_PYTHON, the
 * function has already set an exception. */
void nc_loop_failed(const NcLoopData *data, uint64_t bits, uint32_t flags, uint32_t errors);
void nc_loop(char **args, const Py_ssize_t *dimensions, const Py_ssize_t *steps, void *data);
#define NC_LOOP ((void *)(uintptr_t)nc_loop)
#define NC_LOOP_FAILED ((void *)(uintptr_t)nc_loop_failed)
#else
#define NC_LOOP NULL
#define NC_LOOP_FAILED NULL
#endif
