"""Shared libraries: their functions as native callables.

`load` opens a library by name or path; C declarations or headers, where they are given, say which
functions it has and how they are called. A library stays open as long as anything found in it
lives, whether or not it was closed meanwhile: closing only ends the looking-up.
"""

from __future__ import annotations

import os
from collections import namedtuple
from types import MappingProxyType

from . import _lib
from ._callable.callable import NativeCallable
from ._callable.wrap import plain, wrap
from ._errors import LibraryError, SignatureError, SymbolError
from ._locate import exported_like, find, open_bytes
from ._signature.ctype import Scalar
from ._signature.signature import Signature
from ._signature.spelling import parse
from ._values import boxes, callspec
from ._values.policies import DEFAULT, Policies, check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from ._callable.entry import Gil, HowCalled
    from ._signature.ctype import CType
    from ._signature.declared import Declarations
    from ._types import Library as OpenLibrary
    from ._values.failure import Errors
    from ._values.policies import Order

_PLAIN = (None, None, "hold", "none", False)  # options that say nothing
_POINTERS = ("pointer", "voidptr", "function")
# What C variables point to since they were assigned, by their addresses: it lives until another
# value is assigned, since C code may follow the pointer at any time.
_pointed: dict[int, list[object]] = {}


_Opened = _lib.types.Library


class Symbol(namedtuple("Symbol", ["handle", "library", "name", "place"])):
    """What owns a function that was found in a library: the open library and the names, and the
    file and line of a header that declares it, or None.

    Immutable, since the function's code is there as long as `handle` is.
    """

    __slots__ = ()
    handle: OpenLibrary
    library: str | None
    name: str
    place: tuple[str, int] | None

    def __repr__(self) -> str:
        return f"<symbol {self.name!r} of {self.library!r}>"

    def __copy__(self) -> Symbol:
        return self

    def __deepcopy__(self, memo: object) -> Symbol:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"cannot pickle {self!r}; pickle the function that it owns")

    def declaration(self, signature: Signature) -> str:
        """The function in C, with a signature, and the comment that the header has before it."""
        declared = signature.c_declaration(self.name)
        if self.place is None:
            return declared
        from ._signature.header import doc

        comment = doc(*self.place)
        return f"{declared}\n\n{comment}" if comment else declared

    def pickled(
        self, signature: Signature, name: str, doc: str | None, options: HowCalled
    ) -> tuple[object, ...]:
        """For `pickle`: how another process finds the function."""
        if self.library is None and self.place is not None:
            raise TypeError(f"cannot pickle {name!r}, which was compiled here; load it there")
        return _restore, (self.library, self.name, signature, name, doc, options)


def _again(name: str | None, declarations: str | None, options: dict[str, Any]) -> Library:
    """For `pickle`."""
    return load(name, declarations, **options)


def _restore(
    library: str | None,
    symbol: str,
    signature: Signature,
    name: str,
    doc: str | None,
    options: HowCalled,
) -> NativeCallable:
    return load(library).function(symbol, signature, name=name, doc=doc, **options)


