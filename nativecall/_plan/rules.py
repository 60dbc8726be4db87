"""The rules by which one C signature becomes another.

`convert` plans a function of the *wanted* signature that calls one of the function's *own*; `bind`
plans one that has some of its arguments already. What a plan is stands in nodes.py. A `Draft`
collects its steps and checks; what cannot be is `Refused`. A draft that is given up costs nothing:
the next rule begins with a new one.

What the arguments are is tried in this order, and the first that fits is taken:

1. The result: it becomes the wanted one; or the function's last pointer argument is the result (its
   own being void, or a status); or the wanted last pointer argument takes the result (an integer
   beside an integer only as another one); or a result is made a status of another kind; or it is
   dropped where void is wanted.
2. A trailing `void *`, user data: where both have one, it is passed on; where one has, it is its
   counterpart if that is a pointer, or else the wanted one is dropped, or the function gets NULL.
3. The arguments: an array and its length are a view of the function's
   (``(T *x, n)`` or ``(n, T *x)`` for ``[1]T``); or both sides are an array and its length, in any
   order; or one side is an array, ``(int n, T *x)``, ``(T *x, int n)`` or ``(T *x)`` with any
   integer as n, and the other one as many numbers, all of one type, or pointers to a float each (to
   an integer might be that to n); or each becomes its counterpart. So ``d:dd`` and ``d:&d&d``
   wanted as ``d:i&d`` take an array of two numbers. The same types in another order are no
   counterparts.

How failure shows (the error convention): it is what it was where the wanted result can show it,
is "nonzero" for an integer beside an argument that takes the result, and else "none", unless
`errors` names one. A status is an integer that a convention needs, as "nonzero" and "zero" do; one
of "nonzero" has no other meaning. With "argument" a signature's last one is apart from the rules
above: where both sides have it, it is passed on, else the thunk has an int of its own, or writes
errno or 1 to the caller's. Where the wanted convention cannot tell C of a failure, C gets NaN, 0,
NULL or zeros and Python an exception.

The function gets the arguments of a variadic one after those that it names, as C promotes them.

Single values, in any direction:

- a type stays as it is; `T *` and `void *` are one another; `char *` may have any sign
- a wanted argument `void *` becomes the own `PyObject *`, since the function says that user data
  is one (`nativecall.handle`); where no objects are wanted, the GIL is taken around the call
- an integer or a float becomes one of another type where every value fits, and else where this one
  does: in range, for an integer from a float without a fraction, for a float from an integer
  exactly. A float that becomes a smaller one is rounded, but never to an infinity.
- a real number becomes a complex one, never the reverse
- the wanted `T` becomes the own `T *`: a pointer to a copy, and what the function writes there is
  lost; the wanted `T *` becomes the own `T`: what it points to. `T` may change on the way.

A pointer never becomes one to something else, and one to const never becomes one to what may be
written: where a wanted declaration says const, that of the function must say so, too.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence

from .. import _lib
from .._cdecl.spelling import both, reason_in_c
from .._errors import SignatureError
from .._types.agreement import suits
from .._types.ctype import VOIDPTR, CType, Scalar, integer_range, promoted, scalar
from .._types.derived import Pointer, Struct, View, object_offsets
from .._types.signature import Signature
from .._values.failure import CONVENTIONS, Convention, convention
from .messages import advice, counted, given_text, no_way, own_text
from .nodes import (
    HEADER,
    Argument,
    Bound,
    Constant,
    Convert,
    ErrorOut,
    Load,
    Memory,
    Node,
    OutSlot,
    OutValue,
    Plan,
    Result,
    Step,
    type_of,
)

POINTERS = ("voidptr", "pointer")
_KEPT = _lib.FLAG_NEEDS_GIL | _lib.FLAG_TAKES_GIL | _lib.FLAG_RELEASE_GIL | _lib.FLAG_ERRNO


# -- single values ------------------------------------------------------------------------------


class Refused(Exception):
    """Why a rule does not fit, and how far it went."""

    def __init__(self, reason: str, hint: str | None = None, progress: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.progress = progress


def _number(source: Scalar, target: Scalar) -> str:
    """How a number becomes another: ``"same"``, ``"widened"``, or checked by one of two rules.

    ``"exact"`` and ``"rounded"`` are those of `Convert`, which code is written by and
    the core carries out.
    """
    if source == target:
        return "same"
    if source.kind == "complex":
        if target.kind != "complex":
            raise Refused(
                f"would lose the imaginary part of {source.text!r} as {target.text!r}",
                "take the complex number, or a pointer to it",
            )
        return "widened" if target.size > source.size else "rounded"
    if target.kind in ("bool", "int"):
        if source.kind == "float":
            return "exact"
        low, high = integer_range(target)
        least, greatest = integer_range(source)
        return "widened" if low <= least and greatest <= high else "exact"
    if source.digits <= target.digits and source.exponent <= target.exponent:
        return "widened"
    return "rounded" if source.kind == "float" else "exact"


def pointee_of(ctype: CType) -> CType:
    """What a type that is known to be a pointer's points to."""
    assert isinstance(ctype, Pointer)
    return ctype.pointee


