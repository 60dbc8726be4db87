"""Compile calls of C functions in jitted code: check arguments, call, and raise exceptions.

`callables` uses this module; the types in `callables` determine which function is called. If
possible, addresses are not compiled in: the code looks them up when it first runs (see
`constants`). So Numba can cache the code on disk.

Importing this module imports Numba.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import sys
import threading
from collections import namedtuple

from llvmlite import ir
from numba.core import cgutils, serialize, types
from numba.core.callconv import RETCODE_EXC, RETCODE_USEREXC
from numba.np.arrayobj import make_array

from ... import _ext, _lib
from ..._callable.callable import NativeCallable
from ..._codegen import abi
from ..._codegen.abi import POINTER, reserve
from ..._errors import TYPE_CHECKING, SignatureError
from ..._types.ctype import CType
from ..._types.derived import Array, FunctionPointer, Pointer, Struct, View
from ..._values.failure import CONVENTIONS, convention
from ..._values.foreign import holds_entry
from . import arrays
from .types import is_item, is_struct, leads_to, numba_type
from .values import Values, lowered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from ..._ext import Foreign
    from ..._types.signature import Signature
    from .types import NumbaObject, NumbaType

    Row: TypeAlias = Foreign  # an entry; see `callables`

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_WORD = ir.IntType(8 * _lib.ffi.sizeof("void *"))
#: Name of the function that returns errno's address, by `sys.platform` of the target.
_ERRNO = {"linux": "__errno_location", "darwin": "__error", "win32": "_errno"}

__all__ = ["Call", "check", "constants", "formal", "is_plain", "result_type", "takes"]


# -- accepted arguments ----------------------------------------------------------------------------


def check(signature: Signature, flags: int) -> None:
    """Raise SignatureError, with the reason, if jitted code cannot call an entry."""
    if signature.variadic:
        raise SignatureError("Numba has no variadic functions")
    if flags & _lib.FLAG_ERRNO:
        raise SignatureError(
            "errno=True keeps errno for nativecall.get_errno, which jitted code cannot call"
        )
    if CONVENTIONS["errno"].flags == flags & _lib.ERRORS_MASK and sys.platform not in _ERRNO:
        raise SignatureError("errno cannot be located on this platform")
    lowered(signature, "cannot be called")


def is_plain(signature: Signature, flags: int) -> bool:
    """Return whether Numba's plain call of an entry follows the C ABI and needs no checks."""
    whole = (signature.result, *signature.args)
    numbers = ("int", "float", "voidptr", "pointer", "void")
    return not flags & (_lib.ERRORS_MASK | _lib.FLAG_NEEDS_GIL) and all(
        [one.kind in numbers and (one.kind != "int" or one.size >= 4) for one in whole]
    )


def formal(ctype: CType) -> NumbaType:
    """Return the type to which Numba converts an argument for a C type."""
    return types.voidptr if ctype.kind == "function" else numba_type(ctype)


#: Named tuple classes by their fields, cached because Numba compares classes by identity.
_named_tuple: Foreign = functools.cache(lambda names: namedtuple("Struct", names, rename=True))


def result_type(ctype: CType) -> NumbaType:
    """Return Numba's type of a result; a struct becomes a named tuple, which Numba can create."""
    if isinstance(ctype, Struct):
        items = tuple([result_type(field.type) for field in ctype.fields])
        return types.BaseTuple.from_types(items, _named_tuple(ctype.field_names))
    if isinstance(ctype, Array):
        if len(ctype.shape) != 1:
            raise SignatureError(f"Numba has no type for a field {ctype.text!r}")
        return types.UniTuple(result_type(ctype.item), ctype.length)
    return types.voidptr if ctype.kind == "function" else numba_type(ctype)


