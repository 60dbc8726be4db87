"""f2py: functions of Fortran, as objects whose type is called ``fortran``.

Such an object has the address of the procedure, which takes everything by reference, and texts.
These name the arguments, without the kinds of numbers (`float` is real(4) as well as real(8)), and
in another order where some are optional; no result's kind is told anywhere. So the caller writes
the signature: with scalars by value, as the function is declared (``"d:d"``), of which a C function
is made, or as the pointer has it (``"v:&d&d"``). What is told contradicts a wrong one: how many
arguments there are, and the kind of the first, which f2py names when it refuses an object.
"""

from __future__ import annotations

import hashlib
import re

from .. import _lib
from .._codegen import engine
from .._errors import SignatureError
from .._signature.signature import Signature
from .._values.boxes import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._signature.ctype import CType
    from .._types import Foreign

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
_WRAPPER = "f2pywrap"  # begins the names of subroutines that call functions
_EXPORT = "nc_by_value"
_CALLED = "nc_procedure"
_LLVM = {"d": "double", "f": "float", "b": "i8", "h": "i16", "i": "i32", "q": "i64"}


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
        self.usage = text.partition("\n")[0]
        listed = text.partition("Parameters\n----------\n")[2].partition("\n\n")[0]
        self.listed = [line for line in listed.split("\n") if re.match(r"\w+ : ", line)]
        # With optional arguments the order is not that of Fortran; with texts there are lengths.
        self.is_whole = "[" not in self.usage and "string(" not in text
        self.result = self.usage.partition(" = ")[0] if " = " in self.usage else ""

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
                if line.partition(" : ")[0] == found[1]:
                    return index, _KINDS[found[2]]
        return None


def reason(obj: Foreign) -> str | None:
    """What is told, and how to say the rest."""
    if type(obj).__name__ != "fortran":
        return None
    if not _address(obj):
        return "a fortran object without '_cpointer' is a module or common block of Fortran's"
    return _how_to_say(_Told(obj), _is_wrapper(_address(obj)))


def _how_to_say(told: _Told, is_wrapper: bool | None) -> str:
    """That a signature is needed, what f2py tells of it, and the two ways to write it."""
    codes = [_guess(one) for one in told.listed]
    known = told.is_whole and bool(codes) and None not in codes
    if known and told.result and "," not in told.result and is_wrapper:
        codes.insert(0, "&d")  # where the result is written
    pointer = f"'v:{''.join(map(str, codes))}'" if known else "as in 'v:&d&d'"
    where = " if float is real(8)" if known else ", in the order that the procedure has"
    return (
        f"'signature' must be given: f2py does not tell the kinds of numbers, only "
        f"{told.usage!r} ({'; '.join(told.listed)}). Write what is passed, all by reference: "
        f"{pointer}{where}; or, of a function, scalars by value: 'd:d'"
    )


def _guess(listed: str) -> str | None:
    """The code of an argument by what f2py says of it, where `float` is real(8)."""
    number = _NUMBER.search(listed)
    if number is not None:
        return {"float": "&d", "complex": "&Zd"}.get(number[1], "&i")
    array = re.search(r"array\('(\w)'\)", listed)
    code = None if array is None else {"F": "Zf", "D": "Zd"}.get(array[1], array[1])
    return None if code is None else f"&{code}"


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
    told = _Told(obj)
    values = [not _is_reference(one) for one in signature.args]
    by_value = any(values) or signature.result.kind != "void"
    name = str(obj.__name__).rpartition(" ")[2]
    is_wrapper = _is_wrapper(address)
    has_result = bool(told.result) and "," not in told.result and is_wrapper is True
    arguments = list(signature.args)
    if not by_value and has_result:
        arguments = arguments[1:]
    _refuse_other(obj, told, signature, arguments, has_result)
    if not by_value:
        return Function(address, signature, obj, name)
    if is_wrapper is None and signature.result.kind != "void":
        raise SignatureError(
            f"whether {name!r} returns its result or writes it cannot be told: its address has no "
            "symbol",
            hint="write the signature as the pointer has it, everything by reference",
        )
    if not any(values) and not is_wrapper:
        return Function(address, signature, obj, name)
    text = _text(name, signature, bool(is_wrapper) and signature.result.kind != "void")
    if not engine.available():
        raise SignatureError(
            f"what passes the scalars of {name!r} by reference is code: {engine.reason()}",
            hint="write the signature as the pointer has it, everything by reference",
        )
    key = f"f2py {hashlib.sha256(text.encode()).hexdigest()}"
    code = engine.compile(key, lambda: text, {_CALLED: address}, (_EXPORT,))
    return Function(code.address(_EXPORT), signature, (code, obj), name)


def _is_reference(ctype: CType) -> bool:
    return ctype.kind in ("pointer", "voidptr", "function")


def _is_wrapper(address: int) -> bool | None:
    """Whether a function's result is what its first argument points to, as in f2py's subroutines
    that call functions; None where the address has no name.
    """
    found = _lib.address_origin(address)
    return None if found is None or not found[1] else found[1].startswith(_WRAPPER)


def _refuse_other(
    obj: Foreign, told: _Told, signature: Signature, arguments: list[CType], has_result: bool
) -> None:
    """Refuse a signature that is not that of what the texts describe."""
    if not told.is_whole or not has_result:
        return
    if len(arguments) != len(told.listed):
        raise SignatureError(
            f"'signature' is {signature.text!r}, but f2py says {told.usage!r}, of "
            f"{len(told.listed)} argument{'' if len(told.listed) == 1 else 's'}"
        )
    kind = told.kind(obj)
    if kind is None:
        return
    index, code = kind
    given = arguments[index].text.removeprefix("&")
    if given not in (code, "P"):
        raise SignatureError(
            f"'signature' is {signature.text!r}, but {told.listed[index].partition(' ')[0]!r} of "
            f"f2py's {told.usage!r} is {code!r}"
        )


def _text(name: str, signature: Signature, written: bool) -> str:
    """LLVM IR of a function that passes scalars by reference; the result may be `written`, too."""
    result = _llvm(name, signature.result) if signature.result.kind != "void" else "void"
    head, body, passed = [], [], []
    if written:
        body.append(f"%result = alloca {result}")
        passed.append("ptr %result")
    for index, one in enumerate(signature.args):
        if _is_reference(one):
            head.append(f"ptr %a{index}")
            passed.append(f"ptr %a{index}")
            continue
        kind = _llvm(name, one)
        head.append(f"{kind} %a{index}")
        body += [f"%p{index} = alloca {kind}", f"store {kind} %a{index}, ptr %p{index}"]
        passed.append(f"ptr %p{index}")
    returned = "void" if written else result
    call = f"call {returned} @{_CALLED}({', '.join(passed)})"
    if written:
        body += [call, f"%value = load {result}, ptr %result", f"ret {result} %value"]
    elif result == "void":
        body += [call, "ret void"]
    else:
        body += [f"%value = {call}", f"ret {result} %value"]
    types = ", ".join(["ptr"] * len(passed))
    return (
        f"declare {returned} @{_CALLED}({types})\n"
        f"define {result} @{_EXPORT}({', '.join(head)}) {{\n  " + "\n  ".join(body) + "\n}\n"
    )


def _llvm(name: str, ctype: CType) -> str:
    found = _LLVM.get(ctype.text)
    if found is None:
        raise SignatureError(
            f"what passes a {ctype.text!r} of {name!r} by reference cannot be made",
            hint="write the signature as the pointer has it, everything by reference",
        )
    return found
