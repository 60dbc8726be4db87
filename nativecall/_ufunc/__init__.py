"""NumPy's ufuncs: their loops as native callables, and ufuncs around native callables."""