def same_pointer(given: CType, wanted: CType) -> bool:
    if given == wanted:
        return True
    if given.kind not in POINTERS or wanted.kind not in POINTERS:
        return False
    if not (isinstance(given, Pointer) and isinstance(wanted, Pointer)):
        return True
    return suits(given.pointee, wanted.pointee)


class Draft:
    """A plan in the making, or half of one that is given up."""

    def __init__(self, inner: Signature, outer: Signature) -> None:
        self.inner = inner
        self.outer = outer
        self.steps: list[Step] = []
        self.checks: list[tuple[int, int]] = []

    def step(self, kind: str, subject: str, source: CType, target: CType, count: int = 0) -> int:
        self.steps.append(Step(kind, subject, source, target, count))
        return len(self.steps) - 1

    def promised(self, node: Argument, own: Own) -> None:
        """Refuse to pass on what is const for the caller but not for the function."""
        shared = (*POINTERS, "view")
        if self.outer.readonly[node.index] and not own.readonly and node.type.kind in shared:
            raise Refused(
                "is const, but the function does not promise not to write to it",
                "leave const out, or declare it in the function's own signature",
            )

    def check(self, index: int, kind: str, count: int = 0) -> None:
        """Have a wanted argument checked, once: not to be NULL, or to be a number of items."""
        if all([(at, self.steps[step].kind) != (index, kind) for at, step in self.checks]):
            ctype = self.outer.args[index]
            step = self.step(kind, given_text(index), ctype, ctype, count)
            self.checks.append((index, step))

    def value(self, node: Node, target: CType, subject: str) -> Node:
        """A value as another type."""
        source = type_of(node)
        if isinstance(source, Scalar) and isinstance(target, Scalar):
            how = _number(source, target)
            if how == "same":
                return node
            step = -1 if how == "widened" else self.step("value", subject, source, target)
            return Convert(node, target, step, how == "exact")
        if source == target or same_pointer(source, target):
            return node
        raise Refused(no_way(source, target), advice(source, target))

    def argument(self, node: Argument, own: Own, subject: str) -> Node:
        """A wanted argument as one of the function's own."""
        source, target = node.type, own.type
        if source == VOIDPTR and target.kind == "object":
            return node  # user data that is a `nativecall.handle`
        try:
            made = self.value(node, target, subject)
        except Refused:
            if isinstance(target, Pointer) and isinstance(source, (Scalar, Struct)):
                return Memory((self.value(node, target.pointee, subject),), target.pointee)
            if isinstance(target, Pointer) and target.pointee == source:
                # Of what a pointer to a pointer leads to no declaration promises anything.
                self.promised(node, Own(source, False))
                return Memory((node,), source)
            by_reference = isinstance(source, Pointer) and isinstance(target, (Scalar, Struct))
            if not by_reference:
                raise
        else:
            if made is node:
                self.promised(node, own)
            return made
        assert isinstance(source, Pointer)
        loaded = self.value(Load(node, 0, source.pointee), target, subject)
        self.check(node.index, "null")
        return loaded


