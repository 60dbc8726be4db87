"""Match buffer formats (PEP 3118) against C types.

Guarantee: a format matches a struct only if every member has the same type and offset, in native
byte order. The same applies to nested structs and arrays. Ambiguous formats match nothing. Names
may differ, since they are not part of a C type. If both sides have the same names in different
orders, the format does not match, since members could be swapped.

Only this file parses `T{…}` formats. The core parses formats of plain scalars
(csrc/values/buffers.c).
"""

from __future__ import annotations

import sys
from collections import namedtuple

from .._fifo import Cache
from .agreement import Agreement, agreement
from .ctype import MAX_DEPTH, SCALARS, VOIDPTR, CType
from .derived import Array, Pointer, Struct

_ORDERS = "@^=<>!"
_FOREIGN = ">!" if sys.byteorder == "little" else "<"
_SUITING = (Agreement.OPAQUE, Agreement.BYTES, Agreement.SAME)
_MAX_DIGITS = 18
_answers: Cache[tuple[str, int, str], bool] = Cache(1024)


def suits(ctype: CType, format: str, itemsize: int) -> bool:
    """Return whether buffer elements have the type `ctype`, a struct, pointer or scalar.

    Examples
    --------
    >>> from nativecall._cdecl.spelling import parse_type
    >>> suits(parse_type("T{dq}"), "T{d:x:q:n:}", 16), suits(parse_type("T{dq}"), "T{>d>q}", 16)
    (True, False)
    """
    key = (format, itemsize, ctype.named)
    known = _answers.get(key)
    if known is None:
        try:
            known = itemsize == ctype.size and _same(_Reader(format).whole(), ctype)
        except _Unreadable:
            known = False
        _answers.keep(key, known)
    return known


def is_swapped(format: str) -> bool:
    """Return whether a format contains a non-native byte order.

    Examples
    --------
    >>> is_swapped("T{@d:>:d:y:}"), is_swapped("=d")
    (False, False)
    """
    # Skip the names, which stand between colons and may contain these characters.
    return any([order in part for part in format.split(":")[::2] for order in _FOREIGN])


class _Unreadable(Exception):
    """Raised for a format that is ambiguous or has no equivalent in C."""


#: A parsed format. A struct has members and no type; a scalar or pointer has a type.
_Layout = namedtuple("_Layout", ["type", "size", "alignment", "members"], defaults=[()])
#: A member: its offset, its shape if it is an array, its layout, and its name if any.
_Member = namedtuple("_Member", ["offset", "shape", "layout", "name"])


class _Reader:
    """Parser of one format."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.order = "@"

    def whole(self) -> _Layout:
        shape, layout = self.item(0)
        if shape or layout is None or self.at != len(self.source):
            raise _Unreadable
        return layout

    def next(self) -> str:
        if self.at >= len(self.source):
            raise _Unreadable
        self.at += 1
        return self.source[self.at - 1]

    def until(self, end: str) -> str:
        stop = self.source.find(end, self.at)
        if stop < 0:
            raise _Unreadable
        text = self.source[self.at : stop]
        self.at = stop + 1
        return text

    def item(self, depth: int) -> tuple[tuple[int, ...], _Layout | None]:
        """Return the shape and layout of the next item; the layout of padding is None."""
        if depth > MAX_DEPTH:
            raise _Unreadable
        shape: tuple[int, ...] = ()
        code = self.next()
        while True:
            if code in _ORDERS:
                self.order = code
            elif code == "(":
                shape += tuple(_number(one) for one in self.until(")").split(","))
            elif code in "0123456789":
                start = self.at - 1
                while self.source[self.at : self.at + 1] in tuple("0123456789"):
                    self.at += 1
                shape += (_number(self.source[start : self.at]),)
            else:
                break
            code = self.next()
        if code == "x":
            return shape or (1,), None
        if code == "T":
            return shape, self.struct(depth)
        if code == "s":
            return shape or (1,), self.scalar("c")
        return shape, self.pointer(code, depth) or self.scalar(code)

    def pointer(self, code: str, depth: int) -> _Layout | None:
        found: CType = VOIDPTR
        if code == "&":
            order = self.order
            shape, layout = self.item(depth + 1)
            self.order = order
            if layout is not None and layout.type is not None and not shape:
                found = Pointer(layout.type)
        elif code == "X":
            if self.next() != "{":
                raise _Unreadable
            self.until("}")
        elif code == "z":
            found = Pointer(SCALARS["c"])
        elif code != "P" and not (
            code == "Z" and code + self.source[self.at : self.at + 1] not in SCALARS
        ):
            return None
        if self.order in _FOREIGN:
            raise _Unreadable
        return _Layout(found, found.size, found.alignment)

    def scalar(self, code: str) -> _Layout:
        if code == "Z":
            code += self.next()
        found = SCALARS.get(code)
        if found is None:
            raise _Unreadable
        if self.order not in "@^":
            # Other order codes select the standard sizes of the struct module.
            found = {"l": SCALARS["i"], "L": SCALARS["I"]}.get(code, found)
        if self.order in _FOREIGN and found.size > 1:
            raise _Unreadable
        return _Layout(found, found.size, found.alignment)

    def struct(self, depth: int) -> _Layout:
        if self.next() != "{":
            raise _Unreadable
        members = []
        offset, alignment = 0, 1
        while self.source[self.at : self.at + 1] != "}":
            shape, layout = self.item(depth + 1)
            count = 1
            for length in shape:
                count *= length
            if layout is None:
                offset += count
            else:
                if self.order == "@":
                    offset += -offset % layout.alignment
                    alignment = max(alignment, layout.alignment)
                # Ambiguous: some exporters omit the trailing padding of structs.
                if layout.members and shape and layout.size % layout.alignment:
                    raise _Unreadable
                at, offset = offset, offset + count * layout.size
            name = None
            if self.source[self.at : self.at + 1] == ":":
                self.at += 1
                name = self.until(":")
            if layout is not None:
                members.append(_Member(at, shape, layout, name))
        self.at += 1
        return _Layout(None, offset, alignment, tuple(members))


def _number(text: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit()) or len(text) > _MAX_DIGITS:
        raise _Unreadable
    return int(text)


def _same(layout: _Layout, ctype: CType) -> bool:
    if isinstance(ctype, Struct):
        return (
            ctype.is_plain
            and len(layout.members) == len(ctype.fields)
            and not _mixed_up([one.name for one in layout.members], [*ctype.field_names])
            and all(
                [
                    member.offset == field.offset and _same_member(member, field.type)
                    for member, field in zip(layout.members, ctype.fields, strict=True)
                ]
            )
        )
    if layout.type is None or ctype.kind == "object":
        return False
    return agreement(layout.type, ctype, memory=True) in _SUITING


def _mixed_up(given: list[str | None], names: list[str]) -> bool:
    """Return whether members have the names of a struct's fields in a different order."""
    return given != names and set(given) == set(names)


def _same_member(member: _Member, ctype: CType) -> bool:
    if not isinstance(ctype, Array):
        return member.shape in ((), (1,)) and _same(member.layout, ctype)
    inner = ctype.item
    if isinstance(inner, Struct) and member.layout.size != inner.size:
        return False
    return member.shape == ctype.shape and _same(member.layout, inner)
