"""``nativecall inspect MODULE:NAME``: what native code and `nativecall.wrap` find in an object."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module

from .. import _lib
from .._callable.callable import NativeCallable
from .._callable.wrap import wrap
from .._slots import PADDING, customslots, extensibletype
from .._values import boxes
from .describe import address_text, entry_rows, owner_text, slot_rows
from .output import Column, CommandError, Output, Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._types import Foreign


_CALL_TABLES = (0x04000001, 0x04000003)
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE


def run(place: str, forms: Sequence[str] = ()) -> int:
    """Show the object at ``MODULE:NAME``; 0 when it has something native, 1 when not.

    `forms` is which forms of generated code to show: ``"llvm"``, ``"asm"``.
    """
    obj = find(place)
    output = Output()
    native = boxes.native(obj)
    made: NativeCallable | None
    if isinstance(native, NativeCallable):
        found, made = _show_callable(output, place, native, obj), native
    else:
        found, made = _show_foreign(output, place, obj)
    if made is not None and forms:
        _show_code(output, made, forms)
    found |= _show_slots(output, obj if native is None else native, found)
    if not found:
        output.text("native code finds nothing in it")
    return 0 if found else 1


# -- finding --------------------------------------------------------------------------------------


def find(place: str) -> object:
    """The object at ``MODULE:NAME``."""
    module, colon, name = place.partition(":")
    if not colon or not module or not name or module.startswith("."):
        raise CommandError(f"the object must be given as MODULE:NAME (got {place!r})")
    # As for `python -m`, modules of the present directory count.
    sys.path.insert(0, os.getcwd())
    try:
        found: Foreign = import_module(module)
    except Exception as error:
        raise CommandError(_import_failure(module, error)) from None
    so_far = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise CommandError(f"no {part!r} in {so_far!r}{_like(part, found)}") from None
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise CommandError(f"{part!r} of {so_far!r} cannot be read: {reason}") from None
        so_far = f"{so_far}.{part}"
    return found


def _import_failure(module: str, error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        if f"{module}.".startswith(f"{error.name}."):
            return f"no module named {error.name!r}"
        return f"module {module!r} cannot be imported: it needs {error.name!r}, which is missing"
    return f"module {module!r} cannot be imported: {type(error).__name__}: {error}"


def _like(name: str, holder: object) -> str:
    """What `holder` has that may have been meant."""
    from difflib import get_close_matches

    matches = get_close_matches(name, dir(holder), n=3)
    return "; did you mean " + " or ".join(map(repr, matches)) if matches else ""


def _type_name(kind: type) -> str:
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return module + kind.__name__


# -- showing --------------------------------------------------------------------------------------


def _show_callable(output: Output, place: str, native: NativeCallable, obj: object) -> bool:
    """A native callable: whether native code finds entries in it."""
    count = len(native.signatures)
    what = "a native callable"
    if native is not obj:
        is_view = _lib.types.viewed(obj) is not None
        what = ("the built-in view of " if is_view else f"a {_type_name(type(obj))}, ") + what
    output.heading(f"{place} is {what} with {count} {'entry' if count == 1 else 'entries'}")
    if count:
        output.table(*entry_rows([native]))
    offset = _lib.types.call_table_offset(type(native))
    if offset:
        output.text(f"call table: {offset} bytes into the object at {address_text(id(native))}")
    else:
        output.text(f"call table: none, because {type(native).__name__} overrides __call__")
    return bool(offset and count)


def _show_code(output: Output, native: NativeCallable, forms: Sequence[str]) -> None:
    """The code that was generated for the entries of a native callable."""
    from .._codegen import engine, trampoline

    for entry in native.entries:
        if entry.trampoline != "generated":
            why = f"calls go through {entry.trampoline}"
            if entry.trampoline == "ahead of time":
                why = "calls go through code that was compiled ahead of time"
            else:
                spec = native[entry.signature]._entry()[0]
                unpassed = trampoline.not_passed(spec)
                reason = trampoline.refusal(spec.signature, entry.flags, *unpassed)
                why = f"{why}, because {reason}" if reason else why
            output.text(f"no code was generated for {entry.signature!r}: {why}")
            continue
        spec = native[entry.signature]._entry()[0]
        unpassed = trampoline.not_passed(spec)
        text = trampoline.intermediate(spec.signature, entry.flags, *unpassed) or ""
        for form in forms:
            what = "LLVM IR" if form == "llvm" else "assembly"
            output.heading(f"generated code for {entry.signature!r}, {what}")
            shown = text if form == "llvm" else engine.assembly(text, trampoline.EFFORT)
            for line in shown.expandtabs(8).splitlines():
                output.text(line)


def _show_foreign(output: Output, place: str, obj: object) -> tuple[bool, NativeCallable | None]:
    """An object of another library: whether there is a C function or data in it, and what `wrap`
    makes of it."""
    output.heading(f"{place} is a {_type_name(type(obj))}")
    columns = [Column("nativecall finds"), Column("")]
    try:
        offer = _lib.types.native_offer(obj)
        if offer is not None:
            return _show_offer(output, obj, *offer)
        function = boxes.function(obj)
        pointer = boxes.pointer(obj) if function is None else None
    except (TypeError, ValueError) as error:
        output.text(f"nativecall cannot use it: {error}")
        return False, None
    if function is not None:
        known = function.signature
        rows = [
            Row("a C function at", address_text(function.address)),
            Row("signature", "unknown" if known is None else known.text),
            Row("in C", "unknown" if known is None else known.c_declaration(function.name or "f")),
            Row("kept alive by", "the object" if function.owner is obj else owner_text(obj)),
        ]
        output.table(columns, rows)
        return True, _show_wrapped(output, obj, known is None)
    if pointer is not None:
        pointee = "unknown data" if pointer.pointee is None else pointer.pointee.text
        rows = [Row("a pointer", address_text(pointer.address)), Row("to", pointee)]
        output.table(columns, rows)
        output.text("it can be an argument of a native call, but is no function")
        return True, None
    return _show_wrappable(output, obj)


def _show_offer(
    output: Output, obj: object, offset: int | None, rows: list[tuple[str, int, int]]
) -> tuple[bool, NativeCallable | None]:
    """What another provider's object offers: whether there are entries; what `wrap` makes of it."""
    where = "by '__nativecall_api__'" if offset is None else f"in a call table {offset} bytes in"
    output.text(f"a native callable of another provider, which offers {where}:")
    columns = [Column("signature"), Column("flags", right=True), Column("address", right=True)]
    output.table(
        columns,
        [Row(text, f"{flags:#x}", address_text(address)) for text, flags, address in rows],
    )
    return bool(rows), _show_wrapped(output, obj, False)


