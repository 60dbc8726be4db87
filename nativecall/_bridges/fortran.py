"""f2py: Fortran functions, wrapped in objects whose type is named ``fortran``.

Such an object holds the address of a procedure that takes every argument by reference. This is the
procedure itself, which may return a result, or an f2py subroutine that calls a function and writes
its result through the first argument.

The object's docstrings name the arguments but not their kinds: `float` is both real(4) and real(8).
They reorder optional arguments, and never give the kind of the result. So the caller writes the
signature: with scalars by value, as the function is declared (``"d:d"``), which is converted to a C
function; or as the pointer takes it (``"v:&d&d"``).

Signatures are checked against the docstrings: the required arguments, the maximum number of
arguments, and the kind of the first argument, which f2py names when it rejects an object. SciPy's
BLAS and LAPACK need no signature, because SciPy's Cython modules declare them (scipy.py).
"""

from __future__ import annotations

import re

from .. import _lib
from .._callable.thunk import by_plan
from .._errors import SignatureError
from .._plan import nodes
from .._types.ctype import SCALARS, VOID, is_native
from .._types.derived import Array, FunctionPointer, Pointer
from .._types.derived import pointer as pointer_to
from .._types.signature import Signature
from .._values import foreign
from .._values.failure import CONVENTIONS
from .._values.foreign import Function, Passing
from .._values.fortran import lengths, texts, with_wide_lengths

TYPE_CHECKING = False
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
_WRAPPER = "f2pywrap"  # begins the names of subroutines that call functions
_PLAIN = "function "  # begins the names of objects, but of those that have such a subroutine
_BY_VALUE = ("void", "bool", "int", "float", "complex")  # kinds that have a form by value


def _address(obj: Foreign) -> int:
    """Where a function of Fortran is; 0 for an object that is none."""
    pointer = getattr(obj, "_cpointer", None)
    if type(obj).__name__ != "fortran" or type(pointer).__name__ != "PyCapsule":
        return 0
    from .PyCapsule import address

    return address(pointer, None)


class _Told:
    """What the texts of a function say."""

    def __init__(self, obj: Foreign) -> None:
        text = obj.__doc__ if isinstance(obj.__doc__, str) else ""
        text = text.replace("``", "")  # some versions quote what is code
        self.usage = text.partition("\n")[0]
        self.listed = _section(text, "Parameters")
        # What is for f2py alone is no argument of the procedure.
        self.others = [
            one
            for one in _section(text, "Other Parameters")
            if not one.startswith("overwrite_") and " : input tuple" not in one
        ]
        # Of those that have the memory of an argument, this is told already.
        returned = [one for one in _section(text, "Returns") if not one.endswith(" storage")]
        known = {_name(one) for one in (*self.listed, *self.others)}
        self.returned = [one for one in returned if _name(one) not in known]
        # With optional arguments the order is not that of Fortran; with texts there are lengths.
        self.is_whole = "[" not in self.usage and "string(" not in text
        self.result = self.usage.partition(" = ")[0] if " = " in self.usage else ""
        shapes = " ".join(re.findall(r"with bounds \((.*)\)", text))
        # What f2py's subroutines take of arrays of assumed shape.
        self.assumed = {*re.findall(r"\bf2py_\w+_d\d+\b", shapes)}
        # There may be arguments that are not told: lengths of arrays without a name here, or what
        # f2py was told to do otherwise than by itself.
        known.update(self.assumed, map(_name, self.returned))
        by_itself = re.compile(r"shape\(\w+, ?\d+\)|len\(\w+\)")
        defaults = re.findall(r"^    Default:? (.*)", text, re.MULTILINE)
        self.has_hidden = not all(map(by_itself.fullmatch, defaults))
        self.has_hidden |= not known.issuperset(re.findall(r"[A-Za-z]\w*", shapes))
        everything = (*self.listed, *self.others, *self.returned)
        self.texts = len([one for one in everything if _TEXT.search(one)])

    def kind(self, obj: Foreign) -> tuple[int, str] | None:
        """The position of an argument and its code, as f2py says when it refuses objects."""
        numbers = [bool(_NUMBER.search(one)) for one in self.listed]
        if not self.is_whole or not any(numbers):
            return None
        # No object is a number: the procedure is not called, whatever else is taken.
        try:
            obj(*[object() for _ in self.listed])
        except Exception as error:  # the module's own class: its text says the argument
            found = _REFUSED.search(str(error))
            if found is None or found[2] not in _KINDS:
                return None
            for index, line in enumerate(self.listed):
                if _name(line) == found[1]:
                    return index, _KINDS[found[2]]
        return None


