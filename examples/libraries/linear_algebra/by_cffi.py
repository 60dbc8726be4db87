"""LAPACK solves equations and BLAS multiplies matrices, both Fortran's: with cffi."""

import numpy as np
from cffi import FFI

ffi = FFI()
ffi.cdef("""
    void dgesv_(int *, int *, double *, int *, int *, double *, int *, int *);
    void dgemm_(char *, char *, int *, int *, int *, double *, double *, int *, double *, int *,
                double *, double *, int *, size_t, size_t);
""")
lapack, blas = ffi.dlopen("liblapack.so"), ffi.dlopen("libblas.so")


def number(value):
    return ffi.new("int *", value)


def array(values, kind="double[]"):
    if not values.flags.f_contiguous:
        raise ValueError("not in Fortran order")
    return ffi.from_buffer(kind, values.ravel("K"))


def solve(a, b):
    """Solve a x = b; both are written over."""
    n, info, pivots = number(len(a)), number(0), ffi.new("int[]", len(a))
    lapack.dgesv_(n, number(b.shape[1]), array(a), n, pivots, array(b), n, info)
    if info[0]:
        raise ValueError(f"dgesv: {info[0]}")


def multiply(a, b, c):
    """Write the product of a and b to c."""
    m, n, k = number(a.shape[0]), number(b.shape[1]), number(b.shape[0])
    one, zero, no = ffi.new("double *", 1), ffi.new("double *", 0), ffi.new("char *", b"N")
    given = array(a), m, array(b), k, zero, array(c), m
    blas.dgemm_(no, no, m, n, k, one, *given, 1, 1)


def main():
    a = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]], order="F")
    b = np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]], order="F")
    x, product = b.copy(order="F"), np.zeros((3, 2), order="F")
    solve(a.copy(order="F"), x)
    multiply(a, x, product)
    print(np.allclose(product, b), x.round(6).tolist())
    for wrong in (np.zeros((3, 3), order="F"), np.ascontiguousarray(a)[:, :]):
        try:
            solve(wrong, x)
        except ValueError:
            print("refused")


if __name__ == "__main__":
    main()
