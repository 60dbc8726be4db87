"""`Library`: an open shared library, whose functions, constants and variables are attributes.

The library stays loaded as long as any object found in it lives. Closing it only disables further
look-ups.
"""

from __future__ import annotations

from .. import _ext, _lib
from .._callable.callable import NativeCallable, plain
from .._errors import (
    TYPE_CHECKING,
    LibraryError,
    SignatureError,
    SymbolError,
    did_you_mean,
    require,
)
from .._locate import exported_like
from .._types.ctype import Single
from .._types.signature import Signature
from .._values import callinterface
from .._values.calloptions import DEFAULT, spelled
from .options import FUNCTION, NOTHING, LibraryOptions, of_function
from .symbol import Symbol, address
from .types import Owner, Types, owner_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from typing import Any, Self, Unpack

    from cffi import FFI

    from .._cdecl.declarations import Declarations
    from .._ext import CallInterface, FFIData, FFIType, Foreign
    from .._ext import Library as OpenLibrary
    from .._types.grammar import Row
    from .memory import NDArray
    from .options import FunctionOptions
    from .variables import Variable

_make = _ext.make


class _Undeclared:
    """Stands in for the declarations of a library that has none."""

    functions = constants = variables = pointers = rows = symbols = places = skipped = NOTHING
    inlines = readonly = frozenset[str]()
    wanted = None


