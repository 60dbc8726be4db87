"""The parser for every spelling of a signature that is read.

    signature = result ":" { argument } [ "." ]        "." ends the arguments that are fixed
    result    = "v" | type
    type      = a code of `SCALARS`, as "d", "i" or "Zd"
              | "P"                                    void *
              | "&" type                               pointer to
              | "X{" signature "}"                     pointer to function
              | "T{" { type [ ":" name ":" ] } "}"     struct by value; "=T{" packed
              | "(" n { "," n } ")" type               array, inside structs and behind "&"
              | "[" n "]" type                         strided view of n dimensions, as an argument
              | "O"                                    PyObject *

White space may stand between any two tokens. `parse` also reads C declarations
(``"double (double, float *)"``), NumPy's style (``"dd->d"``) and CEP 1000's (``"df)i"``);
`Signature.text` is always the canonical form of the grammar above. Every malformed text is a
`SignatureError` that names the column. `declarations`, and cffi with it, is imported when the first
C declaration is read.
"""

from __future__ import annotations

from .._errors import SignatureError
from .._fifo import Cache
from .ctype import MAX_DEPTH, MAX_TEXT, SCALARS, VOID, VOIDPTR, CType, PyObjectPointer, refusal
from .derived import Array, FunctionPointer, Struct, View, pointer
from .signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    Form = Literal["native", "c", "numpy", "cep1000"]

_SPACE = " \t\n\r\f\v"
_DIGITS = "0123456789"
_FORMS = (
    "write 'd:dd', or a C declaration 'double (double, double)', or NumPy's 'dd->d', "
    "or CEP 1000's 'dd)d'"
)
_NO_RESULT = "a function that returns nothing has the result 'v'"
_PY_OBJECT = PyObjectPointer()

# What would work instead of a character that begins no type, or begins one that is not finished.
_MEANT = {
    "F": "a complex float is 'Zf'",
    "D": "a complex double is 'Zd'",
    "G": "a complex long double is 'Zg'",
    "s": "a string is '&c'",
    "z": "a string is '&c'",
    "p": "void * is 'P'",
    "*": "a pointer is '&' and the type that it points to",
    "{": "a struct begins with 'T{', a function pointer with 'X{'",
    "T": "a struct begins with 'T{'",
    "X": "a function pointer begins with 'X{'",
    "=": "a packed struct begins with '=T{'",
    "Z": "complex numbers are 'Zf', 'Zd' and 'Zg'",
}


