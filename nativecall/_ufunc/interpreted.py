"""Loops of ufuncs where no code can be generated: Python functions that call a native callable.

They do what generated loops do, element by element, with the conversions of a call from Python, and
hold the GIL. What the callable raises ends the loop, and is raised by the ufunc's call.
"""

from __future__ import annotations

import ctypes

from .. import _lib
from .._adapt.ufunc import Address, Length, Reference, Told, Value, Viewed
from .._callable import composed
from .._callback import Callback
from .._values import storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._adapt.ufunc import LoopPlan
    from .._callable.callable import NativeCallable
    from .._signature.ctype import CType
    from .._signature.signature import Signature
    from .._types import Foreign

#: A loop, with its pointers as numbers.
LOOP = "v:QQQQ"
_WORD = ctypes.sizeof(ctypes.c_void_p)


class _Memory:
    """Memory of an operand, as NumPy's arrays take it."""

    def __init__(self, at: int, type: CType, shape: list[int], steps: list[int]) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (at, False),
            "typestr": _typestr(type),
            "shape": tuple(shape),
            "strides": tuple(steps),
        }


def _typestr(type: CType) -> str:
    import numpy

    letters = {"Zf": "F", "Zd": "D", "Zg": "G"}
    return numpy.dtype(letters.get(type.text, type.text)).str


def loop(entry: NativeCallable, plan: LoopPlan) -> NativeCallable:
    """A loop's C function, as a native callable that keeps it."""
    given = [
        one
        for one in plan.arguments
        if not isinstance(one, Told) and (not isinstance(one, Address) or one.given is not None)
    ]
    outputs = [*enumerate(plan.operands)][len(plan.inputs) :]
    function: Foreign = entry
    if entry._entry()[0].policies.check is not None:
        function = composed.without(function, "check", owner=entry)
    if plan.core is not None and entry._entry()[0].policies.out:
        function = composed.without(function, "out", owner=entry)
    is_struct = plan.signature.result.kind == "struct" and len(plan.results) < len(outputs)

    def run(args: int, dimensions: int, steps: int, data: int) -> None:
        count = _word(dimensions, 0)
        for index in range(count):
            at = [_word(args, k) + index * _word(steps, k) for k in range(len(plan.operands))]
            if plan.core is not None:
                found = _generalised(function, plan, at, dimensions, steps)
                wanted = [(k, plan.operands[k]) for k, _ in plan.results]
            else:
                found = function(*[_value(plan, one, at) for one in given])
                wanted = outputs
                if is_struct:
                    found = (*found[0], *found[1:])
            if not wanted:
                continue
            if len(wanted) == 1:
                found = (found,)
            for (k, ctype), one in zip(wanted, found, strict=True):
                storage.store(ctype, one, at[k], f"output {k} of '{entry.__name__}'", [], False)

    made: NativeCallable = Callback(LOOP, run, name=f"{entry.__name__} as a loop")
    return made


def _word(address: int, index: int) -> int:
    return ctypes.c_ssize_t.from_address(address + index * _WORD).value


def _value(plan: LoopPlan, how: object, at: list[int]) -> object:
    """An element that Python passes."""
    assert isinstance(how, (Value, Reference, Address))
    operand = how.operand
    if isinstance(how, Address):
        assert how.given is not None
        operand = how.given
    return storage.load(plan.operands[operand], at[operand])


def _generalised(
    function: Foreign, plan: LoopPlan, at: list[int], dimensions: int, steps: int
) -> Foreign:
    """Call the function for one element of a generalised loop: what it returns."""
    import numpy

    assert plan.core is not None
    lengths = [_word(dimensions, 1 + one) for one in range(plan.dimensions)]
    values: list[Foreign] = []
    copies: list[tuple[Foreign, Foreign]] = []
    for how in plan.arguments:
        if isinstance(how, Length):
            values.append(lengths[how.dimension])
        elif isinstance(how, Value):
            values.append(storage.load(plan.operands[how.operand], at[how.operand]))
        elif not isinstance(how, Told):
            array = _array(plan, how.operand, at, lengths, steps)
            if isinstance(how, (Address, Viewed)) and how.given is not None:
                array[...] = _array(plan, how.given, at, lengths, steps)
            if isinstance(how, Viewed):
                values.append(array)
                continue
            dense: Foreign = numpy.ascontiguousarray(array).reshape(-1)
            if isinstance(how, Address) and how.is_output:
                copies.append((array, dense))
            values.append(dense)
    found = function(*values)
    for array, dense in copies:
        array[...] = dense.reshape(array.shape)
    return found


def _array(plan: LoopPlan, operand: int, at: list[int], lengths: list[int], steps: int) -> Foreign:
    """What an operand has for one element, as an array over its memory."""
    import numpy

    assert plan.core is not None
    first = plan.steps_of(operand)
    row = plan.core[operand]
    shape = [lengths[one] for one in row]
    strides = [_word(steps, first + axis) for axis in range(len(row))]
    return numpy.asarray(_Memory(at[operand], plan.operands[operand], shape, strides))


def scalar(
    signature: Signature,
    operands: tuple[CType, ...],
    inputs: int,
    target: int,
    data: int,
    name: str,
) -> NativeCallable:
    """A C function of numbers that calls the loop at `target` for one element (`scalarcode`)."""
    kind = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 4)
    loop = kind(target)
    count = len(operands)
    several = count - inputs > 1
    steps = (ctypes.c_ssize_t * count)(*[one.size for one in operands])
    one = ctypes.c_ssize_t(1)

    def run(*values: Foreign) -> object:
        room = ctypes.create_string_buffer(32 * count + 16)
        start = (ctypes.addressof(room) + 15) & ~15
        at = [start + 32 * index for index in range(count)]
        for index, value in enumerate(values):
            if index < inputs:
                storage.store(operands[index], value, at[index], f"input {index}", [], False)
            else:
                at[index] = int(_lib.ffi.cast("uintptr_t", value))
        loop((ctypes.c_void_p * count)(*at), ctypes.byref(one), steps, data)
        return None if several else storage.load(operands[-1], at[-1])

    made: NativeCallable = Callback(signature, run, name=name)
    return made


def strided(signature: Signature, target: int, data: int, name: str) -> NativeCallable:
    """The loop at `target` with its last argument bound."""
    loop = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 4)(target)

    def run(*values: Foreign) -> None:
        loop(*[int(_lib.ffi.cast("uintptr_t", value)) for value in values], data)

    made: NativeCallable = Callback(signature, run, name=name)
    return made
