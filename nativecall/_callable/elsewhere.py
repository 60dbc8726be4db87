"""Call C functions through cffi on processors whose ABI nativecall does not know.

cffi releases the GIL around every call, so functions that need the GIL are refused. Arguments and
results are numbers and pointers; structs and complex numbers can be passed only by pointer. This
module is the whole fallback.
"""

from __future__ import annotations

from weakref import ref

from .. import _ext, _lib
from .._cdecl import cffitype
from .._errors import TYPE_CHECKING, SignatureError
from .._types.ctype import WRAP_IT, CType, Scalar
from .._types.signature import Signature
from .._values import callinterface, storage
from .._values.failure import convention, raise_failure
from .._values.variadic import extra_argument

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._ext import Foreign, Native
    from .._values.calloptions import Policies


def _check(signature: Signature, flags: int, policies: Policies) -> None:
    """Refuse functions that cffi cannot call correctly."""
    for name in policies.steps:
        raise SignatureError(f"{name}= is not supported on this processor")
    if flags & _lib.FLAG_NEEDS_GIL or "O" in signature.text:
        raise SignatureError(
            f"{signature.text!r} needs the GIL, which calls on this processor release",
            hint="drop it",
        )
    for ctype in (*signature.args, signature.result):
        is_number = isinstance(ctype, Scalar) and ctype.native and ctype.kind != "complex"
        if not is_number and ctype.kind not in ("void", "pointer", "voidptr", "function"):
            raise SignatureError(
                f"{ctype.text!r} cannot be passed by value on this processor",
                hint=WRAP_IT,
            )


def function(callable: Native) -> Callable[..., object]:
    """Return a function that calls the only entry of `callable`."""
    cif, address, flags = callable._entry()
    signature: Signature = cif.signature
    _check(signature, flags, cif.policies)
    errors = convention(flags)
    keeps_errno = bool(flags & _lib.FLAG_ERRNO) or errors.shown_by == "errno"
    name, owner = callable.__name__, ref(callable)
    fixed = errors.passed(signature.args)
    cast = _lib.ffi.cast

    def argument(index: int, ctype: CType, value: object, keep: list[object]) -> Foreign:
        """Convert an argument to an object that cffi passes unchanged."""
        who = f"argument {index + 1} of '{name}'"
        if isinstance(ctype, Scalar):
            memory = _lib.ffi.new(f"{cffitype.to_ffi(ctype).cname} *")
            place = int(cast("uintptr_t", memory))
            storage.store(ctype, value, place, who, keep, False, cif.policies)
            return memory[0] if index < len(fixed) else cast(cffitype.to_ffi(ctype), memory[0])
        if index < len(fixed):
            held = _ext.pin(cif, name, index, value)
        else:
            # A declaration cannot make variadic arguments const, so accept read-only memory.
            held = _ext.pin(callinterface.of_argument(ctype, cif.policies, True), who, -1, value)
        keep.append(held)
        return cast(cffitype.to_ffi(ctype), held.address)

    def call(*values: object) -> object:
        keep: list[object] = []
        given: list[object] = []
        told = _lib.ffi.new("int *")
        raised: BaseException | None = None
        answer: Foreign = None
        for index, value in enumerate(values):
            if index < len(fixed):
                ctype, passed = fixed[index], value
            else:
                ctype, passed = extra_argument(value, index, name, cif.policies.encoding)
            given.append(argument(index, ctype, passed, keep))
        if errors.hidden:
            given.append(told)
        entry = owner()
        target = cast(cffitype.to_ffi(signature), address if entry is None else entry._target)
        if keeps_errno:
            _lib.ffi.errno = 0
        try:
            answer = target(*given)
            code = _lib.ffi.errno if keeps_errno else told[0]
            if keeps_errno:
                _ext.set_errno(code)
            _ext.raise_left(None, None, ())
        except BaseException as error:
            raised = error
        _ext.settle(keep, raised)
        result = signature.result
        found: object = answer
        if isinstance(result, Scalar):
            found = float(answer) if result.kind == "float" else answer
        elif result.kind != "void":
            found = storage.pointer_result(result, int(cast("uintptr_t", answer)))
        if errors.reaches_c:
            raise_failure(name, errors.flags, found, code)
        return found

    return call