class _Reader:
    """A recursive-descent parser over one source, which reports columns of that source."""

    __slots__ = ("at", "source")

    def __init__(self, source: str, at: int = 0) -> None:
        self.source = source
        self.at = at

    def error(self, reason: str, at: int, hint: str | None = None) -> SignatureError:
        """The error for what begins at index `at` of the source."""
        line = self.source.count("\n", 0, at) + 1
        column = at - (self.source.rfind("\n", 0, at) + 1) + 1
        return SignatureError(
            reason, self.source, column, line if "\n" in self.source else None, hint
        )

    def peek(self) -> str:
        """The next character that is not white space, or ``""`` at the end."""
        source = self.source
        while self.at < len(source) and source[self.at] in _SPACE:
            self.at += 1
        return source[self.at : self.at + 1]

    def accept(self, token: str) -> bool:
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str, what: str) -> None:
        if not self.accept(token):
            found = self.peek()
            raise self.error(f"expected {token!r} {what}, found {_shown(found)}", self.at)

    def build(self, at: int, make: Callable[..., CType], *parts: object) -> CType:
        """`make(*parts)`; what it refuses is reported at `at`."""
        try:
            return make(*parts)
        except SignatureError as error:
            raise self.error(error.reason, at, error.hint) from None

    def admitted(self, place: str, depth: int) -> CType:
        """A type that can stand at `place`."""
        self.peek()
        at = self.at
        ctype = self.type(depth)
        refused = refusal(ctype, place)
        if refused is not None:
            raise self.error(refused[0], at, refused[1])
        return ctype

    def type(self, depth: int) -> CType:
        code = self.peek()
        at = self.at
        if depth > MAX_DEPTH:
            raise self.error(f"a type is nested more than {MAX_DEPTH} levels deep", at)
        self.at += 1
        found = SCALARS.get(code)
        if found is not None:
            return found
        match code:
            case "v":
                return VOID
            case "P":
                return VOIDPTR
            case "O":
                return _PY_OBJECT
            case "Z":
                found = SCALARS.get("Z" + self.peek())
                if found is not None:
                    self.at += 1
                    return found
            case "&":
                if self.peek() == "v":
                    self.at += 1
                    return VOIDPTR
                return self.build(at, pointer, self.admitted("pointee", depth + 1))
            case "X":
                if self.accept("{"):
                    result, args, variadic = self.signature(depth + 1, "}")
                    self.expect("}", "to end the function pointer")
                    return self.build(at, FunctionPointer, result, args, variadic)
            case "T":
                if self.accept("{"):
                    return self.struct(at, depth, packed=False)
            case "=":
                if self.accept("T"):
                    self.expect("{", "to begin the packed struct")
                    return self.struct(at, depth, packed=True)
            case "(":
                shape = [self.length("an array's length")]
                while self.accept(","):
                    shape.append(self.length("an array's length"))
                self.expect(")", "or ',' after an array's length")
                return self.build(at, Array, self.admitted("array", depth + 1), shape)
            case "[":
                ndim = self.length("the number of dimensions")
                self.expect("]", "after the number of dimensions")
                return self.build(at, View, self.admitted("view", depth + 1), ndim)
        raise self.unknown(code, at)

    def unknown(self, code: str, at: int) -> SignatureError:
        """The error for `code`, which stands where a type should."""
        if not code:
            return self.error("expected a type, found the end", at)
        if code in "})],:.>":
            return self.error(f"expected a type, found {code!r}", at)
        hint = "an array is written '(3)d'" if code in _DIGITS else _MEANT.get(code)
        return self.error(f"unknown type {code!r}", at, hint)

    def length(self, what: str) -> int:
        self.peek()
        start = self.at
        while self.at < len(self.source) and self.source[self.at] in _DIGITS:
            self.at += 1
        digits = self.source[start : self.at]
        if not digits:
            found = _shown(self.peek())
            raise self.error(f"expected {what}, a positive number, found {found}", start)
        if len(digits) > 18:
            raise self.error(f"{what} is too large", start)
        number = int(digits)
        if number == 0:
            raise self.error(f"{what} must be at least 1", start)
        return number

    def struct(self, at: int, depth: int, packed: bool) -> CType:
        fields: list[tuple[str | None, CType]] = []
        seen: set[str] = set()
        while not self.accept("}"):
            if not self.peek():
                raise self.error("expected a field or '}', found the end", self.at)
            ctype = self.admitted("field", depth + 1)
            fields.append((self.field_name(seen) if self.accept(":") else None, ctype))
        return self.build(at, Struct, fields, packed)

    def field_name(self, seen: set[str]) -> str:
        """The name whose opening colon has been read."""
        self.peek()
        start = self.at
        end = self.source.find(":", start)
        name = self.source[start:end].rstrip(_SPACE) if end >= 0 else ""
        if not name:
            raise self.error("expected the name of a field and ':' after it", start)
        if not (name.isascii() and name.isidentifier()):
            raise self.error(f"{name!r} is not a name that a field can have in C", start)
        if name in seen:
            raise self.error(f"a struct has two fields called {name!r}", start)
        seen.add(name)
        self.at = end + 1
        return name

    def arguments(self, depth: int, end: str) -> tuple[list[CType], bool]:
        """Arguments up to, not including, the character `end`; ``""`` stands for the end."""
        args: list[CType] = []
        while True:
            found = self.peek()
            if found == end or not found:
                return args, False
            if found == ".":
                if not args:
                    raise self.error("expected at least one argument before '.'", self.at)
                self.at += 1
                if self.peek() != end:
                    found = _shown(self.peek())
                    raise self.error(f"'.' ends the arguments, found {found}", self.at)
                return args, True
            args.append(self.admitted("argument", depth))

    def signature(self, depth: int, end: str) -> tuple[CType, list[CType], bool]:
        """A result, a colon and arguments up to, not including, the character `end`."""
        if self.peek() == ":":
            raise self.error("expected a result before ':'", self.at, _NO_RESULT)
        result = self.admitted("result", depth)
        self.expect(":", "after the type of the result")
        return result, *self.arguments(depth, end)

    def finish(self, what: str) -> None:
        if self.peek():
            raise self.error(f"expected the end of {what}, found {_shown(self.peek())}", self.at)

    def signed(self, result: CType, args: list[CType], variadic: bool) -> Signature:
        """The signature made of the parts; what it refuses is reported at the first column."""
        try:
            return Signature(result, args, variadic, written=self.source)
        except SignatureError as error:
            raise self.error(error.reason, 0, error.hint) from None


def _shown(found: str) -> str:
    return repr(found) if found else "the end"


