"""Calls that policies compose in Python: those with a check, those whose functions C keeps, and
those with out-parameters that no trampoline has on its stack. The C function itself is called by a
callable without the policy.
"""

from __future__ import annotations

import operator
from weakref import finalize, ref

from .. import _lib
from .._signature import bufferformat
from .._signature.ctype import CType, Scalar
from .._signature.derived import pointer
from .._signature.spelling import parse
from .._values import boxes, callspec, outs, storage
from .._values.failure import convention
from .._values.fortran import lengths
from .._values.handles import Ending
from .._values.policies import DEFAULT
from .pythonfunction import callback_of, spec_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._values.boxes import Native
    from .._values.outs import Out

_types = _lib.types


def without(callable: Native, policy: str, owner: object = None) -> Native:
    """The function of the only entry of `callable`, called without a policy of its call spec.

    It must not live longer than `callable`, unless it owns that.
    """
    spec, address, flags = callable._entry()
    default = {policy: getattr(DEFAULT, policy)}
    bare = callspec.of(spec.signature, flags, spec.policies._replace(**default))
    return callable._derived(bare, address, flags, owner)


def checked(callable: Native) -> Callable[..., object]:
    """Calls the only entry of `callable`, and lets its check see the results."""
    check = callable._entry()[0].policies.check
    assert check is not None
    call = without(callable, "check")
    owner = ref(callable)
    if isinstance(check, Ending):
        return _ending(check, call, owner)

    def checked(*values: object) -> object:
        result = call(*values)
        function = owner()
        return check(result, call if function is None else function, values)

    return checked


def _ending(
    check: Ending, call: Native, owner: Callable[[], Native | None]
) -> Callable[..., object]:
    """Calls a function that closes what it is given."""

    def ending(*values: object) -> object:
        given, handle = check.begin(values)
        try:
            result = call(*given)
            function = owner()
            result = check(result, call if function is None else function, values)
        except BaseException:
            check.fail(handle)
            raise
        check.succeed(handle)
        return result

    return ending


class Memory:
    """Where C writes an out-parameter, zero at first: what is passed, and what becomes of it."""

    __slots__ = ("address", "keep", "passed")

    def __init__(self, ctype: CType, length: int | None) -> None:
        if length is not None and isinstance(ctype, Scalar):
            import numpy as np

            letters = {"Zf": "F", "Zd": "D", "Zg": "G"}
            self.passed: object = np.zeros(length, letters.get(ctype.text, ctype.text))
            self.keep: list[object] = []
            self.address = 0
            return
        # Room to align it, and a byte for a length of 0.
        memory = _lib.ffi.new("char[]", ctype.size * (1 if length is None else length) + 17)
        start = int(_lib.ffi.cast("uintptr_t", memory))
        self.address = (start + 15) & ~15
        self.keep = [memory]
        if isinstance(ctype, Scalar):
            # cffi has no type for some.
            form = bufferformat.spell(ctype).encode()
            self.passed = _types.Memory(self.address, form, ctype.size, (1,), None, False)
            return
        from .._signature.cffitype import pointer_from

        self.passed = pointer_from(pointer(ctype), self.address, owner=memory)

    def value(self, ctype: CType, length: int | None) -> object:
        if not self.address:
            return self.passed
        if length is None:
            return storage.load(ctype, self.address)
        return [storage.load(ctype, self.address + i * ctype.size) for i in range(length)]


def with_outs(callable: Native) -> Callable[..., object]:
    """Calls the only entry of `callable` with memory for its out-parameters, and returns them."""
    spec, _, flags = callable._entry()
    signature = spec.signature
    name = callable.__name__
    rows: dict[int, tuple[Out, CType]] = {
        out.index: (out, outs.pointee(signature, out)) for out in spec.policies.out
    }
    texts = lengths(signature) if spec.policies.fortran else ()
    count = len(signature.args) - convention(flags).hidden - len(texts)
    drops = outs.drops_result(signature, flags)
    call = without(callable, "out")
    policies = spec.policies

    def with_outs(*values: object) -> object:
        rest = iter(values)
        left_out = {index for index, (out, _) in rows.items() if not out.given}
        given = {index: next(rest) for index in range(count) if index not in left_out}
        made: list[tuple[Memory, CType, int | None]] = []
        arguments: list[object] = []
        for index in range(count):
            if index not in rows:
                arguments.append(given[index])
                continue
            out, ctype = rows[index]
            length = out.length if out.sized is None else _length(given[out.sized], name, out.sized)
            memory = Memory(ctype, length)
            if out.given:
                who = f"argument {index + 1} of '{name}'"
                storage.store(
                    ctype, given[index], memory.address, who, memory.keep, False, policies
                )
            made.append((memory, ctype, length))
            arguments.append(memory.passed)
        result = call(*arguments, *rest)
        found = [memory.value(ctype, length) for memory, ctype, length in made]
        return _together(found if drops else [result, *found])

    return with_outs


