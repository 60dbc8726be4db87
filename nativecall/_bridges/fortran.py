"""f2py: Fortran functions, wrapped in objects whose type is named ``fortran``.

Such an object holds the address of a procedure that takes every argument by reference: either the
wrapped procedure, which may return a result, or a subroutine that f2py generated. That subroutine
calls a function and writes the function's result through the first argument.

The object's docstring names the arguments but not their kinds: `float` is both real(4) and real(8).
The docstring reorders optional arguments, and never gives the kind of the result. So you write the
signature, in one of two forms. With ``"d:d"``, you pass scalars by value. nativecall creates a C
function that passes them to the procedure by reference. With ``"v:&d&d"``, you call the procedure
itself.

The required arguments and the maximum number of arguments are checked against the docstring. The
kind of one argument is also checked: f2py's error for an object of a wrong type names that kind.
SciPy's BLAS and LAPACK need no signature, because SciPy's Cython modules declare them (scipy.py).
"""

from __future__ import annotations

import re

from .. import _lib
from .._callable.thunk import by_plan
from .._errors import TYPE_CHECKING, SignatureError
from .._plan import conversionplan as plans
from .._types.ctype import SCALARS, VOID, is_native
from .._types.derived import FunctionPointer, Pointer, element_of
from .._types.derived import pointer as pointer_to
from .._types.signature import Signature
from .._values import foreign
from .._values.failure import CONVENTIONS
from .._values.foreign import Function, Passing
from .._values.fortran import lengths, texts, with_wide_lengths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._ext import Foreign
    from .._types.ctype import CType

_KINDS = {
    "double": "d",
    "float": "f",
    "int": "i",
    "long_long": "q",
    "short": "h",
    "signed_char": "b",
    "complex_double": "Zd",
    "complex_float": "Zf",
}
_REFUSED = re.compile(r"\((\w+)\) can't be converted to (\w+)")
_NUMBER = re.compile(r" : input (float|int|long|complex)\b")
_TEXT = re.compile(r" : (?:input |in/output )?(?:rank-\d+ array\('[Sc]\d*'\)|bytes|string\()")
_WRAPPER = "f2pywrap"  # prefix of f2py's subroutines that call functions
_PLAIN = "function "  # name prefix of objects that have no such subroutine
_BY_VALUE = ("void", "bool", "int", "float", "complex")  # kinds that can be passed by value


def _address(obj: Foreign) -> int:
    """Return the address of a Fortran function; 0 for other objects."""
    pointer = getattr(obj, "_cpointer", None)
    if type(obj).__name__ != "fortran" or type(pointer).__name__ != "PyCapsule":
        return 0
    from .PyCapsule import address

    return address(pointer, None)


class _Docstring:
    """Contents of a function's docstring."""

    def __init__(self, obj: Foreign) -> None:
        text = obj.__doc__ if isinstance(obj.__doc__, str) else ""
        text = text.replace("``", "")  # some versions quote code
        self.usage = text.partition("\n")[0]
        self.listed = _section(text, "Parameters")
        # Parameters for f2py itself are not arguments of the procedure.
        self.others = [
            one
            for one in _section(text, "Other Parameters")
            if not one.startswith("overwrite_") and " : input tuple" not in one
        ]
        # Results that share an argument's memory are already listed.
        returned = [one for one in _section(text, "Returns") if not one.endswith(" storage")]
        known = {_name(one) for one in (*self.listed, *self.others)}
        self.returned = [one for one in returned if _name(one) not in known]
        # Whether `listed` has all of the procedure's arguments in order: optional arguments change
        # the order, and strings add lengths.
        self.is_whole = "[" not in self.usage and "string(" not in text
        self.result = self.usage.partition(" = ")[0] if " = " in self.usage else ""
        shapes = " ".join(re.findall(r"with bounds \((.*)\)", text))
        # Arguments of f2py's subroutines for assumed-shape arrays.
        self.assumed = {*re.findall(r"\bf2py_\w+_d\d+\b", shapes)}
        # The text may omit arguments, for example a length that only an array's bounds mention. If
        # a default is not a plain shape() or len(), the .pyf file was edited, so assume that
        # arguments are missing.
        known.update(self.assumed, map(_name, self.returned))
        by_itself = re.compile(r"shape\(\w+, ?\d+\)|len\(\w+\)")
        defaults = re.findall(r"^    Default:? (.*)", text, re.MULTILINE)
        self.has_hidden = not all(map(by_itself.fullmatch, defaults))
        self.has_hidden |= not known.issuperset(re.findall(r"[A-Za-z]\w*", shapes))
        everything = (*self.listed, *self.others, *self.returned)
        self.texts = len([one for one in everything if _TEXT.search(one)])

    def kind(self, obj: Foreign) -> tuple[int, str] | None:
        """Return the position of an argument and its code, from f2py's error for a bad object."""
        numbers = [bool(_NUMBER.search(one)) for one in self.listed]
        if not self.is_whole or not any(numbers):
            return None
        # A plain object is never a number, so the procedure is not called.
        try:
            obj(*[object() for _ in self.listed])
        except Exception as error:  # each f2py module has its own class
            found = _REFUSED.search(str(error))
            if found is None or found[2] not in _KINDS:
                return None
            for index, line in enumerate(self.listed):
                if _name(line) == found[1]:
                    return index, _KINDS[found[2]]
        return None


