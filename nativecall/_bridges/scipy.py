"""SciPy bridge: convert callables to `scipy.LowLevelCallable` and back.

SciPy takes a C callback as a `LowLevelCallable` around a capsule. It compares the capsule's name,
character by character, with the signatures that it accepts. So this module spells names as SciPy
does: plain C types, no argument names, one space after each comma.

Functions with other signatures are converted, in native code, to a signature that SciPy calls. The
types of the arguments determine that signature (`_forms_of`). Trying every possible conversion
would be wrong: ``jn(n, x)`` can be converted to ``double (int, double *)``, but would then receive
the number of coordinates as its order.
"""

from __future__ import annotations

import re
import sys

from .. import _ext
from .._callable import specialize
from .._cdecl.spelling import parse, words
from .._errors import TYPE_CHECKING, NoEntryError, SignatureError
from .._plan.rules import losses
from .._types.agreement import Agreement, agreement
from .._types.ctype import VOID
from .._types.derived import Pointer
from .._types.derived import pointer as pointer_to
from .._types.signature import Signature
from .._values import callinterface, foreign
from .._values.capsules import get_context
from .._values.failure import convention
from .._values.foreign import Function
from .PyCapsule import takes_data, with_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scipy import LowLevelCallable

    from .._callable.callable import NativeCallable
    from .._ext import Foreign, Native
    from .._types.ctype import CType

# All signatures that SciPy accepts, best first, each in a spelling that every version accepts.
_QUAD, _QUAD_DATA, _NQUAD, _NQUAD_DATA = "d:d", "d:dP", "d:i&d", "d:i&dP"
_FILTER, _FILTER1D, _TRANSFORM = (parse(one).text for one in ("i:&dn&dP", "i:&dn&dnP", "i:&n&diiP"))
_SPELLINGS = {
    _QUAD: "double (double)",
    _QUAD_DATA: "double (double, void *)",
    _NQUAD: "double (int, double *)",
    _NQUAD_DATA: "double (int, double *, void *)",
    _FILTER: "int (double *, npy_intp, double *, void *)",
    _FILTER1D: "int (double *, npy_intp, double *, npy_intp, void *)",
    _TRANSFORM: "int (npy_intp *, double *, int, int, void *)",
}
# Functions for scipy.ndimage return 0 on failure. quad ignores failures.
_REPORTING = (_FILTER, _FILTER1D, _TRANSFORM)


def own_entry(obj: LowLevelCallable) -> Native | None:
    """Return the entry from which the function in a LowLevelCallable was made."""
    from scipy import LowLevelCallable

    if not isinstance(obj, LowLevelCallable):
        return None
    entry = foreign.own_entry(obj.function)
    called = foreign.function(tuple.__getitem__(obj, 0))
    if entry is None or called is None:
        return None
    # If the function is a thunk that acquires the GIL, the capsule holds the thunk's address.
    found_pointer = foreign.pointer(obj.function)
    same = called.address in (entry.address(), found_pointer and found_pointer.address)
    return entry if same else None


def function(obj: LowLevelCallable) -> Function | None:
    """Return the function in a LowLevelCallable made from a capsule or a foreign callable."""
    from scipy import LowLevelCallable

    if not isinstance(obj, LowLevelCallable):
        return None
    inner = foreign.function(obj.function)
    said = foreign.function(tuple.__getitem__(obj, 0))
    if inner is None:
        inner = said
    elif said is not None:
        known, other = inner.signature, said.signature
        # If the function's own signature agrees with the capsule's name, keep the former: it has
        # more detail about pointees.
        alike = known is not None and other is not None and agreement(known, other)
        if not alike or alike < Agreement.POINTER:
            inner = inner._replace(signature=other, partial=said.partial, reason=said.reason)
    return None if inner is None else inner._replace(owner=obj)


def native(obj: LowLevelCallable) -> NativeCallable | None:
    """Return the function of a LowLevelCallable with its user data bound and kept alive.

    Return None if there is no data, or if the function has no last argument for the data.
    """
    data = user_data(obj)
    if not data:
        return None
    given = obj.user_data
    if type(given).__name__ == "PyCapsule":
        if _has_function(given):
            raise TypeError(
                f"the user data of {obj!r} is a capsule that holds a function, not data"
            )
        given = None
    # User data other than a capsule is checked like an argument of a call.
    return with_data(own_entry(obj) or function(obj), data if given is None else given, obj)


