"""The rules of a consumer about the runtime: there is none yet, it comes late, it does not suit.

Each is checked in a process of its own, which nativecall has not been imported into. A module that
brings a runtime itself, or imports one that does, is no mere consumer: its handshake is a
runtime's affair.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from operator import attrgetter
from types import SimpleNamespace

from . import _abi, _hostile, _unfit
from ._consumer import PLAIN, Consumer, table_rule
from ._rules import Absent, Broken, check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._types import Foreign

_BEFORE = "there is no runtime yet"


@table_rule(
    "Step 1: the runtime",
    "the runtime is looked up, never imported, and again until there is one",
)
def late_runtime(it: Consumer) -> None:
    _apart(it, "late")


@table_rule(
    "Step 1: the runtime",
    "a runtime that does not suit is none, and a larger one is one",
)
def unfit_runtime(it: Consumer) -> None:
    _apart(it, "unfit")


def _apart(it: Consumer, case: str) -> None:
    ended, lines = _unfit.apart("_looks", it.place, case)
    told = [json.loads(line) for line in lines if line.startswith('{"where"')]
    found = ended or told[-1]["found"]
    if told and told[-1]["absent"] and not ended:
        raise Absent(found)
    check(not found, f"where {told[-1]['where'] if told else _BEFORE}: {found}")


def main(place: str, case: str) -> None:
    """What `_apart` runs: a line of JSON before each step, and one at the end."""
    where = ""

    def tell(now: str = "", found: str = "", absent: bool = False) -> None:
        nonlocal where
        where = now or where
        print("\n" + json.dumps({"where": where, "found": found, "absent": absent}), flush=True)

    sys.path.insert(0, os.getcwd())
    asked: list[str] = []
    watch: Foreign = SimpleNamespace(find_spec=lambda name, *rest: asked.append(name))
    sys.meta_path.insert(0, watch)
    try:
        tell(_BEFORE)
        module, _, name = place.partition(":")
        it = Consumer(attrgetter(name)(importlib.import_module(module)), place)
        for obj in (None, object(), type("C", (), {})(), type("Meta", (type,), {})("C", (), {})()):
            it.finds_nothing(f"{obj!r:.60}", obj)
        if _abi.MODULE in sys.modules:
            raise Absent("the module brings a runtime, or imports one that does")
        imports = case == "late" and _abi.MODULE in asked
        check(not imports, f"it imports {_abi.MODULE!r}, which is no file")
        import nativecall  # noqa: F401  # its runtime

        obj = _hostile.provider(it.types.both, PLAIN)
        right = sys.modules[_abi.MODULE]
        for name, (make, _) in _unfit.CASES.items() if case == "unfit" else ():
            tell(f"there is {name}")
            sys.modules[_abi.MODULE] = right  # what is made is like it but for what does not suit
            sys.modules[_abi.MODULE] = make()  # type: ignore[assignment]  # what is tried is no module
            it.finds_nothing("an object of the runtime that was there", obj)
        sys.modules[_abi.MODULE] = right
        if case == "unfit":
            tell("the runtime's struct is larger")
            _unfit.grow()
        else:
            tell("there is a runtime at last")
        it.finds("an object of it", obj, "d:d", PLAIN[0][2])
        tell()
    except Absent as error:
        tell(found=str(error), absent=True)
    except Broken as error:
        tell(found=str(error))
    except Exception as error:
        tell(found=f"{type(error).__name__}: {error}")