def _section(text: str, title: str) -> list[str]:
    """Return the arguments under a heading, each with its description."""
    listed = f"\n{text}".partition(f"\n{title}\n{'-' * len(title)}\n")[2].partition("\n\n")[0]
    return [line for line in listed.split("\n") if re.match(r"\w+ : ", line)]


def _name(listed: str) -> str:
    return listed.partition(" : ")[0]


def reason(obj: Foreign) -> str | None:
    """Return why a Fortran object cannot be wrapped as it is; None for other objects."""
    if type(obj).__name__ != "fortran":
        return None
    if not _address(obj):
        return "a fortran object without '_cpointer' is a Fortran module or common block"
    doc = _Docstring(obj)
    return (
        f"'signature' must be given: f2py does not report the kinds of numbers, only "
        f"{doc.usage!r} ({'; '.join(doc.listed)}). Write what is passed, all by reference and "
        "in the order of the procedure, as in 'v:&d&d'; or, for a function, scalars by value: 'd:d'"
    )


def _array(listed: str) -> str | None:
    """Return the code of an array's elements."""
    array = re.search(r"array\('(\w)'\)", listed)
    return None if array is None else {"F": "Zf", "D": "Zd"}.get(array[1], array[1])


def signatures(obj: Foreign) -> list[Signature] | None:
    """Return the by-reference signatures of SciPy's BLAS and LAPACK procedures; None for others."""
    known = foreign.bridge("scipy").of_fortran(obj, _named(obj)) if _address(obj) else None
    return None if known is None else [known]


def _named(obj: Foreign) -> str:
    return str(obj.__name__).rpartition(" ")[2]


