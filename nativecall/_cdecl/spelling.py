"""Parse every supported spelling of a signature.

`parse` reads the grammar of signatures (grammar.py), in which ``const`` may precede a pointer or
view argument, as in ``"d:const [1]d"``. `parse` also reads C declarations (``"double (double, float
*)"``), NumPy's style (``"dd->d"``) and CEP 1000's (``"df)i"``). `Signature.text` is always the
canonical form in the grammar. A malformed text raises a `SignatureError` that names the column.
Parsing the first C declaration imports `texts`, and with it cffi.
"""

from __future__ import annotations

from .._errors import TYPE_CHECKING, SignatureError
from .._fifo import Cache
from .._types.ctype import MAX_TEXT, PY_OBJECT, SCALARS, VOID, CType
from .._types.derived import FunctionPointer
from .._types.grammar import DIGITS, NO_RESULT, SPACE, Reader
from .._types.signature import Signature

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    Form = Literal["native", "c", "numpy", "cep1000"]

_FORMS = (
    "write 'd:dd', or a C declaration 'double (double, double)', or NumPy's 'dd->d', "
    "or CEP 1000's 'dd)d'"
)


class _ConstReader(Reader):
    """Parser of signatures written by people.

    ``const`` before an argument marks its target as read-only. ``const`` is not part of the type,
    so the keys that C code looks up never contain it.
    """

    __slots__ = ("readonly",)

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.readonly: list[bool] = []

    def admitted(self, place: str, depth: int) -> CType:
        self.peek()
        at = self.at
        end = at + len("const")
        const = self.source[at:end] == "const" and not self.source[end : end + 1].isalnum()
        if place != "argument" or depth != 1:
            if const:
                raise self.error(
                    "'const' goes before an argument of the signature itself, not inside a type",
                    at,
                    "it is not part of a type, so leave it out there",
                )
            return super().admitted(place, depth)
        if const:
            self.at = end
        ctype = super().admitted(place, depth)
        if const and ctype.kind not in ("pointer", "voidptr", "view"):
            raise self.error(f"'const' does not apply to {ctype.text!r}, which is copied", at)
        self.readonly.append(const)
        return ctype


def _read_native(source: str) -> Signature:
    reader = _ConstReader(source) if "const" in source else Reader(source)
    result, args, variadic = reader.signature(1, "")
    reader.finish("the signature")
    made = reader.signed(result, args, variadic)
    if isinstance(reader, _ConstReader):
        return Signature._of(made.function, made.names, tuple(reader.readonly), (), (), source)
    return made


def _read_cep1000(source: str) -> Signature:
    reader = Reader(source)
    args, variadic = reader.arguments(1, ")")
    reader.expect(")", "after the arguments")
    if not reader.peek():
        raise reader.error("expected a result after ')'", reader.at, NO_RESULT)
    result = reader.admitted("result", 1)
    reader.finish("the signature")
    return reader.signed(result, args, variadic)


# NumPy's type characters. Some have another meaning, or no meaning, in a signature.
_NUMPY: dict[str, CType] = {
    **SCALARS,
    "F": SCALARS["Zf"],
    "D": SCALARS["Zd"],
    "G": SCALARS["Zg"],
    "p": SCALARS["n"],
    "O": PY_OBJECT,
}
_NUMPY_REFUSED = {
    "P": "NumPy's unsigned integer 'P' is 'N', and a signature with void * is written 'd:P'",
    "V": "a signature with a struct is written 'd:T{dd}'",
    "m": "NumPy's timedelta64 is 'q' in C",
    "M": "NumPy's datetime64 is 'q' in C",
    "c": "NumPy's 'c' is a string of one byte; a small integer is 'b' or 'B'",
}


