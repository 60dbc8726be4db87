"""llvmlite: LLVM IR functions, from `llvmlite.ir.Function` and `llvmlite.binding` modules.

The module is compiled for this process, and the machine code lives as long as a callable uses it.
Unless the caller gives a signature, the signature comes from the IR. IR integers have no sign and
IR pointers have no target type, so ``i32`` becomes an int and ``ptr`` a ``void *``. LLVM IR passes
structs, vectors, `i1` and arguments in memory differently from C, so these are rejected. `pickle`
stores the IR.
"""

from __future__ import annotations

import hashlib
import re
from collections import namedtuple

from .. import _lib
from .._callable.callable import NativeCallable
from .._callable.pickled import wrapped
from .._cdecl.spelling import parse
from .._codegen import engine
from .._errors import TYPE_CHECKING, SignatureError
from .._values.foreign import Function

if TYPE_CHECKING:
    from .._ext import Foreign
    from .._types.signature import Signature

_CODES = {
    "void": "v",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "float": "f",
    "double": "d",
    "ptr": "P",
}
_PASSED_OTHERWISE = re.compile(
    r"\b(byval|byref|sret|inalloca|preallocated|inreg|nest|swift\w+|\w*cc|cc\s*\d+|internal|private"
    r"|available_externally)\b"
)
_NAME = r'@(?:"((?:[^"\\]|\\.)*)"|([\w.$-]+))'
_HEAD = re.compile(r"^(define|declare)\b([^@\n]*)" + _NAME + r"\s*\((.*)$", re.M)
_COMMA = re.compile(r",(?![^{<\[(]*[}>\])])")  # not inside a type
_DECLARED = re.compile(r"^declare\b[^@\n]*" + _NAME, re.M)


class Compiled(namedtuple("Compiled", ["code", "name", "text"])):
    """A function's IR and its machine code. Ufunc loops are compiled together with the IR."""

    __slots__ = ()

    def pickled(self, *how: Foreign) -> tuple[object, ...]:
        """For `pickle`: return the IR, which another process compiles."""
        return _restore, (self.text, self.name, *how)

    def __repr__(self) -> str:
        return f"<compiled LLVM IR of {self.name!r}>"


def _kind(obj: Foreign) -> str | None:
    """Return "ir" for an `ir.Function`, "binding" for a function of a parsed module, or None."""
    kinds = [cls.__name__ for cls in type(obj).__mro__]
    if "Function" in kinds and hasattr(obj, "function_type"):
        return "ir"
    return "binding" if "ValueRef" in kinds and obj.is_function else None


def function(obj: Foreign) -> Function | None:
    """Compile a function, and return it; return None for other objects.

    Raises
    ------
    SignatureError
        If C passes an argument or the result differently, or no code can be generated.
    ValueError
        If the function is only declared, LLVM rejects its module, or the module needs a symbol
        that the process lacks.
    """
    kind = _kind(obj)
    if kind is None:
        return None
    signature = _signature(obj, obj.function_type if kind == "ir" else obj.global_value_type)
    if not engine.available():
        raise SignatureError(
            f"{obj.name!r} is LLVM IR, and no code can be generated: {engine.reason()}"
        )
    text = str(obj.module)
    found = re.search(r'^target triple = "((?!unknown)[^"]+)"', text, re.M)
    if found is not None:
        from llvmlite import binding

        here = binding.get_process_triple()
        if found[1].partition("-")[0] != here.partition("-")[0]:
            raise ValueError(
                f"the module of {obj.name!r} is for {found[1]!r}, but this process is {here!r}"
            )
    process = _lib.library_open(None, 0)
    for one in _DECLARED.finditer(text):
        symbol = one[1] or one[2]
        if not symbol.startswith("llvm.") and not _lib.library_symbol(process, symbol):
            raise ValueError(
                f"the module of {obj.name!r} declares {symbol!r}, which no library in this process "
                "exports"
            )
    key = f"llvmlite {hashlib.sha256(text.encode()).hexdigest()}"
    try:
        code = engine.compile(key, lambda: text, obj.name)
    except (RuntimeError, engine.NoRoom) as error:
        raise ValueError(f"LLVM rejects the module of {obj.name!r}: {error}") from error
    made = Compiled(code, obj.name, text)
    return Function(code.address, signature, made, obj.name, machine=True)


def reason(obj: Foreign) -> str | None:
    """Return why a module has no C function, and what to pass instead."""
    kinds = {"Module": "module.globals['f']", "ModuleRef": "module.get_function('f')"}
    way = kinds.get(type(obj).__name__)
    return None if way is None else f"an LLVM module has many functions: pass one, as in {way}"


def _restore(text: str, function: str, *how: Foreign) -> object:
    """For `pickle`: compile the function again."""
    from llvmlite import binding

    return wrapped(NativeCallable, binding.parse_assembly(text).get_function(function), *how)


def _signature(obj: Foreign, type_: Foreign) -> Signature:
    """Return the signature of a function."""
    name = obj.name
    head = next((one for one in _HEAD.finditer(str(obj)) if name in (one[3], one[4])), None)
    if head is None or head[1] == "declare":
        raise ValueError(f"{name!r} is only declared: its module does not define it")
    otherwise = _PASSED_OTHERWISE.search(head[2]) or _PASSED_OTHERWISE.search(
        re.sub(r'"[^"]*"', "", head[5].partition("{")[0])
    )
    if otherwise is not None and otherwise[0] != "ccc":
        raise SignatureError(
            f"C cannot call {name!r}, which is {otherwise[0]!r} in LLVM IR",
            hint="define an external function with C's calling convention",
        )
    whole = re.match(r"(.+?)\s*\((.*)\)\s*\*?$", str(type_))
    if whole is None:
        raise SignatureError(f"the type {str(type_)!r} of {name!r} is not a function type")
    parts = [part.strip() for part in _COMMA.split(whole[2]) if part.strip()]
    if "..." in parts:
        raise SignatureError(f"{name!r} is variadic")
    codes = [_code(name, one) for one in (whole[1].strip(), *parts)]
    return parse(f"{codes[0]}:{''.join(codes[1:])}", hint="native")


def _code(name: str, type_: str) -> str:
    code = _CODES.get("ptr" if type_.endswith("*") else type_)
    if code is None:
        raise SignatureError(
            f"{name!r} takes or returns {type_!r}, which LLVM IR does not pass as C does",
            hint=f"pass a pointer to it, or one of {', '.join([*_CODES][1:-1])} and ptr",
        )
    return code
