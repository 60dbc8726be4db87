"""LAPACK solves equations and BLAS multiplies matrices, both Fortran's: with ctypes."""

import ctypes as ct

import numpy as np

MATRIX = np.ctypeslib.ndpointer(float, 2, flags="F")
INT, DOUBLE = ct.POINTER(ct.c_int), ct.POINTER(ct.c_double)
PIVOTS = np.ctypeslib.ndpointer(np.int32, 1)
lapack, blas = ct.CDLL("liblapack.so"), ct.CDLL("libblas.so")
lapack.dgesv_.argtypes = [INT, INT, MATRIX, INT, PIVOTS, MATRIX, INT, INT]
lapack.dgesv_.restype = blas.dgemm_.restype = None
blas.dgemm_.argtypes = [ct.c_char_p, ct.c_char_p, INT, INT, INT, DOUBLE, MATRIX, INT, MATRIX, INT]
blas.dgemm_.argtypes += [DOUBLE, MATRIX, INT, ct.c_size_t, ct.c_size_t]


def solve(a, b):
    """Solve a x = b; both are written over."""
    n, info, pivots = ct.byref(ct.c_int(len(a))), ct.c_int(), np.zeros(len(a), np.int32)
    lapack.dgesv_(n, ct.byref(ct.c_int(b.shape[1])), a, n, pivots, b, n, ct.byref(info))
    if info.value:
        raise ValueError(f"dgesv: {info.value}")


def multiply(a, b, c):
    """Write the product of a and b to c."""
    m, n, k = (ct.byref(ct.c_int(count)) for count in (a.shape[0], b.shape[1], b.shape[0]))
    one, zero = ct.byref(ct.c_double(1)), ct.byref(ct.c_double(0))
    blas.dgemm_(b"N", b"N", m, n, k, one, a, m, b, k, zero, c, m, 1, 1)


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
        except (ct.ArgumentError, ValueError):
            print("refused")


if __name__ == "__main__":
    main()
