"""callback.h: what native code is found in every box, with which flags, and what is refused."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib

import pytest

import nativecall as nc
from nativecall import _lib
from nativecall._types.ctype import scalar
from support.capsules import capsule
from support.erf import (
    ERF,
    NATIVE,
    PYTHON,
    box_cython_special,
    box_native,
    ctypes_erf,
    libm,
)
from support.headers import events

CHAR = scalar("c").text


# -- every box -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("holds", [True, False])
def test_native_boxes_give_the_integral_without_a_python_call(c, name, holds):
    f = NATIVE[name]()
    options = c.HOLDS_GIL if holds else 0
    value, native, matched = c.integrate(f, 0.0, 1.0, 100, "pd", options)
    assert value == pytest.approx(ERF, rel=1e-14)
    assert (native, matched) == (True, 0)
    few = events(lambda: c.integrate(f, 0.0, 1.0, 1, "pd", options))
    # The package may run Python code to read the box, once; 4999 calls would be as many events.
    assert events(lambda: c.integrate(f, 0.0, 1.0, 5000, "pd", options)) < few + 1000
    # The third position is a signature that only native functions fit.
    assert c.integrate(f, 0.0, 1.0, 100, "cn", options)[1:] == (True, 1)


@pytest.mark.parametrize("name", PYTHON)
@pytest.mark.parametrize("which", ["p", "d", "f", "pd"])
@pytest.mark.parametrize("holds", [True, False])
def test_python_callables_give_the_integral_through_a_thunk(c, name, which, holds):
    f = PYTHON[name]()
    options = c.HOLDS_GIL if holds else 0
    value, native, matched = c.integrate(f, 0.0, 1.0, 100, which, options)
    assert value == pytest.approx(ERF, rel=1e-14)
    # With user_data no slot is needed, so that signature comes first.
    assert (native, matched) == (False, which.find("d") if "d" in which else 0)


def test_a_profiler_does_see_calls_of_python(c):
    f = PYTHON["function"]()
    few = events(lambda: c.integrate(f, 0.0, 1.0, 1))
    assert events(lambda: c.integrate(f, 0.0, 1.0, 100)) >= few + 99


def test_thunks_written_out(c):
    before = c.cost_calls()
    assert c.integrate(lambda x: x[0] + len(x), 0, 1, 50, "c") == (1.5, False, 0)
    assert c.integrate(lambda x: x[0] + len(x), 0, 1, 50, "C") == (1.5, False, 0)
    assert c.cost_calls() == before + 100
    with pytest.raises(TypeError, match=r"^must be real number, not str$"):
        c.integrate(lambda x: "x", 0, 1, 50, "c")
    with pytest.raises(
        SystemError, match=r"^the call of <.*> failed without setting an exception$"
    ):
        c.integrate(lambda x: x, 0, 1, 50, "s")


def test_user_data_of_a_low_level_callable(c, more):
    scipy = importlib.import_module("scipy")
    number = ctypes.c_double(8.0)
    data = ctypes.cast(ctypes.pointer(number), ctypes.c_void_p)
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_void_p)
    made = scipy.LowLevelCallable(kind(("with_data", more)), data)
    assert c.integrate(made, 0, 1, 100, "pd") == (4.0, True, 1)
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_double)
    made = scipy.LowLevelCallable(kind(("data_first", more)), data)
    assert c.integrate(made, 0, 1, 100, "pdf") == (4.0, True, 2)
    # Without user data the argument is NULL.
    made = scipy.LowLevelCallable(kind(("data_first", more)))
    assert c.integrate(made, 0, 1, 100, "pdf") == (-2.0, True, 2)


def test_user_data_is_never_dropped(c, fails):
    scipy = importlib.import_module("scipy")
    data = ctypes.c_void_p(1234)
    made = scipy.LowLevelCallable(ctypes_erf(), data)
    with fails(
        TypeError,
        "no function for 'd:d', 'd:dP' with user_data as argument 2 in "
        f"{made!r}; it offers 'd:d' with user_data",
    ):
        c.integrate(made)


def test_a_function_without_user_data_does_not_fit_a_signature_with_it(c, fails):
    f = box_native()
    with fails(
        TypeError,
        f"no function for 'd:dP' with user_data as argument 2 in {f!r}; it offers 'd:d'",
    ):
        c.integrate(f, 0, 1, 1, "?")
    # But any callable can be called through Python.
    assert c.integrate(f, 0, 1, 100, "d")[1:] == (False, 0)
    capsule = f.to_capsule("d:d")
    with pytest.raises(TypeError, match=r"it offers 'd:d'$"):
        c.integrate(capsule, 0, 1, 1, "d")


def test_the_order_of_the_accepted_signatures_decides(c, more):
    f = nc.wrap({"d:i&d": ctypes.cast(more.first, ctypes.c_void_p).value, "d:d": box_native()})
    assert c.integrate(f, 0, 1, 100, "cp") == (0.5, True, 0)
    assert c.integrate(f, 0, 1, 100, "pc")[1:] == (True, 0)
    assert c.integrate(f, 0, 1, 100, "fc") == (0.5, True, 1)


# -- flags ---------------------------------------------------------------------------------------


def flags_of(box):
    found, _, _ = nc._open_box(box)
    return found.entries[0].flags


def test_entries_that_need_the_gil(c):
    f = nc.wrap(box_native(), gil="need")
    assert c.integrate(f, 0, 1, 100, "p", c.HOLDS_GIL)[:2] == (pytest.approx(ERF), True)
    assert c.integrate(f, 0, 1, 100, "p", 0)[:2] == (pytest.approx(ERF), False)
    made = ctypes.PYFUNCTYPE(ctypes.c_double, ctypes.c_double)(("erf", libm()))
    # It may set an exception, which ctypes looks for after the call.
    assert flags_of(made) == _lib.FLAG_NEEDS_GIL | _lib.ERRORS["python"]
    assert c.integrate(made, 0, 1, 100, "p", c.HOLDS_GIL | c.CHECKS_ERRORS)[1]
    assert not c.integrate(made, 0, 1, 100, "p", c.HOLDS_GIL)[1]
    assert not c.integrate(made, 0, 1, 100, "p", c.CHECKS_ERRORS)[1]


def test_a_low_level_callable_has_the_flags_of_what_it_was_made_of(c, more, fails):
    """Its capsule is named by a type, and a type says nothing of the GIL."""
    scipy = importlib.import_module("scipy")
    flags = _lib.FLAG_NEEDS_GIL | _lib.ERRORS["python"]
    both = c.HOLDS_GIL | c.CHECKS_ERRORS
    kind = ctypes.PYFUNCTYPE(ctypes.c_double, ctypes.c_double)
    made = scipy.LowLevelCallable(kind(("erf", libm())))
    for box in (made, scipy.LowLevelCallable(made)):
        assert flags_of(box) == flags
        assert c.integrate(box, 0, 1, 100, "p", both)[:2] == (pytest.approx(ERF), True)
        for options, why in (
            (c.CHECKS_ERRORS, "needs the GIL, which the caller does not hold"),
            (c.HOLDS_GIL, "reports failures, which the caller does not look for"),
        ):
            with fails(TypeError, f"no function for 'd:d' in {box!r}; it offers 'd:d' ({why})"):
                c.integrate(box, 0, 1, 1, "p", options)
    number = ctypes.c_double(8.0)
    data = ctypes.cast(ctypes.pointer(number), ctypes.c_void_p)
    kind = ctypes.PYFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_void_p)
    made = scipy.LowLevelCallable(kind(("with_data", more)), data)
    assert flags_of(made) == flags
    assert c.integrate(made, 0, 1, 100, "pd", both) == (4.0, True, 1)
    # All others say nothing.
    for name in ("scipy_ctypes", "scipy_cython", "scipy_numba", "to_scipy"):
        assert flags_of(NATIVE[name]()) == 0, name


def test_entries_that_report_failures(c):
    f = nc.wrap(nc.load("m").address("erf"), "d:d", errno=True, errors="errno")
    assert not c.integrate(f, 0, 1, 100, "p", c.HOLDS_GIL)[1]
    assert c.integrate(f, 0, 1, 100, "p", c.HOLDS_GIL | c.CHECKS_ERRORS)[1]


def test_messages_say_why_an_entry_was_passed_over(c, fails):
    address = nc.load("m").address("erf")
    gil = "needs the GIL, which the caller does not hold"
    errors = "reports failures, which the caller does not look for"
    both = (
        "needs the GIL, which the caller does not hold, and reports failures, which it does not "
        "look for"
    )
    python = ctypes.PYFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)
    needs = nc.wrap(address, "d:d", gil="need")
    reports = nc.wrap(address, "d:d", errno=True, errors="errno")
    cases = [
        (needs, c.CHECKS_ERRORS, gil),
        (needs.builtin, 0, gil),
        (reports, c.HOLDS_GIL, errors),
        (python, c.CHECKS_ERRORS, gil),
        (python, c.HOLDS_GIL, errors),
        (python, 0, both),
    ]
    for f, options, why in cases:
        message = f"no function for 'd:d' in {f!r}; it offers 'd:d' ({why})"
        with fails(TypeError, message):
            c.integrate(f, 0, 1, 1, "n", options)
    offering = type("T", (), {"__nativecall_api__": c.api(0), "__repr__": lambda self: "T"})()
    offers = f"'f:f', 'd:d', 'd:i&d' ({gil}), 'i:i' (has no function yet)"
    for letter, signature in [("v", "d:i&d"), ("i", "i:i")]:
        with fails(TypeError, f"no function for '{signature}' in T; it offers {offers}"):
            c.integrate(offering, 0, 1, 1, letter, 0)


def test_names_may_be_distrusted(c, fails):
    """A capsule's name does not tell whether the function needs the GIL or sets exceptions."""
    scipy = importlib.import_module("scipy")
    options = c.HOLDS_GIL | c.DISTRUSTS_NAMES
    data = ctypes.c_void_p(1)
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_void_p)
    address = nc.load("m").address("erf")
    why = "(says a capsule's name, which the caller does not trust)"
    for made, offered in [
        (box_cython_special(), "'d:d'"),
        (scipy.LowLevelCallable(box_cython_special()), "'d:d'"),
        (scipy.LowLevelCallable(ctypes_erf()), "'d:d'"),
        (scipy.LowLevelCallable(kind(address), data), "'d:dP' with user_data"),
    ]:
        assert c.integrate(made)[1], "by default it is taken"
        with fails(
            TypeError,
            "no function for 'd:d', 'd:dP' with user_data as argument 2 in "
            f"{made!r}; it offers {offered} {why}",
        ):
            c.integrate(made, 0, 1, 1, "pd", options)
    # What tells its type itself is taken as ever, and what carries its entry.
    for name in ("native", "view", "ctypes", "cffi", "cffi_api", "numba", "capsule", "to_scipy"):
        assert c.integrate(NATIVE[name](), 0, 1, 100, "p", options)[1], name


