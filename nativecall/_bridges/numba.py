"""Numba: jitted functions as C functions of any signature that they compile for, and cfuncs.

A function made by `numba.njit` is compiled for the argument types that a signature means, and gets
a C function around it that passes arguments and result as C does on this machine: numbers, complex
numbers and structs by value, pointers, and array views, which the function sees as NumPy arrays.

    C                           in the function
    ``? b … Q f d``             a truth value, an integer, a floating-point number
    ``Zf Zd``                   a complex number
    ``&T``, ``P``               a pointer to T, for `numba.carray`, and a pointer to anything
    ``T{…}``                    a record; as the result a record, or a tuple of the fields
    ``[n]T``                    an array of n dimensions over the caller's memory

Numbers that the function returns become the result's type as in C, but neither complex numbers nor
floating-point numbers become integers. Everything else must be the result's type.

Exceptions. A cfunc of Numba's own prints what its function raises, and returns zeros; cfuncs are
taken as they are. What `wrap` makes of a jitted function keeps exceptions: C gets NaN, 0, NULL or
zeros, and the exception is raised by the call from Python that is under way in that thread, or goes
to `sys.unraisablehook` where there is none (csrc/ground/exceptions.h). With an error convention, C
gets what that says instead; with ``errors="python"`` the exception is set, for a caller that looks.

Memory. Numba never unmaps machine code. So there is one C function for an instance, a signature and
an error convention, however often they are wrapped.

Nothing here imports Numba: an object of it exists, so it has been imported.
"""

from __future__ import annotations

import itertools
import sys

from .. import _lib
from .._errors import SignatureError
from .._signature.ctype import VOID, CType, Scalar, part_of, scalar
from .._signature.derived import Array, Pointer, Struct, View
from .._signature.derived import pointer as pointer_to
from .._signature.signature import Signature
from .._values.boxes import Function
from .._values.failure import CONVENTIONS, check_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType
    from typing import TypeAlias

    from llvmlite import ir

    from .._codegen.abi import Lowering
    from .._types import Foreign
    from .._values.failure import Convention

    # Numba has types in part only, and other ones in every version.
    NumbaType: TypeAlias = Foreign
    NumbaObject: TypeAlias = Foreign  # a dispatcher, what it compiled, and what that is made with

_INTEGERS = {1: "bB", 2: "hH", 4: "iI", 8: "qQ"}
_STARRED = 0x04 | 0x08  # code's flags for *args and **kwargs
_number = itertools.count()  # symbols are the process's


def _core(name: str) -> ModuleType:
    """A module of Numba's, which is loaded if there is any object of Numba's."""
    return sys.modules["numba.core." + name]


def _is_jitted(obj: object) -> bool:
    registry = sys.modules.get("numba.core.registry")
    return registry is not None and isinstance(obj, registry.CPUDispatcher)


def function(obj: NumbaObject) -> Function | None:
    """The function behind a cfunc, and that of a jitted function, which has none by itself."""
    module = sys.modules.get("numba.core.ccallback")
    if module is None or not isinstance(obj, module.CFunc):
        return None
    args = [_ctype(one) for one in obj._sig.args]
    signature = Signature(_ctype(obj._sig.return_type), args)
    _check_cfunc(signature)
    return Function(obj.address, signature, obj, obj.__name__)


def _check_cfunc(signature: Signature) -> None:
    """Refuse what a cfunc does not pass as C does: it says of a complex number that it is a struct
    of two, and of a record that it is a pointer."""
    taken = 0
    for at, ctype in enumerate((signature.result, *signature.args)):
        if ctype.kind in ("struct", "view"):
            raise SignatureError(
                f"Numba's cfunc does not pass {ctype.text!r} as C does",
                hint="wrap a function made by numba.njit instead",
            )
        if ctype.kind == "complex":
            whole = _passes_complex128() and ctype.text == "Zd"
            if not whole or (at and taken == 7):
                raise SignatureError(
                    f"Numba's cfunc does not pass one of the complex numbers in "
                    f"{signature.text!r} as C does",
                    hint="wrap a function made by numba.njit instead",
                )
            taken += 2 if at and taken < 8 else 0
        elif ctype.kind == "float" and at:
            taken += taken < 8


def _passes_complex128() -> bool:
    from .._codegen.abi import SYSV_X86_64, convention

    return convention() is SYSV_X86_64


# -- Numba's types and ours ------------------------------------------------------------------------