class Library:
    """An open shared library. Made by `load`.

    Declared functions are attributes, made once; so are the constants of declared enums and
    macros. A declared variable that is a number or a pointer is read and assigned as an attribute;
    a struct or an array is a pointer to it. Nothing else can be assigned. ``library["close"]`` is
    what C calls `close`, which here is a method. Usable in a ``with`` statement, which closes it.

    Attributes
    ----------
    name : str or None
        As it was given to `load`.
    path : str or None
        The file, as far as the loader tells.
    declarations : Declarations or None
    """

    # For instances that were never initialised.
    name: str | None = None
    path: str | None = None
    declarations: Declarations | None = None
    _handle: OpenLibrary | None = None
    _given: tuple[object, ...] = ()
    _inlines: OpenLibrary | None = None
    _policies: Policies = DEFAULT

    def __init__(
        self,
        name: str | None,
        handle: OpenLibrary | None,
        declarations: Declarations | None,
        given: tuple[object, ...],
        policies: Policies,
    ) -> None:
        if not isinstance(handle, _Opened):
            raise TypeError("a Library is made by nativecall.load(name, declarations)")
        self.__dict__.update(
            name=name,
            path=_lib.library_path(handle),
            declarations=declarations,
            _handle=handle,
            _given=given,
            _hidden={},
            _policies=policies,
        )

    def __copy__(self) -> Library:
        return self

    def __deepcopy__(self, memo: object) -> Library:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        """By name and declarations: another process opens the library itself."""
        self._open()
        return _again, (self.path or self.name, *self._given)

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return self._handle is None

    def close(self) -> None:
        """End looking up. Functions found before stay usable, and keep the library open."""
        self.__dict__["_handle"] = None

    def __enter__(self) -> Library:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> OpenLibrary:
        if self._handle is None:
            raise LibraryError(f"library {self.name!r} is closed; load it again")
        return self._handle

    def address(self, symbol: str) -> int:
        """The address of a symbol, function or variable.

        Raises
        ------
        SymbolError
            An `AttributeError` that names close matches, when there is none.
        """
        if not isinstance(symbol, str):
            raise TypeError(f"'symbol' must be a str (got {type(symbol).__name__})")
        handle = self._open()
        # Lone surrogates are in no symbol.
        address = handle.symbol(symbol.encode(errors="replace")) if "\0" not in symbol else 0
        if address == 0:
            raise SymbolError.missing(
                symbol, self.name or "the process", exported_like(symbol, self._handle, self.path)
            )
        return address

    def function(
        self,
        symbol: str,
        signature: str | Signature | None = None,
        *,
        name: str | None = None,
        doc: str | None = None,
        gil: Gil = "hold",
        errors: Errors = "none",
        errno: bool = False,
        order: Order | None = None,
    ) -> NativeCallable:
        """A function of the library as a native callable.

        Parameters
        ----------
        symbol : str
        signature : str, optional
            May be left out for declared functions.
        name, doc, gil, errors, errno
            As for `wrap`.
        order : str, optional
            As for `wrap`; the library's by default.

        Examples
        --------
        >>> import nativecall
        >>> nativecall.load("m").function("cbrt", "d:d")(27)
        3.0
        """
        self._open()
        declared = None
        if self.declarations is not None and symbol in self.declarations.functions:
            declared = self.declarations.functions[symbol]
        if signature is None:
            if declared is None:
                self._raise_refused(symbol)
                raise TypeError(f"'signature' must be given: {symbol!r} is not declared")
            signature = declared
        elif declared is not None and parse(signature) != declared:
            raise SignatureError(
                f"'signature' is {parse(signature).text!r}, but {symbol!r} is declared as "
                f"{declared.text!r}"
            )
        signature = parse(signature)
        address, owner = self._found(symbol)
        policies = self._policies._replace(**check(order=order))
        if (name, doc, gil, errors, errno) == _PLAIN:
            return plain(address, callspec.of(signature, 0, policies), symbol, owner)
        return wrap(
            address,
            signature,
            name=name or symbol,
            doc=doc,
            owner=owner,
            gil=gil,
            errors=errors,
            errno=errno,
            **policies._asdict(),
        )

    def _found(self, name: str) -> tuple[int, Symbol]:
        """The address of a function by its name in C, and what owns it."""
        handle = self._open()
        declarations = self.declarations
        symbol, place = name, None
        if declarations is not None:
            symbol = declarations.symbols.get(name, name)
            if name in declarations.places:
                file, line = declarations.places[name]
                place = declarations.files[file], line
            if name in declarations.inlines and not _lib.library_symbol(handle, symbol):
                return self._inline(symbol, place)
        return self.address(symbol), Symbol(handle, self.path or self.name, symbol, place)

    def _inline(self, name: str, place: tuple[str, int] | None) -> tuple[int, Symbol]:
        """The address of an inline function, compiled with the others of the headers or alone."""
        from ._signature.inlines import PREFIX, compiled

        declarations = self.declarations
        assert declarations is not None
        assert declarations.wanted is not None
        given = declarations.wanted, declarations.files
        opened = self._inlines
        if opened is None or not _lib.library_symbol(opened, PREFIX + name):
            several = [name for name in declarations.inlines if name not in declarations.symbols]
            try:
                made = compiled(*given, sorted({*several, name}), self.path)
            except SignatureError:
                try:
                    made = compiled(*given, [name], self.path)
                except SignatureError as error:
                    raise SymbolError(f"{name!r} is an inline function: {error}", name) from None
            except LibraryError as error:
                raise SymbolError(f"{name!r} cannot be offered: {error}", name) from None
            self.__dict__["_inlines"] = opened = open_bytes(made)
        pointer = _lib.library_symbol(opened, PREFIX + name)
        address = int(_lib.ffi.cast("uintptr_t *", pointer)[0])
        return address, Symbol(opened, None, name, place or ("", 0))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self._named(name, self.__dict__)

    def __getitem__(self, name: str) -> Any:
        """What C calls `name`, also where a method is called so."""
        if not isinstance(name, str):
            raise TypeError(f"a library has names (got {type(name).__name__})")
        if hasattr(type(self), name) or name.startswith("__"):
            hidden: dict[str, object] = self.__dict__["_hidden"]
            return hidden[name] if name in hidden else self._named(name, hidden)
        return getattr(self, name)

    def _named(self, name: str, made: dict[str, object]) -> Any:
        """What C calls `name`; a function is remembered in `made`."""
        declarations = self.declarations
        if declarations is not None:
            row = declarations.rows.get(name)
            if row is not None:
                address, owner = self._found(name)
                function = plain(address, callspec.of_row(row, self._policies), name, owner)
                made[name] = function
                return function
            if name in declarations.constants:
                return declarations.constants[name]
            if name in declarations.pointers:
                return self._pointer_constant(*declarations.pointers[name])
            if name in declarations.variables:
                return self._variable(name, declarations.variables[name])
            self._raise_refused(name)
        if self._handle is not None and _lib.library_symbol(self._handle, name):
            raise SymbolError(
                f"{name!r} of library {self.name!r} has no declaration; "
                f"use function({name!r}, signature)",
                name,
            )
        self._open()
        known: list[str] = []
        if declarations is not None:
            known = [*declarations.functions, *declarations.constants, *declarations.variables]
        raise SymbolError.missing(
            name, self.name or "the process", known or exported_like(name, self._handle, self.path)
        )

    @property
    def skipped(self) -> dict[str, str]:
        """What the declarations have and cannot be offered: reasons by name.

        Asking for such a name is a `SymbolError` with the reason.
        """
        declarations = self.declarations
        if declarations is None:
            return {}
        refused = {name: error.reason for name, error in declarations.refused.items()}
        return {**declarations.skipped, **refused}

    def _raise_refused(self, name: str) -> None:
        """Raise why nothing was made of a declaration."""
        declarations = self.declarations
        if declarations is None:
            return
        if name in declarations.refused:
            from copy import copy

            raise copy(declarations.refused[name])
        if name in declarations.skipped:
            reason = declarations.skipped[name]
            raise SymbolError(f"{name!r} of library {self.name!r} is left out: {reason}", name)

    def __setattr__(self, name: str, value: object) -> None:
        """Write a declared variable of the library; nothing else of it can be set."""
        declarations = self.declarations
        if hasattr(type(self), name):
            raise AttributeError(f"{name!r} of a Library cannot be set")
        if declarations is None or name not in declarations.variables:
            self._open()
            if declarations is not None and name in declarations.functions:
                problem = f"{name!r} is a function of library {self.name!r}"
            elif declarations is not None and name in declarations.constants:
                problem = f"{name!r} is a constant of library {self.name!r}"
            else:
                problem = f"library {self.name!r} has no declared variable {name!r}"
            raise AttributeError(f"{problem}; only C variables can be set, declare 'extern int x;'")
        self._write(name, declarations.variables[name], value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name!r} of a Library cannot be deleted")

    def _variable(self, name: str, ctype: CType) -> object:
        """The value of a number or pointer; a pointer to any other variable."""
        from ._signature.cffitype import pointer_from
        from ._signature.derived import pointer
        from ._values import storage

        assert self.declarations is not None
        address = self.address(self.declarations.symbols.get(name, name))
        if isinstance(ctype, Scalar):
            return storage.load(ctype, address)
        if ctype.kind not in _POINTERS:
            return pointer_from(pointer(ctype), address, owner=self._open())
        word = int(_lib.ffi.cast("uintptr_t *", address)[0])
        # What it points to is often the library's own.
        return None if word == 0 else pointer_from(ctype, word, owner=self._open())

    @staticmethod
    def _pointer_constant(named: str, address: int) -> object:
        """A constant that is a pointer; None for NULL."""
        from ._signature.cffitype import pointer_from
        from ._signature.grammar import read_type

        return pointer_from(read_type(named), address) if address else None

    def _write(self, name: str, ctype: CType, value: object) -> None:
        from ._values import storage

        assert self.declarations is not None
        address = self.address(self.declarations.symbols.get(name, name))
        who = f"variable {name!r}"
        if name in self.declarations.readonly:
            raise AttributeError(f"{who} of library {self.name!r} is const")
        if not isinstance(ctype, Scalar) and ctype.kind not in _POINTERS:
            raise TypeError(
                f"{who} is a {ctype.text!r}, which is written through the pointer that reading it "
                "gives"
            )
        if ctype.kind == "function" and boxes.is_python_function(value):
            raise TypeError(
                f"{who} must be a C function that stays (got {type(value).__name__}); make one "
                f"with nativecall.callback({ctype.text[2:-1]!r}, function)"
            )
        keep: list[object] = []
        # Into memory of ours first: a conversion that fails changes nothing.
        memory = _lib.ffi.new("char[]", ctype.size + 16)
        start = int(_lib.ffi.cast("uintptr_t", memory))
        storage.store(ctype, value, start, who, keep, False, self._policies)
        before = _pointed.get(address)
        if keep:
            _pointed[address] = keep
        _lib.ffi.memmove(_lib.ffi.cast("char *", address), memory, ctype.size)
        if before is not None and not keep:
            del _pointed[address]

    def __dir__(self) -> list[str]:
        declared: list[str] = []
        if self.declarations is not None:
            for names in (
                self.declarations.functions,
                self.declarations.constants,
                self.declarations.pointers,
                self.declarations.variables,
            ):
                declared += names
        return sorted({*super().__dir__(), *declared})

    def __repr__(self) -> str:
        state = "closed " if self.closed else ""
        return f"<{state}library {self.name!r} at {self.path!r}>"


