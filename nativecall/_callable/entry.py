"""Resolve an object that holds a C function to an entry: address, signature, flags and owner.

`resolve` accepts every target of `wrap` and `add`, and checks the target against the requested
signature and the options. This module changes no callable, so a failed `wrap` or `add` has no
effect.
"""

from __future__ import annotations

import sys

from .. import _ext, _lib
from .._cdecl.spelling import as_text, both, parse
from .._errors import TYPE_CHECKING, SignatureError
from .._rows import NamedTuple
from .._types.agreement import Agreement, agreement
from .._types.derived import Handle
from .._types.signature import Signature
from .._values import callinterface, foreign
from .._values.calloptions import DEFAULT, GIL, Policies, checked
from .._values.failure import CONVENTIONS, check_errors, convention
from .._values.fortran import with_lengths, with_wide_lengths
from .._values.outparameters import position, resolved

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from .._ext import CallInterface, Foreign, Native
    from .._types.ctype import CType
    from .._values.calloptions import Check, Gil, Order, WrapOptions
    from .._values.failure import Errors
    from .._values.outparameters import Out

_ADDRESS_LIMIT = 2 * (sys.maxsize + 1)


class Entry(NamedTuple):
    """One row of a native callable's table.

    Attributes
    ----------
    signature : str
        The canonical signature.
    address : int
        The address of the C function.
    flags : int
        The flags for native callers (docs/abi/find.md).
    errors : str
        The error convention; see `wrap`.
    gil : str
        ``"hold"``, ``"release"`` or ``"need"``; see `wrap`.
    owner : object
        The object that keeps the function alive, or None.
    trampoline : str
        How Python calls the function. ``"ahead of time"``: by code compiled with nativecall for
        this signature. ``"plan"``: by the call plan of the signature. ``"python"``: by Python code,
        if calls are traced or the processor's ABI is unknown.
    order : str
        The memory layout of arrays, ``"C"``, ``"F"`` or ``"A"``; see `wrap`.
    encoding : str or None
        The encoding of text; see `wrap`.
    check : callable or None
        The function that checks the results of calls from Python; see `wrap`.
    fortran : bool
        Whether the function is called like a Fortran procedure; see `wrap`.
    out : tuple
        Out-parameters, each with its `index`; see `wrap`.
    keep : str or int
        How long C keeps functions passed to it, ``"call"`` or longer; see `wrap`.
    """

    signature: str
    address: int
    flags: int
    errors: Errors
    gil: Gil
    owner: object
    trampoline: str
    order: Order
    encoding: str | None
    check: Check | None
    fortran: bool
    out: tuple[Out, ...]
    keep: str | int


Entry.__module__ = "nativecall"


def gil_name(flags: int) -> Gil:
    if flags & _lib.FLAG_NEEDS_GIL:
        return "need"
    return "release" if flags & _lib.FLAG_RELEASE_GIL else "hold"


class Options:
    """The checked options of `wrap`, for new entries."""

    __slots__ = ("doc", "errors", "flags", "given", "name", "owner", "policies")

    def __init__(self, **given: Unpack[WrapOptions]) -> None:
        self.given = given
        policies = checked(given)
        self.name: str | None = policies.pop("name", None)
        self.doc: str | None = policies.pop("doc", None)
        self.owner: object = policies.pop("owner", None)
        self.errors: Errors = policies.pop("errors", "none")
        gil, errno = policies.pop("gil", "hold"), policies.pop("errno", False)
        if CONVENTIONS[self.errors].needs_gil and gil == "release":
            raise ValueError(
                f"a function with errors={self.errors!r} sets exceptions, so gil='release' "
                "cannot be right; use gil='need'"
            )
        if policies.get("fortran"):
            policies.setdefault("order", "F")
        self.policies = policies
        self.flags = GIL[gil] | CONVENTIONS[self.errors].flags | (_lib.FLAG_ERRNO if errno else 0)

    @property
    def is_default(self) -> bool:
        """Whether all options have their default values."""
        named = self.name is not None or self.doc is not None or self.owner is not None
        return not (named or self.flags or self.policies)


class NewEntry(NamedTuple):
    """An entry that is not in a table yet."""

    address: int
    signature: Signature
    flags: int
    owner: object
    name: str | None
    policies: Policies

    def arguments(self) -> tuple[CallInterface, int, int, object]:
        """Return the arguments of the core's `_set_entry`."""
        cif = callinterface.of(self.signature, self.flags, self.policies)
        return cif, self.address, self.flags, self.owner


def refuse_duplicates(found: list[NewEntry]) -> None:
    seen: dict[str, str] = {}
    for one in found:
        text, written = one.signature.text, one.signature.written
        if text in seen:
            raise ValueError(
                f"'target' has {seen[text]!r} and {written!r}, the same signature here: {text!r}"
            )
        seen[text] = written


