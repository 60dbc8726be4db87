"""Store C declarations as a table of plain data that can be cached, and build objects from it.

The table stores each type as text that includes the names of fields. `Declarations` builds
signatures and types from a table on first use. Tables are cached on disk (header.py). To read a
cached table, the parser and the code that creates tables (tables.py) are not imported.
"""

from __future__ import annotations

import os
import sys
from _collections_abc import Mapping

from .. import _lib
from .._errors import TYPE_CHECKING, SignatureError, SymbolError
from .._types.grammar import bind, from_row, read_type
from .._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypedDict, TypeVar

    from .._ext import Foreign
    from .._types.ctype import CType
    from .._types.derived import Owner
    from .._types.grammar import Row
    from .._types.signature import Signature
    from .preprocessor import Wanted

    Made = TypeVar("Made")

    class Table(TypedDict, total=False):
        """The data of declarations; only tables of headers have the last two keys."""

        functions: dict[str, Row]
        variables: dict[str, str]
        readonly: list[str]
        opaque: list[str]
        constants: dict[str, int | float | bytes]
        skipped: dict[str, str]
        pointers: dict[str, tuple[str, int]]
        layouts: dict[str, tuple[object, ...]]
        types: dict[str, str]
        enums: dict[str, tuple[str, tuple[tuple[str, int], ...] | None]]
        declared: dict[str, tuple[str, str]]
        symbols: dict[str, str]
        inlines: list[str]
        files: list[str]
        places: dict[str, tuple[int, int]]


class _Lazy(Mapping[str, "Made"]):
    """A lazy mapping over a table: each value is built on first use."""

    _rows: Mapping[str, object] = {}  # for uninitialised instances

    def __init__(self, rows: Mapping[str, object], make: Callable[..., Made]) -> None:
        self._rows = rows
        self._make = make
        self._made: dict[str, Made] = {}

    def __getitem__(self, name: str) -> Made:
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._make(self._rows[name])
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


_PATHS = (str, os.PathLike)
# Prefixes of the reasons for macros, and for pointers to functions, which C's own can still fill.
_HARMLESS = ("a macro ", "Python cannot implement ")
_OFFERED = ("functions", "variables", "constants", "pointers", "skipped")
_COUNTED = (
    *("constants", "enums", "functions", "inlines", "layouts", "opaque", "pointers"),
    *("skipped", "symbols", "types", "variables"),
)


class Declarations:
    """The declarations of a C text, in order.

    Attributes
    ----------
    functions : mapping of str to Signature
    rows : dict of str to tuple
        The functions as plain data (grammar.py).
    plain : dict of str to tuple
        The same as `rows` if no declaration has a body, a position in a header, or a symbol with
        another name; otherwise, an empty dict.
    variables : mapping of str to CType
    readonly : frozenset of str
        The variables that are `const`.
    opaque : tuple of str
        Incomplete types, by their C names: ``"handle_t"``, ``"union value"``.
    constants : dict of str to int
        Enumerators, integer macros and initialised constants.
    skipped : dict of str to str
        Why a name of a header is not available.
    symbols : dict of str to str
        The symbols of functions and variables, by C name, if the symbol differs from the C name.
    pointers : dict of str to (str, int)
        Constants that are pointers: their types and addresses.
    inlines : frozenset of str
        Functions with a body in the header.
    files : list of str
    places : dict of str to (int, int)
        Where functions are declared: the index of the file, and the line.
    layouts : dict of str to (str, int, int, tuple)
        The structs and unions by C name: kind, size, alignment, and the members. A member is a
        tuple of its name, C declaration, offset, number of bits and first bit in its byte. The last
        two are None and 0 unless the member is a bit-field.
    types : dict of str to str
        The C declarations of typedefs.
    enums : dict of str to (str, tuple or None)
        The enums by C name: the code of the integer type, and the names and values of the
        enumerators (None if they are not declared).
    declared : dict of str to (str, str)
        The C types of variables that are not numbers. For pointers to const characters and for
        const arrays of characters, the second item is the character type, else "".
    table : dict
        The table of plain data.
    compiled : bytes or None
        The inline functions as a shared object, if frozen (_library/frozen.py).
    wanted : Wanted or None
        The headers, as in preprocessor.py.
    text : str or None
        The declarations that were read as text; None for headers.
    key : bytes or None
        The hash of all data of the headers, even if the declarations are limited to some names.
    stamps : mapping of str to tuple
        The version stamp of each file of the headers at the time of reading.
    whole : Declarations or None
        If these declarations are limited to some names: the unlimited declarations, which contain
        the types.
    owner : Owner or None
        Owner of the types that pointers name; set before anything is built.
    """

    def __init__(self, table: Table, text: str | None, wanted: Wanted | None = None) -> None:
        def signature(row: Row) -> Signature:
            return from_row(self.bound(row))

        def variable(named: str) -> CType:
            return read_type(named if self.owner is None else bind(named, self.owner))

        self.table = table
        self.compiled: bytes | None = None
        self._alike: dict[str, list[str]] | None = None
        self.owner: Owner | None = None
        self.key: bytes | None = None
        self.whole: Declarations | None = None
        self.stamps: Mapping[str, object] = {}
        self.text: str | None = text
        self.rows: dict[str, Row] = table["functions"]
        self.functions: Mapping[str, Signature] = _Lazy(table["functions"], signature)
        self.variables: Mapping[str, CType] = _Lazy(table["variables"], variable)
        self.readonly: frozenset[str] = frozenset(table["readonly"])
        self.opaque: tuple[str, ...] = tuple(table["opaque"])
        self.constants: dict[str, int | float | bytes] = table["constants"]
        self.skipped: dict[str, str] = table["skipped"]
        self.symbols: dict[str, str] = table["symbols"]
        self.pointers: dict[str, tuple[str, int]] = table["pointers"]
        self.inlines: frozenset[str] = frozenset(table["inlines"])
        self.files: list[str] = table.get("files", [])
        self.places: dict[str, tuple[int, int]] = table.get("places", {})
        self.layouts: dict[str, tuple[object, ...]] = table["layouts"]
        self.types: dict[str, str] = table["types"]
        self.enums: dict[str, tuple[str, tuple[tuple[str, int], ...] | None]] = table["enums"]
        self.declared: dict[str, tuple[str, str]] = table["declared"]
        self.wanted: Wanted | None = wanted

    @property
    def plain(self) -> dict[str, Row]:
        return {} if self.symbols or self.places or self.inlines else self.rows

    def alike(self, name: str) -> tuple[str, ...]:
        """Return the other names that macros define for a function."""
        found = self._alike
        if found is None:
            found = {}
            for one, symbol in self.symbols.items():
                if one in self.rows:
                    names = found.setdefault(symbol, [])
                    if not names and symbol in self.rows and symbol not in self.symbols:
                        names.append(symbol)
                    names.append(one)
            self._alike = found  # complete, since other threads may read it
        names = found.get(self.symbols.get(name, name), [])
        return tuple([one for one in names if one != name])

    def bound(self, row: Row) -> Row:
        """Return a function as plain data, bound to the owner of the types that it names."""
        if self.owner is None or "<" not in row[0]:
            return row
        return bind(row[0], self.owner), *row[1:]

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{len(getattr(self, kind))} {kind}" for kind in _COUNTED if getattr(self, kind)
        )
        return f"<Declarations: {counts or 'none'}>"


