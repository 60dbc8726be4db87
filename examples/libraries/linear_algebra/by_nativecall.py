"""Solve equations with LAPACK and multiply matrices with BLAS, both in Fortran."""

import numpy as np

import nativecall as nc

lapack = nc.load("lapack", header="lapack.h", fortran=True, errors={"dgesv": "argument"})
blas = nc.load(
    "blas",
    "void dgemm_(char *, char *, int *, int *, int *, double *, double *, int *, double *, int *,"
    "double *, double *, int *);",
    fortran=True,
)


def solve(a, b):
    """Solve a x = b; both are written over."""
    n = len(a)
    lapack.dgesv(n, b.shape[1], a, n, np.zeros(n, np.int32), b, n)


def multiply(a, b, c):
    """Write the product of a and b to c."""
    m, n, k = a.shape[0], b.shape[1], b.shape[0]
    blas.dgemm("N", "N", m, n, k, 1, a, m, b, k, 0, c, m)


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
        except (ValueError, nc.NativeFailure):
            print("refused")


if __name__ == "__main__":
    main()