def _read_native(source: str) -> Signature:
    reader = _Reader(source)
    result, args, variadic = reader.signature(1, "")
    reader.finish("the signature")
    return reader.signed(result, args, variadic)


def _read_cep1000(source: str) -> Signature:
    reader = _Reader(source)
    args, variadic = reader.arguments(1, ")")
    reader.expect(")", "after the arguments")
    if not reader.peek():
        raise reader.error("expected a result after ')'", reader.at, _NO_RESULT)
    result = reader.admitted("result", 1)
    reader.finish("the signature")
    return reader.signed(result, args, variadic)


# NumPy's type characters that mean something else in a signature, or nothing.
_NUMPY_OTHER = {
    "F": SCALARS["Zf"],
    "D": SCALARS["Zd"],
    "G": SCALARS["Zg"],
    "p": SCALARS["n"],
    "O": _PY_OBJECT,
}
_NUMPY_REFUSED = {
    "P": "NumPy's unsigned integer 'P' is 'N', and a signature with void * is written 'd:P'",
    "V": "a signature with a struct is written 'd:T{dd}'",
    "m": "NumPy's timedelta64 is 'q' in C",
    "M": "NumPy's datetime64 is 'q' in C",
    "c": "NumPy's 'c' is a string of one byte; a small integer is 'b' or 'B'",
}


def _read_numpy(source: str) -> Signature:
    reader = _Reader(source)
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
        found: CType | None = _NUMPY_OTHER.get(code)
        if found is None and code not in _NUMPY_REFUSED:
            found = SCALARS.get(code)
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
    from .declarations import parse_function

    return parse_function(source)


_READERS: dict[str, Callable[[str], Signature]] = {
    "native": _read_native,
    "c": _read_c,
    "numpy": _read_numpy,
    "cep1000": _read_cep1000,
}


def _form(source: str) -> Form:
    """Which spelling `source` is in, told by characters that no other has."""
    if "->" in source:
        return "numpy"
    if any([mark in source for mark in ("*", ";", "//", "#")]):
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


def _calls(source: str) -> bool:
    """Whether a parenthesis opens what is not the lengths of an array."""
    return any([part.lstrip(_SPACE)[:1] not in _DIGITS for part in source.split("(")[1:]])


_cache: Cache[tuple[str, str | None], Signature] = Cache(2048)


def parse(source: str | Signature | FunctionPointer, *, hint: Form | None = None) -> Signature:
    """Read a signature in any of the spellings.

    Parameters
    ----------
    source : str, Signature or FunctionPointer
        ``"i:d&f"``; a C declaration such as ``"int (double, float *)"``, with or without names;
        NumPy's ``"dd->d"``, in NumPy's type characters; or CEP 1000's ``"df)i"``. At most 4096
        characters.
    hint : {'native', 'c', 'numpy', 'cep1000'}, optional
        The spelling, where it is known. It is recognised otherwise.

    Returns
    -------
    Signature

    Raises
    ------
    SignatureError
        If `source` cannot be read. It tells the column and what would work.
    TypeError
        If `source` is not text.

    Examples
    --------
    >>> [parse(s).text for s in ("d : d d", "double (double x, double y)", "dd->d", "dd)d")]
    ['d:dd', 'd:dd', 'd:dd', 'd:dd']
    """
    if isinstance(source, Signature):
        return source
    if isinstance(source, FunctionPointer):
        return Signature(source.result, source.args, source.variadic)
    source = _require_text(source)
    form = None if hint is None else _known_hint(hint)
    key = (source, form)
    found = _cache.get(key)
    if found is not None:
        return found
    if not source.strip(_SPACE):
        raise SignatureError("a signature is empty", source, 1, hint=_FORMS)
    return _cache.keep(key, _READERS[form or _form(source)](source))


def _known_hint(hint: object) -> str:
    """`hint` as a plain str, which is one of the known: a subclass may equal any of them."""
    plain = str.__str__(hint) if isinstance(hint, str) else ""
    if plain not in _READERS:
        raise ValueError(f"'hint' must be one of {', '.join(map(repr, _READERS))} (got {hint!r})")
    return plain


def _require_text(source: object) -> str:
    """`source` as a plain str: a subclass may answer wrongly, in the cache for everyone's texts."""
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
    """Read one type in the grammar of signatures, such as ``"&d"`` or ``"T{d:x:d:y:}"``.

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
    reader = _Reader(text)
    ctype = reader.type(0)
    reader.finish("the type")
    return ctype


def canonical(text: str) -> str:
    """The canonical form of a signature in any of the spellings.

    Examples
    --------
    >>> canonical("signed char (short)")
    'b:h'
    """
    return parse(text).text