def _read_numpy(source: str) -> Signature:
    reader = Reader(source)
    arrow = source.find("->")
    if arrow < 0:
        raise reader.error("expected '->' between inputs and output", len(source))
    args: list[CType] = []
    results: list[CType] = []
    while code := reader.peek():
        at = reader.at
        if at == arrow:
            reader.at += 2
            continue
        found = None if code in _NUMPY_REFUSED else _NUMPY.get(code)
        if found is None:
            hint = _NUMPY_REFUSED.get(code)
            raise reader.error(f"unknown type {code!r}", at, hint)
        if at < arrow:
            args.append(found)
        elif results:
            raise reader.error("a C function has one result", at, "write one output or none")
        else:
            results.append(found)
        reader.at += 1
    return reader.signed(results[0] if results else VOID, args, False)


def _read_c(source: str) -> Signature:
    from .texts import parse_function

    return parse_function(source)


_READERS: dict[str, Callable[[str], Signature]] = {
    "native": _read_native,
    "c": _read_c,
    "numpy": _read_numpy,
    "cep1000": _read_cep1000,
}


def _form(source: str) -> Form:
    """Detect the spelling of `source` by characters that only one spelling uses."""
    if "->" in source:
        return "numpy"
    if any([mark in source for mark in ("*", ";", "//")]) or _has_directive(source):
        return "c"
    depth = 0
    top_colon = False
    for character in source:
        if character in "({[":
            depth += 1
        elif character in ")}]":
            depth -= 1
            if depth < 0 and character == ")" and not top_colon and not _calls(source):
                return "cep1000"
        elif character == ":" and depth <= 0:
            top_colon = True
    if ":" in source:
        return "native"
    if "(" in source:
        return "c"
    raise SignatureError("expected a result and arguments", source, 1, hint=_FORMS)


def _has_directive(source: str) -> bool:
    """Return whether a line starts with ``#`` and a word; a number means a bit-field's width."""
    begun = [line.lstrip(SPACE) for line in source.split("\n")] if "#" in source else []
    return any([line[:1] == "#" and line[1:].lstrip(SPACE)[:1].isalpha() for line in begun])


def is_ffi_type(source: object) -> bool:
    """Return whether an object is a cffi type."""
    cls = type(source)
    return cls.__module__ == "_cffi_backend" and cls.__name__ == "CType"


def parse_with(source: object, types: object) -> Signature:
    """Parse a signature with the types of a library; `types` is the library or its types."""
    read = getattr(type(types), "_signature_of", None)
    if read is None:
        raise TypeError(f"'types' must be a library or its types (got {type(types).__name__})")
    found: Signature = read(types, source)
    return found


def words(given: Signature | CType, named: bool = False) -> str:
    """Return a signature or a type in C, with C's built-in number types (``long``).

    With `named`, structs appear by their declared names, if they have one.
    """
    spell = _named if named else _own
    if isinstance(given, Signature):
        return given.function.declare_function("", spell=spell).strip()
    return given.declare("", spell).strip()


def _named(ctype: CType) -> str:
    name: str = getattr(ctype, "name", "")
    return name or _own(ctype)


def reason_in_c(reason: str, one: Signature, other: Signature) -> str:
    """Return `reason`, which quotes types of two signatures by their codes.

    If the first signature was written in C, replace the codes by C types.
    """
    if not one.in_c:
        return reason
    shown = {"'P'": "'void *'"}
    for signature in (other, one):
        types = [*signature.args, signature.result]
        for ctype in [*[getattr(part, "pointee", part) for part in types], *types]:
            shown[repr(ctype.text)] = repr(words(ctype, named=True))
        for index, ctype in enumerate(signature.args if signature.in_c else ()):
            shown[repr(ctype.text)] = repr(signature.spelled(index))
    for code, spelled in shown.items():
        reason = reason.replace(code, spelled)
    return reason


def both(one: Signature, other: Signature) -> tuple[str, str]:
    """Return two signatures for messages: in C if the first was written in C, else as codes."""
    if not one.in_c:
        return one.text, other.text
    return one.c_declaration("").strip(), (
        other.c_declaration("").strip() if other.in_c else words(other, named=True)
    )


def _own(ctype: CType) -> str:
    if ctype.text in ("q", "Q"):
        # The platform's usual type of this size, which npy_intp and Py_ssize_t also use.
        name = "long" if SCALARS["l"].size == ctype.size else "long long"
        return name if ctype.text == "q" else "unsigned " + name
    if ctype.kind in ("voidptr", "view"):
        return "void *"
    if ctype.kind in ("bool", "int"):
        from .lexer import NAMES

        return NAMES[ctype.text]
    return ctype.c_declaration().strip().replace(" _Complex", " complex")


