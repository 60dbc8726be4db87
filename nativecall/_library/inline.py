"""Inline functions of headers: compile them with a C compiler, and look them up in the result.

All inline functions of a library's headers are compiled together, since they may share static
variables. For most headers, one compiler run suffices. If the compiler fails, the list is halved
until the functions that fail are found. The other functions are compiled without them.
"""

from __future__ import annotations

import os
import sys

from .. import _ext, _lib
from .._cdecl.declarations import edition
from .._errors import TYPE_CHECKING, LibraryError, SignatureError, SymbolError
from .._locate import NEEDED, open_bytes
from .._types.ctype import WORD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .._cdecl.declarations import Declarations
    from .._cdecl.preprocessor import Wanted
    from .._ext import Foreign
    from .._ext import Library as OpenLibrary


PREFIX = "nativecall_inline_"  # prefix of the names of pointers to the functions


def found(
    name: str, declarations: Declarations, opened: OpenLibrary | None, path: str | None
) -> tuple[OpenLibrary, int]:
    """Return the library that contains an inline function, and the function's address.

    `opened` is the shared object from an earlier compilation.
    """
    if opened is None or not _lib.library_symbol(opened, PREFIX + name):
        try:
            opened = _together(name, declarations, opened is None, path)
        except (SignatureError, LibraryError) as error:
            raise SymbolError(_reason(error, name), name) from None
    pointer = _lib.library_symbol(opened, PREFIX + name)
    if not pointer:
        raise SymbolError(f"{name!r} is an inline function that was not compiled", name)
    address: Foreign = _ext.load_scalar("Q" if WORD == 8 else "I", pointer)
    return opened, address


def _together(
    name: str, declarations: Declarations, is_first: bool, path: str | None
) -> OpenLibrary:
    """Compile a function with all others that compile, since they may share static variables."""
    if declarations.compiled is not None:
        return open_bytes(declarations.compiled, path)
    names = sorted({*several(declarations), name})
    try:
        return _made(declarations, names, path)
    except SignatureError:
        # After the first request, only `name` is new: a library with all others is already open.
        without = _refused(names, declarations, path) if is_first else {name: ""}
        if name in without:
            return _made(declarations, [name], path)  # raises an error with the reason
        return _made(declarations, [one for one in names if one not in without], path)


def refused(
    declarations: Declarations, handle: OpenLibrary | None, path: str | None
) -> dict[str, str]:
    """Return the reasons why inline functions of the headers are unavailable, by name."""
    return _refused(_lacking(declarations, handle), declarations, path)


def compiled(
    declarations: Declarations, handle: OpenLibrary, path: str | None
) -> tuple[bytes | None, dict[str, str]]:
    """Return a shared object with all available inline functions, or None if there are none.

    Also return why the other functions are unavailable.
    """
    lacking = _lacking(declarations, handle)
    reasons = _refused(lacking, declarations, path)
    names = [name for name in lacking if name not in reasons]
    return _object(declarations, names, path) if names else declarations.compiled, reasons


def _lacking(declarations: Declarations, handle: OpenLibrary | None) -> list[str]:
    """Return the inline functions that the library does not export; [] without known headers."""
    names = [] if declarations.wanted is None else several(declarations)
    return [name for name in names if handle is None or not _lib.library_symbol(handle, name)]


def _refused(names: Sequence[str], declarations: Declarations, path: str | None) -> dict[str, str]:
    try:
        if names:
            _made(declarations, names, path)
    except LibraryError as error:
        return {name: _reason(error) for name in names}
    except SignatureError as error:
        if len(names) == 1:
            return {names[0]: _reason(error)}
        half = len(names) // 2
        parts = [_refused(part, declarations, path) for part in (names[:half], names[half:])]
        return {name: reason for part in parts for name, reason in part.items()}
    return {}


def several(declarations: Declarations) -> list[str]:
    """Return the inline functions that are compiled together."""
    names = declarations.inlines & declarations.rows.keys()
    return sorted(names - declarations.symbols.keys())


