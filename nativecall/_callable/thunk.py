"""`f.convert` changes the signature of a native callable, and `f.bind` fixes arguments.

The C function pointer of the new callable points to a stub. The stub's data are the function to
call and the bound values. The stub jumps to generated code, which thunks with the same conversion
share. Without generated code, it jumps to the core, which interprets the conversion
(_plan/conversion.py). If there is nothing to convert, the new callable uses the function's pointer.

This module computes each `ThunkSpec` once. The core creates further thunks from the spec
(csrc/callable/bind.c). This module also handles options, several entries and errors.

Guarantees:

- The function that a thunk calls, and the memory behind bound pointers, live as long as the thunk.
- A bound value is converted once, by the rules of a call from Python. If it does not fit, nothing
  changes.
- If an entry is replaced later (`f.add`), thunks created from it keep the old function.
- A thunk can be pickled if its function and its bound values can.
"""

from __future__ import annotations

import struct
from collections import namedtuple
from functools import partial

from .. import _ext, _lib
from .._cdecl.spelling import parse
from .._codegen.conversions import thunk
from .._errors import TYPE_CHECKING, NoEntryError, SignatureError
from .._plan import messages, rules
from .._plan.conversion import conversion
from .._plan.conversionplan import HEADER, Bound, Plan
from .._plan.rules import losses
from .._types.ctype import Scalar
from .._types.derived import FunctionPointer
from .._types.signature import Signature
from .._values import callinterface, foreign, storage
from .._values.failure import check_errors, convention
from .._values.fortran import lengths
from . import arguments, specialize
from . import hooks as hooks  # sets the cache of specs
from .callable import plain
from .entry import Options, without

if TYPE_CHECKING:
    from typing import TypeAlias

    from .._ext import CallInterface, Foreign, Native, Thunk, ThunkSpec
    from .._values.calloptions import Policies
    from .._values.failure import Errors

    #: The address of generated code and its owner, or a packed conversion.
    _Code: TypeAlias = tuple[int, object] | bytes

_OPEN = ...  # stands for an argument that stays open
_ITSELF = 0, None  # in place of code: call the function itself
_TAKING_GIL = "+gil"  # in place of an error convention: only acquire the GIL
# Thunks do not check the C stack, because a check would cost more than the thunk. Instead, a chain
# of thunks may use at most this number of bytes. Even a small thread's stack has room for them.
_MOST_STACK = 32 << 10
_FRAME = 256  # registers, return address, intermediate values
_BLOCKS = 768  # if the core converts: two register blocks and more frames


# -- hooks of a spec -----------------------------------------------------------------------------


class _Maker(namedtuple("_Maker", ["plan", "name"])):
    """Creates the exceptions of one thunk. Unraisable reports show the repr of the maker."""

    __slots__ = ()

    def __call__(self, step: int, bits: int, reported: bool) -> BaseException | None:
        if step == self.plan.tested and self.plan.before.shown_by == "exception":
            return None  # the function itself set the exception
        if reported and self.plan.follows_call(step):
            return None  # the failure behind this result was reported already
        source = self.plan.steps[step].source
        value: float = bits  # generated code passes any number as 64 bits
        if source.kind in ("float", "complex"):
            (value,) = struct.unpack("=d", struct.pack("=Q", bits))
        elif getattr(source, "signed", False) and bits >> 63:
            value -= 1 << 64
        return messages.failure(self.plan, step, self.name, value)

    def __repr__(self) -> str:
        return f"<native function {self.name} {self.plan.outer.text!r}>"


