"""callback.h: what is native in an object, with which flags, and what is refused."""

import ctypes
import importlib
import subprocess
import sys

import pytest

import nativecall as nc
from support.capsules import capsule, set_context
from support.erf import ERF, NATIVE, PYTHON, box_native, ctypes_erf
from support.headers import events

OWN_WORD = ("native", "view", "overloaded", "capsule", "scipy_ctypes", "scipy_numba", "to_scipy")
THROUGH_PYTHON = ("ctypes", "ctypes_library", "cffi", "cffi_api", "numba", "ufunc")
ACCEPTED = "'double (double)', 'double (double, void *)'"


@pytest.mark.parametrize("name", OWN_WORD)
@pytest.mark.parametrize("holds", [True, False])
def test_native_functions_give_the_integral_without_a_python_call(c, name, holds):
    f = NATIVE[name]()
    options = c.HOLDS_GIL if holds else c.TRUSTS_NAMES
    value, native, matched = c.integrate(f, 0.0, 1.0, 100, "pd", options)
    assert value == pytest.approx(ERF, rel=1e-14)
    assert (native, matched) == (True, 0)
    few = events(lambda: c.integrate(f, 0.0, 1.0, 1, "pd", options))
    assert events(lambda: c.integrate(f, 0.0, 1.0, 5000, "pd", options)) == few
    assert c.integrate(f, 0.0, 1.0, 100, "cp", options | c.NATIVE_ONLY)[1:] == (True, 1)


@pytest.mark.parametrize("name", THROUGH_PYTHON)
def test_other_boxes_are_called_by_python_unless_they_are_wrapped(c, name):
    f = NATIVE[name]()
    assert c.integrate(f) == (pytest.approx(ERF), False, 0)
    assert c.integrate(nc.wrap(f)) == (pytest.approx(ERF), True, 0)


@pytest.mark.parametrize("name", PYTHON)
@pytest.mark.parametrize("holds", [True, False])
def test_python_callables_give_the_integral(c, name, holds):
    f = PYTHON[name]()
    options = c.HOLDS_GIL if holds else 0
    value, native, _ = c.integrate(f, 0.0, 1.0, 100, "pd", options)
    assert (value, native) == (pytest.approx(ERF, rel=1e-14), False)


def test_a_profiler_does_see_calls_of_python(c):
    f = PYTHON["function"]()
    few = events(lambda: c.integrate(f, 0.0, 1.0, 1))
    assert events(lambda: c.integrate(f, 0.0, 1.0, 100)) >= few + 99


IMPORTS = """
import ctypes, datetime, functools, sys
sys.path.insert(0, sys.argv[1])
import bundled_c as c
before = set(sys.modules)
pointer = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(abs)
for f in (abs, lambda x: x, functools.partial(abs), pointer):
    c.integrate(f)
try:
    c.integrate(datetime.datetime_CAPI)
except ValueError:
    print(set(sys.modules) - before)
"""


def test_nothing_is_imported(bundles):
    shown = subprocess.check_output([sys.executable, "-c", IMPORTS, str(bundles)], text=True)
    assert shown == "set()\n"


# -- user data -----------------------------------------------------------------------------------


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
    made = scipy.LowLevelCallable(ctypes_erf(), ctypes.c_void_p(1234))
    bare = capsule(b"double (double)")
    set_context(bare, 1234)
    for box in (made, bare):
        with fails(
            ValueError,
            f"the function in {box!r} is 'double (double)' with user data; "
            f"it must be one of {ACCEPTED}",
        ):
            c.integrate(box)


def test_a_function_without_user_data_does_not_fit_a_signature_with_it(c):
    f = box_native()
    with pytest.raises(
        TypeError, match=r"no native function for 'double \(double, void \*\)' in <"
    ):
        c.integrate(f, 0, 1, 1, "d", c.NATIVE_ONLY)
    # But any callable can be called through Python.
    assert c.integrate(f, 0, 1, 100, "d")[1:] == (False, 0)


def test_the_order_of_the_accepted_signatures_decides(c, more):
    f = nc.wrap({"d:i&d": ctypes.cast(more.first, ctypes.c_void_p).value, "d:d": box_native()})
    assert c.integrate(f, 0, 1, 100, "cp") == (0.5, True, 0)
    assert c.integrate(f, 0, 1, 100, "pc")[1:] == (True, 0)
    assert c.integrate(f, 0, 1, 100, "fc") == (0.5, True, 1)


# -- flags ---------------------------------------------------------------------------------------


def test_entries_that_need_the_gil(c):
    f = nc.wrap(box_native(), gil="need")
    assert c.integrate(f, 0, 1, 100, "p", c.HOLDS_GIL)[:2] == (pytest.approx(ERF), True)
    assert c.integrate(f, 0, 1, 100, "p", 0)[:2] == (pytest.approx(ERF), False)
    assert c.integrate(f, 0, 1, 100, "p", c.TRUSTS_NAMES)[1] is False
    with pytest.raises(TypeError, match="and Python functions are not accepted here"):
        c.integrate(f, 0, 1, 1, "p", c.NATIVE_ONLY)


