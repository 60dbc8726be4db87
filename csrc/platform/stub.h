/* csrc/platform/stub.h: executable stubs: C function pointers that carry data.
 *
 * A stub is a few bytes of machine code. It loads the address of its slot into the register of the
 * static chain (r10, x15) and jumps to the code that the slot names. That code finds the slot in
 * this register, for LLVM in the parameter that it calls `nest`, and reads its context there. So
 * one piece of code serves any number of pointers, and making one writes two words.
 *
 * Stubs come in regions: pages of code, and pages of slots at a fixed distance behind them. The
 * first region lies in the extension itself (stubs.S), so most processes map nothing, and systems
 * that refuse executable memory refuse none of it. More regions have the same code mapped again:
 * from the extension's file or, where that is gone, was replaced or cannot be opened, from a memfd
 * that the code is written to. What is mapped is used only if it equals the code that was compiled
 * in. Where that fails, and on systems other than Linux, pages are written and made executable
 * afterwards. No memory is writable and executable at any time. Where nothing helps, and on
 * processors that stubs.S has no code for, nc_stub_new raises RuntimeError.
 *
 * A call of a stub that was freed ends the process with a message that names it, until the stub is
 * reused: those of a region are reused in the order in which they were freed. So no region is
 * unmapped, and as much memory stays as the most stubs of one time needed.
 *
 * Threads: new and free need the GIL. Calls need nothing: a slot is complete before its stub's
 * address is handed out, and is not written while the stub is in use. */
#ifndef NC_STUB_H
#define NC_STUB_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* What a stub's code gets. */
typedef struct {
    void *code;    /* where the stub jumps to */
    void *context; /* whatever the code wants to have */
} NcStubSlot;

/* A new stub: the C function pointer; NULL with RuntimeError or MemoryError. */
void *nc_stub_new(void *code, void *context);
/* Ends a stub; NULL is none. `name`, a reference that this takes, is what the message calls it by
 * which a later call ends the process: a str, a tuple that begins with one and may go on with the
 * function that it was passed to and the argument, or NULL. */
void nc_stub_free(void *stub, PyObject *name);
/* With the GIL: ends the process with that message unless the stub of a slot has this context. For
 * code that entered by a stub and waited for the GIL, while the stub may have been freed. */
void nc_stub_require(const NcStubSlot *slot, const void *context);

#endif
