"""The native callable: a Python object with a table of (signature, flags, C function pointer).

Python calls the object as fast as a built-in, and C code finds its call table in about a nanosecond
(SEP 201, CEP 1000). The speed-critical half is in C (csrc/callable/callable.c), not here.

Guarantees:

- A failed operation changes nothing.
- Entries are added or replaced, never removed. Readers without the GIL see the old table or the new
  one.
- The functions of all entries, including replaced ones, live as long as the callable.
"""

from __future__ import annotations

import os
import sys
from _collections_abc import Mapping
from _thread import RLock

from .. import _ext
from .._errors import TYPE_CHECKING, NoEntryError, refuse_reload, require
from .._types.signature import Signature
from .._values.calloptions import ENTRY, WRAP, spelled

if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable
    from typing import Unpack

    import numpy

    from .._ext import CallInterface
    from .._values.calloptions import EntryOptions, WrapOptions
    from . import specialize
    from .entry import Entry, NewEntry, Options

refuse_reload(globals(), "NativeCallable")

# Held while an entry is added, so that the check of the table and the addition are one atomic step.
# The lock is reentrant, because the garbage collector may run code that adds an entry.
_writing = RLock()
if hasattr(os, "register_at_fork"):
    at_fork = _writing._at_fork_reinit  # type: ignore[attr-defined]  # typeshed leaves it out
    os.register_at_fork(after_in_child=at_fork)


class Doc:
    """The descriptor of `__doc__`.

    On the class, it returns the docstring of the class. On a callable, it returns the callable's
    own `doc`. The default for a function of a library is the C declaration.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __get__(self, obj: NativeCallable | None, owner: object) -> str | None:
        if obj is None:
            return self.text
        if obj._doc is None and obj._cif is not None and obj._overloads is None and obj._owners:
            owner = obj._owners[-1]
            declaration = getattr(type(owner), "declaration", None)
            if declaration is not None:
                declared: str = declaration(owner, obj._cif.signature)
                return declared
        return obj._doc


class _OfCallables:
    """An attribute that only instances have. For the class, `inspect` uses `__init__` instead."""

    def __init__(self, made: Callable[[NativeCallable], inspect.Signature]) -> None:
        self._made = made

    def __get__(self, obj: NativeCallable | None, owner: object) -> inspect.Signature:
        if obj is None:
            raise AttributeError("only callables have a '__signature__'")
        return self._made(obj)


_CLASS_DOC = """A Python callable of one or several C functions, which native code can find in it.

Made by `nativecall.wrap`, whose parameters it takes. ``f[signature]`` is a callable of that entry
alone; ``signature in f`` tests whether there is one.

Attributes
----------
signatures : tuple of str
    Canonical signatures of the entries.
entries : tuple of Entry
    The rows of the call table.
builtin : builtin_function_or_method
    The same callable as a real built-in function, for hot loops.

