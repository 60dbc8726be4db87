"""PyCapsules: function pointers named by a C declaration, as Cython and SciPy exchange them.

Consumers compare the names character by character, so names are spelled as Cython spells them:
plain C types, no argument names, one space after each comma. Strided views have no name in C, so
they are spelled ``void *``. A name cannot record whether the function needs the GIL, so capsules
made here also carry the entry of the function.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

from .. import _ext, _lib
from .._callable.callable import NativeCallable, plain
from .._callable.pickled import wrapped
from .._cdecl.spelling import parse, words
from .._errors import TYPE_CHECKING, SignatureError, SymbolError, wrong_type
from .._types.signature import Signature
from .._values import callinterface
from .._values.capsules import get_context, get_name, get_pointer
from .._values.foreign import Function, Passing, bridge
from . import capsulename

if TYPE_CHECKING:
    from .._ext import Foreign, Native
    from .._values.calloptions import Gil
    from .._values.failure import Errors

_BITS = b"BitGenerator"


def own_entry(obj: object) -> NativeCallable | None:
    """Return the entry of a capsule that nativecall made."""
    return _ext.capsule_entry(obj)


def function(obj: object) -> Function | None:
    """Return the function in a capsule. Its signature is the capsule's name, if the name parses."""
    if type(obj).__name__ != "PyCapsule":
        return None  # a built-in that is bound to a capsule
    name = get_name(obj)
    place = get_pointer(obj, name) or 0
    if name is None:
        return Function(place, None, obj)
    text = name.decode("utf-8", "replace")
    said = capsulename.read(text)
    if said.is_data:
        return None
    from . import _cython

    # The name does not record whether the function needs the GIL or how it reports errors. The .pxd
    # file beside the exporting module does.
    flags, supposed, own = _cython.promised(obj)
    found = Function(
        place,
        said.signature,
        obj,
        own,
        flags,
        supposed=supposed,
        partial=said.partial,
        forms=capsulename.XLA_SIGNATURES if text == capsulename.XLA else (),
        reason=said.reason,
    )
    optional = capsulename.optional(text)
    signature = said.signature
    return _without_optional(found, signature, optional) if signature and optional else found


def native(obj: object) -> NativeCallable | None:
    """Return the functions of a capsule that holds several, such as a NumPy bit generator's.

    If the capsule has user data, return its function with the data bound. Otherwise return None.
    """
    if type(obj).__name__ != "PyCapsule" or own_entry(obj) is not None:
        return None
    if get_name(obj) == _BITS:
        found: NativeCallable | None = bridge("BitGenerator").native_at(address(obj, _BITS), obj)
        return found
    data = user_data(obj)
    return with_data(function(obj), data, obj) if data else None


def user_data(obj: object) -> int | None:
    """Return the user data of a capsule, which is its context.

    Return None unless the last argument of its function is a void pointer.
    """
    if type(obj).__name__ != "PyCapsule" or own_entry(obj) is not None or get_name(obj) is None:
        return None
    data = get_context(obj)
    found = function(obj) if data else None
    signature = None if found is None else found.signature
    args = () if signature is None else signature.args
    return data if args and args[-1].kind == "voidptr" else None


def takes_data(signature: Signature) -> bool:
    """Return whether the last argument can take user data."""
    return bool(signature.args) and signature.args[-1].kind in ("voidptr", "pointer")


def with_data(
    target: Native | Function | None, data: object, owner: object
) -> NativeCallable | None:
    """Return a function with its user data bound, or None if the function takes no user data.

    `data` is an address or any value that the argument accepts. The result keeps `owner` alive.
    """
    if isinstance(target, Function):
        if target.signature is None or not target.address:
            return None
        cif = callinterface.of(target.signature, 0, target.policies)
        target = plain(target.address, cif, target.name, target.owner, target.flags)
    signature = None if target is None else target._chosen(None)[0].signature
    if target is None or signature is None or not takes_data(signature):
        return None
    if isinstance(data, int):
        pointer = _lib.ffi.cast("void *", data)
        data = _lib.ffi.gc(pointer, lambda _, owner=owner: None)
    return target.bind(*[...] * (len(signature.args) - 1), data)


