/* csrc/platform/stub.c: implements stub.h; allocates stubs in regions. */
#if defined(__linux__)
#define _GNU_SOURCE /* dladdr, memfd_create */
#endif
#include "stub.h"

#include "stub_sizes.h"

#include "exceptions.h"
#include "functions.h"
#include "lock.h"
#include "pages.h"
#include "runs.h"

#include "nativecall/detail/compat.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if NC_HAS_MACHINE_CODE

#if defined(__linux__)
#include <dlfcn.h>
#include <fcntl.h>
#endif

/* Slots are opened in blocks of this many bytes. No stub uses the first slot of a block; the
 * context of that slot is the region. */
#define GRANULE 4096u

extern unsigned char nc_stubs[NC_STUB_REGION] __attribute__((visibility("hidden")));
extern unsigned char nc_slots[NC_STUB_REGION] __attribute__((visibility("hidden")));
void nc_stub_ended(void);

/* Free slots, linked through their contexts. Each row of threads has a queue (platform/runs.h), and
 * opens granules for it. A slot stays in its granule's queue, whichever thread frees it. */
typedef struct {
    NcStubSlot *first; /* NULL if all are in use */
    NcStubSlot *last;
    NcLock lock; /* guards the queue, and the names of its slots */
    char rest[64 - 2 * sizeof(void *) - sizeof(NcLock)]; /* of a cache line */
} Queue;

/* A region of stubs. */
typedef struct {
    unsigned char *stubs;
    size_t opened;                                   /* bytes of slots */
    PyObject *names[NC_STUB_REGION / NC_STUB_BYTES]; /* of freed stubs, or NULL */
} Region;

static Queue queues[NC_THREAD_ROWS];
static Region compiled_in;
static Region *newest; /* the region whose granules are opened; NULL before the first */

/* Guards `newest` and its `opened`. A thread that holds this lock, or that of a queue, takes no
 * other lock and runs no code of CPython: there it could wait, and os.fork find the lock held. */
static NcLock lock;

/* The distance in bytes from a stub to its slot. */
static size_t distance(void)
{
    return (size_t)((uintptr_t)nc_slots - (uintptr_t)nc_stubs);
}

static NcStubSlot *slot_of(void *stub)
{
    return (NcStubSlot *)(void *)((unsigned char *)stub + distance());
}

/* The first slot of the granule of a slot: its context is the region, and its code the queue. */
static const NcStubSlot *granule_of(const NcStubSlot *slot)
{
    return (const NcStubSlot *)((uintptr_t)slot & ~(uintptr_t)(GRANULE - 1));
}

/* The address at which the name for a slot is stored. */
static PyObject **name_of(const NcStubSlot *slot)
{
    Region *region = (Region *)granule_of(slot)->context;
    size_t at = (size_t)((const unsigned char *)slot - (region->stubs + distance()));
    return &region->names[at / NC_STUB_BYTES];
}

/* ---- copies of the code ---------------------------------------------------------------------- */

#if defined(__linux__)

/* Opens the extension's file, and sets `at` to the offset of the stubs in it. We assume that the
 * offset in the file equals the offset in memory. If it does not, map_stubs detects that. */
static int open_file(off_t *at)
{
    Dl_info info;
    if (dladdr(nc_stubs, &info) == 0) {
        return -1;
    }
    *at = (off_t)((uintptr_t)nc_stubs - (uintptr_t)info.dli_fbase);
    int file = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && lseek(file, 0, SEEK_END) < *at + NC_STUB_REGION) {
        close(file); /* accessing a mapping past the file's end would kill the process */
        return -1;
    }
    return file;
}

static int open_memory(void)
{
    int file = memfd_create("nativecall", MFD_CLOEXEC | 0x10u); /* MFD_EXEC, since Linux 6.3 */
    if (file < 0) {
        file = memfd_create("nativecall", MFD_CLOEXEC);
    }
    if (file >= 0 && write(file, nc_stubs, NC_STUB_REGION) != NC_STUB_REGION) {
        close(file);
        return -1;
    }
    return file;
}

/* Maps the stubs in a file over the memory at `to`, and closes the file. Returns whether the memory
 * now contains the stubs. */
