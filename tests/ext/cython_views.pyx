# cython: boundscheck=False
# tests/ext/cython_views.pyx: typed memoryviews that go through `[n]T` arguments, both ways; a cdef
# class with slots.
#
# Built as C and as C++. `apply_*` call a native function with a memoryview; the functions whose
# addresses `address_of` gives are called with arrays and use them as memoryviews.

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport intptr_t, uintptr_t

cimport nativecall as nc
from nativecall cimport NcView

ctypedef struct Line:
    double *data
    intptr_t shape[1]
    intptr_t strides[1]

ctypedef struct Matrix:
    double *data
    intptr_t shape[2]
    intptr_t strides[2]

ctypedef struct Deep:
    const float *data
    intptr_t shape[7]
    intptr_t strides[7]

cdef extern from "nativecall/view.h" nogil:
    void line_of "NC_VIEW_OF_SLICE" (Line *view, double[:] a)
    void matrix_of "NC_VIEW_OF_SLICE" (Matrix *view, double[:, :] a)
    void deep_of "NC_VIEW_OF_SLICE" (Deep *view, const float[:, :, :, :, :, :, :] a)
    double[:] line_slice "NC_SLICE_OF_VIEW" (double[:] like, const Line *view)
    double[:, :] matrix_slice "NC_SLICE_OF_VIEW" (double[:, :] like, const Matrix *view)
    const float[:, :, :, :, :, :, :] deep_slice "NC_SLICE_OF_VIEW" (
        const float[:, :, :, :, :, :, :] like, const Deep *view)

cdef double[:] any_line = cython.view.array((1,), sizeof(double), "d")
cdef double[:, :] any_matrix = cython.view.array((1, 1), sizeof(double), "d")
cdef const float[:, :, :, :, :, :, :] any_deep = cython.view.array((1,) * 7, sizeof(float), "f")

ctypedef double (*Called)(void *) noexcept nogil


# ---- a memoryview for a native function ----------------------------------------------------------

def described(double[:, :] a):
    """What the descriptor says: the address of the data, the shape and the strides."""
    cdef Matrix view
    cdef NcView *head = <NcView *>&view
    with nogil:
        matrix_of(&view, a)
    assert <void *>view.data == head.data
    assert head.shape == nc.nc_view_shape(head)
    return (<uintptr_t>view.data, [nc.nc_view_shape(head)[i] for i in range(2)],
            [nc.nc_view_strides(head, 2)[i] for i in range(2)])


def order_of(double[:, :] a):
    """How many elements there are, and whether they lie in C's order and in Fortran's."""
    cdef Matrix view
    matrix_of(&view, a)
    return (nc.nc_view_size(view.shape, 2),
            nc.nc_view_is_contiguous(view.shape, view.strides, 2, sizeof(double), b"C"),
            nc.nc_view_is_contiguous(view.shape, view.strides, 2, sizeof(double), b"F"))


def strides_for(intptr_t rows, intptr_t columns, char order):
    cdef Matrix view
    view.shape[0], view.shape[1] = rows, columns
    nc.nc_view_fill_strides(view.shape, view.strides, 2, sizeof(double), order)
    return view.strides[0], view.strides[1]


def apply_line(uintptr_t function, double[:] a):
    cdef Line view
    cdef double result
    with nogil:
        line_of(&view, a)
        result = (<Called>function)(&view)
    return result


def apply_matrix(uintptr_t function, double[:, :] a):
    cdef Matrix view
    cdef double result
    with nogil:
        matrix_of(&view, a)
        result = (<Called>function)(&view)
    return result


def apply_part(uintptr_t function, double[:, :] a, Py_ssize_t step):
    """The same with a slice of the memoryview, which is a temporary."""
    cdef Matrix view
    cdef double[:, :] part = a[::step, ::-1]
    matrix_of(&view, part.T)
    return (<Called>function)(&view)


def apply_deep(uintptr_t function, const float[:, :, :, :, :, :, :] a):
    cdef Deep view
    deep_of(&view, a)
    return (<Called>function)(&view)


# ---- a native function that uses its argument as a memoryview ------------------------------------

cdef double line_sum(const Line *view) noexcept nogil:
    cdef double[:] a = line_slice(any_line, view)
    cdef double total = 0.0
    cdef Py_ssize_t i
    for i in range(a.shape[0]):
        total += a[i]
    return total


# Weighs by position, so that every stride counts.
cdef double matrix_weigh(const Matrix *view) noexcept nogil:
    cdef double[:, :] a = matrix_slice(any_matrix, view)
    cdef double total = 0.0
    cdef Py_ssize_t i, k
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            total += (10 * i + k) * a[i, k]
    return total


# Whole slices, of which Cython asks the memoryview object: assigned, copied, transposed.
cdef double matrix_edit(const Matrix *view) noexcept nogil:
    cdef double[:, :] a = matrix_slice(any_matrix, view)
    cdef double[:, :] other = a
    a[0, :] = 5.0
    a[1:, :] = a[:-1, :]
    a = other.T
    a[0, 0] = -1.0
    other = matrix_slice(a, view)       # instead of one that there was
    return other[0, 0]


# With the GIL: a copy, and an object that NumPy takes.
cdef double matrix_object(const Matrix *view) noexcept with gil:
    cdef double[:, :] a = matrix_slice(any_matrix, view)
    cdef double[:, ::1] copied = a.copy()
    seen.append((memoryview(a).tolist(), memoryview(copied).tolist(), memoryview(a).strides))
    return <uintptr_t>&a[0, 0] == <uintptr_t>view.data


cdef double deep_corner(const Deep *view) noexcept nogil:
    cdef const float[:, :, :, :, :, :, :] a = deep_slice(any_deep, view)
    return a[0, 1, 0, 1, 0, 1, 0] + 100 * a.shape[6]


seen = []


def address_of(name):
    return {
        "line_sum": <uintptr_t>&line_sum,
        "matrix_weigh": <uintptr_t>&matrix_weigh,
        "matrix_edit": <uintptr_t>&matrix_edit,
        "matrix_object": <uintptr_t>&matrix_object,
        "deep_corner": <uintptr_t>&deep_corner,
    }[name]


def kept():
    """The objects that slices are counted with."""
    return [any_line.base, any_matrix.base, any_deep.base]


# ---- a class with slots --------------------------------------------------------------------------

nc.PyCustomSlots_Import()
extensibletype = <object>nc.PyExtensibleType_Import()


cdef class Field:
    cdef int before
    cdef double value

    def __init__(self, value):
        self.value = value


cdef double field_get(Field self) noexcept nogil:
    return self.value


cdef Field any_field = Field(0.0)


class SlottedField(Field, metaclass=extensibletype):
    __slots__ = ()
    __customslots__ = {
        "field.get": <uintptr_t>&field_get,
        b"field.at": <intptr_t>(<char *>&any_field.value - <char *><PyObject *>any_field),
    }


def read_field(obj, bytes function, bytes offset):
    """What native code finds by either slot; None where there is none."""
    cdef PyObject *borrowed = <PyObject *>obj
    cdef const char *key
    cdef const nc.PyCustomSlot *row
    found = []
    nc.PyExtensibleType_Intern(function, len(function), &key)
    row = nc.PyCustomSlots_FindKey(borrowed, key)
    found.append(None if row == NULL else (<double (*)(PyObject *) noexcept nogil>row.data.pointer)(borrowed))
    nc.PyExtensibleType_Intern(offset, len(offset), &key)
    row = nc.PyCustomSlots_FindKey(borrowed, key)
    found.append(None if row == NULL else (<double *>(<char *>borrowed + row.data.objoffset))[0])
    return found
