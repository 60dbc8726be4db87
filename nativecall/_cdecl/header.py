"""Read declarations from a library's headers, and cache the result on disk.

`read` checks the cache first. An entry is for one compiler, its options and environment. It becomes
invalid if an included file changes, or if a directory changes where a new file could shadow an
include (searched.py). Without a valid entry, `read` runs the preprocessor and the parser.
Declarations that cannot be used are skipped; the table's `skipped` gives the reasons. If a file may
have changed during the read, nothing is cached. `read` also accepts declarations as text, without a
compiler.
"""

from __future__ import annotations

import marshal
import os
import time

from .. import _cache
from .._errors import TYPE_CHECKING, LibraryError
from .declarations import Declarations, edition, offered, several
from .preprocessor import SEARCHED, Wanted, compiler, identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .._ext import Foreign
    from .declarations import Table
    from .typenames import TypeNames

    Stamp = tuple[int, int, int, int] | None

#: Nanoseconds by which a file's timestamp may be too early: one tick of the kernel's clock.
_TICK = 10_000_000


def wanted(
    header: object, include: object, define: Mapping[str, object], text: str | None = None
) -> Wanted:
    """Return the arguments of `load` as plain data; raise TypeError or ValueError if invalid."""
    headers = [] if header is None else several(header, "header")
    if not headers and header is not None:
        raise ValueError("'header' must name at least one header")
    names = []
    for one in headers:
        path = os.fspath(one)
        is_path = not isinstance(one, str) or path.startswith((".", os.sep))
        if not path or any([mark in path for mark in '\n\r\0">']):
            raise ValueError(f"'header' must be the name or path of a header (got {path!r})")
        names.append(os.path.abspath(path) if is_path else path)
    folders = [os.path.abspath(os.fspath(one)) for one in several(include, "include")]
    defines = []
    for name, value in define.items():
        if not isinstance(name, str) or not name.partition("(")[0].isidentifier():
            raise ValueError(f"'define' must name macros (got {name!r})")
        if value is not None and not isinstance(value, (str, int)):
            raise TypeError(
                "'define' must give text, integers or None "
                f"(got {type(value).__name__} for {name!r})"
            )
        defines.append((name, str(int(value)) if isinstance(value, int) else value))
    text = str.__str__(text) if isinstance(text, str) else text  # a subclass may override methods
    return Wanted(tuple(names), tuple(folders), tuple(defines), text)


def read(
    wanted: Wanted,
    only: Sequence[str] | str | None = None,
    skip: bool = True,
    names: TypeNames | None = None,
) -> Declarations:
    """Read the declarations of headers or of a text.

    Parameters
    ----------
    wanted : Wanted
    only : str or sequence of str, optional
        Names, or fnmatch patterns of names, to which the result is limited.
    skip : bool
        Whether to skip declarations that cannot be used, instead of raising an error.
    names : TypeNames, optional
        Types that a text may use without declaring them.
    """
    command: list[str] | None = None
    missing = None
    if wanted.text is None:  # a text is read without a compiler
        try:
            command = compiler()
        except LibraryError as error:
            missing = error
    strict = wanted.text is not None and only is None and not skip
    key, of_any = [_key(wanted, one, strict) for one in (command, None)]
    # With `names`, the meaning of a text depends on types that are not in the key.
    found = None if names is not None and wanted.text is not None else _kept(key)
    if found is None:
        if missing is not None:
            raise missing
        began = time.time_ns()
        stamps, table = _read(wanted, names, strict)
        said = repr((key, table)).encode(errors="backslashreplace")
        digest = _cache.hashed(said).digest()
        if names is None and not _changed_since(began, stamps):
            made_of = marshal.dumps((stamps, digest, _shared(table)))
            for one in {key, of_any}:  # a process without a compiler looks up `of_any`
                _cache.shared().put(one, made_of)
    else:
        stamps, digest, table = found
    made = offered(table, digest, only, skip or strict, wanted)
    made.stamps = stamps
    return made


def _shared(table: Table) -> dict[str, Foreign]:
    """Return a table in its cached form: equal parts of function rows share one object."""
    parts: dict[object, object] = {}
    rows: dict[str, Foreign] = {
        name: (*[parts.setdefault(part, part) for part in row[:-1]], row[-1])
        for name, row in table["functions"].items()
    }
    return {**table, "functions": rows}


def _key(wanted: Wanted, command: Sequence[str] | None, strict: bool) -> bytes:
    """Return a table's cache key; without `command`, the key of the latest from any compiler."""
    whose = None if command is None else identity(command)
    told = repr(("headers", edition(), whose, wanted, strict, _place(wanted, command)))
    return _cache.hashed(told.encode(errors="backslashreplace")).digest()


