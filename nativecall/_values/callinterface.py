"""Call interfaces: the parts of a signature that trampolines and the core's conversions read.

A call interface describes the arguments that Python passes. The core creates call interfaces and
caches the results of this module in them (csrc/layout.h). Callables share a call interface if they
agree in types, argument names, read-only promises, policies (calloptions.py) and hidden arguments.
The error convention adds hidden arguments, which Python does not pass.
"""

from __future__ import annotations

from sys import intern

from .. import _ext, _lib
from .._errors import TYPE_CHECKING, refuse_reload
from .._fifo import Cache
from .._types.ctype import SCALARS, VOID, CType, Scalar
from .._types.derived import Array, Handle, Pointer, Record, Struct, View
from .._types.grammar import from_row
from .._types.signature import BYTES, Signature
from .calloptions import DEFAULT
from .failure import CONVENTIONS
from .outparameters import kind_of, offsets, pointee, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._ext import CallInterface
    from .._types.grammar import Row
    from .calloptions import Check, Policies

refuse_reload(globals(), "of_text")

_HIDDEN = {one.flags: one.hidden for one in CONVENTIONS.values()}
# Element types of buffers that the core checks itself. Structs in views, and elements that hold
# pointers, are checked in Python.
_ITEMS = {one.letter for one in SCALARS.values()}
_POINTEES = {*_ITEMS, "T", "v"}
#: The core's letters for the characters of text (csrc/values/text.h).
_TEXT = {"char": "c", "wchar_t": "w", "char16_t": "u", "char32_t": "U", **dict.fromkeys(BYTES, "c")}
_LETTERS = {
    **dict.fromkeys(("voidptr", "pointer", "function"), "P"),
    **dict.fromkeys(("struct", "union", "record"), "T"),
    "void": "v",
    "view": "V",
    "array": "a",  # out-parameters only, which have no trampoline
    "object": "O",
}


def letter(ctype: CType) -> str:
    """Return the core's letter for a type; except for scalars, the kind determines the letter."""
    if isinstance(ctype, Scalar):
        return ctype.letter
    return _LETTERS[ctype.kind]


_made: Cache[object, CallInterface] = Cache(4096)


def of(signature: Signature, flags: int = 0, policies: Policies = DEFAULT) -> CallInterface:
    """Return the call interface of an entry, usually a shared one.

    Call interfaces with a user's `check` are not shared.
    """
    return _of(signature, _HIDDEN[flags & _lib.ERRORS_MASK], policies)


def _of(signature: Signature, hidden: int, policies: Policies) -> CallInterface:
    if policies.check is not None:
        # The user's check may be unhashable, and the cache must not keep it alive.
        return _ext.callinterface(signature, hidden, policies)
    said = signature.names, signature.readonly, signature.characters, signature.lengths
    key = signature.function.named, *said, written(signature.written), hidden, policies
    return _made.get(key) or _made.keep(key, _ext.callinterface(signature, hidden, policies))


def written(text: str) -> str:
    """Return a C signature as written but without the name, for messages; ``""`` for codes."""
    if ":" in text:
        return ""
    before, _, behind = text.partition("(")
    before = before.rstrip()
    end = len(before)
    while end and (before[end - 1].isalnum() or before[end - 1] == "_"):
        end -= 1  # the name
    return f"{before[:end]}({behind}"


def text_lengths(signature: Signature, policies: Policies) -> tuple[int, ...]:
    """Return the indices of text arguments with hidden lengths, which C takes last."""
    if not policies.fortran:
        return ()
    from .fortran import lengths

    return lengths(signature)


def of_text(signature: str | Signature) -> CallInterface:
    """Return the call interface of a signature in any spelling; the core caches it by text."""
    from .._cdecl.spelling import parse

    return of(parse(signature))


def of_row(row: Row) -> CallInterface:
    """Return the call interface of a signature stored as plain data."""
    known = _made.get((f"X{{{row[0]}}}", *row[1:-1], written(row[-1]), _HIDDEN[0], DEFAULT))
    return known or of(from_row(row))


def described(signature: Signature, hidden: int, policies: Policies) -> tuple[object, ...]:
    """Return the parts of a call interface. The core trusts the sizes and offsets in them."""
    if type(signature) is not Signature:
        raise TypeError(f"a call interface needs a Signature (got {type(signature).__name__})")
    texts = text_lengths(signature, policies)
    passed = visible(signature, hidden + len(texts), policies.out)
    names = tuple([one and intern(one) for one in [signature.names[at] for at, _ in passed]])
    # _callable/arguments.py reads the text types inside function-pointer arguments.
    said = signature.characters or ("",) * (len(signature.args) + 1)
    text = [_TEXT.get(text_of(one, policies), "") for one in said]
    if said[-1] in BYTES and _checks(policies.check)[1] is not None:
        text[-1] = ""  # a result to be freed stays a pointer
    return (
        signature,
        signature.text,
        letter(signature.result),
        (*[ctype for _, ctype in passed], signature.result),
        tuple([_described(one, signature.readonly[index], text[index]) for index, one in passed]),
        names if any(names) else None,
        signature.variadic,
        policies,
        policies.order,
        bool(policies.steps),
        _keep(policies.keep, passed),
        text[-1],
        policies.encoding,
        (2 if texts else 1) if policies.fortran else 0,
        _outs(signature, policies, passed),
        *_checks(policies.check),
        None if policies.check is None else _of(signature, hidden, policies._replace(check=None)),
    )


