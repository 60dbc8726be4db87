"""`f.to_ufunc`: create a NumPy ufunc around a native callable.

Each entry becomes a loop. Functions with equal types and options share one generated elementwise
loop, which calls them through their pointers. If a bridge provides a function's IR, the function is
compiled into a loop of its own. The core executes generalised loops, and all loops without
generated code (_plan/conversion.py).

A ufunc created here is pickled as its callable, and recreated from the callable. NumPy would pickle
it as an attribute of a module. So the first call of `to_ufunc` registers a reduction function with
`copyreg`. For all other ufuncs, it calls NumPy's reduction function.

Guarantees: a ufunc keeps the callable and its code alive. Exceptions of the function propagate from
the call of the ufunc. Loops of entries that need the GIL acquire it. Other loops run without the
GIL.
"""

from __future__ import annotations

import copyreg
import ctypes

from .. import _ext
from .._errors import TYPE_CHECKING, NoEntryError, SignatureError, extra
from .._rows import NamedTuple
from .._types.ctype import CType
from .._values.calloptions import of_type
from .._values.dtypes import dtype_of
from . import inlined, operands, structure

if TYPE_CHECKING:
    import numpy

    from .._callable.callable import NativeCallable
    from .._ext import Foreign
    from .._plan.conversion import LoopPlan
    from .operands import Core

_MOST = 32  # operands that every version of NumPy supports
_ORDER = "?bBhHiIqQefdg"


class Keeper:
    """Objects that a ufunc created here keeps alive: the callable, and the data of the loops."""

    __slots__ = ("arrays", "callable", "given", "kept")

    def __init__(self, callable: NativeCallable, *given: str | None) -> None:
        self.callable = callable
        self.given = given  # name, doc, signature
        self.kept: list[object] = []
        self.arrays: object = None  # the memory that NumPy's struct points to


def keeper_of(ufunc: numpy.ufunc) -> Keeper | None:
    """Return the keeper of a ufunc created here; None for others."""
    try:
        address = structure.fields(ufunc).obj
    except structure.Unknown:
        return None
    kept = ctypes.cast(address, ctypes.py_object).value if address else None
    return kept if isinstance(kept, Keeper) else None


class _Loop(NamedTuple):
    """A loop: a callable of one entry, its plan, and NumPy's type numbers of its operands."""

    entry: NativeCallable
    plan: LoopPlan
    numbers: tuple[int, ...]


def ufunc(
    f: NativeCallable, name: str | None, doc: str | None, signature: str | None
) -> numpy.ufunc:
    """Implement `NativeCallable.to_ufunc`."""
    for label, value in (("name", name), ("doc", doc)):
        of_type(label, (str, type(None)), "a str or None")(value)
    extra("numpy", "to_ufunc()")
    _pickle_ours()
    wanted = None if signature is None else operands.core(signature)
    entries = f._resolved()
    if not entries:
        raise NoEntryError.none(f.__name__, f._specializer is not None)
    loops = [_loop(one, wanted) for one, _, _, _ in entries]
    first = loops[0].plan
    for loop in loops[1:]:
        plan = loop.plan
        if (len(plan.inputs), len(plan.outputs)) != (len(first.inputs), len(first.outputs)):
            raise SignatureError(
                f"{f.__name__!r} cannot be one ufunc: {first.signature.text!r} has "
                f"{len(first.inputs)} inputs and {len(first.outputs)} outputs, "
                f"{plan.signature.text!r} {len(plan.inputs)} and {len(plan.outputs)}",
                hint=f"f[{first.signature.text!r}].to_ufunc() makes one of that entry alone",
            )
    loops.sort(key=lambda loop: [_rank(one) for one in loop.plan.operands])
    keeper = Keeper(f, name, doc, signature)
    made = [_code(loop, keeper) for loop in _distinct(loops)]
    return structure.new(
        [address for address, _ in made],
        [data for _, data in made],
        [loop.numbers for loop in _distinct(loops)],
        len(first.inputs),
        f.__name__ if name is None else name,
        (f.__doc__ or "") if doc is None else doc,
        signature,
        keeper,
    )


def _pickle_ours() -> None:
    """Register our reduction function for ufuncs with `copyreg`; see the module's docstring."""
    import numpy

    of_numpy: Foreign = copyreg.dispatch_table.get(numpy.ufunc)
    if of_numpy is None or of_numpy.__module__ == __name__:
        return

    def reduce(given: numpy.ufunc) -> Foreign:
        keeper = keeper_of(given)
        return of_numpy(given) if keeper is None else (ufunc, (keeper.callable, *keeper.given))

    copyreg.pickle(numpy.ufunc, reduce)


def _loop(entry: NativeCallable, wanted: Core | None) -> _Loop:
    """Return the loop of a callable with one entry."""
    cif, _, flags = entry._entry()
    if wanted is None:
        plan = operands.elementwise(entry.__name__, cif, flags)
    else:
        plan = operands.generalised(entry.__name__, cif, flags, wanted)
    numbers = tuple([_number(entry, one) for one in plan.operands])
    if len(numbers) > _MOST:
        raise SignatureError(
            f"{entry.__name__!r} has {len(numbers)} operands, but a ufunc has at most {_MOST}"
        )
    return _Loop(entry, plan, numbers)


def _number(entry: NativeCallable, ctype: CType) -> int:
    """Return NumPy's type number for a C type."""
    try:
        found = dtype_of(ctype)
    except TypeError:
        found = None
    if found is None or found.itemsize != ctype.size:
        raise SignatureError(
            f"{entry.__name__!r} has a {ctype.text!r} ({ctype.c_declaration()}), for which NumPy "
            "has no type"
        )
    return int(found.num)


def _rank(ctype: CType) -> int:
    """Return the position of a type in NumPy's search: types come before the types they cast to."""
    text = ctype.text
    return _ORDER.index(text) if text in _ORDER else len(_ORDER) + "fdg".find(text[-1])


def _distinct(loops: list[_Loop]) -> list[_Loop]:
    """Drop each loop with the input types of an earlier loop, since NumPy never finds it."""
    found: dict[tuple[int, ...], _Loop] = {}
    for loop in loops:
        found.setdefault(loop.numbers[: len(loop.plan.inputs)], loop)
    return [*found.values()]


def _code(loop: _Loop, keeper: Keeper) -> tuple[int, int]:
    """Return the address of a loop and its `data`; the keeper keeps both alive."""
    entry, plan = loop.entry, loop.plan
    known = inlined.loop(entry, plan)
    if known is not None:
        address, kept = known
        keeper.kept += [entry, kept]
        return address, 0
    generated = None
    if plan.core is None:
        from .._codegen import conversions

        generated = conversions.loop(plan)
    owner: Foreign
    if generated is not None:
        address, owner = generated
        third = _ext.code_symbols()["nc_symbols"]
    else:
        from .._plan.conversion import loop as written

        owner = ctypes.create_string_buffer(written(plan)[0])
        address, third = _ext.code_symbols()["nc_loop"], ctypes.addressof(owner)
    data = (ctypes.c_void_p * 3)(entry.address(), id(entry), third)
    keeper.kept += [entry, owner, data]
    return address, ctypes.addressof(data)
