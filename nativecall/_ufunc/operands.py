"""Map the arguments and results of a C function to the operands of a ufunc loop.

Without a NumPy signature, every operand is a number. The arguments that Python passes are inputs.
The result, out-parameters, and the fields of a returned struct are outputs.

With a NumPy signature, such as ``(n),(n)->()``, operands are pointers to arrays, strided views, or
numbers:

- The numbers that the function returns are the first outputs. The signature's other outputs are the
  arguments declared in `out`, and the last pointers and views that are not const.
- Lengths are integers named like a dimension. If no argument has such a name, the integers are the
  lengths, unless all of them are scalar inputs. This requires one integer for each named dimension,
  in the order in which the signature first names the dimensions. If only some integers could be
  scalar inputs, name the arguments.
- All other arguments are inputs.
- If the signature has more inputs than there are remaining arguments, the function changes some
  outputs in place: these arguments are both inputs and outputs.
- Each dimension of a pointer must be a number, or a name whose length is passed as an argument or
  in a view.
"""

from __future__ import annotations

import re
from math import prod

from .. import _lib
from .._errors import TYPE_CHECKING, SignatureError, wrong_type
from .._plan.conversion import LoopPlan, Passed
from .._rows import NamedTuple
from .._types.ctype import Scalar
from .._types.derived import Array, Pointer, Struct, View, element_of
from .._values.failure import convention
from .._values.outparameters import drops_result

if TYPE_CHECKING:
    from .._ext import CallInterface
    from .._types.ctype import CType
    from .._types.signature import Signature
    from .._values.outparameters import Out

_OPERAND = r"\(\s*(?:\w+\??(?:\s*,\s*\w+\??)*)?\s*\)"
_OPERANDS = rf"\s*{_OPERAND}(?:\s*,\s*{_OPERAND})*\s*"
_SIGNATURE = re.compile(rf"({_OPERANDS})->({_OPERANDS})")


class Core(NamedTuple):
    """A signature of a generalised NumPy ufunc.

    Attributes
    ----------
    inputs, outputs : list of tuple of int
        The dimensions of each operand, as indices into `names`.
    names : list of str
        The names of dimensions, in order of first appearance. A decimal number is a fixed length.
    text : str
        The signature as given.
    """

    inputs: list[tuple[int, ...]]
    outputs: list[tuple[int, ...]]
    names: list[str]
    text: str


def core(text: object) -> Core:
    """Parse a signature of a generalised ufunc.

    Raises
    ------
    TypeError, ValueError
    """
    if not isinstance(text, str):
        raise wrong_type(
            "'signature'", "a generalised ufunc's, such as '(n),(n)->()', or None", text
        )
    match = _SIGNATURE.fullmatch(text)
    if match is None:
        raise ValueError(
            "'signature' must be a generalised ufunc's signature, such as '(n),(n)->()' (got "
            f"{text!r})"
        )
    names: list[str] = []

    def row(group: str) -> tuple[int, ...]:
        found = re.findall(r"\w+\??", group)
        if any([one.endswith("?") for one in found]):
            raise ValueError(
                f"'signature' has an optional dimension, in {text!r}; the C function needs all "
                "dimensions"
            )
        names.extend([one for one in dict.fromkeys(found) if one not in names])
        return tuple([names.index(one) for one in found])

    sides = [[row(group) for group in re.findall(r"\([^)]*\)", side)] for side in match.groups()]
    return Core(sides[0], sides[1], names, text)


def _shown(signature: Signature, index: int, typed: bool = False) -> str:
    """Return a message's subject: an argument with its name and, if `typed`, its type."""
    name = signature.names[index]
    said = [repr(name)] if name else []
    if typed:
        said.append(repr(signature.spelled(index)))
    return ", ".join([f"argument {index + 1}", *said]) + ("," if said else "")


