"""Parse C++ function types as mangled by the Itanium C++ ABI, which GCC and Clang follow.

`read("PFddE")` returns the signature of ``double (*)(double)``. In C++, ``typeid(f).name()``
returns such a text. Arguments and results may be C scalars, std::complex of float or double, and
pointers or references to these. Pointers to classes are opaque. All other types raise
SignatureError.
"""

from __future__ import annotations

import re

from .._cdecl.spelling import parse
from .._errors import SignatureError
from .._rows import NamedTuple
from .._types.signature import Signature

#: Type letters of the ABI, and the codes of nativecall's signatures for them.
_SCALARS = dict(zip("vbcahstijlmxyfde", "v?cbBhHiIlLqQfdg", strict=True))
_COMPLEX = "St7complexI"


class _Type(NamedTuple):
    """A type: its code, whether it is const, and its name if it is a class.

    C cannot pass a class, so a class has an empty code, and errors show its name.
    """

    code: str
    const: bool = False
    name: str = ""


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.known: list[_Type] = []  # the types to which S_, S0_, S1_ … refer

    def error(self, why: str) -> SignatureError:
        return SignatureError(f"the C++ type {self.text!r} {why}")

    def accept(self, word: str) -> bool:
        found = self.text.startswith(word, self.at)
        self.at += len(word) * found
        return found

    def kept(self, made: _Type) -> _Type:
        self.known.append(made)
        return made

    def type(self) -> _Type:
        for letter in "PRO":
            if self.accept(letter):
                return self.kept(self.pointer(self.type()))
        for letter in "rVK":
            if self.accept(letter):
                inner = self.type()
                return self.kept(_Type(inner.code, inner.const or letter == "K", inner.name))
        self.accept("Do")  # noexcept
        if self.accept("F"):
            result, args = self.function()
            return self.kept(_Type(f"X{{{result.code}:{''.join([one.code for one in args])}}}"))
        if self.accept(_COMPLEX):
            self.known.append(_Type("", name="std::complex"))
            item = self.type()
            if item.code not in ("f", "d") or not self.accept("E"):
                raise self.error("has a complex type that C passes differently")
            return self.kept(_Type("Z" + item.code))
        if self.accept("S"):
            digits = self.matched("[0-9A-Z]*_")
            if digits is None:
                raise self.error("has a C++ standard library type, which C does not have")
            index = int(digits[:-1], 36) + 1 if digits != "_" else 0
            if index >= len(self.known):
                raise self.error("cannot be read")
            return self.known[index]
        code = _SCALARS.get(self.text[self.at : self.at + 1])
        if code is not None:
            self.at += 1
            return _Type(code)
        digits = self.matched("[0-9]*")
        name = self.text[self.at : self.at + int(digits or 0)]
        if not name:
            raise self.error("has a part that cannot be read")
        self.at += len(name)
        return self.kept(_Type("", name=name))

    def pointer(self, inner: _Type) -> _Type:
        if inner.code in ("", "v"):  # a class or void
            return _Type("P", inner.const)
        is_function = inner.code.startswith("X{")
        return _Type(inner.code if is_function else f"&{inner.code}", inner.const)

    def matched(self, pattern: str) -> str | None:
        """Return the text that matches a pattern here, and skip it; None without a match."""
        found = re.compile(pattern).match(self.text, self.at)
        self.at = self.at if found is None else found.end()
        return None if found is None else found[0]

    def function(self) -> tuple[_Type, list[_Type]]:
        self.accept("Y")
        found = [self.type()]
        while not self.accept("E"):
            if self.accept("z"):
                raise self.error("takes any number of arguments")
            if self.at >= len(self.text):
                raise self.error("cannot be read")
            found.append(self.type())
        result, args = found[0], found[1:]
        if len(args) == 1 and args[0].code == "v":
            args = []
        for one in found:
            if one.name:
                raise self.error(f"passes {one.name!r} by value, which is a class or an enum")
        return result, args


def read(name: str) -> Signature:
    """Return the signature for the mangled type of a function pointer.

    Raises
    ------
    SignatureError
        If `name` is not a function pointer type, or C code cannot call such functions.
    """
    parser = _Parser(name)
    if not parser.accept("PF") and not parser.accept("PDoF"):
        raise parser.error("is not a pointer to a function")
    result, args = parser.function()
    if parser.at != len(name):
        raise parser.error("cannot be read")
    text = f"{result.code}:{''.join([one.code for one in args])}"
    made = parse(text, hint="native")
    readonly = [one.const and one.code[:1] in ("&", "P") for one in args]
    return Signature(made.result, made.args, readonly=readonly)
