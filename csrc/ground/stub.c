/* csrc/ground/stub.c: pages of stubs; stub.h says what a stub is. */
#include "stub.h"

#include "exceptions.h"
#include "functions.h"
#include "links.h"
#include "pages.h"

#include "nativecall/detail/callbackcalls.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STUB_BYTES 16

/* ---- machine code ---------------------------------------------------------------------------- */

#if defined(__x86_64__) || defined(_M_X64)

/* endbr64; lea r10, [rip + distance]; jmp [r10] */
static int write_stub(unsigned char *stub, size_t distance)
{
    static const unsigned char code[STUB_BYTES] = {0xf3, 0x0f, 0x1e, 0xfa, 0x4c, 0x8d, 0x15, 0,
                                                   0,    0,    0,    0x41, 0xff, 0x22, 0xcc, 0xcc};
    uint32_t offset = (uint32_t)distance - 11; /* from the end of lea */
    memcpy(stub, code, sizeof(code));
    memcpy(stub + 7, &offset, sizeof(offset));
    return 1;
}

#elif defined(__aarch64__) && !defined(__AARCH64EB__)

/* bti c; adr x15, distance; ldr x16, [x15]; br x16 */
static int write_stub(unsigned char *stub, size_t distance)
{
    uint32_t offset = (uint32_t)distance - 4; /* from adr */
    uint32_t code[4] = {0xd503245f, 0x1000000f | (offset & 3) << 29 | (offset >> 2) << 5,
                        0xf94001f0, 0xd61f0200};
    memcpy(stub, code, sizeof(code));
    return distance < (1u << 20); /* what adr reaches */
}

#else

static int write_stub(unsigned char *stub, size_t distance)
{
    (void)stub;
    (void)distance;
    return 0;
}

#endif

/* ---- pages ----------------------------------------------------------------------------------- */

/* Two pages of memory, stubs and slots. The first slot of the second is no stub's: its context
 * leads here. Slots that are free form a queue through their contexts. */
typedef struct Pages {
    unsigned char *stubs;
    NcStubSlot *first; /* of the queue, NULL when all are used */
    NcStubSlot *last;
    PyObject **names; /* of those that had the stubs last, from the first end on; or NULL */
    size_t used;
    struct Pages *next; /* of those with free slots */
    struct Pages **from;
} Pages;

static Pages *with_room;
static size_t page_size;

static NcStubSlot *slot_of(void *stub)
{
    return (NcStubSlot *)(void *)((unsigned char *)stub + page_size);
}

static Pages *pages_of(const NcStubSlot *slot)
{
    NcStubSlot *slots = (NcStubSlot *)((uintptr_t)slot & ~(uintptr_t)(page_size - 1));
    return (Pages *)slots->context;
}

/* The place of a slot's name. */
static PyObject **name_of(Pages *pages, const NcStubSlot *slot)
{
    return &pages->names[((uintptr_t)slot & (page_size - 1)) / STUB_BYTES];
}

/* ---- the end of a stub ----------------------------------------------------------------------- */

/* Whether the name's UTF-8 is there without Python, which it is once it was asked for. */
static int is_readable(PyObject *name)
{
    if (name == NULL || !PyUnicode_Check(name)) {
        return 0;
    }
    if (PyUnicode_IS_COMPACT_ASCII(name)) {
        return 1;
    }
    NcRaised raised; /* what holds the stub may end while an exception is on its way */
    nc_raised_take(&raised);
    int readable = PyUnicode_AsUTF8(name) != NULL;
    PyErr_Clear();
    nc_raised_restore(&raised);
    return readable;
}

static PyObject *first_of(PyObject *name)
{
    return name != NULL && PyTuple_Check(name) ? PyTuple_GET_ITEM(name, 0) : name;
}

/* The process ends here, perhaps in a thread that Python does not know: all that is read stays as
 * it is while the stub is free. */
#if defined(__GNUC__)
__attribute__((used))
#endif
void nc_stub_called_after_end(const NcStubSlot *slot)
{
    Pages *pages = slot != NULL ? pages_of(slot) : NULL;
    PyObject *name = pages != NULL && pages->names != NULL ? *name_of(pages, slot) : NULL;
    fputs("Fatal error: a C function pointer made by nativecall was called after the object that "
          "it belonged to was gone",
          stderr);
    if (name != NULL) {
        /* C's own stream: sys.stderr cannot be asked for in such a thread. */
        fprintf(stderr, ": '%s'", PyUnicode_AsUTF8(first_of(name)));
        if (PyTuple_Check(name) && PyTuple_GET_SIZE(name) == 3 &&
            PyUnicode_IS_COMPACT_ASCII(PyTuple_GET_ITEM(name, 1))) {
            fprintf(stderr,
                    ", which was passed to '%s' for that call alone; say with keep= how long C "
                    "keeps it",
                    PyUnicode_AsUTF8(PyTuple_GET_ITEM(name, 1)));
        }
    }
    fputs("\n", stderr);
    abort();
}

/* What a freed stub leads to, with its slot in the register of the static chain. */
#if defined(__ELF__) && defined(__x86_64__)
void nc_stub_ended(void);
__asm__(".text\n"
        ".hidden nc_stub_ended\n"
        ".globl nc_stub_ended\n"
        ".type nc_stub_ended, @function\n"
        "nc_stub_ended:\n"
        "    endbr64\n"
        "    movq %r10, %rdi\n"
        "    andq $-16, %rsp\n"
        "    call nc_stub_called_after_end\n"
        ".size nc_stub_ended, .-nc_stub_ended\n");