def test_ctypes_with_errcheck_is_called_through_python(c):
    made = ctypes_erf()
    made.errcheck = lambda result, function, arguments: 2 * result
    assert c.integrate(made, 0, 1, 100) == (pytest.approx(2 * ERF), False, 1)


def test_a_subclass_that_overrides_call_has_no_entries(c, provider):
    base = provider.Base
    derived = type(base)("Sub", (base,), {"__call__": lambda self, x: 1.0})
    assert c.integrate(base(), 0, 1, 1, "n")[1:] == (True, 0)
    assert c.integrate(derived()) == (1.0, False, 1)


# -- bad input -----------------------------------------------------------------------------------


def test_unrelated_objects(c, fails):
    for obj in (None, 1.5, "cos", (1, 2, 3), [], object()):
        with fails(
            TypeError,
            "a callback must be a callable, a LowLevelCallable or a capsule with a function for "
            f"'d:d', 'd:dP' with user_data as argument 2 (got {obj!r})",
        ):
            c.integrate(obj)
    with fails(TypeError, f"no function for 'd:d' in {len!r}; Python functions are not taken here"):
        c.integrate(len, 0, 1, 1, "n")


def test_capsules_that_do_not_fit(c, fails):
    made = capsule(b"double (float)")
    with fails(
        TypeError,
        f"no function for 'd:d', 'd:dP' with user_data as argument 2 in {made!r}; it offers 'd:f'",
    ):
        c.integrate(made)
    why = "it does not tell its type; nativecall.wrap(it, signature) does"
    for name in (None, b"numpy._ARRAY_API"):
        made = capsule(name)
        with fails(
            TypeError,
            f"no function for 'd:d' in {made!r}; it offers a function whose signature is unknown "
            f"({why})",
        ):
            c.integrate(made, 0, 1, 1, "p")


