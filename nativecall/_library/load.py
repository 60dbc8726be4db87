"""Implement `load`, which opens a shared library by name or path.

If you pass C declarations or headers, the functions in them become attributes of the library.
"""

from __future__ import annotations

import os
from _collections_abc import Mapping
from operator import index

from .. import _lib
from .._errors import TYPE_CHECKING, LibraryError, SignatureError, require, warn, wrong_type
from .._values.calloptions import refuse_unknown, spelled
from .library import Library as Opened
from .options import LIBRARY, NOTHING, LibraryOptions
from .symbol import opened
from .types import Types

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.resources.abc import Traversable
    from typing import Unpack

    from .._cdecl.declarations import Declarations
    from .._ext import Foreign
    from .._public import Library
    from .options import LoadOptions


def _again(name: str | None, declarations: str | None, options: dict[str, Foreign]) -> Library:
    """For `pickle`: load the library again."""
    return load(name, declarations, **options)


def _flags(given: object) -> int:
    try:
        flags = index(given)  # type: ignore[arg-type]  # refused below if not an int
    except TypeError:
        raise wrong_type("'flags'", "an int", given) from None
    if not 0 <= flags < 1 << 31:
        raise ValueError(f"'flags' must be flags of the loader, as os.RTLD_LAZY is (got {flags})")
    return flags


def _procedures(given: object) -> Foreign:
    """Return the option `fortran` as a bool, or as a mapping of names or patterns to True."""
    if isinstance(given, (bool, Mapping)):
        return given
    from .._cdecl.declarations import several

    wanted = "True, False, or names or patterns of functions"
    return dict.fromkeys(several(given, "fortran", wanted, str), True)


def _folders(given: object) -> list[str]:
    if given == ():
        return []
    from .._cdecl.declarations import several

    return [
        os.path.abspath(os.fspath(one)) for one in several(given, "folders", "a path or several")
    ]


