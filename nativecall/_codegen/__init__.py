"""Generate machine code at run time.

- `conversions` returns the code of thunks and loops.
- `conversioncode` writes this code as LLVM IR.
- `engine` compiles, links and frees the code.
- `idle` serializes the use of LLVM.
- `abi` translates the C calling convention (_plan/) to IR.

`nativecall._cache` stores the object files. ``import nativecall`` imports none of these modules.
llvmlite is imported only to generate code that is not in the cache.
"""
