"""Plans for memory of a type: what the core knows to make it without a step of Python code.

A plan is made once a type of a library (csrc/object/newmemory.c), and called with an initialiser;
it gives None for what memory.py is to see to, such as a value that does not fit.
"""

from __future__ import annotations

import _cffi_backend

from .. import _lib
from .._callable.pythonfunction import spec_of
from .._errors import SignatureError
from .._signature.cffitype import from_ffi
from .._signature.cnodes import element
from .._signature.ctype import CType
from .._signature.signature import Signature
from .._values import callspec, storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._types import CallbackSpec, CallSpec, FFIType, MemoryPlan
    from .types import Owner

    #: What is told of a pointer type: a function with such an argument; what Python functions
    #: become; the plans of what it points to, and of arrays of that.
    Ready = tuple[CallSpec, CallbackSpec | None, MemoryPlan | None, MemoryPlan | None]
    #: Name, kind, offset, type and plan of what is written at one place.
    Slot = tuple[str | None, str, int, FFIType, MemoryPlan | None]

RECORDS = ("struct", "union")
#: What cffi's own memory is aligned to.
CFFI_ALIGNS = 16
#: cffi's flag of members that initialisers by position pass over.
IGNORED = 1
#: What pointers take `bytes` for, of which a copy is made.
CHARACTERS = ("char", "signed char", "unsigned char", "int8_t", "uint8_t", "void")
_types = _lib.types
#: cffi's `new` with memory that keeps what pointers in it lead to.
_allocate = _lib.ffi.new_allocator(_types.allocate_block, None, False)


def pointer_to(ctype: FFIType) -> FFIType:
    """cffi's type of pointers to a type."""
    return _cffi_backend.new_pointer_type(ctype)


def array_of(ctype: FFIType) -> FFIType:
    """cffi's type of arrays, of any length, of what a pointer points to."""
    return _cffi_backend.new_array_type(ctype, None)


def leads_on(ctype: FFIType) -> bool:
    """Whether memory of a type has pointers in it."""
    ctype = element(ctype)
    if ctype.kind in RECORDS:
        return any([leads_on(field.type) for _, field in ctype.fields or ()])
    return ctype.kind in ("pointer", "function")


def alignment_of(ctype: FFIType) -> tuple[int, bool]:
    """The alignment of a type, and whether memory of it has pointers in it."""
    leads = leads_on(ctype)  # first: cffi ends the process for some texts that are no types
    return _lib.ffi.alignof(ctype), leads


def plan_of(owner: Owner, ctype: FFIType, least: int = 1) -> MemoryPlan:
    """The plan of a complete pointer or array type, the same each time; `least` is the alignment
    that a typedef asks for.
    """

    def memory_plan(key: tuple[FFIType, int]) -> MemoryPlan:
        return _plan(owner, *key)

    found: MemoryPlan = owner.plan((ctype, least), memory_plan)
    return found


def _plan(owner: Owner, ctype: FFIType, least: int) -> MemoryPlan:
    item = ctype.item
    alignment, leads = owner.plan(item, alignment_of)
    kind, length = "1", -1
    slots: list[Slot]
    if ctype.kind == "array":
        kind, length = "a", -1 if ctype.length is None else ctype.length
    elif item.kind == "struct":
        kind = "s"
    if kind != "s":
        slots = [_slot(owner, None, item, 0)]
    else:
        slots = []
        # A plan of what leads nowhere is cffi's business.
        for name, field in item.fields if leads else ():
            if field.flags & IGNORED:
                slots.append((name, "-", 0, field.type, None))
            else:
                slots.append(_slot(owner, name, field.type, field.offset))
    size = _lib.ffi.sizeof(item)
    usual = max(alignment, least) <= CFFI_ALIGNS and not (leads and item.kind == "union")
    usual = usual and (size > 0 or kind != "a")

    def ready(ctype: FFIType) -> Ready:
        return _ready(owner, ctype)

    make: Callable[..., object] = _lib.ffi.new
    return _types.MemoryPlan(
        ctype,
        pointer_to(item),
        kind,
        leads,
        usual,
        length,
        size,
        tuple(slots),
        make,
        _allocate,
        ready,
    )


def _slot(owner: Owner, name: str | None, ctype: FFIType, offset: int) -> Slot:
    kind, plan = "p", None
    if ctype.kind == "pointer":
        kind = "c" if ctype.item.cname in CHARACTERS else "*"
    elif ctype.kind == "function":
        kind = "f"
    elif leads_on(ctype):
        kind = "?"
        if ctype.kind == "struct":
            kind, plan = "s", plan_of(owner, pointer_to(ctype))
        elif ctype.kind == "array" and ctype.length:
            kind, plan = "a", plan_of(owner, ctype)
    return name, kind, offset, ctype, plan


def _ready(owner: Owner, ctype: FFIType) -> Ready:
    """What the core asks of a pointer when the first value for one comes."""

    def converted(ctype: FFIType) -> object:
        return from_ffi(ctype, owner)

    if ctype.kind == "function":
        signature = converted(ctype)
        assert isinstance(signature, Signature)
        return callspec.of_argument(signature.function), _called(signature), None, None
    if ctype.kind != "pointer":  # a number, or what has only numbers: buffers are copied
        wanted = converted(pointer_to(element(ctype)))
        assert isinstance(wanted, CType)
        return callspec.of_argument(wanted, readonly=True), None, None, None
    wanted = converted(ctype)
    assert isinstance(wanted, CType)
    item, record, items = ctype.item, None, None
    if item.kind not in ("void", "function") and (
        element(item).kind not in RECORDS or element(item).fields is not None
    ):
        items = plan_of(owner, array_of(ctype))
        if item.kind in RECORDS:
            record = plan_of(owner, ctype)
    return callspec.of_argument(wanted), None, record, items


def _called(signature: Signature) -> CallbackSpec | None:
    """What Python functions become that C calls by a signature; None where that is
    refused.
    """
    if signature.variadic:
        return None
    try:
        return spec_of(signature, storage.sentinel_of(signature.result))
    except SignatureError:
        return None
