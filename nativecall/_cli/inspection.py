"""``nativecall inspect``: list what native code and `nativecall.wrap` find in an object.

It does not call the object's functions. A consumer is listed as accepting an entry if the entry can
be converted to the consumer's function object.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from operator import methodcaller

from .. import _ext, _lib
from .._callable.callable import NativeCallable
from .._callable.wrap import wrap
from .._errors import TYPE_CHECKING
from .._output import Output, Row
from .._slots import PADDING, customslots, extensibletype
from .._values import foreign
from .describe import entry_rows, owner_text, slot_rows
from .place import find

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._ext import Foreign


_CALL_TABLES = (0x04000001, 0x04000003)
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
_GIL = {"need": "needed", "release": "dropped", "hold": "kept"}
#: The library that each consumer needs, and how to create the consumer's function object.
_CONSUMERS: dict[str, tuple[str, Callable[[NativeCallable], object]]] = {
    "ctypes": ("", lambda f: f.to_ctypes()),
    "cffi": ("", lambda f: f.to_cffi()),
    "capsule": ("", lambda f: f.to_capsule()),
    "SciPy": ("scipy", lambda f: f.to_scipy()),
    "ufunc": ("numpy", lambda f: f.to_ufunc()),
    "Numba": ("numba", lambda f: f._numba_type_),
}


def run(place: str, *, as_json: bool = False) -> int:
    """Show the object at ``MODULE:NAME``; return 0 if it has something native, otherwise 1."""
    obj = find(place)
    made: NativeCallable | None = None
    note = ""
    try:
        made = wrap(obj)
    except Exception as error:  # inspecting an object may raise anything
        note = str(error)
    is_own = made is not None and made is foreign.native(obj)
    address, inside = (None, []) if is_own else _inside(obj)
    wants = note.startswith("'signature' must be given") and not isinstance(obj, int)
    found = bool(inside or wants if made is None else _ext.call_table_offset(type(made)))
    if not as_json:
        return _show(place, obj, made, note, inside, found)
    rows = [] if made is None else _entries(made)
    if made is None and (address or wants):
        rows = [{"name": place, "signature": None, "c": None, "address": address}]
    slots = [slot._asdict() for slot in customslots(obj)]
    what = f"a {_type_name(type(obj))}"
    whole = {"object": place, "what": what, "note": note, "entries": rows, "slots": slots}
    decode = methodcaller("decode", "utf-8", "backslashreplace")  # of the keys that are bytes
    print(json.dumps(whole, indent=1, ensure_ascii=False, default=decode))
    return 0 if found or slots else 1


def _entries(native: NativeCallable) -> list[dict[str, Foreign]]:
    """Return the entries of a native callable as plain data."""
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
    """Return the consumers that accept a callable's only entry, and why the others do not."""
    accepted = ["Python", "C"]
    refused: dict[str, str] = {}
    for name, (library, make) in _CONSUMERS.items():
        if library and find_spec(library) is None:
            refused[name] = f"{library} is not installed"
            continue
        try:
            make(one)
        except Exception as error:  # the other library may raise any class
            refused[name] = str(error).partition("\n")[0]
        else:
            accepted.append(name)
    return accepted, refused


def _inside(obj: object) -> tuple[int | None, list[Row]]:
    """Return the address in a foreign object (or None), and rows that describe the object."""
    if isinstance(obj, int):
        is_address = 0 < obj < 2 ** (8 * _lib.ffi.sizeof("void *"))
        origin = _lib.address_origin(obj) if is_address and not isinstance(obj, bool) else None
        if origin is None:
            return None, []
        file, symbol = origin
        return obj, [Row("an address in", file + (f", of {symbol!r}" if symbol else ""))]
    try:
        offer = _ext.native_offer(obj)
        function = foreign.function(obj)
        pointer = foreign.pointer(obj) if function is None else None
    except (TypeError, ValueError):
        return None, []
    if offer is not None:
        offset, entries = offer
        where = "by '__nativecall_api__'" if offset is None else f"call table {offset} bytes in"
        rows = [Row("a native callable of another provider", where)]
        return None, rows + [Row(text, f"{flags:#x} {place:#x}") for text, place, flags in entries]
    if function is not None:
        known = function.signature
        return function.address, [
            Row("a C function at", hex(function.address)),
            Row("signature", "unknown" if known is None else known.text),
            Row("in C", "unknown" if known is None else known.c_declaration(function.name or "f")),
            Row("kept alive by", "the object" if function.owner is obj else owner_text(obj)),
        ]
    if pointer is not None:
        return pointer.address, [
            Row("a pointer", hex(pointer.address)),
            Row("to", "unknown data" if pointer.pointee is None else pointer.pointee.text),
            Row("for", "arguments of native calls; it is not a function"),
        ]
    return None, []


