"""Hooks of the metaclass: read the body of a class of native objects, and create its descriptors.

The metaclass, implemented in C, works in this order:

1. `describe` reads the class body.
2. The core lays out the fields and creates the native class.
3. The Python class is created.
4. `publish` returns the class's descriptors. It also publishes classes created by C code.
"""

from __future__ import annotations

from types import FunctionType
from weakref import WeakValueDictionary

from .. import _ext
from .._callable.callable import NativeCallable, plain
from .._callable.wrap import wrap
from .._callback import callback
from .._cdecl.spelling import parse, parse_type
from .._errors import TYPE_CHECKING, SignatureError, refuse_reload
from .._types.ctype import VOIDPTR, CType, Scalar
from .._types.derived import lay_out
from .._types.signature import Signature
from .._values import callinterface
from .declared import Field, Method, check_self, field
from .values import loader, storer, view

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._ext import FieldRow, Foreign, MethodRow

refuse_reload(globals(), "describe")

_latest: WeakValueDictionary[tuple[str, str], type] = WeakValueDictionary()
#: Classes by the addresses of their native classes.
classes_by_address: WeakValueDictionary[int, type] = WeakValueDictionary()
_PARTS = "__nativeparts__"  # passes declarations from `describe` to `publish`
KEPT = "__nativekept__"  # keeps callbacks alive that native code points to
_ADDRESS = parse_type("N")


