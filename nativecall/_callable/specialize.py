"""`f.specialize`: a hook that creates missing entries of a native callable on demand.

SEP 201 does not define how missing signatures are added to a table. Here, a lookup of a missing
signature calls the hook and adds the entry that it returns to the table. In Python, `f[signature]`,
`f.address`, `f.to_*`, `f.convert` and `wrap` look up signatures. In C, callback.h, dynamiccall.h
and other readers of `__nativecall_api__` look them up. C code that reads the table directly does
not call the hook, and never waits for it.

Guarantees:

- A hook is called once for a signature, however many threads look it up (_singleflight.py). The
  other threads wait, unless they are running a hook themselves.
- If the hook returns None, the signature is remembered as missing, until you set a hook again. The
  last 256 such signatures are remembered. An exception is not remembered.
- If a hook looks up the signature that it was called for, that lookup raises RuntimeError.
"""

from __future__ import annotations

from .. import _ext
from .._cdecl.spelling import parse
from .._errors import TYPE_CHECKING, NoEntryError, SignatureError, wrong_type
from .._fifo import Fifo
from .._singleflight import once
from .._types.ctype import SCALARS, Scalar
from .._types.derived import Pointer, pointer
from .._types.signature import Signature
from .._values import foreign
from .._values.calloptions import ENTRY
from .._values.failure import CONVENTIONS, check_errors
from .entry import Options, resolve

if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Sequence

    from .._ext import Native
    from .._types.ctype import CType
    from .entry import NewEntry

    Hook = Callable[[Native, str], object]


class Specializer:
    """A callable's hook, and the signatures for which the hook returned None."""

    __slots__ = ("hook", "missing")

    def __init__(self, hook: Hook) -> None:
        if not callable(hook):
            wanted = "a function that takes a callable and a signature, or None"
            raise wrong_type("'specialize'", wanted, hook)
        self.hook = hook
        self.missing: Fifo[str, None] = Fifo()

    # `OnDemand` overrides the following methods.

    def count(self) -> int:
        """Return the number of arguments; -1 if it varies or is unknown."""
        return -1

    def python_signature(self) -> inspect.Signature | None:
        """Return the parameters of calls from Python; None if unknown."""
        return None

    def refusal(self, whole: Native, wanted: str | Signature) -> str | None:
        """Return why there is no entry for a signature; None if the hook gives no reason."""
        return None

    def for_call(self, whole: Native, values: tuple[object, ...]) -> object:
        """Return the callable to use if no entry accepts the arguments of a call exactly.

        Return None to let the core choose an entry. Raise TypeError if no function can accept the
        arguments.
        """
        return None

    def by_position(
        self, whole: Native, values: tuple[object, ...], names: tuple[str, ...]
    ) -> tuple[object, ...] | None:
        """Return the arguments of a call by position; `names` belong to the last values.

        Return None if the hook does not know the names.
        """
        return None

    def entry(self, whole: Native, wanted: Signature) -> NewEntry | None:
        """Return the entry for a signature; None if there is none."""
        answer = self.hook(whole, wanted.text)
        return None if answer is None else _checked(whole, self.hook, wanted.text, answer)

    def kin(self, wanted: Signature) -> list[str]:
        """Return signatures that convert to a wanted one without loss, the likeliest first.

        They are the wanted signature itself, and variants with as many arguments as this function.
        A variant has numbers instead of an array and its length, lacks trailing arguments such as
        user data, or has values instead of references.
        """
        args = wanted.args
        count = self.count()
        forms: list[Sequence[CType]] = [args]
        if count > 0 and len(args) > 1 and args[0].kind == "int" and args[1].kind == "pointer":
            item, rest = _referred(args[1]), args[2:]
            forms += [[item] * count, [*[item] * (count - len(rest)), *rest]]
        if 0 <= count <= len(args):
            forms += [args[:count], [_referred(one) for one in args[:count]]]
        return [*dict.fromkeys([Signature(wanted.result, form).text for form in forms])]


def _referred(ctype: CType) -> CType:
    """Return the scalar that a pointer points to; any other type unchanged."""
    if isinstance(ctype, Pointer) and isinstance(ctype.pointee, Scalar):
        return ctype.pointee
    return ctype


def ask(whole: Native, text: str, meant: Signature | None = None) -> None:
    """Call the hook of a callable, if it has one, for a signature missing in its table.

    If the hook returns an entry, add it to the table. Exceptions of the hook propagate.

    Parameters
    ----------
    whole : Native
    text : str
        The canonical signature.
    meant : Signature, optional
        The full signature for a compiler, with details that the text lacks, such as field names.
    """
    if not _ext.call_table_offset(type(whole)):
        return  # a subclass that overrides __call__ offers no entries

    def known() -> bool | None:
        specializer: Specializer | None = whole._specializer
        if specializer is None or _has(whole, text):
            return True
        return (meant is None and text in specializer.missing) or None

    def answered() -> bool:
        specializer: Specializer | None = whole._specializer
        if specializer is not None:
            _answer(whole, specializer, text, meant)
        return True

    def again() -> None:
        raise RuntimeError(
            f"the specialize hook of {whole.__name__!r} asks for {text!r} while it is being asked "
            "for that signature"
        )

    # The key does not contain the hook. So if a hook sets another hook and looks up the same
    # signature, that lookup also raises. The id is valid, because the caller holds the callable.
    once(("specialize", id(whole), text), known, answered, again)


