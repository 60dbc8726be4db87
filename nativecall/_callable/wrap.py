"""`wrap`: create a native callable from any object that holds a C function.

If you wrap a native callable without options, it is returned unchanged.
"""

from __future__ import annotations

from _collections_abc import Mapping

from .. import _ext
from .._cdecl.spelling import parse_with
from .._errors import TYPE_CHECKING, SignatureError
from .._types.signature import Signature
from .._values import foreign
from .._values.calloptions import WRAP, spelled
from .callable import NativeCallable
from .entry import Options

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Unpack

    from .._values.calloptions import AnyWrapOptions, WrapOptions
else:
    ModuleType = type(_ext)  # importing `types` takes as long as two of our modules

_wrapped = _ext.wrapped  # fast path for an address and a signature string


@spelled(*WRAP, "types")
def wrap(
    target: object,
    signature: str | Signature | None = None,
    **options: Unpack[AnyWrapOptions],
) -> NativeCallable:
    """Create a native callable from a C function.

    Parameters
    ----------
    target : int, object or mapping
        One of:

        - the address of a C function
        - a native callable or its built-in view, of this package or another provider
        - a function pointer of ctypes or cffi (ABI or API mode)
        - a PyCapsule named by a C declaration, or a `scipy.LowLevelCallable`
        - a Numba cfunc
        - a Numba jitted function, which is compiled for `signature`. Without `signature`, the
          callable has the entries that Numba has compiled. Numba compiles others on demand
          (`specialize`), even for a call whose arguments no entry accepts
        - another provider's callable that creates entries on demand
        - a NumPy ufunc
        - a function of Cython (`cpdef`), f2py, pybind11 or LLVM IR (see docs/foreign-callables.md)
        - an object that a reader of `register_box` accepts
        - a mapping from signatures to such targets, for overloads
        - a Cython module that exports C functions
    signature : str or Signature, optional
        A code such as ``"d:d&f"``, a C declaration, or a signature in the style of NumPy or CEP
        1000. You may omit `signature` if the target records its own. A signature that contradicts
        the recorded one is refused. **You vouch for the address and the signature**: a wrong one
        crashes the process. For a module, pass the name of a function; its fused variants become
        overloads. Or pass a C declaration with the name, ``"double gamma(double)"``, or any
        signature, with the function's name as `name`.
    name, doc : str, optional
        `__name__` and `__doc__`. By default, the name is the symbol at the address, which is looked
        up on first use.
    owner : object, optional
        An object that keeps the function alive. The callable references it.
    gil : {"hold", "release", "need"}
        How calls from Python and native callers handle the GIL. ``"hold"``: calls keep it, unless
        `target` specifies otherwise. ``"release"``: calls release it, for functions that run long
        or block. ``"need"``: the function must not be called without it. ``errors="python"`` and
        Python objects in the signature imply ``"need"``.
    errors : str
        The error convention, by which calls from Python raise an exception (see docs/errors.md).
        ``"none"``: no failures. ``"python"``: the function sets a Python exception. ``"nonzero"``,
        ``"zero"`` and ``"null"``: the result shows a failure (`NativeFailure`). ``"errno"``: errno
        shows a failure (`OSError`). ``"argument"``: the int behind the last argument, an ``int *``,
        shows a failure (`NativeFailure`). This int is 0 before the call and nonzero after a
        failure; calls from Python omit the argument.
    errno : bool
        Whether to save errno after each call, for `get_errno`.
    order : {"C", "F", "A"}, optional
        The memory layout of multidimensional arrays behind pointers: row-major as in C and NumPy,
        column-major as in Fortran, or either. The default is the layout of `target`, otherwise
        ``"C"``. Arrays with another layout are refused, not copied.
    encoding : str, optional
        The encoding of text behind ``const char *``. Such results are `str` instead of `bytes`, and
        such arguments may be `str`. Python functions passed to C get `str`. Wide characters
        (``const wchar_t *`` and the like) need an encoding only in Python functions passed to C.
    check : callable, optional
        Called with the result of each call from Python, this callable and the tuple of arguments.
        The call returns the value that `check` returns, and raises its exceptions. Native callers
        do not run `check`.
    fortran : bool, optional
        Whether the function is a Fortran procedure, which takes everything by reference. Calls from
        Python may then pass a number for a pointer to a number. To get a value that the procedure
        writes, pass an array or a ctypes number. `order` defaults to ``"F"``. For ``char *`` you
        may pass a `str` (ASCII without `encoding`). The lengths of texts follow the arguments as
        `size_t`, and calls from Python do not pass them. These lengths are added to the signature
        if you wrap an address or an f2py object without them.
    out : names or positions of arguments, or a mapping, optional
        Out-parameters: pointers through which the function writes results. Calls from Python omit
        these arguments and return the written values: alone, or in a tuple after the function's own
        result. That result is dropped if it is void, or a status that ``errors="nonzero"`` checks.
        The memory is zero before the call; to pass an initial value, map the argument to
        ``"inout"``. For an array, map the argument to the number of items, or to the name of the
        argument that passes this number; the result is then a NumPy array. Native callers, and
        callables from `bind` and `convert`, pass all arguments.
    keep : str or int, optional
        How long C keeps Python functions passed as function pointers. ``"call"``, the default:
        during the call only. ``"library"``: while a `Library` or function of that file is alive.
        ``"process"``: for ever. The name or position of an argument: while the object passed for it
        is alive. Equal functions that C keeps share one C function. If a kept function returns a
        function, C keeps that function equally long. If no call from Python is in progress, an
        exception of a kept function goes to `sys.unraisablehook`.
    types : Library or its types, optional
        Declares the structs, unions, enums and typedefs that `signature` names in C. Without
        `signature`, declares those in the name of a capsule.

    Returns
    -------
    NativeCallable
        If no option is given, a native callable is returned unchanged. For a built-in view or a
        registered object, the callable behind that object is returned.

    Raises
    ------
    SignatureError
        If the signature is malformed or contradicts that of a foreign callable.
    NoEntryError
        If a native callable or its built-in view has no entry for the signature; a `KeyError`.
    TypeError, ValueError
        If the target holds no C function, the address is out of range, overloads are duplicate, or
        options contradict each other.

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
    """Implement `wrap` beyond its fast path."""
    if types is not None and not isinstance(target, ModuleType):
        if isinstance(target, Mapping):
            target = {parse_with(text, types): one for text, one in target.items()}
        else:
            signature = _named(target, signature, types)
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


def _named(
    target: object, signature: str | Signature | None, types: object
) -> str | Signature | None:
    """Parse a signature (by default, that in a capsule's name) with the types of a library."""
    if signature is None and type(target).__name__ == "PyCapsule":
        signature = foreign.bridge("PyCapsule").declared(target, types)
    return None if signature is None else parse_with(signature, types)


def _exported(
    module: ModuleType, wanted: str | Signature | None, name: str | None, types: object
) -> tuple[object, str | None, str | Signature | None]:
    """Return an exported capsule of a module, its name, and the wanted signature.

    For a function with variants, return a mapping from signatures to capsules instead of a capsule.
    """
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
        raise SignatureError(f"no capsule of {wanted!r} declares its type")
    return variants, name or wanted, None


_SIGNS = frozenset(":()>")  # characters of signatures that names cannot contain


def _exported_as(
    module: ModuleType, wanted: str | Signature, name: str | None, types: object
) -> tuple[object, str, str | Signature]:
    """Return the capsule, name and signature of a module's function with this signature.

    If there are several variants, choose the first that does not contradict the signature.
    """
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
        wrap(module, called, types=types)[signature]  # raises an error that lists the variants
    raise refused
