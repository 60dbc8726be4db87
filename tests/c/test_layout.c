/* tests/c/test_layout.c: typed descriptors of views lie, and lead, where the document says.
 *
 * The other structs are held to it by tests/core/test_abi.py. */
#include <string.h>

#include "check.h"
#include "layout.h"
#include "nativecall/view.h"

#if UINTPTR_MAX == UINT64_MAX

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
    CHECK(count != 0);
}

#endif

int main(int argc, char **argv)
{
    run(check_argument(argc, argv, 20000));
    return check_report("test_layout");
}
