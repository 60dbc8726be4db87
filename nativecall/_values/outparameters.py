"""Out-parameters: pointer arguments through which C writes results.

`resolved` checks the option ``out=`` against a signature; its result is stored in the policies of
the call interface. Python does not pass an out-parameter. The call returns a tuple of the
function's own result and the values that C wrote, in the order of the arguments. A single value is
returned without a tuple. The function's own result is dropped if it is void, or a status that was
checked. The memory is zero before the call unless Python passes an initial value.

The core allocates the memory (csrc/values/outparameters.h).
"""

from __future__ import annotations

import sys
from _collections_abc import Mapping, Sequence

from .._errors import TYPE_CHECKING, wrong_type
from .._rows import NamedTuple
from .._types.ctype import CType, Scalar
from .._types.derived import Array, Handle, Pointer, Record
from .failure import convention

if TYPE_CHECKING:
    from .._ext import Foreign
    from .._types.signature import Signature

#: Where a call puts the memory of an out-parameter.
VALUE, BLOCK, ARRAY, RECORD = range(4)
_MOST_BYTES = 4096  # the largest value that is stored in the frame
_ALIGNMENT = 16
_MEMORY_BYTES = 24  # struct NcOutMemory


class Out(NamedTuple):
    """An out-parameter.

    Attributes
    ----------
    index : int
        The index of the argument.
    given : bool
        Whether Python passes the initial value.
    length : int or None
        The number of items or rows of an array. None for a single value or row, or if an argument
        gives the length.
    sized : int or None
        The index of the argument that gives the array's length.
    """

    index: int  # type: ignore[assignment]  # a field, not the method of tuples
    given: bool = False
    length: int | None = None
    sized: int | None = None

    @property
    def is_array(self) -> bool:
        return self.length is not None or self.sized is not None


def check_out(out: object) -> object:
    """Check the option ``out=`` without a signature; return (argument, description) pairs.

    The option is a name or position, a sequence of names or positions, or a mapping from names or
    positions to descriptions.
    """
    if isinstance(out, (str, int)) and not isinstance(out, bool):
        out = (out,)
    given: tuple[Out | tuple[object, object], ...]
    if isinstance(out, Mapping):
        given = tuple(out.items())
    elif isinstance(out, Sequence) and not isinstance(out, (bytes, bytearray)):
        given = tuple([one if _is_read(one) else (one, None) for one in out])
    else:
        wanted = "names or positions of arguments, or a mapping of these to 'inout' or to lengths"
        raise wrong_type("'out'", wanted, out)
    for one in given:
        if isinstance(one, Out):
            continue
        which, how = one
        if isinstance(which, bool) or not isinstance(which, (str, int)):
            raise TypeError(f"'out' must contain names or positions (got {type(which).__name__})")
        if isinstance(how, bool) or not (how is None or isinstance(how, (str, int))):
            raise TypeError(
                f"'out' must map {which!r} to 'inout', a number of items, or the name of the "
                f"argument that holds it (got {type(how).__name__})"
            )
        if isinstance(how, int) and how < 1:
            raise ValueError(f"'out' must request 1 or more items for {which!r} (got {how})")
    return given


def arguments(out: object) -> list[str | int]:
    """Return the names and positions of arguments in a result of `check_out`."""
    found: list[str | int] = []
    for which, how in out:  # type: ignore[attr-defined]  # check_out returned it
        found.append(which)
        if isinstance(how, str) and how != "inout":
            found.append(how)
    return found


def _is_read(one: object) -> bool:
    """Return whether `one` is an item of what `check_out` or `resolved` returns."""
    return isinstance(one, Out) or (isinstance(one, tuple) and len(one) == 2)