def losses(inner: Signature, outer: Signature) -> tuple[int, int]:
    """How many numbers are not sure to stay what they are where a function of the signature `inner`
    is called as one of `outer`, and by how many binary digits these are cut; numbers of other
    types, and of another place, count as lost.
    """
    pairs = [(inner.result, outer.result)]
    pairs += [(given, own) for own, given in zip(inner.args, outer.args, strict=False)]
    lost = [one for one in pairs if not _holds(one[1], one[0])]
    cut = [
        max(0, source.digits - target.digits)
        for source, target in lost
        if isinstance(source, Scalar) and isinstance(target, Scalar)
    ]
    return abs(len(inner.args) - len(outer.args)) + len(lost), sum(cut)


def _holds(target: CType, source: CType) -> bool:
    """Whether one type has every value of another."""
    if not isinstance(target, Scalar) or not isinstance(source, Scalar):
        return target == source
    try:
        return _number(source, target) in ("same", "widened")
    except Refused:
        return False


class Own(namedtuple("Own", ["type", "readonly"])):
    """An argument of the function."""

    __slots__ = ()
    type: CType
    readonly: bool  # whether the function promises not to write to what it points to


def own_arguments(inner: Signature) -> list[Own]:
    return [Own(*one) for one in zip(inner.args, inner.readonly, strict=True)]


def of_argument(node: Argument, refused: Refused, progress: int) -> Refused:
    """A reason with the wanted argument that it is about."""
    return Refused(f"{given_text(node.index)} {refused.reason}", refused.hint, progress)


# -- arguments -----------------------------------------------------------------------------------


def _one_by_one(draft: Draft, own: Sequence[Own], given: Sequence[Argument]) -> list[Node]:
    """Each wanted argument as its counterpart."""
    if len(own) != len(given):
        besides = ""
        if (len(own), len(given)) != (len(draft.inner.args), len(draft.outer.args)):
            besides = ", besides what is its result or user data"
        raise Refused(
            f"it takes {counted(len(own), 'argument')}, not {len(given)}{besides}",
            "bind() fixes arguments; a trailing 'void *' may be dropped or added",
            -1,
        )
    nodes = []
    for index, (target, node) in enumerate(zip(own, given, strict=True)):
        try:
            nodes.append(draft.argument(node, target, own_text(index)))
        except Refused as refused:
            raise of_argument(node, refused, index) from None
    _refuse_another_order(own, given, nodes)
    return nodes


def _refuse_another_order(
    own: Sequence[Own], given: Sequence[Argument], nodes: Sequence[Node]
) -> None:
    """Refuse counterparts that are none: an array taken for a number, and a number for an array."""
    sent = [one for node in nodes if isinstance(node, Memory) for one in node.values]
    loaded = [node for node in nodes if isinstance(_source(node), Load)]
    if not sent or not loaded:
        return
    types = [one.type.text for one in own]
    same = sorted(types) == sorted([node.type.text for node in given])
    if same or (any(map(_changes_kind, sent)) and any(map(_changes_kind, loaded))):
        raise Refused(
            f"its arguments are ({', '.join(types)}), pointers and numbers in another order",
            "wanted arguments must have the order of the function's own",
            _TOO_LONG,
        )


def _source(node: Node) -> Node:
    return node.value if isinstance(node, Convert) else node


def _changes_kind(node: Node) -> bool:
    """Whether a value becomes a float that was an integer, or the reverse."""
    kinds = {type_of(one).kind in ("bool", "int") for one in (node, _source(node))}
    return len(kinds) > 1


_TOO_LONG = 1 << 20  # progress of what fits but for a length or for const


def _as_array(types: Sequence[CType]) -> tuple[int, int | None, CType]:
    """Which argument is the pointer, which the count, and the type of an element."""
    for at, n in ((0, None), (1, 0), (0, 1)):
        pointer = types[at] if len(types) == (1 if n is None else 2) else None
        if not isinstance(pointer, Pointer) or not isinstance(pointer.pointee, Scalar):
            continue
        if n is None or types[n].kind == "int":
            return at, n, pointer.pointee
    raise Refused("", None, -2)


