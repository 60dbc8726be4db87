/* csrc/platform/waiting.h: watches threads that wait for the GIL in a callback, so that a hang is
 * explained.
 *
 * A C function that holds the GIL and waits for its own threads deadlocks when one of these threads
 * calls Python. Then only threads that do not need the GIL can run. So a waiting thread stores the
 * names of its callback in a slot, and a watcher thread checks the slots four times a second. If a
 * thread has waited for a second, the watcher prints one line to stderr, once in a process, and
 * stops.
 *
 * Cost. Only threads that Python did not start take a slot, which costs two atomic writes. The
 * first such thread starts the watcher. The watcher ends after two seconds in which no thread
 * waits.
 *
 * Threads. A slot belongs to the thread that set its `names`, until it sets them to NULL again.
 * `turns` distinguishes one wait from the next. The watcher reads names only while it has marked
 * the slot (in the lowest bit), and the owner waits until the mark is removed before it leaves the
 * slot. So the callback, which its call keeps alive, keeps the names alive. A names object never
 * changes; an object that replaces it keeps it alive (callable/pycallback.c). The watcher reads
 * names as plain memory, without a reference count. While Python ends, threads may stay in their
 * slots forever and objects are freed, so the watcher reads nothing from then on. After a fork, the
 * child has no used slot and no watcher. */
#ifndef NC_WAITING_H
#define NC_WAITING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Called before this thread waits for the GIL in a callback with these names
 * (callable/pycallback.h). Returns the slot, or -1 if none is free. Does not need the GIL. */
int nc_waiting_begin(PyObject *names);
/* Called when the thread has the GIL, or will not get it. */
void nc_waiting_end(int slot);

#endif