def refuse_names(target: Mapping[Foreign, object]) -> None:
    """Refuse a mapping from names to capsules, such as `__pyx_capi__` of a Cython module."""
    rows = [*target.items()]
    for key, one in rows:
        is_name = isinstance(key, str) and key.partition("[")[0].isidentifier()  # "name[double]"
        if not is_name or type(one).__name__ != "PyCapsule":
            return
    if rows:  # `len` of a mapping may be wrong
        raise TypeError(
            "'target' must map signatures to targets (got a mapping from names to capsules, such "
            "as '__pyx_capi__'); nativecall.wrap(module, 'name') takes one function"
        )


_ANY_GIL = _lib.FLAG_RELEASE_GIL | _lib.FLAG_NEEDS_GIL


def _inherit(options: Options, known: int, supposed: bool = False) -> int:
    """Return the flags of the options, completed with the target's `known` flags.

    If `supposed`, the target's GIL flags are only defaults.
    """
    flags = options.flags
    if supposed and flags & _ANY_GIL:
        known = 0
    if known & _lib.FLAG_NEEDS_GIL:
        if flags & _lib.FLAG_RELEASE_GIL:
            raise ValueError("gil='release' cannot be right: the target needs the GIL")
        known &= ~_lib.FLAG_RELEASE_GIL  # calls of a function that needs the GIL must keep it
    if not flags & _ANY_GIL:
        flags |= known & _ANY_GIL
    if not flags & _lib.FLAG_NEEDS_GIL:
        flags |= known & _lib.FLAG_TAKES_GIL
    if not flags & _lib.ERRORS_MASK:
        flags |= known & _lib.ERRORS_MASK
    return flags | (known & _lib.FLAG_ERRNO)


def needs_gil(signature: Signature, flags: int) -> int:
    """Add the flag for needing the GIL if the signature or error convention implies it.

    Raises
    ------
    ValueError
        If the flag is implied, but `flags` release the GIL.
    """
    # A Python object by value, in a struct, behind a pointer, or in a function-pointer type.
    objects = "O" in signature.text
    raising = convention(flags).needs_gil
    if flags & _lib.FLAG_RELEASE_GIL and (objects or raising):
        what = "handles Python objects" if objects else "sets Python exceptions"
        raise ValueError(f"gil='release' cannot be right for {signature.text!r}, which {what}")
    if objects or (raising and not flags & _lib.FLAG_TAKES_GIL):
        flags |= _lib.FLAG_NEEDS_GIL
    return flags


def _means(known: Signature, wanted: Signature) -> bool:
    """Return whether `wanted` is the known signature, or only refines its opaque pointers."""
    if known.text == wanted.text:
        return True
    if known.variadic != wanted.variadic or len(known.args) != len(wanted.args):
        return False
    pairs = zip((known.result, *known.args), (wanted.result, *wanted.args), strict=True)
    return all([one.text == other.text or _is_opaque(one, other) for one, other in pairs])


def _is_opaque(known: CType, wanted: CType) -> bool:
    """Return whether a known pointer is opaque, and the wanted type is a pointer.

    For a pointer to an object of a Cython class, the wanted type may also be an object.
    """
    if known.kind == "voidptr" and not isinstance(known, Handle):
        return wanted.kind in ("pointer", "function")
    if not isinstance(known, Handle) or not known.opaque:
        return False
    is_object = wanted.kind == "object" and known.name.startswith("struct __pyx_obj_")
    return is_object or wanted.kind in ("pointer", "voidptr")


def refuse_known_otherwise(wanted: Signature, found: foreign.Function) -> None:
    """Refuse a signature that contradicts what is known of a function's signature."""
    if found.partial is not None:
        _refuse_contradiction(wanted, found.partial)
    forms = found.forms
    # Accept if the ABI passes the arguments in the same way for at least one possible form.
    if forms and all([agreement(parse(one), wanted) < Agreement.INTEGER for one in forms]):
        known = " or ".join([repr(form) for form in forms])
        raise SignatureError(f"'signature' is {wanted.text!r}, but the target is {known}")


def _refuse_contradiction(wanted: Signature, known: tuple[foreign.Part, ...]) -> None:
    """Refuse a signature that differs from the known types; None in `known` matches any type."""
    given = (wanted.result, *wanted.args)
    if len(given) != len(known):
        count = len(known) - 1
        raise SignatureError(
            f"'signature' is {wanted.text!r}, but the target takes {count} "
            f"argument{'' if count == 1 else 's'}"
        )
    for index, (one, other) in enumerate(zip(known, given, strict=True)):
        what = f"argument {index}" if index else "the result"
        if isinstance(one, tuple):
            if other.kind not in ("struct", "union"):
                raise SignatureError(
                    f"'signature' is {wanted.text!r}, but {what} of the target is {one[0]!r}, a "
                    "struct by value",
                    hint=one[1],
                )
        elif one is not None and one.text != other.text and not _is_opaque(one, other):
            raise SignatureError(
                f"'signature' is {wanted.text!r}, but {what} of the target is {one.text!r}"
            )