static int map_stubs(void *to, int file, off_t at)
{
    int is_mapped = file >= 0 && mmap(to, NC_STUB_REGION, PROT_READ | PROT_EXEC,
                                      MAP_PRIVATE | MAP_FIXED, file, at) == to;
    if (file >= 0) {
        close(file);
    }
    return is_mapped && memcmp(to, nc_stubs, NC_STUB_REGION) == 0;
}

static int copy_mapped(void *to)
{
    off_t at = 0;
    int file = open_file(&at);
    return map_stubs(to, file, at) || map_stubs(to, open_memory(), 0);
}

/* Replaces memory, which may be mapped from a file, by writable memory. */
static int make_writable(void *memory)
{
    return mmap(memory, NC_STUB_REGION, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory;
}

#else

static int copy_mapped(void *to)
{
    (void)to;
    return 0;
}

static int make_writable(void *memory)
{
    (void)memory;
    return 1;
}

#endif

/* Copies the stubs to memory; returns 0 if the system refuses. */
static int copy_stubs(void *to)
{
    if (copy_mapped(to)) {
        return 1;
    }
    if (!make_writable(to)) {
        return 0;
    }
    memcpy(to, nc_stubs, NC_STUB_REGION);
    return nc_pages_make_executable(to, NC_STUB_REGION);
}

/* ---- the end of a stub ----------------------------------------------------------------------- */

/* Whether the UTF-8 form of a name can be read without the GIL. A non-ASCII name caches that form
 * during this call. */
static int is_readable(PyObject *name)
{
    if (name == NULL || !PyUnicode_Check(name)) {
        return 0;
    }
    if (PyUnicode_IS_COMPACT_ASCII(name)) {
        return 1;
    }
    /* The stub's owner may be freed while an exception is set. */
    PyObject *raised = nc_exception_take();
    int readable = PyUnicode_AsUTF8(name) != NULL;
    PyErr_Clear();
    nc_exception_put(raised);
    return readable;
}

static PyObject *first_of(PyObject *name)
{
    return name != NULL && PyTuple_Check(name) ? PyTuple_GET_ITEM(name, 0) : name;
}

/* Ends the process. May run without the GIL, in a thread that Python did not start. So nothing that
 * is read here may change while the stub is free. */
__attribute__((used)) void nc_stub_called_after_end(const NcStubSlot *slot)
{
    PyObject *name = *name_of(slot);
    fputs("Fatal error: a C function pointer made by nativecall was called after its Python object "
          "was freed",
          stderr);
    if (name != NULL) {
        /* Write to C's stderr: sys.stderr needs the GIL. */
        fprintf(stderr, ": '%s'", PyUnicode_AsUTF8(first_of(name)));
        if (PyTuple_Check(name) && PyTuple_GET_SIZE(name) == 3 &&
            PyUnicode_IS_COMPACT_ASCII(PyTuple_GET_ITEM(name, 1))) {
            fprintf(stderr,
                    ", which was passed to '%s' for that call only; declare with keep= how long C "
                    "keeps it",
                    PyUnicode_AsUTF8(PyTuple_GET_ITEM(name, 1)));
        } else {
            fputs("; keep it alive, and pass keep= if C declares another signature", stderr);
        }
    }
    fputs("\n", stderr);
    abort();
}

void nc_stub_require(const NcStubSlot *slot, const void *context)
{
    if (nc_load_relaxed_ptr(&slot->context) != context ||
        nc_load_relaxed_ptr(&slot->code) == (void *)(uintptr_t)nc_stub_ended) {
        nc_stub_called_after_end(slot);
    }
}

static void append_free(Queue *queue, NcStubSlot *slot)
{
    nc_store_relaxed_ptr(&slot->code, (void *)(uintptr_t)nc_stub_ended);
    nc_store_relaxed_ptr(&slot->context, NULL);
    if (queue->first == NULL) {
        queue->first = slot;
    } else {
        queue->last->context = slot;
    }
    queue->last = slot;
}

/* ---- regions --------------------------------------------------------------------------------- */

/* Makes another region the newest one if it is full. Returns 0, or -1 with an exception. */
static int make_region(void)
{
    NC_LOCK(&lock);
    if (newest == NULL) {
        compiled_in.stubs = nc_stubs;
        newest = &compiled_in;
    }
    if (newest->opened < NC_STUB_REGION) {
        NC_UNLOCK(&lock);
        return 0;
    }
    Region *region = (Region *)calloc(1, sizeof(*region));
    errno = ENOMEM; /* if the system refuses the mapping, mmap sets another error */
    unsigned char *memory = (unsigned char *)nc_pages_map(distance() + NC_STUB_REGION);
    int memory_is_short = region == NULL || (memory == NULL && errno == ENOMEM);
    if (memory != NULL) {
        if (distance() > NC_STUB_REGION) {
            nc_pages_unmap(memory + NC_STUB_REGION, distance() - NC_STUB_REGION);
        }
        if (region != NULL && copy_stubs(memory)) {
            region->stubs = memory;
            newest = region;
            NC_UNLOCK(&lock);
            return 0;
        }
        nc_pages_unmap(memory + distance(), NC_STUB_REGION);
        nc_pages_unmap(memory, NC_STUB_REGION);
    }
    NC_UNLOCK(&lock);
    free(region);
    if (memory_is_short) {
        PyErr_NoMemory();
    } else {
        PyErr_SetString(
            PyExc_RuntimeError,
            "this system refuses more executable memory, and all C function pointers that fit in "
            "the existing memory are in use: close callbacks that C no longer calls");
    }
    return -1;
}

/* Opens a granule of the newest region for a queue, and returns whether that had room. */
static int open_granule(Queue *queue)
{
    unsigned char *slots = NULL;
    NC_LOCK(&lock);
    Region *region = newest;
    if (region != NULL && region->opened < NC_STUB_REGION) {
        slots = region->stubs + distance() + region->opened;
        region->opened += GRANULE;
    }
    NC_UNLOCK(&lock);
    if (slots == NULL) {
        return 0;
    }
    *(NcStubSlot *)(void *)slots = (NcStubSlot){.context = region, .code = queue};
    NC_LOCK(&queue->lock);
    for (size_t at = NC_STUB_BYTES; at < GRANULE; at += NC_STUB_BYTES) {
        append_free(queue, (NcStubSlot *)(void *)(slots + at));
    }
    NC_UNLOCK(&queue->lock);
    return 1;
}

/* Takes a free slot and the name of the stub that it had; NULL if the queue has none. */
static NcStubSlot *take(Queue *queue, PyObject **name)
{
    NC_LOCK(&queue->lock);
    NcStubSlot *slot = queue->first;
    if (slot != NULL) {
        queue->first = (NcStubSlot *)slot->context;
        *name = *name_of(slot);
        *name_of(slot) = NULL;
    }
    NC_UNLOCK(&queue->lock);
    return slot;
}

void *nc_stub_new(void *code, void *context)
{
    PyObject *name = NULL;
    Queue *queue = &queues[nc_thread_row()];
    NcStubSlot *slot = take(queue, &name);
    while (slot == NULL) {
        if (open_granule(queue)) {
            slot = take(queue, &name);
            continue;
        }
        for (size_t i = 0; slot == NULL && i < NC_THREAD_ROWS; i++) {
            slot = take(&queues[i], &name);
        }
        if (slot == NULL && make_region() < 0) {
            return NULL;
        }
    }
    nc_store_relaxed_ptr(&slot->context, context);
    nc_store_relaxed_ptr(&slot->code, code);
    Py_XDECREF(name); /* may run Python code: a subclass of str may have a finaliser */
    return (unsigned char *)slot - distance();
}

void nc_stub_free(void *stub, PyObject *name)
{
    if (stub == NULL) {
        Py_XDECREF(name);
        return;
    }
    NcStubSlot *slot = slot_of(stub);
    Queue *queue = (Queue *)granule_of(slot)->code;
    if (!is_readable(first_of(name))) {
        Py_CLEAR(name);
    }
    NC_LOCK(&queue->lock);
    append_free(queue, slot);
    *name_of(slot) = name; /* until the stub is reused */
    NC_UNLOCK(&queue->lock);
}

#else

void nc_stub_require(const NcStubSlot *Py_UNUSED(slot), const void *Py_UNUSED(context))
{
}

void *nc_stub_new(void *Py_UNUSED(code), void *Py_UNUSED(context))
{
    PyErr_SetString(PyExc_RuntimeError, "stubs are not supported on this processor");
    return NULL;
}

void nc_stub_free(void *Py_UNUSED(stub), PyObject *name)
{
    Py_XDECREF(name);
}

#endif