def takes(ctype: CType, actual: NumbaType, readonly: bool, order: str) -> bool:
    """Return whether the generated call itself converts an argument, instead of Numba."""
    match ctype:
        case CType(kind="voidptr" | "pointer") if actual == types.none:
            return True
        case CType(kind="voidptr" | "pointer") if isinstance(actual, types.Buffer):
            layouts = {"C": "C", "F": "F", "A": "CF"}[order]
            ordered = actual.layout in layouts or (actual.ndim == 1 and actual.layout in "CF")
            if not ordered or not (actual.mutable or readonly):
                return False
            return leads_to(ctype, actual.dtype)
        case Pointer() if isinstance(actual, types.ArrayCTypes):
            return leads_to(ctype, actual.dtype)
        case CType(kind="voidptr" | "pointer") if isinstance(actual, types.Record):
            # Numba does not record whether a record is writable, so accept it only for `const`.
            several = isinstance(ctype, Pointer) and isinstance(ctype.pointee, Array)
            return readonly and not several and leads_to(ctype, actual)
        case Struct(kind="struct") if isinstance(actual, (types.Record, types.BaseTuple)):
            return is_struct(actual, ctype)
        case FunctionPointer():
            if actual == types.none:
                return True
            if isinstance(actual, types.Dispatcher):
                return _compiled(ctype, actual) is not None
            entries = getattr(actual, "rows", ())
            return _passed(ctype, entries) is not None
        case View() if isinstance(actual, types.Array):
            # Numba's own conversion rejects a read-only array, even for a `const` view.
            same = is_item(actual.dtype, ctype.item)
            return same and actual.ndim == ctype.ndim and readonly
    return False


def _passed(ctype: FunctionPointer, rows: Sequence[Row]) -> int | None:
    """Return the index of the entry to pass as a function pointer; None if no entry matches."""
    wanted = ctype.text[2:-1]
    for number, row in enumerate(rows):
        if row.signature.text == wanted and not row.flags & _lib.FLAG_NEEDS_GIL:
            return number
    return None


def _compiled(ctype: FunctionPointer, kind: NumbaType) -> NativeCallable | None:
    """Compile a jitted function to pass as a function pointer; None if it does not compile."""
    try:
        return NativeCallable(kind.dispatcher, ctype.text[2:-1])
    except SignatureError:
        return None


def _given(values: Values, ctype: Foreign, kind: NumbaType, value: ir.Value) -> ir.Value:
    """Convert an argument to the form that the lowering expects."""
    builder = values.builder
    if ctype.kind in ("voidptr", "pointer", "function"):
        if kind == types.none:
            return ir.Constant(POINTER, None)
        if isinstance(kind, types.Buffer):
            value = make_array(kind)(values.context, builder, value).data
        elif isinstance(kind, types.ArrayCTypes):
            value = values.context.make_helper(builder, kind, value=value).data
        elif isinstance(kind, types.Dispatcher):
            made: Foreign = _compiled(ctype, kind)  # not None: `takes` has checked this
            value = constants(values.context, builder, made, [made])[1]
        elif ctype.kind == "function" and hasattr(kind, "rows"):
            number = _passed(ctype, kind.rows)
            proxy = cgutils.create_struct_proxy(kind)(values.context, builder, value=value)
            value = getattr(proxy, f"f{number}")
        return builder.bitcast(value, POINTER)
    if ctype.kind == "view":
        return values.described(kind, value)
    return values.given(ctype, kind, value)


# -- the call --------------------------------------------------------------------------------------


def _end(context: NumbaObject, builder: ir.IRBuilder) -> None:
    """Emit the exit from the jitted function with the exception that is set in Python.

    At a raise, Numba's optimiser releases the references that the function holds. The optimiser
    recognises a raise by the metadata on a store of the exception.
    """
    calls = context.call_conv
    raised = calls._get_excinfo_argument(builder.function)
    store = builder.store(cgutils.get_null_value(raised.type.pointee), raised)
    store.set_metadata("numba_exception_output", builder.module.add_metadata([ir.IntType(1)(1)]))
    calls._return_errcode_raw(builder, RETCODE_EXC)