def as_text(given: str | Signature | FunctionPointer | None) -> str | None:
    """Return a signature as text, as hooks receive it; return text unchanged."""
    return given if given is None or type(given) is str else str(parse(given))


def is_c(source: str) -> bool:
    """Return whether a signature is a C declaration."""
    try:
        return _form(str.__str__(source)) == "c"
    except SignatureError:
        return False


def _calls(source: str) -> bool:
    """Return whether a parenthesis opens something other than the lengths of an array."""
    return any([part.lstrip(SPACE)[:1] not in DIGITS for part in source.split("(")[1:]])


_cache: Cache[tuple[str, str | None], Signature] = Cache(2048)


def parse(source: str | Signature | FunctionPointer, *, hint: Form | None = None) -> Signature:
    """Parse a signature in any of the spellings.

    Parameters
    ----------
    source : str, Signature or FunctionPointer
        ``"i:d&f"``; a C declaration such as ``"int (double, float *)"``, with or without names;
        NumPy's ``"dd->d"``, in NumPy's type characters; or CEP 1000's ``"df)i"``. At most 4096
        characters. `source` may also be a cffi function type.
    hint : {'native', 'c', 'numpy', 'cep1000'}, optional
        The spelling, if known. Otherwise it is detected.

    Returns
    -------
    Signature

    Raises
    ------
    SignatureError
        If `source` cannot be parsed. The error names the column and may suggest a correction.
    TypeError
        If `source` is of another type, or a cffi type that is not a function type.

    Examples
    --------
    >>> [parse(s).text for s in ("d : d d", "double (double x, double y)", "dd->d", "dd)d")]
    ['d:dd', 'd:dd', 'd:dd', 'd:dd']
    """
    if isinstance(source, Signature):
        return source
    if isinstance(source, FunctionPointer):
        return Signature(source.result, source.args, source.variadic)
    if is_ffi_type(source):
        from .cffitype import from_ffi

        made = from_ffi(source)
        if not isinstance(made, Signature):
            raise TypeError(f"a signature must describe a function (got {source!r})")
        return made
    source = _require_text(source)
    form = None if hint is None else _known_hint(hint)
    key = (source, form)
    found = _cache.get(key)
    if found is not None:
        return found
    if not source.strip(SPACE):
        raise SignatureError("a signature is empty", source, 1, hint=_FORMS)
    return _cache.keep(key, _READERS[form or _form(source)](source))


Signature._read = staticmethod(parse)


def _known_hint(hint: object) -> str:
    """Return a known `hint` as a plain str, since a str subclass may equal anything."""
    plain = str.__str__(hint) if isinstance(hint, str) else ""
    if plain not in _READERS:
        raise ValueError(f"'hint' must be one of {', '.join(map(repr, _READERS))} (got {hint!r})")
    return plain


def _require_text(source: object) -> str:
    """Return `source` as a plain str, since a str subclass could corrupt the cache."""
    if isinstance(source, (bytes, bytearray)):
        raise TypeError(f"a signature must be str (got {type(source).__name__}; decode it first)")
    if not isinstance(source, str):
        raise TypeError(f"a signature must be str or Signature (got {type(source).__name__})")
    source = str.__str__(source)
    if len(source) > MAX_TEXT:
        reason = f"a signature has at most {MAX_TEXT} characters, found {len(source)}"
        raise SignatureError(reason, source, MAX_TEXT + 1)
    return source


def parse_type(text: str) -> CType:
    """Parse one type in the grammar of signatures, such as ``"&d"`` or ``"T{d:x:d:y:}"``.

    Raises
    ------
    SignatureError
        If `text` is not one type.

    Examples
    --------
    >>> parse_type("T{b d}").size
    16
    """
    text = _require_text(text)
    reader = Reader(text)
    ctype = reader.type(0)
    reader.finish("the type")
    return ctype
