"""Where headers were looked for: the folders that a file may come to which would be read from then
on.

`folders` gives those of the include paths and of the environment, and those beside a file that
includes another which is elsewhere; where a header asks whether a file is there that is not, the
system's, too. What is not known: the folders of the compiler's own that it searches before the
system's, and names that macros give to an ``#include``.
"""

from __future__ import annotations

import os
import re
import sys

from .preprocessor import SEARCHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .preprocessor import Wanted

_DIRECTIVE = re.compile(
    rb"""^[ \t]*\#[ \t]*(?:include|include_next|import)[ \t]*(["<])([^">\n]+)[">]"""
    rb"""|(__has_include(?:_next)?)[ \t_]*\([ \t]*(["<])([^">\n]+)[">]"""
)
_WORDS = (b"include", b"import")  # one of them is in every match
_MULTIARCH = getattr(sys.implementation, "_multiarch", "")
_SYSTEM = ("/usr/local/include", f"/usr/include/{_MULTIARCH}", "/usr/include")


def folders(files: Sequence[str], wanted: Wanted) -> list[str]:
    """The folders, of which all that is read depends besides `files`.

    A folder that is not there yet is in one that changes when it is made.
    """
    found = dict.fromkeys(map(_nearest, wanted.include))
    named = [
        folder or os.curdir
        for name in SEARCHED
        if (text := os.environ.get(name))
        for folder in text.split(os.pathsep)
    ]
    before = [*wanted.include, *named]
    for name in wanted.headers:
        if not os.path.isabs(name):
            found.update(dict.fromkeys([_holder(folder, name) for folder in before]))
    texts = [("", wanted.text.encode(errors="replace"))] if wanted.text is not None else []
    for beside, text in [*texts, *[(os.path.dirname(file), _text(file)) for file in files]]:
        for is_asked, is_quoted, name in _named(text):
            searched = [*before]
            if is_quoted:
                if os.path.exists(os.path.join(beside, name)):
                    continue
                searched.append(beside)
            if is_asked:
                everywhere = [*before, *_SYSTEM]
                there = [os.path.join(one, name) for one in everywhere]
                if not any(map(os.path.exists, there)):
                    searched += _SYSTEM
            found.update(dict.fromkeys([_holder(folder, name) for folder in searched]))
    return [*found]


def _named(text: bytes) -> Iterator[tuple[bool, bool, str]]:
    """The headers that a text names: whether it only asks for one, whether in quotes, the name.

    The expression reads only the lines that have one of the words: over the whole of a long
    header it would take as long as the preprocessor.
    """
    for word in _WORDS:
        at = text.find(word)
        while at >= 0:
            end = text.find(b"\n", at)
            end = len(text) if end < 0 else end
            line = text[text.rfind(b"\n", 0, at) + 1 : end]
            for quote, name, asked, asked_quote, asked_name in _DIRECTIVE.findall(line):
                yield bool(asked), b'"' in (quote, asked_quote), os.fsdecode(name or asked_name)
            at = text.find(word, end)


def _holder(folder: str, name: str) -> str:
    """The folder that a header would be in, or the nearest one that is there."""
    return _nearest(os.path.join(folder, os.path.dirname(name)))


def _nearest(folder: str) -> str:
    folder = folder.rstrip(os.sep) or folder[:1]
    while folder and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder or os.curdir


def _text(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except OSError:
        return b""