class Call(Values):
    """Emits the call of an entry of the callable `callee`."""

    def __init__(
        self, context: NumbaObject, builder: ir.IRBuilder, row: Row, callee: ir.Value
    ) -> None:
        super().__init__(context, builder)
        self.row = row
        self.callee = callee
        self.python = context.get_python_api(builder)

    def write(
        self, function: ir.Value, kinds: Sequence[NumbaType], args: Sequence[ir.Value]
    ) -> ir.Value:
        """Emit the checks, the call and code that raises failures; return the result."""
        builder, row = self.builder, self.row
        suspects = [
            (index, one, *found)
            for index, (ctype, one, arg) in enumerate(
                zip(row.signature.args, kinds, args, strict=False)
            )
            if (found := arrays.suspect(self, row.order, ctype, one, arg)) is not None
        ]
        if not suspects:
            return self._call(function, kinds, args)
        # In a try block, execution continues after a rejected argument, so the code must skip the
        # call.
        result = cgutils.alloca_once(builder, self.context.get_value_type(row.result), zfill=True)
        refused = functools.reduce(builder.or_, [is_wrong for _, _, is_wrong, _ in suspects])
        with builder.if_else(refused, likely=False) as (then, otherwise):
            with then:
                for index, one, is_wrong, shape in suspects:
                    with builder.if_then(is_wrong):
                        self._refuse(index, one, shape)
            with otherwise:
                builder.store(self._call(function, kinds, args), result)
        return builder.load(result)

    def _call(
        self, function: ir.Value, kinds: Sequence[NumbaType], args: Sequence[ir.Value]
    ) -> ir.Value:
        """Emit the call itself, after the checks of the arguments."""
        builder, row, errors = self.builder, self.row, self.row.convention
        signature, result = row.signature, row.signature.result
        lowering = lowered(signature, "cannot be called")
        given = [
            _given(self, ctype, one, arg)
            for ctype, one, arg in zip(signature.args, kinds, args, strict=False)
        ]
        code = None
        if errors.hidden:
            code = reserve(builder, 4, 4)
            builder.store(_INT32(0), code, align=4)
            given.append(code)
        memory = None
        if result.kind != "void" and abi.in_memory(result):
            memory = reserve(builder, result.size, max(result.alignment, 8))
        core = _words(builder, _asked(self.context, builder, _Core()), _Core.count)
        needs_gil = bool(row.flags & _lib.FLAG_NEEDS_GIL)
        state = self.python.gil_ensure() if needs_gil else None
        if errors.shown_by == "errno":
            kind = ir.FunctionType(POINTER, [])
            where = cgutils.get_or_insert_function(builder.module, kind, _ERRNO[sys.platform])
            code = builder.call(where, [])
            builder.store(_INT32(0), code, align=4)
        pointer = builder.bitcast(function, POINTER)
        returned = lowering.emit_call(builder, pointer, given, memory)
        if code is not None:
            code = builder.load(code, align=4, typ=_INT32)
        if errors.shown_by == "exception" and not needs_gil:
            # The function has released the GIL after setting an exception, so acquire the GIL.
            state = self.python.gil_ensure()
        if state is not None:
            raised = self.python.err_occurred()
            self.python.gil_release(state)
            with cgutils.if_unlikely(builder, cgutils.is_not_null(builder, raised)):
                _end(self.context, builder)
        self._look_for_left(core)
        if result.kind == "void":
            found = self.context.get_dummy_value()
        elif memory is not None:
            found = self.loaded(result, row.result, memory, 0)
        else:
            found = self.from_c(result, row.result, returned)
        self._look(found, returned, code)
        return found

    def _look_for_left(self, core: Sequence[ir.Value]) -> None:
        """Emit code that raises the pending exception of a Python function that C called."""
        builder, (left, ask) = self.builder, core
        count = builder.load(left, align=8, typ=_WORD)
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("!=", count, _WORD(0))):
            state = self.python.gil_ensure()
            raised = builder.call(abi.Callee(ask, ir.FunctionType(_INT32, [])), [])
            self.python.gil_release(state)
            with cgutils.if_unlikely(builder, builder.icmp_unsigned("!=", raised, _INT32(0))):
                _end(self.context, builder)

    # -- failures --------------------------------------------------------------------------------

    def _look(self, result: ir.Value, returned: ir.Value, code: ir.Value) -> None:
        """Emit code that raises if the result or the error code indicates a failure."""
        builder, errors = self.builder, self.row.convention
        if not errors.reaches_c:
            return
        shown, shown_type = _INT64(0), types.int64
        if errors.needs == "integer":
            shown, shown_type = result, self.row.result
        relation, beside, value = errors.relation, returned, errors.value
        if errors.is_code:
            relation, beside, value = "!=", code, 0
        failed = builder.icmp_signed(relation, beside, ir.Constant(beside.type, value or None))
        with cgutils.if_unlikely(builder, failed):
            number = _INT32(0) if code is None else code
            flags = types.int64, _INT64(errors.flags)
            self._raise(_note_failure, [flags, (shown_type, shown), (types.int32, number)])

    def _refuse(self, index: int, kind: NumbaType, shape: ir.Value) -> None:
        """Emit code that raises for an array or a record that the function cannot accept."""
        given = "numpy.ndarray" if isinstance(kind, types.Array) else "buffer"
        if isinstance(kind, types.Record):
            given = "record"
        ctype = self.row.signature.args[index]
        note = functools.partial(_note_refusal, index, self.row.order, ctype, given)
        self._raise(note, [(types.UniTuple(types.intp, shape.type.count), shape)])

    def _raise(
        self, note: Callable[..., None], given: Sequence[tuple[NumbaType, ir.Value]]
    ) -> None:
        """Emit code that raises the failure which `note` stores.

        The code first calls `note` with the callable and the given values.
        """
        builder, python, calls = self.builder, self.python, self.context.call_conv
        state = python.gil_ensure()
        noting = python.unserialize(python.serialize_object(note))
        boxes = [python.from_native_value(kind, value) for kind, value in given]
        callee = builder.bitcast(self.callee, python.pyobj)
        noted = python.call_function_objargs(noting, [callee, *boxes])
        for obj in (noting, *boxes, noted):
            python.decref(obj)
        python.err_clear()  # in case `note` failed
        python.gil_release(state)
        calls.set_static_user_exc(builder, CallFailure)
        # In a try block, do not return: Numba itself checks for an exception after every call.
        in_try = calls.check_try_status(builder).in_try
        with builder.if_then(builder.not_(in_try)):
            calls._return_errcode_raw(builder, RETCODE_USEREXC)