def _has_function(capsule: object) -> bool:
    """Return whether a capsule's name is the signature of a function."""
    found = foreign.function(capsule)
    return found is not None and found.signature is not None


def reason(obj: Foreign) -> str | None:
    """Return why a `MultiUFunc` of SciPy, which chooses among ufuncs, has no C function."""
    if type(obj).__name__ != "MultiUFunc":
        return None
    return (
        f"{obj.__name__!r} is not a ufunc: SciPy chooses one by keyword arguments, and no single "
        "ufunc covers them all; nativecall.callback makes C functions from Python functions"
    )


def user_data(obj: LowLevelCallable) -> int | None:
    """Return the user data of a LowLevelCallable, which SciPy stores in its capsule's context.

    If the user passed no data, SciPy copies the context of the original capsule.
    """
    from scipy import LowLevelCallable

    if not isinstance(obj, LowLevelCallable):
        return None
    given = obj.user_data is not None
    return get_context(tuple.__getitem__(obj, 0)) or (0 if given else None)


_FORTRAN = (
    ("scipy.linalg._fblas", "scipy.linalg.cython_blas"),
    ("scipy.linalg._flapack", "scipy.linalg.cython_lapack"),
)
_FORTRAN_KNOWN = ((1, 14), (1, 18))  # the first and the last checked version of SciPy


def of_fortran(obj: Foreign, name: str) -> Signature | None:
    """Return the signature of SciPy's BLAS or LAPACK procedure in an f2py object.

    The signature comes from the Cython module for the same library. Return None for other objects,
    and for versions of SciPy that we have not checked.

    A complex result is written through the first argument. SciPy calls the four procedures with
    such results through its own subroutines, which do not depend on how compilers return complex
    numbers.
    """
    for module, exporting in _FORTRAN:
        if getattr(sys.modules.get(module), name, None) is not obj:
            continue
        numbers = re.match(r"(\d+)\.(\d+)", sys.modules["scipy"].__version__)
        version = numbers and (int(numbers[1]), int(numbers[2]))
        if not version or not _FORTRAN_KNOWN[0] <= version <= _FORTRAN_KNOWN[1]:
            return None
        capsules = getattr(sys.modules.get(exporting), "__pyx_capi__", {})  # imported by `module`
        capsule = capsules.get(name)
        found = None if capsule is None else foreign.function(capsule)
        known = None if found is None else found.signature
        if known is None or known.result.kind != "complex":
            return known
        return Signature(VOID, (pointer_to(known.result), *known.args))
    return None


def _low_level_callable() -> type[LowLevelCallable]:
    try:
        from scipy import LowLevelCallable
    except ImportError as error:
        raise ImportError("to_scipy() needs SciPy; install it with 'pip install scipy'") from error
    found: type[LowLevelCallable] = LowLevelCallable
    return found


def to_scipy(signature: Foreign = None, user_data: Foreign = None) -> tuple[Foreign, Foreign]:
    """Parse the arguments of `NativeCallable.to_scipy` that the core does not parse itself."""
    return signature, user_data


def form(entry: NativeCallable) -> tuple[type[LowLevelCallable], bytes] | None:
    """Return the data for an entry's LowLevelCallable: the class, and the capsule's name.

    Return None if SciPy cannot call the entry unchanged.
    """
    cls = _low_level_callable()
    text = entry.signatures[0]
    if text not in _SPELLINGS or not _reports(entry, text):
        return None
    return cls, _SPELLINGS[text].encode()


def from_callable(
    callable: NativeCallable, signature: str | Signature | None, user_data: object
) -> LowLevelCallable:
    """Return a LowLevelCallable of one entry, converted if necessary, and keep the entry alive."""
    cls = _low_level_callable()
    part, meant = _chosen(callable, signature, user_data is not None)
    entry = part._alone(None)
    cif, address, _ = entry._chosen(None)
    found = cif.signature
    for ctype in (found.result, *found.args):
        if ctype.kind == "struct":
            raise SignatureError(f"SciPy has no spelling for {ctype.text!r}")
    name = (_SPELLINGS.get(found.text) or words(found)).encode()
    capsule = _ext.capsule(address, name, entry)
    if user_data is None:
        return cls(capsule)
    if not found.args or found.args[-1].kind != "voidptr":
        raise ValueError(
            f"'user_data' needs a last argument of type 'P', which {found.text!r} does not have"
        )
    return cls(capsule, _user_data(user_data, meant.args[-1], meant.readonly[-1]))


