"""Let jitted functions call native callables: define their Numba type, and compile the calls.

A native callable can be a value in a jitted function: an argument, or a global or closure variable.
Numba treats global and closure variables as constants. The callable's type is the list of its
entries (`NativeType`), so one compiled function accepts every callable with the same entries. A
call chooses an entry by Numba's overload rules and compiles to an indirect call of the C function.
A wrapped jitted function has the type of the jitted function, so Numba compiles that function for
the arguments of each call.

    C                           accepted arguments                  result
    ``? b … Q f d Zf Zd``       any type Numba converts to it       the number
    ``&T``, ``P``               a pointer, ``x.ctypes``, None;      a pointer
                                a contiguous array of T
    ``[n]T``                    an array of n dimensions
    ``T{…}``                    a record, a tuple of the fields     a tuple of the fields
    ``X{…}``                    a native callable with that entry,
                                a jitted function

Lifetime. Numba's runtime counts references to a callable passed as an argument, so the callable
stays alive wherever jitted code stores it. Constants live as long as the process, because Numba
never frees machine code.

If a constant can be pickled, such as a function of a library, the compiled code looks it up by name
when it first runs. So functions with ``cache=True`` may use it. Other constants are compiled as
addresses, and Numba then disables caching with a warning.

Failures. Calls check the error convention (`errors`) and raise exceptions that jitted code may
catch. If a Python function that C calls raises, the jitted function exits with that exception. If
an entry needs the GIL, the call holds it. If an entry may raise but does not need the GIL, the call
acquires the GIL afterwards to check for an exception.

Importing this module imports Numba.
"""

from __future__ import annotations

import operator

import numpy  # noqa: F401  # before Numba, which needs it
from llvmlite import ir
from numba.core import cgutils, errors, types, typing
from numba.core.imputils import lower_cast, lower_constant
from numba.core.pythonapi import NativeValue, box, unbox
from numba.core.registry import cpu_target
from numba.extending import lower_builtin, models, register_model, typeof_impl

from ... import _ext, _lib
from ..._callable.callable import NativeCallable
from ..._cdecl.spelling import parse
from ..._codegen.abi import POINTER, at_bytes
from ..._errors import TYPE_CHECKING, SignatureError
from ..._fifo import Cache
from ..._types.derived import Pointer
from ..._values.failure import convention
from . import calls, jitted
from .types import leads_to, unknown_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..._ext import CallInterface
    from ..._types.ctype import CType
    from ..._types.signature import Signature
    from .types import NumbaObject, NumbaType

    #: Position in the call table, signature, flags, const arguments, and memory layout of arrays.
    _Key = tuple[int, str, int, tuple[bool, ...], str]

_ENTRY = 3 * _lib.ffi.sizeof("void *")  # bytes of an entry: signature, flags, function
_POINTER = _lib.ffi.sizeof("void *")


class Row:
    """An entry of a `NativeType`: all that a call needs except the address of the function."""

    __slots__ = ("args", "convention", "flags", "key", "order", "position", "result", "signature")

    def __init__(
        self, position: int, text: str, flags: int, readonly: tuple[bool, ...], order: str
    ) -> None:
        self.key = (position, text, flags, readonly, order)
        self.position = position  # in the call table
        self.signature: Signature = parse(text)
        self.flags = flags
        self.order = order
        self.convention = convention(flags)
        self.result = calls.result_type(self.signature.result)
        passed = self.convention.passed(self.signature.args)
        self.args = tuple([calls.formal(one) for one in passed])
        calls.check(self.signature, flags)

    def formals(self, actuals: Sequence[NumbaType]) -> tuple[NumbaType, ...] | None:
        """Return the types that Numba converts arguments of these types to.

        Return None for a wrong number of arguments, or for a record whose layout differs from the C
        struct's. (Numba itself compares only the names of records.)

        If the generated call converts an argument itself, the argument keeps its type.
        """
        if len(actuals) != len(self.args):
            return None
        found = []
        for ctype, formal, actual, _, taken in self._each(actuals):
            if not taken and ctype.kind == "struct" and isinstance(actual, types.Record):
                return None
            found.append(actual if taken else formal)
        return tuple(found)

    def _each(
        self, actuals: Sequence[NumbaType]
    ) -> Iterator[tuple[CType, NumbaType, NumbaType, bool, bool]]:
        """Yield a tuple for each argument: its C type; the type after Numba's conversion; the type
        given; whether it is `const` in C; and whether the generated call converts it.
        """
        passed = zip(self.signature.args, self.args, actuals, self.key[3], strict=False)
        for ctype, formal, actual, readonly in passed:
            taken = calls.takes(ctype, actual, readonly, self.order)
            yield ctype, formal, actual, readonly, taken

    def why_not(self, context: NumbaObject, actuals: Sequence[NumbaType]) -> str:
        """Return the message for a wrong number of arguments, or for the first rejected argument.

        Return "" if all arguments are accepted.
        """
        if len(actuals) != len(self.args):
            counts = f"{len(self.args)} argument{'s' * (len(self.args) != 1)}"
            return f", which takes {counts}, not {len(actuals)}"
        for index, (ctype, formal, actual, readonly, taken) in enumerate(self._each(actuals), 1):
            # For records, can_convert would print a warning.
            converts = not isinstance(actual, types.Record) and context.can_convert(actual, formal)
            if not taken and not converts:
                return f": argument {index} {_why_not(ctype, actual, readonly, self.order)}"
        return ""


