/* tests/c/test_layout.c: the structs and constants without Python.h are those of docs/abi/, which is
 * for the compiler (layout.h); and descriptors of views lead where the document says.
 *
 * Tables and hashes are held to the document by the vectors (tests/core/test_vectors.py). */
#include <string.h>

#include "check.h"
#include "layout.h"
#include "nativecall/detail/core/calltable.h"
#include "nativecall/detail/core/intern.h"
#include "nativecall/nativetable.h"
#include "nativecall/detail/core/packed.h"
#include "nativecall/detail/core/packedtable.h"
#include "nativecall/detail/core/slottable.h"
#include "nativecall/view.h"

/* ---- what the compiler checks ---------------------------------------------------------------- */

LAYOUT_VALUE(NC_ABI_VERSION, 1);

LAYOUT_VALUE(NC_SLOT_EMPTY, 0);
LAYOUT_VALUE(NC_SLOT_SKIP, 1);

LAYOUT_VALUE(NC_HASH_K0, 0x9E3779B97F4A7C15);
LAYOUT_VALUE(NC_HASH_K1, 0xBF58476D1CE4E5B9);
LAYOUT_VALUE(NC_HASH_K2, 0x94D049BB133111EB);
LAYOUT_VALUE(NC_HASH_K3, 0xD6E8FEB86659FD93);

LAYOUT_VALUE(NC_INTERN_MAX_LENGTH, 65535);
LAYOUT_VALUE(NC_SLOTTABLE_MAX_ROWS, 65536);
LAYOUT_VALUE(NC_EXPECTED, 0xE220A8397B1DCDAF);

LAYOUT_VALUE(NC_FLAG_NEEDS_GIL, 0x1);
LAYOUT_VALUE(NC_FLAG_TAKES_GIL, 0x2);
LAYOUT_VALUE(NC_FLAG_RELEASE_GIL, 0x4);
LAYOUT_VALUE(NC_FLAG_ERRNO, 0x8);
LAYOUT_VALUE(NC_ERRORS_MASK, 0x70);
LAYOUT_VALUE(NC_ERRORS_NONE, 0x00);
LAYOUT_VALUE(NC_ERRORS_PYTHON, 0x10);
LAYOUT_VALUE(NC_ERRORS_NONZERO, 0x20);
LAYOUT_VALUE(NC_ERRORS_ZERO, 0x30);
LAYOUT_VALUE(NC_ERRORS_NULL, 0x40);
LAYOUT_VALUE(NC_ERRORS_ERRNO, 0x50);
LAYOUT_VALUE(NC_ERRORS_ARGUMENT, 0x60);

LAYOUT_VALUE(NC_OK, 0);
LAYOUT_VALUE(NC_E_NOMEM, -1);
LAYOUT_VALUE(NC_E_DUPLICATE, -2);
LAYOUT_VALUE(NC_E_RANGE, -3);
LAYOUT_VALUE(NC_E_TOOLONG, -4);
LAYOUT_VALUE(NC_E_FORMAT, -5);
LAYOUT_VALUE(NC_E_MISSING, -6);
LAYOUT_VALUE(NC_E_VERSION, -7);
LAYOUT_VALUE(NC_E_GIL, -8);

#if UINTPTR_MAX == UINT64_MAX

LAYOUT_VALUE(NC_FLAGS_ABI_MASK, 0xFFFFFFFFFF000080);

LAYOUT_SIZE(NcInternHeader, 16);
LAYOUT_FIELD(NcInternHeader, length, 0, uint64_t);
LAYOUT_FIELD(NcInternHeader, hash, 8, uint64_t);

LAYOUT_FIELD(NcRegistry, abi_version, 0, uint32_t);
LAYOUT_FIELD(NcRegistry, reserved, 4, uint32_t);
LAYOUT_FIELD(NcRegistry, table, 8, NcInternTable *);