class _Reader:
    """Collects the operands and results of one C function for a loop."""

    def __init__(self, name: str, cif: CallInterface, flags: int) -> None:
        self.name = name
        self.signature: Signature = cif.signature
        self.policies = cif.policies
        self.flags = flags
        self.inputs: list[CType] = []
        self.outputs: list[CType] = []
        self.results: list[tuple[int, int]] = []
        if self.signature.variadic:
            raise self.refusal("it is variadic", "convert() it to a signature without '.' first")
        self.errors = convention(flags)
        self.count = len(self.signature.args) - self.errors.hidden

    def refusal(self, why: str, hint: str | None = None) -> SignatureError:
        shown = repr(self.signature.shown(self.name))
        who = shown if self.signature.in_c else f"{self.name!r} of {shown}"
        return SignatureError(f"{who} cannot be a ufunc: {why}", hint=hint)

    def result(self) -> list[tuple[CType, int]]:
        """Return the numbers in the function's result, with their offsets."""
        result = self.signature.result
        if drops_result(self.signature, self.flags):
            return []
        if isinstance(result, Scalar):
            return [(result, 0)]
        fields: list[tuple[CType, int]] = []
        if isinstance(result, Struct) and result.is_plain:
            fields = [(field.type, field.offset) for field in result.fields]
        if not fields or not all([isinstance(one, Scalar) for one, _ in fields]):
            raise self.refusal(
                f"its result, {result.text!r}, is not a number or a struct of numbers"
            )
        return fields

    def plan(self, arguments: list[Passed], rows: list[tuple[int, ...]] | None) -> LoopPlan:
        gil = bool(self.flags & _lib.FLAG_NEEDS_GIL) or self.errors.shown_by == "exception"
        return LoopPlan(
            self.signature,
            tuple(self.inputs),
            tuple(self.outputs),
            (*arguments, *[Passed("error")] * self.errors.hidden),
            tuple(self.results),
            None if rows is None else tuple(rows),
            gil,
            self.errors.name,
        )


def elementwise(name: str, cif: CallInterface, flags: int) -> LoopPlan:
    """Plan the loop around a function of numbers.

    Raises
    ------
    SignatureError
        If an argument or result is not a number, or there is no output.
    """
    one = _Reader(name, cif, flags)
    outs: dict[int, Out] = {out.index: out for out in one.policies.out}
    arguments: list[Passed] = []
    written: list[CType] = []
    for index, ctype in enumerate(one.signature.args[: one.count]):
        out = outs.get(index)
        pointee = ctype.pointee if isinstance(ctype, Pointer) else None
        if out is not None:
            if not isinstance(pointee, Scalar) or out.is_array:
                raise one.refusal(
                    f"{_shown(one.signature, index)} is an out-parameter that is not a single "
                    "number",
                    "for arrays use to_ufunc(signature=...)",
                )
            if out.given:
                one.inputs.append(pointee)
            given = len(one.inputs) - 1 if out.given else None
            arguments.append(Passed("output", len(written), given))
            written.append(pointee)
        elif isinstance(ctype, Scalar):
            arguments.append(Passed("value", len(one.inputs)))
            one.inputs.append(ctype)
        elif one.policies.fortran and isinstance(pointee, Scalar):
            arguments.append(Passed("reference", len(one.inputs)))
            one.inputs.append(pointee)
        else:
            raise one.refusal(
                f"{_shown(one.signature, index, True)} is not a number",
                "out= of wrap() and load() turns pointers into results, for arrays use "
                "to_ufunc(signature=...)",
            )
    for ctype, offset in one.result():
        one.results.append((len(one.inputs) + len(one.outputs), offset))
        one.outputs.append(ctype)
    first = len(one.inputs) + len(one.outputs)
    one.outputs += written
    arguments = [
        how._replace(number=first + how.number) if how.how == "output" else how for how in arguments
    ]
    if not one.outputs:
        raise one.refusal(
            "it has no output", "out= of wrap() and load() turns pointers into results"
        )
    if not one.inputs:
        raise one.refusal("it has no input")
    return one.plan(arguments, None)