# -- exceptions ------------------------------------------------------------------------------------


class CallFailure(Exception):
    """Exception type in jitted code; Python sees the exception that a normal call would raise.

    Numba leaks the arguments of exceptions, and it leaks exceptions that are caught. So this
    exception has no arguments. `_note_failure` and `_note_refusal` store its data.
    """

    def __new__(  # type: ignore[misc]  # returns another exception
        cls, made: BaseException | None = None
    ) -> BaseException:
        # Numba and CPython may call the class twice, the second time with the first result.
        return _last.made() if made is None else made


class _Last(threading.local):
    """Thread-local constructor of the exception for the last failed call in jitted code."""

    made: Callable[[], BaseException] = functools.partial(RuntimeError, "no call has failed")


_last = _Last()


def _note_failure(callee: NativeCallable, flags: int, result: object, code: int) -> None:
    """Store the result and the error code of a failed call."""
    _last.made = functools.partial(_failure, callee.__name__, flags, result, code)


def _failure(name: str, flags: int, result: object, code: int) -> BaseException:
    """Return the exception for the result or the error code of a call."""
    row = convention(flags)
    made = row.failure(name, None if row.needs == "pointer" else result, code)
    return SystemError(f"{name!r} did not fail") if made is None else made


def _note_refusal(
    index: int,
    order: str,
    ctype: CType,
    given: str,
    callee: NativeCallable,
    shape: tuple[int, ...],
) -> None:
    """Store the reason why an array is rejected."""
    _last.made = functools.partial(
        arrays.refusal, callee.__name__, index, order, ctype, given, shape
    )


# -- constants -------------------------------------------------------------------------------------


class Constants:
    """The addresses of an object and of its functions, which compiled code requests on first run.

    A constant is pickled as a recipe. In the process that compiled the code, unpickling finds the
    existing constant. Other processes create a new one.
    """

    #: Constants by token, never freed: compiled code refers to them until the process ends.
    kept: dict[object, Constants] = {}
    _numbers = itertools.count()
    _process = os.urandom(8)

    def __init__(self, owner: object, parts: Sequence[NativeCallable]) -> None:
        self.token = Constants._process, next(Constants._numbers)
        self.owner = owner
        self.parts = tuple([_source(part) for part in parts])
        words = [id(owner), *[part.address() for part in parts]]
        self.words = _lib.ffi.new("uintptr_t[]", words)
        self.count = len(words)
        Constants.kept[self.token] = self

    def address(self) -> int:
        return int(_lib.ffi.cast("uintptr_t", self.words))

    def __reduce__(self) -> tuple[object, ...]:
        is_view = not isinstance(self.owner, NativeCallable)
        return _again, (self.token, self.parts, is_view)


def _source(part: NativeCallable) -> NativeCallable:
    """Return the first callable that had an entry; it records the entry's origin, for `pickle`."""
    owner = part._owners[-1:]
    while owner and isinstance(owner[0], NativeCallable) and holds_entry(owner[0], part.address()):
        part = owner[0]
        owner = part._owners[-1:]
    return part


def _again(token: object, parts: tuple[NativeCallable, ...], is_view: bool) -> int:
    """Return the address of a constant's words in the process that runs the code."""
    found = Constants.kept.get(token)
    if found is None:
        owner = parts[0]
        if len(parts) > 1:
            owner = NativeCallable({part.signatures[0]: part for part in parts})
        held = owner.builtin if is_view else owner
        found = Constants.kept[token] = Constants(held, parts)
    return found.address()


