"""`f.specialize`: a hook that is asked for the entries that a native callable does not have yet.

SEP 201 leaves it open how a table gets the signatures that were not foreseen. Here a look for
one, through `f[signature]`, `f.address`, `f.to_*`, `f.convert`, `wrap`, or from C through
callback.h, dynamiccall.h and every other reader of `__nativecall_api__`, asks the hook for it,
and adds the answer to the table. Readers of the table itself ask nothing and go on meanwhile.

Guarantees: a hook is asked once for a signature, whatever the number of threads that look for it
(_singleflight.py): the others wait for the answer, unless they are in a hook themselves. That the
hook has none is remembered, of the last 256 such signatures, until another hook is set; an
exception is not. A hook that asks for the signature it is asked for gets RuntimeError.
"""

from __future__ import annotations

from .. import _ext
from .._cdecl.spelling import parse
from .._errors import NoEntryError, SignatureError, wrong_type
from .._fifo import Fifo
from .._singleflight import once
from .._types.ctype import SCALARS, Scalar
from .._types.derived import Pointer, pointer
from .._types.signature import Signature
from .._values import foreign
from .._values.calloptions import ENTRY
from .._values.failure import CONVENTIONS, check_errors
from .entry import Options, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Sequence

    from .._ext import Native
    from .._types.ctype import CType
    from .entry import NewEntry

    Hook = Callable[[Native, str], object]


class Specializer:
    """A callable's hook, and what it has no answer to: what the core keeps in the callable."""

    __slots__ = ("hook", "missing")

    def __init__(self, hook: Hook) -> None:
        if not callable(hook):
            wanted = "a function of a callable and a signature, or None"
            raise wrong_type("'specialize'", wanted, hook)
        self.hook = hook
        self.missing: Fifo[str, None] = Fifo()

    # What a compiler's function answers otherwise (`OnDemand`).

    def count(self) -> int:
        """How many arguments there will be; -1 where that differs, or is not known."""
        return -1

    def python_signature(self) -> inspect.Signature | None:
        """What calls from Python follow, by names too; None where that is not known."""
        return None

    def refusal(self, whole: Native, wanted: str | Signature) -> str | None:
        """Why there is no entry of a signature, None where the hook does not say."""
        return None

    def for_call(self, whole: Native, values: tuple[object, ...]) -> object:
        """What the core calls where no entry takes the arguments of a call exactly; None: that the
        core chooses one. TypeError with the reason where nothing takes them."""
        return None

    def by_position(
        self, whole: Native, values: tuple[object, ...], names: tuple[str, ...]
    ) -> tuple[object, ...] | None:
        """The arguments of a call in their order, of which the last have names; None where the hook
        does not know these."""
        return None

    def entry(self, whole: Native, wanted: Signature) -> NewEntry | None:
        """The entry of a signature, None where there is none."""
        answer = self.hook(whole, wanted.text)
        return None if answer is None else _checked(whole, self.hook, wanted.text, answer)

    def kin(self, wanted: Signature) -> list[str]:
        """The signatures that are converted to a wanted one without a loss, likeliest first:
        itself, and those of as many arguments as there are, one by one for an array with its
        length, without what follows, such as user data, and by value for references.
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
    """The scalar that a pointer is to; a type itself where it is none of these."""
    if isinstance(ctype, Pointer) and isinstance(ctype.pointee, Scalar):
        return ctype.pointee
    return ctype


def ask(whole: Native, text: str, meant: Signature | None = None) -> None:
    """Ask the hook of a callable, if it has one, for a signature that is missing from its table.

    Returns when the entry is there, or when there is none. What the hook raises is raised.

    Parameters
    ----------
    whole : Native
    text : str
        Canonical.
    meant : Signature, optional
        The same with what its text does not say, such as the names of fields, for a compiler.
    """
    if not _ext.call_table_offset(type(whole)):
        return  # a subclass with a __call__ of its own, which offers no entries

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
            f"the specialize hook of {whole.__name__!r} asks for {text!r}, which it is being asked "
            "for"
        )

    # The key has no hook in it: one that sets another hook and asks again asks for the same. The
    # caller has a reference to the callable.
    once(("specialize", id(whole), text), known, answered, again)


def ask_for_kin(whole: Native, wanted: Signature) -> list[str]:
    """Ask the hook of a callable, if it has one, for a signature, and where there is none for those
    that are converted to it without a loss. All that were asked for; the last one may be there.
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
    """`ask` for a C consumer, whose signature is checked first: no hook sees what is none."""
    try:
        canonical = parse(text).text == text
    except SignatureError:
        canonical = False
    if canonical:
        ask(whole, text)


def _has(whole: Native, text: str) -> bool:
    return any([entry[0] == text for entry in whole._entries()])


def _answer(whole: Native, specializer: Specializer, text: str, meant: Signature | None) -> None:
    """Ask the hook, and add what it answers."""
    found = specializer.entry(whole, meant or parse(text))
    if found is not None:
        whole._add_missing(found)
    elif not _has(whole, text):  # a hook may have added the entry by itself
        specializer.missing.put(text, None)


def _checked(whole: Native, hook: Hook, text: str, answer: object) -> NewEntry:
    """The entry that an answer gives, or an error that names the hook."""
    name = getattr(hook, "__qualname__", None) or type(hook).__qualname__
    what = f"{name}(), the specialize hook of {whole.__name__!r}, was asked for {text!r}"
    if answer is whole or _ext.viewed(answer) is whole:
        if _has(whole, text):
            return resolve(answer, text, _PLAIN)
        raise TypeError(
            f"{what} and answered with {whole.__name__!r} itself, which has no such entry"
        )
    try:
        return resolve(answer, text, _PLAIN)
    except (SignatureError, NoEntryError) as error:
        reason = error.reason if isinstance(error, SignatureError) else error
        raise SignatureError(f"{what} and gave another function: {reason}") from error
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{what} and gave what is none: {error}") from error


def compiled(target: object, signatures: list[Signature], options: Options) -> list[NewEntry]:
    """The entries of what a compiler's function was compiled for already, where there can be."""
    found = []
    for signature in signatures:
        try:
            found.append(resolve(target, signature, options))
        except SignatureError:
            continue
    return found


class OnDemand(Specializer):
    """A hook that has a compiler's function compiled for the signatures that are asked for.

    Those that it is not compiled for, and those whose results cannot show the error convention,
    have no entry: a consumer asks for all that it can use, and takes the first that there is. A
    call whose arguments no entry takes exactly has it compiled for them.
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
        raise TypeError(f"{whole.__name__!r} cannot be called so: {reason}")

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
        """For `pickle`: the arguments that make such a callable."""
        options = {name: one for name, one in self.options.given.items() if name in ENTRY}
        return self.target, None, name, doc, options


def specializer(hook: Hook) -> Specializer:
    """A hook for one callable: what `OnDemand` hooks of others have no answer to is theirs."""
    return OnDemand(hook.target, hook.options) if isinstance(hook, OnDemand) else Specializer(hook)


_PLAIN = Options()
