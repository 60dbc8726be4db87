"""How one C signature becomes another: a plan, as plain values.

`convert` plans a function of the *wanted* signature that calls one of the function's *own*; `bind`
plans one that has some of its arguments already. `failure` is the exception for a value that did
not pass. There is no native code here: _codegen/thunk.py compiles a plan, _libffi/thunk.py
interprets it.

Single values, in any direction:

- a type stays as it is; `T *` and `void *` are one another; `char *` may have any sign
- an integer or a float becomes one of another type where every value fits, and else where this one
  does: in range, for an integer from a float without a fraction, for a float from an integer
  exactly. A float that becomes a smaller one is rounded, but never to an infinity.
- a real number becomes a complex one, never the reverse
- the wanted `T` becomes the own `T *`: a pointer to a copy, and what the function writes there is
  lost; the wanted `T *` becomes the own `T`: what it points to. `T` may change on the way.

Never does a pointer become one to something else, and none to const one to what may be written:
where a wanted declaration says const, that of the function must say so, too.

What the arguments are is tried in this order, and the first that fits is taken:

1. The result: it becomes the wanted one; or the function's last pointer argument is the result (its
   own being void, or a status); or the wanted last pointer argument takes the result (an integer
   beside an integer only as another one); or a result is made a status of another kind; or it is
   dropped where void is wanted.
2. A trailing `void *`, user data: where both have one, it is passed on; where one has, it is its
   counterpart if that is a pointer, or else the wanted one is dropped, or the function gets NULL.
3. The arguments: all types are equal; or both sides are an array and its length, in any order; or
   one side is an array, ``(int n, T *x)``, ``(T *x, int n)`` or ``(T *x)`` with any integer as n,
   and the other one as many numbers, all of one type, or pointers to a float each (to an integer
   might be that to n); or each becomes its counterpart. So ``d:dd`` and ``d:&d&d`` wanted as
   ``d:i&d`` take an array of two numbers. The same types in another order are no counterparts.

How failure shows (the error convention): it stays what it was where the wanted result can carry it,
is "nonzero" for an integer beside an argument that takes the result, and else "none", unless
`errors` names one. A status is a result "nonzero" or "zero"; it says nothing besides. Where the
wanted convention cannot tell C of a failure, C gets NaN, 0, NULL or zeros and Python an exception.

The function gets the arguments of a variadic one after those that it names, as C promotes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .. import _lib
from .._errors import SignatureError
from .._signature.ctype import (
    VOIDPTR,
    Array,
    CType,
    Pointer,
    Scalar,
    object_offsets,
    promoted,
    scalar,
)
from .._signature.signature import Signature
from .._values.failure import raise_failure

__all__ = [
    "Bound",
    "Check",
    "Constant",
    "Convert",
    "Given",
    "Load",
    "Memory",
    "Node",
    "Plan",
    "Result",
    "Room",
    "Step",
    "Written",
    "bind",
    "convert",
    "failure",
    "integer_range",
]

#: Bytes at the start of a thunk's data that bound values follow.
HEADER: Final = 3 * VOIDPTR.size

_NUMBERS = ("bool", "int", "float", "complex")
_POINTERS = ("voidptr", "pointer")
_STATUS = ("nonzero", "zero")
_CARRIED = _lib.FLAG_NEEDS_GIL | _lib.FLAG_TAKES_GIL | _lib.FLAG_RELEASE_GIL | _lib.FLAG_ERRNO


# -- plans ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Given:
    """Argument `index` of the wanted signature."""

    index: int
    type: CType


@dataclass(frozen=True, slots=True)
class Load:
    """What is `offset` bytes behind a pointer, which is not NULL."""

    pointer: Given
    offset: int
    type: CType


@dataclass(frozen=True, slots=True)
class Convert:
    """A number as another type; `step` says which check of it may fail, -1 none."""

    value: Node
    type: CType
    step: int


@dataclass(frozen=True, slots=True)
class Memory:
    """A pointer to fresh memory that holds values, one after the other; of `type` each."""

    values: tuple[Node, ...]
    type: CType


@dataclass(frozen=True, slots=True)
class Constant:
    """An integer; for a pointer NULL."""

    value: int
    type: CType


@dataclass(frozen=True, slots=True)
class Bound:
    """A value in the thunk's data."""

    offset: int
    type: CType


