/* csrc/call/convert.h: what carries out loops of ufuncs without generated code.
 *
 * Threads: as NumPy calls loops, mostly without the GIL. */
#ifndef NC_CONVERT_H
#define NC_CONVERT_H

#include "layout.h"

#include "platform/stub_sizes.h"

/* What a loop gets as its last argument. */
typedef struct {
    void *function;
    NcCallable *callable;      /* which makes exceptions of its failures */
    const struct NcLoop *loop; /* of generated ones nc_symbols */
} NcLoopData;

#if NC_HAS_MACHINE_CODE
/* The function failed, with these bits: sets the exception that its convention means. */
void nc_loop_failed(const NcLoopData *data, uint64_t bits, uint32_t flags, uint32_t errors);
void nc_loop(char **args, const Py_ssize_t *dimensions, const Py_ssize_t *steps, void *data);
#define NC_LOOP ((void *)(uintptr_t)nc_loop)
#define NC_LOOP_FAILED ((void *)(uintptr_t)nc_loop_failed)
#else
#define NC_LOOP NULL
#define NC_LOOP_FAILED NULL
#endif

#endif