#elif defined(__ELF__) && defined(__aarch64__)
void nc_stub_ended(void);
__asm__(".text\n"
        ".hidden nc_stub_ended\n"
        ".globl nc_stub_ended\n"
        ".type nc_stub_ended, %function\n"
        "nc_stub_ended:\n"
        "    hint #34\n"
        "    mov x0, x15\n"
        "    b nc_stub_called_after_end\n"
        ".size nc_stub_ended, .-nc_stub_ended\n");
#else
static void nc_stub_ended(void)
{
    nc_stub_called_after_end(NULL);
}
#endif

static void append_free(Pages *pages, NcStubSlot *slot)
{
    slot->code = (void *)(uintptr_t)nc_stub_ended;
    slot->context = NULL;
    if (pages->first == NULL) {
        pages->first = slot;
    } else {
        pages->last->context = slot;
    }
    pages->last = slot;
}

/* More room; or why there is none, with *memory_is_short where that is the reason. */
static const char *make_pages(int *memory_is_short)
{
    const char *reason = NULL;
    Pages *pages = (Pages *)calloc(1, sizeof(*pages));
    page_size = nc_page_bytes();
    unsigned char *memory = (unsigned char *)nc_pages_map(2 * page_size);
    *memory_is_short = pages == NULL || memory == NULL;
    if (*memory_is_short) {
        reason = "memory is short";
        goto fail;
    }
    for (size_t at = 0; at < page_size; at += STUB_BYTES) {
        if (!write_stub(memory + at, page_size)) {
            reason = "no stubs are known for this processor";
            goto fail;
        }
    }
    if (!nc_pages_make_executable(memory, page_size)) {
        reason = "this system refuses executable memory, and no C function pointer that was made "
                 "before that is free";
        goto fail;
    }
    pages->stubs = memory;
    slot_of(memory)->context = pages;
    for (size_t at = STUB_BYTES; at < page_size; at += STUB_BYTES) {
        append_free(pages, slot_of(memory + at));
    }
    NC_LINK(with_room, pages);
    return NULL;

fail:
    if (memory != NULL) {
        nc_pages_unmap(memory, 2 * page_size);
    }
    free(pages);
    return reason;
}

void *nc_stub_new(void *code, void *context)
{
    if (with_room == NULL) {
        int memory_is_short;
        const char *reason = make_pages(&memory_is_short);
        if (memory_is_short) {
            PyErr_NoMemory();
            return NULL;
        }
        if (reason != NULL) {
            PyErr_SetString(PyExc_RuntimeError, reason);
            return NULL;
        }
    }
    Pages *pages = with_room;
    NcStubSlot *slot = pages->first;
    pages->first = (NcStubSlot *)slot->context;
    if (pages->first == NULL) {
        NC_UNLINK(pages);
    }
    pages->used++;
    slot->context = context;
    slot->code = code;
    if (pages->names != NULL) {
        Py_CLEAR(*name_of(pages, slot));
    }
    return (unsigned char *)slot - page_size;
}

/* Keeps the name, which this takes, until the stub is used again. */
static void keep_name(Pages *pages, const NcStubSlot *slot, PyObject *name)
{
    if (pages->names == NULL) {
        pages->names = (PyObject **)calloc(page_size / STUB_BYTES, sizeof(PyObject *));
    }
    if (pages->names == NULL || !is_readable(first_of(name))) {
        Py_XDECREF(name);
        return;
    }
    *name_of(pages, slot) = name;
}

static void free_pages(Pages *pages)
{
    PyObject **names = pages->names;
    nc_pages_unmap(pages->stubs, 2 * page_size);
    free(pages);
    for (size_t i = 0; names != NULL && i < page_size / STUB_BYTES; i++) {
        Py_XDECREF(names[i]);
    }
    free(names);
}

void nc_stub_free(void *stub, PyObject *name)
{
    if (stub == NULL) {
        Py_XDECREF(name);
        return;
    }
    Pages *pages = pages_of(slot_of(stub));
    int was_full = pages->first == NULL;
    append_free(pages, slot_of(stub));
    keep_name(pages, slot_of(stub), name);
    pages->used--;
    if (was_full) {
        NC_LINK(with_room, pages);
    }
    /* One empty pair stays, so that a loop that makes and frees one stub maps nothing. */
    if (pages->used == 0 && (pages->next != NULL || with_room != pages)) {
        NC_UNLINK(pages);
        free_pages(pages);
    }
}

int nc_stubs_refused(void)
{
    int memory_is_short = 0;
    return with_room == NULL && make_pages(&memory_is_short) != NULL && !memory_is_short;
}

/* stubs_refused(): why there are no stubs here, as a str, "" where there are. */
PyObject *nc_stubs_refused_text(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    int memory_is_short = 0;
    const char *reason = with_room != NULL ? NULL : make_pages(&memory_is_short);
    if (memory_is_short) {
        return PyErr_NoMemory();
    }
    return PyUnicode_FromString(reason != NULL ? reason : "");
}
