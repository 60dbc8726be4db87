"""A plan in the making, and what single values may become: the rules for one value at a time.

`Draft` collects the steps and the checks of a plan, and makes the nodes by which one value becomes
another; what cannot be is `Refused`. A draft that is given up costs nothing: the next rule begins
with a new one. Single values, in any direction:

- a type stays as it is; `T *` and `void *` are one another; `char *` may have any sign
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

from .._types.agreement import suits
from .._types.ctype import CType, Scalar, integer_range
from .._types.derived import Pointer, Struct
from .._types.signature import Signature
from .messages import advice, given_text, no_way
from .plan import Argument, Check, Convert, ErrorOut, Load, Memory, Node, OutSlot, Step

POINTERS = ("voidptr", "pointer")


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


class Broken(Refused):
    """A promise of the wanted signature that the function's own does not make."""


class Draft:
    """A plan in the making, or half of one that is given up."""

    def __init__(self, inner: Signature, outer: Signature) -> None:
        self.inner = inner
        self.outer = outer
        self.steps: list[Step] = []
        self.checks: list[Check] = []

    def step(self, kind: str, subject: str, source: CType, target: CType, count: int = 0) -> int:
        self.steps.append(Step(kind, subject, source, target, count))
        return len(self.steps) - 1

    def promised(self, node: Argument, own: Own) -> None:
        """Refuse to pass on what is const for the caller but not for the function."""
        shared = (*POINTERS, "view")
        if self.outer.readonly[node.index] and not own.readonly and node.type.kind in shared:
            raise Broken(
                "is const, but the function does not promise not to write to it",
                "leave const out, or declare it in the function's own signature",
            )

    def not_null(self, index: int) -> None:
        """Have a wanted pointer argument checked, once."""
        if any([check.index == index and check.count is None for check in self.checks]):
            return
        ctype = self.outer.args[index]
        self.checks.append(Check(index, None, self.step("null", given_text(index), ctype, ctype)))

    def count(self, index: int, count: int) -> None:
        """Have a wanted argument checked to be a number of items."""
        ctype = self.outer.args[index]
        step = self.step("count", given_text(index), ctype, ctype, count)
        self.checks.append(Check(index, count, step))

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
        try:
            made = self.value(node, target, subject)
            if made is node:
                self.promised(node, own)
            return made
        except Broken:
            raise
        except Refused as refused:
            if isinstance(target, Pointer) and isinstance(source, (Scalar, Struct)):
                return Memory((self.value(node, target.pointee, subject),), target.pointee)
            if isinstance(target, Pointer) and target.pointee == source:
                # Of what a pointer to a pointer leads to no declaration promises anything.
                self.promised(node, Own(source, False))
                return Memory((node,), source)
            by_reference = isinstance(source, Pointer) and isinstance(target, (Scalar, Struct))
            if not by_reference:
                raise refused
        assert isinstance(source, Pointer)
        loaded = self.value(Load(node, 0, source.pointee), target, subject)
        self.not_null(node.index)
        return loaded


def type_of(node: Node) -> CType:
    return Pointer(node.type) if isinstance(node, (Memory, OutSlot, ErrorOut)) else node.type


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
