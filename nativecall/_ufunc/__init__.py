"""Read the loops of NumPy ufuncs as native callables; create ufuncs from native callables."""
