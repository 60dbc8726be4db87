"""Calls that policies compose in Python: those with a check, and those with out-parameters that no
trampoline has on its stack. The C function itself is called by a callable without the policy.
"""

from __future__ import annotations

import operator
from sys import maxsize
from weakref import ref

from .. import _lib
from .._errors import extra
from .._plan.here import here
from .._signature import bufferformat
from .._signature.ctype import CType, Scalar
from .._signature.derived import Array, Record, pointer
from .._values import callspec, outs, storage
from .._values.failure import convention
from .._values.fortran import lengths
from .._values.handles import Ending, Owned, keep_out
from .._values.policies import DEFAULT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._types import CallSpec, Foreign
    from .._values.boxes import Native
    from .._values.outs import Out
    from .._values.policies import Check, Policies

_types = _lib.types


def wrapper(callable: Native) -> Callable[..., object] | None:
    """Calls the only entry of `callable` as its policies say; None where they say nothing."""
    spec = callable._entry()[0]
    if spec.policies.check is not None:
        return checked(callable)
    wraps = callspec.composition(spec.signature, spec.policies) > int(here() is not None)
    return with_outs(callable) if wraps else None


def call(callable: Native) -> Callable[..., object]:
    """Calls the only entry of `callable`, and nothing else."""
    if here() is None:
        from . import elsewhere

        return elsewhere.function(callable)
    inner = callable._derived(*callable._entry(), None)
    inner._unwrap()
    return inner


def without(
    callable: Native, policy: str, owner: object = None, uncounted: tuple[int, ...] = ()
) -> Native:
    """The function of the only entry of `callable`, called without a policy of its call spec.

    It must not live longer than `callable`, unless it owns that. It owns the library, which may be
    what keeps functions.
    """
    spec, address, flags = callable._entry()
    default = {policy: getattr(DEFAULT, policy), "uncounted": uncounted or spec.policies.uncounted}
    bare = callspec.of(spec.signature, flags, spec.policies._replace(**default))
    if owner is None:
        owner = (_libraries(callable) or [None])[-1]
    return callable._derived(bare, address, flags, owner)


def _libraries(callable: Native) -> list[Foreign]:
    """The symbols among what a callable owns, each of a library."""
    return [one for one in callable._owners if hasattr(one, "handle")]


def checked(callable: Native) -> Callable[..., object]:
    """Calls the only entry of `callable`, and lets its check see the results."""
    check = callable._entry()[0].policies.check
    assert check is not None
    call: Foreign = without(callable, "check")
    owner = ref(callable)
    gives = check.then if isinstance(check, Ending) else check
    failed = None
    if isinstance(gives, Owned):
        if call._entry()[0].policies.out:
            call = with_outs(call, gives.failed)
        elif callspec.letter(call._entry()[0].signature.result) == "P":
            failed = gives.failed
    seen = _telling(check) if callable._entry()[0].policies.out else check
    if isinstance(check, Ending):
        return _ending(check, seen, call, owner, failed)

    return _types.checked(call, seen, owner, failed)


def _telling(check: Check) -> Check:
    """A check whose exceptions keep what the call has given."""

    def telling(
        result: object, function: Callable[..., object], values: tuple[object, ...]
    ) -> object:
        try:
            return check(result, function, values)
        except BaseException as error:
            if not hasattr(error, "out"):  # with what is freed
                keep_out(error, result)
            raise

    return telling


def _ending(
    check: Ending,
    seen: Check,
    call: Foreign,
    owner: Callable[[], Native | None],
    failed: Callable[[BaseException, object], None] | None,
) -> Callable[..., object]:
    """Calls a function that closes what it is given."""
    # What it gives may be the caller's to free or close, too.
    given_by = _types.checked(call, _result, owner, failed)

    def ending(*values: object) -> object:
        given, handle = check.begin(values)
        try:
            result = given_by(*given)
            function = owner()
            result = seen(result, call if function is None else function, values)
        except BaseException:
            check.fail(handle)
            raise
        check.succeed(handle)
        return result

    return ending


def _result(result: object, function: object, values: tuple[object, ...]) -> object:
    return result


