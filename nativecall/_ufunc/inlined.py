"""Build ufunc loops that inline the function, for functions whose LLVM IR is available.

Numba keeps the IR of compiled functions. As in `numba.vectorize`, the loop becomes a Numba code
library that is linked with the function's library and optimized with Numba's settings. LLVM inlines
the function, and vectorizes the loop where it can. Numba never unmaps machine code, so all ufuncs
of a function share its loops. For llvmlite modules, our code generator compiles the module together
with the loop.
"""

from __future__ import annotations

import re
import sys

from .._errors import TYPE_CHECKING

if TYPE_CHECKING:
    from .._callable.callable import NativeCallable
    from .._ext import Foreign
    from .._plan.conversion import LoopPlan


def loop(entry: NativeCallable, plan: LoopPlan) -> tuple[int, object] | None:
    """Return the address of a loop that needs no `data`, and the owner of its code.

    Return None if the IR is not available. Also return None if the loop is generalised, must check
    for failures, or must acquire the GIL.
    """
    if plan.core is not None or plan.needs_gil or plan.errors != "none":
        return None
    owners = entry._owners
    if not owners:
        return None
    owner: Foreign = owners[-1]  # the current function's owner
    llvmlite = sys.modules.get("nativecall._bridges.llvmlite")
    if llvmlite is not None and isinstance(owner, llvmlite.Compiled):
        from .._codegen import conversions, engine
        from .._plan.abi import Unsupported

        try:
            address, code = conversions.joined(plan, owner.text, owner.name)
        except (Unsupported, RuntimeError, engine.NoRoom):
            return None  # the caller then uses a loop that calls through a pointer
        return address, (owner, code)
    callback = sys.modules.get("numba.core.ccallback")
    if callback is not None and isinstance(owner, callback.CFunc):
        if getattr(owner._library, "_disable_inspection", False):
            return None  # with cache=True Numba keeps only the machine code
        return _numba_loop(plan, owner._library, owner._wrapper_name, is_cfunc=True)
    jitted = sys.modules.get("nativecall._bridges.numba.jitted")
    if jitted is not None and isinstance(owner, jitted.Instance):
        return _numba_loop(plan, owner._library, owner._library.name)
    return None


def _numba_loop(
    plan: LoopPlan, library: Foreign, callee: str, *, is_cfunc: bool = False
) -> tuple[int, object] | None:
    """Create a Numba code library with a loop around `callee`, a C function of `library`."""
    from .._codegen import abi, conversioncode
    from .._codegen.conversions import loop_key

    registry = sys.modules["numba.core.registry"]
    lock = sys.modules["numba.core.compiler_lock"].global_compiler_lock
    context = registry.cpu_target.target_context
    with lock:
        known = library.__dict__.setdefault("_nativecall_loops", {})
        key = loop_key(plan)
        address: int | None = known.get(key)
        if address is None:
            name = f"{callee}_loop_{len(known)}"
            made = context.codegen().create_library(name)
            module = made.create_ir_module(name)
            try:
                conversioncode.loop(plan, name, callee, module)
            except abi.Unsupported:
                return None
            made.add_ir_module(module)
            if is_cfunc:
                made.add_llvm_module(_inlinable(library, callee))
            else:
                made.add_linking_library(library)
            made.finalize()
            known[key] = address = made.get_pointer_to_function(name)
    return (address, library) if address else None


def _inlinable(library: Foreign, callee: str) -> Foreign:
    """Return a cfunc's module, changed so that LLVM may inline its functions.

    Numba marks the compiled Python function ``noinline``. With linkonce linkage, several modules
    may define these functions, as in Numba's own linking.
    """
    import llvmlite.binding as llvm

    text = re.sub(r"(attributes #\d+ =) \{ noinline \}", r"\1 { nounwind }", library.get_llvm_str())
    for name in (callee, callee.removeprefix("cfunc.")):
        begins = re.compile(rf'^define (?=[^@]*@"?{re.escape(name)}"?\()', re.MULTILINE)
        text = begins.sub("define linkonce_odr ", text)
    return llvm.parse_assembly(text)
