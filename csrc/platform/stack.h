/* csrc/platform/stack.h: measures the free C stack of this thread.
 *
 * CPython counts levels of Python calls, and from 3.14 on also bytes. It does not count C and
 * generated code between two levels. Every recursion from C into Python and back goes through a
 * callback (callable/pycallback.c). Each callback calls this code, and raises RecursionError before
 * the stack overflows. Code that puts large structs on the stack calls this code first.
 *
 * A margin of one eighth of the stack is reserved, at least 16 KiB and at most 256 KiB. The margin
 * is for the Python function, the code that this function calls, and C code up to the next
 * callback.
 *
 * A frame outside the known bounds is on another stack, such as a coroutine's or a signal
 * handler's. The bounds of such a stack are unknown, so the check passes.
 *
 * Threads: everything needs the GIL. */
#pragma once

#include <Python.h>

#include "nativecall/detail/compat.h"

#include <stdint.h>

/* The stack without its margin, for the thread that checked last. */
typedef struct {
    uint64_t thread; /* id of its thread state, never reused; 0: none */
    uintptr_t low;
    uintptr_t size;
} NcStackRoom;

#if defined(Py_GIL_DISABLED)
#define NC_STACK_STORAGE NC_THREAD_LOCAL
#else
#define NC_STACK_STORAGE
#endif
extern NC_STACK_STORAGE NcStackRoom nc_stack_room;

#define NC_STACK_HERE ((uintptr_t)__builtin_frame_address(0))

/* Whether there is room. nc_stack_has_room is the fast path: it compares an address in the caller's
 * frame and needs no frame pointer. nc_stack_look is the slow path: it may ask the system for the
 * bounds. */
int nc_stack_look(const PyThreadState *thread);
static inline int nc_stack_has_room(const PyThreadState *thread, const void *here)
{
    return thread->id == nc_stack_room.thread &&
           (uintptr_t)here - nc_stack_room.low < nc_stack_room.size;
}

/* Raises RecursionError unless `bytes` are free besides the margin; `name` is the object that needs
 * them. Returns 0, or -1. */
int nc_stack_require(PyObject *name, size_t bytes);