class _Helper(namedtuple("_Helper", ["plan", "inner", "errors"])):
    """The Python functions that the core calls for the thunks of a spec."""

    __slots__ = ()

    def maker(self, name: str) -> _Maker:
        """Return the maker of exceptions for a thunk of the function with this name."""
        return _Maker(self.plan, name)

    def store(self, index: int, value: object, address: int, name: str, keep: list[object]) -> None:
        """Write a bound struct, view or pointer to its place in the thunk."""
        cif = self.inner
        ctype = cif.types[index]
        if ctype.kind not in ("pointer", "voidptr", "function"):
            who = f"argument {index + 1} of '{name}'"
            promised = cif.signature.readonly[index]
            storage.store(ctype, value, address, who, keep, promised, cif.policies)
            return
        pointer: Foreign
        if isinstance(ctype, FunctionPointer):
            if foreign.is_python_function(value):
                raise TypeError(
                    f"argument {index + 1} of '{name}' must be a function that stays alive (got "
                    f"{type(value).__name__}); pass a nativecall.callback of {ctype.text[2:-1]!r}"
                )
            # Keep the owner itself. The garbage collector must see this reference, because the
            # function may refer to the thunk.
            pointer, held = arguments.pointer_argument(ctype, value, name, index)
        else:
            held = _ext.pin(cif, name, index, value)
            pointer = held.address
        keep.append(held)
        _lib.ffi.cast("uintptr_t *", address)[0] = pointer

    def pickled(self, thunk: Thunk, name: str) -> tuple[object, ...]:
        """Return how another process recreates the thunk, for `pickle`."""
        function = thunk.function
        if any([isinstance(node, Bound) for node in self.plan.arguments]):
            return function.bind, self._values(thunk)
        given = name if name != function.__name__ else None
        return partial(function.convert, errors=self.errors, name=given), (self.plan.outer,)

    def _values(self, thunk: Thunk) -> tuple[object, ...]:
        """Return the bound values by argument, with ... for open arguments.

        Numbers are read from the thunk. Real and complex `long double` values are not, because
        their Python class would change.
        """
        kept = iter(thunk.kept or ())
        values: list[object] = []
        for node, ctype in zip(self.plan.arguments, self.inner.types[:-1], strict=False):
            if not isinstance(node, Bound):
                values.append(_OPEN)
            elif isinstance(ctype, Scalar) and ctype.letter not in "gY":
                values.append(_ext.load_scalar(ctype.letter, id(thunk) + node.offset))
            else:
                values.append(next(kept))
        return tuple(values)


def spec_of(
    name: str,
    inner: CallInterface,
    flags: int,
    stack: int,
    wanted: CallInterface | None,
    rest: bytes,
) -> ThunkSpec:
    """Return the spec of thunks that convert a call interface or bind its arguments.

    With `wanted`, `rest` is the name of the error convention, empty, or `_TAKING_GIL`. Without
    `wanted`, `rest` has one byte for each argument: nonzero if the argument is bound. `stack` is
    the C stack that the function uses if it is itself a thunk.
    """
    errors: Foreign = None
    if rest == _TAKING_GIL.encode():
        plan = rules.taking_gil(inner.signature, flags)
    elif wanted is None:
        fixed = [*map(bool, rest)] + [False] * (len(inner.signature.args) - len(rest))
        plan = rules.bind(inner.signature, flags, fixed)
    else:
        errors = rest.decode() or None
        plan = rules.convert(name, inner.signature, flags, wanted.signature, errors)
    made = conversion(plan)
    code, lasts = (_ITSELF, True) if made.changes_nothing else thunk(made)
    below = stack
    if code is not _ITSELF:
        stack += _FRAME + sum([one.size for side in (plan.outer, plan.inner) for one in side.args])
    if isinstance(code, bytes):
        stack += _BLOCKS
    if below and stack > _MOST_STACK:
        raise ValueError(
            f"{name!r} already has too many nested thunks; convert or bind the original function"
        )
    places = [
        (index, node.offset) for index, node in enumerate(plan.arguments) if isinstance(node, Bound)
    ]
    policies: Policies = inner.policies
    if policies.fortran and lengths(inner.signature):
        # Thunks of Fortran procedures take the lengths of texts as ordinary arguments.
        policies = policies._replace(fortran=False)
    return _ext.ThunkSpec(
        inner,
        wanted,
        callinterface.of(plan.outer, plan.flags, policies),
        plan.flags,
        stack,
        plan.size,
        tuple(places),
        _Helper(plan, inner, errors),
        code,
        lasts,
    )


