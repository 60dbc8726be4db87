"""Find directories where a new file could shadow an included header.

`folders` returns the directories of the include path, the environment and the compiler's command
line. It also returns:

- the directory of a file whose quoted include was found elsewhere;
- for ``__has_include``, the tested file or, if it is missing, the system's directories;
- a dangling link where a header could be; the headers are then not cached.

Two cases are not covered: the compiler's default directories, except the system's for
``__has_include``; and names that macros pass to ``#include`` or ``__has_include``.
"""

from __future__ import annotations

import os
import re
import sys

from .._errors import TYPE_CHECKING
from .preprocessor import SEARCHED, compiler

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .preprocessor import Wanted

_BLANK = rb"(?:\s|/\*(?:[^*]|\*(?!/))*\*/)*"  # a comment matches in one way only: no backtracking
_DIRECTIVE = re.compile(
    rb"^%b(?:\#|%%:)%b(?:include|include_next|import)%b"
    % (_BLANK, _BLANK, _BLANK)
    + rb"""(["<])([^">\n]+)[">]"""
    rb"""|(__has_include(?:_next)?)[ \t_]*\([ \t]*(["<])([^">\n]+)[">]"""
)
_OPTIONS = ("-I", "-iquote", "-isystem", "-idirafter")  # options that take a directory
_WORDS = (b"include", b"import")  # every match contains one of them
_MULTIARCH = getattr(sys.implementation, "_multiarch", "")
_SYSTEM = ("/usr/local/include", f"/usr/include/{_MULTIARCH}", "/usr/include")


def folders(files: Sequence[str], wanted: Wanted) -> list[str]:
    """Return the directories where a new file could change the result of reading `files`.

    The list also contains files that a header tests with ``__has_include``. In place of a missing
    directory, it contains the nearest existing parent, which changes when the directory is created.
    """
    found = dict.fromkeys(map(_nearest, wanted.include))
    named = [
        folder or os.curdir
        for name in SEARCHED
        if (text := os.environ.get(name))
        for folder in text.split(os.pathsep)
    ]
    before = [*wanted.include, *named, *_told((compiler() or [])[1:])]
    for name in wanted.headers:
        if not os.path.isabs(name):
            found.update(dict.fromkeys(_places(before, name)))
    for beside, read in [(os.path.dirname(file), _text(file)) for file in files]:
        for is_asked, is_quoted, name in _named(read):
            searched = [*before]
            if is_quoted:
                own = os.path.join(beside, name)
                if os.path.exists(own):
                    if is_asked:
                        found[own] = None
                    continue
                searched.append(beside)
            if is_asked:
                there = [os.path.join(one, name) for one in (*before, *_SYSTEM)]
                first = next(filter(os.path.exists, there), None)
                if first is not None:
                    found[first] = None
                else:
                    searched += _SYSTEM
            found.update(dict.fromkeys(_places(searched, name)))
    return [*found]


def _named(text: bytes) -> Iterator[tuple[bool, bool, str]]:
    """Yield the headers that a text names.

    Each item is (whether the text only tests for the header, whether its name is in quotes, the
    name). The regular expression runs only on lines with one of the words in `_WORDS`. On a whole
    long header, it would take as long as the preprocessor.
    """
    for word in _WORDS:
        at = text.find(word)
        while at >= 0:
            start, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
            while text[start - 2 : start] == b"\\\n":
                start = text.rfind(b"\n", 0, start - 1) + 1
            while end > 0 and text[end - 1 : end] == b"\\":
                end = text.find(b"\n", end + 1)
            end = len(text) if end < 0 else end
            line = text[start:end].replace(b"\\\n", b"")
            for quote, name, asked, asked_quote, asked_name in _DIRECTIVE.findall(line):
                yield bool(asked), b'"' in (quote, asked_quote), os.fsdecode(name or asked_name)
            at = text.find(word, end)


def _told(options: Sequence[str]) -> list[str]:
    """Return the include directories in compiler options."""
    found = []
    for at, option in enumerate(options):
        for name in _OPTIONS:
            if option.startswith(name):
                found.append(option[len(name) :] or "".join(options[at + 1 : at + 2]))
    return [folder for folder in found if folder]


def _places(folders: Sequence[str], name: str) -> Iterator[str]:
    """Yield the directories where a header could be, or their nearest existing parents.

    Also yield the header's path in each directory if this path is a dangling link.
    """
    for folder in folders:
        path = os.path.join(folder, name)
        yield _nearest(os.path.dirname(path))
        if os.path.islink(path) and not os.path.exists(path):
            yield path


def _nearest(folder: str) -> str:
    folder = folder.rstrip(os.sep) or folder[:1]
    while folder and not os.path.isdir(folder) and not os.path.islink(folder):
        folder = os.path.dirname(folder)
    return folder or os.curdir


def _text(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except OSError:
        return b""
