"""``nativecall inspect``: what native code and `nativecall.wrap` find in an object.

It calls nothing. A consumer accepts an entry if its function object can be made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec

from .. import _lib
from .._callable.callable import NativeCallable
from .._callable.wrap import wrap
from .._slots import PADDING, customslots, extensibletype
from .._values import boxes
from .describe import address_text, entry_rows, owner_text, slot_rows
from .output import Output, Row
from .place import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._types import Foreign


_CALL_TABLES = (0x04000001, 0x04000003)
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
_GIL = {"need": "needed", "release": "dropped", "hold": "kept"}
#: Consumers: the library that each needs, and how its function object is made.
_CONSUMERS: dict[str, tuple[str, Callable[[NativeCallable], object]]] = {
    "ctypes": ("", lambda f: f.to_ctypes()),
    "cffi": ("", lambda f: f.to_cffi()),
    "capsule": ("", lambda f: f.to_capsule()),
    "SciPy": ("scipy", lambda f: f.to_scipy()),
    "ufunc": ("numpy", lambda f: f.to_ufunc()),
    "Numba": ("numba", lambda f: f._numba_type_),
}


def run(place: str, *, as_json: bool = False) -> int:
    """Show what is at ``MODULE:NAME``; 0 when it has something native, 1 when not."""
    with Output().working(f"importing {place}"):
        obj = find(place)
    return _plain(place, obj) if as_json else _show(place, obj)


def _show(place: str, obj: object) -> int:
    output = Output()
    native = boxes.native(obj)
    made: NativeCallable | None
    if isinstance(native, NativeCallable):
        found, made = _show_callable(output, place, native, obj), native
    else:
        found, made = _show_foreign(output, place, obj)
    if made is not None:
        _show_calls(output, made)
    found |= _show_slots(output, obj if native is None else native, found)
    if not found:
        output.text("native code finds nothing in it")
    return 0 if found else 1


def _plain(place: str, obj: object) -> int:
    """The same as JSON."""
    reason = None
    rows: list[dict[str, Foreign]] = []
    takes = False
    try:
        rows = _entries(wrap(obj))
        takes = True
    except (TypeError, ValueError, LookupError) as error:
        reason = str(error)
        address = _address(obj)
        takes = address != 0 or (not isinstance(obj, int) and _wants_signature(reason))
        if takes:
            rows = [{"name": place, "signature": None, "c": None, "address": address or None}]
    slots = [
        {
            "key": slot.key.decode("utf-8", "backslashreplace")
            if isinstance(slot.key, bytes)
            else slot.key,
            "flags": slot.flags,
            "data": slot.data,
        }
        for slot in customslots(obj)
    ]
    found = {
        "object": place,
        "what": f"a {_type_name(type(obj))}",
        "note": reason or "",
        "entries": rows,
        "slots": slots,
    }
    print(json.dumps(found, indent=1, ensure_ascii=False))
    return 0 if takes or slots else 1


def _entries(native: NativeCallable) -> list[dict[str, Foreign]]:
    """The entries of a native callable as plain data."""
    rows: list[dict[str, Foreign]] = []
    for entry, one in zip(native.entries, native._overloads or (native,), strict=False):
        accepted, refused = _consumers(one)
        rows.append(
            {
                "name": native.__name__,
                "signature": entry.signature,
                "c": one._entry()[0].signature.c_declaration(native.__name__),
                "flags": entry.flags,
                "gil": entry.gil,
                "errors": entry.errors,
                "errno": bool(entry.flags & _lib.FLAG_ERRNO),
                "address": entry.address,
                "trampoline": entry.trampoline,
                "owner": owner_text(entry.owner),
                "accepted": accepted,
                "refused": refused,
            }
        )
    return rows


def _consumers(one: NativeCallable) -> tuple[list[str], dict[str, str]]:
    """Which consumers accept the only entry of a callable; why others do not."""
    accepted = ["Python", "C"]
    refused: dict[str, str] = {}
    for name, (library, make) in _CONSUMERS.items():
        if library and find_spec(library) is None:
            refused[name] = f"{library} is not installed"
            continue
        try:
            made = make(one)
        except Exception as error:  # whatever class the other library raises
            refused[name] = str(error).partition("\n")[0]
            continue
        if made is None:
            refused[name] = "no type for it"
        else:
            accepted.append(name)
    return accepted, refused


def _wants_signature(reason: str | None) -> bool:
    """Whether `wrap` takes something with a signature, by what it said without one."""
    return reason is not None and reason.startswith("'signature' must be given")


def _address(obj: object) -> int:
    """The address of the function in a box, or of one that a number is; 0 where there is none."""
    if isinstance(obj, int) and not isinstance(obj, bool):
        return 0 if _origin(obj) is None else obj
    with suppress(TypeError, ValueError):
        found = boxes.function(obj)
        return 0 if found is None else found.address
    return 0


def _origin(address: int) -> tuple[str, str | None] | None:
    """The file, and the symbol, that an address is in; None for others, and for no addresses."""
    is_address = 0 < address < 2 ** (8 * _lib.ffi.sizeof("void *"))
    return _lib.address_origin(address) if is_address else None


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


def _show_calls(output: Output, native: NativeCallable) -> None:
    """How the entries of a native callable are called, and by whom."""
    rows = _entries(native)
    if not rows:
        return
    table = []
    for row in rows:
        accepted = ", ".join(row["accepted"])
        cells = row["signature"], row["c"], _GIL[row["gil"]], row["errors"], accepted
        table.append(Row(*cells))
    output.table(["signature", "in C", "GIL", "failure", "accepted by"], table)
    for row in rows:
        for name, why in row["refused"].items():
            output.text(f"not by {name}: {why}")


def _show_foreign(output: Output, place: str, obj: object) -> tuple[bool, NativeCallable | None]:
    """An object of another library: whether there is a C function or data in it, and what `wrap`
    makes of it."""
    output.heading(f"{place} is a {_type_name(type(obj))}")
    titles = ["nativecall finds", ""]
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
        output.table(titles, rows)
        return True, _show_wrapped(output, obj, known is None)
    if pointer is not None:
        pointee = "unknown data" if pointer.pointee is None else pointer.pointee.text
        rows = [Row("a pointer", address_text(pointer.address)), Row("to", pointee)]
        output.table(titles, rows)
        output.text("it can be an argument of a native call, but is no function")
        return True, None
    return _show_wrappable(output, obj)


def _show_offer(
    output: Output, obj: object, offset: int | None, rows: list[tuple[str, int, int]]
) -> tuple[bool, NativeCallable | None]:
    """What another provider's object offers: whether there are entries; what `wrap` makes of it."""
    where = "by '__nativecall_api__'" if offset is None else f"in a call table {offset} bytes in"
    output.text(f"a native callable of another provider, which offers {where}:")
    shown = [Row(text, f"{flags:#x}", address_text(address)) for text, flags, address in rows]
    output.table(["signature", ">flags", ">address"], shown)
    return bool(rows), _show_wrapped(output, obj, False)


def _show_wrappable(output: Output, obj: object) -> tuple[bool, NativeCallable | None]:
    """What has no C function of its own that native code finds, but that `wrap` takes."""
    if isinstance(obj, int) and not isinstance(obj, bool):
        origin = _origin(obj)
        if origin is None:
            return False, None
        file, symbol = origin
        output.text(f"an address in {file}" + (f", of {symbol!r}" if symbol else ""))
        return True, _show_wrapped(output, obj, True)
    try:
        on_demand = boxes.signatures(obj) is not None
    except (TypeError, ValueError) as error:
        output.text(f"nativecall.wrap refuses it: {error}")
        return False, None
    if on_demand and boxes.loops(obj):
        output.text(
            "a ufunc: native code and nativecall.wrap find a function for each of its loops"
        )
    elif on_demand and boxes.count(obj) is not None:
        output.text("native code finds no function in it; nativecall.wrap compiles one for each")
        output.text("signature that is asked for: wrap(obj, 'd:d'), for example")
    elif not on_demand and not isinstance(obj, Mapping):
        why = boxes.reason(obj)
        if why is not None:
            output.text(f"nativecall.wrap says: {why}")
        return _wants_signature(why), None
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