def _numbers_alone(types: Sequence[CType]) -> CType:
    """The type that all are: numbers, or several pointers to a float or complex number each."""
    first = types[0] if types else VOIDPTR
    fits = isinstance(first, Scalar)
    if isinstance(first, Pointer) and len(types) > 1:
        fits = first.pointee.kind in ("float", "complex")
    if not fits or any([one != first for one in types]):
        raise Refused("", None, -2)
    return first


def _rearranged(draft: Draft, own: Sequence[Own], given: Sequence[Argument]) -> list[Node]:
    """Both have an array and its length, each in an order of its own."""
    at, n, _ = _as_array([node.type for node in given])
    place, m, _ = _as_array([one.type for one in own])
    if n is None or m is None or at == place:
        raise Refused("", None, -2)
    nodes: list[Node] = [given[0], given[0]]
    try:
        if not same_pointer(given[at].type, own[place].type):
            raise Refused(no_way(given[at].type, own[place].type))
        draft.promised(given[at], own[place])
        nodes[place] = given[at]
        nodes[m] = draft.value(given[n], own[m].type, own_text(m))
    except Refused as refused:
        raise of_argument(given[at], refused, _TOO_LONG) from None
    return nodes


def _unpacked(draft: Draft, own: Sequence[Own], given: Sequence[Argument]) -> list[Node]:
    """The caller has an array, the function takes numbers, or pointers to them."""
    at, n, item = _as_array([node.type for node in given])
    number = _numbers_alone([one.type for one in own])
    if n is not None:
        if len(own) > integer_range(given[n].type)[1]:
            raise Refused(f"argument {given[n].index + 1} cannot be {len(own)}", None, _TOO_LONG)
        draft.check(given[n].index, "count", len(own))
    draft.check(given[at].index, "null")
    target = number.pointee if isinstance(number, Pointer) else number
    items = [
        draft.value(Load(given[at], index * item.size, item), target, own_text(index))
        for index in range(len(own))
    ]
    return items if target is number else [Memory((one,), target) for one in items]


def _packed(draft: Draft, own: Sequence[Own], given: Sequence[Argument]) -> list[Node]:
    """The caller has numbers, or pointers to them, the function takes an array."""
    at, n, item = _as_array([one.type for one in own])
    number = _numbers_alone([node.type for node in given])
    numbers: Sequence[Node] = given
    if isinstance(number, Pointer):
        for node in given:
            draft.check(node.index, "null")
        numbers = [Load(node, 0, number.pointee) for node in given]
    items = [
        draft.value(node, item, f"item {index + 1} of {own_text(at)}")
        for index, node in enumerate(numbers)
    ]
    nodes: list[Node] = [Memory(tuple(items), item)]
    if n is not None:
        if len(given) > integer_range(own[n].type)[1]:
            raise Refused(f"its argument {n + 1} cannot be {len(given)}", None, _TOO_LONG)
        nodes.insert(n, Constant(len(given), own[n].type))
    return nodes


_LENGTH = scalar("q")  # of intptr_t


def _viewed(draft: Draft, own: Sequence[Own], given: Sequence[Argument]) -> list[Node]:
    """Nodes for the function's arguments; `Refused` where this is not what they are."""
    if not any([_is_vector(one) for one in own]):
        raise Refused("", None, -2)
    nodes: list[Node] = []
    rest = [*given]
    for index, one in enumerate(own):
        if _is_vector(one):
            nodes.append(_descriptor(draft, one, rest[:2], index))
            del rest[:2]
        elif rest:
            nodes.append(draft.argument(rest.pop(0), one, own_text(index)))
        else:
            raise Refused("", None, -2)
    if rest:
        raise Refused("", None, -2)
    return nodes


def _is_vector(own: Own) -> bool:
    return isinstance(own.type, View) and own.type.ndim == 1


