"""The native callable: one Python object around a table of (signature, flags, C function pointer).

The object is called from Python at the speed of a built-in, and carries a call table that C code
finds in about a nanosecond (SEP 201, CEP 1000). The half that is called often is compiled
(csrc/object/callable.c); what is here needs no speed.

Guarantees: a failed operation changes nothing; entries are only ever added or replaced, and readers
without the GIL see the old table or the new one; whatever an entry pointed into lives as long as
the callable.
"""

from __future__ import annotations

import os
from _thread import RLock
from collections.abc import Mapping

from .. import (
    _fork,  # noqa: F401  # a fork waits for imports
    _lib,
)
from .._errors import NoEntryError, refuse_reload
from .._signature.signature import Signature
from .._values import boxes
from .._values.failure import convention
from . import (
    arguments,  # noqa: F401  # gives the core its hooks when it is imported
    hooks,  # noqa: F401  # the same
    specialize,
)
from .entry import Entry, NewEntry, Options, gil_name, refuse_duplicates, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    import inspect
    from collections.abc import Iterator
    from typing import Unpack

    from .._types import CallSpec
    from .._values.failure import Errors
    from .._values.policies import Said
    from .entry import Gil, HowCalled, HowKept

refuse_reload(globals(), "NativeCallable")

_types = _lib.types
# Held while entries are added: reading what there is, deciding and adding are one step. It may be
# taken again by the thread that has it, for the collector may run code that adds an entry.
_writing = RLock()
if hasattr(os, "register_at_fork"):
    # typeshed leaves it out.
    at_fork = _writing._at_fork_reinit  # type: ignore[attr-defined]  # typeshed leaves it out
    os.register_at_fork(after_in_child=at_fork)


class Doc:
    """`__doc__`: the class's own on the class, each function's on its callable.

    A function of a library that was given none has its declaration.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __get__(self, obj: NativeCallable | None, owner: object) -> str | None:
        if obj is None:
            return self.text
        if obj._doc is None and obj._spec is not None and obj._overloads is None and obj._owners:
            owner = obj._owners[-1]
            declaration = getattr(type(owner), "declaration", None)
            if declaration is not None:
                declared: str = declaration(owner, obj._spec.signature)
                return declared
        return obj._doc


_CLASS_DOC = """A C function, or several, as one Python callable that native code can look into.

Made by `nativecall.wrap`, whose parameters it takes.

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