Examples
--------
>>> import nativecall
>>> hypot = nativecall.load("m", "double hypot(double, double);").hypot
>>> hypot(3, 4), hypot.signatures
(5.0, ('d:dd',))
"""


class NativeCallable(_ext.CallableBase):
    __doc__ = Doc(_CLASS_DOC)
    __module__ = "nativecall"
    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _describe_instances(cls)

    @spelled(*WRAP)
    def __init__(
        self,
        target: object,
        signature: str | Signature | None = None,
        **given: Unpack[WrapOptions],
    ) -> None:
        from .entry import Options

        if self._cif is not None or self._overloads is not None:
            raise RuntimeError(f"{self!r} is initialised already; use add() for more entries")
        self._fill(target, signature, Options(**given))

    def _fill(self, target: object, signature: str | Signature | None, options: Options) -> None:
        """Create the entries of a new callable."""
        from .._values import foreign
        from .entry import refuse_duplicates, refuse_names, resolve

        if isinstance(target, Mapping):
            if signature is not None:
                raise TypeError("'signature' must be None when 'target' maps signatures to targets")
            refuse_names(target)
            found = [resolve(one, text, options) for text, one in target.items()]
            if not found:  # `len` of a mapping may be wrong
                raise ValueError("'target' must map at least one signature to a target")
            refuse_duplicates(found)
        elif signature is None and (known := foreign.signatures(target)) is not None:
            from . import specialize

            found = specialize.compiled(target, known, options)
            self._specializer = specialize.OnDemand(target, options)
        else:
            found = [resolve(target, signature, options)]
        named = options.name or next(iter([one.name for one in found if one.name]), None)
        if named is None and not isinstance(target, int):
            named = getattr(target, "__name__", "function")
            if named == "<cdata>":  # cffi's name of every object; use the symbol's name instead
                named = None
        self._describe(named, options.doc)
        if len(found) == 1 and (self._specializer is None or foreign.count(target) is None):
            self._set_entry(*found[0].arguments())
        elif found:  # also a single entry, if calls may add others
            self._set_overloads(tuple([self._derived(*one.arguments()) for one in found]))

    # -- entries ---------------------------------------------------------------------------------

    def _offered(self) -> list[tuple[str, int, int]]:
        """Return the entries for native callers; [] if a subclass overrides `__call__`."""
        return self._entries() if _ext.call_table_offset(type(self)) else []

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of the call table, as native callers see them."""
        from .._values.failure import convention
        from .entry import Entry, gil_name

        found = []
        for one, signature, address, flags, owner in self._listed():
            errors, gil, way = convention(flags).name, gil_name(flags), one._trampoline_kind()
            policies = one._entry()[0].policies
            row = Entry(signature.text, address, flags, errors, gil, owner, way, *policies)
            found.append(row)
        return tuple(found)

    def _listed(self) -> list[tuple[NativeCallable, Signature, int, int, object]]:
        """Return the rows of `_resolved`, each with the owner of its function."""
        with _writing:
            return [(*row, [None, *row[0]._owners][-1]) for row in self._resolved()]

    def _resolved(self) -> list[tuple[NativeCallable, Signature, int, int]]:
        """Return a snapshot of the entries for native callers.

        Each row starts with a callable that has only this entry. Base decisions on one snapshot,
        since other threads may add or replace entries.
        """
        offered = self._offered()
        # Read the overloads last: if another thread adds an entry meanwhile, there is one callable
        # too many, never one too few.
        overloads = self._overloads
        return [
            (one, cif.signature, address, flags)
            for one in ((self,) if overloads is None else overloads)[: len(offered)]
            for cif, address, flags in [one._entry()]
        ]

    def _refuse(self, signature: str | None) -> None:
        """Raise the error for a missing entry, or for a callable without exactly one entry."""
        hooked = self._specializer is not None
        if signature is not None:
            raise NoEntryError.missing(signature, self.__name__, self.signatures, hooked)
        if not self.signatures:
            raise NoEntryError.none(self.__name__, hooked)
        raise TypeError(
            f"{self.__name__!r} has entries {', '.join(map(repr, self.signatures))}; "
            "'signature' must name one"
        )

    @spelled(*ENTRY)
    def add(
        self,
        signature: str | Signature | None,
        target: object,
        *,
        replace: bool = False,
        **given: Unpack[EntryOptions],
    ) -> None:
        """Add an entry, or replace the function of an existing entry.

        Native readers are not blocked; without the GIL they see the old table or the new one.

        Parameters
        ----------
        signature : str
            A signature in any spelling; None if the target records it.
        target : object
            As for `wrap`, except a mapping.
        replace : bool
            Whether to replace the function of an entry with the same signature. The old function is
            kept alive, since native callers that found it may still call it.
        other options
            As for `wrap`, except `name` and `doc`.

        Raises
        ------
        ValueError
            If an entry has this signature and `replace` is false, or if `replace` is true and any
            other option differs.
        TypeError
            If this callable is an entry of another one: ``f[signature]``.
        """
        from .entry import Options, resolve

        require("'replace'", replace, bool, "True or False")
        options = Options(**given)
        found = resolve(target, signature, options)
        with _writing:
            self._add(found, replace)

    def _add(self, found: NewEntry, replace: bool) -> None:
        self._refuse_change()
        cif = found.arguments()[0]
        rows = self._entries()
        texts = [row[0] for row in rows]
        if found.signature.text in texts:
            position = texts.index(found.signature.text)
            if not replace:
                raise ValueError(
                    f"{self.__name__!r} has an entry {found.signature.text!r} already; pass "
                    "replace=True to replace its function"
                )
            one = self._only if self._overloads is None else self._overloads[position]
            flags = rows[position][2]
            options = "flags; gil, errors and errno" if found.flags != flags else ""
            present = one._entry()[0].policies
            if not options and cif.policies != present:
                pairs = zip(cif.policies._fields, cif.policies, present, strict=True)
                options = f"policies; {', '.join([name for name, a, b in pairs if a != b])}"
            if options:
                raise ValueError(
                    f"entry {found.signature.text!r} of {self.__name__!r} has other {options} "
                    "must be the same to replace it"
                )
            one._replace(0, found.address, found.owner, cif)
            self._replace(position, found.address, found.owner, cif)
            return
        overloads = self._overloads
        if overloads is None:
            overloads = () if self._cif is None else (self._only,)
        self._set_overloads((*overloads, self._derived(*found.arguments())))

    def _refuse_change(self) -> None:
        """Raise TypeError if this is an entry of another callable.

        A change of this callable would not change the table of the other.
        """
        if self._is_entry:
            text = self.signatures[0]
            raise TypeError(
                f"f[{text!r}] is an entry of {self.__name__!r} and cannot be changed by itself; "
                f"change f, or a separate callable made by wrap({{{text!r}: f[{text!r}]}})"
            )

    def _add_missing(self, found: NewEntry) -> None:
        """Add an entry unless another thread has added one for its signature."""
        with _writing:
            if all([row[0] != found.signature.text for row in self._entries()]):
                self._add(found, False)

    @property
    def specialize(self) -> specialize.Hook | None:
        """A hook that creates missing entries on demand: ``hook(f, signature)``.

        The hook gets this callable and a canonical signature. It returns a target as for `add`, or
        None if there is no such function. The hook is called by `f[signature]`, `f.address`,
        `f.to_*`, `f.convert` and `wrap`, and by C consumers that prepare a call (callback.h,
        dynamiccall.h). ``signature in f`` does not call the hook. A call of `f` calls the hook
        only if `f` wraps an object that is compiled on demand, such as a jitted function.

        The hook is called once for each signature; other threads that look up the same signature
        wait. A result of None is remembered for the last 256 such signatures, until you set a hook
        again. An exception propagates to the lookup and is not remembered. The hook may look up
        other signatures. A thread that the hook starts and joins must not look up the signature
        that the hook was called for: both threads would wait for ever.

        Set it to None, or delete it, to remove the hook; existing entries stay. A callable with a
        hook cannot be pickled.

        Examples
        --------
        >>> import nativecall
        >>> libm = nativecall.load("m")
        >>> sqrt = libm.function("sqrt", "d:d")
        >>> f = nativecall.wrap({"d:d": sqrt}, name="sqrt")
        >>> f.specialize = lambda f, signature: {"f:f": libm.address("sqrtf")}.get(signature)
        >>> f["f:f"](4.0), f.signatures
        (2.0, ('d:d', 'f:f'))
        """
        specializer = self._specializer
        return None if specializer is None else specializer.hook

    @specialize.setter
    def specialize(self, hook: specialize.Hook | None) -> None:
        from .specialize import specializer

        if hook is not None:
            self._refuse_change()
        self._specializer = None if hook is None else specializer(hook)

    @specialize.deleter
    def specialize(self) -> None:
        self._specializer = None

    # -- foreign callables -----------------------------------------------------------------------

    def _chosen(self, signature: str | Signature | None) -> tuple[CallInterface, int, int]:
        """Return the call interface, address and flags of an entry: by default, of the only one."""
        if signature is not None:
            return self[signature]._entry()
        available = self._resolved()
        if len(available) != 1:
            self._refuse(None)
        return available[0][0]._entry()

    def _matching(self, signature: Signature) -> NativeCallable:
        """Return the entry of a signature, or the only entry that agrees with it.

        A consumer's function type may describe pointers less precisely: as `void *` instead of
        `double *`, or as a pointer to a struct that no signature can describe. Otherwise the types
        must agree: `int *` does not match `double *`. Raise NoEntryError if no entry agrees, or
        more than one.
        """
        from .._types.agreement import Agreement, agreement

        try:
            return self[signature]
        except NoEntryError:
            alike = [
                one
                for one, own, _, _ in self._resolved()
                if agreement(own, signature) >= Agreement.OPAQUE
            ]
            if not alike:
                raise
        if len(alike) > 1:
            several = [one.signatures[0] for one in alike]
            raise NoEntryError(
                f"{self.__name__!r} has {len(alike)} entries that agree with {signature.text!r}, "
                f"{', '.join(map(repr, several))}: choose one first, as in f[{several[0]!r}]",
                signature.text,
                several,
            )
        return alike[0]

    def to_ufunc(
        self, name: str | None = None, doc: str | None = None, signature: str | None = None
    ) -> numpy.ufunc:
        """Create a NumPy ufunc that calls this function for each element of arrays.

        The ufunc broadcasts, and supports ``out=``, ``where=``, ``dtype=`` and `numpy.errstate`. If
        it has two arguments, it also supports `reduce` and similar methods. Each entry becomes a
        loop. Out-parameters (`out` of `wrap` and `load`) and the fields of a returned struct are
        outputs.

        Parameters
        ----------
        name, doc : str, optional
            By default, those of this function.
        signature : str, optional
            The signature of a generalised ufunc, for functions of arrays: ``"(n),(n)->()"``.
            Operands are pointers to arrays, strided views, and numbers. Arrays behind pointers are
            copied first unless they are contiguous. The outputs are the result and the last
            pointers that are not const. An array that the function changes in place is both input
            and output: ``"(n)->(n)"``. Integers named like the dimensions are their lengths. If no
            names match, all integers are lengths unless they are scalar inputs.

        Returns
        -------
        numpy.ufunc
            The ufunc keeps this callable alive. If you replace an entry later, the ufunc still
            calls the old function. NumPy releases the GIL around loops; loops of entries that need
            the GIL acquire it. Exceptions of the function and failures by its error convention
            propagate to the call. A failure by the error convention ends the loop; otherwise the
            loop finishes before the exception is raised. The function of `check` is not called.

        Raises
        ------
        SignatureError
            If NumPy cannot pass an argument, or there is no output.

        Examples
        --------
        >>> import nativecall
        >>> hypot = nativecall.load("m", "double hypot(double, double);").hypot.to_ufunc()
        >>> hypot([3, 5], 4).round(3).tolist(), hypot.types
        ([5.0, 6.403], ['dd->d'])
        """
        from .._values import foreign

        made: numpy.ufunc = foreign.bridge("numpy").from_callable(self, name, doc, signature)
        return made

    @property
    def _numba_type_(self) -> object:
        """The Numba type of this callable in compiled code; Numba reads this attribute."""
        from .._values import foreign

        return foreign.bridge("numba").type_of(self)

    def __wrapper_address__(self) -> int:
        """Return the address that Numba calls for its `FunctionType`; requires `_numba_type_`."""
        from .._values import foreign

        address: int = foreign.bridge("numba").wrapper_address(self)
        return address

    # -- for people ------------------------------------------------------------------------------

    @classmethod
    def __class_getitem__(cls, types: object) -> object:
        """Support ``NativeCallable[[float], float]`` in annotations."""
        from types import GenericAlias

        return GenericAlias(cls, types)

    @_OfCallables
    def __signature__(self) -> inspect.Signature:
        from . import annotations

        if self._cif is None or self._overloads is not None:
            specializer = self._specializer
            known = None if specializer is None else specializer.python_signature()
            if known is not None:
                return known
            each = [annotations.of(*one._entry()[::2]) for one in self._overloads or ()]
            return annotations.common(each)
        return annotations.of(self._cif, self._entry()[2])

    def _annotations(self) -> dict[str, object]:
        """Return a new dict for `__annotations__`, from the hints of the signature."""
        import inspect

        signature = self.__signature__
        hints = {one.name: one.annotation for one in signature.parameters.values()}
        hints["return"] = signature.return_annotation
        return {name: hint for name, hint in hints.items() if hint is not inspect.Parameter.empty}

    def _annotate(self, form: int, /) -> dict[str, object]:
        """Implement `__annotate__`: return classes, or their names for the format `STRING`."""
        hints = self._annotations()
        if form != 4:
            return hints
        return {name: getattr(hint, "__name__", repr(hint)) for name, hint in hints.items()}

    def __repr__(self) -> str:
        known = [signature for _, signature, _, _ in self._resolved()]
        if known and all([one.in_c for one in known]):
            declared = "; ".join([one.c_declaration(self.__name__) for one in known])
            return f"<native callable {declared}>"
        entries = ", ".join([repr(one.text) for one in known])
        return f"<native callable {self.__name__}{' ' * bool(entries)}{entries}>"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by library and symbol, by origin, or by name; never by address."""
        from .pickled import recipe

        return recipe(self, NativeCallable)

    def __copy__(self) -> NativeCallable:
        """Return the callable itself, as copying a Python function does."""
        return self

    def __deepcopy__(self, memo: object) -> NativeCallable:
        return self


class _OfInstances(dict[str, object]):
    """`__annotations__`: an empty dict on the class, the hints of the signature on instances."""

    def __get__(self, obj: NativeCallable | None, owner: object) -> dict[str, object]:
        return self if obj is None else obj._annotations()


def _describe_instances(cls: type) -> None:
    """Let instances of a class have their own `__annotations__`.

    Before Python 3.14, reading `__annotations__` of the class, as `inspect` does, would store a
    dict on the class. All instances would then return that dict.
    """
    if sys.version_info < (3, 14) and "__annotations__" not in cls.__dict__:
        cls.__annotations__ = _OfInstances()


_describe_instances(NativeCallable)
_ext.set_class(NativeCallable)


def plain(
    address: int, cif: CallInterface, name: str | None, owner: object, flags: int = 0
) -> NativeCallable:
    """Return a native callable for the address of a function, without the options of `wrap`.

    The address is not checked.
    """
    signature = cif.signature
    made = NativeCallable.__new__(NativeCallable)
    made._describe(name, None)
    if flags or "O" in signature.text:
        from .entry import needs_gil

        flags = needs_gil(signature, flags)
    made._set_entry(cif, address, flags, owner)
    return made