def _descriptor(draft: Draft, own: Own, pair: Sequence[Argument], index: int) -> Node:
    """A pointer to the view's descriptor."""
    assert isinstance(own.type, View)
    item = own.type.item
    wanted = Pointer(item)
    for at, n in ((0, 1), (1, 0)):
        if len(pair) == 2 and pair[at].type == wanted and pair[n].type.kind == "int":
            try:
                draft.promised(pair[at], own)
                length = draft.value(pair[n], _LENGTH, own_text(index))
            except Refused as refused:
                raise of_argument(pair[at], refused, 0) from None
            return Memory((pair[at], length, Constant(item.size, _LENGTH)), _LENGTH)
    raise Refused("", None, -2)


_Arguments = Callable[[Draft, Sequence[Own], Sequence[Argument]], "list[Node]"]
_ARGUMENTS: tuple[_Arguments, ...] = (
    _viewed,
    _rearranged,
    _unpacked,
    _packed,
    _one_by_one,
)


def _arguments(
    inner: Signature,
    outer: Signature,
    own: Sequence[Own],
    given: Sequence[Argument],
    paired: bool,
) -> tuple[Draft, list[Node]]:
    """Nodes for the function's arguments `own` from the wanted ones, by the rules 2 and 3.

    With `paired` user data of both sides belongs together.
    """
    worst = Refused("", None, -3)
    choices: list[tuple[Sequence[Own], Sequence[Argument], list[Node]]] = []
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
            draft = Draft(inner, outer)
            try:
                nodes = rule(draft, mine, wanted)
                if ours and theirs and paired:
                    _user_data(draft, own[-1], given[-1])
                return draft, nodes + after
            except Refused as refused:
                # What is no array is told as what it is one by one.
                told = rule is _one_by_one or refused.progress >= _TOO_LONG
                if told and refused.progress > worst.progress:
                    worst = refused
    raise worst


def _user_data(draft: Draft, own: Own, given: Argument) -> None:
    """See that user data may be passed on."""
    try:
        draft.promised(given, own)
    except Refused as refused:
        raise of_argument(given, refused, _TOO_LONG) from None


def _promoted(
    inner: Signature, outer: Signature, given: Sequence[Argument]
) -> tuple[Draft, list[Node]]:
    """Arguments for a variadic function: its own, and what follows as C promotes it."""
    fixed = len(inner.args)
    draft = Draft(inner, outer)
    if len(given) < fixed:
        raise Refused(f"it takes at least {counted(fixed, 'argument')}, not {len(given)}")
    nodes = _one_by_one(draft, own_arguments(inner), given[:fixed])
    for node in given[fixed:]:
        wanted = promoted(node.type)
        nodes.append(node if wanted == node.type else Convert(node, wanted, -1))
    return draft, nodes


# -- results and failures ------------------------------------------------------------------------


class _Ending(
    namedtuple(
        "_Ending",
        "errors own given room store value status",
        defaults=(None, None, None, None),
    )
):
    """One way to have the wanted result: what becomes of the arguments, and of the result."""

    __slots__ = ()
    errors: Convention
    own: Sequence[Own]
    given: Sequence[Argument]
    room: int | None  # the function's argument that points to the result
    store: int | None  # the wanted argument that takes the result
    value: CType | None  # what becomes the result or is stored; None for nothing
    status: int | None  # the result after success, of a status


def _last_pointers(args: Sequence[Own] | Sequence[Argument], readonly: Sequence[bool]) -> list[int]:
    """Which arguments may be the last pointer to a result: the last, or that before user data."""
    has_user_data = bool(args) and args[-1].type.kind == "voidptr"
    places = range(len(args) - 1, max(len(args) - 2 - has_user_data, -1), -1)
    return [at for at in places if isinstance(args[at].type, Pointer) and not readonly[at]]


