"""``nativecall inspect`` of what has many functions: a module, a shared library, a header.

Each function is a row with its signatures, or with the reason why there is none. What a module
imports from elsewhere counts as its own, for so its users see it.
"""

from __future__ import annotations

import json
import os
import sys
from types import ModuleType

from .._callable.wrap import wrap
from .._errors import SignatureError
from .._library import Library
from .._values import boxes
from . import debuginfo, offers
from .output import CommandError, Output, Row
from .place import functions, imported, library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .offers import Plain

_HEADERS = (".h", ".hpp", ".hh", ".hxx")
_PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    list,
    tuple,
    dict,
    set,
    frozenset,
)  # not subclasses


def of_place(place: str, headers: Sequence[str]) -> tuple[str, list[dict[str, Plain]], str] | None:
    """What is at a place that is no ``MODULE:NAME``: what it is, its rows, and a note; None for
    what is one.
    """
    output = Output()
    if headers:
        with output.working(f"reading {', '.join(headers)}"):
            found = library(place, headers)
        rows = of_library(found)
        return f"a library, by {', '.join(headers)}", rows, _skipped(found.skipped)
    if place.endswith(_HEADERS):
        with output.working(f"reading {place}"):
            return _header(place)
    path = _library_file(place)
    if path is not None:
        exported, note = debuginfo.exported(path)
        rows = _rows(exported)
        return f"a shared library, {path}", rows, note
    if ":" in place:
        return None
    with output.working(f"importing {place}"):
        module = imported(place)
    return "a module", [*of_module(module)], ""


def _rows(exported: list[debuginfo.Exported]) -> list[dict[str, Plain]]:
    rows = []
    with Output().working("asking who accepts them", len(exported)) as done:
        for one in exported:
            rows += offers.declared(one.name, one.signature, one.offset, one.reason)
            done()
    return rows


def _library_file(place: str) -> str | None:
    """The file of a shared library; None where no library is meant."""
    if debuginfo.is_library(place):
        return place
    name = os.path.basename(place)
    if not (".so" in name or name.endswith((".dylib", ".dll"))):
        return None
    if os.path.exists(place):
        raise CommandError(f"{place!r} is no shared library")
    from .. import _lib
    from .._errors import LibraryError

    try:
        found = _lib.library_path(_lib.library_open(place))
    except LibraryError as error:
        raise CommandError(str(error)) from None
    return found


def _header(place: str) -> tuple[str, list[dict[str, Plain]], str]:
    """The functions that a header declares, with those of what it includes from its own folder."""
    from .._errors import NativeCallError
    from .._signature import header

    near = f".{os.sep}{place}" if os.path.exists(place) and not os.path.isabs(place) else place
    try:
        known = header.read(header.wanted(near, (), {}))
    except (NativeCallError, OSError, ValueError) as error:
        raise CommandError(f"{place!r} cannot be read: {error}") from None
    own = [
        index
        for index, file in enumerate(known.files)
        if os.path.basename(file) == os.path.basename(place)
    ]
    folders = {os.path.dirname(known.files[index]) for index in own}
    if folders & {"/usr/include", "/usr/local/include"}:
        chosen = {*own}
    else:
        chosen = {i for i, file in enumerate(known.files) if os.path.dirname(file) in folders}
    if not any(known.places.get(name, (-1, 0))[0] in chosen for name in known.functions):
        chosen = {*range(len(known.files))}  # as glibc's math.h, which only includes
    rows: list[dict[str, Plain]] = []
    for name in known.functions:
        if known.places.get(name, (-1, 0))[0] in chosen:
            try:
                rows += offers.declared(name, known.functions[name])
            except SignatureError as error:
                rows += offers.declared(name, None, None, str(error))
    for name, refusal in known.refused.items():
        rows += offers.declared(name, None, None, refusal.reason)
    notes = [f"{len(known.constants)} constants"] if known.constants else []
    notes += [_skipped(known.skipped)] if known.skipped else []
    return "a header", rows, "; ".join([note for note in notes if note])


def _skipped(names: dict[str, str]) -> str:
    """How much of a header is left out, and the first of it."""
    left = {name: why for name, why in names.items() if not why.startswith("a macro ")}
    if not left:
        return ""
    name, why = next(iter(left.items()))
    count = f"{len(left)} name" + ("" if len(left) == 1 else "s")
    return (
        f"{count} of the header cannot be offered, {name!r} first: {why}; Library.skipped has all"
    )


def of_library(found: Library) -> list[dict[str, Plain]]:
    """The declared functions of a library."""
    if found.declarations is None:
        if found.path is None:
            return []
        exported, _ = debuginfo.exported(found.path)
        return _rows(exported)
    rows = []
    for name, one in functions(found).items():
        rows += offers.entries(one, name)
    return rows


def of_module(module: ModuleType) -> Iterator[dict[str, Plain]]:
    """What a module offers: C functions in ``__pyx_capi__``, and objects that `wrap` takes."""
    exported: dict[str, None] = {}
    if isinstance(getattr(module, "__pyx_capi__", None), dict):
        cython = boxes.bridge("_cython")
        exported = dict.fromkeys([cython.plain_name(key) for key in cython.table(module)])
    for name in exported:
        yield from _wrapped(name, module, name)
    for name, one in [*vars(module).items()]:
        if name in exported or name.startswith("__"):
            continue
        if isinstance(one, Library):
            for row in of_library(one):
                yield row | {"name": f"{name}.{row['name']}"}
        elif type(one) not in _PLAIN and not isinstance(one, (type, ModuleType)):
            yield from _wrapped(name, one)


def _wrapped(name: str, target: object, *given: str) -> list[dict[str, Plain]]:
    """The entries of what `wrap` makes; nothing for what holds no function."""
    is_box = bool(given)
    try:
        is_box = is_box or boxes.native(target) is not None or boxes.function(target) is not None
        is_box = is_box or boxes.signatures(target) is not None
        reason = None if is_box else boxes.reason(target)
        if not is_box:
            return [] if reason is None else offers.declared(name, None, None, reason)
        made = wrap(target, *given)
        found = offers.entries(made, name)
    except Exception as error:  # of somebody's object, which may do anything
        return offers.declared(name, None, None, str(error))
    if not found:
        return offers.declared(name, None, None, "compiled on demand, for each signature")
    return found


# -- showing ---------------------------------------------------------------------------------------


def show(place: str, what: str, rows: list[dict[str, Plain]], note: str, as_json: bool) -> int:
    """Show rows; 0 when there are any."""
    if as_json:
        print_json({"object": place, "what": what, "note": note, "entries": [*rows]})
        return 0 if rows else 1
    output = Output()
    known = sum(1 for row in rows if row["signature"] is not None)
    count = "1 entry" if len(rows) == 1 else f"{len(rows)} entries"
    output.heading(f"{place} is {what}: {count}, {known} with signatures")
    if note:
        output.text(note)
    if not rows:
        output.text("native code finds nothing in it")
        return 1
    table = []
    for row in rows:
        if row["signature"] is None:
            table.append(Row(str(row["name"]), "unknown", "", "", str(row.get("reason", ""))))
            continue
        gil, failure, accepted = offers.cells(row)
        failure = "" if failure == "none" else failure
        table.append(Row(str(row["name"]), str(row["signature"]), gil, failure, accepted))
    output.table(["name", "signature", "GIL", "failure", "accepted by"], table)
    return 0


def print_json(found: dict[str, Plain]) -> None:
    json.dump(found, sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")
