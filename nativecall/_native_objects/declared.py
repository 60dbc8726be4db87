"""What a class body of native objects may say: fields and methods, checked when they are written.

The values of `field` and `method` stand in a class body until the class is made, and then give way
to descriptors.
"""

from __future__ import annotations

from collections import namedtuple
from types import FunctionType

from .. import _ext
from .._cdecl.spelling import parse, parse_type
from .._errors import SignatureError, did_you_mean, refuse_reload
from .._types.ctype import CType, Scalar
from .._types.derived import Array, object_offsets
from .._types.signature import Signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from builtins import type as _Class
    from collections.abc import Callable
    from typing import Literal

    from .._values.failure import Errors

refuse_reload(globals(), "field")

_ATOMIC = ("bool", "int", "float")


class Field(namedtuple("Field", "type of atomic doc text", defaults=(None,))):
    """A field of a class of native objects, until the class is made; `field` makes it.

    Attributes
    ----------
    type : CType or None
        None for a counted reference.
    of : type, str or None
        What a reference may refer to: a class, the name of one, or None for any native object.
    atomic : bool
    doc : str or None
    text : str or None
        The code, as it was written.
    """

    __slots__ = ()
    __nativedeclares__ = True  # so that the metaclass knows it
    type: CType | None
    of: _Class | str | None
    atomic: bool
    doc: str | None
    text: str | None

    @property
    def code(self) -> str | None:
        """What NcField.type is in C."""
        return None if self.type is None else self.type.named

    def __repr__(self) -> str:
        return f"<native field {self.code or self.of!r}>"


class Method(namedtuple("Method", "target signature options doc")):
    """A method of a class of native objects, until the class is made; `method` makes it.

    Attributes
    ----------
    target : object
        What `wrap` takes, a Python function, or None for an abstract method.
    signature : Signature or None
        With self; None where the target knows it.
    options : dict
        As for `wrap`.
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
                "a native method is not called; as a decorator, @nativecall.method('d:&v'), it "
                f"takes a function of Python's (got {type(function).__name__})"
            )
        return Method(function, self.signature, self.options, self.doc)

    def __repr__(self) -> str:
        return f"<native method {str(self.signature)!r}>"


def field(type: object, *, atomic: bool = False, doc: str | None = None) -> Field:
    """Declare a field in the body of a class of native objects.

    Parameters
    ----------
    type : str, CType or class
        A code of signatures: a scalar (``"d"``), a pointer (``"&d"``, ``"P"``, ``"X{d:d}"``), an
        array (``"(3)d"``) or a struct (``"T{d:x:d:y:}"``). Or a class of native objects, or the
        name of one, also that of the class being made: then the field is None or a counted
        reference to such an object. A text that is a code is a code. ``nativecall.NativeObject`` is
        any native object.
    atomic : bool
        Each access is one atomic operation, ordered with all others; for numbers of at most 8
        bytes. Other fields are plain memory: threads that share them agree on who may when.
    doc : str, optional

    Returns
    -------
    Field
        In objects the attribute is the value: numbers, cffi pointers (borrowed: what they point to
        is the user's to keep), a `Record` for structs and NumPy arrays for arrays of numbers,
        over the object's memory, and the object itself for references.

    Raises
    ------
    SignatureError, TypeError
        A type that no field can have.

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
                raise TypeError(f"{type!r} is a type of C's, not its code{hint}") from None
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
        What `wrap` takes: an address, a native callable, a cfunc or jitted function of Numba's; or
        a Python function, which native code then calls too, taking the GIL. None, or left out with
        a signature alone, is an abstract method: the class has no objects, and subclasses define
        it. A text alone is the signature, for a decorator: ``@nc.method("d:&v")``.
    signature : str or Signature, optional
        With self first. A `self` of type ``"&v"`` (or ``"P"``) is the object's address, as native
        code has it; any other pointer, such as ``"&d"`` or ``"&T{d:x:d:y:}"``, is the address of
        the fields that the class itself declares, in their order, as a C struct has them. Python
        functions get the object.
    gil, errors : str
        As for `wrap`.
    doc : str, optional

    Raises
    ------
    TypeError
        A first argument that is no pointer, or a missing signature.

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
        raise TypeError("'signature' is missing: an abstract method is a name and a signature")
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


def is_array_of_numbers(ctype: CType) -> bool:
    """Whether a field of this type comes back as a NumPy array over the object's memory."""
    return isinstance(ctype, Array) and isinstance(ctype.item, Scalar)