def _endings(
    inner: Signature, before: Convention, outer: Signature, errors: Convention | None
) -> tuple[list[_Ending], Refused | None]:
    """What rule 1 offers, in its order, and why it does not offer more."""
    none = CONVENTIONS["none"]
    known = before  # what the wanted function has where nothing else is asked for
    if before.hidden and errors is None:
        errors, known = (before, before) if before.fits(outer) else (None, none)
    own = before.passed(own_arguments(inner))
    given = [Argument(index, arg) for index, arg in enumerate(outer.args)]
    if errors:
        given = errors.passed(given)
    result, wanted = inner.result, outer.result
    integral = wanted.kind in ("int", "bool")
    # A convention that needs nothing of the result is kept without being asked for.
    kept = known if known.needs == "any" else none
    found: list[_Ending] = []
    refused: Refused | None = None

    def otherwise(reason: str, hint: str | None = None) -> None:
        nonlocal refused
        refused = refused or Refused(reason, hint)

    if errors and errors.hidden and before == none and errors.fits(inner):
        otherwise(
            "its last argument does not say whether it failed",
            f"nativecall.wrap(f, errors={errors.name!r}) says that it does",
        )
    # The result becomes the wanted one.
    after = errors or (known if known.suits(wanted) else none)
    if result.kind == "void" or wanted.kind == "void":
        if result.kind == wanted.kind and after.needs == "any":
            found.append(_Ending(after, own, given))
    elif before.is_status and after != before:
        otherwise("its result is a status, no value")
    elif after.needs != "any" and (before == none or before.needs == "integer") and after != before:
        otherwise(
            f"its result does not say what errors={after.name!r} means",
            f"nativecall.wrap(f, errors={after.name!r}) says so of f itself",
        )
    elif after.needs == "integer" and after != before:
        otherwise("its result is no status")
    else:
        found.append(_Ending(after, own, given, value=result))
    # The function's last pointer argument is the result.
    if wanted.kind != "void":
        for place in _last_pointers(own, [one.readonly for one in own]):
            after = errors or kept
            if result.kind != "void" and before.needs != "integer":
                if result.kind == "int" and len(own) - 1 == len(given) and not inner.variadic:
                    otherwise(
                        f"its result {result.text!r} is a value of its own, no status",
                        "nativecall.wrap(f, errors='nonzero') says that it is one",
                    )
            elif after.needs == "any" or (after.needs == "pointer" and wanted.kind in POINTERS):
                left = [*own[:place], *own[place + 1 :]]
                pointee = pointee_of(own[place].type)
                found.append(_Ending(after, left, given, room=place, value=pointee))
    # The wanted last pointer argument takes the result.
    if result.kind != "void" and not before.is_status and (wanted.kind == "void" or integral):
        for place in _last_pointers(given, outer.readonly):
            after = errors or (CONVENTIONS["nonzero"] if integral else kept)
            if after.needs != ("integer" if integral else "any"):
                continue
            pointee = pointee_of(given[place].type)
            numbers = ("int", "bool")
            if integral and result.kind in numbers and pointee.kind not in numbers:
                continue  # beside an integer, an integer is hardly the float for the pointer
            rest = [*given[:place], *given[place + 1 :]]
            status = after.success if integral else None
            found.append(_Ending(after, own, rest, store=place, value=result, status=status))
    # A status of another kind, also of nothing.
    if integral and errors and errors.needs == "integer" and errors != before:
        if result.kind == "void" or (result.kind in ("int", "bool") and before != none):
            found.append(_Ending(errors, own, given, status=errors.success))
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
        elif after.needs == "any":
            found.append(_Ending(after, own, given))
    return found, refused


