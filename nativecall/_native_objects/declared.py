"""`field` and `method`: declarations in the body of a class of native objects.

Both functions check their arguments immediately. When the class is created, descriptors replace
the declarations.
"""

from __future__ import annotations

from collections import namedtuple
from types import FunctionType

from .. import _ext
from .._cdecl.spelling import parse, parse_type
from .._errors import TYPE_CHECKING, SignatureError, did_you_mean, refuse_reload
from .._types.ctype import CType
from .._types.derived import object_offsets
from .._types.signature import Signature

if TYPE_CHECKING:
    from builtins import type as _Class
    from collections.abc import Callable
    from typing import Literal

    from .._values.failure import Errors

refuse_reload(globals(), "field")

_ATOMIC = ("bool", "int", "float")


class Field(namedtuple("Field", "type of atomic doc text", defaults=(None,))):
    """A declared field of a class of native objects, until the class is created; see `field`.

    Attributes
    ----------
    type : CType or None
        None for a counted reference.
    of : type, str or None
        The class of the referenced object, or that class's name; None for any native object.
    atomic : bool
    doc : str or None
    text : str or None
        The type code as written; None if `field` was not given a code.
    """

    __slots__ = ()
    __nativedeclares__ = True  # marks declarations for the metaclass
    type: CType | None
    of: _Class | str | None
    atomic: bool
    doc: str | None
    text: str | None

    @property
    def code(self) -> str | None:
        """The value of NcField.type in C."""
        return None if self.type is None else self.type.named

    def __repr__(self) -> str:
        return f"<native field {self.code or self.of!r}>"


class Method(namedtuple("Method", "target signature options doc")):
    """A declared method of a class of native objects, until the class is created; see `method`.

    Attributes
    ----------
    target : object
        A target of `wrap`, a Python function, or None for an abstract method.
    signature : Signature or None
        The signature including self; None if the target has one.
    options : dict
        Options of `wrap`.
    """

    __slots__ = ()
    __nativedeclares__ = True
    target: object
    signature: Signature | None
    options: dict[str, str]
    doc: str | None

    def __call__(self, function: Callable[..., object]) -> Method:
        if self.target is not None or not isinstance(function, FunctionType):
            raise TypeError(
                "a native method cannot be called; use it to decorate a Python function, as in "
                f"@nativecall.method('d:&v') (got {type(function).__name__})"
            )
        return Method(function, self.signature, self.options, self.doc)

    def __repr__(self) -> str:
        return f"<native method {str(self.signature)!r}>"


def field(type: object, *, atomic: bool = False, doc: str | None = None) -> Field:
    """Declare a field in the body of a class of native objects.

    Parameters
    ----------
    type : str, CType or class
        A type code: a scalar (``"d"``), a pointer (``"&d"``, ``"P"``, ``"X{d:d}"``), an array
        (``"(3)d"``) or a struct (``"T{d:x:d:y:}"``). You can also pass a class of native objects or
        its name, even the name of the class being defined. The field is then a counted reference or
        None.
        A string that is a valid code is read as a code. ``nativecall.NativeObject`` means any
        native object.
    atomic : bool
        Whether each access is a single, sequentially consistent atomic operation. Only numbers of
        at most 8 bytes can be atomic. Other fields are plain memory: threads that share them must
        synchronize.
    doc : str, optional

    Returns
    -------
    Field
        On objects, the attribute is the value: a number, a cffi pointer (borrowed: you must keep
        its memory alive), or the referenced object. A struct reads as a `Record`, and an array of
        numbers as a NumPy array. Both share the object's memory.

    Raises
    ------
    SignatureError, TypeError
        If a field cannot have this type.

    Examples
    --------
    >>> import nativecall as nc
    >>> class Point(nc.NativeObject):
    ...     x = nc.field("d")
    ...     y = nc.field("d")
    ...     next = nc.field("Point")
    >>> p = Point(1.0, y=2.0)
    >>> p.next = Point(3.0)
    >>> p.x, p.y, p.next.x, p.next.next
    (1.0, 2.0, 3.0, None)
    """
    root = _ext.NativeObject
    if isinstance(type, _TYPE) and issubclass(type, root):
        return _reference(None if type is root else type, atomic, doc)
    if not isinstance(type, (str, CType)):
        raise TypeError(
            "'type' must be a type's code, a class of native objects or the name of one "
            f"(got {type!r})"
        )
    if isinstance(type, CType):
        ctype = type
    else:
        try:
            ctype = parse_type(type)
        except SignatureError:
            if not type.isidentifier():
                raise
            from .._cdecl.lexer import CODES

            if type in CODES:
                hint = did_you_mean([CODES[type]])
                raise TypeError(f"{type!r} is a C type, not its code{hint}") from None
            return _reference(type, atomic, doc)
    if ctype.kind in ("void", "object", "view") or object_offsets(ctype):
        raise TypeError(
            f"a field cannot be {ctype.named!r}: fields are numbers, pointers, structs, arrays and "
            "references to native objects"
        )
    if ctype.alignment > 16:
        raise TypeError(f"a field cannot have the alignment of {ctype.named!r}, {ctype.alignment}")
    if atomic and (ctype.kind not in _ATOMIC or ctype.size > 8):
        raise TypeError(
            f"a field of type {ctype.named!r} cannot be atomic; numbers of 1 to 8 bytes can be"
        )
    return Field(ctype, None, atomic, doc, type if isinstance(type, str) else None)


