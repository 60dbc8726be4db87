/* csrc/platform/runs.h: counts the runs of a callback that are in progress, without the GIL.
 *
 * References would keep the callback alive as well, but the threads that run it would contend for
 * their count. So each counts in a row of its own, unless there are more threads than rows.
 *
 * End: a row whose ENDS bit is set admits no more runs. The thread that ends the last run of the
 * last row is told so: it alone may then change what runs use. A run that was not admitted must not
 * use it. */
#pragma once

#include "compat.h"

#if defined(Py_GIL_DISABLED)

enum { NC_THREAD_ROWS = 8 };

/* The row of this thread in tables whose threads must not contend. More threads share rows. */
size_t nc_thread_row(void);

typedef struct {
    size_t count;
    char rest[64 - sizeof(size_t)]; /* of a cache line */
} NcRunsRow;

/* Zero bytes are its initial value. All fields are atomic. */
typedef struct {
    size_t count;    /* the row of the callback's owner, while that is alone */
    NcRunsRow *rows; /* NULL before another thread */
    int over;        /* how often nc_runs_over was called */
    size_t left;     /* the number of rows with runs after the end, plus one; 0 before */
} NcRuns;

/* Begins a run, and returns its row; NULL after the end. `is_owner`: NC_OWNED of the callback. */
size_t *nc_runs_begin(NcRuns *self, int is_owner);
/* Ends a run. Returns whether it was the last one, after the end. */
int nc_runs_leave(NcRuns *self, size_t *row);
/* Admits no more runs. Returns 1 if none is in progress, else 0; always 0 from the second time. */
int nc_runs_end(NcRuns *self);
/* To be called after the last run, and after the last reference. Returns 1 the second time. */
int nc_runs_over(NcRuns *self);
/* Frees the rows after both. */
void nc_runs_free(NcRuns *self);

#else /* runs hold references */
enum { NC_THREAD_ROWS = 1 };
#define nc_thread_row() 0
#define nc_runs_begin(self, is_owner) NULL
#define nc_runs_leave(self, row) 0
#define nc_runs_end(self) 1
#define nc_runs_over(self) 0
#define nc_runs_free(self) ((void)0)
#endif
