"""Native callables made of others: `f.convert`, another signature, and `f.bind`, fixed arguments.

The new callable's C function pointer is a stub: generated code that all functions of its shape
share, with data of its own, namely the function to call and the values that were bound. Where that
would only jump to the function, the pointer is the function's own. Where no code can be generated
it leads to a callback of libffi, which does the same in Python.

Guarantees: what the thunk calls, and what bound pointers point to, lives as long as the thunk; a
value is converted once, by the rules of a call from Python, and one that does not fit changes
nothing. An entry that is replaced later (`f.add`) is not replaced in the thunks that were made of
it. Thunks of functions that can be pickled can be pickled, as long as the bound values can.
"""

from __future__ import annotations

import struct

from .. import _lib
from .._adapt import messages, rules
from .._adapt.plan import HEADER, Bound, Plan
from .._errors import NoEntryError, SignatureError
from .._fifo import Fifo
from .._signature.ctype import CType, Immutable
from .._signature.derived import FunctionPointer
from .._signature.signature import Signature
from .._signature.spelling import parse
from .._values import boxes, callspec, storage
from .._values.failure import check_errors, convention
from . import arguments, specialize
from .entry import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeAlias, TypeVar

    from .entry import HowCalled

    #: The address of generated code, and what keeps it.
    _Code: TypeAlias = tuple[int, object]
    _Prepared: TypeAlias = tuple[Plan, _Code | None]

    from .._types import CallSpec
    from .._values.boxes import Native
    from .._values.failure import Errors

    _N = TypeVar("_N", bound=Native)

_types = _lib.types
_OPEN = ...  # stands for an argument that stays open
_ITSELF = 0, None  # as code: the function itself does
_SERVICES = _types.thunk_services()[0]
#: Plans that stay with their code when no thunk uses them.
_recent: Fifo[object, _Prepared] = Fifo()
# Thunks call one another without a look at the C stack, which would cost more than they do: so a
# chain of them ends before it can use up the stack of a small thread. Bytes.
_MOST_STACK = 32 << 10
_FRAME = 256  # registers, return address, values in the middle of a conversion


class _Maker:
    """Makes the exceptions of one thunk; the core calls it, and shows it where it reports one."""

    __slots__ = ("name", "plan")

    def __init__(self, plan: Plan, name: str) -> None:
        self.plan = plan
        self.name = name

    def __call__(self, step: int, bits: int, reported: bool) -> BaseException | None:
        if step == self.plan.tested and self.plan.before.shown_by == "exception":
            return None  # the function raised it
        if reported and self.plan.follows_call(step):
            return None  # that C got the sentinel of a callback that failed is said already
        return self.make(step, self._value(step, bits))

    def make(self, step: int, value: object) -> BaseException:
        """The exception for a step."""
        return messages.failure(self.plan, step, self.name, value)

    def _value(self, step: int, bits: int) -> float:
        """The number that generated code passes as 64 bits."""
        source = self.plan.steps[step].source
        if source.kind in ("float", "complex"):
            number: float = struct.unpack("=d", struct.pack("=Q", bits))[0]
            return number
        return bits - (1 << 64) if getattr(source, "signed", False) and bits >> 63 else bits

    def __repr__(self) -> str:
        return f"<native function {self.name} {self.plan.outer.text!r}>"


class Thunk(Immutable):
    """What owns a thunk: its code and data, the function that it calls, and how it was made."""

    __slots__ = ("function", "how", "keep", "stack")

    _shown = "the owner of a thunk"
    function: Native
    how: tuple[object, ...]
    keep: object
    #: About how much of the C stack its code takes, with that of thunks that it calls: bytes.
    stack: int

    def __init__(self, function: Native, how: tuple[object, ...], keep: object, stack: int) -> None:
        self._fill(function=function, how=how, stack=stack, keep=keep)

    def __repr__(self) -> str:
        return f"<thunk of {self.function!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"cannot pickle {self!r}; pickle the native callable that it owns")

    def pickled(
        self, signature: Signature, name: str, doc: str | None, options: HowCalled
    ) -> tuple[object, ...]:
        """For `pickle`: how another process makes the same thunk."""
        return _restore, (self.function, *self.how)


