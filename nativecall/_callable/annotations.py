"""Describe the parameters and results of a native callable for `inspect` and `typing`.

`inspect.signature`, `typing.get_type_hints`, `help` and ``nativecall stubs`` share this description
of a call interface: the arguments that Python passes, their names, and the results. Hints are
classes, so that `functools.singledispatch` can use them: `float`, `int`, `complex`, `bool`; `bytes`
or `str` for text; `Record` for structs; `object` for pointers and other types. Calls also accept
values of other classes that convert without loss.
"""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable
from keyword import iskeyword

from .._errors import TYPE_CHECKING
from .._values import outparameters
from .._values.callinterface import text_of
from .._values.storage import Record

if TYPE_CHECKING:
    from .._ext import CallInterface
    from .._types.ctype import CType

#: An argument that Python passes: its name; whether it may be passed by name; its C type; whether C
#: only reads through it; the character type if it is text, or ""; its index in C; and whether it is
#: an array that C changes in place.
Argument = namedtuple(
    "Argument", ["name", "named", "type", "readonly", "text", "index", "is_array"]
)
#: A value that a call returns: its C type, the character type if it is text, and whether it is an
#: array.
Result = namedtuple("Result", ["type", "text", "is_array"])

_CLASSES: dict[str, type] = {
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "struct": Record,
    "union": Record,
    "function": Callable,  # type: ignore[dict-item]  # it is a class
}


def arguments(cif: CallInterface) -> list[Argument]:
    """Return the arguments that calls from Python pass."""
    signature = cif.signature
    count = len(cif.types) - 1
    said = {out.index: out for out in cif.policies.out}
    passed = [index for index, _ in outparameters.visible(signature, 0, cif.policies.out)][:count]
    names = [name for name in cif.names or () if name and not iskeyword(name)]
    named = len({*names}) == count
    characters = signature.characters or ("",) * (len(signature.args) + 1)
    return [
        Argument(
            names[i] if named else f"x{i}",
            named and not signature.variadic,
            cif.types[i],
            signature.readonly[index],
            text_of(characters[index].partition("*")[0], cif.policies),
            index,
            index in said and outparameters.is_array(signature, said[index]),
        )
        for i, index in enumerate(passed)
    ]


def results(cif: CallInterface, flags: int) -> list[Result]:
    """Describe the values that a call from Python returns: none, one, or the items of a tuple."""
    signature = cif.signature
    found = []
    dropped = cif.policies.out and outparameters.drops_result(signature, flags)
    if not dropped and (cif.policies.out or signature.result.size):
        text = text_of(signature.characters[-1], cif.policies) if signature.characters else ""
        found.append(Result(signature.result, text, False))
    for out in cif.policies.out:
        text = signature.characters[out.index].partition("*")[2] if signature.characters else ""
        text = text_of(text, cif.policies)
        is_array = outparameters.is_array(signature, out)
        found.append(Result(outparameters.pointee(signature, out), text, is_array))
    return found


def hint(ctype: CType, text: str = "", encoding: str | None = None) -> type:
    """Return the Python class of a C type's values."""
    if text and text[0] != "(":
        return str if text != "char" or encoding else bytes
    return _CLASSES.get(ctype.kind, object)


def result_hint(cif: CallInterface, flags: int) -> object:
    """Return the hint for the result of a call."""
    encoding = cif.policies.encoding
    if cif.policies.check is not None:
        return object  # `check` may return anything
    found: list[object] = []
    for one in results(cif, flags):
        kind: type = object if one.is_array else hint(one.type, one.text, encoding)
        # A text pointer may be NULL.
        found.append(kind | None if one.text else kind)
    if len(found) < 2:
        return found[0] if found else None
    return tuple.__class_getitem__(tuple(found))


def of(cif: CallInterface, flags: int) -> inspect.Signature:
    """Return the signature of a callable with one entry, including hints."""
    positional = inspect.Parameter.POSITIONAL_ONLY
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    encoding = cif.policies.encoding
    parameters = [
        inspect.Parameter(
            one.name,
            either if one.named else positional,
            annotation=hint(one.type, one.text, encoding),
        )
        for one in arguments(cif)
    ]
    if cif.signature.variadic:
        parameters.append(inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL))
    return inspect.Signature(parameters, return_annotation=result_hint(cif, flags))


def common(each: list[inspect.Signature]) -> inspect.Signature:
    """Return the common signature of several entries.

    If all entries have the same number of parameters, keep the names and hints that all entries
    share. Otherwise, the common signature accepts any number of arguments.
    """
    first = [*each[0].parameters.values()] if each else []
    if not each or any([len(one.parameters) != len(first) for one in each]):
        return inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)])
    parameters = []
    rows = zip(*[one.parameters.values() for one in each], strict=True)
    for index, (one, row) in enumerate(zip(first, rows, strict=True)):
        named = all([other.name == one.name and other.kind is one.kind for other in row])
        same = all([other.annotation == one.annotation for other in row])
        parameters.append(
            inspect.Parameter(
                one.name if named else f"x{index}",
                one.kind if named else inspect.Parameter.POSITIONAL_ONLY,
                annotation=one.annotation if same else inspect.Parameter.empty,
            )
        )
    returned = each[0].return_annotation
    if any([one.return_annotation != returned for one in each]):
        returned = inspect.Signature.empty
    return inspect.Signature(parameters, return_annotation=returned)