def _ctype(kind: NumbaType) -> CType:
    """The C type of a type of Numba's."""
    types = _core("types")
    kind = types.unliteral(kind)
    if isinstance(kind, types.Boolean):
        return scalar("?")
    if isinstance(kind, types.Integer):
        return scalar(_INTEGERS[kind.bitwidth // 8][not kind.signed])
    if isinstance(kind, types.Float) and kind.bitwidth in (32, 64):
        return scalar("f" if kind.bitwidth == 32 else "d")
    if isinstance(kind, types.Complex):
        return scalar("Zf" if kind.bitwidth == 64 else "Zd")
    if kind == types.none:
        return VOID
    if kind == types.voidptr:
        return pointer_to(VOID)
    if isinstance(kind, types.CPointer):
        return pointer_to(_ctype(kind.dtype))
    if isinstance(kind, types.Array):
        return View(_ctype(kind.dtype), kind.ndim)
    if isinstance(kind, types.Record):
        return _struct(kind)
    if isinstance(kind, types.NestedArray):
        return Array(_ctype(kind.dtype), kind.shape)
    raise SignatureError(f"Numba's type {kind} is none that a C function can have here")


def _struct(record: NumbaType) -> Struct:
    """The struct that lies in memory as a record does."""
    fields = sorted(record.fields.items(), key=lambda item: item[1].offset)
    typed = [(name, _ctype(field.type)) for name, field in fields]
    for packed in (False, True):
        made = Struct(typed, packed)
        offsets = [field.offset for field in made.fields]
        if made.size == record.size and offsets == [field.offset for _, field in fields]:
            return made
    raise SignatureError(f"{record} has a layout that no struct of C has")


def _numba_type(ctype: CType) -> NumbaType:
    """The type of Numba's that a C type is in a jitted function."""
    types = _core("types")
    match ctype.kind:
        case "void":
            return types.none
        case "bool":
            return types.boolean
        case "int":
            assert isinstance(ctype, Scalar)
            sign = "int" if ctype.signed else "uint"
            return getattr(types, f"{sign}{8 * ctype.size}")
        case "float" if ctype.size in (4, 8):
            return {4: types.float32, 8: types.float64}[ctype.size]
        case "complex" if ctype.size in (8, 16):
            return {8: types.complex64, 16: types.complex128}[ctype.size]
        case "voidptr":
            return types.voidptr
        case "pointer":
            assert isinstance(ctype, Pointer)
            pointee = ctype.pointee
            return types.CPointer(_numba_type(getattr(pointee, "item", pointee)))
        case "view":
            assert isinstance(ctype, View)
            return types.Array(_numba_type(ctype.item), ctype.ndim, "A")
        case "struct":
            return sys.modules["numba"].from_dtype(_dtype(ctype))
    raise SignatureError(f"Numba has no type for {ctype.text!r} ({ctype.c_declaration()})")


def _dtype(ctype: Foreign) -> Foreign:
    """NumPy's type of what is in memory."""
    import numpy

    if ctype.kind == "array":
        return numpy.dtype((_dtype(ctype.item), ctype.shape))
    if ctype.kind == "struct":
        return numpy.dtype(
            {
                "names": list(ctype.field_names),
                "formats": [_dtype(field.type) for field in ctype.fields],
                "offsets": [field.offset for field in ctype.fields],
                "itemsize": ctype.size,
            }
        )
    if ctype.kind in ("pointer", "voidptr"):
        return numpy.dtype(numpy.uintp)
    letters = {"bool": "b", "int": "i" if getattr(ctype, "signed", True) else "u"}
    letters.update(float="f", complex="c")
    is_float = ctype.kind in ("float", "complex")
    if ctype.kind not in letters or (is_float and part_of(ctype).size not in (4, 8)):
        raise SignatureError(f"Numba has no type for a field {ctype.text!r}")
    return numpy.dtype(f"{letters[ctype.kind]}{ctype.size}")


# -- jitted functions ------------------------------------------------------------------------------


class Instance:
    """One instance of a jitted function, a dispatcher of Numba's: what keeps its machine code."""

    __slots__ = ("_compiled", "_library", "function", "signature")

    def __init__(self, function: NumbaObject, signature: Signature, compiled: NumbaObject) -> None:
        self.function = function
        self.signature = signature
        self._compiled = compiled
        self._library: NumbaObject = None

    def __repr__(self) -> str:
        return f"<{self.signature.text!r} of {self.function!r}>"

    def inspect_llvm(self) -> str:
        """The LLVM IR of the C function, after Numba's optimisations."""
        text: str = self._library.get_llvm_str()
        return text


def instance(obj: NumbaObject, signature: Signature, errors: str) -> Function | None:
    """The C function of a signature that a jitted function is compiled to; SignatureError when
    Numba does not compile it for these arguments, or to something else than the result.
    """
    if not _is_jitted(obj):
        return None
    name = obj.py_func.__name__
    check_errors(signature, errors)
    args = CONVENTIONS[errors].passed(signature.args)
    if obj.targetoptions.get("forceobj"):
        raise SignatureError(f"{name!r} is compiled in object mode, which no C function can call")
    if signature.variadic:
        raise SignatureError(f"Numba has no variadic functions, as {signature.text!r} would be")
    with _core("compiler_lock").global_compiler_lock:
        compiled = _compile(obj, signature, args)
        # Kept with Numba's instance: the code of either stays mapped for good.
        known = compiled.library.__dict__.setdefault("_nativecall", {})
        found: Function | None = known.get((signature.text, errors))
        if found is None:
            made = Instance(obj, signature, compiled)
            found = Function(_enclose(made, CONVENTIONS[errors]), signature, made, name)
            known[signature.text, errors] = found
    return found


def count(obj: NumbaObject) -> int | None:
    """How many arguments a jitted function takes, -1 where that differs."""
    if not _is_jitted(obj) or obj.targetoptions.get("forceobj"):
        return None
    code = obj.py_func.__code__
    differs = code.co_flags & _STARRED or obj.py_func.__defaults__
    return -1 if differs else int(code.co_argcount)


def _compile(obj: NumbaObject, signature: Signature, args: tuple[CType, ...]) -> NumbaObject:
    """Numba's result of compiling a jitted function for those of a signature's arguments."""
    kinds = tuple([_numba_type(one) for one in args])
    name = obj.py_func.__name__
    if kinds not in obj.overloads:
        if not obj._can_compile:
            have = ", ".join([f"({', '.join(map(str, one))})" for one in obj.overloads])
            raise SignatureError(
                f"{name!r} was compiled for {have} only, and {signature.text!r} is another"
            )
        # Numba says a wrong number of arguments in a page of text.
        _check_count(obj, signature, args)
        try:
            obj.compile(kinds)
        except _core("errors").NumbaError as error:
            raise SignatureError(
                f"Numba does not compile {name!r} for {signature.text!r}: {_reason(error)}"
            ) from error
    compiled = obj.overloads[kinds]
    if compiled.objectmode:
        raise SignatureError(f"{name!r} is compiled in object mode, which no C function can call")
    returned = compiled.signature.return_type
    if not _becomes(returned, signature.result):
        raise SignatureError(
            f"{name!r} returns {returned} for the arguments of {signature.text!r}, "
            f"which is no {signature.result.text!r}"
        )
    return compiled


def _reason(error: Exception) -> str:
    """What Numba says, of its page of text the line that tells most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith("Failed in ")]
    return (telling or lines or [type(error).__name__])[0].removeprefix("- ")


def _check_count(obj: NumbaObject, signature: Signature, args: tuple[CType, ...]) -> None:
    import inspect

    try:
        inspect.signature(obj.py_func).bind(*args)
    except TypeError as error:
        raise SignatureError(
            f"{obj.py_func.__name__!r} does not take the arguments of {signature.text!r}: {error}"
        ) from None


def _becomes(kind: NumbaType, ctype: CType) -> bool:
    """Whether what a jitted function returns can be the result, or a field of it."""
    types = _core("types")
    kind = types.unliteral(kind)
    match ctype.kind:
        case "void":
            return bool(kind == types.none)
        case "bool" | "int":
            return isinstance(kind, (types.Boolean, types.Integer))
        case "float":
            return isinstance(kind, (types.Boolean, types.Integer, types.Float))
        case "complex":
            return isinstance(kind, (types.Boolean, types.Integer, types.Float, types.Complex))
        case "voidptr":
            return isinstance(kind, types.RawPointer | types.CPointer)
        case "struct" if isinstance(kind, types.BaseTuple):
            assert isinstance(ctype, Struct)
            fields = [field.type for field in ctype.fields]
            return len(fields) == len(kind) and all(map(_becomes, kind, fields))
        case "struct" if isinstance(kind, types.Record):
            return _struct(kind) == ctype
        case "array" if isinstance(kind, types.BaseTuple):
            assert isinstance(ctype, Array)
            return (
                len(ctype.shape) == 1
                and ctype.length == len(kind)
                and all([_becomes(one, ctype.item) for one in kind])
            )
    return bool(kind == _numba_type(ctype))


def _enclose(made: Instance, errors: Convention) -> int:
    """Compile the C function around an instance, in a library of Numba's that is made for it."""
    from .._codegen import abi

    platform = abi.convention()
    signature = made.signature
    if platform is None:
        raise SignatureError("jitted functions have no C functions on this machine")
    try:
        lowering = platform.lower(signature.result, signature.args)
    except abi.Unsupported as error:
        raise SignatureError(f"{signature.text!r} cannot be made a C function: {error}") from error
    context = _core("registry").cpu_target.target_context
    name = f"nativecall_{next(_number)}_{made.function.py_func.__name__}"
    name = "".join([letter if letter.isalnum() else "_" for letter in name])
    library = context.codegen().create_library(name)
    module = context.create_module(name)
    with context.push_code_library(library):
        _write(context, lowering, module, name, made, errors)
    library.add_ir_module(module)
    library.add_linking_library(made._compiled.library)
    library.finalize()
    made._library = library
    address: int = library.get_pointer_to_function(name)
    return address


def _write(
    context: NumbaObject,
    lowering: Lowering,
    module: ir.Module,
    name: str,
    made: Instance,
    errors: Convention,
) -> None:
    """Write the C function around an instance into a module."""
    from llvmlite import ir

    signature = made.signature
    described = made._compiled.fndesc
    writer = _Writer(context, lowering.define(module, name))
    builder = writer.builder
    prologue = lowering.emit_prologue(builder, writer.function)
    given = [
        writer.argument(ctype, kind, value)
        for ctype, kind, value in zip(
            errors.passed(signature.args), described.argtypes, prologue.arguments, strict=False
        )
    ]
    callee = ir.Function(
        module,
        context.call_conv.get_function_type(described.restype, described.argtypes),
        described.llvm_func_name,
    )
    status, returned = context.call_conv.call_function(
        builder, callee, described.restype, described.argtypes, given
    )
    with builder.if_then(status.is_error, likely=False):
        writer.keep_exception(status, made, errors)
        if errors.hidden:
            builder.store(ir.IntType(32)(1), prologue.arguments[-1], align=4)
        lowering.emit_return(
            builder, prologue, writer.sentinel(signature.result, errors, prologue.result_memory)
        )
    lowering.emit_return(
        builder,
        prologue,
        writer.result(signature.result, described.restype, returned, prologue.result_memory),
    )


class _Writer:
    """Writes the C function around an instance: its values, and what becomes of exceptions."""

    def __init__(self, context: NumbaObject, function: ir.Function) -> None:
        from llvmlite import ir

        from .._codegen.abi.lowering import POINTER

        self.ir = ir
        self.pointer = POINTER
        self.context = context
        self.function = function
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))

    def argument(self, ctype: Foreign, kind: NumbaType, value: ir.Value) -> ir.Value:
        """An argument as Numba has it."""
        if ctype.kind == "view":
            return self._array(kind, value)
        if ctype.kind == "bool":
            return self.builder.icmp_unsigned("!=", value, value.type(0))
        if ctype.kind == "complex":
            return self.builder.load(value, align=1, typ=self.context.get_value_type(kind))
        if ctype.kind in ("int", "float"):
            return value
        return self.builder.bitcast(value, self.context.get_value_type(kind))

    def _array(self, kind: NumbaType, descriptor: ir.Value) -> ir.Value:
        """An array over what a view's descriptor says."""
        arrayobj: ModuleType = sys.modules["numba.np.arrayobj"]

        builder, ndim = self.builder, kind.ndim
        word = self.context.get_value_type(_core("types").intp)
        data = builder.load(descriptor, typ=self.pointer)
        words = []
        for index in range(2 * ndim):
            offset = self.ir.Constant(word, index + 1)
            at = builder.gep(descriptor, [offset], source_etype=word)
            at.type = self.pointer
            words.append(builder.load(at, typ=word))
        array = arrayobj.make_array(kind)(self.context, builder)
        item = self.context.get_abi_sizeof(self.context.get_data_type(kind.dtype))
        arrayobj.populate_array(
            array,
            data=builder.bitcast(data, array.data.type),
            shape=words[:ndim],
            strides=words[ndim:],
            itemsize=self.ir.Constant(word, item),
            meminfo=None,
        )
        return array._getvalue()

    def result(
        self, ctype: Foreign, kind: NumbaType, value: ir.Value, memory: ir.Value
    ) -> ir.Value:
        """The result as the lowering takes it; in memory where it is given so."""
        from .._codegen.abi import in_memory

        if ctype.kind == "void":
            return None
        if in_memory(ctype):
            self._store(ctype, kind, value, memory, 0)
            return None
        return self._value(ctype, kind, value)

    def _value(self, ctype: Foreign, kind: NumbaType, value: ir.Value) -> ir.Value:
        """A number or pointer."""
        if ctype.kind in ("voidptr", "pointer"):
            return self.builder.bitcast(value, self.pointer)
        value = self.context.cast(self.builder, value, kind, _numba_type(ctype))
        return self.builder.zext(value, self.ir.IntType(8)) if ctype.kind == "bool" else value

    def _store(
        self, ctype: Foreign, kind: NumbaType, value: ir.Value, memory: ir.Value, offset: int
    ) -> None:
        """Write a value to memory as C has it."""
        types = _core("types")
        builder = self.builder
        if isinstance(kind, types.BaseTuple):
            if ctype.kind == "array":
                parts = [(i * ctype.item.size, ctype.item) for i in range(ctype.length)]
            else:
                parts = [(field.offset, field.type) for field in ctype.fields]
            for index, (at, part) in enumerate(parts):
                inner = builder.extract_value(value, index)
                self._store(part, kind[index], inner, memory, offset + at)
            return
        at = builder.gep(
            memory, [self.ir.IntType(32)(offset)], source_etype=self.ir.IntType(8), inbounds=True
        )
        at.type = self.pointer
        if isinstance(kind, types.Record):
            bytes_ = self.ir.ArrayType(self.ir.IntType(8), ctype.size)
            source = builder.bitcast(value, self.pointer)
            builder.store(builder.load(source, align=1, typ=bytes_), at, align=1)
        elif ctype.kind == "complex":
            wanted = _numba_type(ctype)
            value = self.context.cast(builder, value, kind, wanted)
            builder.store(
                self.context.data_model_manager[wanted].as_data(builder, value), at, align=1
            )
        else:
            builder.store(self._value(ctype, kind, value), at, align=1)

    def keep_exception(self, status: NumbaObject, made: Instance, errors: Convention) -> None:
        """Raise what the function raised, unless an earlier one is still to be noticed."""
        builder = self.builder
        python = self.context.get_python_api(builder)
        state = python.gil_ensure()
        before = python.err_occurred()
        with builder.if_then(self.ir_is_null(before)):
            self.context.call_conv.raise_error(builder, python, status)
            if errors.shown_by != "exception":
                settle = _lib.types.code_symbols()["nc_exception_settle"]
                word = self.ir.IntType(64)
                self.builder.call(
                    self._external(settle), [builder.inttoptr(word(id(made)), self.pointer)]
                )
        python.gil_release(state)

    def ir_is_null(self, value: ir.Value) -> ir.Value:
        return self.builder.icmp_unsigned("==", value, value.type(None))

    def _external(self, address: int) -> ir.Value:
        """A C function of one pointer, by its address."""
        kind = self.ir.FunctionType(self.ir.VoidType(), [self.pointer])
        word = self.ir.IntType(64)
        return self.builder.inttoptr(word(address), self.ir.PointerType(kind))

    def sentinel(self, ctype: CType, errors: Convention, memory: ir.Value) -> ir.Value:
        """What C gets when the function raises."""
        from .._codegen.abi import in_memory, value_type

        if ctype.kind == "void":
            return None
        if in_memory(ctype):
            if ctype.kind == "complex":
                part = self.ir.FloatType() if ctype.size == 8 else self.ir.DoubleType()
                none = self.ir.Constant(self.ir.LiteralStructType([part, part]), [float("nan")] * 2)
            else:
                none = self.ir.Constant(self.ir.ArrayType(self.ir.IntType(8), ctype.size), None)
            self.builder.store(none, memory, align=1)
            return None
        kind = value_type(ctype)
        if ctype.kind == "float":
            return self.ir.Constant(kind, float("nan"))
        return self.ir.Constant(kind, errors.sentinel or None)


def signatures(obj: NumbaObject) -> list[Signature] | None:
    """What a jitted function has been compiled for already, as far as C functions can have it."""
    if not _is_jitted(obj):
        return None
    found: dict[str, Signature] = {}
    for one in obj.nopython_signatures:
        try:
            made = Signature(_result(one.return_type), [_ctype(kind) for kind in one.args])
        except SignatureError:
            continue
        found.setdefault(made.text, made)
    return [*found.values()]


def _result(kind: NumbaType) -> CType:
    """The C type of a result; of a tuple the struct of what is in it."""
    if isinstance(kind, _core("types").BaseTuple) and len(kind):
        names: Iterable[str | None] = getattr(kind, "fields", None) or [None] * len(kind)
        return Struct([(name, _result(one)) for name, one in zip(names, kind, strict=True)])
    return _ctype(kind)