def _type_name(kind: type) -> str:
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return module + kind.__name__


# -- output ---------------------------------------------------------------------------------------


def _show(
    place: str,
    obj: object,
    made: NativeCallable | None,
    note: str,
    inside: list[Row],
    found: bool,
) -> int:
    """Show an object's contents, and what `wrap` returned or why it failed; return the status."""
    output = Output()
    is_own = made is not None and made is foreign.native(obj)
    what = f"a {_type_name(type(obj))}"
    if made is not None and is_own:
        count = len(made.signatures)
        kind = f"a native callable with {count} {'entry' if count == 1 else 'entries'}"
        is_view = _ext.callable_of(obj) is not None
        what = (
            kind if made is obj else f"{'the built-in view of' if is_view else what + ','} {kind}"
        )
    output.heading(f"{place} is {what}")
    if inside:
        output.table(["nativecall finds", ""], inside)
    if made is None and note.startswith("'signature' must be given") and found:
        output.text("nativecall.wrap needs a signature for it: wrap(obj, 'd:d'), for example")
    elif made is None:
        output.text(f"nativecall.wrap refuses it: {note}")
    else:
        if foreign.loops(obj):
            output.text(
                "a ufunc: native code and nativecall.wrap find a function for each of its loops"
            )
        elif foreign.count(obj) is not None:
            output.text(
                "native code finds no function in it; nativecall.wrap compiles one for each"
            )
            output.text("signature that is asked for: wrap(obj, 'd:d'), for example")
        if not is_own:
            output.text("nativecall.wrap turns it into:")
        output.table(*entry_rows([made]))
        offset = _ext.call_table_offset(type(made))
        where = f"{offset} bytes into the object at {hex(id(made))}"
        if is_own:
            without = f"none, because {type(made).__name__} overrides __call__"
            output.text(f"call table: {where if offset else without}")
        _show_calls(output, made)
    found |= _show_slots(output, made if is_own else obj, found)
    if not found:
        output.text("native code finds nothing in it")
    return 0 if found else 1


def _show_calls(output: Output, native: NativeCallable) -> None:
    """Show how the entries of a native callable are called, and by which consumers."""
    rows = _entries(native)
    if not rows:
        return
    table = [
        Row(one["signature"], one["c"], _GIL[one["gil"]], one["errors"], ", ".join(one["accepted"]))
        for one in rows
    ]
    output.table(["signature", "in C", "GIL", "failure", "accepted by"], table)
    for row in rows:
        for name, why in row["refused"].items():
            output.text(f"not by {name}: {why}")


def _show_slots(output: Output, obj: object, offers: bool) -> bool:
    """Show the slots of a type, or of an object's type; return whether there are any.

    `offers` is true if the object has entries.
    """
    slots = customslots(obj)
    used = any(slot.key != PADDING for slot in slots)
    if used:
        kind = obj if isinstance(obj, type) else type(obj)
        output.text(f"slots of the type {_type_name(kind)}:")
        output.table(*slot_rows(slots))
        calls = any(slot.key in _CALL_TABLES for slot in slots)
        # Native code may follow the call tables of such types (docs/abi/find.md, Step 2).
        is_read = kind.__flags__ & _IMMUTABLE != 0 or _ext.call_table_offset(kind) != 0
        if calls and not offers and type(kind) is not extensibletype and not is_read:
            output.text(
                f"native code ignores its call tables: {kind.__name__} is mutable and its "
                f"metaclass is {type(kind).__name__}, so its __call__ may have been replaced; make "
                "it with Py_TPFLAGS_IMMUTABLETYPE, or with the metaclass extensibletype itself"
            )
    return used
