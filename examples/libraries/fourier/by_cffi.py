"""FFTW transforms a signal, and finds the tones in it: with cffi."""

import numpy as np
from cffi import FFI

ffi = FFI()
ffi.cdef("""
    typedef double fftw_complex[2];
    typedef struct fftw_plan_s *fftw_plan;
    fftw_plan fftw_plan_dft_r2c_1d(int, double *, fftw_complex *, unsigned);
    void fftw_execute(const fftw_plan);
    void fftw_destroy_plan(fftw_plan);
""")
fftw = ffi.dlopen("libfftw3.so")
FFTW_ESTIMATE = 1 << 6


def spectrum(signal):
    """The Fourier transform of real numbers."""
    found = np.empty(len(signal) // 2 + 1, complex)
    plan = fftw.fftw_plan_dft_r2c_1d(
        len(signal),
        ffi.from_buffer("double[]", signal),
        ffi.from_buffer("fftw_complex[]", found),
        FFTW_ESTIMATE,
    )
    if not plan:
        raise ValueError("no plan")
    fftw.fftw_execute(plan)
    fftw.fftw_destroy_plan(plan)
    return found


def main():
    t = np.arange(1000) / 1000
    signal = np.sin(2 * np.pi * 50 * t) + 0.5 * np.sin(2 * np.pi * 120 * t)
    size = abs(spectrum(signal)) / 500
    print([(int(i), round(float(size[i]), 6)) for i in np.flatnonzero(size > 0.1)])
    try:
        spectrum(signal[:0])
    except ValueError as error:
        print(error)


if __name__ == "__main__":
    main()
