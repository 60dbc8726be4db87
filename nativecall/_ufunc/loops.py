"""The loops of a NumPy ufunc, as native callables.

A loop is a C function that NumPy calls: ``void (char **args, intptr_t *dimensions, intptr_t *steps,
void *data)``. As a native callable, a loop has up to two entries:

- The *strided* entry is the function itself, with `data` bound.
- The *scalar* entry is a C function of single elements, ``d:d`` for a loop ``d->d``. It is a thunk
  that calls the loop for one element. A single output is the result; several outputs are
  out-parameters. Generalised ufuncs have no scalar entry.

If a loop raises an exception, as `numpy.power` does for negative exponents, the exception
propagates to the Python caller. Floating-point status flags, such as overflow, are ignored.

For these, an error explains why they are not supported:

- loops over Python objects (`numpy.frompyfunc`);
- loops over types without a C signature (text, records);
- ufuncs whose loops all use NumPy's newer interface (ArrayMethod), for text or third-party types.
  The ufunc's struct does not contain these loops.
"""

from __future__ import annotations

import ctypes
from collections import namedtuple

from .. import _ext
from .._callable.callable import NativeCallable, plain
from .._cdecl.spelling import parse
from .._errors import TYPE_CHECKING, SignatureError
from .._fifo import Fifo
from .._plan import conversionplan as plans
from .._rows import NamedTuple
from .._types.ctype import VOID, VOIDPTR, CType, scalar
from .._types.derived import pointer
from .._types.signature import Signature
from .._values import callinterface
from .._values.calloptions import DEFAULT
from .._values.failure import CONVENTIONS
from .._values.outparameters import Out
from . import structure

if TYPE_CHECKING:
    import numpy

    from .._ext import Foreign, Thunk, ThunkSpec
    from .._values.calloptions import Policies

#: Signatures of a loop: without `data`; with `data` as a number; with `data` and the address of the
#: core's table of symbols (nc_symbols).
_BOUND = "v:&&c&n&n"
_WHOLE = f"{_BOUND}N"
_SETTLED = f"{_WHOLE}N"
_LENGTH = scalar("q")
_WORD = ctypes.sizeof(ctypes.c_void_p)
# NumPy's letters that differ from ours. Dates and times are 64-bit counts.
_LETTERS = {"F": "Zf", "D": "Zd", "G": "Zg", "M": "q", "m": "q"}
_DATES = "Mm"
_NONE = "OSUVT"


class Loop(NamedTuple):
    """A loop.

    Attributes
    ----------
    ufunc : numpy.ufunc
    types : str
        As in `numpy.ufunc.types`.
    address, data : int
        The address of the C function, and its last argument.
    kept : object
        Keeps both addresses valid.
    """

    ufunc: numpy.ufunc
    types: str
    address: int
    data: int
    kept: object = None

    def __repr__(self) -> str:
        return f"<loop {self.types} of {self.ufunc!r}>"

    @property
    def operands(self) -> tuple[CType, ...]:
        """The C types of the elements, inputs first."""
        letters = self.types.replace("->", "")
        return tuple([scalar(_LETTERS.get(letter, letter)) for letter in letters])

    @property
    def signature(self) -> Signature:
        """The signature of the scalar entry."""
        inputs, outputs = self.operands[: self.ufunc.nin], self.operands[self.ufunc.nin :]
        if len(outputs) == 1:
            return Signature(outputs[0], inputs)
        return Signature(VOID, (*inputs, *map(pointer, outputs)))

    @property
    def policies(self) -> Policies:
        """The policies of the scalar entry."""
        if self.ufunc.nout == 1:
            return DEFAULT
        outs = [Out(self.ufunc.nin + index) for index in range(self.ufunc.nout)]
        return DEFAULT._replace(out=tuple(outs))


# -- reading ---------------------------------------------------------------------------------------