def _restore(function: Native, method: str, *given: Any) -> Native:
    if method == "convert":
        signature, errors, name = given
        return converted(function, signature, errors, name)
    values, _ = given
    return bound(function, [_OPEN if open_ else value for open_, value in values], {})


def converted(
    function: _N,
    signature: str | Signature,
    errors: Errors | None = None,
    name: str | None = None,
) -> _N:
    """`NativeCallable.convert`."""
    wanted = parse(signature)
    Options(name, None, None, "hold", "none" if errors is None else errors, False)
    if errors is not None:
        check_errors(wanted, errors)
    # A function that is made for the signature is better than one that is converted to it.
    specialize.ask(function, wanted.text)
    entries = function._resolved()
    if not entries:
        raise NoEntryError.none(function.__name__, function._specializer is not None)
    exact = [entry for entry in entries if entry[1].text == wanted.text]
    refused: list[SignatureError] = []
    for single, found, address, flags in exact or entries:
        known = convention(flags).name
        if exact and name is None and errors in (None, known) and _keeps(found, wanted):
            return single
        try:
            prepared = _prepared(
                (callspec.of(found), flags, callspec.of(wanted), errors),
                rules.adapt,
                *(function.__name__, found, flags, wanted, errors),
            )
        except SignatureError as error:
            refused.append(error)
            continue
        how = ("convert", wanted, errors, name)
        spec = single._entry()[0]
        return _make(single, spec, prepared, address, name or function.__name__, b"", (), how)
    if len(refused) == 1:
        raise refused[0]
    raise SignatureError("; ".join(map(str, refused)))


def _keeps(found: Signature, wanted: Signature) -> bool:
    """Whether a function promises not to write wherever that is wanted of it."""
    return all(map(bool.__ge__, found.readonly, wanted.readonly))


