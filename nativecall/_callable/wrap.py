"""`wrap`, the verb: a native callable of anything that holds a C function.

What is a native callable already is taken as it is; all else becomes a new one.
"""

from __future__ import annotations

from _collections_abc import Mapping

from .. import _ext
from .._cdecl.spelling import parse_with
from .._errors import SignatureError
from .._types.signature import Signature
from .._values import foreign
from .._values.calloptions import WRAP, spelled
from .callable import NativeCallable
from .entry import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Unpack

    from .._values.calloptions import AnyWrapOptions, WrapOptions
else:
    ModuleType = type(_ext)  # the import of `types` takes as long as that of two modules of ours

_wrapped = _ext.wrapped  # the usual call: an address and a signature as text


@spelled(*WRAP, "types")
def wrap(
    target: object,
    signature: str | Signature | None = None,
    **options: Unpack[AnyWrapOptions],
) -> NativeCallable:
    """Make a native callable of a C function.

    Parameters
    ----------
    target : int, object or mapping
        The address of a C function; a native callable or its built-in view, of this package or
        another provider's; a ctypes or cffi function pointer (both of cffi's modes); a PyCapsule
        named by a C declaration; a `scipy.LowLevelCallable`; a cfunc of Numba's; a function made by
        `numba.njit`, which is compiled for `signature`, or without one has the entries that it was
        compiled for already, and others on demand (`specialize`), also for the arguments of calls
        that no entry takes; another provider's callable, whose entries are looked up so; a NumPy
        ufunc; a function of Cython's (`cpdef`), f2py's, pybind11's or LLVM IR, as far as
        docs/foreign-callables.md says; what `register_box` made known; a mapping from signatures to
        such targets, for overloads; or a module of Cython's that exports C functions.
    signature : str or Signature, optional
        The name of a function, where `target` is a module (or that as `name`): the variants of one
        with fused types are overloads; or, with its signature too, a C declaration that names it,
        as ``"double gamma(double)"``, or any signature with the name as `name`. For others
        ``"d:d&f"``, or a C declaration, or NumPy's or CEP 1000's style. May be left out
        where the target knows it; one that contradicts the target is refused. **The caller vouches
        for the address and the signature**: a wrong one crashes the process.
    name, doc : str, optional
        `__name__` and `__doc__`; the name defaults to the symbol at the address, which is looked
        up when the name is first asked for.
    owner : object, optional
        What keeps the function alive; kept as long as the callable.
    gil : {"hold", "release", "need"}
        What calls from Python do with the GIL, and what native callers are told: ``"hold"``
        keeps it, unless `target` says otherwise, ``"release"`` drops it for functions that run long
        or block, ``"need"`` says that the function must not be called without it, as it is for
        ``errors="python"`` and Python objects in the signature.
    errors : str
        How the function reports failure, which calls from Python turn into an exception: one of the
        conventions in docs/errors.md. ``"none"`` says nothing, ``"python"`` that it set a Python
        exception; ``"nonzero"`` and others are about the result (`NativeFailure`), ``"errno"`` is
        about errno (`OSError`), ``"argument"`` about an int that its last argument, an ``int *``,
        points to, 0 before the call and not after it (`NativeFailure`): Python does not pass that
        argument.
    errno : bool
        Whether to save errno after each call, for `get_errno`.
    order : {"C", "F", "A"}, optional
        How C code expects arrays of several dimensions in memory, behind every pointer that it is
        given: rows first, as C and NumPy have them, columns first, as Fortran has them, or either
        of these. What `target` says by default, else ``"C"``. Other arrays are refused, not copied.
    encoding : str, optional
        Of text behind ``const char *``: such results are `str` instead of `bytes`, and such
        arguments may be `str`; Python functions that are passed get `str` for theirs. Wide
        characters (``const wchar_t *`` and the like) need none, but for those functions.
    check : callable, optional
        Called with each result, this callable and the tuple of its arguments; what it returns is
        what the call from Python returns. What it raises the call raises. Native callers do not
        see it.
    fortran : bool, optional
        Whether it is a procedure of Fortran, which takes everything by reference: where a pointer
        to a number is declared, calls from Python may pass a number. What the procedure writes to
        must be an array, or a number in memory as those of ctypes. `order` is ``"F"`` unless it is
        given. Where a ``char *`` is declared, a `str` may be passed (ASCII without `encoding`). The
        lengths of texts follow the arguments, as `size_t`: they are part of the signature, whether
        it was written with them or an address, or an object of f2py's, was wrapped without, and
        calls from Python do not pass them.
    out : names or positions of arguments, or a mapping, optional
        Pointers to where the function writes results: Python leaves them out, and gets what was
        written, alone or in a tuple after the function's own result, unless that is void or a
        status that ``errors="nonzero"`` checks. The memory is zero before the call, unless a
        mapping says ``"inout"`` of an argument: then Python passes its value. A mapping may also
        say how many items there are, as a number or as the name of the argument that has it: these
        come back as a NumPy array. Native callers pass all arguments, and so do callables that
        `bind` and `convert` make.
    keep : str or int, optional
        How long C keeps Python functions that are passed for C functions. They are valid for the
        call alone, ``"call"``, unless this says ``"library"``, while a `Library` or a function of
        that file is alive, ``"process"``, for ever, or the name or position of an argument, while
        the object that was passed for it is alive. Equal functions are one C function meanwhile,
        and functions that a kept one returns are kept with it. What a kept function raises where
        no call from Python is under way goes to `sys.unraisablehook`.
    types : Library or its types, optional
        What has the structs, unions, enums and typedefs that `signature` names in C, or without
        one the name of a capsule.

    Returns
    -------
    NativeCallable
        `target` itself when it is a native callable, or the built-in view of one, or a registered
        object that stands for one, and nothing else is asked.

    Raises
    ------
    SignatureError
        A malformed signature, or one that contradicts what a foreign callable says.
    NoEntryError
        A `KeyError`: a signature that a native callable, or its built-in view, has no entry of.
    TypeError, ValueError
        A target that holds no C function, an address out of range, duplicate overloads, or options
        that contradict each other.

    Examples
    --------
    >>> import ctypes, nativecall
    >>> ldexp = nativecall.wrap(ctypes.CDLL(None).ldexp, "double (double, int)")
    >>> ldexp(0.75, 4)
    12.0
    """
    made = _wrapped(target, signature, options)
    return _wrap(target, signature, **options) if made is None else made