# -- choice of the function ----------------------------------------------------------------------


def _chosen(
    callable: NativeCallable, signature: str | Signature | None, data: bool
) -> tuple[NativeCallable, Signature]:
    """Return the requested entry, converted if necessary, and a signature that includes `const`.

    The returned signature is that of the entry before the conversion; its last argument describes
    the user data. If a signature is requested and no single entry fits, the requested signature is
    returned.
    """
    if signature is not None:
        meant = signature if isinstance(signature, Signature) else parse(signature)
        try:
            part: NativeCallable = callable[meant]
        except NoEntryError:
            given = [_meant(callable[text]) for text in callable.signatures if data]
            typed = [one for one in given if takes_data(one) and len(one.args) == len(meant.args)]
            # The function's own signature may be more precise than a requested 'void *'.
            return _converted(callable, meant), typed[0] if len(typed) == 1 else meant
        return _as(part, meant.text), part._chosen(None)[0].signature
    exact = _called_as_they_are(callable, data)
    if not exact:
        _make_for(callable, data)
        exact = _called_as_they_are(callable, data)
    available = callable.signatures
    if not available:
        raise NoEntryError.none(callable.__name__, callable._specializer is not None)
    if exact:
        part = callable[exact[0]]
        return _as(part, exact[0]), part._chosen(None)[0].signature
    # Of several candidates, prefer the one that loses least: doubles before floats.
    suited = [
        (meant, forms, text)
        for text in available
        for meant in [_meant(callable[text])]
        if (forms := _forms_of(meant, data))
    ]
    if suited:
        meant, forms, text = min(suited, key=lambda one: losses(one[0], parse(one[1][0])))
        part = callable[text]
        for form in forms:
            part = _as(part, form)
        return part, meant
    offers = ", ".join(map(repr, available))
    if data and not any([takes_data(_meant(callable[text])) for text in available]):
        raise ValueError(
            f"'user_data' needs a pointer as the last argument, which {callable.__name__!r} does "
            f"not have; it offers {offers}"
        )
    wanted = ", ".join(map(repr, _SPELLINGS))
    raise SignatureError(
        f"no SciPy function can call {callable.__name__!r}, which offers {offers}; they call "
        f"{wanted}; for another library, give the type that it calls as 'signature'"
    )


def _called_as_they_are(callable: NativeCallable, data: bool) -> list[str]:
    """Return the entries that SciPy can call unchanged, best first."""
    wanted = [text for text in _SPELLINGS if text.endswith("P") or not data]
    return [text for text in wanted if text in callable.signatures]


def _make_for(callable: NativeCallable, data: bool) -> None:
    """Ask a callable's hook, if any, to create an entry that SciPy calls.

    If the callable has a fixed number of arguments, first request a function of as many doubles.
    Then request the signatures in `_SPELLINGS` one by one.
    """
    specializer = callable._specializer
    if specializer is None:
        return
    count = specializer.count()
    wanted = [text for text in _SPELLINGS if not data or text.endswith("P")]
    if count > 0:
        wanted.insert(0, f"d:{'d' * (count - data)}{'P' if data else ''}")
        wanted = [text for text in wanted if len(parse(text).args) == count]
        # If the function does not take numbers, it may be a filter that takes views.
        wanted += [] if data else {1: ["d:[1]d"], 2: ["v:[1]d[1]d"]}.get(count, [])
    for text in wanted:
        specialize.ask(callable, text)
        if text in callable.signatures:
            return
    asks = wanted and not callable.signatures
    reason = specializer.refusal(callable, wanted[0]) if asks else None
    if reason is not None:
        raise SignatureError(f"{callable.__name__!r} cannot be passed to SciPy: {reason}")


def _as(part: NativeCallable, form: str) -> NativeCallable:
    """Convert one entry to the signature `form`, so that it reports failures as SciPy expects.

    An integer status without an error convention is passed to SciPy unchanged.
    """
    if not _reports(part, form):
        return part.convert(form, errors="zero")
    return part if part.signatures[0] == form else part.convert(form)


