"""Prototypes that a parser need not see, because all their parts are known.

A library has hundreds of functions and a few dozen types. `abridge` blanks the prototypes whose
result and parameters are C's own types, pointers to such, or stand word for word, but for the
names, in earlier ones; `rows` makes what is known of them from the signatures of those. Prototypes
of other forms than ``type name(type name, …);``, without parentheses inside, are left alone.

What is blanked is not checked by the parser. So `rows` refuses all that could make it another text
to C, by `InDoubt`: whoever asks must then read the whole text.
"""

from __future__ import annotations

from _cffi_backend import _get_common_types

from .._errors import SignatureError
from .._fifo import Cache
from .cffitype import MAX_SCALARS
from .csource import BASIC, CODES, KEYWORDS, CSource
from .csyntax import KNOWN_TYPEDEFS
from .ctype import MAX_TEXT, SCALARS
from .derived import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from .grammar import Row
    from .signature import Signature

    #: A parameter's words without its name, and the name.
    Parameter = tuple[str, str | None]
    #: The text of a type, whether it points to read-only data, its bytes if it is a struct, which
    #: text it leads to, and how many items an array has.
    Part = tuple[str, bool, int, str, int | str | None]

_PROTOTYPE = r"([\w\s*]*[\s*])([A-Za-z_]\w*)\s*\(([^()]*)\)\s*"
_TAGGED = ("struct", "union", "enum")
_NO_NAME = KEYWORDS | KNOWN_TYPEDEFS.keys()
_OWN = {words: SCALARS[code].text for words, code in CODES.items()} | {"void": "v"}
_MOST_STARS = 8


class InDoubt(SignatureError):
    """Only the whole text can tell what it says."""


class Prototype:
    """A declaration of one function, by its words and where it begins."""

    __slots__ = ("name", "parameters", "result", "start", "text", "variadic")

    def __init__(self, result: str, name: str, parameters: list[Parameter], variadic: bool) -> None:
        self.result = result
        self.name = name
        self.parameters = parameters
        self.variadic = variadic
        self.text = ""
        self.start = 0

    def parts(self) -> list[str]:
        return ["= " + self.result, *[words for words, _ in self.parameters]]

    def row(self, found: dict[str, Part]) -> Row:
        """What is known of the function from its parts."""
        result, *args = [_own(part) or found[part] for part in self.parts()]
        if result[2] + sum([part[2] for part in args]) > MAX_SCALARS:  # of bytes, so of scalars too
            raise InDoubt(self.name)
        text = "".join([result[0], ":", *[text for text, *_ in args], "." * self.variadic])
        if len(text) > MAX_TEXT:
            raise InDoubt(self.name)
        names = tuple([name for _, name in self.parameters])
        characters = tuple([part[3] for part in (*args, result)])
        readonly = tuple([part[1] for part in args])
        lengths = tuple([part[4] for part in args])
        texts = characters if any(characters) else ()
        return text, names, readonly, texts, lengths if any(lengths) else (), self.text


def abridge(source: CSource) -> tuple[list[Prototype], list[Prototype]]:
    """Blank prototypes in `source` that consist of parts of others.

    Returns
    -------
    list of Prototype
        Those that stay and have parts of the others.
    list of Prototype
        Those that are gone.
    """
    kept: list[Prototype] = []
    gone: list[Prototype] = []
    places: list[tuple[int, int]] = []
    seen: set[str] = set()
    for found, end in _prototypes(source.clean):
        parts = [part for part in found.parts() if _own(part) is None]
        if seen.issuperset(parts):
            gone.append(found)
            places.append((found.start, end + 1))
        else:
            kept.append(found)
            seen.update(parts)
    source.leave_out(places)
    return kept, gone