def _length(value: object, name: str, index: int) -> int:
    """The number of items that an argument says, which is converted once more for the call."""
    length = operator.index(value)  # type: ignore[arg-type]  # TypeError says what was given
    if length < 0:
        raise ValueError(
            f"argument {index + 1} of '{name}' is the length of an out-parameter (got {length})"
        )
    return length


def _together(values: Sequence[object]) -> object:
    return values[0] if len(values) == 1 else tuple(values)


# -- functions that C keeps ----------------------------------------------------------------------

#: What is kept, by the function and the signature that C calls it by, of each lifetime.
_Kept = dict[tuple[int, str], tuple[object, object]]
_for_ever: _Kept = {}
_of_objects: dict[int, _Kept] = {}


def keeping(callable: Native) -> Callable[..., object]:
    """Calls the only entry of `callable`, and keeps the functions that are passed to it."""
    spec, _, flags = callable._entry()
    signature = spec.signature
    keep = spec.policies.keep
    name = callable.__name__
    trailing = convention(flags).hidden
    trailing += len(lengths(signature)) if spec.policies.fortran else 0
    passed = outs.visible(signature, trailing, spec.policies.out)
    functions = [
        (number, ctype.text[2:-1])
        for number, (_, ctype) in enumerate(passed)
        if ctype.kind == "function"
    ]
    holders = [number for number, (index, _) in enumerate(passed) if index == keep]
    call = without(callable, "keep")
    opened = [one.handle.kept for one in callable._owners if hasattr(one, "handle")]

    def place(values: tuple[object, ...]) -> _Kept:
        if keep == "process":
            return _for_ever
        if keep == "library":
            kept: _Kept = opened[-1]
            return kept
        return _of(values[holders[0]], f"argument {holders[0] + 1} of '{name}'")

    def keeping(*values: object) -> object:
        given = [*values]
        if len(given) > max([number for number, _ in functions], default=-1):
            kept = place(values)
            for number, text in functions:
                value = given[number]
                if value is not None:
                    given[number] = _keep(kept, value, text, call)
        return call(*given)

    return keeping


def _keep(kept: _Kept, value: object, text: str, callable: Native) -> object:
    """What is passed for a function: the same each time, so that it is kept once."""
    found = kept.get((id(value), text))
    if found is None:
        made = _lasting(value, text, callable) if boxes.is_python_function(value) else value
        # With the function itself, whose address is the key.
        found = kept.setdefault((id(value), text), (made, value))
    return found[0]


def _lasting(function: Callable[..., object], text: str, callable: Native) -> object:
    """A native callable that runs a Python function; C gets 0 where that raises."""
    signature = parse(text)
    size = 0 if signature.result.kind == "void" else signature.result.size
    name = getattr(function, "__name__", None)
    name = name if isinstance(name, str) else "function"
    address, _, owner = callback_of(spec_of(signature, bytes(size)), function, name)
    flags = _lib.FLAG_NEEDS_GIL if "O" in text else _lib.FLAG_TAKES_GIL
    return callable._derived(callspec.of(signature, flags), address, flags, owner)


def _of(holder: object, who: str) -> _Kept:
    """What is kept as long as an object lives."""
    known = _of_objects.get(id(holder))
    if known is None:
        try:
            finalize(holder, _of_objects.pop, id(holder), None)
        except TypeError:
            raise TypeError(
                f"{who} must be an object that functions can be kept with, such as a cffi pointer "
                f"(got {type(holder).__name__}); or say keep='library' or keep='process'"
            ) from None
        known = _of_objects.setdefault(id(holder), {})
    return known