def generalised(name: str, cif: CallInterface, flags: int, wanted: Core) -> LoopPlan:
    """Plan the loop around a function of arrays, according to a NumPy signature.

    Raises
    ------
    SignatureError
        If the function's arguments do not match the signature; the message says how.
    """
    one = _Reader(name, cif, flags)
    args = list(one.signature.args[: one.count])
    results = one.result()
    if len(results) > len(wanted.outputs):
        raise one.refusal(
            f"it returns {len(results)} numbers, but {wanted.text!r} has {len(wanted.outputs)} "
            "outputs"
        )
    # The function's own result comes first, as in calls.
    if any(wanted.outputs[: len(results)]):
        raise one.refusal(f"its result is a number, but the output of {wanted.text!r} is not")
    written = _written(one, args, len(wanted.outputs) - len(results), wanted)
    lengths = _lengths(one, args, written, wanted)
    given = [index for index in range(len(args)) if index not in written and index not in lengths]
    changed = _changed(one, written, len(wanted.inputs) - len(given), wanted)
    if len(given) + len(changed) != len(wanted.inputs):
        raise one.refusal(
            f"{wanted.text!r} has {len(wanted.inputs)} inputs, but it takes {len(given)}, not "
            f"counting {len(written)} outputs and {len(lengths)} lengths"
        )
    given = sorted([*given, *changed])
    rows = [*wanted.inputs, *wanted.outputs]
    one.inputs = [
        _typed(one, index, row, wanted) for index, row in zip(given, wanted.inputs, strict=True)
    ]
    one.outputs = [ctype for ctype, _ in results]
    one.outputs += [
        _typed(one, index, row, wanted)
        for index, row in zip(written, wanted.outputs[len(results) :], strict=True)
    ]
    one.results = [(len(given) + place, offset) for place, (_, offset) in enumerate(results)]
    arguments: list[Passed] = []
    for index, ctype in enumerate(args):
        if index in lengths:
            arguments.append(Passed("length", lengths[index]))
            continue
        is_output = index in written
        operand = (
            len(given) + len(results) + written.index(index) if is_output else given.index(index)
        )
        before = given.index(index) if index in changed else None
        if before is not None and rows[before] != rows[operand]:
            raise one.refusal(
                f"it changes {_shown(one.signature, index)} in place, which has other dimensions "
                f"as an input than as an output in {wanted.text!r}"
            )
        if isinstance(ctype, Scalar):
            arguments.append(Passed("value", operand))
        elif isinstance(ctype, View):
            arguments.append(Passed("view", operand, before))
        else:
            arguments.append(Passed("output" if is_output else "input", operand, before))
    _require_told(one, arguments, rows, wanted)
    return one.plan(arguments, rows)


def _require_told(
    one: _Reader, arguments: list[Passed], rows: list[tuple[int, ...]], wanted: Core
) -> None:
    """Refuse a pointer to an array if the function does not get the array's length."""
    told = {place for place, name in enumerate(wanted.names) if name.isdecimal()}
    for how in arguments:
        if how.how == "length":
            told.add(how.number)
        elif how.how == "view":
            told.update(rows[how.number])
    for index, how in enumerate(arguments):
        row = rows[how.number] if how.how in ("input", "output") else ()
        untold = [place for place in row if place not in told]
        if untold:
            raise one.refusal(
                f"{_shown(one.signature, index)} has the dimension {wanted.names[untold[0]]!r} in "
                f"{wanted.text!r}, but no argument gives its length",
                "write a length that the function fixes as a number, as in '(3),(3)->(3)', and one "
                "that two arrays share as one name, as in '(n),(n)->()'",
            )


def _changed(one: _Reader, written: list[int], count: int, wanted: Core) -> list[int]:
    """Return the outputs that are also inputs: those declared ``"inout"``.

    `count` is the number of inputs for which no other argument is left. If it equals the number of
    outputs, return all outputs.
    """
    said = [out.index for out in one.policies.out if out.given]
    if not 0 < count <= len(written):
        return []
    rest = [index for index in written if index not in said]
    if len(said) > count or count - len(said) not in (0, len(rest)):
        raise one.refusal(
            f"{wanted.text!r} has {count} more inputs than it takes, and it is unknown which of "
            f"its {len(written)} outputs it changes in place",
            "name them when it is made: out={'x': 'inout'}",
        )
    return [*said, *(rest if count > len(said) else ())]


