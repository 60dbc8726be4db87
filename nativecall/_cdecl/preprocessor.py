"""Run headers through the C compiler's preprocessor.

`preprocess` returns the preprocessed text and the definitions of macros. `Scanned` splits this text
into tokens with positions, and lists the macros and the files. If a header is not found,
`preprocess` raises `LibraryError`; for other errors in headers, it raises `SignatureError`. Errors
inside a header name its file and the line.
"""

from __future__ import annotations

import os

from .._errors import TYPE_CHECKING, LibraryError, SignatureError
from .._rows import NamedTuple
from .._types.ctype import WORD
from .lexer import DIGRAPHS, macro, tokenizer, with_pragmas, without_comments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from subprocess import CompletedProcess

    from .lexer import Macro


class Wanted(NamedTuple):
    """What to read: `text` or, if it is None, `headers` by name or absolute path."""

    headers: tuple[str, ...]
    include: tuple[str, ...]
    define: tuple[tuple[str, str | None], ...]
    text: str | None


SEARCHED = ("CPATH", "C_INCLUDE_PATH")  # environment variables with include directories
_ENVIRONMENT = (*SEARCHED, "GCC_EXEC_PREFIX", "COMPILER_PATH", "SDKROOT", "SYSROOT")
_SENTINEL = "__nc_expanded_"
# Limits for the compiler's process. A limit that cannot be set is skipped.
_LIMITS = "ten seconds of the processor's time and 2 GiB"
_LIMITED = 'ulimit -t 10 2>/dev/null; ulimit -v 2097152 2>/dev/null; exec "$@"'


def compiler() -> list[str] | None:
    """Return the C compiler's command: ``$CC``, else cc, gcc or clang; None if none exists.

    Raises
    ------
    LibraryError
        If ``$CC`` names no program.
    """
    command = os.environ.get("CC", "").split()
    for name in command[:1] or ["cc", "gcc", "clang"]:
        folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
        for folder in [""] if os.path.dirname(name) else folders:
            path = os.path.join(folder, name)
            # shutil.which would work, but importing it takes longer than a load from the cache.
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return [path, *command[1:]]
    if command:
        raise LibraryError(f"CC is {command[0]!r}, but there is no such program")
    return None


def identity(command: Sequence[str]) -> tuple[object, ...]:
    """Return a key that identifies a compiler and its environment."""
    path = os.path.realpath(command[0])
    status = os.stat(path)
    environment = [os.environ.get(name) for name in _ENVIRONMENT]
    return (*command, path, status.st_size, status.st_mtime_ns, *environment)


def source(wanted: Wanted) -> str:
    """Return the C source to read."""
    if wanted.text is not None:
        return str(wanted.text) + "\n"
    return "".join(
        f'#include "{name}"\n' if os.path.isabs(name) else f"#include <{name}>\n"
        for name in wanted.headers
    )


def options(wanted: Wanted) -> list[str]:
    """Return the compiler options for include paths and defines."""
    defines = [
        f"-D{name}={text}" if text is not None else f"-D{name}" for name, text in wanted.define
    ]
    return [*[f"-I{path}" for path in wanted.include], *defines]


def preprocess(wanted: Wanted, names: Sequence[str] = ()) -> str:
    """Return the preprocessed headers, with the definitions of macros.

    With `names`, return the expansions of these names instead, as text for `expansions`.
    """
    lines = "".join(f"{_SENTINEL}{at} {name}\n" for at, name in enumerate(names))
    command = compiler()
    if command is None:
        raise LibraryError(
            "reading a header needs a C compiler, but none was found (cc, gcc, clang or $CC); "
            "declarations given as text need none"
        )
    arguments = [*command, "-E", "-x", "c", *([] if names else ["-dD"]), *options(wanted), "-"]
    done = call(arguments, source(wanted) + lines)
    if done.returncode != 0:
        raise _error(done.stderr, command[0], done.returncode)
    if not names and "#define __STDC__" not in done.stdout:
        raise LibraryError(f"{command[0]!r} is not a C compiler: it printed no macros of its own")
    return done.stdout


def call(arguments: Sequence[str], text: str) -> CompletedProcess[str]:
    """Run a compiler on a text, with messages in English.

    Time and memory are limited, because macros that double their text could exhaust any machine.
    """
    import subprocess

    environment = {**os.environ, "LC_ALL": "C"}
    environment.pop("LD_PRELOAD", None)  # meant for Python; may exceed the memory limit
    limited = ["sh", "-c", _LIMITED, "sh"] if os.name == "posix" else []
    try:
        return subprocess.run(
            [*limited, *arguments],
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            env=environment,
            check=False,
        )
    except OSError as error:
        raise LibraryError(f"the C compiler {arguments[0]!r} cannot be run: {error}") from None


def expansions(text: str) -> dict[int, str]:
    """Map the position of each name given to `preprocess` to the name's expansion."""
    found: dict[int, list[str]] = {}
    current: list[str] = []
    for line in text.split("\n"):
        if line[:1] == "#":
            continue
        if line.startswith(_SENTINEL):
            number, _, rest = line[len(_SENTINEL) :].partition(" ")
            current = found[int(number)] = [rest]
        else:
            current.append(line)
    return {at: " ".join(lines) for at, lines in found.items()}