class NativeType(types.Callable):  # type: ignore[misc]  # Numba has no types
    """The type of native callables in jitted functions: their entries and their memory layout."""

    mutable = False
    cconv = None

    def __init__(self, offset: int, is_view: bool, rows: tuple[_Key, ...]) -> None:
        self.offset = offset  # offset of the call table's address in the object
        self.is_view = is_view  # whether the object is a built-in view
        self.rows = tuple([Row(*row) for row in rows])
        offered = ", ".join([row.signature.text for row in self.rows])
        shown = "".join([f"{offset}, view " if is_view else "", offered])
        super().__init__(name=f"native({shown})")

    @property
    def key(self) -> tuple[object, ...]:
        return self.offset, self.is_view, tuple([row.key for row in self.rows])

    def __reduce__(self) -> tuple[object, ...]:
        return NativeType, self.key

    def get_call_type(
        self, context: NumbaObject, args: Sequence[NumbaType], kws: dict[str, NumbaType]
    ) -> NumbaObject:
        if kws:
            raise errors.TypingError(
                f"native callables take no keyword arguments in jitted code (got {', '.join(kws)})"
            )
        args = [types.unliteral(one) for one in args]
        cases = [
            typing.signature(row.result, *formals)
            for row in self.rows
            if (formals := row.formals(args)) is not None
        ]
        # If several cases are equally good, Numba takes the first. It ranks the conversions of an
        # integer to a real and to a complex number equally. Calls from Python prefer the real
        # number, so sort cases with real arguments first.
        cases.sort(key=lambda case: sum([isinstance(one, types.Complex) for one in case.args]))
        found = context.resolve_overload(self, cases, args, {})
        if found is None:
            given = ", ".join(map(str, args))
            offered = ", ".join([repr(row.signature.text) for row in self.rows])
            why = self.rows[0].why_not(context, args) if len(self.rows) == 1 else ""
            raise errors.TypingError(f"no native entry takes ({given}); there is {offered}{why}")
        return found.replace(recvr=self)

    def chosen(self, result: NumbaType, args: tuple[NumbaType, ...]) -> tuple[int, Row]:
        """Return the index of the entry that Numba chose when it typed a call, and the entry."""
        for number, row in enumerate(self.rows):
            if row.result == result and row.formals(args) == args:
                return number, row
        raise errors.LoweringError(f"{self} has no entry for {args}")  # unreachable

    def get_call_signatures(self) -> tuple[list[NumbaObject], bool]:
        return [typing.signature(row.result, *row.args) for row in self.rows], False

    def get_impl_key(self, sig: NumbaObject) -> type:
        return NativeType

    def can_convert_to(self, context: NumbaObject, other: NumbaType) -> NumbaObject:
        """Allow the conversion to a first-class function if `plain` finds an entry."""
        if isinstance(other, types.FunctionType) and self.plain(other.signature) is not None:
            return typing.context.Conversion.safe
        return None

    def plain(self, wanted: NumbaObject) -> int | None:
        """Return the index of an entry that Numba can call as a first-class function, or None.

        The entry must have the wanted signature and need no code around the call.
        """
        for number, row in enumerate(self.rows):
            args = tuple(map(types.unliteral, wanted.args))
            same = row.args == args and row.result == wanted.return_type
            if same and calls.is_plain(row.signature, row.flags):
                return number
        return None