def resolve(target: object, signature: str | Signature | None, options: Options) -> NewEntry:
    """Resolve a target of `wrap` to a new entry."""
    wanted = None if signature is None else parse(signature)
    flags = options.flags
    name = None
    owner: object = None
    known: Signature | None = None
    machine = False
    policies = DEFAULT
    native = foreign.native(target)
    if native is not None:
        cif, address, inherited = native._chosen(wanted)
        known, policies = cif.signature, cif.policies
        owner, name = native, native.__name__
        flags = _inherit(options, inherited)
    elif isinstance(target, int) and not isinstance(target, bool):
        address = target
        if not 0 < address < _ADDRESS_LIMIT:
            raise ValueError(
                f"'target' must be the address of a C function, from 1 to {_ADDRESS_LIMIT - 1:#x} "
                f"(got {address:#x})"
            )
        sys.audit("nativecall.wrap", address, as_text(signature))
    else:
        found = foreign.function(target)
        if found is None and wanted is not None:
            found = foreign.instance(target, wanted, options.errors)
            # The compiled function's signature adds const, and for Fortran the lengths of texts.
            if found is not None and found.signature in (wanted, with_wide_lengths(wanted)):
                wanted = found.signature
        if found is None and wanted is None and foreign.signatures(target) is not None:
            raise TypeError(
                f"'signature' must be given: a {type(target).__name__} has a function for each "
                "signature"
            )
        if found is None:
            reason = foreign.reason(target)
            if reason is not None:
                raise TypeError(reason)
            python = callable(target) and type(target).__module__ != "_cffi_backend"
            way = "; nativecall.callback makes C functions from Python functions" if python else ""
            if isinstance(target, str):
                way = "; nativecall.load finds functions by their names"
            elif hasattr(target, "_FuncPtr") or type(target).__name__.startswith("FFILibrary"):
                way = ", a library; pass one of its functions"
            raise TypeError(
                "'target' must be an address, a native callable, a function pointer or function of "
                "ctypes, cffi, Cython, Numba, f2py, pybind11 or llvmlite, a ufunc, a PyCapsule, a "
                "LowLevelCallable, an object with a registered reader or a mapping "
                f"(got {type(target).__name__}{way})"
            )
        address, known, owner, name = found.address, found.signature, found.owner, found.name
        policies, machine = found.policies, found.machine
        if address == 0:
            raise ValueError(f"'target' must hold a C function; {target!r} is NULL")
        flags = _inherit(options, found.flags, found.supposed)
        if wanted is None and found.reason is not None:
            raise TypeError(f"'signature' must be given: {found.reason}")
        if known is None and foreign.user_data(target):
            raise TypeError(
                f"user data can be bound only if {_a(target)} names the function's type, and this "
                "one does not; wrap its 'function' and pass the data in each call"
            )
        if wanted is not None:
            refuse_known_otherwise(wanted, found)
    if wanted is None:
        if known is None:
            reason = None if isinstance(target, int) else foreign.reason(target)
            hint = "" if reason is None else f": {reason}"
            raise TypeError(f"'signature' must be given: {_a(target)} does not have one{hint}")
        wanted = known
    elif (
        known is not None
        and not _means(known, wanted)
        and not (machine and agreement(known, wanted) >= Agreement.INTEGER)
    ):
        one, other = both(wanted, known)
        which = "'signature' (or 'types')" if wanted.in_c else "'signature'"
        but = f"is {other!r}" if other != one else "has types of these names with other members"
        raise SignatureError(
            f"'signature' is {one!r}, but the target {but}",
            hint=f"omit {which} to use the target's own",
        )
    elif known is None and options.policies.get("fortran"):
        wanted = with_lengths(wanted)
    check_errors(wanted, convention(flags).name)
    flags = needs_gil(wanted, flags)
    if options.owner is not None:
        owner = options.owner if owner is None else (options.owner, owner)
    policies = policies._replace(**options.policies)
    if policies.out:
        hidden = convention(flags).hidden + len(callinterface.text_lengths(wanted, policies))
        outs = resolved(wanted, hidden, policies.out, policies.fortran)
        policies = policies._replace(out=outs)
    if policies.keep != "call":
        policies = policies._replace(keep=kept_for(wanted, policies.keep))
        if policies.keep == "library" and not _ext.library_keeps(owner):
            raise ValueError("keep='library' needs a function that nativecall.load found")
    return NewEntry(address, wanted, flags, owner, name, policies)


def _a(target: object) -> str:
    """Return the kind of a target, for messages."""
    return "an address" if isinstance(target, int) else f"a {type(target).__name__}"


def kept_for(signature: Signature, keep: str | int) -> str | int:
    """Return how long C keeps functions passed to it; convert an argument's name to its position.

    Raises
    ------
    ValueError
        If the signature has no function pointers, or there is no such argument.
    """
    if all([arg.kind != "function" for arg in signature.args]):
        raise ValueError(
            f"keep={keep!r} is for functions that are passed, but the signature is "
            f"{signature.shown('')!r}"
        )
    if keep in ("library", "process"):
        return keep
    return position(signature, len(signature.args), keep, "keep")


def without(callable: Native, policy: str, owner: object) -> Native:
    """Copy the only entry of `callable` without one policy; the copy keeps `owner` alive."""
    cif, address, flags = callable._entry()
    policies = cif.policies._replace(**{policy: getattr(DEFAULT, policy)})
    return callable._derived(
        callinterface.of(cif.signature, flags, policies), address, flags, owner
    )
