/* csrc/codegen/debugger.c: tells GDB, by its JIT interface, what generated code is called: a list
 * by the names and structs that GDB looks for.
 *
 * CPython 3.15 has a list of its own in the executable, which GDB takes for that of every module,
 * so there it is the one that is used; who has the GIL may change it. The names here are for
 * others: exported, for GDB finds nothing else in a module without symbols, and protected, because
 * what another library has by these names, as LLVM, is another list. */
#include "ground/functions.h"

#include "nativecall/detail/compat.h"

#include <stdint.h>

#if defined(__ELF__)

#include <dlfcn.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("protected"), used))

typedef struct Entry {
    struct Entry *next;
    struct Entry *previous;
    const char *image;
    uint64_t size;
    PyObject *kept; /* has the image; the rest is GDB's */
} Entry;

struct Descriptor {
    uint32_t version;
    uint32_t action;
    Entry *relevant;
    Entry *first;
};

enum { ADDED = 1, TAKEN_OUT = 2 };

extern struct Descriptor __jit_debug_descriptor;
void __jit_debug_register_code(void);

EXPORTED struct Descriptor __jit_debug_descriptor = {1, 0, NULL, NULL};

/* GDB stops here, and looks at the descriptor. */
EXPORTED __attribute__((noinline)) void __jit_debug_register_code(void)
{
    __asm__ volatile("" ::: "memory");
}

/* The list that GDB reads, and what it stops in. Only data has the addresses of our own: binutils
 * before 2.38 link no code that takes that of a protected function. */
static struct Descriptor *list = &__jit_debug_descriptor;
static void (*changed)(void) = __jit_debug_register_code;
static int looked_for; /* the program's */

static void find_list(void)
{
    void *program = dlopen(NULL, RTLD_LAZY);
    void *descriptor = program != NULL ? dlsym(program, "__jit_debug_descriptor") : NULL;
    void *function = program != NULL ? dlsym(program, "__jit_debug_register_code") : NULL;
    if (descriptor != NULL && function != NULL) {
        memcpy(&changed, &function, sizeof(function));
        list = (struct Descriptor *)descriptor;
    }
    if (program != NULL) {
        (void)dlclose(program);
    }
    looked_for = 1;
}

static void tell(uint32_t action, Entry *entry)
{
    list->action = action;
    list->relevant = entry;
    changed();
}

static void take_out(PyObject *capsule)
{
    Entry *entry = (Entry *)PyCapsule_GetPointer(capsule, NULL);
    if (nc_is_finalizing()) {
        return; /* the code stays, too */
    }
    if (entry->previous != NULL) {
        entry->previous->next = entry->next;
    } else {
        list->first = entry->next;
    }
    if (entry->next != NULL) {
        entry->next->previous = entry->previous;
    }
    tell(TAKEN_OUT, entry);
    Py_DECREF(entry->kept);
    PyMem_Free(entry);
}

/* tell_debugger(image): adds bytes, an ELF file in memory whose symbols name code at its address,
 * to what a debugger of this process reads, now or when it attaches. They are taken out with the
 * object that is returned; None where there is no such debugger. With the GIL. */
PyObject *nc_tell_debugger(PyObject *Py_UNUSED(module), PyObject *image)
{
    char *data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(image, &data, &size) < 0) {
        return NULL;
    }
    Entry *entry = (Entry *)PyMem_Calloc(1, sizeof(*entry));
    PyObject *made = entry != NULL ? PyCapsule_New(entry, NULL, take_out) : PyErr_NoMemory();
    if (made == NULL) {
        PyMem_Free(entry);
        return NULL;
    }
    if (!looked_for) {
        find_list();
    }
    entry->image = data;
    entry->size = (uint64_t)size;
    entry->kept = Py_NewRef(image);
    entry->next = list->first;
    if (entry->next != NULL) {
        entry->next->previous = entry;
    }
    list->first = entry;
    tell(ADDED, entry);
    return made;
}

#else

PyObject *nc_tell_debugger(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(image))
{
    Py_RETURN_NONE;
}

#endif