LAYOUT_SIZE(NcInternTable, 16);
LAYOUT_FIELD(NcInternTable, mask, 0, size_t);
LAYOUT_FIELD(NcInternTable, superseded, 8, struct NcInternTable *);

LAYOUT_SIZE(PyCustomSlot, 24);
LAYOUT_FIELD(PyCustomSlot, id, 0, uintptr_t);
LAYOUT_FIELD(PyCustomSlot, flags, 8, uint64_t);
LAYOUT_FIELD(PyCustomSlot, data.pointer, 16, void *);
LAYOUT_FIELD(PyCustomSlot, data.objoffset, 16, intptr_t);
LAYOUT_FIELD(PyCustomSlot, data.flags, 16, uintptr_t);

LAYOUT_SIZE(PyCustomSlotTable, 560);
LAYOUT_FIELD(PyCustomSlotTable, abi_version, 0, uint32_t);
LAYOUT_FIELD(PyCustomSlotTable, count, 4, uint32_t);
LAYOUT_FIELD(PyCustomSlotTable, multiplier, 8, uint64_t);
LAYOUT_FIELD(PyCustomSlotTable, cells, 16, const uint16_t *);
LAYOUT_FIELD(PyCustomSlotTable, f_high, 24, uint64_t);
LAYOUT_FIELD(PyCustomSlotTable, g_shift, 32, uint32_t);
LAYOUT_FIELD(PyCustomSlotTable, f_shift, 36, uint32_t);
LAYOUT_FIELD(PyCustomSlotTable, size, 40, uint64_t);
LAYOUT_FIELD(PyCustomSlotTable, expected, 48, uint16_t[256]);

LAYOUT_SIZE(PyNativeCallableEntry, 24);
LAYOUT_FIELD(PyNativeCallableEntry, signature, 0, const char *);
LAYOUT_FIELD(PyNativeCallableEntry, flags, 8, uintptr_t);
LAYOUT_FIELD(PyNativeCallableEntry, funcptr, 16, void *);

LAYOUT_SIZE(PyNativeCallableTable, 32);
LAYOUT_FIELD(PyNativeCallableTable, count, 0, intptr_t);
LAYOUT_FIELD(PyNativeCallableTable, entries, 8, PyNativeCallableEntry[1]);

LAYOUT_SIZE(NcPackedEntry, 16);
LAYOUT_FIELD(NcPackedEntry, signature, 0, uint64_t);
LAYOUT_FIELD(NcPackedEntry, function, 8, NcPackedFunction);

LAYOUT_SIZE(NcPackedFunction, 8);
LAYOUT_FIELD(NcPackedFunction, funcptr, 0, void *);
LAYOUT_FIELD(NcPackedFunction, cell, 0, uint64_t);

LAYOUT_FIELD(NcView, data, 0, void *);
LAYOUT_FIELD(NcView, shape, 8, intptr_t[1]);

/* The typed descriptors, for every element and every number of dimensions. */
#define VIEW_LAYOUT(T, n)                                                                          \
    typedef NC_VIEW(T, n) LAYOUT_PASTE(View, __LINE__);                                            \
    LAYOUT_ASSERT(sizeof(LAYOUT_PASTE(View, __LINE__)) == 8 + 16 * (n) &&                          \
                  offsetof(LAYOUT_PASTE(View, __LINE__), data) == 0 &&                             \
                  offsetof(LAYOUT_PASTE(View, __LINE__), shape) == 8 &&                            \
                  offsetof(LAYOUT_PASTE(View, __LINE__), strides) == 8 + 8 * (n))
VIEW_LAYOUT(double, 1);
VIEW_LAYOUT(const char, 2);
VIEW_LAYOUT(long double, 3);
VIEW_LAYOUT(NcView, 8);
VIEW_LAYOUT(void *, 64);

/* ---- descriptors of views -------------------------------------------------------------------- */