def resolved(
    signature: Signature,
    hidden: int,
    given: Sequence[Out | tuple[str | int, str | int | None]],
    by_reference: bool = False,
) -> tuple[Out, ...]:
    """Return the out-parameters of a function, in the order of its arguments.

    Python does not pass the last `hidden` arguments. With `by_reference`, Python passes numbers
    where C takes pointers to numbers.

    Raises
    ------
    ValueError
        If there is no such argument, or C cannot write through it.
    """
    count = len(signature.args) - hidden
    found: dict[int, Out] = {}
    for one in given:
        out = one if isinstance(one, Out) else _out(signature, count, *one)
        if not 0 <= out.index < count:
            _refuse(signature, count, out.index, "out")
        problem = _problem_of_type(signature, out)
        if problem:
            written = f"a {signature.spelled(out.index)!r}{problem}"
            raise ValueError(f"'out' names {_shown(signature, out.index)}, {written}")
        if (out.length or 0) * pointee(signature, out).size > sys.maxsize:
            raise ValueError(
                f"'out' requests {out.length} items for {_shown(signature, out.index)}, more than "
                "fit in memory"
            )
        if out.index in found:
            raise ValueError(f"'out' names {_shown(signature, out.index)} twice")
        found[out.index] = out
    for out in found.values():
        if out.sized is not None:
            _check_length(signature, out, found, by_reference)
    return tuple([found[index] for index in sorted(found)])


def _out(signature: Signature, count: int, which: str | int, how: str | int | None) -> Out:
    index = position(signature, count, which, "out")
    declared = signature.lengths[index] if signature.lengths else None
    if isinstance(how, int):
        if isinstance(declared, int) and how < declared:
            raise ValueError(
                f"'out' requests {how} items for {_shown(signature, index)}, which C declares "
                f"with {declared}"
            )
        return Out(index, length=how)
    if how is None or how == "inout":
        given = how is not None
        if not isinstance(declared, str):
            # An array of one item is a single value: in C, it passes a struct by reference.
            return Out(index, given, declared if declared and declared > 1 else None)
        if declared not in signature.names[:count]:
            raise ValueError(
                f"'out' names {_shown(signature, index)}, an array of {declared!r} items, which is "
                "neither a constant nor an argument; give the number: "
                f"{{{_shown(signature, index)}: 16}}"
            )
        return Out(index, given, sized=signature.names.index(declared))
    return Out(index, sized=position(signature, count, how, "out"))


def _check_length(
    signature: Signature, out: Out, found: Mapping[int, Out], by_reference: bool
) -> None:
    """Refuse an array unless its length is an integer that Python passes."""
    assert out.sized is not None
    ctype = signature.args[out.sized]
    array, length = _shown(signature, out.index), _shown(signature, out.sized)
    what = f"'out' takes the length of {array} from {length}"
    other = found.get(out.sized)
    if other is not None and not other.given:
        raise ValueError(
            f"{what}, which is an out-parameter itself; to pass it as well: {{{length}: 'inout'}}"
        )
    is_pointer = isinstance(ctype, Pointer) and ctype.pointee.kind == "int"
    if is_pointer and other is None and not by_reference:
        raise ValueError(
            f"{what}, a pointer to an integer; to pass the integer: "
            f"{{{array}: {length}, {length}: 'inout'}}"
        )
    if not (is_pointer or ctype.kind == "int"):
        raise ValueError(f"{what}, which is {ctype.text!r}, not an integer")


def position(signature: Signature, count: int, which: str | int, option: str) -> int:
    """Return the position of the argument that an option names, among the first `count`.

    Raises
    ------
    ValueError
        If there is no such argument; the message lists the arguments.
    """
    index = place(signature.names[:count], which)
    if index is None:
        _refuse(signature, count, which, option)
    assert index is not None
    return index


def place(names: Sequence[str | None], which: str | int) -> int | None:
    """Return the position of an argument given by name or position; None if it is missing."""
    if isinstance(which, int):
        index = which + len(names) if which < 0 else which
        return index if 0 <= index < len(names) else None
    if which in names:
        return names.index(which)
    # Ignore underscores: headers of the C library use reserved names, such as __s.
    bare = [None if name is None else name.strip("_") for name in names]
    return bare.index(which.strip("_")) if which.strip("_") in bare else None


def _refuse(signature: Signature, count: int, which: str | int, option: str) -> None:
    known = [repr(name) for name in signature.names[:count] if name]
    hint = f"its arguments are {', '.join(known)}"
    if not known:
        hint = f"its arguments have no names; they are 0 to {count - 1}" if count else "it has none"
    raise ValueError(f"{option!r} names {which!r}, no argument of {signature.shown('')!r}; {hint}")


