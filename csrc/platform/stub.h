/* csrc/platform/stub.h: executable stubs, C function pointers that carry data.
 *
 * A stub is a few bytes of machine code. It loads the address of its slot into the static chain
 * register (r10, x15), and jumps to the code address in the slot. The target code finds the slot
 * through that register (LLVM's `nest` parameter), and reads its context from the slot. So one
 * function can serve any number of pointers, and creating a stub only writes two words.
 *
 * Stubs are grouped in regions: pages of code, then pages of slots at a fixed distance. The first
 * region is part of the extension file (stubs.S). It is enough for most processes, and also works
 * on systems that refuse to map executable memory. Further regions map the same code again from the
 * extension file. If the file is gone, was replaced or cannot be opened, they map a memfd with a
 * copy of the code. A mapping is used only if it equals the compiled code. If mapping fails, or the
 * system is not Linux, the code is written to new pages, which are then made executable. No memory
 * is ever writable and executable at the same time. If all of this fails, or stubs.S does not
 * support the processor, nc_stub_new raises RuntimeError.
 *
 * Until a freed stub is reused, calling it prints its name and ends the process. The stub that was
 * freed first is reused first. Without the GIL, this holds for the stubs that one thread creates. A
 * thread takes those of others before it maps more memory. Regions are never unmapped, so memory
 * use stays at the maximum number of stubs that existed at one time.
 *
 * Threads: new and free need the GIL, or an attached thread. Calls need nothing: a slot is complete
 * before its stub's address is published, and does not change while the stub is in use. */
#pragma once

#include <Python.h>

/* The data of a stub. */
typedef struct {
    void *code;    /* the stub's jump target */
    void *context; /* data for the code */
} NcStubSlot;

/* Creates a stub. Returns the C function pointer, or NULL with RuntimeError or MemoryError. */
void *nc_stub_new(void *code, void *context);
/* Frees a stub; ignores NULL. A later call ends the process with a message that contains `name`.
 * Steals the reference to `name`: a str, NULL, or a tuple that begins with a str. For a function
 * that was passed as an argument, the tuple may also contain the name of the call and the index of
 * the argument. */
void nc_stub_free(void *stub, PyObject *name);
/* Ends the process with the same message if the stub was freed, so that its slot no longer holds
 * `context`. Needs the GIL. Code that was entered through a stub calls this after it has waited for
 * the GIL, because the stub may have been freed meanwhile. */
void nc_stub_require(const NcStubSlot *slot, const void *context);