def loops(ufunc: numpy.ufunc) -> list[Loop]:
    """Return the loops in a ufunc's struct that C code can call, in the order of the struct.

    Raises
    ------
    structure.Unknown
        If the struct is not laid out as expected.
    """
    import numpy

    found = structure.fields(ufunc)
    count, nargs = ufunc.ntypes, ufunc.nargs
    if count and not (found.types and found.functions):
        raise structure.Unknown(f"the ufunc {ufunc.__name__!r} has types but no loops")
    numbers = ctypes.string_at(found.types or 0, count * nargs) if count else b""
    made = []
    for index, types in enumerate(ufunc.types):
        row = numbers[index * nargs : (index + 1) * nargs]
        letters = types.replace("->", "")
        own = [numpy.dtype(letter).num for letter in letters]
        if [*row] != own:
            raise structure.Unknown(
                f"the ufunc {ufunc.__name__!r} does not match the memory layout in NumPy's "
                f"headers: its loop {index} is {types}, but {[*row]} was found"
            )
        address = found.functions[index]
        if not address or any([letter in _NONE for letter in letters]):
            continue
        data = found.data[index] if found.data else None
        made.append(Loop(ufunc, types, address, data or 0))
    return made


def find(ufunc: numpy.ufunc, types: str) -> Loop:
    """Return the loop for types written as in `numpy.ufunc.types`.

    Raises
    ------
    SignatureError
        If C code cannot call such a loop; the message lists the loops that it can call.
    """
    letters = types.replace("->", "")
    if any([letter in "OSUV" for letter in letters]):
        what = "over Python objects" if "O" in letters else "of text or records"
        raise SignatureError(f"{ufunc.__name__!r} has no loop {types!r} for C code: it is {what}")
    known = loops(ufunc)
    for one in known:
        if one.types == types:
            return one
    there = dict.fromkeys([one.types for one in known])
    why = f"it has {', '.join(there)}" if there else _why_none(ufunc)
    raise SignatureError(f"{ufunc.__name__!r} has no loop {types!r} for C code; {why}")


def _why_none(ufunc: numpy.ufunc) -> str:
    if not ufunc.types:
        return (
            "all of its loops use NumPy's newer interface (ArrayMethod), for text or "
            "user-defined types"
        )
    if any(["O" in types for types in ufunc.types]):
        return (
            "it only has loops over Python objects, like those of numpy.frompyfunc; "
            "nativecall.callback makes C functions from Python functions"
        )
    if any([{*types} & {*_DATES} for types in ufunc.types]):
        return (
            "it only has loops over dates and times; nativecall.ufunc_loop() returns them, as "
            "functions of 64-bit counts"
        )
    return "it has none for numbers"


def scalars(ufunc: numpy.ufunc) -> dict[Signature, Loop]:
    """Return the first loop of a ufunc for each signature of a scalar entry.

    Loops of dates and times are left out, since their 64-bit counts would be mistaken for integers.

    Raises
    ------
    SignatureError
        If there are no such loops.
    """
    found: dict[Signature, Loop] = {}
    if ufunc.signature is None:
        for one in loops(ufunc):
            if not {*one.types} & {*_DATES}:
                found.setdefault(one.signature, one)
    if not found:
        why = f"it is generalised, {ufunc.signature}; nativecall.ufunc_loop() returns its loops"
        raise SignatureError(
            f"{ufunc.__name__!r} has no loop that is a C function of numbers: "
            f"{_why_none(ufunc) if ufunc.signature is None else why}"
        )
    return found


def entry(ufunc: numpy.ufunc, signature: Signature) -> NativeCallable:
    """Return the scalar entry with this signature; raise SignatureError if no loop has it."""
    known = scalars(ufunc)
    loop = known.get(signature)
    if loop is None:
        offered = ", ".join([repr(one.text) for one in known])
        raise SignatureError(
            f"{ufunc.__name__!r} has no loop that is {signature.text!r}; it has {offered}"
        )
    return scalar_entry(loop)


# -- callables -------------------------------------------------------------------------------------


def strided(loop: Loop) -> NativeCallable:
    """Return the strided entry: a loop's own C function, with `data` bound."""
    return _thunk(loop, parse(_BOUND), None)


