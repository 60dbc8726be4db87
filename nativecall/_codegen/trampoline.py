"""Trampolines: generated functions that Python calls, which call a C function; one for each shape.

A shape is a signature with every pointer written ``P`` and without names, with the flags that
change a call. What the code of one does is told in trampolinecode.py.

Guarantees:

- One trampoline serves all functions of a shape: function, name, pointees and promises are read
  from the callable.
- A variadic function has a trampoline for each tuple of types that follow the fixed arguments.
- What no convention of `abi` describes is left to libffi.
"""

from __future__ import annotations

from _weakref import ref  # as in _fifo.py
from collections import namedtuple

from .. import _lib
from .._fifo import Cache, Fifo, Shared
from .._signature.signature import Signature, with_more
from .._values import callspec
from .._values.failure import convention
from .._values.outs import fits_stack, pointee, visible
from . import engine
from .shape import CALL_FLAGS, METHOD, layout, made, shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._signature.ctype import CType
    from .._types import CallSpec, Trampoline
    from .._values.boxes import Native
    from .._values.outs import Out

_types = _lib.types
_MAX_VARIADIC = 64  # tuples of types that a variadic function was called with and that stay
#: What LLVM may spend on one: see `engine.compile`.
EFFORT: engine.Effort = 0


# -- one for each shape --------------------------------------------------------------------------


class Shape(
    namedtuple("Shape", ["signature", "flags", "fixed", "texts", "outs"], defaults=[None, (), ()])
):
    """What determines the code of a trampoline.

    Attributes
    ----------
    signature : Signature
    flags : int
        Of an entry.
    fixed : int or None
        How many arguments of a variadic function are the fixed ones.
    texts : sequence of int
        The arguments whose lengths are the last ones, which Python does not pass.
    outs : sequence of Out
        The out-parameters.
    """

    __slots__ = ()
    signature: Signature
    flags: int
    fixed: int | None
    texts: Sequence[int]
    outs: Sequence[Out]

    @property
    def key(self) -> str:
        """What is the same for all of one code."""
        args = [shape(arg) for arg in self.signature.args]
        for out in self.outs:
            inner = pointee(self.signature, out)
            args[out.index] = f"<{shape(inner)}>" if out.given else f">{inner.size}>"
        if self.fixed is not None:
            args.insert(self.fixed, ".")
        told = f" lengths of {self.texts}" if self.texts else ""
        result = shape(self.signature.result)
        return f"{result}:{''.join(args)} {self.flags & CALL_FLAGS:#x}{told}"

    def text(self) -> str:
        """The code, as LLVM IR."""
        from .abi import known
        from .trampolinecode import TrampolineCode

        signature, flags, fixed, *unpassed = self
        lowering = known().lower(signature.result, signature.args, fixed)
        return TrampolineCode(signature, flags, lowering, *unpassed).text()


_made: Shared[str, Trampoline] = Shared()
#: Those that stay when no callable uses them.
_recent: Fifo[str, Trampoline] = Fifo()
#: Why there is none of a key, as far as that is known. A dict's single operations are atomic.
_refused: Fifo[str, str] = Fifo()


def not_passed(spec: CallSpec) -> tuple[tuple[int, ...], tuple[Out, ...]]:
    """What Python does not pass: the arguments whose lengths are the last ones, for these; and the
    out-parameters.
    """
    return callspec.text_lengths(spec.signature, spec.policies), spec.policies.out


def trampoline(callable: Native, fixed: int | None = None) -> Trampoline | None:
    """The trampoline for the only entry of `callable`; None where calls are left to libffi.

    The same object for all entries of a shape, as long as a callable uses it, and a while longer.
    That of a variadic function takes the fixed arguments only; `variadic` is for more, which makes
    a callable of all of them: `fixed` is then how many are the fixed ones.
    """
    spec, _, flags = callable._entry()
    signature: Signature = spec.signature
    if signature.variadic:
        fixed = len(signature.args)
    elif fixed is not None and not 0 <= fixed <= len(signature.args):
        raise ValueError(f"'fixed' must be from 0 to {len(signature.args)} (got {fixed})")
    texts, outs = not_passed(spec)
    if outs and not fits_stack(signature, outs, texts):
        return None
    return _find(Shape(signature, flags, fixed, texts, outs))