def _place(wanted: Wanted, command: Sequence[str] | None) -> str | None:
    """Return the current directory if compiler options or the environment may refer to it."""
    if len(command or ()) < 2 and not any(map(os.environ.get, SEARCHED)):
        return None
    try:
        return os.getcwd()
    except OSError:
        return None  # the directory was deleted


def _kept(key: bytes) -> tuple[dict[str, Stamp], bytes, Table] | None:
    """Return the cached (file stamps, hash of the table, table); None if missing or outdated."""
    found = _cache.shared().get(key)
    if found is None:
        return None
    try:
        read: tuple[dict[str, Stamp], bytes, Table] = marshal.loads(found)
        stamps = read[0]  # items() would crash CPython 3.11 when out of memory
        if all([stamp(path) == stamps[path] for path in stamps]):
            return read
    except (ValueError, EOFError, TypeError, AttributeError):
        pass
    return None


def stamp(path: str) -> Stamp:
    """Return a stamp that changes with the file. It has ctime, which programs cannot set back."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _changed_since(began: int, stamps: dict[str, Stamp]) -> bool:
    """Return whether a file may have changed since `began`, so that stamp and text may disagree."""
    latest = began - _TICK
    return any([one is None or max(one[1:3]) >= latest for one in stamps.values()])


def _read(
    wanted: Wanted, names: TypeNames | None = None, strict: bool = False
) -> tuple[dict[str, Stamp], Table]:
    from .preprocessor import Scanned, check_machine, preprocess
    from .searched import folders
    from .source import CSource
    from .tables import table

    if wanted.text is not None:
        return {}, table(CSource(wanted.text, wanted.define), strict, names)
    text = preprocess(wanted)
    check_machine(text)
    scanned = Scanned(text)
    found = table(scanned, False, names, wanted)
    paths = *scanned.files, *folders(scanned.files, wanted)
    return {path: stamp(path) for path in paths}, found


def doc(file: str, line: int) -> str | None:
    """Return the comment that describes the declaration at a line of a header, if any.

    The first choice is a comment directly before the declaration. After a Doxygen comment, empty
    lines may precede the declaration. The second choice is a Doxygen comment directly after the
    declaration, such as ``/**< ... */``.

    Other comments describe something else: the license, a section, the previous declaration.
    """
    import re

    try:
        with open(os.fspath(file), encoding="utf-8", errors="replace") as opened:
            lines = opened.read().split("\n")
    except OSError:
        return None
    before, declared = lines[: line - 1], "\n".join(lines[line - 1 : line + 99])
    comment = _comment_before(before)
    if not comment:
        behind = r"[^;{]*;[ \t]*\n?[ \t]*(/\*[*!]<[\s\S]*?\*/|(?://[/!]<.*(?:\n[ \t]*|\Z))+)"
        found = re.match(behind, declared)
        comment = found[1] if found else ""
    if comment.startswith("/*"):
        comment = re.sub(r"\A/\*[*!]*<?|\**\*/\Z", "", comment)
        bare = [re.sub(r"^\s*\*+(?=\s|\Z)\s?|^\s+", "", one) for one in comment.split("\n")]
    else:
        bare = [re.sub(r"^\s*//[/!]*<? ?", "", one) for one in comment.split("\n")]
    return "\n".join([one.rstrip() for one in bare]).strip() or None


#: Words in Doxygen comments that do not describe the declaration after them.
_ABOUT_OTHERS = r"[@\\](?:file|\{|\}|name|\w*group)|copyright|licen[cs]e"


def _comment_before(lines: list[str]) -> str:
    """Return the comment at the end of some lines, if any.

    A comment that follows code on the same line is not returned, since it describes that code.
    """
    import re

    text = "\n".join(lines).rstrip()
    if text.endswith("*/"):
        start = text.rfind("/*")
        comment = text[start:]
        if text[text.rfind("\n", 0, start) + 1 : start].strip() or comment[3:4] == "<":
            return ""
        is_next = bool(lines[-1].strip())
        is_doxygen = comment[2] in "*!" and not re.search(_ABOUT_OTHERS, comment, re.IGNORECASE)
        return comment if is_next or is_doxygen else ""
    first = len(lines)
    while first and lines[first - 1].lstrip()[:2] == "//" and lines[first - 1].lstrip()[3:4] != "<":
        first -= 1
    return "\n".join([one.strip() for one in lines[first:]])