static uint64_t word64(const void *base, size_t offset)
{
    uint64_t value;
    memcpy(&value, (const char *)base + offset, sizeof value);
    return value;
}

static const char *pointer(const void *base, size_t offset)
{
    const char *value;
    memcpy(&value, (const char *)base + offset, sizeof value);
    return value;
}

/* An element by the document: words only, of a descriptor of any type and ndim. */
static double read_element(const void *view, int ndim, const intptr_t *indices)
{
    const char *at = pointer(view, 0);
    double element;
    int i;
    for (i = 0; i < ndim; i++) {
        at += indices[i] * (intptr_t)word64(view, 8 + 8 * (size_t)(ndim + i));
    }
    memcpy(&element, at, sizeof element);
    return element;
}

typedef NC_VIEW(double, 3) Cube;

/* Whether the elements that a descriptor reaches, in the order given, are every address once, one
 * after the other: contiguity by its meaning. */
static int follow_each_other(const Cube *a, char order)
{
    const char *next = (const char *)a->data;
    intptr_t i, j, k;
    const int c = order == 'C';
    for (i = 0; i < a->shape[c ? 0 : 2]; i++) {
        for (j = 0; j < a->shape[1]; j++) {
            for (k = 0; k < a->shape[c ? 2 : 0]; k++) {
                const double *at =
                    c ? &NC_VIEW_AT(double, a, i, j, k) : &NC_VIEW_AT(double, a, k, j, i);
                if ((const char *)at != next) {
                    return 0;
                }
                next += sizeof(double);
            }
        }
    }
    return 1;
}

static void test_views(size_t count, uint64_t *state)
{
    static double memory[2000];
    size_t t;
    for (t = 0; t < 2000; t++) {
        memory[t] = (double)t;
    }
    for (t = 0; t < count; t++) {
        Cube a;
        const NcView *plain = (const NcView *)(const void *)&a;
        intptr_t strides[3];
        intptr_t indices[3];
        int k, empty = 0;
        a.data = memory + 1000;
        for (k = 0; k < 3; k++) {
            a.shape[k] = (intptr_t)(check_random(state) % 5);
            empty |= a.shape[k] == 0;
        }
        nc_view_fill_strides(a.shape, a.strides, 3, sizeof(double), t % 2 ? 'C' : 'F');
        CHECK(t % 2 ? NC_VIEW_IS_C(&a) : NC_VIEW_IS_F(&a));
        for (k = 0; k < 3; k++) {
            const uint64_t change = check_random(state) % 8;
            if (change == 0) {
                a.strides[k] = -a.strides[k];
            } else if (change == 1) {
                a.strides[k] = 8 * ((intptr_t)(check_random(state) % 41) - 20);
            }
            indices[k] = empty ? 0 : (intptr_t)(check_random(state) % (uint64_t)a.shape[k]);
            strides[k] = nc_view_strides(plain, 3)[k];
        }
        CHECK(nc_view_shape(plain) == plain->shape && memcmp(strides, a.strides, 24) == 0);
        CHECK(NC_VIEW_NDIM(&a) == 3);
        CHECK(NC_VIEW_SIZE(&a) == a.shape[0] * a.shape[1] * a.shape[2]);
        CHECK(NC_VIEW_IS_C(&a) == follow_each_other(&a, 'C'));
        CHECK(NC_VIEW_IS_F(&a) == follow_each_other(&a, 'F'));
        CHECK(NC_VIEW_AT(double, &a, indices[0], indices[1], indices[2]) ==
              read_element(&a, 3, indices));
    }
}

static void run(size_t count)
{
    uint64_t state = 8;
    test_views(count, &state);
}

#else

/* The document gives offsets for 64 bits. */
static void run(size_t count)
{
    CHECK(count != 0 && sizeof(PyCustomSlot) % sizeof(uint64_t) == 0);
}

#endif

int main(int argc, char **argv)
{
    run(check_argument(argc, argv, 20000));
    return check_report("test_layout");
}