def _shown(signature: Signature, index: int | None) -> str:
    assert index is not None
    return repr(signature.names[index] or index)


def _problem_of_type(signature: Signature, out: Out) -> str:
    """Return why an argument's type excludes it as an out-parameter, or ``""``."""
    ctype = signature.args[out.index]
    found = _record(ctype)
    if found is None and not isinstance(ctype, Pointer):
        is_void = ctype.kind == "voidptr" and not isinstance(ctype, Handle)
        hint = "; pass memory made by the library's 'new'" if is_void else ""
        return f", which does not point to a type of known size{hint}"
    if found is not None and out.given and isinstance(ctype, Handle):
        return "; to pass its value, pass memory made by the library's 'new'"
    if isinstance(ctype, Pointer) and isinstance(ctype.pointee, Array):
        item = ctype.pointee.item
        if not isinstance(item, Scalar):
            return (
                f", whose rows are of {item.text!r}, which is not a number; pass memory made by "
                "the library's 'new'"
            )
    if signature.readonly[out.index]:
        return ", which C declares const"
    if "O" in ctype.text:
        return "; Python objects cannot be out-parameters"
    return ""


def pointee(signature: Signature, out: Out) -> CType:
    """Return the type that an out-parameter points to."""
    ctype = signature.args[out.index]
    found = None if out.given else _record(ctype)
    if found is not None:
        return found
    assert isinstance(ctype, Pointer)
    return ctype.pointee


def is_array(signature: Signature, out: Out) -> bool:
    """Return whether an out-parameter is an array in Python: several items, or rows."""
    return out.is_array or isinstance(pointee(signature, out), Array)


def _record(ctype: CType) -> Record | None:
    """Return the struct or union behind a pointer if only cffi can access its members."""
    if not isinstance(ctype, Handle) or ctype.opaque or ctype.owner is None:
        return None
    pointer = ctype.owner.pointer(ctype.name)
    if pointer is None:
        return None
    import _cffi_backend

    item: Foreign = pointer.item  # type: ignore[attr-defined]  # a pointer of cffi's
    if item.fields is None:
        return None
    return Record(ctype, _cffi_backend.sizeof(item), _cffi_backend.alignof(item))


def visible(signature: Signature, hidden: int, outs: Sequence[Out]) -> list[tuple[int, CType]]:
    """Return the index and the type of each argument that Python passes.

    For a `given` out-parameter that is not an array, the type is that of the value, not of the
    pointer.
    """
    left_out = {out.index: out for out in outs}
    found: list[tuple[int, CType]] = []
    for index, ctype in enumerate(signature.args[: len(signature.args) - hidden]):
        out = left_out.get(index)
        if out is None:
            found.append((index, ctype))
        elif out.given:
            found.append((index, ctype if is_array(signature, out) else pointee(signature, out)))
    return found


def kind_of(signature: Signature, out: Out) -> int:
    """Return where a call puts the memory of an out-parameter (csrc/layout.h)."""
    ctype = pointee(signature, out)
    if isinstance(ctype, Record):
        return RECORD
    if isinstance(ctype, Array) or (out.is_array and isinstance(ctype, Scalar)):
        return ARRAY
    is_small = ctype.size <= _MOST_BYTES and ctype.alignment <= _ALIGNMENT
    goes_in = out.given and not isinstance(ctype, Scalar)
    return VALUE if is_small and not out.is_array and not goes_in else BLOCK


def offsets(signature: Signature, outs: Sequence[Out]) -> tuple[list[int], int]:
    """Return the offset of each value or `NcOutMemory` in the out-parameter area, and its size."""
    found: list[int] = []
    end = 0
    for out in outs:
        found.append(end)
        is_value = kind_of(signature, out) == VALUE
        size = pointee(signature, out).size if is_value else _MEMORY_BYTES
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return found, end


def drops_result(signature: Signature, flags: int) -> bool:
    """Return whether calls drop the function's own result."""
    return signature.result.kind == "void" or convention(flags).is_status
