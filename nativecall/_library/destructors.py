"""Destructors: the options `free=` and `close=` of a library.

`take` replaces them by a `Handled` check (_values/handles.py), which names the functions that free
pointers or close handles.
"""

from __future__ import annotations

from .._callable.callable import plain
from .._cdecl.spelling import parse
from .._errors import TYPE_CHECKING, SymbolError
from .._values import callinterface, handles
from .._values.outparameters import check_out, resolved, visible
from .options import POINTERS, gives_pointer, names_of

if TYPE_CHECKING:
    from .._ext import Foreign
    from .._types.signature import Signature


def take(library: Foreign, symbol: str, signature: Signature, how: dict[str, Foreign]) -> set[str]:
    """Replace the options `free` and `close` in `how` by a check of the function's results.

    Return the names that this call added to the library's destructors.
    """
    functions = library._known.functions
    free, close = how.pop("free", None), how.pop("close", None)
    if free is not None and close is not None:
        raise ValueError(f"the result of {symbol!r} can be freed or closed, not both")
    told = free if free is not None else close
    out: Foreign = check_out(how.get("out") or ())
    if told is not None and not gives_pointer(signature, out):
        what = "free" if free is not None else "close"
        given = f"{symbol!r} is {signature.shown(symbol)!r}"
        if any(signature.characters[-1:]):
            given += ", which returns text"
        elif out:
            given += ", and 'out' names none of its pointers to pointers"
        raise ValueError(f"{what!r} is for functions that return pointers; {given}")
    for name in names_of(told):
        known = functions.get(name)
        if known is None:
            continue
        if not _takes_pointer(known):
            raise _unable(name, known)
        if free is not None and (len(known.args) != 1 or known.variadic):
            raise ValueError(
                f"'free' is called with only the pointer, but {name!r} is {known.text!r}; give a "
                "Python function that passes the other arguments"
            )
    added: set[str] = library._options.all_names(names_of(told)) - library._ending
    library._ending.update(added)
    owns, ends, index = None, None, -1
    if free is not None:
        function = _freeing(library, free)
        named = function.__name__, function
        owns = *named, *named
    elif close is not None:
        owns = "", None, *(_closer(library, close) or ("", None))
    if symbol in library._ending:
        passed = visible(signature, 0, resolved(signature, 0, out, by_reference=True))
        places = [at for at, (_, arg) in enumerate(passed) if arg.kind in POINTERS]
        if not places:
            raise _unable(symbol, signature)
        ends, index = symbol, places[0]
    if owns or ends:
        how["check"] = handles.Handled(how.get("check"), owns, ends, index)
    return added


def _takes_pointer(signature: Signature) -> bool:
    return any([arg.kind in POINTERS for arg in signature.args])


def _unable(name: str, signature: Signature) -> ValueError:
    return ValueError(
        f"{name!r} takes no pointer, so it cannot free or close one: it is {signature.text!r}"
        + (", whose pointers are out-parameters" if _takes_pointer(signature) else "")
    )


def _closer(library: Foreign, close: object) -> tuple[str, Foreign] | None:
    """Return the destructor that closes a handle if the call that returned the handle raises.

    This is the first function in `close` that takes only the handle.
    """
    known = library._known.functions
    for name in close if isinstance(close, tuple) else ():
        if name in known and len(known[name].args) == 1:
            try:
                return name, _freeing(library, name)
            except SymbolError:
                continue  # calling that function raises the error
    return None


def _freeing(library: Foreign, free: object) -> Foreign:
    """Return a function that frees a pointer, but does not mark the object as freed."""
    if not isinstance(free, str):
        return free
    known = library._known.functions
    signature = known[free] if free in known else parse("v:P")
    address, owner = library._found(free)
    return plain(address, callinterface.of(signature), free, owner)