def by_plan(address: int, plan: Plan, name: str, owner: object) -> Native:
    """Return a thunk that calls the function at an address by a plan without bound values.

    `owner` keeps the function alive.
    """
    inner = callinterface.of(plan.inner)
    code, lasts = thunk(conversion(plan))
    helper = _Helper(plan, inner, None)
    stack = 2 * (_FRAME + _BLOCKS)
    spec = _ext.ThunkSpec(
        inner, None, callinterface.of(plan.outer), 0, stack, HEADER, (), helper, code, lasts
    )
    return _ext.make_thunk(plain(address, inner, name, owner), spec, ())


def with_check(outer: CallInterface, flags: int, inner: CallInterface) -> CallInterface:
    """Return the call interface of a thunk, with the `check` of the function behind the thunk."""
    policies = outer.policies._replace(check=inner.policies.check)
    return callinterface.of(outer.signature, flags, policies)


# -- methods that the core does not handle itself ------------------------------------------------


def convert(
    function: Native,
    signature: str | Signature,
    *,
    errors: Errors | None = None,
    name: str | None = None,
) -> object:
    """Implement `NativeCallable.convert` with options, several entries, or a hook."""
    wanted = parse(signature)
    Options(name=name, errors=errors)
    if errors is not None:
        check_errors(wanted, errors)
    # Prefer a function created for the signature to a converted function.
    asked = specialize.ask_for_kin(function, wanted)
    entries = function._resolved()
    if not entries:
        raise NoEntryError.none(function.__name__, function._specializer is not None)
    exact = [entry for entry in entries if entry[1].text == wanted.text]
    # Prefer the entry that loses least: for a double, the entry that takes a double, not a float.
    entries.sort(key=lambda entry: (entry[1].text not in asked, losses(entry[1], wanted)))
    refused: list[SignatureError] = []
    for entry, _, _, flags in exact or entries:
        single = entry
        if entry._entry()[0].policies.out:
            single = without(entry, "out", entry)
        same = bool(exact) and errors == convention(flags).name
        try:
            made = single._converted(callinterface.of(wanted), None if same else errors, name)
        except SignatureError as error:
            refused.append(error)
            continue
        # `made` is None if another thread has just added an entry.
        return convert(function, signature, errors=errors, name=name) if made is None else made
    if len(refused) == 1:
        raise refused[0]
    raise SignatureError("; ".join(map(str, refused)))


def taking_gil(function: Native) -> Native:
    """Return the only entry of a function as a thunk that acquires the GIL if necessary."""
    found = function._converted(function._entry()[0], _TAKING_GIL, None)
    assert found is not None
    return found


def bind(function: Native, /, *values: object, **named: object) -> object:
    """Implement `NativeCallable.bind` with keywords, and raise the errors for wrong arguments."""
    name = function.__name__
    cif, _, flags = function._chosen(None)
    signature = cif.signature
    count = len(signature.args) - convention(flags).hidden
    if cif.policies.fortran:
        count -= len(lengths(signature))
    if signature.variadic:
        raise SignatureError(
            f"cannot bind arguments of {name!r}, which is variadic",
            hint="convert() it to a signature without '.' first",
        )
    if len(values) > count:
        takes = f"{count} argument" + ("" if count == 1 else "s")
        raise TypeError(f"'{name}' takes {takes}, {len(values)} values cannot be bound")
    if cif.policies.out:
        function = without(function, "out", function)
    names = signature.names[:count]
    given = [*values, *[_OPEN] * (count - len(values))]
    bound = {index for index, value in enumerate(values) if value is not _OPEN}
    for key, value in named.items():
        if key not in names:
            known = ", ".join([repr(one) for one in names if one])
            hint = f"its arguments are {known}"
            if not known:
                hint = "its arguments have no names; bind by position, with ... for open ones"
            raise TypeError(f"'{name}' has no argument {key!r}; {hint}")
        index = names.index(key)
        if index in bound:
            raise TypeError(f"argument {key!r} of '{name}' is bound twice")
        given[index] = value
    return function._resolved()[0][0].bind(*given)