def _show_wrappable(output: Output, obj: object) -> tuple[bool, NativeCallable | None]:
    """What has no C function of its own that native code finds, but that `wrap` takes."""
    if isinstance(obj, int) and not isinstance(obj, bool):
        origin = (
            _lib.address_origin(obj) if 0 < obj < 2 ** (8 * _lib.ffi.sizeof("void *")) else None
        )
        if origin is None:
            return False, None
        file, symbol = origin
        output.text(f"an address in {file}" + (f", of {symbol!r}" if symbol else ""))
        return True, _show_wrapped(output, obj, True)
    if boxes.signatures(obj) is not None:
        output.text("native code finds no function in it; nativecall.wrap compiles one for each")
        output.text("signature that is asked for: wrap(obj, 'd:d'), for example")
    elif not isinstance(obj, Mapping):
        return False, None
    made = _show_wrapped(output, obj, False)
    return made is not None, made


def _show_wrapped(output: Output, obj: object, unknown: bool) -> NativeCallable | None:
    """What `wrap` makes of it."""
    if unknown:
        output.text("nativecall.wrap needs a signature for it: wrap(obj, 'd:d'), for example")
        return None
    try:
        made = wrap(obj)
    except (TypeError, ValueError) as error:
        output.text(f"nativecall.wrap refuses it: {error}")
        return None
    output.text("nativecall.wrap makes of it:")
    output.table(*entry_rows([made]))
    return made


def _is_read(kind: type) -> bool:
    """Whether native code may follow the call tables of a type (docs/abi/find.md, Step 2)."""
    return kind.__flags__ & _IMMUTABLE != 0 or _lib.types.call_table_offset(kind) != 0


def _show_slots(output: Output, obj: object, offers: bool) -> bool:
    """The slots of an object's type, or of a type; whether there are any.

    `offers` is whether entries were found in the object.
    """
    slots = customslots(obj)
    used = any(slot.key != PADDING for slot in slots)
    if used:
        kind = obj if isinstance(obj, extensibletype) else type(obj)
        output.text(f"slots of the type {_type_name(kind)}:")
        output.table(*slot_rows(slots))
        calls = any(slot.key in _CALL_TABLES for slot in slots)
        if calls and not offers and type(kind) is not extensibletype and not _is_read(kind):
            output.text(
                f"native code passes over its call tables: {kind.__name__} is mutable and of the "
                f"metaclass {type(kind).__name__}, so it may have another __call__ by now; what is "
                "made with Py_TPFLAGS_IMMUTABLETYPE, or of the metaclass extensibletype itself, is "
                "read"
            )
    return used