def text_of(said: str, policies: Policies) -> str:
    """Return the character type `said`; ``""`` for a byte type without an encoding."""
    return "" if said in BYTES and policies.encoding is None else said


#: How long C keeps functions (csrc/call/kept.h). `_KEEP_ARGUMENT` + n means as long as argument n
#: lives.
_KEEP = {"call": 0, "process": 1, "library": 2}
_KEEP_ARGUMENT = 3


def _keep(keep: str | int, passed: Sequence[tuple[int, CType]]) -> int:
    if isinstance(keep, str):
        return _KEEP[keep]
    return _KEEP_ARGUMENT + [index for index, _ in passed].index(keep)


def _checks(check: Check | None) -> tuple[object, ...]:
    """Return `handles.parts` of a check, or its defaults for None."""
    if check is None:
        return None, None, None, -1
    from .handles import parts

    return parts(check)


def _outs(
    signature: Signature, policies: Policies, passed: Sequence[tuple[int, CType]]
) -> tuple[tuple[object, ...], ...]:
    """Return a row for each out-parameter; -1 stands for a missing length or argument.

    The items of a row, in order: letter, offset, type, and letter of text of the out-parameter; the
    kind of its memory; its length; the arguments that pass its length and its initial value; and
    the size and alignment of an item.
    """
    # A pointer to be freed stays a pointer.
    _, owns, *_ = _checks(policies.check)
    characters = () if owns is not None else signature.characters
    places = {index: place for place, (index, _) in enumerate(passed)}
    found: list[tuple[object, ...]] = []
    for out, at in zip(policies.out, offsets(signature, policies.out)[0], strict=True):
        ctype, kind = pointee(signature, out), kind_of(signature, out)
        said = characters[out.index] if characters else ""
        text = _TEXT.get(text_of(said[1:], policies), "") if said.startswith("*") else ""
        length = -1 if out.length is None else out.length
        sized = -1 if out.sized is None else places[out.sized]
        given = places.get(out.index, -1)
        size, alignment = ctype.size, ctype.alignment
        held = ctype.pointer if isinstance(ctype, Record) else ctype
        rest = kind, length, sized, given, size, alignment
        found.append((letter(ctype), at, held, text, *rest))
    return tuple(found)


def _described(arg: CType, readonly: bool, text: str) -> tuple[str, str, int, int, int, bool, str]:
    """Return an argument's row; missing letters are ``""``.

    A row has the argument's letter; the elements' letter, size, count and alignment; whether the
    argument is read-only; and the letter of its text. For a view, the size is the alignment of an
    element; for a struct, it is the struct's own size.
    """
    code, size, count, alignment = "", arg.size if isinstance(arg, Struct) else 0, 0, 1
    if arg.kind == "voidptr":
        code = "" if isinstance(arg, Handle) and arg.opaque else "v"
    elif isinstance(arg, View):
        code, size, count = letter(arg.item), arg.item.alignment, arg.ndim
    elif isinstance(arg, Pointer):
        pointee, alignment = arg.pointee, arg.pointee.alignment
        if isinstance(pointee, Array):
            count = pointee.length
            pointee = pointee.item
        size = pointee.size
        code = letter(pointee)
    known = _ITEMS if isinstance(arg, View) else _POINTEES
    return letter(arg), code if code in known else "", size, count, alignment, readonly, text


_of_arguments: Cache[tuple[str, Policies, bool, str], CallInterface] = Cache(4096)


def of_argument(
    ctype: CType, policies: Policies = DEFAULT, readonly: bool = False, spelled: str = ""
) -> CallInterface:
    """Return the call interface of a function of one argument, for `pin` and `match`.

    Messages show the type as `spelled` in C, if given.
    """
    if policies.check is not None:
        policies = policies._replace(check=None)  # may be unhashable; the cache must not keep it
    key = ctype.named, policies, readonly, spelled
    found = _of_arguments.get(key)
    if found is None:
        written = f"void ({spelled})" if spelled else None
        # The type identifies wide characters; the C declaration identifies all others.
        name = ctype.name if isinstance(ctype, Pointer) and ctype.name in _TEXT else ""
        text = name or spelled.removesuffix(" *")
        said = (text if text in _TEXT else "", "")
        signature = Signature(
            VOID, (ctype,), readonly=(readonly,), characters=said, written=written
        )
        # Drop the policies that refer to arguments by position.
        policies = policies._replace(out=(), keep="call")
        found = _of_arguments.keep(key, of(signature, 0, policies))
    return found


_ext.set_hooks("interfaces", described, of_text)