def bound(function: _N, values: Sequence[object], named: Mapping[str, object]) -> _N:
    """`NativeCallable.bind`."""
    name = function.__name__
    spec, address, flags = function._chosen(None)
    signature: Signature = spec.signature
    count = len(signature.args) - convention(flags).hidden
    if signature.variadic:
        raise SignatureError(
            f"cannot bind arguments of {name!r}, which is variadic",
            hint="convert() it to a signature without '.' first",
        )
    given = _places(name, signature, count, values, named)
    if not given:
        return function
    fixed = tuple([index in given for index in range(len(signature.args))])
    prepared = _prepared(
        (callspec.of(signature), flags, fixed), rules.bind, signature, flags, fixed
    )
    plan = prepared[0]
    keep: list[object] = []
    scratch = _lib.ffi.new("char[]", plan.size + 16)
    start = int(_lib.ffi.cast("uintptr_t", scratch))
    base = -(-start // 16) * 16
    try:
        for index, node in enumerate(plan.arguments):
            if isinstance(node, Bound):
                _store(spec, index, given[index], base + node.offset, name, keep)
        _types.settle(keep, None)  # no call waits for what Python functions in structs raise
        _types.check_unmoved(keep, name)
        data = _lib.ffi.buffer(_lib.ffi.cast("char *", base), plan.size)[HEADER:]
        how = ("bind", [(i not in given, given.get(i)) for i in range(count)], None)
        return _make(function, spec, prepared, address, name, data, tuple(keep), how)
    except BaseException:
        # Tracebacks keep frames: nothing may stay exported in one.
        keep.clear()
        raise


def _places(
    name: str,
    signature: Signature,
    count: int,
    values: Sequence[object],
    named: Mapping[str, object],
) -> dict[int, object]:
    """The value of each argument that is bound, by its place among the first `count`."""
    if len(values) > count:
        takes = f"{count} argument" + ("" if count == 1 else "s")
        raise TypeError(f"'{name}' takes {takes}, {len(values)} values cannot be bound to them")
    given = {index: value for index, value in enumerate(values) if value is not _OPEN}
    for key, value in named.items():
        names = signature.names[:count]
        if key not in names:
            known = ", ".join([repr(one) for one in names if one])
            hint = f"its arguments are {known}"
            if not known:
                hint = "its arguments have no names; bind by position, with ... for open ones"
            raise TypeError(f"'{name}' has no argument {key!r}; {hint}")
        index = names.index(key)
        if index in given:
            raise TypeError(f"argument {key!r} of '{name}' is bound twice")
        if value is not _OPEN:
            given[index] = value
    return given


def _store(
    spec: CallSpec, index: int, value: object, address: int, name: str, keep: list[object]
) -> None:
    """Write a bound value to where the thunk finds it."""
    ctype: CType = spec.types[index]
    who = f"argument {index + 1} of '{name}'"
    if ctype.kind in ("pointer", "voidptr", "function"):
        if isinstance(ctype, FunctionPointer):
            if boxes.is_python_function(value):
                raise TypeError(
                    f"{who} must be a function that stays (got {type(value).__name__}); "
                    f"pass a nativecall.callback of {ctype.text[2:-1]!r}"
                )
            # Kept where the collector sees it: a function may lead back to what it is bound to.
            pointer: Any
            pointer, owner = arguments.pointer_argument(ctype, value, name, index)
            keep.append(owner)
            _lib.ffi.cast("uintptr_t *", address)[0] = pointer
            return
        held = _types.pin(spec, name, index, value)
        keep.append(held)
        _lib.ffi.cast("uintptr_t *", address)[0] = held.address
        return
    promised = spec.signature.readonly[index]
    storage.store(ctype, value, address, who, keep, promised, spec.policies)


def _stack_of(function: object) -> int:
    """How much of the C stack a function takes for the thunks that it is made of, about."""
    owners = getattr(function, "_owners", None) or ()
    return max([one.stack for one in owners if isinstance(one, Thunk)], default=0)


def _make(
    function: _N,
    spec: CallSpec,
    prepared: _Prepared,
    address: int,
    name: str,
    data: bytes,
    kept: tuple[object, ...],
    how: tuple[object, ...],
) -> _N:
    """The callable of a plan, with the policies of the function's call spec."""
    plan, code = prepared
    stack = below = _stack_of(function)
    if code is not _ITSELF:
        stack += _FRAME + sum(
            [one.size for signature in (plan.outer, plan.inner) for one in signature.args]
        )
    if below and stack > _MOST_STACK:
        raise ValueError(
            f"{function.__name__!r} is made of too many thunks already; convert or bind "
            "the function that they lead to"
        )
    maker = _Maker(plan, function.__name__)
    flags = plan.flags
    made: tuple[int, object] | None
    if code is _ITSELF:
        made = address, None
    else:
        made = _generated(prepared, address, maker, data, (function, kept, maker))
    if made is None:
        from .._libffi.thunk import interpreted

        made = interpreted(plan, address, maker, data, (function, kept, maker))
        if not flags & _lib.FLAG_NEEDS_GIL:
            flags |= _lib.FLAG_TAKES_GIL
    pointer, keep = made
    owner = Thunk(function, how, keep, stack)
    outer = callspec.of(plan.outer, flags, spec.policies)
    return function._derived(outer, pointer, flags, owner, name)


def _prepared(key: object, plan: Callable[..., Plan], *given: object) -> _Prepared:
    """A plan, made of what is given, and its code; they stay a while when no thunk uses them."""
    known = _recent.get(key)
    if known is not None:
        return known
    from .._codegen import engine

    made = plan(*given)
    try:
        prepared = made, _code(made)
    except engine.NoRoom:
        return made, None  # now; that does not last
    if engine.lasts():
        _recent.put(key, prepared)
    return prepared


def _code(plan: Plan) -> _Code | None:
    """The generated code of a plan; None where there is none."""
    from .._codegen import engine

    if not engine.available():
        return None
    from .._codegen.thunk import changes_nothing, thunk

    if changes_nothing(plan):
        return _ITSELF
    return None if _types.stubs_refused() else thunk(plan)


def _generated(
    prepared: _Prepared, address: int, maker: _Maker, data: bytes, kept: object
) -> tuple[int, object] | None:
    """A stub of generated code, and itself to keep it; None where there is none."""
    plan, code = prepared
    if code is None:
        return None
    try:
        stub = _types.Stub(code[0], plan.size, kept, (code[1], maker))
    except RuntimeError:
        return None
    ffi = _lib.ffi
    header = ffi.cast("uintptr_t *", stub.data)
    header[0], header[1], header[2] = address, id(maker), _SERVICES
    if data:
        ffi.memmove(ffi.cast("char *", stub.data + HEADER), data, len(data))
    return stub.address, stub
