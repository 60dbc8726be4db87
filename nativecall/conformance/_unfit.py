"""Runtimes that do not suit, and what a newcomer must say of each.

A case puts something into the runtime's place. `meet` does so in a process of its own, imports a
module there, and tells what came of it.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import types

from . import _abi
from ._abi import ffi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._types import Foreign

#: `python -c` with this loads the kit without the package (see __init__.py).
LOAD = """
import importlib.util as util, sys
folders = sys.argv[1].split("\\n")
spec = util.spec_from_file_location(
    "nativecall_conformance", folders[0] + "/__init__.py", submodule_search_locations=folders
)
module = sys.modules[spec.name] = util.module_from_spec(spec)
spec.loader.exec_module(module)
"""


def _folders() -> str:
    """The folder of the kit, and that of its C providers, another one in an editable installation:
    lines."""
    compiled = importlib.util.find_spec(f"{__package__}._providers")
    files = [__file__, compiled.origin if compiled is not None else None]
    return "\n".join(dict.fromkeys([os.path.dirname(file) for file in files if file]))


#: What it is told of.
FOLDER = _folders()
#: Seconds that a process of the kit may take.
LIMIT = 120


def _module(**attributes: object) -> types.ModuleType:
    made = types.ModuleType(_abi.MODULE)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def _set(struct: Foreign, field: str, value: int) -> None:
    """Set a number, or a pointer to an address."""
    kind = dict(ffi.typeof(struct).item.fields)[field].type
    setattr(struct, field, value if kind.kind == "primitive" else ffi.cast(kind, value))


def _runtime(name: str = _abi.CAPSULE, /, **changes: Foreign) -> types.ModuleType:
    """A runtime that looks right, but for some fields: that of the process where there is one, else
    one of whose functions none can be called."""
    made = _abi.kept(ffi.new("NcRuntime *"))
    if hasattr(sys.modules.get(_abi.MODULE), _abi.ATTRIBUTE):
        made[0] = _abi.runtime()[0]
    else:
        made.abi_version, made.struct_size = _abi.ABI_VERSION, ffi.sizeof("NcRuntime")
        made.type_size, made.slot_size = _abi.HEAP_TYPE + 32, 24
        made.provider = _abi.kept(ffi.new("char[]", b"the kit"))
        for field in ("metatype", "registry", "intern", "ready"):
            _set(made, field, id(type))
    for field, value in changes.items():
        _set(made, field, value)
    return _module(runtime_v1=_abi.capsule(_abi.number(made), name), extensibletype_v1=type(type))


_NONE = (
    r"sys\.modules\['_extensibletype'\] is .*, which is not an extensibletype runtime that .* "
    r"\(ABI \d+\) can use: it has no capsule 'runtime_v1'"
)
_SIZES = (
    r".* was built for extensibletype ABI \d+ \(sizes \d+/\d+/\d+\), but {}, which was imported "
    r"first, provides ABI {} \(sizes {}/{}/{}\); rebuild the older of the two"
)
_NULL = (
    r"the extensibletype runtime of {}, which was imported first, is not one that .* \(ABI \d+\) "
    r"can use: its '{}' is NULL; rebuild the former"
)


def _sizes(**changes: int) -> tuple[Callable[[], object], str]:
    """A runtime whose numbers do not suit, and the message."""
    right = {
        "abi_version": _abi.ABI_VERSION,
        "struct_size": ffi.sizeof("NcRuntime"),
        "type_size": _abi.HEAP_TYPE + 32,
        "slot_size": 24,
    } | changes
    provider = "the kit" if right["abi_version"] and "provider" not in changes else "another module"
    numbers = [right[name] for name in ("abi_version", "struct_size", "type_size", "slot_size")]
    return lambda: _runtime(**changes), _SIZES.format(provider, *numbers)


def _null(field: str) -> tuple[Callable[[], object], str]:
    provider = "another module" if field == "provider" else "the kit"
    return lambda: _runtime(**{field: 0}), _NULL.format(provider, field)


class _Lines:
    """An object whose repr is no part of a message."""

    def __repr__(self) -> str:
        return "an object\nof two lines"


#: What stands in the runtime's place, and the ImportError of who comes to it.
CASES: dict[str, tuple[Callable[[], object], str]] = {
    "None": (lambda: None, _NONE),
    "an object without attributes": (object, _NONE),
    "an object whose repr has two lines": (
        _Lines,
        _NONE.replace("is .*,", "is an object of type '_Lines',"),
    ),
    "a number in place of the capsule": (lambda: _module(runtime_v1=1), _NONE),
    "a capsule of another name": (lambda: _runtime("_extensibletype.runtime_v2"), _NONE),
    "ABI version 0": _sizes(abi_version=0),
    "ABI version 2": _sizes(abi_version=2),
    "a struct of 16 bytes": _sizes(struct_size=16),
    "smaller types": _sizes(type_size=_abi.HEAP_TYPE),
    "smaller slots": _sizes(slot_size=16),
    "larger slots": _sizes(slot_size=32),
    "another version without a provider": _sizes(abi_version=2, provider=0),
} | {
    f"'{field}' that is NULL": _null(field)
    for field in ("provider", "metatype", "registry", "intern", "ready")
}
#: Module objects beside whose attributes a newcomer puts its own runtime.
BESIDE: dict[str, Callable[[], types.ModuleType]] = {
    "a module without a runtime": _module,
    "the metaclass of a draft alone": lambda: _module(extensibletype_v1=type),
    "the first draft's capsule 'extensibletype_v1' alone": lambda: _module(
        extensibletype_v1=_abi.capsule(id(type), "extensibletype_v1")
    ),
    "version 2": lambda: _module(
        runtime_v2=_abi.capsule(id(type), "_extensibletype.runtime_v2"), extensibletype_v2=type
    ),
}


def grow() -> None:
    """Put a larger struct, which tells of larger types, in place of the runtime that is there."""
    found = _abi.runtime()
    memory = _abi.kept(ffi.new("char[4096]", b"\x5a" * 4095))
    ffi.memmove(memory, found, ffi.sizeof("NcRuntime"))
    larger = ffi.cast("NcRuntime *", memory)
    larger.struct_size, larger.type_size = 4096, found.type_size + 8
    capsule = _abi.capsule(_abi.number(memory), _abi.CAPSULE)
    setattr(sys.modules[_abi.MODULE], _abi.ATTRIBUTE, capsule)


def main(case: str, first: str, target: str) -> None:
    """What `meet` runs in a process of its own; the last line that it prints is JSON."""
    sys.path.insert(0, os.getcwd())
    if first:
        importlib.import_module(first)
        if case:
            grow()
    else:
        make = BESIDE.get(case) or CASES[case][0]
        sys.modules[_abi.MODULE] = make()  # type: ignore[assignment]  # what is tried is no module
    before = sys.modules.get(_abi.MODULE)
    had = dict(vars(before)) if case in BESIDE else {}
    error: BaseException | None = None
    try:
        importlib.import_module(target)
    except BaseException as raised:
        error = raised
    told = {
        "import_error": isinstance(error, ImportError),
        "error": "" if error is None else type(error).__name__,
        "message": "" if error is None else str(error),
        "same": sys.modules.get(_abi.MODULE, ...) is before,
        "kept": all(getattr(before, name, ...) is value for name, value in had.items()),
        "published": hasattr(before, _abi.ATTRIBUTE),
    }
    print("\n" + json.dumps(told), flush=True)


def apart(module: str, *given: str) -> tuple[str, list[str]]:
    """Run `main` of a module of the kit in a process of its own: how that ended, if not well, and
    the lines that it printed."""
    code = f"{LOAD}from nativecall_conformance import {module}\n{module}.main(*sys.argv[2:])\n"
    command = [sys.executable, "-c", code, FOLDER, *given]
    limit = LIMIT // 2  # the process that waits for it has a limit, too
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"it takes more than {limit} seconds", []
    ended = f"the process ended with {done.returncode}: {done.stderr[-200:]}"
    return ended if done.returncode else "", done.stdout.splitlines()


def meet(target: str, case: str = "", first: str = "") -> str | None:
    """Import a module where something else is in the runtime's place; what is wrong, or None.

    A runtime has to be published beside what `case` of `BESIDE` puts there, and to be refused with
    one of `CASES`; or that of the module `first` is made to look larger with any case.
    """
    ended, lines = apart("_unfit", case, first, target)
    if ended:
        return ended
    told = json.loads(lines[-1])
    if first:
        return f"{told['error']}: {told['message']}" if told["error"] else None
    if case in BESIDE:
        if told["error"]:
            return f"{told['error']}: {told['message']}"
        if not told["same"] or not told["kept"]:
            return "what stood in the runtime's place is gone"
        return None if told["published"] else "there is no runtime of version 1"
    if not told["error"]:
        return f"{target} is imported all the same"
    if not told["import_error"]:
        return f"{told['error']} in place of ImportError: {told['message']}"
    if re.fullmatch(CASES[case][1], told["message"]) is None:
        return f"the ImportError says {told['message']!r}"
    return None if told["same"] else "what stood in the runtime's place is gone"