class _Core:
    """Two addresses in the core: the count of pending exceptions, and what raises one of them."""

    words = _lib.ffi.new(
        "uintptr_t[]",
        [_ext.code_symbols()[name] for name in ("nc_left_count", "nc_left_raise")],
    )
    count = len(words)

    def __reduce__(self) -> tuple[object, ...]:
        return _core_words, ()


def _core_words() -> int:
    """Return the address of the two words in `_Core`."""
    return int(_lib.ffi.cast("uintptr_t", _Core.words))


def constants(
    context: NumbaObject, builder: ir.IRBuilder, owner: object, parts: Sequence[NativeCallable]
) -> list[ir.Value]:
    """Return pointers to a native callable (or its view) and to the functions of its entries.

    If the entries can be pickled, the code refers to them by name and can be cached on disk.
    Otherwise the code contains addresses, and Numba does not cache it.
    """
    made = Constants(owner, parts)
    try:
        serialize.dumps(made)
    except Exception:  # pickling may raise anything; then refer by address
        with builder.goto_entry_block():
            address = context.add_dynamic_addr(builder, made.address(), info=repr(owner))
            address = builder.bitcast(address, POINTER)
        return _words(builder, address, made.count)
    return _words(builder, _asked(context, builder, made), made.count)


def _words(builder: ir.IRBuilder, address: ir.Value, count: int) -> list[ir.Value]:
    """Return the words at an address. They never change, so load them at function entry."""
    found = []
    with builder.goto_entry_block():
        for index in range(count):
            at = builder.gep(address, [_INT32(index)], source_etype=_WORD)
            at.type = POINTER
            found.append(builder.load(at, align=8, typ=POINTER))
    return found


def _asked(context: NumbaObject, builder: ir.IRBuilder, asked: Constants | _Core) -> ir.Value:
    """Return the address of a constant's words; the compiled code requests it on its first run.

    The request is made at function entry, outside all loops. If it fails, the words are all 0. A
    second request, where the constant is used, then raises the exception.
    """
    function = _asking(context, builder.module, asked)
    known = builder.function.__dict__.setdefault("_nativecall", {})
    address = known.get(function.name)
    if address is None:
        with builder.goto_entry_block():
            address = builder.call(function, [ir.IntType(1)(0)])
        known[function.name] = address
    nothing = builder.module.globals[f"{function.name}.nothing"]
    failed = builder.icmp_unsigned("==", address, builder.bitcast(nothing, POINTER))
    with cgutils.if_unlikely(builder, failed):
        builder.call(function, [ir.IntType(1)(1)])
        _end(context, builder)
    return address


def _asking(context: NumbaObject, module: ir.Module, asked: Constants | _Core) -> ir.Function:
    """Return the LLVM function that requests and caches the address of a constant's words."""
    digest = hashlib.sha256(serialize.dumps(asked)).hexdigest()[:16]
    name = f"nativecall.constant.{digest}"
    if name in module.globals:
        return module.globals[name]
    zeros = ir.ArrayType(_WORD, asked.count)
    nothing = ir.GlobalVariable(module, zeros, f"{name}.nothing")
    nothing.linkage, nothing.initializer, nothing.global_constant = "internal", zeros(None), True
    word = cgutils.voidptr_t
    slot = ir.GlobalVariable(module, word, f"{name}.slot")
    slot.linkage, slot.initializer = "internal", word(None)
    function = ir.Function(module, ir.FunctionType(POINTER, [ir.IntType(1)]), name)
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block())
    known = builder.load_atomic(slot, "acquire", 8)
    with cgutils.if_likely(builder, cgutils.is_not_null(builder, known)):
        builder.ret(builder.bitcast(known, POINTER))
    python = context.get_python_api(builder)
    state = python.gil_ensure()
    found = python.unserialize(python.serialize_object(asked))
    with cgutils.if_unlikely(builder, cgutils.is_null(builder, found)):
        with builder.if_then(builder.not_(function.args[0])):
            python.err_clear()
        python.gil_release(state)
        builder.ret(builder.bitcast(nothing, POINTER))
    address = python.long_as_voidptr(found)
    python.decref(found)
    python.gil_release(state)
    builder.store_atomic(address, slot, "release", 8)
    builder.ret(builder.bitcast(address, POINTER))
    return function
