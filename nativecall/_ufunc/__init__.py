"""NumPy ufuncs: native callables of their loops, and ufuncs around native callables."""