def _converted(callable: NativeCallable, meant: Signature) -> NativeCallable:
    """Convert a callable to a requested signature, reporting failures as `_as` does."""
    if meant.text in _REPORTING:
        try:
            return callable.convert(meant, errors="zero")
        except SignatureError:
            pass  # the function returns a status without an error convention
    return callable.convert(meant)


def _reports(part: NativeCallable, form: str) -> bool:
    """Return whether an entry reports failures as SciPy expects for a signature."""
    cif, _, flags = part._chosen(None)
    found = cif.signature
    errors = convention(flags).name
    status = errors == "zero" or (errors == "none" and found.result.kind == "int")
    return status or form not in _REPORTING


def _meant(part: NativeCallable) -> Signature:
    """Return the signature of an entry without its error argument."""
    cif, _, flags = part._chosen(None)
    found = cif.signature
    errors = convention(flags)
    if not errors.hidden:
        return found
    passed = [errors.passed(each) for each in (found.args, found.readonly)]
    return Signature(found.result, passed[0], readonly=passed[1])


def _forms_of(signature: Signature, data: bool) -> list[str]:
    """Return the chain of signatures for a function: convert to each in turn. SciPy calls the last.

    With `data`, a last argument of any pointer type takes user data. Otherwise only a `void *`
    does. The other arguments determine the form:

    - one or more numbers, or the number of coordinates and their address (quad)
    - a buffer and its length, or a view; the function returns the result or writes it through a
      pointer (generic_filter)
    - two buffers or views (generic_filter1d)
    - output and input coordinates (geometric_transform)

    Return an empty list if none of these fits.
    """
    args = list(signature.args)
    if signature.variadic:
        return []
    has_data = takes_data(signature) and (data or args[-1].kind == "voidptr")
    if has_data:
        del args[-1]
    elif data:
        return []
    if signature.result.kind == "float":
        several = _NQUAD_DATA if has_data else _NQUAD
        if args and all(map(_is_float, args)):
            # Convert to doubles by value first: only these can be read from an array afterwards.
            numbers = f"d:{'d' * len(args)}{'P' if has_data else ''}"
            return [numbers] if len(args) == 1 else [numbers, several]
        if _are(args, "int", "d"):
            return [several]
        return [_FILTER] if _are(args, "d", "int") or _views(args) == 1 else []
    if signature.result.kind not in ("void", "int"):
        return []
    if _are(args, "d", "int", "d") or (_views(args[:1]) == 1 and _are(args[1:], "d")):
        return [_FILTER]
    if _are(args, "d", "int", "d", "int") or _views(args) == 2:
        return [_FILTER1D]
    index = parse("v:n").text[-1]
    return [_TRANSFORM] if _are(args, index, "d", "int", "int") else []


def _is_float(ctype: CType) -> bool:
    """Return whether an argument is a real number, by value or (as in Fortran) by reference."""
    return ctype.kind == "float" or (isinstance(ctype, Pointer) and ctype.pointee.kind == "float")


def _are(args: Sequence[CType], *wanted: str) -> bool:
    """Return whether arguments match: "int" is any integer, another text is a pointer's target."""
    found = ["int" if arg.kind == "int" else arg.text for arg in args]
    return found == ["int" if what == "int" else f"&{what}" for what in wanted]


def _views(args: Sequence[CType]) -> int:
    """Return the number of arguments if all are views of doubles; else 0."""
    return len(args) if all([arg.text == "[1]d" for arg in args]) else 0


# -- user data -----------------------------------------------------------------------------------


def _user_data(value: object, ctype: CType, readonly: bool) -> object:
    """Return a capsule for SciPy that keeps its target alive, or None for NULL.

    The value is checked like an argument of type `ctype`.
    """
    if type(value).__name__ == "PyCapsule":
        if _has_function(value):
            raise TypeError("'user_data' is a capsule that holds a function, not data")
        return value
    cif = callinterface.of_argument(ctype, readonly=readonly)
    pin = _ext.pin(cif, "'user_data'", -1, value)
    # SciPy rejects a capsule of NULL. Test the address, which an empty buffer may have, too.
    return _ext.capsule(pin.address, b"void *", pin) if pin.address else None