@spelled(*LIBRARY)
def load(
    name: str | os.PathLike[str] | None,
    declarations: str | None = None,
    *,
    header: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    include: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    define: Mapping[str, str | int | None] = NOTHING,
    only: str | Sequence[str] | None = None,
    skip: bool | None = None,
    flags: int = 0,
    folders: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    types: Library | Types | None = None,
    frozen: str | os.PathLike[str] | Traversable | None = None,
    **options: Unpack[LoadOptions],
) -> Library:
    """Open a shared library.

    Parameters
    ----------
    name : str, path or None
        A linker name (``"m"``), a file name or a path. None means all libraries that the process
        has already loaded.
    declarations : str, optional
        C declarations: functions and variables, with the typedefs, structs and enums that they
        need. Functions, variables and constants become attributes of the library. No compiler is
        needed. Macros without parameters, ``#if`` and ``#pragma pack`` are evaluated; ``#include``
        is ignored.
    header : str, path or sequence of these, optional
        Headers to read the declarations from: a name as in ``#include <sqlite3.h>``, a path, or
        several of these. A `str` is a path if it begins with ``.`` or ``/``. Declarations of
        included headers count, too. Functions and variables are looked up on first use.
        Headers are read through the C compiler's preprocessor (``$CC``, otherwise cc, gcc or
        clang). The result is cached until there is a change to a header, or to a directory that the
        compiler searches before the header's directory. If a header changes while it is read, the
        result is not cached. A new header is not detected in one of the compiler's default
        directories. Nor is it detected in a directory that is searched only for an ``#include``
        whose name is a macro.
    include : path or sequence of paths
        Directories to search first for headers.
    define : mapping of str to str, int or None
        Macros for the headers, or for `declarations`.
    only : str or sequence of str, optional
        The declarations to use: names, or patterns such as ``"sqlite3_*"``. Others are ignored.
    skip : bool, optional
        Whether to skip declarations that cannot be used. `Library.skipped` lists the reasons. The
        default is True for headers and frozen files, or if you pass `only`. Otherwise, such
        declarations raise an error by default.
    options of calls
        The options of `wrap`, except `name`, `doc` and `owner`. Pass a value for all functions, or
        a mapping of names or patterns such as ``"sqlite3_*"`` to values. A name takes precedence
        over patterns, and the first matching pattern over later ones. An option for all functions,
        or for a pattern, applies only where it makes sense: ``errors="nonzero"`` to functions that
        return an integer, ``out=["info"]`` to functions with an argument ``info``. If macros give a
        function several names, the option applies to all of them. A name or a pattern that matches
        no declaration raises ValueError. So does an argument in `out` or `keep` that no function
        has.
    fortran : bool, str or sequence of str
        Whether the functions are Fortran procedures (see `wrap`), or the names or patterns of the
        Fortran procedures. You can also omit the ``_`` at the end of their names.
    version : str or mapping of str to str, optional
        Symbol versions by function name or pattern, or one version for all functions. See
        `Library.address`.
    free : str, callable or mapping of str to these, optional
        The destructor of returned pointers: the name of a function of the library, or a callable
        that takes one pointer. The keys are the names or patterns of the functions that return the
        pointers: ``free={"strdup": "free"}``. The destructor runs once, when the returned object is
        deleted. If you call the destructor yourself, it is not called again, and all functions
        reject the object from then on.
    close : str, sequence of str, or mapping of str to these, optional
        The functions of the library that close a handle. The keys are the names of the functions
        that return the handle: ``close={"fopen": "fclose"}``. After Python has called a closing
        function without an exception, all functions reject the handle. Their error names the
        function that closed it. You must close handles yourself; deleting the object does not close
        its handle. The check follows the Python object, not the address in it. So it does not cover
        handles that C writes to memory.
    types : Library or its types, optional
        Another library whose types `declarations` may use.
    flags : int
        Flags for the loader, such as ``os.RTLD_GLOBAL | os.RTLD_LAZY``; on Windows, flags of
        LoadLibraryEx. By default, symbols are bound immediately and visible to this library only.
    folders : path or sequence of paths
        Directories to search before the usual places, if `name` is a linker name.
    frozen : path, optional
        A file written by ``nativecall freeze`` or `Library.freeze`, which replaces the headers.
        Reading it needs no compiler and no cache. You can also pass a package resource from
        `importlib.resources`.

    Returns
    -------
    Library

    Raises
    ------
    LibraryError
        If the library cannot be loaded, a header is not found, or a frozen file is damaged or for
        another C ABI. A subclass of `OSError`.
    SymbolError
        If the library lacks a function of `declarations`; the message lists close matches. A
        subclass of `AttributeError`. With `header`, `frozen`, `only` or ``skip=True``, functions
        are looked up on first use instead.
    SignatureError
        If the declarations cannot be parsed, or the preprocessor rejects the headers.

    Examples
    --------
    >>> import nativecall
    >>> m = nativecall.load("m", "double pow(double, double);")
    >>> m.pow(2, 10)
    1024.0
    """
    if name is not None:
        name = os.fspath(name)
        require("'name'", name, str, "a str, a path or None")
        if not name or "\0" in name:
            raise LibraryError(f"'name' must be the name of a library (got {name!r})")
    if declarations is not None:
        require("'declarations'", declarations, str, "a str")
    if name and declarations and "(" in name and declarations.isidentifier():
        hint = f"the library comes first, as in load({declarations!r}, 'double cos(double);')"
        raise SignatureError(f"{declarations!r} declares nothing", hint=hint)
    if options.get("fortran") is not None:
        options["fortran"] = _procedures(options["fortran"])
    refuse_unknown(options, [*LIBRARY, *(load.__kwdefaults__ or ())])
    how = LibraryOptions(**options)
    if not hasattr(define, "items"):
        raise wrong_type("'define'", "a mapping", define)
    places = _folders(folders)
    said: dict[str, object] = {"header": header, "include": include, "define": {**define}}
    said |= {"only": only, "skip": skip, **how.given}
    flags = _flags(flags)
    said |= {"flags": flags, "folders": places, "types": types, "frozen": frozen}
    base = None
    if types is not None:
        require("'types'", types, (Opened, Types), "a library or its types")
        base = types._owner
    lenient = header is not None or frozen is not None or only is not None or bool(skip)
    skips = lenient and (skip is None or bool(skip))
    known: Declarations | None = None
    is_declared = lenient or declarations is not None
    if is_declared and [header, declarations, frozen].count(None) != 2:
        raise TypeError("one of 'declarations', 'header' and 'frozen' must be given")
    if frozen is not None:
        if include or define:
            raise TypeError("'include' and 'define' are for headers, not for a frozen file")
        from .frozen import read

        known = read(frozen, only, skips)
    elif is_declared:
        from .._cdecl import header as headers

        wanted = headers.wanted(header, include, define, declarations)
        known = headers.read(wanted, only, skips, None if base is None else base.names)
    given = _again, declarations, said
    handle = opened(name, flags, places)
    if known is not None and how:
        how.apply_to(known, lambda one: "\0" not in one and bool(_lib.library_symbol(handle, one)))
    library = Opened._opened(name, handle, known, given, how, base)
    if known is not None and how:
        how.refuse_unknown_arguments(known)
    if lenient:
        return library  # type: ignore[return-value]  # the public stub's Library
    if known is not None:
        named = known.functions.keys() - known.inlines
        for symbol in [known.symbols.get(one, one) for one in named]:
            if not _lib.library_symbol(library._open(), symbol):
                library.address(symbol)  # raises an error with the reason
        for symbol in {*known.functions, *known.variables} & {*dir(Opened)}:
            what, use = ("variable", f"address({symbol!r})")
            if symbol in known.functions:
                what, use = ("function", f"function({symbol!r})")
            message = f"the declared {what} {symbol!r} is hidden by Library.{symbol}; use {use}"
            warn(message, UserWarning)
    return library  # type: ignore[return-value]  # the public stub's Library