def _why_not(ctype: CType, actual: NumbaType, readonly: bool, order: str) -> str:
    """Return the message for a rejected argument, with the accepted types."""
    given = f"is {actual}"
    if isinstance(ctype, Pointer) and isinstance(actual, (types.Array, types.Record)):
        is_record = isinstance(actual, types.Record)
        if not leads_to(ctype, actual if is_record else actual.dtype):
            what = "which does" if is_record else "whose elements do"
            return f"{given}, {what} not have the memory layout of {ctype.pointee.text!r}"
        if is_record:
            return f"{given}; pass an array of such records, such as x[i:i + 1]"
        if not (actual.mutable or readonly):
            return f"{given}, which is read-only; declare the argument const to accept it"
        return f"{given}, which is not contiguous in order {order!r}; pass a contiguous copy"
    return f"{given}, but {ctype.text!r} is needed"


# -- objects ---------------------------------------------------------------------------------------


class Unusable(errors.TypingError, AttributeError):  # type: ignore[misc]  # Numba has no types
    """Raised if a callable has no entry that jitted code can call.

    It derives from AttributeError, so that ``hasattr(callable, "_numba_type_")`` returns False
    instead of raising.
    """


def type_of(obj: object) -> NumbaType:
    """Return the type of a native callable or its built-in view.

    A wrapped jitted function has the jitted function's type, so that Numba compiles the jitted
    function for the arguments of each call.

    Raise `Unusable`, with the reasons, if the callable has no entry that jitted code can call.
    """
    reason = unknown_version()
    if reason is not None:
        raise Unusable(f"{obj!r} cannot be used in jitted code: {reason}")
    function = _function(obj)
    cls = type(function)
    offset = _ext.call_table_offset(cls)
    if not offset:
        raise Unusable(
            f"{function!r} cannot be used in jitted code: {cls.__name__!r} overrides __call__"
        )
    wrapped = jitted.wrapped_by(function)
    if wrapped is not None:
        return wrapped._numba_type_
    entries = function._resolved()
    # Callables with equal signatures share a call interface, so it can identify the signature.
    told = tuple([(_teller(part._entry()[0]), flags) for part, _, _, flags in entries])
    key = offset, function is obj, told
    known = _known.get(key)
    if known is not None:
        return known
    rows, refused = _callable_rows(entries)
    if not rows:
        hint = "; ".join(refused) or "it has no entries"
        if function._specializer is not None and not refused:
            hint = "it has no entries yet; ask for one as in f['d:d']"
        raise Unusable(f"{function!r} cannot be used in jitted code: {hint}")
    return _known.keep(key, NativeType(offset, function is not obj, tuple(rows)))


def _teller(cif: CallInterface) -> object:
    """Return the cache key of a call interface.

    The key is the call interface itself, unless it refers to a user's function (`check`): the cache
    must not keep user functions alive.
    """
    policies = cif.policies
    return cif if policies.check is None else (cif.signature, policies.order)


# Numba's default look-up would swallow `Unusable` and its reasons.
typeof_impl.register(NativeCallable)(lambda obj, context: type_of(obj))

#: Cached because Numba requests an argument's type in every call, and compares types by identity.
_known: Cache[object, NativeType] = Cache(1024)


def _callable_rows(
    entries: Sequence[tuple[NativeCallable, Signature, int, int]],
) -> tuple[list[_Key], list[str]]:
    """Return the entries that jitted code can call, and the reasons why it cannot call the rest."""
    rows: list[_Key] = []
    refused = []
    for position, (part, signature, _, flags) in enumerate(entries):
        order = part._entry()[0].policies.order
        key = position, _shown(signature), flags, signature.readonly, order
        try:
            Row(*key)
        except SignatureError as error:
            refused.append(f"{signature.text!r}: {error.reason}")
        else:
            rows.append(key)
    return rows, refused


def _shown(signature: Signature) -> str:
    """Return a signature's text with field names; without them if it also names C types."""
    args = "".join([arg.named for arg in signature.args])
    named = f"{signature.result.named}:{args}{'.' if signature.variadic else ''}"
    return signature.text if "<" in named else named


def _function(obj: object) -> NativeCallable:
    """Return a native callable itself, or the native callable behind a built-in view."""
    found = _ext.callable_of(obj)
    assert found is not None
    return found


@register_model(NativeType)
class NativeModel(models.StructModel):  # type: ignore[misc]  # Numba has no types
    """A callable in jitted code: the reference count, the object, each entry's function."""

    def __init__(self, manager: NumbaObject, kind: NativeType) -> None:
        members = [("meminfo", types.MemInfoPointer(types.voidptr)), ("object", types.voidptr)]
        members += [(f"f{number}", types.voidptr) for number in range(len(kind.rows))]
        super().__init__(manager, kind, members)