def _wrap(
    target: object,
    signature: str | Signature | None,
    *,
    types: object = None,
    **options: Unpack[WrapOptions],
) -> NativeCallable:
    """`wrap` of all else."""
    if types is not None and not isinstance(target, ModuleType):
        target, signature = _with_types(target, signature, types)
    if isinstance(target, ModuleType):
        name = options.get("name")
        target, options["name"], signature = _exported(target, signature, name, types)
    said = Options(**options)
    if said.is_default and not isinstance(target, Mapping):
        native = foreign.native(target)
        if isinstance(native, NativeCallable):
            return native if signature is None else native[signature]
    made = NativeCallable.__new__(NativeCallable)
    made._fill(target, signature, said)
    return made


def _with_types(
    target: object, signature: str | Signature | None, types: object
) -> tuple[object, str | Signature | None]:
    """Return both with the types of a library."""
    if isinstance(target, Mapping):
        return {parse_with(text, types): one for text, one in target.items()}, signature
    return target, _named(target, signature, types)


def _named(
    target: object, signature: str | Signature | None, types: object
) -> str | Signature | None:
    """A signature with the types of a library; where there is none, that of a capsule's name."""
    if signature is None and type(target).__name__ == "PyCapsule":
        signature = foreign.bridge("PyCapsule").declared(target, types)
    return None if signature is None else parse_with(signature, types)


def _exported(
    module: ModuleType, wanted: str | Signature | None, name: str | None, types: object
) -> tuple[object, str | None, str | Signature | None]:
    """The capsule that a module exports by a name, or those of its variants by their signatures;
    the name; and the signature, where one is wanted."""
    if isinstance(wanted, Signature) or (isinstance(wanted, str) and _SIGNS.intersection(wanted)):
        return _exported_as(module, wanted, name, types)
    wanted = name if wanted is None else wanted
    if not isinstance(wanted, str):
        raise TypeError(
            f"a module has many functions: name one, as in wrap({module.__name__}, 'name') "
            f"(got {type(wanted).__name__})"
        )
    capsules = foreign.bridge("_cython").exported(module, wanted)
    variants: dict[object, object] = {}
    if types is not None:
        variants = {_named(capsule, None, types): capsule for capsule in capsules}
    elif len(capsules) == 1:
        return capsules[0], name or wanted, None
    else:
        for capsule in capsules:
            found = foreign.function(capsule)
            if found is not None and found.signature is not None:
                variants.setdefault(found.signature, capsule)
    if not variants:
        raise SignatureError(f"no capsule of {wanted!r} tells its type")
    return variants, name or wanted, None


_SIGNS = frozenset(":()>")  # which signatures have, and names have not


def _exported_as(
    module: ModuleType, wanted: str | Signature, name: str | None, types: object
) -> tuple[object, str, str | Signature]:
    """The capsule that a module exports for a function with a signature, of its variants the first
    that does not contradict it."""
    before = wanted.partition("(")[0].split() if isinstance(wanted, str) else []
    called = name or (before[-1].strip("*") if len(before) > 1 else "")
    if not called:
        raise TypeError(
            f"{str(wanted)!r} names no function of the module {module.__name__!r}; write a C "
            "declaration with the name, as in 'double gamma(double)', or give name="
        )
    capsules = foreign.bridge("_cython").exported(module, called)
    signature = wanted if types is None else parse_with(wanted, types)
    refused = None
    for capsule in capsules:
        try:
            NativeCallable(capsule, signature)
        except SignatureError as error:
            refused = refused or error
        else:
            return capsule, called, signature
    assert refused is not None
    if len(capsules) > 1:
        wrap(module, called, types=types)[signature]  # says which there are
    raise refused
