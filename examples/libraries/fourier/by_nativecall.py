"""Transform a signal with FFTW, and find the tones in it."""

import numpy as np

import nativecall as nc

fftw = nc.load("fftw3", header=["complex.h", "fftw3.h"], errors={"fftw_plan_*": "null"})


def spectrum(signal):
    """The Fourier transform of real numbers."""
    found = np.empty(len(signal) // 2 + 1, complex)
    plan = fftw.fftw_plan_dft_r2c_1d(len(signal), signal, found, fftw.FFTW_ESTIMATE)
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
    except nc.NativeFailure:
        print("no plan")


if __name__ == "__main__":
    main()