def both(ufunc: numpy.ufunc, types: str) -> NativeCallable:
    """Implement `nativecall.ufunc_loop`."""
    loop = find(ufunc, types)
    whole = strided(loop)
    if ufunc.signature is not None:
        return whole
    try:
        one = scalar_entry(loop)
    except SignatureError:
        return whole  # the ABI does not support these types
    made = NativeCallable.__new__(NativeCallable)
    made._describe(ufunc.__name__, None)
    made._set_overloads((one, whole))
    return made


def scalar_entry(loop: Loop) -> NativeCallable:
    """Return the scalar entry: a loop as a C function of its elements.

    The loop must not be generalised.

    Raises
    ------
    SignatureError
        If the ABI does not support the loop's types.
    """
    return _thunk(loop, loop.signature, loop.operands)


_specs: Fifo[tuple[str, int], ThunkSpec] = Fifo()


def _thunk(loop: Loop, signature: Signature, operands: tuple[CType, ...] | None) -> NativeCallable:
    """Return a thunk that calls a loop for one element; as NumPy does if `operands` is None."""
    key = signature.text, loop.ufunc.nin
    spec = _specs.get(key)
    if spec is None:
        from .._codegen.conversions import thunk
        from .._plan.conversion import conversion

        code, lasts = thunk(conversion(_plan(signature, operands, loop.ufunc.nin)))
        spec = _ext.ThunkSpec(
            callinterface.of(parse(_SETTLED)),
            None,
            callinterface.of(signature, 0, DEFAULT if operands is None else loop.policies),
            0,
            1024,
            plans.HEADER + 2 * _WORD,
            ((3, plans.HEADER + _WORD), (4, plans.HEADER)),
            _Helper(operands, signature),
            code,
            lasts,
        )
        if lasts:
            _specs.put(key, spec)
    # The loop's own signature includes `data`.
    whole = plain(loop.address, callinterface.of(parse(_WHOLE)), loop.ufunc.__name__, loop)
    values = None, None, None, loop.data, _ext.code_symbols()["nc_symbols"]
    return _ext.make_thunk(whole, spec, values)


def _plan(signature: Signature, operands: tuple[CType, ...] | None, inputs: int) -> plans.Plan:
    """Plan the call of a loop for one element; as NumPy does if `operands` is None."""
    whole = parse(_WHOLE)
    given = [plans.Argument(index, arg) for index, arg in enumerate(signature.args)]
    arguments: list[plans.Node] = [*given]
    result: plans.Node | None = None
    if operands is not None:
        # Pass the strides of contiguous arrays, for which loops have fast paths.
        at: list[plans.Node] = [plans.Memory((one,), one.type) for one in given[:inputs]]
        at += given[inputs:]
        if signature.result.kind != "void":
            at.append(plans.OutSlot(signature.result))
            result = plans.OutValue(signature.result)
        steps = tuple([plans.Constant(one.size, _LENGTH) for one in operands])
        count = plans.Memory((plans.Constant(1, _LENGTH),), _LENGTH)
        arguments = [plans.Memory(tuple(at), VOIDPTR), count, plans.Memory(steps, _LENGTH)]
    arguments.append(plans.Bound(plans.HEADER + _WORD, whole.args[3]))
    none = CONVENTIONS["none"]
    return plans.Plan(signature, whole, tuple(arguments), result, none, none, 0, settles=True)


class _Helper(namedtuple("_Helper", ["operands", "signature"])):
    """Methods that the core calls for thunks of loops."""

    __slots__ = ()

    def pickled(self, thunk: Thunk, name: str) -> tuple[object, ...]:
        """Return a function and its arguments, with which `pickle` recreates the thunk."""
        found: Foreign = thunk.function._owners[-1]
        return _again, (found.ufunc, found.types, self.operands is None)

    def __repr__(self) -> str:
        return f"<a loop of a ufunc as {self.signature.text!r}>"


def _again(ufunc: numpy.ufunc, types: str, is_strided: bool) -> NativeCallable:
    return (strided if is_strided else scalar_entry)(find(ufunc, types))
