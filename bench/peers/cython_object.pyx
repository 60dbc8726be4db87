# cython: language_level=3
"""Cython's extension type, beside native objects: a public double, and a method by its table."""


cdef class Point:
    cdef public double x, y

    cpdef double sum(self):
        return self.x + self.y


def make(Py_ssize_t count):
    """Make and drop so many, in C, with the GIL."""
    cdef Py_ssize_t i
    for i in range(count):
        Point.__new__(Point)
