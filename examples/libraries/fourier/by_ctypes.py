"""FFTW transforms a signal, and finds the tones in it: with ctypes."""

import ctypes as ct

import numpy as np

fftw = ct.CDLL("libfftw3.so")
REAL, COMPLEX = np.ctypeslib.ndpointer(float, 1), np.ctypeslib.ndpointer(complex, 1)
fftw.fftw_plan_dft_r2c_1d.argtypes = [ct.c_int, REAL, COMPLEX, ct.c_uint]
fftw.fftw_plan_dft_r2c_1d.restype = ct.c_void_p
fftw.fftw_execute.argtypes, fftw.fftw_execute.restype = [ct.c_void_p], None
fftw.fftw_destroy_plan.argtypes, fftw.fftw_destroy_plan.restype = [ct.c_void_p], None
FFTW_ESTIMATE = 1 << 6


def spectrum(signal):
    """The Fourier transform of real numbers."""
    found = np.empty(len(signal) // 2 + 1, complex)
    plan = fftw.fftw_plan_dft_r2c_1d(len(signal), signal, found, FFTW_ESTIMATE)
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
