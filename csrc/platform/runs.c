/* csrc/platform/runs.c: implements runs.h. */
#include "runs.h"

#if defined(Py_GIL_DISABLED)

enum { ROWS = NC_THREAD_ROWS, ENDS = 1, ONE = 2 }; /* a row holds ONE for each run, and ENDS */

static NcRunsRow none; /* instead of rows, if the end comes before another thread */

size_t nc_thread_row(void)
{
    static size_t threads;
    static NC_THREAD_LOCAL size_t thread; /* its number, from 1 */
    if (NC_UNLIKELY(thread == 0)) {
        thread = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    }
    return thread % ROWS;
}

/* Returns the row of this thread. */
static size_t *row_of(NcRuns *self, int is_owner)
{
    NcRunsRow *rows = __atomic_load_n(&self->rows, __ATOMIC_ACQUIRE);
    if (rows == NULL && !is_owner) {
        NcRunsRow *made = (NcRunsRow *)PyMem_RawCalloc(ROWS, sizeof *made);
        if (__atomic_compare_exchange_n(&self->rows, &rows, made, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            rows = made; /* NULL if memory is short: threads share a row */
        } else {
            PyMem_RawFree(made);
        }
    }
    if (rows == NULL || rows == &none) {
        return &self->count;
    }
    return &rows[nc_thread_row()].count;
}

size_t *nc_runs_begin(NcRuns *self, int is_owner)
{
    size_t *row = row_of(self, is_owner);
    size_t before = __atomic_load_n(row, __ATOMIC_RELAXED);
    while ((before & ENDS) == 0) {
        if (__atomic_compare_exchange_n(row, &before, before + ONE, 1, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            return row;
        }
    }
    return NULL;
}

int nc_runs_leave(NcRuns *self, size_t *row)
{
    return NC_UNLIKELY(__atomic_sub_fetch(row, ONE, __ATOMIC_ACQ_REL) == ENDS) &&
           __atomic_sub_fetch(&self->left, 1, __ATOMIC_ACQ_REL) == 1;
}

int nc_runs_end(NcRuns *self)
{
    NcRunsRow *rows = NULL;
    size_t idle = 0;
    if (!__atomic_compare_exchange_n(&self->left, &idle, ROWS + 2, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED)) {
        return 0;
    }
    idle = __atomic_compare_exchange_n(&self->rows, &rows, &none, 0, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE)
               ? ROWS
               : 0;
    idle += __atomic_fetch_or(&self->count, ENDS, __ATOMIC_ACQ_REL) == 0;
    for (size_t i = 0; rows != NULL && i < ROWS; i++) {
        idle += __atomic_fetch_or(&rows[i].count, ENDS, __ATOMIC_ACQ_REL) == 0;
    }
    return __atomic_sub_fetch(&self->left, idle, __ATOMIC_ACQ_REL) == 1;
}

int nc_runs_over(NcRuns *self)
{
    return __atomic_fetch_add(&self->over, 1, __ATOMIC_ACQ_REL) != 0;
}

void nc_runs_free(NcRuns *self)
{
    if (self->rows != &none) {
        PyMem_RawFree(self->rows);
    }
}

#endif