def _section(text: str, title: str) -> list[str]:
    """The arguments under a heading, each with what it is."""
    listed = f"\n{text}".partition(f"\n{title}\n{'-' * len(title)}\n")[2].partition("\n\n")[0]
    return [line for line in listed.split("\n") if re.match(r"\w+ : ", line)]


def _name(listed: str) -> str:
    return listed.partition(" : ")[0]


def reason(obj: Foreign) -> str | None:
    """What is told, and how to say the rest."""
    if type(obj).__name__ != "fortran":
        return None
    if not _address(obj):
        return "a fortran object without '_cpointer' is a module or common block of Fortran's"
    told = _Told(obj)
    return (
        f"'signature' must be given: f2py does not tell the kinds of numbers, only {told.usage!r} "
        f"({'; '.join(told.listed)}). Write what is passed, all by reference and in the order of "
        "the procedure, as in 'v:&d&d'; or, of a function, scalars by value: 'd:d'"
    )


def _array(listed: str) -> str | None:
    """The code of an array's elements."""
    array = re.search(r"array\('(\w)'\)", listed)
    return None if array is None else {"F": "Zf", "D": "Zd"}.get(array[1], array[1])


def signatures(obj: Foreign) -> list[Signature] | None:
    """What SciPy's procedures of BLAS and LAPACK take, by reference; None for all others."""
    known = foreign.bridge("scipy").of_fortran(obj, _named(obj)) if _address(obj) else None
    return None if known is None else [known]


def _named(obj: Foreign) -> str:
    return str(obj.__name__).rpartition(" ")[2]


def instance(obj: Foreign, signature: Signature, errors: str) -> Function | None:
    """The function for a signature: the pointer as it is, or one that passes scalars by reference.

    Raises
    ------
    SignatureError
        When the function is of another kind, or what calls it cannot be made.
    """
    address = _address(obj)
    if not address:
        return None
    name = _named(obj)
    known: Signature | None = foreign.bridge("scipy").of_fortran(obj, name)
    follow = 0
    if known is None and (count := _Told(obj).texts):
        if texts(signature) != count:
            raise SignatureError(
                f"'signature' is {signature.text!r}, where {texts(signature)} arguments can be "
                f"texts, but f2py tells of {count} in {_Told(obj).usage!r}",
                hint="write '&b' for each of these, for their lengths follow, and 'P' for arrays "
                f"of int8; {_UNCHECKED}",
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
            f"whether {name!r} returns its result or writes it cannot be told: its address has no "
            "symbol"
        )
    if not any(values) and not (is_wrapper and returns):
        return Function(address, signature, obj, name)
    passed = [one for one, by_value in zip(signature.args, values, strict=True) if by_value]
    for one in (signature.result, *passed):
        if one.kind not in _BY_VALUE or not is_native(one):
            raise _not_made(f"what passes a {one.text!r} of {name!r} by reference cannot be made")
    plan = _by_reference(signature, values, bool(is_wrapper) and returns)
    made = by_plan(address, plan, name, obj)
    return Function(made.address(), signature, Passing(obj, made), name)


def _by_reference(signature: Signature, values: Sequence[bool], written: bool) -> nodes.Plan:
    """How a procedure is called that takes an argument by reference where that is one of `values`,
    and writes the result, if that is `written`, to where its first argument points.
    """
    args = [
        pointer_to(one) if by_value else one
        for one, by_value in zip(signature.args, values, strict=True)
    ]
    given = [nodes.Argument(index, one) for index, one in enumerate(signature.args)]
    arguments: list[nodes.Node] = [
        nodes.Memory((one,), one.type) if by_value else one
        for one, by_value in zip(given, values, strict=True)
    ]
    result = signature.result
    answer: nodes.Node | None = nodes.Result(result) if result.kind != "void" else None
    if written:
        # With room for any number: of a wider one than was said the frame is not overwritten.
        arguments.insert(0, nodes.OutSlot(SCALARS["Zg"]))
        args.insert(0, pointer_to(result))
        result, answer = VOID, nodes.OutValue(result)
    none = CONVENTIONS["none"]
    inner = Signature(result, args)
    return nodes.Plan(signature, inner, tuple(arguments), answer, none, none, 0)


def _not_made(reason: str) -> SignatureError:
    return SignatureError(
        reason, hint="write the signature as the pointer has it, everything by reference"
    )


def _points_to(known: Signature, result: CType) -> bool:
    """Whether a procedure without a result writes such a one to where its first argument points."""
    first = known.args[0]
    is_one = isinstance(first, Pointer) and result.kind == "complex"
    return known.result.kind == "void" and is_one and first.text == f"&{result.text}"


