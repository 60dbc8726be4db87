/* nativecall/view.h: strided arrays as C functions get them: pointer, shape and strides.
 *
 * Idea:       an argument `[n]T` of a signature points to a descriptor that the caller fills from
 *             the array, without a copy of it. The callee is plain C and knows no Python:
 *
 *                 typedef NC_VIEW(double, 2) Matrix;
 *
 *                 double trace(const Matrix *a)                        // "d:[2]d"
 *                 {
 *                     double sum = 0;
 *                     for (intptr_t i = 0; i < a->shape[0] && i < a->shape[1]; i++) {
 *                         sum += NC_VIEW_AT(double, a, i, i);
 *                     }
 *                     return sum;
 *                 }
 *
 * Layout:     struct { T *data; intptr_t shape[n]; intptr_t strides[n]; }: 1 + 2n words without
 *             padding. It is passed by address because C passes structs of more than two words in
 *             memory anyway, and so the descriptor is one argument word whatever n is. `data` is
 *             the element with all indices 0, `shape` counts elements, and `strides` are bytes, as
 *             in PEP 3118 and NumPy: a field of an array of structs has a stride that need not be
 *             a multiple of the field's own size. n is 1 to 64.
 * Invariants: no length is negative. Strides are of either sign, and 0 where an array is
 *             broadcast; then elements are one and the same, so look before you write. If any
 *             length is 0 there is no element, and `data` means nothing. Else the address of every
 *             element is a multiple of T's alignment. The stride of a dimension of length 1 or 0
 *             means nothing: tests of contiguity look past it, and so must yours. Elements are in
 *             the machine's byte order.
 * Const:      a callee that never writes elements says NC_VIEW(const T, n). That is no part of a
 *             signature's identity; from Python read-only arrays pass only if nativecall.Signature
 *             was told so, by `readonly`.
 * Ownership:  descriptor and data belong to the caller. Both stay where they are until the call
 *             returns: a buffer's export is held, so that it can be neither resized nor freed
 *             meanwhile. Keep neither. A descriptor is the callee's to read, not to write.
 * NULL:       Python's None arrives as a null descriptor.
 * Threads:    pure functions. Without the GIL other threads may write elements meanwhile.
 * Cython:     a typed memoryview becomes a descriptor, and a descriptor a typed memoryview, without
 *             a copy: NC_VIEW_OF_SLICE and NC_SLICE_OF_VIEW, at the end.
 * Source:     SEP 201, "Technical overview": memoryview slices in signatures, "so that arrays with
 *             strides and shape can be passed faster".
 * Portable:   C99, C11, C++11, MSVC. */
#ifndef NATIVECALL_VIEW_H
#define NATIVECALL_VIEW_H

#include <string.h>

#include "detail/core/base.h"

NC_C_BEGIN

/* ---- the descriptor -------------------------------------------------------------------------- */

/* The descriptor of `[n]T`. Every use is a type of its own, as of all structs in C: name it once,
 * by typedef. */
#define NC_VIEW(T, n)                                                                              \
    struct {                                                                                       \
        T *data;                                                                                   \
        intptr_t shape[n];                                                                         \
        intptr_t strides[n];                                                                       \
    }

/* The beginning of every descriptor, for code that learns the type and n at run time. */
typedef struct {
    void *data;
    intptr_t shape[1]; /* n lengths, then n strides */
} NcView;

NC_STATIC_INLINE const intptr_t *nc_view_shape(const NcView *view)
{
    return view->shape;
}

NC_STATIC_INLINE const intptr_t *nc_view_strides(const NcView *view, int ndim)
{
    return view->shape + ndim;
}

/* n, a constant. */
#define NC_VIEW_NDIM(view) ((int)(sizeof((view)->shape) / sizeof((view)->shape[0])))

/* ---- elements -------------------------------------------------------------------------------- */

/* The element at n indices, an lvalue: NC_VIEW_AT(double, a, i, j) = 1. Nothing is checked at run
 * time. The compiler checks that T is the element's type, const or not, and that there are n
 * indices. Each argument but `view` is evaluated once. */
#define NC_VIEW_AT(T, view, ...)                                                                   \
    (*(1 ? (T *)(void *)((char *)(view)->data + NC_VIEW_OFFSET(view, __VA_ARGS__)) : (view)->data))

/* Bytes from `data` to the element at 1 to 8 indices; another number of them does not compile. */
#define NC_VIEW_OFFSET(view, ...)                                                                  \
    (0 * (intptr_t)sizeof(char[NC_VIEW_NDIM(view) == NC_COUNT(__VA_ARGS__) ? 1 : -1]) +            \
     NC_EXPAND(NC_PASTE(NC_PASTE(NC_VIEW_SUM_, NC_COUNT(__VA_ARGS__)), _)(view, __VA_ARGS__)))
#define NC_VIEW_STEP_(view, k, i) ((intptr_t)(i) * (view)->strides[k])
#define NC_VIEW_SUM_1_(v, a) NC_VIEW_STEP_(v, 0, a)
#define NC_VIEW_SUM_2_(v, a, b) NC_VIEW_SUM_1_(v, a) + NC_VIEW_STEP_(v, 1, b)
#define NC_VIEW_SUM_3_(v, a, b, c) NC_VIEW_SUM_2_(v, a, b) + NC_VIEW_STEP_(v, 2, c)
#define NC_VIEW_SUM_4_(v, a, b, c, d) NC_VIEW_SUM_3_(v, a, b, c) + NC_VIEW_STEP_(v, 3, d)
#define NC_VIEW_SUM_5_(v, a, b, c, d, e) NC_VIEW_SUM_4_(v, a, b, c, d) + NC_VIEW_STEP_(v, 4, e)
#define NC_VIEW_SUM_6_(v, a, b, c, d, e, f)                                                        \
    NC_VIEW_SUM_5_(v, a, b, c, d, e) + NC_VIEW_STEP_(v, 5, f)