def ask_for_kin(whole: Native, wanted: Signature) -> list[str]:
    """Call a callable's hook for a signature, then for signatures that convert to it losslessly.

    Return the signatures tried, up to the first that has an entry.
    """
    specializer: Specializer | None = whole._specializer
    asked: list[str] = []
    for text in [wanted.text] if specializer is None else specializer.kin(wanted):
        asked.append(text)
        ask(whole, text)
        if _has(whole, text):
            break
    return asked


def ask_for_native(whole: Native, text: str) -> None:
    """Call `ask` for a C consumer, if its signature is canonical."""
    try:
        canonical = parse(text).text == text
    except SignatureError:
        canonical = False
    if canonical:
        ask(whole, text)


def _has(whole: Native, text: str) -> bool:
    return any([entry[0] == text for entry in whole._entries()])


def _answer(whole: Native, specializer: Specializer, text: str, meant: Signature | None) -> None:
    """Call the hook and add its entry."""
    found = specializer.entry(whole, meant or parse(text))
    if found is not None:
        whole._add_missing(found)
    elif not _has(whole, text):  # a hook may have added the entry itself
        specializer.missing.put(text, None)


def _checked(whole: Native, hook: Hook, text: str, answer: object) -> NewEntry:
    """Return the entry for a hook's answer; raise an error that names the hook."""
    name = getattr(hook, "__qualname__", None) or type(hook).__qualname__
    what = f"{name}(), the specialize hook of {whole.__name__!r}, was asked for {text!r}"
    if _ext.callable_of(answer) is whole and not _has(whole, text):
        raise TypeError(f"{what} and returned {whole.__name__!r} itself, which has no such entry")
    try:
        return resolve(answer, text, _PLAIN)
    except (SignatureError, NoEntryError) as error:
        reason = error.reason if isinstance(error, SignatureError) else error
        raise SignatureError(f"{what} and returned another function: {reason}") from error
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{what} and returned no function: {error}") from error


def compiled(target: object, signatures: list[Signature], options: Options) -> list[NewEntry]:
    """Return the entries for the signatures for which the target is compiled already.

    Signatures that cannot have an entry are skipped.
    """
    found = []
    for signature in signatures:
        try:
            found.append(resolve(target, signature, options))
        except SignatureError:
            continue
    return found


class OnDemand(Specializer):
    """A hook that compiles its target, such as a jitted function, for each signature looked up.

    The hook returns None if the target does not compile for the signature, or if the signature does
    not suit the error convention. A consumer then tries its other signatures, and uses the first
    that has an entry. If no entry accepts the arguments of a call exactly, the target is compiled
    for them.
    """

    __slots__ = ("options", "target")

    def __init__(self, target: object, options: Options) -> None:
        super().__init__(self)
        self.target = target
        self.options = options

    def __call__(self, whole: Native, text: str) -> object:
        found = self.entry(whole, parse(text))
        return None if found is None else whole._derived(*found.arguments())

    def entry(self, whole: Native, wanted: Signature) -> NewEntry | None:
        try:
            check_errors(wanted, self.options.errors)
        except ValueError:
            return None
        try:
            return resolve(self.target, wanted, self.options)
        except SignatureError:
            return None

    def refusal(self, whole: Native, wanted: str | Signature) -> str | None:
        try:
            resolve(self.target, wanted, self.options)
        except ValueError as error:
            return error.reason if isinstance(error, SignatureError) else str(error)
        return None

    def count(self) -> int:
        count = foreign.count(self.target)
        return -1 if count is None else count

    def python_signature(self) -> inspect.Signature | None:
        return foreign.parameters(self.target)

    def by_position(
        self, whole: Native, values: tuple[object, ...], names: tuple[str, ...]
    ) -> tuple[object, ...] | None:
        first = len(values) - len(names)
        named = dict(zip(names, values[first:], strict=True))
        try:
            return foreign.by_position(self.target, values[:first], named)
        except TypeError as error:
            reason = str(error)
        raise TypeError(f"{whole.__name__!r} cannot be called with these arguments: {reason}")

    def for_call(self, whole: Native, values: tuple[object, ...]) -> object:
        signature = foreign.called(self.target, values)
        if signature is None:
            return None
        errors = self.options.errors
        if CONVENTIONS[errors].hidden:
            signature = Signature(signature.result, [*signature.args, pointer(SCALARS["i"])])
        try:
            check_errors(signature, errors)
        except ValueError as error:
            raise TypeError(f"{whole.__name__!r} cannot be called: {error}") from None
        ask(whole, signature.text, signature)
        reason = None if _has(whole, signature.text) else self.refusal(whole, signature)
        if reason is not None:
            raise TypeError(f"{whole.__name__!r} cannot be called: {reason}")
        return whole[signature]

    def again(self, name: str, doc: str | None) -> tuple[object, ...]:
        """Return the arguments that recreate the callable, for `pickle`."""
        options = {name: one for name, one in self.options.given.items() if name in ENTRY}
        return self.target, None, name, doc, options


def specializer(hook: Hook) -> Specializer:
    """Return a new Specializer for one callable, with its own record of missing signatures."""
    return OnDemand(hook.target, hook.options) if isinstance(hook, OnDemand) else Specializer(hook)


_PLAIN = Options()
