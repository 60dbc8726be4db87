/* csrc/platform/stub.h: executable stubs, C function pointers that carry data.
 *
 * A stub is a few bytes of machine code. It loads the address of its slot into the static chain
 * register (r10, x15), and jumps to the code that the slot names. That code gets the slot from the
 * register (LLVM's `nest` parameter), and reads the context from the slot. So one piece of code
 * serves any number of pointers, and making a stub writes two words.
 *
 * Stubs come in regions: pages of code, and pages of slots at a fixed distance behind them. The
 * first region is in the extension itself (stubs.S). So most processes map no further memory, and
 * systems that refuse executable memory do not refuse this region. Further regions map the same
 * code again. The code comes from the extension's file, or from a memfd with a copy of the code if
 * the file is gone, was replaced or cannot be opened. The mapping is used only if it equals the
 * compiled code. If mapping fails, and on systems other than Linux, pages are written and then made
 * executable. No memory is ever writable and executable at the same time. If everything fails, and
 * on processors that stubs.S does not support, nc_stub_new raises RuntimeError.
 *
 * Until a freed stub is reused, calling it ends the process with a message that contains its name.
 * The stubs of a region are reused in the order in which they were freed. So no region is ever
 * unmapped, and memory use stays at the maximum number of stubs at one time.
 *
 * Threads: new and free need the GIL. Calls need nothing: a slot is complete before its stub's
 * address is published, and does not change while the stub is in use. */
#ifndef NC_STUB_H
#define NC_STUB_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The data of a stub. */
typedef struct {
    void *code;    /* the stub's jump target */
    void *context; /* data for the code */
} NcStubSlot;

/* Makes a stub. Returns the C function pointer, or NULL with RuntimeError or MemoryError. */
void *nc_stub_new(void *code, void *context);
/* Frees a stub; NULL is ignored. A later call ends the process with a message that contains `name`.
 * Takes the reference to `name`, which is a str, NULL, or a tuple that begins with a str. The call
 * to which the function was passed and the index of the argument may follow in the tuple. */
void nc_stub_free(void *stub, PyObject *name);
/* With the GIL held: ends the process with that message unless the slot's stub still has this
 * context. Code that was entered through a stub calls this after waiting for the GIL, since the
 * stub may have been freed meanwhile. */
void nc_stub_require(const NcStubSlot *slot, const void *context);

#endif