def complaint(stderr: str) -> tuple[str, str, str] | None:
    """Return the first error that a compiler printed: the file, the line and the message."""
    import re

    found = re.search(r"^(.+?):(\d+):(?:(\d+):)? (?:fatal )?error: (.*)$", stderr, re.MULTILINE)
    if found is None:
        return None
    column = f", column {found[3]}" if found[3] else ""
    return found[1], f"{found[2]}{column}", found[4]


def _error(stderr: str, command: str, status: int) -> Exception:
    import re

    found = complaint(stderr)
    if found is None:
        said = stderr.strip().partition("\n")[0][:200]
        said = said or f"it exited with status {status} and no message"
        is_much = status < 0 or re.search("memory|[Kk]illed", said)
        hint = f"its limits are {_LIMITS}: do macros expand exponentially?" if is_much else None
        reason = f"the C compiler {command!r} cannot read the headers: {said}"
        return SignatureError(reason, hint=hint)
    file, line, message = found
    missing = re.match(r"'?([^':]+)'?(?:: No such file or directory| file not found)", message)
    if missing is not None:
        return not_found(missing[1], file, line)
    if "nested" in message:
        message = f"headers include each other without end ({message})"
        return SignatureError(f"{message}, at line {line} of {file!r}")
    hint = "pass macros that a header needs in 'define'" if "#error" in message else None
    return SignatureError(f"{message.rstrip('.')}, at line {line} of {file!r}", hint=hint)


def not_found(name: str, file: str, line: str) -> LibraryError:
    """Return the error for a header that `file` includes and the compiler does not find."""
    if file in ("<stdin>", ""):
        advice = "install the package that has it, or name its folder with 'include'"
        if os.path.exists(name) and not os.path.isabs(name):
            advice = f"for the file in the current folder write {os.path.join('.', name)!r}"
        if os.path.isdir(name):
            return LibraryError(f"header {name!r} is a folder; name the file in it")
        return LibraryError(f"header {name!r} is not found; {advice}")
    return LibraryError(
        f"header {name!r} is not found, which {file!r} includes at line {line}; "
        "name its folder with 'include'"
    )


class Scanned:
    """A preprocessed text as tokens.

    Attributes
    ----------
    tokens : list of str
        ``#pragma pack`` is one token, whether it is a line or a ``_Pragma``.
    macros : dict of str to Macro
        The final definitions. Macros of the compiler and of `define` have file -1.
    files : list of str
    """

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        self.macros: dict[str, Macro] = {}
        self._starts: list[int] = []
        self._places: list[tuple[int, int]] = []
        # Compilers keep digraphs, and escape non-ASCII names with backslashes.
        if any([mark in text for mark in ("\\u", "\\U", *DIGRAPHS)]):
            text = without_comments(text)
        find = tokenizer()
        numbers: dict[str, int] = {}
        tokens, starts, places = self.tokens, self._starts, self._places
        file = line = -1
        for content in text.split("\n"):
            directive = content.lstrip()
            if directive[:1] != "#":
                found = find(content)
                if "_Pragma" in found:
                    found = [token for _, token in with_pragmas(found)]
                if found:
                    starts.append(len(tokens))
                    places.append((file, line))
                    tokens += found
                line += 1
                continue
            word, rest = [*directive[1:].split(None, 1), "", ""][:2]
            if word.isdecimal():
                marker = rest.split('"')
                line = int(word) - 1
                name = marker[1].replace("\\\\", "\\") if len(marker) > 1 else ""
                inside = name and name[0] != "<"
                file = numbers.setdefault(name, len(numbers)) if inside else -1
            elif word == "define":
                defined = macro(rest, file, line)
                if defined is not None:
                    self.macros[defined[0]] = defined[1]
            elif word == "undef":
                self.macros.pop(rest.strip(), None)
            elif word == "pragma" and rest[:4] == "pack":
                starts.append(len(tokens))
                places.append((file, line))
                tokens.append(f"#pragma {rest}")
            line += 1
        self.files: list[str] = [*numbers]

    def place(self, token: int) -> tuple[int, int]:
        """Return the file index and the line of a token."""
        from bisect import bisect_right

        at = bisect_right(self._starts, token) - 1
        return self._places[at] if at >= 0 else (-1, 0)

    def placed(self, error: Exception, token: int) -> SignatureError:
        """Return the error with the place of the token `error.at` or, if unset, of `token`."""
        named = getattr(error, "at", None)
        file, line = self.place(token if named is None else named)
        where = f", at line {line} of {self.files[file]!r}" if file >= 0 else ""
        return SignatureError(f"{getattr(error, 'reason', error)}{where}")


def check_machine(text: str) -> None:
    """Reject a compiler whose pointer size differs from Python's."""
    import re

    found = re.search(r"^#define __SIZEOF_POINTER__ (\d+)", text, re.MULTILINE)
    if found is not None and int(found[1]) != WORD:
        raise LibraryError(
            f"the C compiler's pointers have {8 * int(found[1])} bits, Python's {8 * WORD}; "
            "set CC to a compiler for this machine"
        )
