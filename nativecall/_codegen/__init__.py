"""Machine code generated while the program runs.

`conversions` gives the code of thunks and loops; `conversioncode` writes it as LLVM IR;
`engine` compiles, links and frees it, once for all threads that want it at once, while no other has
LLVM (`idle`); `abi` says in IR how C passes values (_plan/). Object files are kept by
`nativecall._cache`.

Nothing here is imported by ``import nativecall``, and llvmlite only when code is first generated
that no process has kept.
"""
