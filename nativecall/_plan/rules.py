"""Rules for converting one C signature to another.

Callers use the *wanted* signature; the function has its *own* signature. `convert` plans the
conversion between the two. `bind` plans a function with some arguments fixed. conversionplan.py
defines plans. A `Draft` collects the steps and checks of one attempt. A rule that does not fit
raises `Refused`, and the next rule starts with a new draft.

`convert` tries these choices in order and uses the first that fits.

1. The result:

   - The function's own result converts to the wanted one.
   - The function writes the wanted result through its last pointer argument. Its own result is void
     or a status.
   - The last pointer argument of the wanted signature receives the function's own result. If both
     results are integers, that argument must point to an integer too.
   - The result becomes a status of another kind.
   - The result is dropped if void is wanted.

2. User data, which is a trailing `void *`. If both sides have user data, it is passed on. If only
   one side has user data, but the other side has a pointer in the same position, both are ordinary
   arguments. Otherwise, user data of the caller is dropped, and a function with user data gets
   NULL.
3. The arguments:

   - An array and its length, ``(T *x, n)`` or ``(n, T *x)``, become the function's view ``[1]T``.
   - If both sides have an array and its length in different orders, the two arguments are swapped.
   - An array on one side is unpacked to, or packed from, n arguments on the other. The array is
     ``(int n, T *x)``, ``(T *x, int n)`` or ``(T *x)``, with any integer type for n. The arguments
     are n numbers of one type, or n pointers to float or complex numbers. Pointers to integers are
     excluded, since such a pointer might point to n.
   - Each argument converts to its counterpart.

   So if a function ``d:dd`` or ``d:&d&d`` is wanted as ``d:i&d``, callers pass an array of two
   numbers. The same types in another order do not match.

Error conventions. `errors` selects the wanted convention. By default, the function's convention is
kept if the wanted result can show it. If the wanted result is an integer and a pointer argument
receives the function's result, the default is "nonzero". Otherwise the default is "none". The
conventions "nonzero" and "zero" require an integer result, the status. With "nonzero", the result
is only a status and carries no other value.

With "argument", the last argument of a signature points to an error int and is exempt from the
rules above. If both sides have this argument, it is passed on. If only the function has it, the
thunk passes a pointer to a local int. If only the caller has it, the thunk stores errno or 1 in the
caller's int. If the wanted convention cannot report a failure to C, C gets NaN, 0, NULL or zeros,
and Python raises an exception.

A variadic function gets further arguments after its fixed ones, with C's default promotions.

Single values, in both directions:

- Equal types stay the same. `T *` and `void *` convert to each other; characters behind pointers
  may differ in signedness.
- A wanted `void *` argument converts to a `PyObject *` argument of the function. The function thus
  declares that its user data is an object (`nativecall.handle`). If the wanted signature has no
  objects, the GIL is taken around the call.
- A number converts to another type if every value fits. Otherwise the value is checked in the call:
  it must be in range, a float must have no fraction to become an integer, and an integer must
  convert to a float exactly. A float is rounded to a smaller type, but never to an infinity.
- A real number converts to a complex one, never the reverse.
- If `T` is wanted and the function takes `T *`, it gets a pointer to a copy, and changes to the
  copy are lost. If `T *` is wanted and the function takes `T`, it gets the value behind the
  pointer. In both cases, `T` may also convert to another type.

A pointer never converts to a pointer to another type. If the wanted signature declares a pointer
const, the function's own signature must also declare it const.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import _lib
from .._cdecl.spelling import both, reason_in_c
from .._errors import SignatureError
from .._rows import NamedTuple
from .._types.agreement import suits
from .._types.ctype import VOIDPTR, CType, Scalar, integer_range, promoted, scalar
from .._types.derived import Pointer, Struct, View, object_offsets
from .._types.signature import Signature
from .._values.failure import CONVENTIONS, Convention, convention
from .conversionplan import (
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
from .messages import advice, counted, given_text, no_way, own_text

POINTERS = ("voidptr", "pointer")
_KEPT = _lib.FLAG_NEEDS_GIL | _lib.FLAG_TAKES_GIL | _lib.FLAG_RELEASE_GIL | _lib.FLAG_ERRNO


# -- single values ------------------------------------------------------------------------------


class Refused(Exception):
    """Raised by a rule that does not fit; `progress` is how far the rule got."""

    def __init__(self, reason: str, hint: str | None = None, progress: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.progress = progress


def _number(source: Scalar, target: Scalar) -> str:
    """Return how a number converts: ``"same"``, ``"widened"``, ``"exact"`` or ``"rounded"``.

    For ``"exact"`` and ``"rounded"``, the call checks the value as `Convert` describes.
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
    """Return the pointee of a type known to be a pointer."""
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
    """A plan under construction, which may be discarded."""

    def __init__(self, inner: Signature, outer: Signature) -> None:
        self.inner = inner
        self.outer = outer
        self.steps: list[Step] = []
        self.checks: list[tuple[int, int]] = []

    def step(self, kind: str, subject: str, source: CType, target: CType, count: int = 0) -> int:
        self.steps.append(Step(kind, subject, source, target, count))
        return len(self.steps) - 1

    def promised(self, node: Argument, own: Own) -> None:
        """Refuse to pass a pointer that is const for the caller but not for the function."""
        shared = (*POINTERS, "view")
        if self.outer.readonly[node.index] and not own.readonly and node.type.kind in shared:
            raise Refused(
                "is const, but the function does not promise not to write to it",
                "leave const out, or declare it in the function's own signature",
            )

    def check(self, index: int, kind: str, count: int = 0) -> None:
        """Check once that a wanted argument is not NULL, or that it equals a count."""
        if all([(at, self.steps[step].kind) != (index, kind) for at, step in self.checks]):
            ctype = self.outer.args[index]
            step = self.step(kind, given_text(index), ctype, ctype, count)
            self.checks.append((index, step))

    def value(self, node: Node, target: CType, subject: str) -> Node:
        """Convert a value to another type."""
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
        """Convert a wanted argument to an argument of the function."""
        source, target = node.type, own.type
        if source == VOIDPTR and target.kind == "object":
            return node  # user data that is a `nativecall.handle`
        try:
            made = self.value(node, target, subject)
        except Refused:
            if isinstance(target, Pointer) and isinstance(source, (Scalar, Struct)):
                return Memory((self.value(node, target.pointee, subject),), target.pointee)
            if isinstance(target, Pointer) and target.pointee == source:
                # No declaration promises const for the target of a pointer to a pointer.
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
    """Return how many values may change in a call of a function with `inner` through `outer`.

    Also return the total number of bits lost. Extra arguments on either side, and values that do
    not convert, count as changed.
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
    """Return whether `target` can represent every value of `source`."""
    if not isinstance(target, Scalar) or not isinstance(source, Scalar):
        return target == source
    try:
        return _number(source, target) in ("same", "widened")
    except Refused:
        return False


class Own(NamedTuple):
    """An argument of the function."""

    type: CType
    readonly: bool  # whether the function promises not to write through it


def own_arguments(inner: Signature) -> list[Own]:
    return [Own(*one) for one in zip(inner.args, inner.readonly, strict=True)]


def of_argument(node: Argument, refused: Refused, progress: int) -> Refused:
    """Return a refusal whose reason names the wanted argument."""
    return Refused(f"{given_text(node.index)} {refused.reason}", refused.hint, progress)


# -- arguments -----------------------------------------------------------------------------------


def _one_by_one(draft: Draft, own: Sequence[Own], given: Sequence[Argument]) -> list[Node]:
    """Convert each wanted argument to its counterpart."""
    if len(own) != len(given):
        besides = ""
        if (len(own), len(given)) != (len(draft.inner.args), len(draft.outer.args)):
            besides = ", not counting its result or user data"
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
    """Refuse arguments that seem swapped: a pointer passed as a number, a number as a pointer."""
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
    """Return whether a node converts an integer to a float, or the reverse."""
    kinds = {type_of(one).kind in ("bool", "int") for one in (node, _source(node))}
    return len(kinds) > 1


_TOO_LONG = 1 << 20  # progress of a rule that almost fits, for example except for a length


def _as_array(types: Sequence[CType]) -> tuple[int, int | None, CType]:
    """Return the positions of the pointer and of the count, and the element type."""
    for at, n in ((0, None), (1, 0), (0, 1)):
        pointer = types[at] if len(types) == (1 if n is None else 2) else None
        if not isinstance(pointer, Pointer) or not isinstance(pointer.pointee, Scalar):
            continue
        if n is None or types[n].kind == "int":
            return at, n, pointer.pointee
    raise Refused("", None, -2)


def _numbers_alone(types: Sequence[CType]) -> CType:
    """Return the common type of numbers, or of several pointers to float or complex numbers."""
    first = types[0] if types else VOIDPTR
    fits = isinstance(first, Scalar)
    if isinstance(first, Pointer) and len(types) > 1:
        fits = first.pointee.kind in ("float", "complex")
    if not fits or any([one != first for one in types]):
        raise Refused("", None, -2)
    return first


def _rearranged(draft: Draft, own: Sequence[Own], given: Sequence[Argument]) -> list[Node]:
    """Swap an array and its length, if both sides have them in different orders."""
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
    """Unpack the caller's array to numbers, or pointers to numbers, for the function."""
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
    """Pack the caller's numbers, or the numbers behind its pointers, into an array."""
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


