"""NumPy ufuncs: read their loops as native callables, and make ufuncs of native callables."""