def instance(obj: Foreign, signature: Signature, errors: str) -> Function | None:
    """Return the function for a signature: the pointer itself, or a wrapper that takes scalars by
    value and passes them by reference.

    Raises
    ------
    SignatureError
        If the function has another type, or the wrapper cannot be made.
    """
    address = _address(obj)
    if not address:
        return None
    name = _named(obj)
    known: Signature | None = foreign.bridge("scipy").of_fortran(obj, name)
    follow = 0
    if known is None and (count := _Docstring(obj).texts):
        if texts(signature) != count:
            raise SignatureError(
                f"'signature' is {signature.text!r}, where {texts(signature)} arguments can be "
                f"strings, but f2py reports {count} in {_Docstring(obj).usage!r}",
                hint="write '&b' for each string, since its length follows, and 'P' for arrays of "
                f"int8; {_UNCHECKED}",
            )
        signature = with_wide_lengths(signature)
        follow = len(lengths(signature))
    values = [one.kind not in ("pointer", "voidptr", "function") for one in signature.args]
    returns = signature.result.kind != "void"
    is_wrapper: bool | None = False
    if known is not None:
        if returns and known.args and _points_to(known, signature.result):
            known, is_wrapper = Signature(signature.result, known.args[1:]), True
        _refuse_unlike(signature, known)
        follow = len(signature.args) - len(known.args)
        values[len(known.args) :] = [False] * follow
    else:
        values[len(values) - follow :] = [False] * follow
        is_wrapper = _is_wrapper(obj, address)
        _refuse_other(obj, signature, is_wrapper)
    if is_wrapper is None and returns:
        raise _not_made(
            f"cannot tell whether {name!r} returns its result or writes it: its address has no "
            "symbol"
        )
    if not any(values) and not (is_wrapper and returns):
        return Function(address, signature, obj, name)
    passed = [one for one, by_value in zip(signature.args, values, strict=True) if by_value]
    for one in (signature.result, *passed):
        if one.kind not in _BY_VALUE or not is_native(one):
            raise _not_made(f"no wrapper can pass a {one.text!r} of {name!r} by reference")
    plan = _by_reference(signature, values, bool(is_wrapper) and returns)
    made = by_plan(address, plan, name, obj)
    return Function(made.address(), signature, Passing(obj, made), name)


def _by_reference(signature: Signature, values: Sequence[bool], written: bool) -> plans.Plan:
    """Return the call plan of a procedure with by-reference arguments.

    `values` marks the arguments that the caller passes by value. With `written`, the procedure
    writes its result through the first argument.
    """
    args: list[CType] = []
    arguments: list[plans.Node] = []
    for index, (one, by_value) in enumerate(zip(signature.args, values, strict=True)):
        given = plans.Argument(index, one)
        args.append(pointer_to(one) if by_value else one)
        arguments.append(plans.Memory((given,), one) if by_value else given)
    result = signature.result
    answer: plans.Node | None = plans.Result(result) if result.kind != "void" else None
    if written:
        # A slot for the widest number: a result wider than declared must not overflow it.
        arguments.insert(0, plans.OutSlot(SCALARS["Zg"]))
        args.insert(0, pointer_to(result))
        result, answer = VOID, plans.OutValue(result)
    none = CONVENTIONS["none"]
    inner = Signature(result, args)
    return plans.Plan(signature, inner, tuple(arguments), answer, none, none, 0)


def _not_made(reason: str) -> SignatureError:
    return SignatureError(
        reason, hint="write the signature of the pointer itself, with every argument by reference"
    )


def _points_to(known: Signature, result: CType) -> bool:
    """Return whether a procedure without a result writes this type through its first argument."""
    first = known.args[0]
    is_one = isinstance(first, Pointer) and result.kind == "complex"
    return known.result.kind == "void" and is_one and first.text == f"&{result.text}"


def _is_wrapper(obj: Foreign, address: int) -> bool | None:
    """Return whether a function is an f2py subroutine that writes its result through its first
    argument; None if that is unknown.

    The name of the symbol at the address decides. Without a symbol, the name of the object decides:
    f2py renames objects with such a subroutine, except those of Fortran module procedures.
    """
    found = _lib.address_origin(address)
    if found is not None and found[1]:
        return found[1].startswith(_WRAPPER)
    if not str(obj.__name__).startswith(_PLAIN):
        # Arrays of assumed shape also need a subroutine, so the object's name decides nothing.
        return None if _Docstring(obj).assumed else True
    try:
        obj(**{"": None})  # no procedure accepts this
    except TypeError as error:
        path = str(error).partition("()")[0].rpartition(" ")[2]
        return False if path.count(".") == 1 else None
    except Exception:  # each f2py module has its own class
        return None
    return None


# -- checks of a signature -------------------------------------------------------------------------

_UNCHECKED = "nativecall.wrap(f._cpointer, signature, owner=f) takes the pointer without a check"