class NativeCallable(_types.CallableBase):
    __doc__ = Doc(_CLASS_DOC)
    __slots__ = ()

    def __init__(
        self,
        target: object,
        signature: str | Signature | None = None,
        *,
        name: str | None = None,
        doc: str | None = None,
        owner: object = None,
        gil: Gil = "hold",
        errors: Errors = "none",
        errno: bool = False,
        **policies: Unpack[Said],
    ) -> None:
        if self._spec is not None or self._overloads is not None:
            raise RuntimeError(f"{self!r} is initialised already; use add() for more entries")
        options = Options(name, doc, owner, gil, errors, errno, **policies)
        if isinstance(target, Mapping):
            if signature is not None:
                raise TypeError("'signature' must be None when 'target' maps signatures to targets")
            found = [resolve(one, text, options) for text, one in target.items()]
            if not found:  # whatever `len` says
                raise ValueError("'target' must map at least one signature to a target")
            refuse_duplicates(found)
        elif signature is None and (known := boxes.signatures(target)) is not None:
            found = specialize.compiled(target, known, options)
            kept: HowCalled = {"gil": gil, "errors": errors, "errno": errno, **policies}
            rest: HowKept = {"owner": owner, **kept}
            self.specialize = specialize.on_demand(target, rest)
        else:
            found = [resolve(target, signature, options)]
        named = options.name or next(iter([one.name for one in found if one.name]), None)
        if named is None and not isinstance(target, int):
            named = getattr(target, "__name__", "function")
        self._describe(named, options.doc)
        if len(found) == 1:
            self._set_entry(*found[0].arguments())
        elif found:
            self._set_overloads(tuple([self._derived(*one.arguments()) for one in found]))

    # -- entries ---------------------------------------------------------------------------------

    def _offered(self) -> list[tuple[str, int, int]]:
        """The entries as native callers find them: none where a subclass overrides `__call__`."""
        return self._entries() if _types.call_table_offset(type(self)) else []

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of the call table, as native callers find them."""
        return tuple(
            [
                Entry(
                    text,
                    address,
                    flags,
                    convention(flags).name,
                    gil_name(flags),
                    owner,
                    one._trampoline_kind(),
                    *one._entry()[0].policies,
                )
                for text, address, flags, owner, one in self._listed()
            ]
        )

    def _listed(self) -> list[tuple[str, int, int, object, NativeCallable]]:
        """The entries as native callers find them, each with its owner and its own callable."""
        with _writing:
            offered = self._offered()
            overloads: tuple[NativeCallable, ...] = self._overloads or (self,)
            owners = [one._owners for one in overloads]
            return [
                (*entry, owner[-1] if owner else None, one)
                for entry, owner, one in zip(offered, owners, overloads, strict=False)
            ]

    def _resolved(self) -> list[tuple[NativeCallable, Signature, int, int]]:
        """The entries as native callers find them, read once: with each the callable of it alone.

        A decision by them needs this list: entries may be added or replaced meanwhile.
        """
        offered = self._offered()
        # In this order: with an entry added meanwhile there is a callable too many, not too few.
        overloads = self._overloads
        return [
            (one, spec.signature, address, flags)
            for one in ((self,) if overloads is None else overloads)[: len(offered)]
            for spec, address, flags in [one._entry()]
        ]

    def __iter__(self) -> Iterator[str]:
        """The signatures; without this `__getitem__` would make the callable a sequence."""
        return iter(self.signatures)

    def _refuse(self, signature: str | None) -> None:
        """Raise why there is no such entry, or not only one for None."""
        hooked = self._specializer is not None
        if signature is not None:
            raise NoEntryError.missing(signature, self.__name__, self.signatures, hooked)
        if not self.signatures:
            raise NoEntryError.none(self.__name__, hooked)
        raise TypeError(
            f"{self.__name__!r} has entries {', '.join(map(repr, self.signatures))}; "
            "'signature' must name one"
        )

    def add(
        self,
        signature: str | Signature | None,
        target: object,
        *,
        replace: bool = False,
        owner: object = None,
        gil: Gil = "hold",
        errors: Errors = "none",
        errno: bool = False,
        **policies: Unpack[Said],
    ) -> None:
        """Add an entry, or put another function in place of one.

        Native readers run on meanwhile, without the GIL; they see the old table or the new one.

        Parameters
        ----------
        signature : str
            In any spelling; None where the target knows it.
        target : object
            As for `wrap`, except a mapping.
        replace : bool
            Whether an entry of the same signature gets the new function. Native callers that
            found the old one may go on calling it, so its owner is kept too.
        owner, gil, errors, errno, order, encoding, check, fortran, out, keep
            As for `wrap`.

        Raises
        ------
        ValueError
            When there is such an entry and `replace` is false, or other options differ and it is
            true.
        """
        if not isinstance(replace, bool):
            raise TypeError(f"'replace' must be True or False (got {type(replace).__name__})")
        options = Options(None, None, owner, gil, errors, errno, **policies)
        found = resolve(target, signature, options)
        with _writing:
            self._add(found, replace)

    def _add(self, found: NewEntry, replace: bool) -> None:
        spec = found.arguments()[0]
        position = self._position(spec)
        if position >= 0:
            if not replace:
                raise ValueError(
                    f"{self.__name__!r} has an entry {found.signature.text!r} already; "
                    "pass replace=True to put another function in its place"
                )
            one = self._only if self._overloads is None else self._overloads[position]
            flags = self._entries()[position][2]
            options = "flags; gil, errors and errno" if found.flags != flags else ""
            present = one._entry()[0].policies
            if not options and spec.policies != present:
                pairs = zip(spec.policies._fields, spec.policies, present, strict=True)
                options = f"policies; {', '.join([name for name, a, b in pairs if a != b])}"
            if options:
                raise ValueError(
                    f"entry {found.signature.text!r} of {self.__name__!r} has other {options} "
                    "must be the same to replace it"
                )
            one._replace(0, found.address, found.owner, spec)
            self._replace(position, found.address, found.owner, spec)
            return
        overloads = self._overloads
        if overloads is None:
            overloads = () if self._spec is None else (self._only,)
        self._set_overloads((*overloads, self._derived(*found.arguments())))

    def _add_missing(self, found: NewEntry) -> None:
        """Add an entry unless there is one of its signature by now."""
        with _writing:
            if self._position(found.arguments()[0]) < 0:
                self._add(found, False)

    @property
    def specialize(self) -> specialize.Hook | None:
        """A function that is asked for the entries which are missing: ``hook(f, signature)``.

        It gets this callable and a canonical signature, and returns a target as for `add`, whose
        entry is added, or None where there is no such function. `f[signature]`, `f.address`,
        `f.to_*`, `f.convert` and `wrap` ask, and so do C consumers that prepare a call
        (callback.h, dynamiccall.h); ``signature in f`` and calls do not.

        It is asked once for a signature; other threads that look for the same wait meanwhile. None
        is remembered, of the last 256 signatures without an answer, until a hook is set again; an
        exception is not: it is raised where the signature was looked for. The hook may look for
        other signatures, but a thread that it starts and waits for must not look for the same one.
        None, or ``del``, takes the hook away; what it made stays. A callable with a hook cannot be
        pickled.

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
        self._specializer = None if hook is None else specialize.Specializer(hook)

    @specialize.deleter
    def specialize(self) -> None:
        self._specializer = None

    # -- other boxes -----------------------------------------------------------------------------

    def _chosen(self, signature: str | Signature | None) -> tuple[CallSpec, int, int]:
        """Call spec, address and flags of an entry; of the only one for None."""
        if signature is not None:
            return self[signature]._entry()
        available = self._resolved()
        if len(available) != 1:
            self._refuse(None)
        return available[0][0]._entry()

    # -- for people ------------------------------------------------------------------------------

    @property
    def __signature__(self) -> inspect.Signature:
        import inspect
        from keyword import iskeyword

        if self._spec is None or self._overloads is not None:
            return inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)])
        signature: Signature = self._spec.signature
        count = len(self._spec.types) - 1
        names = [name for name in self._spec.names or () if name and not iskeyword(name)]
        named = len({*names}) == count
        positional, either = (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        )
        kind = either if named else positional
        parameters = [inspect.Parameter(names[i] if named else f"x{i}", kind) for i in range(count)]
        if signature.variadic:
            parameters = [one.replace(kind=positional) for one in parameters]
            parameters.append(inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL))
        return inspect.Signature(parameters)

    def __repr__(self) -> str:
        entries = ", ".join([repr(text) for text in self.signatures])
        return f"<native callable {self.__name__} {entries}>"

    def __reduce__(self) -> tuple[object, ...]:
        """By library and symbol, or how it was made; an address means nothing elsewhere."""
        if self._specializer is not None:
            raise TypeError(
                f"cannot pickle {self!r}: it has a specialize hook, which would be lost; "
                "set 'specialize' to None first"
            )
        entries = self._listed()
        _, _, flags, symbol, one = entries[0] if len(entries) == 1 else (None,) * 5
        if one is not None and flags is not None and hasattr(symbol, "pickled"):
            options: HowCalled = {
                "gil": gil_name(flags),
                "errors": convention(flags).name,
                "errno": bool(flags & _lib.FLAG_ERRNO),
                **one._entry()[0].policies._asdict(),  # type: ignore[typeddict-item]  # its fields are
            }
            signature = one._entry()[0].signature
            made: tuple[object, ...] = symbol.pickled(signature, self.__name__, self._doc, options)
            return made
        if len(entries) > 1:
            raise TypeError(
                f"cannot pickle {self!r}: it has {len(entries)} entries; pickle the functions "
                "that it was made of"
            )
        raise TypeError(
            f"cannot pickle {self!r}: it is known by its address only; functions that "
            "nativecall.load found can be pickled"
        )


_types.set_callable_class(NativeCallable)
