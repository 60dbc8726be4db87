"""The inline functions of headers, compiled: one shared object for those of a library's headers.

`compiled` gives it as bytes, which are kept in the cache under everything that determines them.
"""

from __future__ import annotations

import os
import sys

from .. import _cache
from .._errors import LibraryError, SignatureError
from .declarations import edition
from .header import stamp
from .preprocessor import call, compiler, complaint, identity, options, source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .preprocessor import Wanted

PREFIX = "nativecall_inline_"  # begins the names of the pointers to the functions


def compiled(
    wanted: Wanted, files: Mapping[str, object], names: Sequence[str], path: str | None
) -> bytes:
    """A shared object with a pointer to each of the functions `names`, which are called `PREFIX`
    and the name.

    Parameters
    ----------
    wanted : Wanted
    files : mapping of str to tuple
        What the headers include, each as it was when it was read (header.py).
    names : sequence of str
    path : str or None
        The library, whose symbols the functions may use, and those of the libraries that it needs.
        Only the loader can tell whether they are there.

    Raises
    ------
    LibraryError
        When there is no compiler.
    SignatureError
        When it refuses the functions, or a file has changed since it was read.
    """
    command = compiler()
    if command is None:
        raise LibraryError(
            "an inline function needs a C compiler, and there is none (cc, gcc, clang)"
        )
    _check_unchanged(files)
    libraries = [path] if path is not None and os.path.isfile(path) else []
    stamps = [*files.items(), *[(file, stamp(file)) for file in libraries]]
    told = repr(("inlines", edition(), identity(command), wanted, names, stamps))
    key = _cache.hashed(told.encode(errors="backslashreplace")).digest()
    made = _cache.shared().get(key)
    if made is None:
        made = _compile(command, wanted, names, libraries)
        _check_unchanged(files)
        _cache.shared().put(key, made)
    return made


def _check_unchanged(files: Mapping[str, object]) -> None:
    for file, before in files.items():
        if stamp(file) != before:
            raise SignatureError(f"{file!r} has changed since it was read; load the library again")


def _compile(
    command: Sequence[str], wanted: Wanted, names: Sequence[str], libraries: list[str]
) -> bytes:
    import tempfile

    lines = [source(wanted)]
    for name in names:
        lines.append(
            f"#undef {name}\nextern __typeof__({name}) {name};\n"
            f"__typeof__({name}) *const {PREFIX}{name} = {name};\n"
        )
    # A library that has no symbol itself may need one that has it.
    complete = ["-Wl,--no-as-needed"] if sys.platform == "linux" else []
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "inlines.so")
        given = [*command, "-shared", "-fPIC", "-O2", "-w", *complete, *options(wanted)]
        done = call([*given, "-x", "c", "-", "-x", "none", *libraries, "-o", out], "".join(lines))
        if done.returncode == 0 and os.path.exists(out):
            with open(out, "rb") as file:
                return file.read()
    found = complaint(done.stderr)
    said = done.stderr.strip().rpartition("\n")[2][:200] if found is None else found[2]
    reason = said or f"{command[0]!r} ended with {done.returncode} without a word"
    raise SignatureError(f"the C compiler refuses it: {reason}")