class Library(Single, _ext.LibraryBase):
    """An open shared library. Made by `load`.

    Declared functions and the constants of declared enums and macros are attributes; each is
    created once. Declared variables are read and assigned as attributes. Variables that hold
    numbers, text or pointers are read as Python values. An array of numbers is a NumPy array over
    the library's memory; other arrays, structs and unions are cffi arrays and pointers. Assign a
    sequence or a mapping to replace a whole array, struct or union. No other attribute can be
    assigned.

    As an attribute, `close` is a method; ``library["close"]`` is the C function. A ``with``
    statement closes the library.

    Attributes
    ----------
    name : str or None
        The name given to `load`.
    path : str or None
        The file, if the loader reports it.
    declarations : Declarations or None
        The declarations, by kind: ``declarations.functions`` maps names to `Signature`,
        ``declarations.constants`` maps names to numbers and text. None if nothing is declared.
    """

    __module__ = "nativecall"
    # Defaults for uninitialised instances.
    name: str | None = None
    path: str | None = None
    declarations: Declarations | None = None
    _known: Declarations = _Undeclared()  # type: ignore[assignment]  # has all attributes used
    _handle: OpenLibrary | None = None
    _given: tuple[object, ...] = ()
    _inlines: OpenLibrary | None = None
    _not_inlined: dict[str, str] | None = None
    _owner: Owner = Owner(None)
    _options: LibraryOptions = LibraryOptions()
    _ending: set[str] = set()  # functions that free or close what other functions return
    _undeclared = False  # whether there are no declarations, types or options
    #: Rows of the declared functions; empty if the library has options. `_cifs` caches call
    #: interfaces; a key is a row without its last item, the declaration.
    _plain: dict[str, Row] = {}
    _cifs: dict[tuple[object, ...], CallInterface] = {}

    def __init__(self, *given: object) -> None:
        raise TypeError("a Library is made by nativecall.load(name, declarations)")

    @classmethod
    def _opened(
        cls,
        name: str | None,
        handle: OpenLibrary,
        declarations: Declarations | None,
        given: tuple[object, ...],
        options: LibraryOptions,
        base: Owner | None,
    ) -> Self:
        self = cls.__new__(cls)
        owner = owner_of(declarations, base)
        encoding = options.encoding("")
        if encoding is not None:
            owner.encodings.add(encoding)
        # CPython finds attributes faster in a dict that it did not make, and without counting it.
        attributes = {
            "name": name,
            "path": _lib.library_path(handle),
            "declarations": declarations,
            "_known": self._known if declarations is None else declarations,
            "_handle": handle,
            "_given": given,
            "_hidden": {},
            "_owner": owner,
            "new": _maker(owner),
            "_options": options,
            "_ending": options.ending(),
            "_undeclared": declarations is None and base is None and not options,
            "_plain": {} if options or declarations is None else declarations.plain,
            "_cifs": {},
        }
        object.__setattr__(self, "__dict__", attributes)
        return self

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by name and declarations: another process opens the library itself."""
        self._open()
        again, *given = self._given
        return again, (self.path or self.name, *given)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._handle is None

    def close(self) -> None:
        """Stop look-ups. Functions found before stay usable and keep the library loaded."""
        self.__dict__["_handle"] = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _open(self) -> OpenLibrary:
        if self._handle is None:
            raise LibraryError(f"{self._called} is closed; load it again")
        return self._handle

    def address(self, symbol: str, version: str | None = None) -> int:
        """Return the address of a symbol, function or variable.

        Parameters
        ----------
        symbol : str
        version : str, optional
            The version of the symbol, if the library has several, such as ``"GLIBC_2.2.5"``.

        Raises
        ------
        SymbolError
            An `AttributeError` that lists close matches, if there is no such symbol.
        """
        require("'symbol'", symbol, str, "a str")
        if version is not None:
            require("'version'", version, str, "a str")
        return address(self._open(), self.name, self.path, symbol, version)

    @spelled(*FUNCTION)
    def function(
        self,
        symbol: str,
        signature: str | Signature | None = None,
        **options: Unpack[FunctionOptions],
    ) -> NativeCallable:
        """Return a function of the library as a native callable.

        Parameters
        ----------
        symbol : str
            With `fortran`, the procedure's name without a trailing ``_`` also works.
        signature : str, optional
            Optional for declared functions.
        version : str, optional
            The version of the symbol, as for `address`.
        free, close
            As for `load`. A destructor named here marks its argument as freed or closed only if you
            look up the destructor after this call.
        other options
            As for `wrap`, except `owner`; the library's options are the defaults.

        Examples
        --------
        >>> import nativecall
        >>> nativecall.load("m").function("cbrt", "d:d")(27)
        3.0
        """
        handle = self._open()
        if not options and self._undeclared and not self._ending:
            made = handle.function(symbol, signature, self.path or self.name, Symbol)
            if made is not None:
                return made
        given = of_function(options)
        fortran = given.get("fortran")
        if fortran or "fortran" in self._options:
            symbol = self._procedure(symbol, fortran) or symbol
        declared = self._known.functions.get(symbol)
        if signature is None:
            if declared is None:
                self._raise_refused(symbol)
                raise TypeError(f"'signature' must be given: {symbol!r} is not declared")
            signature = declared
        else:
            signature = self._signature_of(signature)
        if declared is not None and signature is not declared:
            from .._cdecl.spelling import both
            from .._types.agreement import Agreement, agreement

            if agreement(signature, declared) < Agreement.OPAQUE:
                one, other = both(signature, declared)
                message = f"'signature' is {one!r}, but {symbol!r} is declared as {other!r}"
                raise SignatureError(message)
        how: dict[str, Foreign] = self._options.said(symbol, signature)
        how |= given
        version: Foreign = how.pop("version", None)
        address, owner = self._found(symbol, version)
        if "free" in how or "close" in how or symbol in self._ending:
            from .destructors import take

            for one in take(self, symbol, signature, how):
                # Drop the new destructor's cached callable: it does not mark its argument.
                self.__dict__.pop(one, None)
                self.__dict__["_hidden"].pop(one, None)
        if not how:
            return plain(address, callinterface.of(signature), symbol, owner)
        from .._callable.wrap import wrap

        how.setdefault("name", symbol)
        return wrap(address, signature, owner=owner, **how)

    def _procedure(self, name: str, fortran: bool | None = None) -> str | None:
        """Return the symbol of a Fortran procedure, from the declarations or else the library.

        Return None for other names. `fortran` is the procedure's own option, if given.
        """
        from .._values.fortran import symbols

        candidates = symbols(name)
        found = [one for one in candidates if one in self._known.rows]
        if not found and fortran and isinstance(name, str) and "\0" not in name:
            handle = self._open()
            found = [one for one in candidates if _lib.library_symbol(handle, one)]
        for one in found:
            if one == name or fortran or self._options.of("fortran", one)[0]:
                return one
        return None

    def freeze(self, path: str | os.PathLike[str]) -> None:
        """Write the declarations to one file, for ``load(name, frozen=path)``.

        Parameters
        ----------
        path : str or path
            The file contains declarations, layouts, constants and compiled inline functions.
            Loading it needs no header, no compiler, no cache and no LLVM. The file is specific to
            the processor, system and C library. It does not contain options of `load`.

        Raises
        ------
        TypeError
            If nothing is declared.
        OSError
            If the file cannot be written.
        """
        from .frozen import freeze

        if self.declarations is None:
            raise TypeError(f"{self!r} has no declarations to freeze; load it with a header")
        freeze(self.declarations, self._open(), self.path, path)

    @property
    def types(self) -> Types:
        """The declared types by name, as cffi types of `ffi`.

        Examples
        --------
        >>> import nativecall
        >>> lib = nativecall.load("m", "typedef struct { double re, im; } pair;")
        >>> lib.types.pair, "pair" in lib.types, [name for name, _ in lib.types.pair.fields]
        (<ctype 'pair'>, True, ['re', 'im'])
        """
        return Types(self._owner)

    @property
    def ffi(self) -> FFI:
        """The `cffi.FFI` with the declared types.

        Libraries loaded with the same declarations share one `FFI`.
        """
        return self._owner.ffi

    def new(self, ctype: str | FFIType, init: object = None) -> FFIData:
        """Allocate memory of a declared type, as cffi's `ffi.new` does.

        Parameters
        ----------
        ctype : str or cffi type
            A pointer type allocates its target, an array type the array, and any other type one
            value: ``"gsl_function *"``, ``"double[100]"``, ``"gsl_function"``, ``"sqlite3 *[1]"``.
        init : object, optional
            Zeros by default. For structs, a mapping, or a sequence of the first fields. For arrays,
            a sequence, a buffer of the same elements (copied), or a length if the type has none.
            Function pointers take native callables, C functions of other libraries and Python
            functions. Other pointers take None, cffi pointers and buffers (not copied). Pointers to
            characters also take `bytes` and get a NUL-terminated copy. `char *` and arrays of
            `char` also take `str` if the library has an `encoding`. Lists, tuples and mappings are
            copied to newly allocated memory.

        Returns
        -------
        cffi's cdata
            A cdata of `ffi`. It owns the memory and keeps alive the objects that pointers in `init`
            point to. For arrays of pointers, and structs that contain pointers, the result is a
            wrapper of the cdata. Its members and items accept the same values as `init`, as in
            ``p.f = function``. The wrapper keeps these values alive; its attribute `cdata` is
            cffi's object.

        Raises
        ------
        SignatureError
            If the type is unknown; the message lists close matches.
        TypeError, ValueError, OverflowError, IndexError
            For an incomplete type, or a value that does not fit; the message names the member.

        Examples
        --------
        >>> import nativecall
        >>> lib = nativecall.load("m", "typedef struct { double x; double (*f)(double); } at;")
        >>> at = lib.new("at", {"x": 3, "f": lambda x: x * x})
        >>> at.f(at.x)
        9.0
        """
        return _maker(self._owner)(ctype, init)

    def asarray(self, value: FFIData, shape: int | Sequence[int] | None = None) -> NDArray:
        """Return a NumPy array over cffi memory, without a copy.

        The array keeps the memory alive if `value` does.

        Parameters
        ----------
        value : cffi's cdata
            An array, or a pointer. Structs become structured dtypes. Pointers in structs become
            integers, and bit-fields are omitted.
        shape : int or sequence of int, optional
            The shape in elements. By default all elements of an array, or one element for a
            pointer. **You vouch for the length** behind a pointer.

        Examples
        --------
        >>> import nativecall
        >>> lib = nativecall.load("m", "typedef struct { double re, im; } pair;")
        >>> lib.asarray(lib.new("pair[2]", [(1, 2), (3, 4)]))["im"]
        array([2., 4.])
        """
        if not _asarray:
            from .memory import asarray

            _asarray.append(asarray)
        return _asarray[0](value, shape)

    def _signature_of(self, given: object) -> Signature:
        """Return a signature given in any spelling; C spellings may use the declared types."""
        if self.declarations is None and self._owner._base is None:
            from .._cdecl.spelling import parse

            return parse(given)  # type: ignore[arg-type]  # parse checks the type
        return self._owner.signature(given)

    def _found(self, name: str, version: str | None = None) -> tuple[int, Symbol]:
        """Look up a function by its C name; return its address and the owner of that address."""
        handle = self._open()
        declarations = self._known
        symbol, place = declarations.symbols.get(name, name), None
        if name in declarations.places:
            file, line = declarations.places[name]
            place = declarations.files[file], line
        if name in declarations.inlines and not _lib.library_symbol(handle, symbol):
            return self._inline(symbol, place)
        found = self.address(symbol, version)
        return found, Symbol(handle, self.path or self.name, symbol, place, version)

    def _cif(self, row: Row) -> CallInterface:
        """Return the call interface of a declared function without options."""
        key = row[:-1]
        known = self._cifs.get(key)
        return known or self._cifs.setdefault(key, callinterface.of_row(self._known.bound(row)))

    def _inline(self, name: str, place: tuple[str, int] | None) -> tuple[int, Symbol]:
        """Return an inline function's address; compile the headers' inline functions first."""
        from .inline import found

        opened, address = found(name, self._known, self._inlines, self.path)
        self.__dict__["_inlines"] = opened
        return address, Symbol(opened, None, name, place or ("", 0))

    def _variable(self, name: str) -> Variable:
        """Return a declared variable."""
        from .variables import Variable

        declarations = self._known
        found = self.address(declarations.symbols.get(name, name))
        ctype, const = declarations.variables[name], name in declarations.readonly
        encoding = self._options.encoding(name)
        return Variable(name, ctype, found, self._owner, self._open(), const, encoding)

    def __getattr__(self, name: str) -> Any:
        row = self._plain.get(name)
        if row is not None and self._handle is not None and name not in self._ending:
            cif, called = self._cif(row), self.path or self.name
            made = self._handle.function(name, cif, called, Symbol)
            if made is not None:
                return self.__dict__.setdefault(name, made)
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self._named(name, self.__dict__)

    def _address_of(self, name: str) -> FFIData:
        """Return a cffi pointer to a variable or function: `lib.ffi.addressof(lib, name)`."""
        if name in self._known.variables:
            return self._variable(name).pointer()
        found = self[name]
        if not isinstance(found, NativeCallable):
            raise SymbolError(
                f"{name!r} of {self._called} is a constant, which has no address", name
            )
        return found.to_cffi()

    def __getitem__(self, name: str) -> Any:
        """Return the declared object called `name` in C, even if a method has that name."""
        require("a name of a library", name, str, "a str")
        if hasattr(type(self), name) or name.startswith("__"):
            hidden: dict[str, object] = self.__dict__["_hidden"]
            return hidden[name] if name in hidden else self._named(name, hidden)
        return getattr(self, name)

    def _named(self, name: str, made: dict[str, object]) -> Any:
        """Return the declared object called `name` in C; a function is cached in `made`."""
        declarations = self._known
        row = declarations.rows.get(name)
        if row is not None:
            if self._options or name in self._ending:
                function = self.function(name)
            else:
                address, owner = self._found(name)
                function = plain(address, self._cif(row), name, owner)
            return made.setdefault(name, function)
        if name in declarations.constants:
            constant = made[name] = declarations.constants[name]
            return constant
        if name in declarations.pointers:
            from .variables import pointer_constant

            return pointer_constant(*declarations.pointers[name])
        if name in declarations.variables:
            return self._variable(name).read()
        if "fortran" in self._options:
            found_as = self._procedure(name)
            if found_as is not None:
                function = made[name] = self[found_as]
                return function
        self._raise_refused(name)
        handle, options = self._open(), self._given[-1]
        only = isinstance(options, dict) and options.get("only") is not None
        if _lib.library_symbol(handle, name):
            hint = f" among those that only= names; add {name!r} there, or" if only else ";"
            problem = f"{name!r} of {self._called} has no declaration{hint}"
            raise SymbolError(f"{problem} use function({name!r}, signature)", name)
        known = [*declarations.functions, *declarations.constants, *declarations.variables]
        known = known or exported_like(name, handle, self.path)
        among = " among the names that only= selects" if only else ""
        raise SymbolError.missing(name, self.name, known, among)

    @property
    def skipped(self) -> dict[str, str]:
        """The declarations that cannot be used, as a dict from names to reasons.

        Accessing such a name raises a `SymbolError` with the reason. Reading this attribute
        compiles inline functions to find the reasons.
        """
        if self._not_inlined is None:
            from . import inline

            inlines = inline.refused(self._known, self._handle, self.path)
            self.__dict__["_not_inlined"] = inlines
        return {**self._known.skipped, **(self._not_inlined or {})}

    def _raise_refused(self, name: str) -> None:
        """Raise a SymbolError with the reason if a declaration was skipped."""
        declarations = self._known
        if name in declarations.skipped:
            reason = declarations.skipped[name]
            # The function behind a skipped macro often has the same name with underscores.
            like = [one for one in declarations.rows if one.strip("_") == name.strip("_")]
            hint = did_you_mean([min(like, key=len)] if like else [])
            problem = f"{name!r} of {self._called} is skipped: {reason}{hint}"
            raise SymbolError(problem, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Write a declared variable of the library; other attributes cannot be set."""
        if hasattr(type(self), name):
            way = f"; library[{name!r}] = ... sets the C variable"
            hint = way if name in self._known.variables else ""
            raise AttributeError(f"{name!r} of a Library cannot be set{hint}")
        self[name] = value

    def __setitem__(self, name: str, value: object) -> None:
        """Write the variable called `name` in C, even if a method has that name."""
        require("a name of a library", name, str, "a str")
        declarations = self._known
        if name not in declarations.variables:
            self._open()
            if name in declarations.functions:
                problem = f"{name!r} is a function of {self._called}"
            elif name in declarations.constants:
                problem = f"{name!r} is a constant of {self._called}"
            else:
                problem = f"{self._called} has no declared variable {name!r}"
            raise AttributeError(f"{problem}; only C variables can be set, declare 'extern int x;'")
        if name in declarations.readonly:
            raise AttributeError(f"variable {name!r} of {self._called} is const")
        self._variable(name).write(value, DEFAULT._replace(order=self._options.order))

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name!r} of a Library cannot be deleted")

    def __dir__(self) -> list[str]:
        known = self._known
        declared = *known.functions, *known.constants, *known.pointers, *known.variables
        return sorted({*super().__dir__(), *declared})

    def __repr__(self) -> str:
        state = "closed " if self.closed else ""
        if self.name is None:
            return f"<{state}library of the process>"
        return f"<{state}library {self.name!r} at {self.path!r}>"

    @property
    def _called(self) -> str:
        """Return the library's name for messages."""
        return "the library of the process" if self.name is None else f"library {self.name!r}"


# Filled on first use: an import statement in each call would take longer than the call.
_asarray: list[Callable[..., NDArray]] = []


def _maker(owner: Owner) -> Callable[..., FFIData]:
    """Return `new` for one library; do its look-ups once, in advance."""
    known = owner.rows.get

    def new(ctype: str | FFIType, init: object = None) -> FFIData:
        row = known(ctype) if type(ctype) is str else None
        if row is not None:
            return _make(row, init)
        from . import memory

        return memory.new(owner, ctype, init)

    new.__doc__ = Library.new.__doc__
    return new
