"""Machine code generated while the program runs.

`engine` compiles, links and frees it; `cache` keeps object files; `abi` knows how C passes values.
Nothing here is imported by ``import nativecall``, and llvmlite only when code is first generated.
"""