_TYPE = type


def _reference(of: type | str | None, atomic: bool, doc: str | None) -> Field:
    if atomic:
        raise TypeError("a reference cannot be atomic: it is two counts and a pointer")
    return Field(None, of, False, doc)


def method(
    target: object = None,
    signature: str | Signature | None = None,
    *,
    gil: Literal["hold", "release"] = "hold",
    errors: Errors = "none",
    doc: str | None = None,
) -> Method:
    """Declare a native method in the body of a class of native objects.

    Parameters
    ----------
    target : object, optional
        A target of `wrap` (an address, a native callable, a Numba cfunc or jitted function), or a
        Python function. Native code takes the GIL to call a Python function. Without a target, the
        method is abstract: the class cannot have objects, and subclasses define the method. A
        single string is the signature, for use as a decorator: ``@nc.method("d:&v")``.
    signature : str or Signature, optional
        The signature, with self first. A `self` of type ``"&v"`` or ``"P"`` is the address of the
        object. Another pointer, such as ``"&d"`` or ``"&T{d:x:d:y:}"``, is the address of the
        fields that this class declares, laid out as a C struct. A Python function gets the object.
    gil, errors : str
        As for `wrap`.
    doc : str, optional

    Raises
    ------
    TypeError
        If the first argument is not a pointer, or the signature is missing.

    Examples
    --------
    >>> import nativecall as nc
    >>> class Point(nc.NativeObject):
    ...     x = nc.field("d")
    ...     y = nc.field("d")
    ...     @nc.method("d:&v")
    ...     def norm(self):
    ...         return (self.x**2 + self.y**2) ** 0.5
    >>> Point(3.0, 4.0).norm()
    5.0
    """
    if signature is None and isinstance(target, (str, Signature)):
        target, signature = None, target
    read = None if signature is None else parse(signature)
    if read is None and isinstance(target, FunctionType):
        raise TypeError(
            "'signature' is missing: a Python function does not say which C types a method has; "
            "write @nativecall.method('d:&v') above it"
        )
    if read is None and target is None:
        raise TypeError("'signature' is missing: an abstract method needs one")
    if read is not None:
        check_self(read)
    options: dict[str, str] = {"gil": gil, "errors": errors}
    return Method(target, read, options, doc)


def check_self(signature: Signature) -> None:
    """Raise TypeError unless the first argument can be an object."""
    if not signature.args or signature.args[0].kind not in ("voidptr", "pointer"):
        raise TypeError(
            f"a method's first argument is the object, a pointer such as '&v' (got "
            f"{signature.text!r})"
        )
    if signature.variadic:
        raise TypeError(f"a method cannot be variadic (got {signature.text!r})")