@dataclass(frozen=True, slots=True)
class Room:
    """A pointer to fresh memory, zeros, for the function to write a `type`."""

    type: CType


@dataclass(frozen=True, slots=True)
class Result:
    """What the function returned."""

    type: CType


@dataclass(frozen=True, slots=True)
class Written:
    """What the function wrote to the `Room`."""

    type: CType


Node = Given | Load | Convert | Memory | Constant | Bound | Room | Result | Written


@dataclass(frozen=True, slots=True)
class Check:
    """What must hold of a wanted argument before the call: not NULL, or equal to `count`."""

    index: int
    count: int | None
    step: int


@dataclass(frozen=True, slots=True)
class Step:
    """Something that may fail in a call, for messages.

    Attributes
    ----------
    kind : str
        ``"value"``, ``"null"``, ``"count"`` or ``"failure"``, that of the function itself.
    subject : str
        What the message is about; ``{}`` stands for the function's name.
    source, target : CType
        Of the value that did not pass, and what it should have become.
    count : int
        How many items there must be.
    """

    kind: str
    subject: str
    source: CType
    target: CType
    count: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """How a function of one signature calls one of another.

    Attributes
    ----------
    outer : Signature
        The wanted one.
    inner : Signature
        The function's own.
    arguments : tuple of Node
        The function's, those after its fixed ones included.
    checks : tuple of Check
        Made first, in this order.
    stores : tuple of (int, Node)
        After the call: where a wanted argument points to, and what goes there.
    result : Node or None
    before, after : str
        The error conventions of the function, and of the thunk.
    tested : int
        The step that is the function's own failure, where the call is tested for that; -1 for none.
    steps : tuple of Step
    flags : int
        Of the thunk's entry.
    size : int
        Bytes of the thunk's data.
    """

    outer: Signature
    inner: Signature
    arguments: tuple[Node, ...]
    checks: tuple[Check, ...]
    stores: tuple[tuple[int, Node], ...]
    result: Node | None
    before: str
    after: str
    tested: int
    steps: tuple[Step, ...]
    flags: int
    size: int = HEADER

    def follows_call(self, step: int) -> bool:
        """Whether a step is taken when the function has returned."""
        nodes = [self.result, *[node for _, node in self.stores]]
        return step == self.tested or any(
            [isinstance(node, Convert) and node.step == step for node in nodes]
        )

    @property
    def variadic(self) -> int | None:
        """The number of fixed arguments of a variadic function, None for others."""
        return len(self.inner.args) if self.inner.variadic else None