def rows(
    kept: Sequence[Prototype],
    gone: Sequence[Prototype],
    functions: dict[str, Signature],
    typedefs: Container[str],
) -> dict[str, Row]:
    """What is known of the prototypes that were left out, by name; `InDoubt` where not all is.

    Parameters
    ----------
    kept, gone
        What `abridge` returned.
    functions : dict of str to Signature
        Those that were read, each declared once.
    typedefs : container of str
        The names of types that the text declares.
    """
    found: dict[str, Part] = {}
    for one in kept:
        signature = functions.get(one.name)
        names = tuple([name for _, name in one.parameters])
        if signature is None or (signature.names, signature.variadic) != (names, one.variadic):
            raise InDoubt(one.name)
        ctypes = (signature.result, *signature.args)
        readonly = False, *signature.readonly
        *characters, returned = signature.characters or [""] * len(ctypes)
        lengths = None, *(signature.lengths or [None] * len(signature.args))
        for part, ctype, promised, text, length in zip(
            one.parts(), ctypes, readonly, (returned, *characters), lengths, strict=True
        ):
            size = ctype.size if isinstance(ctype, Struct) else 0
            found[part] = ctype.named, promised, size, text, length
    made: dict[str, Row] = {}
    common = {"FILE": ""}
    _get_common_types(common)  # cffi's
    for one in gone:
        row = one.row(found)
        if one.name in functions or made.setdefault(one.name, row) is not row:
            raise InDoubt(one.name)  # declared again
        for name in (one.name, *row[1]):
            if name is not None and (name in typedefs or name in common or name.endswith("_t")):
                raise InDoubt(one.name)  # the parser may know a type of that name
    return made


_parts: Cache[str, Part | None] = Cache(1024)


def _own(part: str) -> Part | None:
    """A part that is one of C's own types or a pointer to one; None for another."""
    try:
        return _parts[part]
    except KeyError:
        return _parts.keep(part, _of_own(part))


def _of_own(part: str) -> Part | None:
    result = part.startswith("= ")
    words = part.removeprefix("= ").removeprefix("extern ").split()
    const = words[0] == "const"
    base = [word for word in words[const:] if word in BASIC]
    rest = words[const + len(base) :]
    named = _OWN.get(" ".join(base))
    if named is None or words[const : const + len(base)] != base or len(rest) > _MOST_STARS:
        return None
    readonly = behind = False
    for word in rest:
        if word == "const":
            const = True
        elif word == "*":
            named = "P" if named == "v" else "&" + named
            readonly, behind, const = const, readonly, False
        else:
            return None
    if named == "v" and (const or not result):
        return None
    text = ""
    if base == ["char"] and rest.count("*") == 1 and readonly:
        text = "char"
    elif base == ["char"] and rest.count("*") == 2 and behind and not result:
        text = "*char"
    return named, readonly and not result, 0, text, None


def _prototypes(text: str) -> Iterator[tuple[Prototype, int]]:
    """The prototypes of a simple form, with where they end."""
    import re

    read = re.compile(_PROTOTYPE, re.ASCII)
    known: dict[str, Parameter | None] = {}
    depth = start = 0
    plain = True
    for match in re.finditer("[;{}]", text):
        mark, end = match.group(), match.start()
        if mark != ";":
            depth += 1 if mark == "{" else -1
            plain = False
        elif depth == 0:
            found = read.fullmatch(text, start, end) if plain else None
            prototype = None if found is None else _prototype(found[1], found[2], found[3], known)
            if prototype is not None:
                prototype.text = " ".join(text[start:end].split())
                prototype.start = start
                yield prototype, end
            start, plain = end + 1, True


def _prototype(
    result: str, name: str, inside: str, known: dict[str, Parameter | None]
) -> Prototype | None:
    words = result.replace("*", " * ").split()
    if not words or "typedef" in words or name in _NO_NAME:
        return None
    parameters = []
    given = inside.split(",")
    variadic = len(given) > 1 and given[-1].strip() == "..."
    for one in given[: len(given) - variadic]:
        try:
            parameter = known[one]
        except KeyError:
            parameter = known[one] = _parameter(one)
        if parameter is None:
            return None
        parameters.append(parameter)
    if parameters == [("void", None)]:
        parameters = []
    return Prototype(" ".join(words), name, parameters, variadic)


def _parameter(text: str) -> Parameter | None:
    """A parameter's words without its name, and the name; None for another form."""
    import re

    words = [*re.findall(r"\w+|\S", text, re.ASCII), "", ""]
    at = 0
    while words[at] == "const":
        at += 1
    if words[at] in _TAGGED:
        at += 2
    elif words[at] in BASIC:
        while words[at] in BASIC:
            at += 1
    elif words[at] == "bool" or (words[at].isidentifier() and words[at] not in KEYWORDS):
        at += 1
    else:
        return None
    while words[at] in ("*", "const"):
        at += 1
    name = None
    if words[at].isidentifier():
        name = words.pop(at)
        if name in _NO_NAME:
            return None
    if words[at] not in ("", "["):
        return None
    return " ".join(words).rstrip(), name
