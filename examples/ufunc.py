"""Apply C functions to the columns of a table, as ufuncs of NumPy.

The table is a `pandas.DataFrame` where pandas is installed, and NumPy's arrays by name where not:
ufuncs take either, and give columns back.
"""

from __future__ import annotations

import numpy as np

import nativecall as nc

m = nc.load("m", "double hypot(double x, double y); double frexp(double x, int *exponent);")

columns = {"x": np.array([3.0, 5.0, 8.0]), "y": np.array([4.0, 12.0, 15.0])}
try:
    from pandas import DataFrame
except ImportError:
    table = columns
else:
    table = DataFrame(columns)

distance = m.hypot.to_ufunc()
print(f"distance           {distance(table['x'], table['y']).tolist()}")
print(f"to a point         {distance(table['x'] - 3, 4).tolist()}")
print(f"the kind           {type(distance).__name__} {distance.types}")
print(f"columns stay       {type(distance(table['x'], 1)) is type(table['x'])}")

grid = distance(columns["x"][:, None], columns["y"])
print(f"broadcast          {grid.shape} {grid[0].round(3).tolist()}")
print(f"reduced            {distance.reduce(columns['x']):.6f}")
out = np.zeros(3)
distance(table["x"], table["y"], out=out, where=[True, False, True])
print(f"where              {out.tolist()}")

# What C writes behind pointers is a result; two results are two columns.
split = m.function("frexp", out=["exponent"]).to_ufunc()
mantissa, exponent = split(table["x"])
print(f"two results        {mantissa.tolist()} {exponent.tolist()} {split.types}")


# Exceptions of Python functions, and failures that C functions report, come out of the call.
@nc.callback("d:d")
def checked(x: float) -> float:
    if x < 0:
        raise ValueError(f"{x} is below zero")
    return x**0.5


root = checked.to_ufunc()
try:
    root(table["x"] - 4)
except ValueError as error:
    print(f"ValueError:        {error}")

# The other way: loops of ufuncs are C functions.
cosine = nc.wrap(np.cos)
print(f"a ufunc's loop     {cosine(0.0)} {'d:d' in cosine.signatures}")
