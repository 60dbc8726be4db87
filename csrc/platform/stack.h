/* csrc/platform/stack.h: how much is left of the C stack of this thread.
 *
 * CPython counts levels of Python calls, and from 3.14 on bytes too, but not those that C code and
 * generated code take before Python is entered. Every recursion from C into Python and back passes
 * a callback (callable/pycallback.h), which asks here and raises RecursionError in time. What puts
 * large structs on the stack asks beforehand.
 *
 * The margin that is kept is an eighth of the stack, but not less than 16 KiB nor more than 256
 * KiB. It is for the Python function, for what it calls, and for the C code up to the next
 * callback.
 *
 * A frame outside of the bounds that are known belongs to a stack of other code, made for a
 * coroutine or a signal: nothing is known of that, so there is room. All but nc_stack_left need
 * the GIL. */
#ifndef NC_STACK_H
#define NC_STACK_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "nativecall/detail/compat.h"

#include <stdint.h>

/* The stack without its margin, of the thread that asked last. */
typedef struct {
    uint64_t thread; /* id of its thread state, which is never used again; 0: none */
    uintptr_t low;
    uintptr_t size;
} NcStackRoom;

#if defined(Py_GIL_DISABLED)
#define NC_STACK_STORAGE NC_THREAD_LOCAL
#else
#define NC_STACK_STORAGE
#endif
extern NC_STACK_STORAGE NcStackRoom nc_stack_room;

#if defined(_MSC_VER) && !defined(__clang__)
#define NC_STACK_HERE ((uintptr_t)_AddressOfReturnAddress())
#else
#define NC_STACK_HERE ((uintptr_t)__builtin_frame_address(0))
#endif

/* Bytes of this thread's stack below the caller, the margin left out; SIZE_MAX where that is not
 * known. */
size_t nc_stack_left(void);

/* Whether there is room: the usual case, by a glance at the address of something in the frame of
 * the caller, which costs no frame pointer; then nc_stack_left is asked. */
int nc_stack_look(const PyThreadState *thread);
static inline int nc_stack_has_room(const PyThreadState *thread, const void *here)
{
    return thread->id == nc_stack_room.thread &&
           (uintptr_t)here - nc_stack_room.low < nc_stack_room.size;
}

/* Raises RecursionError unless there are so many bytes besides the margin; `name` is of what needs
 * them. 0, or -1. */
int nc_stack_require(PyObject *name, size_t bytes);

#endif