def _find(wanted: Shape) -> Trampoline | None:
    key = wanted.key
    found = _made.find(key)
    if found is None:
        if key in _refused:
            return None
        try:
            made = _make(key, wanted)
        except engine.NoRoom:
            return None  # now; that does not last
        except (engine.Unsupported, engine.Unloadable) as error:
            # Nothing else: an error in the code here must not pass for a signature without code,
            # nor a moment without memory for one that lasts.
            _refused.put(key, str(error))
            return None
        if made is not None:
            found = _made.share(key, made)
            _recent.put(key, found)
    return found


def refusal(
    signature: Signature, flags: int, texts: Sequence[int] = (), outs: Sequence[Out] = ()
) -> str:
    """Why the calls of an entry go through libffi; ``""`` where they do not have to."""
    if not engine.available():
        return engine.reason()
    fixed = len(signature.args) if signature.variadic else None
    return _refused.get(Shape(signature, flags, fixed, texts, outs).key, "")


def _make(key: str, wanted: Shape) -> Trampoline | None:
    """The trampoline of a key; None where no code can be made at all."""
    code = made(f"trampoline {key}", wanted.text, METHOD, EFFORT)
    if code is None:
        return None
    signature, flags, fixed, texts, outs = wanted
    count = len(visible(signature, convention(flags).hidden + len(texts), outs))
    method = {0: "METH_NOARGS", 1: "METH_O"}.get(count, "METH_FASTCALL")
    if fixed is not None:
        method = "METH_FASTCALL"
    return _types.Trampoline(layout[method], code.address(METHOD), code)


def variadic(
    callable: Native, fallback_for: Callable[..., Callable[..., object]]
) -> Callable[..., object]:
    """What calls the only entry of `callable`, a variadic one, with more than its fixed arguments.

    It finds the C types of those after the fixed ones as calls through libffi do, and has a
    callable of fixed arguments for each tuple of types. `fallback_for`, that of _libffi/call.py, is
    for types that there is no trampoline for.
    """
    from .._values.variadic import extra_argument
    from .abi import MAX_ARGUMENTS

    fewest, address, flags = callable._entry()
    signature: Signature = fewest.signature
    name = callable.__name__
    owner = ref(callable)
    fixed = len(signature.args)
    encoding = fewest.policies.encoding
    calls: Cache[str, Callable[..., object]] = Cache(_MAX_VARIADIC)
    others: Callable[..., object] | None = None

    def make(types: list[CType]) -> Callable[..., object] | None:
        # const cannot be said after the fixed arguments: memory of any kind passes.
        readonly = (*signature.readonly, *[True] * len(types))
        whole = Signature(
            signature.result,
            (*signature.args, *types),
            names=(*signature.names, *[None] * len(types)),
            readonly=readonly,
            characters=with_more(signature.characters, len(types)),
            written=signature.written,
        )
        entry = owner()
        if entry is None or _find(Shape(whole, flags, fixed)) is None:
            return None
        made = entry._derived(callspec.of(whole, 0, fewest.policies), address, flags, None)
        made._choose(fixed)
        return made

    def fallback(*values: object) -> object:
        nonlocal others
        types: list[CType] = []
        given = [*values]
        if len(values) <= MAX_ARGUMENTS:
            for index in range(fixed, len(values)):
                ctype, given[index] = extra_argument(values[index], index, name, encoding)
                types.append(ctype)
        wanted = "".join([ctype.text for ctype in types])
        call = calls.get(wanted)
        if call is not None:
            return call(*given)
        call = make(types) if types else None
        if call is None:
            if others is None:
                others = fallback_for(fewest, name, address, flags, owner)
            return others(*values)
        return calls.keep(wanted, call)(*given)

    return fallback


def intermediate(
    signature: Signature, flags: int = 0, texts: Sequence[int] = (), outs: Sequence[Out] = ()
) -> str | None:
    """The LLVM IR of a trampoline, for people to read; None where there is none.

    `flags` are an entry's, `texts` and `outs` as for `Shape`. That of a variadic function takes the
    fixed arguments only.
    """
    try:
        fixed = len(signature.args) if signature.variadic else None
        return Shape(signature, flags, fixed, texts, outs).text()
    except engine.Unsupported:
        return None
