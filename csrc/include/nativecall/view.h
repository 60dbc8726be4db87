/* nativecall/view.h: passes strided arrays to C functions, as pointer, shape and strides.
 *
 * Idea:       an argument `[n]T` of a signature is a pointer to a descriptor, which the caller
 *             fills from the array without copying the elements. The callee is plain C:
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
 *             padding. It is passed by address, so the argument is one word for any n; C would pass
 *             a struct this large in memory anyway. `data` points to the element with all indices
 *             0, `shape` counts elements, and `strides` are bytes, as in PEP 3118 and NumPy. A
 *             stride need not be a multiple of the element size, for example for one field of an
 *             array of structs. n is 1 to 64.
 * Invariants: lengths are >= 0. Strides may be negative, or 0 in a broadcast array, whose elements
 *             then share memory: check before you write. If any length is 0, there are no elements
 *             and `data` is meaningless. Otherwise every element is aligned for T. Ignore the
 *             stride of a dimension of length 0 or 1 when you test for contiguity. Elements are in
 *             native byte order.
 * Const:      if the callee never writes elements, declare NC_VIEW(const T, n). The `const` is not
 *             part of the signature. From Python, pass `readonly` to nativecall.Signature to accept
 *             read-only arrays.
 * Ownership:  the caller owns the descriptor and the data. Both stay in place until the call
 *             returns: the buffer stays exported, so it cannot be resized or freed. Do not keep
 *             pointers to the descriptor or the data after the call, and do not write to the
 *             descriptor.
 * NULL:       Python's None is passed as a NULL descriptor.
 * Threads:    pure functions. If the callee runs without the GIL, other threads may write elements
 *             meanwhile.
 * Cython:     NC_VIEW_OF_SLICE and NC_SLICE_OF_VIEW, at the end, convert between typed memoryviews
 *             and descriptors without copying.
 * Source:     SEP 201, "Technical overview": memoryview slices in signatures, "so that arrays with
 *             strides and shape can be passed faster".
 * Portable:   C99, C11, C++11, MSVC. */
#ifndef NATIVECALL_VIEW_H
#define NATIVECALL_VIEW_H

#include <string.h>

#include "detail/core/base.h"

NC_C_BEGIN

/* ---- the descriptor -------------------------------------------------------------------------- */

/* The descriptor of `[n]T`. As for any anonymous struct, each use is a distinct type: name it once
 * with a typedef. */
#define NC_VIEW(T, n)                                                                              \
    struct {                                                                                       \
        T *data;                                                                                   \
        intptr_t shape[n];                                                                         \
        intptr_t strides[n];                                                                       \
    }

/* The start of every descriptor, for code that gets the type and n at run time. */
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

/* The number of dimensions, as a constant expression. */
#define NC_VIEW_NDIM(view) ((int)(sizeof((view)->shape) / sizeof((view)->shape[0])))

/* ---- elements -------------------------------------------------------------------------------- */

/* The element at n indices, an lvalue: NC_VIEW_AT(double, a, i, j) = 1. Nothing is checked at run
 * time. The compiler checks the number of indices, and that T is the element's type (const or not).
 * Each argument except `view` is evaluated once. */
#define NC_VIEW_AT(T, view, ...)                                                                   \
    (*(1 ? (T *)(void *)((char *)(view)->data + NC_VIEW_OFFSET(view, __VA_ARGS__)) : (view)->data))

/* Byte offset from `data` of the element at 1 to 8 indices. A wrong number of indices does not
 * compile. */
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

/* ---- sizes and layout ------------------------------------------------------------------------ */

/* Return the number of elements. */
NC_STATIC_INLINE intptr_t nc_view_size(const intptr_t *shape, int ndim)
{
    intptr_t size = 1;
    for (int i = 0; i < ndim; i++) {
        size *= shape[i];
    }
    return size;
}

/* Return whether the elements are contiguous from `data` on, in order 'C' (the last index varies
 * fastest) or 'F' (the first does). An empty array is both. */
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

/* Fill in the strides of a contiguous array, for callers that build a descriptor: order 'C' or
 * 'F'. */
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

/* For typed descriptors. If NC_VIEW_IS_C is true, loop over data[0] to data[size - 1]: compilers
 * vectorise that loop. */
#define NC_VIEW_SIZE(view) nc_view_size((view)->shape, NC_VIEW_NDIM(view))
#define NC_VIEW_IS_C(view) NC_VIEW_IS_(view, 'C')
#define NC_VIEW_IS_F(view) NC_VIEW_IS_(view, 'F')
#define NC_VIEW_IS_(view, order)                                                                   \
    nc_view_is_contiguous((view)->shape, (view)->strides, NC_VIEW_NDIM(view),                      \
                          sizeof *(view)->data, order)

/* ---- Cython's typed memoryviews -------------------------------------------------------------- */

/* Cython's slice struct, __Pyx_memviewslice, has the fields of a descriptor with room for 8
 * dimensions (memoryviews have at most 7). It adds `memview`, a counted reference to the owner of
 * the memory, and `suboffsets`, for arrays of pointers to rows. A Cython module declares the two
 * macros below as functions, once per memoryview type (see nativecall/__init__.pxd). They are
 * macros because each Cython module defines its own slice struct, after the includes. */

/* void NC_VIEW_OF_SLICE(View *view, T[:, ...] slice): fill *view, a typed descriptor of n
 * dimensions, from the slice. The slice has n direct dimensions and must outlive the use of the
 * view. None becomes an empty array. Needs no GIL and changes no reference count. */
#define NC_VIEW_OF_SLICE(view, slice)                                                              \
    ((void)memcpy(&(view)->data, &(slice).data, sizeof((view)->data)),                             \
     (void)memcpy((view)->shape, (slice).shape, sizeof((view)->shape)),                            \
     (void)memcpy((view)->strides, (slice).strides, sizeof((view)->strides)))

/* T[:, ...] NC_SLICE_OF_VIEW(T[:, ...] like, const View *view): return a slice of the descriptor's
 * memory. `like` is any slice of that type except None; usually the module keeps one for this
 * purpose. `like` provides the item size and the format. The new slice holds a counted reference to
 * the owner of `like`, not to the owner of the descriptor's memory. That memory is borrowed: once
 * the function that received the view returns, do not use the slice, parts of it, or objects made
 * from it. Needs no GIL, and does not acquire the GIL while `like` is alive. The view must not be
 * NULL. */
#define NC_SLICE_OF_VIEW(like, view)                                                               \
    (__PYX_INC_MEMVIEW(&(like), 0), *(__Pyx_memviewslice *)nc_slice_set(                           \
                                        NC_SLICE_COPY_(like), sizeof((like).shape), &(view)->data, \
                                        (view)->shape, (view)->strides, sizeof((view)->shape)))

/* Point a slice, whose shape takes `room` bytes, to other memory. Return the slice. */
NC_STATIC_INLINE void *nc_slice_set(void *slice, size_t room, const void *data,
                                    const intptr_t *shape, const intptr_t *strides, size_t size)
{
    char *fields = (char *)slice + sizeof(void *); /* after `memview` */
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