def offered(
    table: Table,
    digest: bytes,
    only: Sequence[str] | str | None,
    skip: bool,
    wanted: Wanted | None = None,
) -> Declarations:
    """Return the declarations in a table, limited to `only`.

    Without `skip`, raise SignatureError for a declaration that would be skipped.
    """
    whole = table
    text = None if wanted is None else wanted.text
    if only is not None:
        table = _restricted(table, several(only, "only", "names or patterns", str))
    if not skip:
        for name, reason in table["skipped"].items():
            if not reason.startswith(_HARMLESS):
                file, line = table.get("places", {}).get(name, (-1, 0))
                where = f", at line {line} of {table['files'][file]!r}" if file >= 0 else ""
                raise SignatureError(
                    f"{name!r} cannot be offered: {reason}{where}",
                    hint="omit 'skip' to leave it out, or select declarations with 'only'",
                )
    made = Declarations(table, text, wanted)
    made.key = digest
    if table is not whole:
        made.whole = Declarations(whole, text, wanted)
    return made


def _restricted(table: Table, only: list[str]) -> Table:
    """Return the part of a table that the names and patterns match."""
    names = {name for name in only if not any([mark in name for mark in "*?["])}
    patterns = [one for one in only if one not in names]
    chosen = {*names}
    whole: Foreign = table
    kinds: dict[str, dict[str, Foreign]] = {kind: whole[kind] for kind in _OFFERED}
    known = [name for kind in kinds.values() for name in kind]
    if patterns:
        from fnmatch import filter as matching

        for pattern in patterns:
            found = matching(known, pattern)
            if not found:
                raise SignatureError(f"'only' has {pattern!r}, which matches no declaration")
            chosen.update(found)
    if missing := names.difference(known):
        raise SymbolError.missing(min(missing), "the declarations", known)
    left = {
        kind: {name: row for name, row in rows.items() if name in chosen}
        for kind, rows in kinds.items()
    }
    return {**table, **left}  # type: ignore[typeddict-item]  # the same keys, fewer rows


def several(
    given: Foreign, name: str, what: str = "a str, a path or several", kinds: Foreign = _PATHS
) -> list[Foreign]:
    """Return a list from a single name, pattern or path, or from a sequence of these."""
    found = [given] if isinstance(given, (str, bytes, os.PathLike)) else given
    try:
        made = [*found]
    except TypeError:
        made = [found]
    for one in made:
        if not isinstance(one, kinds):
            raise TypeError(f"{name!r} must be {what} (got {type(one).__name__})")
    return made


_editions: list[tuple[object, ...]] = []


def edition() -> tuple[object, ...]:
    """Return everything that determines a table or its format, except the text."""
    if not _editions:
        folder = os.path.dirname(__file__)
        here = []
        for one in (folder, os.path.join(os.path.dirname(folder), "_types")):
            with os.scandir(one) as found:
                here += sorted([file.path for file in found if file.name.endswith(".py")])
        # Importing cffi would take longer than reading a cached table.
        from _frozen_importlib_external import PathFinder  # importlib.machinery imports more

        spec = PathFinder.find_spec("_cffi_backend")
        # There is no file if Python itself contains the module.
        cffi = [] if spec is None or spec.origin is None else [spec.origin]
        files = [
            (path, status.st_size, status.st_mtime_ns)
            for path in (*here, _lib.FILE, *cffi)
            for status in [os.stat(path)]
        ]
        abi = sys.implementation.cache_tag, sys.hexversion, getattr(sys, "abiflags", "")
        _editions.append((__version__, *abi, *files))
    return _editions[0]
