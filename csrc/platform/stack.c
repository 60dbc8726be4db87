/* csrc/platform/stack.c: finds the bounds of this thread's C stack; implements stack.h. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* pthread_getattr_np */
#endif
#include "stack.h"

#include "functions.h"

#if defined(_WIN32)
#include <windows.h>
#else
#include <pthread.h>
#endif

#define LEAST_MARGIN ((uintptr_t)16 << 10)
#define MOST_MARGIN ((uintptr_t)256 << 10)

NC_STACK_STORAGE NcStackRoom nc_stack_room;

/* This thread's bounds, once known. `low` and `high` are equal if the system does not report
 * them. */
static NC_THREAD_LOCAL struct {
    int known;
    uintptr_t low; /* the lowest address plus the margin */
    uintptr_t high;
} bounds;

/* Sets *low to the lowest address of the stack, and *high to the first address above the stack.
 * Both are 0 if the system does not report them. */
static void ask(uintptr_t *low, uintptr_t *high)
{
    *low = *high = 0;
#if defined(_WIN32)
    ULONG_PTR first;
    ULONG_PTR last;
    GetCurrentThreadStackLimits(&first, &last);
    *low = (uintptr_t)first;
    *high = (uintptr_t)last;
#elif defined(__APPLE__)
    *high = (uintptr_t)pthread_get_stackaddr_np(pthread_self());
    *low = *high - pthread_get_stacksize_np(pthread_self());
#elif defined(__linux__)
    pthread_attr_t attributes;
    void *address = NULL;
    size_t size = 0;
    size_t guard = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return;
    }
    if (pthread_attr_getstack(&attributes, &address, &size) == 0 &&
        pthread_attr_getguardsize(&attributes, &guard) == 0 && guard < size) {
        *low = (uintptr_t)address + guard; /* glibc counts the guard as part of the stack */
        *high = (uintptr_t)address + size;
    }
    pthread_attr_destroy(&attributes);
#endif
}

static size_t left_above(uintptr_t here)
{
    if (here - bounds.low < bounds.high - bounds.low) {
        return (size_t)(here - bounds.low);
    }
    /* `here` is in the margin, or on another stack. */
    return bounds.low - here < 2 * MOST_MARGIN ? 0 : SIZE_MAX;
}

/* Bytes of this thread's stack below the caller, without the margin; SIZE_MAX if unknown. */
static size_t stack_left(void)
{
    uintptr_t here = NC_STACK_HERE;
    if (!bounds.known || left_above(here) == 0) {
        /* Find the bounds, and add the margin to `low`. If nothing is left, find them again, since
         * the main thread's limit may have been raised. */
        ask(&bounds.low, &bounds.high);
        uintptr_t margin = (bounds.high - bounds.low) / 8;
        margin = margin < LEAST_MARGIN ? LEAST_MARGIN : margin > MOST_MARGIN ? MOST_MARGIN : margin;
        bounds.low = bounds.high - bounds.low > margin ? bounds.low + margin : bounds.high;
        bounds.known = 1;
    }
    return left_above(here);
}

int nc_stack_look(const PyThreadState *thread)
{
    if (stack_left() == 0) {
        return 0;
    }
    nc_stack_room.thread = thread->id;
    nc_stack_room.low = bounds.low;
    nc_stack_room.size = bounds.high != 0 ? bounds.high - bounds.low : UINTPTR_MAX;
    return 1;
}

int nc_stack_require(PyObject *name, size_t bytes)
{
    size_t left = stack_left();
    if (left > bytes) {
        return 0;
    }
    PyErr_Format(PyExc_RecursionError,
                 "'%U' passes structs by value that need %zu bytes of C stack, but this thread has "
                 "only %zu bytes left",
                 name, bytes, left);
    return -1;
}

/* stack_left(): bytes of the caller's C stack, without the margin. */
PyObject *nc_stack_left_now(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromSize_t(stack_left());
}
