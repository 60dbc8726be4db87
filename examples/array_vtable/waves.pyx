# waves.pyx: arrays in Cython: a cdef class that carries the slot, and a reader of all that have it.
#
# Cython lays its classes out by itself, so a cdef class cannot have the metaclass. A class that
# derives from it can: it adds nothing but the slot, whose functions take the cdef class.

from cpython.object cimport PyObject
from libc.math cimport sin
from libc.stdint cimport uintptr_t

from nativecall cimport (
    PyCustomSlot,
    PyCustomSlots_FindKey,
    PyCustomSlots_Import,
    PyExtensibleType_Import,
    PyExtensibleType_Intern,
)

ctypedef Py_ssize_t (*Length)(PyObject *) noexcept nogil
ctypedef double (*Get)(PyObject *, Py_ssize_t) noexcept nogil
ctypedef double (*Sum)(PyObject *, Py_ssize_t, Py_ssize_t, Py_ssize_t) noexcept nogil

cdef extern from "vtable.h":
    const char *ARRAY_KEY

    ctypedef struct ArrayVtable:
        Length length
        Get get
        Sum sum

cdef const char *key

PyCustomSlots_Import()
PyExtensibleType_Intern(ARRAY_KEY, len(ARRAY_KEY), &key)


# ---- the class -----------------------------------------------------------------------------------

cdef class Sine:
    """Samples of a sine."""

    cdef double step
    cdef Py_ssize_t count

    def __init__(self, double step, Py_ssize_t count):
        self.step = step
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, Py_ssize_t i):
        if not 0 <= i < self.count:
            raise IndexError("the wave is shorter")
        return sine_get(self, i)


# They use no more than C fields of the object, and so need no GIL.
cdef Py_ssize_t sine_length(Sine wave) noexcept nogil:
    return wave.count


cdef double sine_get(Sine wave, Py_ssize_t i) noexcept nogil:
    return sin(i * wave.step)


cdef double sine_sum(Sine wave, Py_ssize_t first, Py_ssize_t step, Py_ssize_t count) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t i
    for i in range(count):
        total += sine_get(wave, first + i * step)
    return total


cdef ArrayVtable vtable
vtable.length = <Length>sine_length
vtable.get = <Get>sine_get
vtable.sum = <Sum>sine_sum

extensibletype = <object>PyExtensibleType_Import()


class Wave(Sine, metaclass=extensibletype):
    """What users see of Sine."""

    __slots__ = ()
    __customslots__ = {ARRAY_KEY: <uintptr_t>&vtable}


# ---- the reader ----------------------------------------------------------------------------------

def spread(array):
    """The largest element minus the smallest, and whether they were read natively."""
    cdef PyObject *borrowed = <PyObject *>array
    cdef const PyCustomSlot *row = PyCustomSlots_FindKey(borrowed, key)
    cdef const ArrayVtable *functions = NULL
    cdef double low, high, value
    cdef Py_ssize_t i
    if row != NULL:
        functions = <const ArrayVtable *>row.data.pointer
    if functions == NULL:
        return max(array) - min(array), False
    with nogil:
        low = high = functions.get(borrowed, 0)
        for i in range(1, functions.length(borrowed)):
            value = functions.get(borrowed, i)
            low = min(low, value)
            high = max(high, value)
    return high - low, True
