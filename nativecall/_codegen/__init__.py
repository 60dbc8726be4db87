"""Machine code generated while the program runs.

`trampoline`, `callback` and `thunk` make code for a signature; `trampolinecode`, `callback` and
`thunkcode` write it as LLVM IR; `engine` compiles, links and frees it, once for all threads that
want it at once (`flights`), while no other has LLVM (`idle`); `abi` knows how C passes values.
Object files are kept by `nativecall._cache`.

Nothing here is imported by ``import nativecall``, and llvmlite only when code is first generated.
"""