def reason(obj: object) -> str | None:
    """Return why a capsule holds no function, or why a built-in bound to an object is rejected."""
    if type(obj).__name__ != "PyCapsule":
        older: str = bridge("pybind11_builtins").of_capsule(obj)
        return older
    name = get_name(obj)
    if name is None:
        return "it has no name"
    text = name.decode("utf-8", "replace")
    said = capsulename.read(text)
    if said.is_data:
        return f"{obj!r} has no function: {said.reason}"
    return f"its name, {text if len(text) < 80 else text[:80] + '…'!r}, declares no function"


def declared(obj: object, types: Foreign) -> str | None:
    """Return a capsule's name as a C declaration; `types` supplies the names of Cython's types."""
    name = get_name(obj) if type(obj).__name__ == "PyCapsule" else None
    names = getattr(getattr(types, "_owner", None), "names", None)
    return None if name is None else capsulename.in_c(name.decode("utf-8", "replace"), names)


def _without_optional(found: Function, signature: Signature, optional: str) -> Function:
    """Bind the optional arguments of a function to 0 and NULL.

    If they cannot be bound, they stay arguments.
    """
    whole = Signature(signature.result, (*signature.args, *parse(f"v:{optional}").args))
    known: Gil = "need" if found.flags & _lib.FLAG_NEEDS_GIL else "hold"
    errors: Errors = "python" if found.flags & _lib.ERRORS["python"] else "none"
    made = NativeCallable(found.address, whole, owner=found.owner, gil=known, errors=errors)
    try:
        bound = made.bind(*[...] * len(signature.args), *[0, None][-len(optional) :])
    except SignatureError:  # no code can be generated
        return found._replace(signature=whole)
    cif, target, kept = bound._entry()
    flags, owner = found.flags | kept, Passing(found.owner, bound)
    return found._replace(address=target, signature=cif.signature, owner=owner, flags=flags)


def pickled(obj: object, *how: Foreign) -> tuple[object, ...] | None:
    """For `pickle`: return a function and arguments that fetch a capsule again from its module.

    Return None for capsules that no module exports by name.
    """
    from . import _cython

    found = _cython.place(obj)
    if found is None or not found[1]:
        return None
    module, key = found
    return _exported_again, (module.__name__, key, *how)


def _exported_again(module: str, key: str, *how: Foreign) -> object:
    """For `pickle`: wrap an exported capsule again."""
    table = getattr(import_module(module), "__pyx_capi__", {})
    if key not in table:
        raise SymbolError.missing(key, module, [*table])
    return wrapped(NativeCallable, table[key], *how)


def address(obj: object, name: bytes | None) -> int:
    """Return the pointer in a capsule named `name` (None: no name); 0 if the name differs."""
    return (get_pointer(obj, name) or 0) if get_name(obj) == name else 0


def to_capsule(signature: Foreign = None, *, name: Foreign = None) -> tuple[Foreign, Foreign]:
    """Parse the arguments of `NativeCallable.to_capsule` that the core does not parse itself."""
    return signature, name


def form(entry: NativeCallable) -> tuple[bytes]:
    """Return the name of an entry's capsules, its C declaration, in a tuple."""
    return (words(entry._chosen(None)[0].signature).encode(),)


def typed(
    callable: NativeCallable, signature: str | Signature | None, name: object
) -> tuple[NativeCallable, tuple[bytes]]:
    """Return the requested entry and the name of its capsule; an empty name means no name."""
    if not isinstance(name, str):
        raise wrong_type("'name'", "a str, '' for no name, or None", name)
    if signature is None and (callable._cif is None or callable._overloads is not None):
        # If the name is a declaration, it selects one of several entries.
        with suppress(TypeError, ValueError):
            parse(name)
            signature = name
    entry = callable._alone(signature)
    if "\0" in name:
        raise ValueError("'name' must not contain a null character")
    try:
        return entry, (name.encode(),)
    except UnicodeEncodeError:
        raise ValueError(f"'name' must be text (got {name!a}, which UTF-8 cannot encode)") from None