_LENGTH = scalar("q")  # intptr_t


def _viewed(draft: Draft, own: Sequence[Own], given: Sequence[Argument]) -> list[Node]:
    """Convert arrays with lengths to the function's one-dimensional views."""
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
    """Return a pointer to the view's descriptor."""
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
    """Return nodes for the function's arguments `own` by rules 2 and 3.

    If `paired` and both sides have user data, it is passed on.
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
                # Report the refusal of the array rules only if they almost fit.
                told = rule is _one_by_one or refused.progress >= _TOO_LONG
                if told and refused.progress > worst.progress:
                    worst = refused
    raise worst


def _user_data(draft: Draft, own: Own, given: Argument) -> None:
    """Refuse to pass on user data that is const for the caller but not for the function."""
    try:
        draft.promised(given, own)
    except Refused as refused:
        raise of_argument(given, refused, _TOO_LONG) from None


def _promoted(
    inner: Signature, outer: Signature, given: Sequence[Argument]
) -> tuple[Draft, list[Node]]:
    """Return the arguments of a variadic function: the fixed ones, then the promoted ones."""
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


class _Ending(NamedTuple):
    """One way to produce the wanted result, and the arguments that remain to be converted."""

    errors: Convention
    own: Sequence[Own]
    given: Sequence[Argument]
    room: int | None = None  # the function's argument that points to the result
    store: int | None = None  # the wanted argument that receives the result
    value: CType | None = None  # type of the value to return or store, or None
    status: int | None = None  # the result after success, if it is a status


def _last_pointers(args: Sequence[Own] | Sequence[Argument], readonly: Sequence[bool]) -> list[int]:
    """Return where a pointer to a result may be: the last argument, or the one before user data."""
    has_user_data = bool(args) and args[-1].type.kind == "voidptr"
    places = range(len(args) - 1, max(len(args) - 2 - has_user_data, -1), -1)
    return [at for at in places if isinstance(args[at].type, Pointer) and not readonly[at]]


def _endings(
    inner: Signature, before: Convention, outer: Signature, errors: Convention | None
) -> tuple[list[_Ending], Refused | None]:
    """Return the choices of rule 1 in order, and the first reason for excluding a choice."""
    none = CONVENTIONS["none"]
    known = before  # the default convention of the wanted function
    if before.hidden and errors is None:
        errors, known = (before, before) if before.fits(outer) else (None, none)
    own = before.passed(own_arguments(inner))
    given = [Argument(index, arg) for index, arg in enumerate(outer.args)]
    if errors:
        given = errors.passed(given)
    result, wanted = inner.result, outer.result
    integral = wanted.kind in ("int", "bool")
    # A convention that requires nothing of the result is kept by default.
    kept = known if known.needs == "any" else none
    found: list[_Ending] = []
    refused: Refused | None = None

    def otherwise(reason: str, hint: str | None = None) -> None:
        nonlocal refused
        refused = refused or Refused(reason, hint)

    if errors and errors.hidden and before == none and errors.fits(inner):
        otherwise(
            "its last argument does not report failures",
            f"nativecall.wrap(f, errors={errors.name!r}) declares that it does",
        )
    # The result becomes the wanted one.
    after = errors or (known if known.suits(wanted) else none)
    if result.kind == "void" or wanted.kind == "void":
        if result.kind == wanted.kind and after.needs == "any":
            found.append(_Ending(after, own, given))
    elif before.is_status and after != before:
        otherwise("its result is a status, not a value")
    elif after.needs != "any" and (before == none or before.needs == "integer") and after != before:
        otherwise(
            f"its result does not have the meaning of errors={after.name!r}",
            f"nativecall.wrap(f, errors={after.name!r}) declares it for f itself",
        )
    elif after.needs == "integer" and after != before:
        otherwise("its result is not a status")
    else:
        found.append(_Ending(after, own, given, value=result))
    # The function's last pointer argument is the result.
    if wanted.kind != "void":
        for place in _last_pointers(own, [one.readonly for one in own]):
            after = errors or kept
            if result.kind != "void" and before.needs != "integer":
                if result.kind == "int" and len(own) - 1 == len(given) and not inner.variadic:
                    otherwise(
                        f"its result {result.text!r} is a value, not a status",
                        "nativecall.wrap(f, errors='nonzero') declares that it is one",
                    )
            elif after.needs == "any" or (after.needs == "pointer" and wanted.kind in POINTERS):
                left = [*own[:place], *own[place + 1 :]]
                pointee = pointee_of(own[place].type)
                found.append(_Ending(after, left, given, room=place, value=pointee))
    # The wanted last pointer argument receives the result.
    if result.kind != "void" and not before.is_status and (wanted.kind == "void" or integral):
        for place in _last_pointers(given, outer.readonly):
            after = errors or (CONVENTIONS["nonzero"] if integral else kept)
            if after.needs != ("integer" if integral else "any"):
                continue
            pointee = pointee_of(given[place].type)
            numbers = ("int", "bool")
            if integral and result.kind in numbers and pointee.kind not in numbers:
                continue  # an integer result is hardly meant for a pointer to a float
            rest = [*given[:place], *given[place + 1 :]]
            status = after.success if integral else None
            found.append(_Ending(after, own, rest, store=place, value=result, status=status))
    # The result becomes a status of another kind, or a void result becomes a status.
    if integral and errors and errors.needs == "integer" and errors != before:
        if result.kind == "void" or (result.kind in ("int", "bool") and before != none):
            found.append(_Ending(errors, own, given, status=errors.success))
    elif integral and result.kind == "void":
        otherwise(
            "it returns nothing",
            "errors='nonzero' or errors='zero' makes the integer a status",
        )
    # The result is dropped.
    if wanted.kind == "void" and result.kind != "void":
        after = errors or kept
        if object_offsets(result):
            plural = "a reference" if result.kind == "object" else "references"
            otherwise(f"its result is {plural}, which would be lost")
        elif after.needs == "any":
            found.append(_Ending(after, own, given))
    return found, refused


def _finish(draft: Draft, nodes: list[Node], ending: _Ending, flags: int) -> Plan:
    """Return the plan for a choice of rule 1 with converted arguments."""
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
        slot = OutSlot(ending.value)  # type: ignore[arg-type]  # an ending with a room has a type
        nodes = [*nodes[: ending.room], slot, *nodes[ending.room :]]
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
    # If the caller sees the function's own sign of failure, no test is needed, unless the result is
    # checked during conversion, or stored through a pointer.
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
                f"errors={what.name!r} needs the GIL, which its callers release (gil='release')"
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
    """Plan calls of a function of signature `inner` by callers that use signature `outer`.

    `flags` are the flags of the function's entry; `errors` is the wanted error convention. If no
    rule fits, raise SignatureError, which names the argument that does not fit and may suggest a
    fix.
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
                f"errors={errors!r} applies to neither result"
                if errors
                else f"its result {inner.result.text!r} cannot become {outer.result.text!r}"
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
    """Plan a function of the arguments that are not `bound`; a Thunk stores the other arguments."""
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
    """Plan calls of a function that needs the GIL, for callers that may not hold it."""
    plan = bind(signature, flags, [False] * len(signature.args))
    return _with_gil_taken(plan._replace(outer=signature))


def _with_gil_taken(plan: Plan) -> Plan:
    flags = plan.flags & ~_lib.FLAG_NEEDS_GIL | _lib.FLAG_TAKES_GIL
    return plan._replace(takes_gil=True, flags=flags)