class Memory:
    """Where C writes an out-parameter, zero at first: what is passed, and what becomes of it.

    Numbers are an array of NumPy's, rows of them one of more dimensions. `letter` is that of text,
    which `spec` says the encoding of.
    """

    __slots__ = ("address", "fortran", "keep", "letter", "passed", "spec")

    def __init__(self, ctype: CType, length: int | None, spec: CallSpec, letter: str) -> None:
        self.spec = spec
        self.letter = letter
        self.fortran = spec.policies.fortran or spec.policies.order == "F"
        item = ctype
        shape: tuple[int, ...] = () if length is None else (length,)
        if isinstance(ctype, Array):
            # A pointer to rows takes one at least; `value` leaves it out again.
            item, shape = ctype.item, (*[max(one, 1) for one in shape], *ctype.shape)
        if shape and isinstance(item, Scalar):
            from .._values.dtypes import zeros

            extra("numpy", "an array as an out-parameter")
            self.passed: Foreign = zeros(shape, item, ctype.alignment)
            self.keep: list[object] = []
            self.address = 0
            return
        # Room to align it, and a byte for a length of 0.
        place = max(ctype.alignment, 16)
        memory = _lib.ffi.new("char[]", ctype.size * (1 if length is None else length) + place + 1)
        start = int(_lib.ffi.cast("uintptr_t", memory))
        self.address = -(-start // place) * place
        self.keep = [memory]
        if isinstance(ctype, Record):
            self.passed = self.record(ctype, 0)
            return
        if isinstance(ctype, Scalar):
            # cffi has no type for some.
            form = bufferformat.spell(ctype).encode()
            self.passed = _types.Memory(self.address, form, ctype.size, (1,), None, False)
            return
        from .._signature.cffitype import pointer_from

        self.passed = pointer_from(pointer(ctype), self.address, owner=memory)

    def take(
        self, ctype: CType, length: int | None, value: Foreign, who: str, policies: Policies
    ) -> None:
        """Store what goes in."""
        start = self.address or self.passed.ctypes.data
        if length is None:
            storage.store(ctype, value, start, who, self.keep, False, policies)
            return
        storage.store_items(ctype, length, value, start, who, self.keep, policies)

    def argument(self) -> object:
        """What the call passes; rows lie as Fortran has them where C wants that order."""
        if not self.address and self.fortran and self.passed.ndim > 1:
            import numpy as np

            self.passed = np.asfortranarray(self.passed)
        return self.passed

    def record(self, ctype: Record, index: int) -> object:
        """A pointer of cffi's to a struct or union, which keeps the memory."""
        from .._signature.cffitype import pointer_from

        address = self.address + index * ctype.size
        return pointer_from(ctype.pointer, address, owner=self.keep[0])

    def value(self, ctype: CType, length: int | None) -> object:
        if not self.address:
            return self.passed[:0] if length == 0 else self.passed
        if self.letter:
            return self._texts(length)
        if isinstance(ctype, Record):
            several = range(1 if length is None else length)
            found = [self.record(ctype, index) for index in several]
            return found[0] if length is None else found
        if length is None:
            return storage.load(ctype, self.address, policies=self.spec.policies)
        places = [self.address + i * ctype.size for i in range(length)]
        return [storage.load(ctype, one, policies=self.spec.policies) for one in places]

    def _texts(self, length: int | None) -> object:
        """The text behind pointers, None for NULL."""
        words = _lib.ffi.cast("uintptr_t *", self.address)
        found = [
            _types.text_result(self.spec, word, self.letter) if word else None
            for word in [int(words[i]) for i in range(1 if length is None else length)]
        ]
        return found[0] if length is None else found


def with_outs(
    callable: Native, failed: Callable[[BaseException, object], None] | None = None
) -> Callable[..., object]:
    """Calls the only entry of `callable` with memory for its out-parameters, and returns them;
    where the call raises, `failed` gets the exception and them.
    """
    spec, _, flags = callable._entry()
    signature = spec.signature
    name = callable.__name__
    rows: dict[int, tuple[Out, CType]] = {
        out.index: (out, outs.pointee(signature, out)) for out in spec.policies.out
    }
    texts = lengths(signature) if spec.policies.fortran else ()
    count = len(signature.args) - convention(flags).hidden - len(texts)
    # What is to be freed stays a pointer.
    letters = {
        index: "" if failed is not None else callspec.text_out(signature, out)
        for index, (out, _) in rows.items()
    }
    drops = outs.drops_result(signature, flags)
    call = without(
        callable, "out", uncounted=tuple([at for at, (out, _) in rows.items() if not out.given])
    )
    numbers = call._entry()[0].policies.number
    gives_pointer = callspec.letter(signature.result) == "P"
    policies = spec.policies
    raised = convention(flags).exception

    def with_outs(*values: object) -> object:
        rest = iter(values)
        left_out = {index for index, (out, _) in rows.items() if not out.given}
        given: dict[int, Foreign] = {
            index: next(rest) for index in range(count) if index not in left_out
        }
        for out, ctype in rows.values():
            if out.sized is not None:
                # C gets the very number that the memory is made for.
                said = given[out.sized], name, numbers(out.sized), ctype.size
                given[out.sized] = _length(*said)
        made: list[tuple[Memory, CType, int | None]] = []
        arguments: list[object] = []
        for index in range(count):
            if index not in rows:
                arguments.append(given[index])
                continue
            out, ctype = rows[index]
            length = out.length if out.sized is None else given[out.sized]
            memory = Memory(ctype, length, spec, letters[index])
            if out.given:
                who = f"argument {numbers(index)} of '{name}'"
                memory.take(ctype, length, given[index], who, policies)
            made.append((memory, ctype, length))
            arguments.append(memory.argument())
        if failed is not None and gives_pointer:
            _types.lost_result(call)  # of another call
        try:
            result = call(*arguments, *rest)
        except BaseException as error:
            if failed is not None:
                lost = [_types.lost_result(call)] if gives_pointer else []
                failed(error, _together([*lost, *_written(made)]))
            elif raised is not None and isinstance(error, raised):
                for memory, _, _ in made:
                    memory.letter = ""  # C may not have written the text
                keep_out(error, _together(_written(made)))
            raise
        found = _written(made)
        return _together(found if drops else [result, *found])

    return with_outs


def _written(made: Sequence[tuple[Memory, CType, int | None]]) -> list[object]:
    return [memory.value(ctype, length) for memory, ctype, length in made]


def _length(value: object, name: str, number: int, size: int) -> int:
    """The number of items of a size that an argument says."""
    what = f"argument {number} of '{name}' is the length of an out-parameter"
    try:
        length = operator.index(value)  # type: ignore[arg-type]  # what is none raises TypeError
    except TypeError:
        if hasattr(type(value), "__index__"):
            raise  # its own
        raise TypeError(f"{what} and must be an integer (got {type(value).__name__})") from None
    if length < 0:
        raise ValueError(f"{what} (got {length})")
    if length * size > maxsize:
        raise OverflowError(f"{what} of more bytes than memory has (got {length})")
    return length


def _together(values: Sequence[object]) -> object:
    return values[0] if len(values) == 1 else tuple(values)