def describe(
    name: str, bases: tuple[Foreign, ...], space: dict[str, Foreign]
) -> tuple[int, int, tuple[FieldRow, ...], tuple[MethodRow, ...]] | None:
    """Read a class body; return the size and alignment of its fields, the fields and the methods.

    Declarations are removed from the namespace; Python functions stay in it.
    """
    native = _inherited(bases)
    fields: list[tuple[str, str | None, Foreign]] = []
    methods: list[MethodRow] = []
    parts: dict[str, Field | Method] = {}
    made: dict[str, NativeCallable] = {}
    for key, value in list(space.items()):
        known = native.get(key)
        if isinstance(value, (Field, Method)):
            _check_name(name, key)
        if isinstance(value, Field) and value.text == name:
            raise TypeError(
                f"class {name!r}: its name is also a type code, so field({name!r}) has that "
                "type and is not a reference; rename the class, or write "
                "field(nativecall.NativeObject), a reference to any native object"
            )
        if isinstance(value, Field):
            of = None if value.type else _class_of(value.of, name, space)
            fields.append((key, value.code, of))
            parts[key] = value
            del space[key]
        elif isinstance(value, Method) or known is not None:
            declared = _method(name, key, value, known)
            row, kept = _native(declared, f"{name}.{key}")
            methods.append((key, _in_place(row[0], known), *row[1:]))
            parts[key] = declared
            if kept is not None:
                made[key] = kept
            if isinstance(declared.target, FunctionType):
                space[key] = declared.target
            else:
                space.pop(key)
    if not parts:
        return None
    space[_PARTS] = (parts, made, native)
    types = [part.type or VOIDPTR for part in parts.values() if isinstance(part, Field)]
    places, end, alignment = lay_out(
        [(one.size, one.alignment, None, True, 0, False) for one in types]
    )
    rows = [(key, code, at, of) for (key, code, of), (at, _) in zip(fields, places, strict=True)]
    end = -(-end // alignment) * alignment
    return end, alignment, tuple(rows), tuple(methods)


def publish(cls: type, address: int) -> dict[str, Foreign | None]:
    """Return the attributes to set on a class for its declarations; None deletes the attribute."""
    fields, methods = _ext.native_parts(cls)
    parts, made, native = cls.__dict__.get(_PARTS, ({}, {}, None))
    found: dict[str, Foreign | None] = {}
    if parts:
        found[_PARTS] = None
    kept = tuple([one for key, one in made.items() if key in cls.__dict__])
    if kept:
        found[KEPT] = kept
    for name, code, offset in fields:
        _check_name(cls.__name__, name)
        if name not in cls.__dict__:
            found[name] = _field(cls, name, code, offset, parts.get(name))
        elif parts:
            raise _hidden(cls, name, "native")
    for name, text, entry, flags, takes_fields in methods:
        part = parts.get(name)
        if name in cls.__dict__:
            if part is not None and cls.__dict__[name] is not part.target:
                raise _hidden(cls, name, "native")
            continue
        signature = parse(text)
        check_self(signature)
        target = made.get(name)
        if target is None and entry:
            target = wrap(entry, signature, name=f"{cls.__name__}.{name}")
            if flags:
                cif, address, _ = target._entry()
                target = target._derived(cif, address, flags, target)
        doc = part.doc if isinstance(part, Method) else None
        found[name] = _ext.Method(cls, name, target, takes_fields, text, doc)
    _check_order(cls, _inherited(cls.__bases__) if native is None else native)
    _latest[cls.__module__, cls.__qualname__] = classes_by_address[address] = cls
    return found


# -- fields ----------------------------------------------------------------------------------------


def _field(cls: type, name: str, code: str | None, offset: int, part: Foreign) -> object:
    doc = part.doc if isinstance(part, Field) else None
    if code is None:
        return _ext.Field(cls, name, "@", 8, False, None, None, doc)
    who = f"field {name!r} of {cls.__name__!r}"
    ctype = (part.type if isinstance(part, Field) else None) or _type_of(code, who, offset)
    atomic = isinstance(part, Field) and part.atomic
    if isinstance(ctype, Scalar):
        letter, load, store = ctype.letter, None, None
    else:
        letter, load, store = "", loader(ctype), storer(ctype, who)
    return _ext.Field(cls, name, letter, ctype.size, atomic, load, store, doc)


def _type_of(code: str, who: str, offset: int) -> CType:
    """Return the type of a C class's field; refuse types that a class body could not declare."""
    try:
        ctype = parse_type(code)
        field(ctype)
    except (SignatureError, TypeError) as error:
        error.add_note(f"This is {who}.")
        raise
    if offset % ctype.alignment:
        raise TypeError(
            f"{who} lies at offset {offset}, which is not a multiple of {ctype.alignment}, the "
            f"alignment of {code!r}"
        )
    return ctype


def _class_of(of: type | str | None, name: str, space: dict[str, Foreign]) -> Foreign:
    """Return the class of a reference: None for any class, ``...`` for the class being created.

    A name is looked up in the scope of the class statement and the enclosing scopes, as in Python.
    If a scope created several classes of that name, as a function called twice does, the last one
    counts. If no scope has the name, it is looked up among all classes.
    """
    if not isinstance(of, str):
        return of
    if of == name:
        return ...
    module = space.get("__module__")
    scope = str(space.get("__qualname__", name))
    while module is not None and scope:
        scope = scope.rpartition(".")[0]
        near = _latest.get((module, f"{scope}.{of}" if scope else of))
        if near is not None:
            return near
    # A copy, since other threads may add classes.
    known = [one() for one in classes_by_address.valuerefs()]
    every = [_ext.NativeObject, *[cls for cls in known if cls is not None]]
    found = [cls for cls in every if cls.__name__ == of]
    here = [cls for cls in found if cls.__module__ == module] or found
    if len(here) != 1:
        names = ", ".join([f"{cls.__module__}.{cls.__qualname__}" for cls in here])
        why = f"several have that name: {names}" if here else "none has that name yet"
        way = "give the class itself" if here else "use nativecall.NativeObject for any"
        raise TypeError(
            f"{of!r} is neither a type's code nor one class of native objects: {why}; {way}"
        )
    return here[0]


def _check_name(cls: str, name: object) -> None:
    if not isinstance(name, str) or not str.isidentifier(name):
        raise TypeError(f"class {cls!r}: a native name must be an identifier (got {name!r})")


# -- methods ---------------------------------------------------------------------------------------


def _inherited(bases: tuple[Foreign, ...]) -> dict[str, str]:
    """Return the native names of the bases, with a method's signature or ``""`` for a field."""
    found: dict[str, str] = {}
    for base in bases:
        for one in _ext.native_order(base) if isinstance(base, _ext.nativeobjecttype) else ():
            fields, methods = _ext.native_parts(one)
            found |= {name: "" for name, *_ in fields} | {row[0]: row[1] for row in methods}
    return found


def _method(cls: str, name: str, value: Foreign, known: str | None) -> Method:
    """Return a method's declaration, also for a Python function that overrides a native method."""
    if isinstance(value, Method):
        return value
    if known == "":
        raise TypeError(f"class {cls!r}: {name!r} is a field of a base class and must stay one")
    if not isinstance(value, FunctionType):
        raise TypeError(
            f"class {cls!r}: {name!r} is a native method of a base, with the signature {known!r}; "
            f"override it with a function or nativecall.method (got {type(value).__name__})"
        )
    return Method(value, parse(known or ""), {}, value.__doc__)


def _with_address(signature: Signature) -> Signature:
    """Replace self by an integer in a signature, so that Python functions get the address."""
    return Signature(
        signature.result,
        (_ADDRESS, *signature.args[1:]),
        readonly=(False, *signature.readonly[1:]),
    )


def _native(
    declared: Method, name: str
) -> tuple[tuple[str, int, int, bool], NativeCallable | None]:
    """Return (signature, address, flags, whether self points to the fields), and the callable."""
    target, signature = declared.target, declared.signature
    if target is None:
        assert signature is not None
        return (signature.text, 0, 0, _takes_fields(signature)), None
    if isinstance(target, FunctionType):
        assert signature is not None
        called = callback(_with_address(signature), _with_object(target), name=name)
        _, address, flags = called._entry()
        return (signature.text, address, flags, False), called
    given = wrap(target, signature, **declared.options)  # type: ignore[arg-type]  # checked by wrap
    cif, address, flags = given._entry()
    signature = signature or cif.signature
    check_self(signature)
    owner = given._owners[0] if len(given._owners) == 1 else given
    made = plain(address, callinterface.of(signature, flags, cif.policies), name, owner, flags)
    return (signature.text, address, flags, _takes_fields(signature)), made


def _in_place(text: str, known: str | None) -> str:
    """Return the signature under which native code looks up a method.

    If only self differs from the base's signature, return the base's. The row in the class's table
    records whether self is the object or its fields.
    """
    if known and _with_address(parse(text)).text == _with_address(parse(known)).text:
        return known
    return text


def _takes_fields(signature: Signature) -> bool:
    return signature.args[0].kind == "pointer"


def _with_object(function: FunctionType) -> Callable[..., object]:
    def called(address: int, *values: object) -> object:
        return function(_ext.object_as_python(address), *values)

    # Unraisable reports of exceptions in native threads show the name of the function.
    for told in ("__module__", "__name__", "__qualname__"):
        setattr(called, told, getattr(function, told))
    return called


# -- the order of bases ----------------------------------------------------------------------------


def _check_order(cls: type, inherited: dict[str, str]) -> None:
    """Refuse a class in which a native name would resolve to something else in Python."""
    own = _own_names(cls)
    names = inherited.keys() | own
    order = _ext.native_order(cls)
    for name in (inherited.keys() & cls.__dict__.keys()) - own:
        raise _hidden(cls, name, "native in a base")
    if len(cls.__mro__) == len(order) + 1:
        return  # all but `object` are classes of native objects
    ordered = {*map(id, order)}
    for one in cls.__mro__:
        if id(one) in ordered or one is object:
            continue
        for name, value in one.__dict__.items():
            if isinstance(value, (Field, Method)):
                raise TypeError(
                    f"class {cls.__name__!r}: {name!r} of its base {one.__name__!r} is a native "
                    f"{'field' if isinstance(value, Field) else 'method'}, but {one.__name__!r} is "
                    "not a class of native objects; derive it from nativecall.NativeObject"
                )
        before = [later for later in order if cls.__mro__.index(later) > cls.__mro__.index(one)]
        for name in names & one.__dict__.keys():
            if any([name in _own_names(later) for later in before]):
                raise TypeError(
                    f"class {cls.__name__!r}: {name!r} is native, but {one.__name__!r} is not a "
                    "class of native objects and would hide it from Python only; list it after the "
                    "native bases, or derive it from nativecall.NativeObject"
                )


def _hidden(cls: type, name: str, what: str) -> TypeError:
    return TypeError(
        f"class {cls.__name__!r}: {name!r} is {what}, but an attribute of that name, from "
        "__slots__ or from code that ran while the class was created, would hide it from Python "
        "only; use another name"
    )


def _own_names(cls: type) -> set[str]:
    """Return the native names that a class adds."""
    return {row[0] for rows in _ext.native_parts(cls) for row in rows}


_ext.set_hooks("objects", describe, publish, view)
