# cython: language_level=3
"""Cython, as its users write it: `cpdef` functions, extension types that have a struct."""
from libc.stddef cimport size_t, wchar_t

cdef extern from "values.h":
    ctypedef struct c_P2 "P2":
        double x
        double y
    ctypedef struct c_Vec3 "Vec3":
        double x
        double y
        double z
    ctypedef struct c_S64 "S64":
        double v[8]
    ctypedef struct Node:
        double value
        Node *next
    double take_p2(c_P2)
    double take_s64(c_S64)
    double read_p2(const c_P2 *)
    c_Vec3 vec3_add(c_Vec3, c_Vec3)
    c_Vec3 vec3_scale(c_Vec3, double)
    double vec3_dot(c_Vec3, c_Vec3)
    double c_three "three"(double, double, double)
    int c_next "next"(int)
    int c_first "first"(const char *)
    double each_node(double (*)(Node *) noexcept, int)
    double each_p2(double (*)(c_P2) noexcept, int)
    double map_p2(c_P2 (*)(c_P2) noexcept, int)
    double c_apply "apply"(double (*)(double) noexcept, int)

cdef object function


cdef class P2:
    cdef c_P2 c

    def __init__(self, double x, double y):
        self.c.x = x
        self.c.y = y

    @property
    def x(self):
        return self.c.x

    @property
    def y(self):
        return self.c.y


cdef class Vec3:
    cdef c_Vec3 c

    def __init__(self, double x, double y, double z):
        self.c.x = x
        self.c.y = y
        self.c.z = z


cdef class S64:
    cdef c_S64 c


cdef class NodePointer:
    cdef Node *p

    @property
    def value(self):
        return self.p.value


cpdef double p2(P2 p):
    return take_p2(p.c)


cpdef double s64(S64 s):
    return take_s64(s.c)


cpdef double read(P2 p):
    return read_p2(&p.c)


cpdef Vec3 add(Vec3 a, Vec3 b):
    cdef Vec3 made = Vec3.__new__(Vec3)
    made.c = vec3_add(a.c, b.c)
    return made


cpdef Vec3 scale(Vec3 a, double by):
    cdef Vec3 made = Vec3.__new__(Vec3)
    made.c = vec3_scale(a.c, by)
    return made


cpdef double dot(Vec3 a, Vec3 b):
    return vec3_dot(a.c, b.c)


cpdef double three(double a, double b, double c):
    return c_three(a, b, c)


cpdef int next(int n):
    return c_next(n)


def of_bytes(const char *text):
    return c_first(text)


def of_str(str text):
    cdef bytes encoded = text.encode()
    return c_first(encoded)


# noexcept: C code cannot propagate a Python exception, and these functions raise none.


cdef double call_node(Node *node) noexcept:
    cdef NodePointer made = NodePointer.__new__(NodePointer)
    made.p = node
    return function(made)


cdef double call_p2(c_P2 p) noexcept:
    cdef P2 made = P2.__new__(P2)
    made.c = p
    return function(made)


cdef c_P2 change_p2(c_P2 p) noexcept:
    cdef P2 made = P2.__new__(P2)
    made.c = p
    return (<P2>function(made)).c


cdef double call_double(double x) noexcept:
    return function(x)


def nodes(f, int times):
    global function
    function = f
    return each_node(call_node, times)


def each(f, int times):
    global function
    function = f
    return each_p2(call_p2, times)


def mapped(f, int times):
    global function
    function = f
    return map_p2(change_p2, times)


def apply(f, int times):
    global function
    function = f
    return c_apply(call_double, times)