def load(
    name: str | os.PathLike[str] | None,
    declarations: str | None = None,
    *,
    header: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    include: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    define: Mapping[str, str | int | None] = MappingProxyType({}),
    only: str | Sequence[str] | None = None,
    skip: bool | None = None,
    order: Order = "C",
) -> Library:
    """Open a shared library.

    Parameters
    ----------
    name : str, path or None
        A name as a linker takes it (``"m"``), a file name or a path; None for what the process has
        loaded already.
    declarations : str, optional
        C declarations: functions and variables, with the typedefs, structs and enums that they
        need. Functions, variables and constants become attributes of the library.
    header : str, path or sequence of these, optional
        The same from headers: a name as in ``#include <sqlite3.h>``, a path or several; a `str` is
        a path if it begins with ``.`` or ``/``. What the headers include is declared, too.
        They are read through the C compiler's preprocessor (``$CC``, else cc, gcc or clang), or
        without one that of the package pcpp (extra `headers`), and kept in the cache until a file
        changes. Functions and variables are looked up when they are first used.
    include : path or sequence of paths
        Where to look for headers first.
    define : mapping of str to str, int or None
        Macros for the headers.
    only : str or sequence of str, optional
        Names, or patterns such as ``"sqlite3_*"``, to which the declarations are limited.
    skip : bool, optional
        Whether what cannot be offered is left out, with its reason in `Library.skipped`. By default
        so for headers; for `declarations` it is an error.
    order : {"C", "F", "A"}
        How its functions expect arrays of several dimensions in memory: rows first, columns first
        as in Fortran, or either; for one function as an argument of `Library.function`.

    Returns
    -------
    Library

    Raises
    ------
    LibraryError
        An `OSError`, when the library cannot be loaded, or a header is not found.
    SymbolError
        An `AttributeError`, when a declared function is not in it; close matches are named.
    SignatureError
        When the declarations cannot be read, or the preprocessor refuses the headers.

    Examples
    --------
    >>> import nativecall
    >>> m = nativecall.load("m", "double pow(double, double);")
    >>> m.pow(2, 10)
    1024.0
    """
    if name is not None:
        name = os.fspath(name)
        if not isinstance(name, str):
            raise TypeError(f"'name' must be a str, a path or None (got {type(name).__name__})")
        if not name or "\0" in name:
            raise LibraryError(f"'name' must be the name of a library (got {name!r})")
    if declarations is not None and not isinstance(declarations, str):
        raise TypeError(f"'declarations' must be a str (got {type(declarations).__name__})")
    policies = Policies(**check(order=order))
    options: dict[str, object] = {"header": header, "include": include, "define": {**define}}
    options |= {"only": only, "skip": skip, **policies._asdict()}
    lenient = header is not None or only is not None or bool(skip)
    known: Declarations | None = None
    if lenient:
        if (header is None) == (declarations is None):
            raise TypeError("either 'declarations' or 'header' must be given, one of them")
        from ._signature import header as headers

        wanted = headers.wanted(header, include, define, declarations)
        known = headers.read(wanted, only, skip is None or bool(skip))
    elif declarations is not None:
        from ._signature.declared import kept

        known = kept(declarations)
        if known is None:
            from ._signature.declarations import read

            known = read(declarations)
    opened = _lib.library_open(None) if name is None else find(name)
    library = Library(name, opened, known, (declarations, options), policies)
    if lenient:
        return library
    if known is not None:
        found = library._open().symbol
        for symbol in known.functions:
            if not found(symbol.encode()):
                library.address(symbol)  # says what there is
        for symbol in {*known.functions, *known.variables} & {*dir(Library)}:
            import warnings

            what, use = ("variable", f"address({symbol!r})")
            if symbol in known.functions:
                what, use = ("function", f"function({symbol!r})")
            warnings.warn(
                f"the declared {what} {symbol!r} is hidden by Library.{symbol}; use {use}",
                stacklevel=2,
            )
    return library