class _Refused(Exception):
    """Why a rule does not fit, and how far it went."""

    def __init__(self, reason: str, hint: str | None = None, progress: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.progress = progress


# -- single values -------------------------------------------------------------------------------


def integer_range(ctype: CType) -> tuple[int, int]:
    """The least and the greatest value of an integer or truth value."""
    if ctype.kind == "bool":
        return 0, 1
    assert isinstance(ctype, Scalar)
    bits = 8 * ctype.size
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if ctype.signed else (0, (1 << bits) - 1)


def _number(source: CType, target: CType) -> str:
    """How a number becomes another: ``"same"``, ``"widened"`` or ``"checked"``."""
    if source == target:
        return "same"
    if source.kind == "complex":
        if target.kind != "complex":
            raise _Refused(
                f"would lose the imaginary part of {source.text!r} as {target.text!r}",
                "take the complex number, or a pointer to it",
            )
        return "widened" if target.size > source.size else "checked"
    if target.kind in ("bool", "int"):
        if source.kind == "float":
            return "checked"
        low, high = integer_range(target)
        least, greatest = integer_range(source)
        return "widened" if low <= least and greatest <= high else "checked"
    assert isinstance(source, Scalar)
    assert isinstance(target, Scalar)
    return "widened" if source.digits <= target.digits else "checked"


def _pointee(ctype: CType) -> CType:
    """What a type that is known to be a pointer's points to."""
    assert isinstance(ctype, Pointer)
    return ctype.pointee


def _same_pointee(given: CType, wanted: CType) -> bool:
    """Whether a pointer to the one can stand for a pointer to the other."""
    if given == wanted or {given.text, wanted.text} == {"b", "B"}:
        return True
    return isinstance(given, Array) and _same_pointee(given.item, wanted)


def _same_pointer(given: CType, wanted: CType) -> bool:
    if given == wanted:
        return True
    if given.kind not in _POINTERS or wanted.kind not in _POINTERS:
        return False
    if not (isinstance(given, Pointer) and isinstance(wanted, Pointer)):
        return True
    return _same_pointee(given.pointee, wanted.pointee)


class _Broken(_Refused):
    """A promise of the wanted signature that the function's own does not make."""


class _Draft:
    """A plan in the making, or half of one that is given up."""

    def __init__(self, inner: Signature, outer: Signature) -> None:
        self.inner = inner
        self.outer = outer
        self.steps: list[Step] = []
        self.checks: list[Check] = []

    def step(self, kind: str, subject: str, source: CType, target: CType, count: int = 0) -> int:
        self.steps.append(Step(kind, subject, source, target, count))
        return len(self.steps) - 1

    def promised(self, node: Given, own: _Own) -> None:
        """Refuse to pass on what is const for the caller but not for the function."""
        shared = (*_POINTERS, "view")
        if self.outer.readonly[node.index] and not own.readonly and node.type.kind in shared:
            raise _Broken(
                "is const, but the function does not promise not to write to it",
                "leave const out, or declare it in the function's own signature",
            )

    def not_null(self, index: int) -> None:
        """Have a wanted pointer argument checked, once."""
        if any([check.index == index and check.count is None for check in self.checks]):
            return
        ctype = self.outer.args[index]
        self.checks.append(Check(index, None, self.step("null", _given(index), ctype, ctype)))

    def count(self, index: int, count: int) -> None:
        """Have a wanted argument checked to be a number of items."""
        ctype = self.outer.args[index]
        step = self.step("count", _given(index), ctype, ctype, count)
        self.checks.append(Check(index, count, step))

    def value(self, node: Node, target: CType, subject: str) -> Node:
        """A value as another type."""
        source = _type_of(node)
        if source.kind in _NUMBERS and target.kind in _NUMBERS:
            how = _number(source, target)
            if how == "same":
                return node
            if how == "widened":
                return Convert(node, target, -1)
            return Convert(node, target, self.step("value", subject, source, target))
        if source == target or _same_pointer(source, target):
            return node
        raise _Refused(_no_way(source, target), _advice(source, target))

    def argument(self, node: Given, own: _Own, subject: str) -> Node:
        """A wanted argument as one of the function's own."""
        source, target = node.type, own.type
        try:
            made = self.value(node, target, subject)
            if made is node:
                self.promised(node, own)
            return made
        except _Broken:
            raise
        except _Refused as refused:
            if isinstance(target, Pointer) and source.kind in (*_NUMBERS, "struct"):
                return Memory((self.value(node, target.pointee, subject),), target.pointee)
            if isinstance(target, Pointer) and target.pointee == source:
                # Of what a pointer to a pointer leads to no declaration promises anything.
                self.promised(node, _Own(source, False))
                return Memory((node,), source)
            by_reference = isinstance(source, Pointer) and target.kind in (*_NUMBERS, "struct")
            if not by_reference:
                raise refused
        assert isinstance(source, Pointer)
        loaded = self.value(Load(node, 0, source.pointee), target, subject)
        self.not_null(node.index)
        return loaded


def _type_of(node: Node) -> CType:
    return Pointer(node.type) if isinstance(node, (Memory, Room)) else node.type


@dataclass(frozen=True, slots=True)
class _Own:
    """An argument of the function."""

    type: CType
    readonly: bool  # whether the function promises not to write to what it points to


def _own_arguments(inner: Signature) -> list[_Own]:
    return [_Own(*one) for one in zip(inner.args, inner.readonly, strict=True)]


def _given(index: int) -> str:
    return f"argument {index + 1}"


def _no_way(source: CType, target: CType) -> str:
    if isinstance(source, Pointer) and isinstance(target, Pointer):
        return f"is {source.text!r}, which points to something else than {target.text!r}"
    return f"is {source.text!r}, which does not become {target.text!r}"


def _advice(source: CType, target: CType) -> str | None:
    if isinstance(source, Pointer) and isinstance(target, Pointer):
        return f"write {target.text!r}, or 'P' for a pointer to anything"
    if source.kind == "function" and target.kind == "function":
        return f"write {target.text!r}, and convert what is passed"
    return None


# -- arguments -----------------------------------------------------------------------------------


def _own(index: int) -> str:
    return f"argument {index + 1} of '{{}}'"


def _one_by_one(draft: _Draft, own: Sequence[_Own], given: Sequence[Given]) -> list[Node]:
    """Each wanted argument as its counterpart."""
    if len(own) != len(given):
        besides = ""
        if (len(own), len(given)) != (len(draft.inner.args), len(draft.outer.args)):
            besides = ", besides what is its result or user data"
        raise _Refused(
            f"it takes {_count(len(own), 'argument')}, not {len(given)}{besides}",
            "bind() fixes arguments; a trailing 'P' may be dropped or added",
            -1,
        )
    nodes = []
    for index, (target, node) in enumerate(zip(own, given, strict=True)):
        try:
            nodes.append(draft.argument(node, target, _own(index)))
        except _Refused as refused:
            raise _of_argument(node, refused, index) from None
    _refuse_another_order(own, given, nodes)
    return nodes


def _refuse_another_order(
    own: Sequence[_Own], given: Sequence[Given], nodes: Sequence[Node]
) -> None:
    """Refuse counterparts that are none: an array taken for a number, and a number for an array."""
    sent = [one for node in nodes if isinstance(node, Memory) for one in node.values]
    loaded = [node for node in nodes if isinstance(_source(node), Load)]
    if not sent or not loaded:
        return
    types = [one.type.text for one in own]
    same = sorted(types) == sorted([node.type.text for node in given])
    if same or (any(map(_changes_kind, sent)) and any(map(_changes_kind, loaded))):
        raise _Refused(
            f"its arguments are ({', '.join(types)}), pointers and numbers in another order",
            "wanted arguments must have the order of the function's own",
            _TOO_LONG,
        )


def _source(node: Node) -> Node:
    return node.value if isinstance(node, Convert) else node


def _changes_kind(node: Node) -> bool:
    """Whether a value becomes a float that was an integer, or the reverse."""
    kinds = {_type_of(one).kind in ("bool", "int") for one in (node, _source(node))}
    return len(kinds) > 1


def _of_argument(node: Given, refused: _Refused, progress: int) -> _Refused:
    """A reason with the wanted argument that it is about."""
    return _Refused(f"{_given(node.index)} {refused.reason}", refused.hint, progress)


def _exactly(draft: _Draft, own: Sequence[_Own], given: Sequence[Given]) -> list[Node]:
    """All types are equal."""
    if [one.type for one in own] != [node.type for node in given]:
        raise _Refused("", None, -2)
    return _one_by_one(draft, own, given)


_TOO_LONG = 1 << 20  # progress of what fits but for a length or for const


def _as_array(types: Sequence[CType]) -> tuple[int, int | None, CType]:
    """Which argument is the pointer, which the count, and the type of an element."""
    for at, n in ((0, None), (1, 0), (0, 1)):
        pointer = types[at] if len(types) == (1 if n is None else 2) else None
        if not isinstance(pointer, Pointer) or pointer.pointee.kind not in _NUMBERS:
            continue
        if n is None or types[n].kind == "int":
            return at, n, pointer.pointee
    raise _Refused("", None, -2)


def _numbers_alone(types: Sequence[CType]) -> CType:
    """The type that all are: numbers, or several pointers to a float or complex number each."""
    first = types[0] if types else VOIDPTR
    if first.kind in _NUMBERS:
        fits = True
    else:
        referred = isinstance(first, Pointer) and first.pointee.kind in ("float", "complex")
        fits = referred and len(types) > 1
    if not fits or any([one != first for one in types]):
        raise _Refused("", None, -2)
    return first


def _rearranged(draft: _Draft, own: Sequence[_Own], given: Sequence[Given]) -> list[Node]:
    """Both have an array and its length, each in an order of its own."""
    at, n, _ = _as_array([node.type for node in given])
    place, m, _ = _as_array([one.type for one in own])
    if n is None or m is None or at == place:
        raise _Refused("", None, -2)
    nodes: list[Node] = [given[0], given[0]]
    try:
        if not _same_pointer(given[at].type, own[place].type):
            raise _Refused(_no_way(given[at].type, own[place].type))
        draft.promised(given[at], own[place])
        nodes[place] = given[at]
        nodes[m] = draft.value(given[n], own[m].type, _own(m))
    except _Refused as refused:
        raise _of_argument(given[at], refused, _TOO_LONG) from None
    return nodes


def _unpacked(draft: _Draft, own: Sequence[_Own], given: Sequence[Given]) -> list[Node]:
    """The caller has an array, the function takes numbers, or pointers to them."""
    at, n, item = _as_array([node.type for node in given])
    number = _numbers_alone([one.type for one in own])
    if n is not None:
        if len(own) > integer_range(given[n].type)[1]:
            raise _Refused(f"argument {given[n].index + 1} cannot be {len(own)}", None, _TOO_LONG)
        draft.count(given[n].index, len(own))
    draft.not_null(given[at].index)
    target = number.pointee if isinstance(number, Pointer) else number
    items = [
        draft.value(Load(given[at], index * item.size, item), target, _own(index))
        for index in range(len(own))
    ]
    return items if target is number else [Memory((one,), target) for one in items]


def _packed(draft: _Draft, own: Sequence[_Own], given: Sequence[Given]) -> list[Node]:
    """The caller has numbers, or pointers to them, the function takes an array."""
    at, n, item = _as_array([one.type for one in own])
    number = _numbers_alone([node.type for node in given])
    numbers: Sequence[Node] = given
    if isinstance(number, Pointer):
        for node in given:
            draft.not_null(node.index)
        numbers = [Load(node, 0, number.pointee) for node in given]
    items = [
        draft.value(node, item, f"item {index + 1} of {_own(at)}")
        for index, node in enumerate(numbers)
    ]
    nodes: list[Node] = [Memory(tuple(items), item)]
    if n is not None:
        if len(given) > integer_range(own[n].type)[1]:
            raise _Refused(f"its argument {n + 1} cannot be {len(given)}", None, _TOO_LONG)
        nodes.insert(n, Constant(len(given), own[n].type))
    return nodes


_Arguments = Callable[[_Draft, Sequence[_Own], Sequence[Given]], "list[Node]"]
_ARGUMENTS: tuple[_Arguments, ...] = (_exactly, _rearranged, _unpacked, _packed, _one_by_one)


def _arguments(
    inner: Signature,
    outer: Signature,
    own: Sequence[_Own],
    given: Sequence[Given],
    paired: bool,
) -> tuple[_Draft, list[Node]]:
    """Nodes for the function's arguments `own` from the wanted ones, by the rules 2 and 3.

    With `paired` user data of both sides belongs together.
    """
    worst = _Refused("", None, -3)
    choices: list[tuple[Sequence[_Own], Sequence[Given], list[Node]]] = []
    ours = bool(own) and own[-1].type.kind == "voidptr"
    theirs = bool(given) and given[-1].type.kind == "voidptr"
    if ours and theirs and paired:
        choices.append((own[:-1], given[:-1], [given[-1]]))
    else:
        if not (ours and theirs):
            choices.append((own, given, []))
        if theirs:
            choices.append((own, given[:-1], []))
        if ours:
            choices.append((own[:-1], given, [Constant(0, VOIDPTR)]))
    for mine, wanted, after in choices:
        for rule in _ARGUMENTS:
            draft = _Draft(inner, outer)
            try:
                nodes = rule(draft, mine, wanted)
                if ours and theirs and paired:
                    _user_data(draft, own[-1], given[-1])
                return draft, nodes + after
            except _Refused as refused:
                # What is no array is told as what it is one by one.
                told = rule is _one_by_one or refused.progress >= _TOO_LONG
                if told and refused.progress > worst.progress:
                    worst = refused
    raise worst


def _user_data(draft: _Draft, own: _Own, given: Given) -> None:
    """See that user data may be passed on."""
    try:
        draft.promised(given, own)
    except _Refused as refused:
        raise _of_argument(given, refused, _TOO_LONG) from None


def _promoted(inner: Signature, outer: Signature) -> tuple[_Draft, list[Node]]:
    """Arguments for a variadic function: its own, and what follows as C promotes it."""
    given = [Given(index, arg) for index, arg in enumerate(outer.args)]
    fixed = len(inner.args)
    draft = _Draft(inner, outer)
    if len(given) < fixed:
        raise _Refused(f"it takes at least {_count(fixed, 'argument')}, not {len(given)}")
    nodes = _one_by_one(draft, _own_arguments(inner), given[:fixed])
    for node in given[fixed:]:
        wanted = promoted(node.type)
        nodes.append(node if wanted == node.type else Convert(node, wanted, -1))
    return draft, nodes


# -- results and failures ------------------------------------------------------------------------


@dataclass
class _Ending:
    """One way to have the wanted result: what becomes of the arguments, and of the result."""

    errors: str
    own: Sequence[_Own]
    given: Sequence[Given]
    room: CType | None = None  # of the function's last argument
    store: int | None = None  # the wanted argument that takes the result
    value: CType | None = None  # what becomes the result or is stored; None for nothing
    status: int | None = None  # the result after success, of a status


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _is_status(ctype: CType, errors: str) -> bool:
    return errors in _STATUS and ctype.kind in ("int", "bool")


def _success(errors: str) -> int:
    return int(errors == "zero")


def _endings(
    inner: Signature, before: str, outer: Signature, errors: str | None
) -> tuple[list[_Ending], _Refused | None]:
    """What rule 1 offers, in its order, and why it does not offer more."""
    own = _own_arguments(inner)
    given = [Given(index, arg) for index, arg in enumerate(outer.args)]
    result, wanted = inner.result, outer.result
    integral = wanted.kind in ("int", "bool")
    # A convention that needs nothing of the result stays without being asked for.
    kept = before if before in ("errno", "python") else "none"
    found: list[_Ending] = []
    refused: _Refused | None = None

    def otherwise(reason: str, hint: str | None = None) -> None:
        nonlocal refused
        refused = refused or _Refused(reason, hint)

    # The result becomes the wanted one.
    carried = {
        "nonzero": integral,
        "zero": integral,
        "null": wanted.kind in (*_POINTERS, "function", "object"),
    }.get(before, True)
    after = errors or (before if carried else "none")
    if result.kind == "void" or wanted.kind == "void":
        if result.kind == wanted.kind and after not in (*_STATUS, "null"):
            found.append(_Ending(after, own, given))
    elif before == "nonzero" and after != "nonzero":
        otherwise("its result is a status, no value")
    elif after in (*_STATUS, "null") and before in ("none", *_STATUS) and after != before:
        otherwise(
            f"its result does not say what errors={after!r} means",
            f"nativecall.wrap(f, errors={after!r}) says so of f itself",
        )
    elif after in _STATUS and after != before:
        otherwise("its result is no status")
    else:
        found.append(_Ending(after, own, given, value=result))
    user_data = [
        (mine, theirs)
        for mine in ((False, True) if own and own[-1].type.kind == "voidptr" else (False,))
        for theirs in ((False, True) if given and given[-1].type.kind == "voidptr" else (False,))
    ]
    # The function's last pointer argument is the result.
    if wanted.kind != "void":
        for mine, _ in sorted({(mine, False) for mine, _ in user_data}):
            place = len(own) - 1 - mine
            if place < 0 or not isinstance(own[place].type, Pointer) or own[place].readonly:
                continue
            after = errors or kept
            if result.kind != "void" and not _is_status(result, before):
                if result.kind == "int" and len(own) - 1 == len(given) and not inner.variadic:
                    otherwise(
                        f"its result {result.text!r} is a value of its own, no status",
                        "nativecall.wrap(f, errors='nonzero') says that it is one",
                    )
            elif after not in _STATUS and (after != "null" or wanted.kind in _POINTERS):
                pointee = _pointee(own[place].type)
                left = [*own[:place], *own[place + 1 :]]
                found.append(_Ending(after, left, given, room=pointee, value=pointee))
    # The wanted last pointer argument takes the result.
    if result.kind != "void" and before != "nonzero" and (wanted.kind == "void" or integral):
        for _, theirs in sorted({(False, theirs) for _, theirs in user_data}):
            place = len(given) - 1 - theirs
            if place < 0 or not isinstance(given[place].type, Pointer) or outer.readonly[place]:
                continue
            after = errors or ("nonzero" if integral else kept)
            if (after in _STATUS) != integral or after == "null":
                continue
            pointee = _pointee(given[place].type)
            numbers = ("int", "bool")
            if integral and result.kind in numbers and pointee.kind not in numbers:
                continue  # beside an integer, an integer is hardly the float for the pointer
            rest = [*given[:place], *given[place + 1 :]]
            status = _success(after) if integral else None
            found.append(_Ending(after, own, rest, store=place, value=result, status=status))
    # A status of another kind, also of nothing.
    if integral and errors in _STATUS and errors != before:
        if result.kind == "void" or (result.kind in ("int", "bool") and before != "none"):
            found.append(_Ending(errors, own, given, status=_success(errors)))
    elif integral and result.kind == "void":
        otherwise(
            "it returns nothing",
            "errors='nonzero' or errors='zero' makes the integer a status",
        )
    # Dropped.
    if wanted.kind == "void" and result.kind != "void":
        after = errors or kept
        if object_offsets(result):
            plural = "a reference" if result.kind == "object" else "references"
            otherwise(f"its result is {plural}, which would be lost")
        elif after not in (*_STATUS, "null"):
            found.append(_Ending(after, own, given))
    return found, refused


def _finish(draft: _Draft, nodes: list[Node], ending: _Ending, before: str, flags: int) -> Plan:
    """The plan of an ending whose arguments are there."""
    inner, outer, after = draft.inner, draft.outer, ending.errors
    stores: list[tuple[int, Node]] = []
    result: Node | None = None
    node: Node | None = None
    checked = False
    if ending.value is not None:
        node = Written(ending.value) if ending.room is not None else Result(ending.value)
        target = outer.result
        if ending.store is not None:
            target = _pointee(outer.args[ending.store])
        try:
            node = draft.value(node, target, "the result of '{}'")
        except _Refused as refused:
            raise _Refused(f"the result {refused.reason}", refused.hint) from None
        checked = isinstance(node, Convert) and node.step >= 0
    if ending.room is not None:
        place = len(inner.args) - 1
        while inner.args[place] != Pointer(ending.room):
            place -= 1
        nodes = [*nodes[:place], Room(ending.room), *nodes[place:]]
    if ending.store is not None:
        assert node is not None
        draft.not_null(ending.store)
        stores.append((ending.store, node))
    else:
        result = node
    if ending.status is not None:
        result = Constant(ending.status, outer.result)
    # A result that shows failure as before needs no look, unless it has to be made from one.
    shown = before == after and (
        before in ("errno", "python") or (result is not None and ending.status is None)
    )
    tested = -1
    if before != "none" and (not shown or checked or stores):
        shows = scalar("i") if before == "errno" else inner.result
        tested = draft.step("failure", "'{}'", shows, shows)
    flags = (flags & _CARRIED) | _lib.ERRORS[after]
    if after == "python" or (before == "python" and tested >= 0):
        if flags & _lib.FLAG_RELEASE_GIL:
            raise _Refused(
                "errors='python' needs the GIL, which callers of it drop (gil='release')"
            )
        flags |= _lib.FLAG_NEEDS_GIL
    return Plan(
        outer,
        inner,
        tuple(nodes),
        tuple(draft.checks),
        tuple(stores),
        result,
        before,
        after,
        tested,
        tuple(draft.steps),
        flags,
    )


def convert(
    name: str,
    inner: Signature,
    flags: int,
    outer: Signature,
    errors: str | None = None,
) -> Plan:
    """The plan by which a function of one signature is called as one of another.

    Parameters
    ----------
    name : str
        The function's, for messages.
    inner : Signature
        Its own.
    flags : int
        Of its entry.
    outer : Signature
        The wanted one.
    errors : str, optional
        The wanted error convention.

    Raises
    ------
    SignatureError
        When no rule fits; it says which argument does not, and what would work.
    """
    before = _convention(flags)
    try:
        if outer.variadic:
            raise _Refused("a variadic function cannot be generated", "leave '.' out")
        endings, refused = _endings(inner, before, outer, errors)
        for ending, paired in [(one, paired) for paired in (True, False) for one in endings]:
            try:
                if not inner.variadic:
                    draft, nodes = _arguments(inner, outer, ending.own, ending.given, paired)
                elif ending.room is not None or ending.store is not None:
                    continue
                else:
                    draft, nodes = _promoted(inner, outer)
                return _finish(draft, nodes, ending, before, flags)
            except _Refused as found:
                if refused is None or found.progress > refused.progress:
                    refused = found
        if refused is None:
            refused = _Refused(
                f"errors={errors!r} fits neither result"
                if errors
                else f"its result {inner.result.text!r} does not become {outer.result.text!r}"
            )
        raise refused
    except _Refused as last:
        raise SignatureError(
            f"cannot convert {name!r} from {inner.text!r} to {outer.text!r}: {last.reason}",
            hint=last.hint,
        ) from None


def _convention(flags: int) -> str:
    for convention, bits in _lib.ERRORS.items():
        if flags & _lib.ERRORS_MASK == bits:
            return convention
    raise ValueError(f"flags {flags:#x} have an unknown error convention")


def bind(inner: Signature, flags: int, bound: Sequence[bool]) -> Plan:
    """The plan of a function of the arguments that are not `bound`, which are in its data."""
    nodes: list[Node] = []
    left: list[int] = []
    offset = HEADER
    for index, (arg, fixed) in enumerate(zip(inner.args, bound, strict=True)):
        if fixed:
            offset = -(-offset // arg.alignment) * arg.alignment
            nodes.append(Bound(offset, arg))
            offset += arg.size
        else:
            nodes.append(Given(len(left), arg))
            left.append(index)
    outer = Signature(
        inner.result,
        [inner.args[index] for index in left],
        names=[inner.names[index] for index in left],
        readonly=[inner.readonly[index] for index in left],
    )
    result = None if inner.result.kind == "void" else Result(inner.result)
    errors = _convention(flags)
    return Plan(outer, inner, tuple(nodes), (), (), result, errors, errors, -1, (), flags, offset)


# -- messages ------------------------------------------------------------------------------------

_FLOAT_RANGES = {
    "e": "-65504 to 65504",
    "f": "-3.4028235e+38 to 3.4028235e+38",
    "d": "-1.7976931348623157e+308 to 1.7976931348623157e+308",
}


def failure(plan: Plan, step: int, name: str, value: Any) -> BaseException:
    """The exception for a step that failed.

    Parameters
    ----------
    plan : Plan
    step : int
    name : str
        The function's.
    value : object
        What did not pass: a number, the count; errno for a function that sets that, else what it
        returned.
    """
    one = plan.steps[step]
    subject = one.subject.format(name)
    if one.kind == "null":
        return ValueError(f"{subject} of {plan.outer.text!r} is NULL, but '{name}' needs it")
    if one.kind == "count":
        return ValueError(
            f"{subject} of {plan.outer.text!r} is {value}, but '{name}' has {one.count} items"
        )
    if one.kind == "failure":
        try:
            raise_failure(
                name,
                _lib.ERRORS[plan.before],
                None if plan.before in ("null", "errno") else value,
                value if plan.before == "errno" else 0,
            )
        except Exception as error:
            return error
        return SystemError(f"'{name}' failed without saying how")
    return _unfit(subject, one.source, one.target, value)


def _unfit(subject: str, source: CType, target: CType, value: Any) -> BaseException:
    """The exception for a number that is none of the wanted type."""
    code = target.text
    if target.kind in ("bool", "int"):
        if source.kind == "float" and not (math.isinf(value) or float(value).is_integer()):
            return ValueError(f"{subject} is {value!r}, not an integer")
        low, high = integer_range(target)
        return OverflowError(f"{subject} is {value}, out of range for '{code}' ({low} to {high})")
    part = code.removeprefix("Z")
    if source.kind in ("bool", "int"):
        if part != "e" or abs(value) <= 65504:
            return OverflowError(f"{subject} is {value}, which '{part}' does not hold exactly")
        return OverflowError(f"{subject} is out of range for 'e' ({_FLOAT_RANGES['e']})")
    return OverflowError(f"{subject} is out of range for '{part}' ({_FLOAT_RANGES[part]})")