def test_null_pointers(c):
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    with pytest.raises(ValueError, match=r"is a function pointer that is NULL$"):
        c.integrate(kind())
    ffi = importlib.import_module("cffi").FFI()
    with pytest.raises(ValueError, match=r"is a function pointer that is NULL$"):
        c.integrate(ffi.cast("double(*)(double)", 0))
    with pytest.raises(SystemError, match=r"^nc_callback_prepare was given NULL for an object$"):
        c.no_object()


def test_ctypes_without_argtypes_is_called_through_python(c):
    erf = ctypes.CDLL(ctypes.util.find_library("m")).erf
    erf.restype = ctypes.c_double
    with pytest.raises(ctypes.ArgumentError):
        c.integrate(erf)
    with pytest.raises(TypeError, match=r"signature is unknown \(it does not tell its type;"):
        c.integrate(erf, 0, 1, 1, "n")


def test_foreign_attributes_that_raise(c):
    class Wrong(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)):
        _flags_ = 1

        @property
        def argtypes(self):
            raise KeyError("argtypes")

    with pytest.raises(KeyError, match="argtypes"):
        c.integrate(Wrong(("erf", libm())))


def test_a_signature_of_the_consumer_that_is_none(c, fails):
    with fails(
        ValueError,
        "'double', which a callback may have, is no signature in canonical form: unexpected "
        "character at column 2",
    ):
        c.integrate(len, 0, 1, 1, "x")


def test_types_under_construction_and_static_ones(c):
    with pytest.raises(TypeError, match=r"\(got <raw object at 0x[0-9a-f]+>\)$"):
        c.unfinished()
    assert c.integrate(c.StaticType()) == (pytest.approx(0.25, abs=1e-4), True, 0)
    with pytest.raises(TypeError, match=r"it offers 'f:f', 'd:d', 'd:i&d', 'i:i' \(.*\)$"):
        c.integrate(c.StaticType(), 0, 1, 1, "?")