def _finish(draft: Draft, nodes: list[Node], ending: _Ending, flags: int) -> Plan:
    """The plan of an ending whose arguments are there."""
    inner, outer = draft.inner, draft.outer
    before, after = convention(flags), ending.errors
    stores: list[tuple[int, Node]] = []
    result: Node | None = None
    node: Node | None = None
    checked = False
    if ending.value is not None:
        node = OutValue(ending.value) if ending.room is not None else Result(ending.value)
        target = outer.result
        if ending.store is not None:
            target = pointee_of(outer.args[ending.store])
        try:
            node = draft.value(node, target, "the result of '{}'")
        except Refused as refused:
            raise Refused(f"the result {refused.reason}", refused.hint) from None
        checked = isinstance(node, Convert) and node.step >= 0
    if ending.room is not None:
        nodes = [*nodes[: ending.room], OutSlot(ending.value), *nodes[ending.room :]]
    if before.hidden:
        last = len(outer.args) - 1
        told = Argument(last, outer.args[last]) if after.hidden else ErrorOut(scalar("i"))
        nodes = [*nodes, told]
    if ending.store is not None:
        assert node is not None
        draft.check(ending.store, "null")
        stores.append((ending.store, node))
    else:
        result = node
    if ending.status is not None:
        result = Constant(ending.status, outer.result)
    # A result that shows failure as before needs no look, unless it has to be made from one.
    shown = before == after and (
        before.needs == "any" or (result is not None and ending.status is None)
    )
    tested = -1
    if before.shown_by != "nothing" and (not shown or checked or stores):
        shows = scalar("i") if before.is_code else inner.result
        tested = draft.step("failure", "'{}'", shows, shows)
    flags = (flags & _KEPT) | after.flags
    if after.needs_gil or (before.needs_gil and tested >= 0):
        if flags & _lib.FLAG_RELEASE_GIL:
            what = after if after.needs_gil else before
            raise Refused(
                f"errors={what.name!r} needs the GIL, which callers of it drop (gil='release')"
            )
        flags |= _lib.FLAG_NEEDS_GIL
    checks, steps = tuple(draft.checks), tuple(draft.steps)
    plan = Plan(outer, inner, tuple(nodes), result, before, after, flags)
    return plan._replace(checks=checks, stores=tuple(stores), tested=tested, steps=steps)


def convert(
    name: str,
    inner: Signature,
    flags: int,
    outer: Signature,
    errors: str | None = None,
) -> Plan:
    """The plan by which a function of the signature `inner`, whose entry has `flags`, is called as
    one of the wanted signature `outer`, with the wanted error convention.

    SignatureError when no rule fits; it says which argument does not, and what would work.
    """
    before = convention(flags)
    wanted = None if errors is None else CONVENTIONS[errors]
    try:
        if outer.variadic:
            raise Refused("a variadic function cannot be generated", "leave '.' out")
        endings, refused = _endings(inner, before, outer, wanted)
        for ending, paired in [(one, paired) for paired in (True, False) for one in endings]:
            try:
                if not inner.variadic:
                    draft, nodes = _arguments(inner, outer, ending.own, ending.given, paired)
                elif ending.room is not None or ending.store is not None:
                    continue
                else:
                    draft, nodes = _promoted(inner, outer, ending.given)
                plan = _finish(draft, nodes, ending, flags)
                without = "O" in inner.text and "O" not in outer.text
                return _with_gil_taken(plan) if without else plan
            except Refused as found:
                if refused is None or found.progress > refused.progress:
                    refused = found
        if refused is None:
            refused = Refused(
                f"errors={errors!r} fits neither result"
                if errors
                else f"its result {inner.result.text!r} does not become {outer.result.text!r}"
            )
        raise refused
    except Refused as last:
        one, other = both(inner, outer)
        why = reason_in_c(last.reason, inner, outer)
        raise SignatureError(
            f"cannot convert {name!r} from {one!r} to {other!r}: {why}",
            hint=last.hint and reason_in_c(last.hint, inner, outer),
        ) from None


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
            nodes.append(Argument(len(left), arg))
            left.append(index)
    text, lengths = inner.characters, inner.lengths
    outer = Signature(
        inner.result,
        [inner.args[index] for index in left],
        names=[inner.names[index] for index in left],
        readonly=[inner.readonly[index] for index in left],
        characters=[text[index] for index in (*left, -1)] if text else (),
        lengths=[lengths[index] for index in left] if lengths else (),
    )
    result = None if inner.result.kind == "void" else Result(inner.result)
    errors = convention(flags)
    return Plan(outer, inner, tuple(nodes), result, errors, errors, flags, size=offset)


def taking_gil(signature: Signature, flags: int) -> Plan:
    """The plan of a function that needs the GIL for callers that may not have it."""
    plan = bind(signature, flags, [False] * len(signature.args))
    return _with_gil_taken(plan._replace(outer=signature))


def _with_gil_taken(plan: Plan) -> Plan:
    flags = plan.flags & ~_lib.FLAG_NEEDS_GIL | _lib.FLAG_TAKES_GIL
    return plan._replace(takes_gil=True, flags=flags)