def _refuse_unlike(signature: Signature, known: Signature) -> None:
    """Reject a signature other than the known one; scalars may be by reference or by value."""
    args = signature.args
    if len(lengths(signature)) == len(args) - len(known.args):
        args = args[: len(known.args)]  # string lengths follow
    pairs = zip(args, known.args, strict=False)
    same = len(args) == len(known.args) and signature.result.text == known.result.text
    if same and all([_is_like(one, other) for one, other in pairs]):
        return
    raise SignatureError(
        f"'signature' is {signature.text!r}, but the target is {known.text!r}",
        hint="omit 'signature' to use that; scalars may be written by value, 'i' for '&i'",
    )


def _is_like(given: CType, known: CType) -> bool:
    """Return whether an argument matches a known one; a scalar also matches a pointer to it."""
    if given.text == known.text or given.kind == "voidptr":
        return True
    if isinstance(given, (Pointer, FunctionPointer)) and known.kind == "voidptr":
        return True
    if not isinstance(known, Pointer):
        return False
    if isinstance(given, Pointer):
        letters = ("b", "B", "c")
        return given.pointee.text in letters and known.pointee.text in letters
    return given.text == known.pointee.text


def _refuse_other(obj: Foreign, signature: Signature, is_wrapper: bool | None) -> None:
    """Reject a signature that contradicts the docstring."""
    doc = _Docstring(obj)
    arguments = list(signature.args)
    returned = doc.returned
    hidden = doc.has_hidden
    said = f"'signature' is {signature.text!r}, but f2py says {doc.usage!r}"
    if doc.assumed and is_wrapper is False:
        raise SignatureError(f"{said}, and no signature can express arrays of assumed shape")
    if signature.result.kind != "void":
        # f2py writes a subroutine for each function by default.
        is_function = bool(returned) and (is_wrapper is not False or hidden)
        if not is_function or not _can_be(signature.result, returned[0]):
            raise SignatureError(f"{said}, which does not return such a value", hint=_UNCHECKED)
        returned = returned[1:]
    elif is_wrapper and doc.result and "," not in doc.result:
        arguments, returned = arguments[1:], returned[1:]
    needed = [*doc.listed, *returned, *(() if hidden else doc.others)]
    least = len(needed) + len(doc.assumed)
    most = least + doc.texts
    if len(arguments) < least or (len(arguments) > most and not hidden):
        some = "at least " if hidden else ""
        count = str(least) if least == most or some else f"{least} to {most}"
        raise SignatureError(
            f"{said}, of {some}{count} argument{'' if count == '1' else 's'}", hint=_UNCHECKED
        )
    kind = doc.kind(obj) if len(arguments) == len(doc.listed) else None
    if kind is not None:
        index, code = kind
        if arguments[index].text.removeprefix("&") not in (code, "P"):
            raise SignatureError(
                f"'signature' is {signature.text!r}, but {_name(doc.listed[index])!r} of "
                f"f2py's {doc.usage!r} is {code!r}"
            )
    # Try the most specific arguments first; `void *`, which fits anything, comes last.
    left = sorted(arguments, key=lambda one: one.kind == "voidptr")
    for one in sorted(needed, key=lambda one: _array(one) is None):
        found = next((arg for arg in left if _can_be(arg, one)), None)
        if found is None:
            raise SignatureError(
                f"{said}, and no argument is left for {_name(one)!r} ({one.partition(' : ')[2]})",
                hint=_UNCHECKED,
            )
        left.remove(found)


def _can_be(ctype: CType, listed: str) -> bool:
    """Return whether an argument fits f2py's description; an unknown description fits all."""
    if ctype.kind == "voidptr":
        return True
    array = _array(listed)
    if isinstance(ctype, Pointer):
        ctype = element_of(ctype)
    elif array is not None and "rank-0" not in listed:
        return False
    if array is not None:
        found = SCALARS.get(array)
        return found is None or (ctype.kind, ctype.size) == (found.kind, found.size)
    number = _NUMBER.search(listed) or re.search(r" : (float|int|long|complex)\b", listed)
    if number is None:
        return True
    wanted = {"float": ("float",), "complex": ("complex",)}.get(number[1], ("int", "bool"))
    return ctype.kind in wanted
