/* csrc/ground/stub.c: pages of stubs; stub.h says what a stub is. */
#include "stub.h"

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
    size_t used;
    struct Pages *next; /* of those with free slots */
    struct Pages **from;
} Pages;

static Pages *with_room;
static size_t page_size;

/* What a freed stub leads to. */
static void ended(void)
{
    fputs("Fatal error: a C function pointer made by nativecall was called after the object that "
          "it belonged to was gone\n",
          stderr);
    abort();
}

static NcStubSlot *slot_of(void *stub)
{
    return (NcStubSlot *)(void *)((unsigned char *)stub + page_size);
}

static Pages *pages_of(void *stub)
{
    NcStubSlot *slots = (NcStubSlot *)((uintptr_t)slot_of(stub) & ~(uintptr_t)(page_size - 1));
    return (Pages *)slots->context;
}

static void append_free(Pages *pages, NcStubSlot *slot)
{
    slot->code = (void *)(uintptr_t)ended;
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
        reason = "this system refuses executable memory";
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
    return (unsigned char *)slot - page_size;
}

void nc_stub_free(void *stub)
{
    if (stub == NULL) {
        return;
    }
    Pages *pages = pages_of(stub);
    int was_full = pages->first == NULL;
    append_free(pages, slot_of(stub));
    pages->used--;
    if (was_full) {
        NC_LINK(with_room, pages);
    }
    /* One empty pair stays, so that a loop that makes and frees one stub maps nothing. */
    if (pages->used == 0 && (pages->next != NULL || with_room != pages)) {
        NC_UNLINK(pages);
        nc_pages_unmap(pages->stubs, 2 * page_size);
        free(pages);
    }
}

PyObject *nc_stubs_refused_text(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    int memory_is_short = 0;
    const char *reason = with_room != NULL ? NULL : make_pages(&memory_is_short);
    if (memory_is_short) {
        return PyErr_NoMemory();
    }
    return PyUnicode_FromString(reason != NULL ? reason : "");
}