def _is_wrapper(obj: Foreign, address: int) -> bool | None:
    """Whether a function's result is what its first argument points to, as in f2py's subroutines
    that call functions; None where nothing tells.

    A symbol tells by its name. Without one, f2py has named the object again if it has such a
    subroutine, but not the procedures of a module of Fortran's.
    """
    found = _lib.address_origin(address)
    if found is not None and found[1]:
        return found[1].startswith(_WRAPPER)
    if not str(obj.__name__).startswith(_PLAIN):
        # Such a subroutine there is for assumed shapes, too, whose lengths are called so.
        return None if _Told(obj).assumed else True
    try:
        obj(**{"": None})  # which no procedure takes
    except TypeError as error:
        path = str(error).partition("()")[0].rpartition(" ")[2]
        return False if path.count(".") == 1 else None
    except Exception:  # the module's own
        return None
    return None


# -- what contradicts a signature ------------------------------------------------------------------

_UNCHECKED = "nativecall.wrap(f._cpointer, signature, owner=f) takes the pointer without a check"


def _refuse_unlike(signature: Signature, known: Signature) -> None:
    """Refuse a signature that is not the known one, with scalars by reference or by value."""
    args = signature.args
    if len(lengths(signature)) == len(args) - len(known.args):
        args = args[: len(known.args)]  # what follows are the lengths of texts
    pairs = zip(args, known.args, strict=False)
    same = len(args) == len(known.args) and signature.result.text == known.result.text
    if same and all([_is_like(one, other) for one, other in pairs]):
        return
    raise SignatureError(
        f"'signature' is {signature.text!r}, but the target is {known.text!r}",
        hint="leave 'signature' out to take that; scalars may be written by value, 'i' for '&i'",
    )


def _is_like(given: CType, known: CType) -> bool:
    """Whether an argument is passed as the known one, or is the value that it points to."""
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
    """Refuse a signature that is not that of what the texts describe."""
    told = _Told(obj)
    arguments = list(signature.args)
    returned = told.returned
    hidden = told.has_hidden
    said = f"'signature' is {signature.text!r}, but f2py says {told.usage!r}"
    if told.assumed and is_wrapper is False:
        raise SignatureError(f"{said}, whose arrays of assumed shape no signature has")
    if signature.result.kind != "void":
        # f2py writes a subroutine for each function, unless it is told otherwise.
        is_function = bool(returned) and (is_wrapper is not False or hidden)
        if not is_function or not _can_be(signature.result, returned[0]):
            raise SignatureError(f"{said}, which returns no such value", hint=_UNCHECKED)
        returned = returned[1:]
    elif is_wrapper and told.result and "," not in told.result:
        arguments, returned = arguments[1:], returned[1:]
    needed = [*told.listed, *returned, *(() if hidden else told.others)]
    least = len(needed) + len(told.assumed)
    most = least + told.texts
    if len(arguments) < least or (len(arguments) > most and not hidden):
        some = "at least " if hidden else ""
        count = str(least) if least == most or some else f"{least} to {most}"
        raise SignatureError(
            f"{said}, of {some}{count} argument{'' if count == '1' else 's'}", hint=_UNCHECKED
        )
    kind = told.kind(obj) if len(arguments) == len(told.listed) else None
    if kind is not None:
        index, code = kind
        if arguments[index].text.removeprefix("&") not in (code, "P"):
            raise SignatureError(
                f"'signature' is {signature.text!r}, but {_name(told.listed[index])!r} of "
                f"f2py's {told.usage!r} is {code!r}"
            )
    missing = _missing(needed, arguments)
    if missing is not None:
        raise SignatureError(
            f"{said}, and no argument is left for {_name(missing)!r} "
            f"({missing.partition(' : ')[2]})",
            hint=_UNCHECKED,
        )


def _missing(needed: Sequence[str], arguments: Sequence[CType]) -> str | None:
    """The first of the needed arguments that none of a signature can be, each for one; or None."""
    # What few can be comes first, and what can be all comes last.
    left = sorted(arguments, key=lambda one: one.kind == "voidptr")
    for one in sorted(needed, key=lambda one: _array(one) is None):
        found = next((arg for arg in left if _can_be(arg, one)), None)
        if found is None:
            return one
        left.remove(found)
    return None


def _can_be(ctype: CType, listed: str) -> bool:
    """Whether an argument can be what f2py says, by its kind; what it does not say can be all."""
    if ctype.kind == "voidptr":
        return True
    array = _array(listed)
    if isinstance(ctype, Pointer):
        inner = ctype.pointee
        ctype = inner.item if isinstance(inner, Array) else inner
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