def _made(declarations: Declarations, names: Sequence[str], path: str | None) -> OpenLibrary:
    """Compile inline functions and open the result; raise SignatureError if one is unavailable."""
    made = _object(declarations, names, path)
    try:
        return open_bytes(made, path)
    except LibraryError as error:
        reason = str(error).rpartition(".so: ")[2]
        raise SignatureError(f"the loader rejects it: {reason}") from None


def _reason(error: Exception, name: str = "") -> str:
    if isinstance(error, LibraryError):
        return f"{name!r} cannot be offered: {error}" if name else str(error)
    return f"{name!r} is an inline function: {error}" if name else f"an inline function: {error}"


# -- compilation -----------------------------------------------------------------------------------


def _object(declarations: Declarations, names: Sequence[str], path: str | None) -> bytes:
    """Return a shared object with a pointer to each function in `names`.

    Each pointer is named `PREFIX` plus the function's name.

    Parameters
    ----------
    declarations : Declarations
        The declarations of headers.
    names : sequence of str
    path : str or None
        The library whose symbols the functions may use. They may also use symbols of the libraries
        that this library needs. Only the loader can tell whether those symbols exist.

    Raises
    ------
    LibraryError
        If there is no compiler.
    SignatureError
        If the compiler rejects the functions, or a file has changed since it was read.
    """
    from .. import _cache
    from .._cdecl.header import stamp
    from .._cdecl.preprocessor import compiler, identity

    wanted, read = declarations.wanted, declarations.stamps
    assert wanted is not None, "declarations of a library were read for it"
    # The included files, with their stamps at the time of reading (_cdecl/header.py).
    files = {file: read[file] for file in declarations.files if file in read}
    command = compiler()
    if command is None:
        raise LibraryError(
            "an inline function needs a C compiler, but none was found (cc, gcc, clang)"
        )
    _check_unchanged(files)
    library = path if path is not None and os.path.isfile(path) else None
    stamps = [*files.items()]
    if library is not None:
        stamps.append((library, stamp(library)))
    told = repr(("inlines", edition(), identity(command), wanted, names, stamps))
    key = _cache.hashed(told.encode(errors="backslashreplace")).digest()
    made = _cache.shared().get(key)
    if made is None:
        made = _compile(command, wanted, names, library)
        _check_unchanged(files)
        _cache.shared().put(key, made)
    return made


def _check_unchanged(files: Mapping[str, object]) -> None:
    from .._cdecl.header import stamp

    for file, before in files.items():
        if stamp(file) != before:
            raise SignatureError(f"{file!r} has changed since it was read; load the library again")


def _compile(
    command: Sequence[str], wanted: Wanted, names: Sequence[str], library: str | None
) -> bytes:
    import tempfile

    from .._cdecl.preprocessor import call, complaint, options, source

    lines = [source(wanted)]
    for name in names:
        lines.append(
            f"#undef {name}\nextern __typeof__({name}) {name};\n"
            f"__typeof__({name}) *const {PREFIX}{name} = {name};\n"
        )
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "inlines.so")
        linked = [] if library is None else [library]
        if sys.platform == "linux" and library is not None:
            os.symlink(library, os.path.join(folder, NEEDED))
            # A symbol may be defined by another library that `library` depends on.
            linked = [f"-L{folder}", "-Wl,--no-as-needed,-rpath,$ORIGIN", f"-l:{NEEDED}"]
        given = [*command, "-shared", "-fPIC", "-O2", "-w", *options(wanted)]
        done = call([*given, "-x", "c", "-", "-x", "none", *linked, "-o", out], "".join(lines))
        if done.returncode == 0 and os.path.exists(out):
            with open(out, "rb") as file:
                return file.read()
    found = complaint(done.stderr)
    said = done.stderr.strip().rpartition("\n")[2][:200] if found is None else found[2]
    reason = said or f"{command[0]!r} exited with status {done.returncode} and no message"
    raise SignatureError(f"the C compiler rejects it: {reason}")
