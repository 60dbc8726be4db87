"""Chain the functions of five libraries, without a Python object for any argument.

Cython's and ctypes' functions are called by Numba's code (chain.py), and that by SciPy's `quad` and
in the loop of a NumPy ufunc.
"""

from __future__ import annotations

import math

import chain
import numpy as np
from scipy.integrate import quad

value, _, info = quad(chain.damped.to_scipy(), 0, math.inf, full_output=True)
print(f"SciPy's quad       {value:.12f}, {info['neval']} calls")
print(f"exact              {math.exp(0.25) * math.erfc(0.5):.12f}")

x = np.linspace(0.0, 40.0, 100_001)
values = chain.damped.to_ufunc()(x)
print(f"NumPy's ufunc      {values.sum() * 40.0 / 100_000:.6f}, {len(values)} calls")
print(f"calls with objects {chain.boxed}")

chain.damped(1.0)
print(f"after one          {chain.boxed}, which Python made")
