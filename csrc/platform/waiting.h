/* csrc/platform/waiting.h: reports a thread that has waited for the GIL in a callback for a second,
 * to explain a hang.
 *
 * A C function that holds the GIL and waits for its own threads deadlocks when one of these threads
 * calls Python. Then only code that does not need the GIL can run. So a waiting thread stores the
 * names of its callback in a slot, and a watcher thread checks the slots four times a second. After
 * a thread has waited for a second, the watcher prints one line to stderr and stops. It prints at
 * most once per process.
 *
 * Cost. Only threads that Python did not start use a slot; that costs two atomic writes per wait.
 * The first such thread starts the watcher. The watcher ends after two seconds in which no thread
 * waits.
 *
 * Threads. A slot belongs to the thread that set its `names`, until that thread sets them to 0
 * again. `turns` distinguishes one wait from the next. Before the watcher reads names, it marks the
 * slot by setting the lowest bit of `names`. The owner does not leave a marked slot, so its call
 * keeps the callback alive, and the callback keeps the names alive. A names object never changes;
 * an object that replaces it keeps it alive (callable/pycallback.c). The watcher reads names as
 * plain memory, without a reference count. During interpreter shutdown the watcher reads no names,
 * because threads may stay in their slots forever while objects are freed. After a fork, all slots
 * of the child are free, and it has no watcher. */
#pragma once

#include <Python.h>

/* Called before this thread waits for the GIL in a callback with these names
 * (callable/pycallback.h). Returns the slot, or -1 if none is free. Does not need the GIL. */
int nc_waiting_begin(PyObject *names);
/* Called when the thread has the GIL, or will not get it. */
void nc_waiting_end(int slot);