def _written(one: _Reader, args: list[CType], count: int, wanted: Core) -> list[int]:
    """Return the arguments that are outputs."""
    said = [out.index for out in one.policies.out]
    can = [
        index
        for index, ctype in enumerate(args)
        if isinstance(ctype, Pointer | View) and not one.signature.readonly[index]
    ]
    if len(said) > count or len(can) < count:
        raise one.refusal(
            f"{wanted.text!r} has {count} outputs besides its result, but it writes to "
            f"{len(said) if len(said) > count else len(can)}"
        )
    rest = [index for index in can if index not in said]
    more = count - len(said)
    return sorted([*said, *rest[len(rest) - more :]])


def _lengths(one: _Reader, args: list[CType], written: list[int], wanted: Core) -> dict[int, int]:
    """Map the index of each argument that is a length to the index of its dimension."""
    names = [(name or "").strip("_").lower() for name in one.signature.names]
    integers = [index for index, ctype in enumerate(args) if ctype.kind == "int"]
    dimensions = [place for place, name in enumerate(wanted.names) if not name.isdecimal()]
    known = {wanted.names[place].lower(): place for place in dimensions}
    found = {index: known[names[index]] for index in integers if names[index] in known}
    if found:
        return found
    others = [one.signature.args[index] for index in range(len(args)) if index not in written]
    others = [ctype for ctype in others if ctype.kind != "int"]
    # Numbers of other types fill the signature's scalar inputs first; integers fill the rest.
    numbers = len([ctype for ctype in others if isinstance(ctype, Scalar)])
    single = [row for row in wanted.inputs if not row][numbers:]
    missing = len(integers) - max(0, min(len(wanted.inputs) - len(others), len(single)))
    if missing <= 0:
        return {}
    if missing != len(integers) or missing != len(dimensions):
        raise one.refusal(
            f"it is unknown which of its {len(integers)} integers are the lengths of "
            f"{wanted.text!r}",
            "name its arguments after the dimensions: 'double dot(int n, double *x, double *y)'",
        )
    return dict(zip(integers, dimensions, strict=True))


def _require_room(one: _Reader, index: int, ctype: Pointer, row: list[str], wanted: Core) -> None:
    """Refuse an operand with fewer items than the pointer's declaration, or with other row lengths.

    `double r[2][3]` matches ``(2,3)`` or ``(6)``, `double (*r)[3]` matches ``(n,3)``.
    """
    shape = ctype.pointee.shape if isinstance(ctype.pointee, Array) else ()
    items = prod(shape)
    declared = one.signature.lengths[index] if one.signature.lengths else None
    least = items * declared if isinstance(declared, int) else items
    what, has = _shown(one.signature, index, True), "item" if least == 1 else "items"
    if all([name.isdecimal() for name in row]):
        said = prod(map(int, row))
        if said < least or said % items:
            raise one.refusal(f"{what} has {least} {has}, but {wanted.text!r} has {said}")
        return
    if least > items:
        raise one.refusal(
            f"{what} has {least} items, but {wanted.text!r} allows any number",
            "make each dimension a number, or declare none: 'double *x'",
        )
    together = 1
    for name in reversed(row):
        if together >= items or not name.isdecimal():
            break
        together *= int(name)
    if items > 1 and together != items:
        raise one.refusal(
            f"{what} has rows of {items} items, but {wanted.text!r} does not say so",
            f"make its last dimensions numbers, as in '(n,{','.join(map(str, shape))})'",
        )


def _typed(one: _Reader, index: int, row: tuple[int, ...], wanted: Core) -> CType:
    """Return the element type of an argument as an operand with these dimensions."""
    ctype = one.signature.args[index]
    found = element_of(ctype)
    if not isinstance(found, Scalar):
        raise one.refusal(f"{_shown(one.signature, index, True)} is not an array of numbers")
    if isinstance(ctype, Pointer):
        _require_room(one, index, ctype, [wanted.names[place] for place in row], wanted)
    if isinstance(ctype, Scalar) and row:
        raise one.refusal(
            f"{_shown(one.signature, index)} is a number, but NumPy's signature has dimensions"
        )
    if isinstance(ctype, View) and ctype.ndim != len(row):
        raise one.refusal(
            f"{_shown(one.signature, index)} has {ctype.ndim} dimensions, but NumPy's signature "
            f"has {len(row)}"
        )
    return found