@unbox(NativeType)  # type: ignore[untyped-decorator]  # Numba has no types
def _unbox(kind: NativeType, obj: ir.Value, c: NumbaObject) -> NumbaObject:
    """Read the functions from the call table, as every C consumer does."""
    builder = c.builder
    made = cgutils.create_struct_proxy(kind)(c.context, builder)
    made.object = builder.bitcast(obj, made.object.type)
    made.meminfo = c.pyapi.nrt_meminfo_new_from_pyobject(made.object, made.object)
    holder = obj
    if kind.is_view:
        holder = c.pyapi.object_getattr_string(obj, "__self__")
        c.pyapi.decref(holder)  # the view keeps it alive
    holder = builder.bitcast(holder, POINTER)
    table = builder.load(at_bytes(builder, holder, kind.offset), typ=POINTER)
    for number, row in enumerate(kind.rows):
        at = _POINTER + row.position * _ENTRY + 2 * _POINTER
        function = builder.load(at_bytes(builder, table, at), typ=POINTER)
        setattr(made, f"f{number}", builder.bitcast(function, made.object.type))
    return NativeValue(made._getvalue())


@box(NativeType)  # type: ignore[untyped-decorator]  # Numba has no types
def _box(kind: NativeType, value: ir.Value, c: NumbaObject) -> ir.Value:
    made = cgutils.create_struct_proxy(kind)(c.context, c.builder, value=value)
    obj = c.builder.bitcast(made.object, c.pyapi.pyobj)
    c.pyapi.incref(obj)
    if c.context.enable_nrt:
        c.context.nrt.decref(c.builder, kind, value)
    return obj


# -- constants -------------------------------------------------------------------------------------


@lower_constant(NativeType)  # type: ignore[untyped-decorator]  # Numba has no types
def _constant(
    context: NumbaObject, builder: ir.IRBuilder, kind: NativeType, obj: object
) -> ir.Value:
    function = _function(obj)
    resolved = function._resolved()
    parts = [resolved[row.position][0] for row in kind.rows]
    words = calls.constants(context, builder, obj, parts)
    made = cgutils.create_struct_proxy(kind)(context, builder)
    made.meminfo = cgutils.get_null_value(made.meminfo.type)
    made.object = builder.bitcast(words[0], made.object.type)
    for number, word in enumerate(words[1:]):
        setattr(made, f"f{number}", builder.bitcast(word, made.object.type))
    return made._getvalue()


@lower_cast(NativeType, types.FunctionType)  # type: ignore[untyped-decorator]  # Numba has no types
def _first_class(
    context: NumbaObject,
    builder: ir.IRBuilder,
    kind: NativeType,
    wanted: NumbaType,
    value: ir.Value,
) -> ir.Value:
    number = kind.plain(wanted.signature)
    given = cgutils.create_struct_proxy(kind)(context, builder, value=value)
    made = cgutils.create_struct_proxy(wanted)(context, builder)
    made.c_addr = getattr(given, f"f{number}")
    made.py_addr = given.object
    made.jit_addr = cgutils.get_null_value(made.jit_addr.type)
    return made._getvalue()


# -- calls -----------------------------------------------------------------------------------------


@lower_builtin(NativeType, types.VarArg(types.Any))  # type: ignore[untyped-decorator]  # Numba has no types
def _call(
    context: NumbaObject, builder: ir.IRBuilder, sig: NumbaObject, args: Sequence[ir.Value]
) -> ir.Value:
    kind, *kinds = sig.args
    number, row = kind.chosen(sig.return_type, tuple(kinds))
    value = cgutils.create_struct_proxy(kind)(context, builder, value=args[0])
    function = getattr(value, f"f{number}")
    return calls.Call(context, builder, row, value.object).write(function, kinds, args[1:])


@lower_builtin(operator.is_, NativeType, NativeType)  # type: ignore[untyped-decorator]  # Numba has no types
def _is(
    context: NumbaObject, builder: ir.IRBuilder, sig: NumbaObject, args: Sequence[ir.Value]
) -> ir.Value:
    first, second = [
        cgutils.create_struct_proxy(kind)(context, builder, value=value).object
        for kind, value in zip(sig.args, args, strict=True)
    ]
    return builder.icmp_unsigned("==", first, second)


# Numba may import this module in the middle of a compilation, when it types a constant that is a
# native callable. Numba looks for new registrations only before a compilation, so refresh now.
cpu_target.target_context.refresh()
