/* csrc/platform/waiting.h: threads that wait for the GIL with a callback, so that a hang says why.
 *
 * A C function that holds the GIL and waits for threads of its own hangs when one of these calls
 * Python. Nobody can run then but a thread that needs no GIL. So who waits leaves what it waits
 * with in a slot, and a thread of ours looks at the slots four times a second. Who has waited for a
 * second is told of in one line on stderr, once in a process; after that nothing is watched.
 *
 * Cost. Only threads that Python has not started take a slot: two atomic writes. The thread that
 * watches is started with the first of them, and ends when none has come for two seconds.
 *
 * Threads. A slot belongs to the thread that made its `names` something, until it makes them NULL
 * again; `turns` tells one stay from the next. The watching thread reads names only while it has
 * marked the slot (the lowest bit), and the owner waits for the end of that before it goes: so the
 * callback, which its call keeps, has them. They never change, or are kept by what takes their
 * place (callable/pycallback.c), and are read as memory, without a count. While Python ends threads
 * may stay in their slots for ever and objects go, so the watching thread reads nothing from then
 * on. After a fork the child has no slot taken and no thread that watches. */
#ifndef NC_WAITING_H
#define NC_WAITING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Before this thread waits for the GIL with a callback of these names (callable/pycallback.h): the
 * slot, or -1 where none is free. Without the GIL. */
int nc_waiting_begin(PyObject *names);
/* When it has the GIL, or will not get it. */
void nc_waiting_end(int slot);

#endif