#define NC_VIEW_SUM_7_(v, a, b, c, d, e, f, g)                                                     \
    NC_VIEW_SUM_6_(v, a, b, c, d, e, f) + NC_VIEW_STEP_(v, 6, g)
#define NC_VIEW_SUM_8_(v, a, b, c, d, e, f, g, h)                                                  \
    NC_VIEW_SUM_7_(v, a, b, c, d, e, f, g) + NC_VIEW_STEP_(v, 7, h)

/* ---- sizes and order ------------------------------------------------------------------------- */

/* Elements in all. */
NC_STATIC_INLINE intptr_t nc_view_size(const intptr_t *shape, int ndim)
{
    intptr_t size = 1;
    for (int i = 0; i < ndim; i++) {
        size *= shape[i];
    }
    return size;
}

/* Whether elements follow each other without a gap, from `data` on, the last index fastest (order
 * 'C') or the first (order 'F'). An array without elements is both. */
NC_STATIC_INLINE int nc_view_is_contiguous(const intptr_t *shape, const intptr_t *strides, int ndim,
                                           size_t itemsize, char order)
{
    intptr_t step = (intptr_t)itemsize;
    int contiguous = 1;
    for (int i = 0; i < ndim; i++) {
        const int k = order == 'C' ? ndim - 1 - i : i;
        if (shape[k] == 0) {
            return 1;
        }
        contiguous &= shape[k] == 1 || strides[k] == step;
        step *= shape[k];
    }
    return contiguous;
}

/* The strides of contiguous elements, for callers that make a descriptor: order 'C' or 'F'. */
NC_STATIC_INLINE void nc_view_fill_strides(const intptr_t *shape, intptr_t *strides, int ndim,
                                           size_t itemsize, char order)
{
    intptr_t step = (intptr_t)itemsize;
    for (int i = 0; i < ndim; i++) {
        const int k = order == 'C' ? ndim - 1 - i : i;
        strides[k] = step;
        step *= shape[k];
    }
}

/* Of a typed descriptor. Where NC_VIEW_IS_C says yes, a loop over data[0] to data[size - 1] sees
 * every element, and compilers vectorise it. */
#define NC_VIEW_SIZE(view) nc_view_size((view)->shape, NC_VIEW_NDIM(view))
#define NC_VIEW_IS_C(view) NC_VIEW_IS_(view, 'C')
#define NC_VIEW_IS_F(view) NC_VIEW_IS_(view, 'F')
#define NC_VIEW_IS_(view, order)                                                                   \
    nc_view_is_contiguous((view)->shape, (view)->strides, NC_VIEW_NDIM(view),                      \
                          sizeof *(view)->data, order)

/* ---- Cython's typed memoryviews -------------------------------------------------------------- */

/* A slice of Cython's, __Pyx_memviewslice, has the fields of a descriptor with room for 8
 * dimensions (memoryviews have at most 7), and two more: `memview`, a counted reference to who owns
 * the memory, and `suboffsets`, for arrays of pointers to rows. A module in Cython declares these
 * two as functions, for each type of memoryview (nativecall/__init__.pxd shows it). They are macros
 * because Cython gives each module a type of its own for slices, and declares it behind the
 * includes. */

/* void NC_VIEW_OF_SLICE(View *view, T[:, ...] slice): makes *view, a typed descriptor of n
 * dimensions, what the slice is. The slice has n dimensions, none of them indirect, and lives as
 * long as the view is used. None is an array without elements. Needs no GIL, counts nothing. */
#define NC_VIEW_OF_SLICE(view, slice)                                                              \
    ((void)memcpy(&(view)->data, &(slice).data, sizeof((view)->data)),                             \
     (void)memcpy((view)->shape, (slice).shape, sizeof((view)->shape)),                            \
     (void)memcpy((view)->strides, (slice).strides, sizeof((view)->strides)))

/* T[:, ...] NC_SLICE_OF_VIEW(T[:, ...] like, const View *view): a slice of the descriptor's memory.
 * `like` is any slice of that type that is not None, usually one that the module keeps for this: it
 * tells the item's size and format, and references to the new slice are counted as references to
 * its owner. So the memory is borrowed: neither the slice, nor a part of it, nor an object made of
 * it may be used when the function has returned whose argument the view was. Needs no GIL, and
 * takes none as long as `like` lives. The view is not NULL. */
#define NC_SLICE_OF_VIEW(like, view)                                                               \
    (__PYX_INC_MEMVIEW(&(like), 0), *(__Pyx_memviewslice *)nc_slice_set(                           \
                                        NC_SLICE_COPY_(like), sizeof((like).shape), &(view)->data, \
                                        (view)->shape, (view)->strides, sizeof((view)->shape)))

/* Gives a slice, `room` bytes of which are its shape, another's memory. Returns it. */
NC_STATIC_INLINE void *nc_slice_set(void *slice, size_t room, const void *data,
                                    const intptr_t *shape, const intptr_t *strides, size_t size)
{
    char *fields = (char *)slice + sizeof(void *); /* behind `memview` */
    memcpy(fields, data, sizeof(void *));
    memcpy(fields + sizeof(void *), shape, size);
    memcpy(fields + sizeof(void *) + room, strides, size);
    return slice;
}

NC_C_END

#ifdef __cplusplus
#define NC_SLICE_COPY_(like) nc_slice_address(__Pyx_memviewslice(like))

template <typename Slice> Slice *nc_slice_address(Slice &&slice)
{
    return &slice;
}
#else
#define NC_SLICE_COPY_(like) ((__Pyx_memviewslice[1]){like})
#endif

#endif