def test_entries_that_report_failures(c):
    f = nc.wrap(nc.load("m").address("erf"), "d:d", errno=True, errors="errno")
    assert not c.integrate(f, 0, 1, 100, "p", c.HOLDS_GIL)[1]
    assert c.integrate(f, 0, 1, 100, "p", c.HOLDS_GIL | c.CHECKS_ERRORS)[1]


def test_a_name_does_not_tell_whether_the_function_needs_the_gil(c, fails):
    for name in ("capsule", "scipy_ctypes"):
        box = NATIVE[name]()
        assert c.integrate(box, 0, 1, 100, "p", c.TRUSTS_NAMES)[1] is True
        with fails(
            ValueError,
            f"the function in {box!r} is 'double (double)', which may need the GIL but would be "
            "called without it; it must be one of 'double (double)'",
        ):
            c.integrate(box, 0, 1, 1, "p", 0)


def test_a_subclass_that_overrides_call_has_no_entries(c, provider):
    base = provider.Base
    derived = type(base)("Sub", (base,), {"__call__": lambda self, x: 1.0})
    assert c.integrate(base(), 0, 1, 1, "p", c.NATIVE_ONLY)[1:] == (True, 0)
    assert c.integrate(derived()) == (1.0, False, 0)


# -- names and bad input -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declaration", "signature"),
    [
        ("double (double)", "d:d"),
        ("double f(double x)", "d:d"),
        ("double(double,void*)", "d:dP"),
        ("int (double *, npy_intp, double *, void *)", "i:&dq&dP"),
        ("void (void)", "v:"),
        ("int ()", "i:"),
        ("unsigned long long int (const char *s, unsigned char x[3])", "Q:&b&B"),
        ("long unsigned int (long long, signed char, short int)", "Q:qbh"),
        ("double complex (complex double *, float _Complex)", "Zd:&ZdZf"),
        ("__pyx_t_double_complex (__pyx_t_float_complex)", "Zd:Zf"),
        ("double (struct thing *const, thing **restrict out)", "d:P&P"),
        ("PyObject *(PyObject *, void **, PyObject **)", "O:O&P&O"),
        ("size_t (uint8_t, int16_t, bool, _Bool *)", "Q:Bh?&?"),
        *[(name, None) for name in ("", "double", "double (", "double (double", "d:d", "(int)")],
        *[(name, None) for name in ("double (double,)", "double (,double)", "int (int) x")],
        *[(name, None) for name in ("double (double double)", "double (thing)", "thing (int)")],
        *[(name, None) for name in ("double (void, int)", "void (int, void)", "int (int, ...)")],
        *[(name, None) for name in ("double (double (*)(double))", "double (void x, int)", "[")],
        *[(name, None) for name in ("complex (int)", "PyObject (int)", "int (int [", "\x80 (int)")],
        *[(name, None) for name in ("unsigned double (int)", "short long (int)", "int (int))")],
    ],
)
def test_signatures_of_declarations(c, declaration, signature):
    assert c.signature(declaration) == signature


def test_names_are_compared_by_what_they_declare(c):
    address = nc.load("m").address("erf")
    for name in (b"double (double)", b"double f(double x)", b"double(const double)"):
        assert c.integrate(capsule(name, address)) == (pytest.approx(ERF), True, 0)


def test_unrelated_objects(c, fails):
    for obj in (None, 1.5, "cos", (1, 2, 3), [], object(), type("Tuple", (tuple,), {})((1,))):
        with fails(
            TypeError,
            "a callback must be a callable, a LowLevelCallable or a capsule with a function for "
            f"{ACCEPTED} (got {obj!r})",
        ):
            c.integrate(obj)
    with fails(
        TypeError,
        f"no native function for 'double (double)' in {len!r}, and Python functions are not "
        "accepted here",
    ):
        c.integrate(len, 0, 1, 1, "p", c.NATIVE_ONLY)


def test_capsules_that_do_not_fit(c, fails):
    for name in (b"double (float)", None, b"numpy._ARRAY_API", b"double (" + 600 * b"double, "):
        made = capsule(name)
        shown = "" if name is None else name.decode()
        with fails(
            ValueError, f"the function in {made!r} is '{shown}'; it must be one of {ACCEPTED}"
        ):
            c.integrate(made)


def test_a_declaration_of_the_consumer_that_is_none(c, fails):
    with fails(
        SystemError,
        "'double' is not a C function declaration such as \"double (double, void *)\"",
    ):
        c.integrate(len, 0, 1, 1, "x")


def test_static_types(c):
    assert c.integrate(c.StaticType()) == (pytest.approx(0.25, abs=1e-4), True, 0)
    with pytest.raises(TypeError, match="Python functions are not accepted here"):
        c.integrate(c.StaticType(), 0, 1, 1, "d", c.NATIVE_ONLY)
