"""callback.h: any callable as a C function pointer, in real extension modules.

The modules are built as C99 and as C++11, against the installed headers and against a vendored
copy of them; the vendored ones also run in processes where the package is absent. How often a
failing callback is repeated is `NATIVECALL_TEST_REPEAT`, 10^4 if it is not set.
"""

from __future__ import annotations

import _thread
import ctypes
import ctypes.util
import functools
import gc
import importlib
import math
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import traceback
import types
import weakref

import pytest

import nativecall as nc
from nativecall import _lib
from nativecall._signature.ctype import scalar
from support import build

CHAR = scalar("c").text
REPEAT = int(os.environ.get("NATIVECALL_TEST_REPEAT", "10000"))
FAILED = -12345.0
# 3.12 limits recursion through C at compile time, whatever sys.setrecursionlimit() says.
LEVELS = 200 if sys.version_info[:2] == (3, 12) else 1000
# The integral of erf from 0 to 1 by the midpoint rule with 100 points.
ERF = sum(math.erf((i + 0.5) / 100) for i in range(100)) / 100
HEADERS = [
    "callback.h",
    "detail/callbackcalls.h",
    "detail/callbackfunctions.h",
    "detail/values.h",
    "detail/box.h",
    "detail/boxes.h",
    "detail/boxctypes.h",
    "detail/boxcffi.h",
    "detail/declaration.h",
    "detail/typenames.h",
    "nativeapi.h",
]


@pytest.fixture(scope="session")
def vendored_headers(include, tmp_path_factory):
    copy = tmp_path_factory.mktemp("bundle")
    shutil.copytree(include / "nativecall", copy / "nativecall")
    return copy


@pytest.fixture(scope="session", params=["c99", "c++11"])
def c(request, builder, include):
    """The module of tests/ext/callback_consumer.c."""
    language = {"c99": "c", "c++11": "c++"}[request.param]
    name = {"c": "callback_c", "c++": "callback_cpp"}[language]
    return build.load_extension(
        builder.extension("callback_consumer.c", name, include=include, language=language)
    )


def python_erf(x):
    """A Python function; what is native and what is not shows by whether it runs."""
    return math.erf(x)


def libm():
    return ctypes.CDLL(ctypes.util.find_library("m"))


def ctypes_erf():
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(("erf", libm()))


# -- the headers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("standard", ["c99", "c11", "c++11"])
@pytest.mark.parametrize("command", ["gcc", "clang"])
def test_every_header_alone_and_twice(include, tmp_path, command, standard):
    language = "c++" if standard.startswith("c++") else "c"
    names = {"gcc": ["gcc"], "clang": ["clang", "clang-14"]}[command]
    found = next((name for name in names if shutil.which(name)), None)
    if found is None:
        pytest.skip(f"no {command}")
    for header in HEADERS:
        source = tmp_path / "alone.c"
        line = f"#include <nativecall/{header}>\n"
        source.write_text(line + line)
        includes = [f"-I{include}", "-isystem", sysconfig.get_path("include")]
        done = subprocess.run(
            [found, f"-std={standard}", "-x", language, *build.WARNINGS, *includes]
            + ["-fsyntax-only", str(source)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{header}: {done.stderr}"
        lines = (include / "nativecall" / header).read_text().splitlines()
        assert len(lines) < 500, header


# -- every box -------------------------------------------------------------------------------------


def box_native():
    return nc.load("m").function("erf", "d:d")


def box_view():
    return box_native().builtin


def box_overloaded():
    return nc.wrap({"f:f": nc.load("m").address("erff"), "d:d": nc.load("m").address("erf")})


def box_ctypes():
    return ctypes_erf()


def box_ctypes_library():
    erf = libm().erf
    erf.argtypes, erf.restype = [ctypes.c_double], ctypes.c_double
    return erf


def box_capsule():
    return box_native().to_capsule("d:d")


def box_cffi():
    ffi = importlib.import_module("cffi").FFI()
    ffi.cdef("double erf(double);")
    return ffi.dlopen(ctypes.util.find_library("m")).erf


def box_cffi_cast():
    ffi = importlib.import_module("cffi").FFI()
    return ffi.gc(ffi.cast("double (*)(double)", nc.load("m").address("erf")), lambda _: None)


@functools.cache
def api_module():
    cffi = importlib.import_module("cffi")
    importlib.import_module("setuptools")
    import tempfile

    ffi = cffi.FFI()
    ffi.cdef("double erf(double); int twice(int);")
    ffi.set_source("_callback_cffi", "#include <math.h>\nstatic int twice(int x) { return 2 * x; }")
    place = tempfile.mkdtemp()
    ffi.compile(place)
    sys.path.insert(0, place)
    try:
        import _callback_cffi
    finally:
        sys.path.remove(place)
        shutil.rmtree(place)
    return _callback_cffi


def box_cffi_api():
    return api_module().lib.erf


def box_cffi_addressof():
    module = api_module()
    return module.ffi.addressof(module.lib, "erf")


@functools.cache
def box_numba():
    numba = importlib.import_module("numba")
    return numba.cfunc("float64(float64)")(python_erf)


def box_cython_special():
    module = importlib.import_module("scipy.special.cython_special")
    capsule = module.__pyx_capi__["__pyx_fuse_1erf"]
    assert "__pyx_skip_dispatch" in repr(capsule)
    return capsule


def box_scipy_ctypes():
    return importlib.import_module("scipy").LowLevelCallable(ctypes_erf())


def box_scipy_cython():
    scipy = importlib.import_module("scipy")
    return scipy.LowLevelCallable(box_cython_special())


def box_scipy_numba():
    return importlib.import_module("scipy").LowLevelCallable(box_numba().ctypes)


def box_to_scipy():
    importlib.import_module("scipy")
    return box_native().to_scipy()


NATIVE = {name[4:]: make for name, make in list(globals().items()) if name.startswith("box_")}


def python_jitted():
    return importlib.import_module("numba").njit(python_erf)


def python_ufunc():
    return importlib.import_module("scipy.special").erf


PYTHON = {
    "function": lambda: python_erf,
    "builtin": lambda: math.erf,
    "partial": lambda: functools.partial(python_erf),
    "method": lambda: types.MethodType(lambda self, x: python_erf(x), object()),
    "jitted": python_jitted,
    "ufunc": python_ufunc,
}


def profiled(work):
    """How many events a profiler sees during `work()`: one for each call of Python or into C."""
    events = []
    sys.setprofile(lambda frame, event, argument: events.append(event))
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(events)


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("holds", [True, False])
def test_native_boxes_give_the_integral_without_a_python_call(c, name, holds):
    f = NATIVE[name]()
    options = c.HOLDS_GIL if holds else 0
    value, native, matched = c.integrate(f, 0.0, 1.0, 100, "pd", options)
    assert value == pytest.approx(ERF, rel=1e-14)
    assert (native, matched) == (True, 0)
    few = profiled(lambda: c.integrate(f, 0.0, 1.0, 1, "pd", options))
    assert profiled(lambda: c.integrate(f, 0.0, 1.0, 5000, "pd", options)) == few
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


@pytest.fixture(scope="module")
def integrator(tmp_path_factory):
    """The module of examples/integrator, built by its setup.py."""
    built = tmp_path_factory.mktemp("integrator")
    places = ["--build-lib", str(built), "--build-temp", str(built / "temp")]
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", *places],
        cwd=build.EXT.parent.parent / "examples" / "integrator",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (path,) = built.glob("numerics*")
    return build.load_extension(path)


# The integral of erf from 0 to 1 in closed form.
ERF_0_1 = math.erf(1.0) + (math.exp(-1.0) - 1.0) / math.sqrt(math.pi)


@pytest.mark.parametrize("name", [*NATIVE, *PYTHON])
def test_all_go_through_the_example_integrator(integrator, name):
    """The same integral, and no call of Python but for what has nothing native in it."""
    f = {**NATIVE, **PYTHON}[name]()
    value, native = integrator.integrate(f, 0.0, 1.0, 500)
    assert value == pytest.approx(ERF_0_1, rel=1e-13)
    assert native == (name in NATIVE)
    few = profiled(lambda: integrator.integrate(f, 0.0, 1.0, 1))
    many = profiled(lambda: integrator.integrate(f, 0.0, 1.0, 500))
    if native:
        assert many == few
    elif name == "function":
        assert many >= few + 2 * 499, "2n + 1 points, an event for each at least"


def test_a_profiler_does_see_calls_of_python(c):
    f = PYTHON["function"]()
    few = profiled(lambda: c.integrate(f, 0.0, 1.0, 1))
    assert profiled(lambda: c.integrate(f, 0.0, 1.0, 100)) >= few + 99


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


NATIVE_D_I_PD = """
double first(int n, double *x) { return n * x[0]; }
double with_data(double x, void *data) { return data ? x * *(double *)data : -1.0; }
double data_first(void *data, double x) { return data ? x * *(double *)data : -2.0; }
int by_int(int x);
int by_int(int x) { return x; }
"""


@pytest.fixture(scope="session")
def more(builder):
    """A library with functions that take user_data."""
    text = NATIVE_D_I_PD
    for line in text.strip().splitlines():
        if line.startswith("double"):
            text = line.partition("{")[0].strip() + ";\n" + text
    return ctypes.CDLL(str(builder.library(text, "callback_callees")))


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


# -- flags -----------------------------------------------------------------------------------------


def test_entries_that_need_the_gil(c):
    f = nc.wrap(box_native(), gil="need")
    assert c.integrate(f, 0, 1, 100, "p", c.HOLDS_GIL)[:2] == (pytest.approx(ERF), True)
    assert c.integrate(f, 0, 1, 100, "p", 0)[:2] == (pytest.approx(ERF), False)
    made = ctypes.PYFUNCTYPE(ctypes.c_double, ctypes.c_double)(("erf", libm()))
    # It may set an exception, which ctypes looks for after the call.
    assert c.box(made)[4] == _lib.FLAG_NEEDS_GIL | _lib.ERRORS["python"]
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
        assert c.box(box)[4] == flags
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
    assert c.box(made)[4] == flags
    assert c.integrate(made, 0, 1, 100, "pd", both) == (4.0, True, 1)
    # All others say nothing.
    for name in ("scipy_ctypes", "scipy_cython", "scipy_numba", "to_scipy"):
        assert c.box(NATIVE[name]())[4] == 0, name


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


# -- what the boxes say ----------------------------------------------------------------------------

DECLARATIONS = {
    "double (double)": "d:d",
    "double (double, void *)": "d:dP",
    "double(*)(double)": "d:d",
    "double (*)(int, double *)": "d:i&d",
    "double cos(double x);": "d:d",
    "int (double *, intptr_t, double *, intptr_t, void *)": "i:&dq&dqP",
    "int (npy_intp *, double *, int, int, void *)": "i:&q&diiP",
    "void (void)": "v:",
    "void ()": "v:",
    "char *(const char *, char const *const)": f"&{CHAR}:&{CHAR}&{CHAR}",
    "unsigned (unsigned long int, long unsigned, unsigned long long int)": "I:QQQ",
    "signed char (unsigned char, short, unsigned short int, int short)": "b:BhHh",
    "long double (float, long double, double long)": "g:fgg",
    "_Bool (bool)": "?:?",
    "float _Complex (double _Complex, complex double, long double complex)": "Zf:ZdZdZg",
    "double (double, int __pyx_skip_dispatch)": "d:d",
    "__pyx_t_double_complex (__pyx_t_double_complex, int __pyx_skip_dispatch)": "Zd:Zd",
    "__pyx_t_float_complex (__pyx_t_float_complex *)": "Zf:&Zf",
    "__pyx_t_5scipy_6linalg_11cython_blas_d (__pyx_t_5scipy_6linalg_11cython_blas_z *)": "d:&Zd",
    "__pyx_t_5numpy_float64_t (__pyx_t_5numpy_int32_t, __pyx_t_5numpy_intp_t)": "d:iq",
    "int (struct foo *, union bar *, FILE *, enum e)": "i:PPPi",
    "int (const char *, ...)": f"i:&{CHAR}.",
    "PyObject *(PyObject *, Py_ssize_t)": "O:Oq",
    "void (double [], double x[3], int **)": "v:&d&d&&i",
    "double (double (*)(double, void *), void (*callback)(int), size_t)": "d:X{d:dP}X{v:i}Q",
    "float64 (float64, int32*, void*)": "d:d&iP",
    "uint8_t (uint16_t, uint32_t, uint64_t, int8_t)": "B:HIQb",
    "\tdouble\n(\n double\t)  ": "d:d",
}


@pytest.mark.parametrize("text", DECLARATIONS)
def test_declarations(c, text):
    if sys.platform == "linux" and ctypes.sizeof(ctypes.c_long) == 8:
        assert c.declared(text) == DECLARATIONS[text]
    else:
        assert c.declared(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        *["", "d", "double", "double (", "double )", "double (double", "double (double))"],
        *["double (double,)", "double (,double)", "double (double double)", "foo (int)"],
        *["int (foo)", "int (struct foo)", "double (float double)", "short long (int)"],
        *["double (double) x", "long long long (int)", "unsigned double (int)", "d:d"],
        *["arbitrary.name", "void (void, int)", "int (...", "int (..)", "int (void x, int)"],
        *["double (double (*)(double)", "double (double (*)", "int (__pyx_t_9)"],
        *["int (__pyx_t_99999999999999999999_x)", "int (int [)", "(int)", "*(int)", "\x80 (int)"],
        *["double (" + "double, " * 600 + "double)", "int (" + "int (*)(" * 40 + ")" * 41],
    ],
)
def test_what_is_no_declaration(c, text):
    assert c.declared(text) is None


def test_declarations_as_the_package_reads_them(c):
    names = [text for text in DECLARATIONS if "__pyx" not in text and "complex" not in text]
    compared = 0
    for text in names:
        try:
            expected = nc.parse(text).text if hasattr(nc, "parse") else None
        except ValueError:
            expected = None
        if expected is None:
            from nativecall._signature import spelling

            try:
                expected = str(spelling.parse(text, hint="c").text)
            except ValueError:
                continue
        compared += 1
        assert c.declared(text) == expected, text
    assert compared > 10


def test_every_capsule_of_scipy_reads_as_a_declaration(c):
    for name in ("scipy.special.cython_special", "scipy.linalg.cython_blas"):
        module = importlib.import_module(name)
        for key, capsule in module.__pyx_capi__.items():
            kind, address, signature, user_data, _ = c.box(capsule)
            assert (kind, user_data) == ("a capsule", None)
            assert address != 0
            assert signature is not None, (key, capsule)
    blas = sys.modules["scipy.linalg.cython_blas"].__pyx_capi__
    assert c.box(blas["daxpy"])[2] == "v:&i&d&d&i&d&i"
    assert c.box(blas["zdotu"])[2] == "Zd:&i&Zd&i&Zd&i"


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_double))


class Packed(ctypes.Structure):
    _layout_ = "ms"  # what _pack_ means, and 3.14 wants to hear
    _pack_ = 1
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_double))


class Either(ctypes.Union):
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_double))


class Opaque(ctypes.Structure):
    pass


class Linked(ctypes.Structure):
    pass


Linked._fields_ = (("next", ctypes.POINTER(Linked)), ("value", ctypes.c_int))


@pytest.mark.parametrize(
    ("result", "arguments", "signature"),
    [
        (None, (), "v:"),
        (ctypes.c_bool, (ctypes.c_char_p, ctypes.c_void_p, ctypes.py_object), "?:&bPO"),
        (ctypes.c_double, (ctypes.POINTER(ctypes.c_double), ctypes.c_float), "d:&df"),
        (Pair, (Packed, ctypes.POINTER(Pair)), "T{id}:=T{id}&T{id}"),
        (None, (ctypes.POINTER(Opaque), ctypes.POINTER(Either)), "v:PP"),
        (None, (Either,), None),
        (ctypes.c_longdouble, (ctypes.c_size_t, ctypes.c_uint8), "g:QB"),
        (None, (ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double),), "v:X{d:d}"),
    ],
)
def test_types_of_ctypes(c, result, arguments, signature):
    made = ctypes.CFUNCTYPE(result, *arguments)(1 << 20)
    kind, address, found, _, _ = c.box(made)
    assert (kind, address) == ("a ctypes function pointer", 1 << 20)
    assert found == signature
    made = ctypes.CFUNCTYPE(None, ctypes.POINTER(Linked))(1 << 20)
    assert c.box(made)[0] == kind, "recursive types come to an end"


def test_types_of_cffi(c):
    ffi = importlib.import_module("cffi").FFI()
    ffi.cdef("typedef struct { int a; double b; } pair; typedef struct hidden hidden;")
    wide = {2: "h", 4: "i"}[ffi.sizeof("wchar_t")]
    if int(ffi.cast("wchar_t", -1)) > 0:
        wide = wide.upper()
    for text, signature in {
        "double(*)(double)": "d:d",
        "pair(*)(pair *, hidden *, hidden **)": "T{id}:&T{id}P&P",
        "void(*)(double _Complex, bool, char, unsigned char, size_t)": f"v:Zd?{CHAR}BQ",
        "int(*)(double(*)(int), char *, ...)": f"i:X{{d:i}}&{CHAR}.",
        "void(*)(uint8_t, int16_t, uint64_t, wchar_t)": f"v:BhQ{wide}",
    }.items():
        kind, address, found, _, flags = c.box(ffi.cast(text, 1 << 20))
        assert (kind, address, flags) == ("a cffi function pointer", 1 << 20, 0)
        assert found == signature, text
    for other in (ffi.new("int *"), ffi.new("double[3]"), ffi.cast("int", 3), ffi.NULL):
        assert c.box(other) is None
    kind, address, found, _, _ = c.box(api_module().lib.twice)
    assert (kind, found) == ("a cffi function pointer", "i:i")
    assert address == int(
        api_module().ffi.cast("size_t", api_module().ffi.addressof(api_module().lib, "twice"))
    )


def test_types_of_numba(c):
    numba = importlib.import_module("numba")
    signature = "float32(float64, CPointer(int32), voidptr, boolean, uint8, intp, complex128)"
    made = numba.cfunc(signature)(lambda a, b, c, d, e, f, g: numba.float32(a))
    kind, address, found, _, _ = c.box(made)
    assert (kind, address, found) == ("a Numba cfunc", made.address, "f:d&iP?BqZd")


def test_what_is_no_box(c):
    for obj in (None, 1, "x", (), (1, 2, 3), len, int, object(), box_native(), lambda: 0):
        assert c.box(obj) is None


# -- bad input -------------------------------------------------------------------------------------


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
    made = c.capsule(1 << 20, "double (float)")
    with fails(
        TypeError,
        f"no function for 'd:d', 'd:dP' with user_data as argument 2 in {made!r}; it offers 'd:f'",
    ):
        c.integrate(made)
    for name, why in {
        None: "it has no name",
        "numpy._ARRAY_API": "its name is not the C declaration of a function",
    }.items():
        made = c.capsule(1 << 20, name)
        with fails(
            TypeError,
            f"no function for 'd:d' in {made!r}; it offers a function whose signature is unknown "
            f"({why})",
        ):
            c.integrate(made, 0, 1, 1, "p")


def test_null_pointers(c):
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    with pytest.raises(ValueError, match=r"is a ctypes function pointer that is NULL$"):
        c.integrate(kind())
    ffi = importlib.import_module("cffi").FFI()
    with pytest.raises(ValueError, match=r"is a cffi function pointer that is NULL$"):
        c.integrate(ffi.cast("double(*)(double)", 0))
    with pytest.raises(SystemError, match=r"^nc_callback_prepare was given NULL for an object$"):
        c.no_object()


def test_ctypes_without_argtypes_is_called_through_python(c):
    erf = ctypes.CDLL(ctypes.util.find_library("m")).erf
    erf.restype = ctypes.c_double
    with pytest.raises(ctypes.ArgumentError):
        c.integrate(erf)
    with pytest.raises(TypeError, match=r"signature is unknown \(its argtypes are not set\)$"):
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
    with fails(ValueError, "'double', which a callback may have, is no signature: malformed input"):
        c.integrate(len, 0, 1, 1, "x")


def test_types_under_construction_and_static_ones(c):
    with pytest.raises(TypeError, match=r"\(got <raw object at 0x[0-9a-f]+>\)$"):
        c.unfinished()
    assert c.integrate(c.StaticType()) == (pytest.approx(0.25, abs=1e-4), True, 0)
    with pytest.raises(TypeError, match=r"it offers 'f:f', 'd:d', 'd:i&d', 'i:i' \(.*\)$"):
        c.integrate(c.StaticType(), 0, 1, 1, "?")


# -- types with __nativecall_api__ -----------------------------------------------------------------


def make_type(api, **more):
    members = {"__nativecall_api__": api, "__call__": lambda self, x: 7.0, **more}
    return type("Offers", (), members)


CUBE = pytest.approx(0.25, abs=1e-4)


def test_a_type_offers_entries(c):
    made = make_type(c.api(0))
    assert c.integrate(made()) == (CUBE, True, 0)
    # The class itself is an object of type `type`, and an attribute of an object is not its type's.
    assert c.integrate(lambda x: 7.0) == (7.0, False, 1)
    plain = make_type(None)()
    plain.__nativecall_api__ = c.api(0)
    assert c.integrate(plain) == (7.0, False, 1)
    # Flags are looked at even where the provider does not.
    assert c.integrate(made(), 0, 1, 1, "c", 0)[1] is False
    # A later version of the same struct will do.
    assert c.integrate(make_type(c.api(2))(), 0, 1, 100)[:2] == (0.25, True)


def test_a_subclass_inherits_unless_it_overrides_call(c):
    base = make_type(c.api(0))
    assert c.integrate(type("Sub", (base,), {})()) == (CUBE, True, 0)
    assert c.integrate(type("Sub", (base,), {"__call__": lambda self, x: 8.0})()) == (8.0, False, 1)
    assert c.integrate(type("Sub", (base,), {"__nativecall_api__": None})()) == (7.0, False, 1)
    mixin = type("Mixin", (), {"__call__": lambda self, x: 9.0})
    assert c.integrate(type("Sub", (mixin, base), {})()) == (9.0, False, 1)
    assert c.integrate(type("Sub", (base, mixin), {})()) == (CUBE, True, 0)
    assert c.integrate(type("Sub", (c.StaticType,), {})()) == (CUBE, True, 0)


def test_the_cache_sees_every_change(c):
    made = make_type(c.api(0))
    obj, sub = made(), type("Sub", (made,), {})()
    for _ in range(3):
        assert c.integrate(obj) == c.integrate(sub) == (CUBE, True, 0)
    made.__nativecall_api__ = c.api(1)
    assert c.integrate(obj) == c.integrate(sub) == (0.25, True, 0)
    del made.__nativecall_api__
    assert c.integrate(obj) == c.integrate(sub) == (7.0, False, 1)
    made.__nativecall_api__ = c.api(0)
    assert c.integrate(sub) == c.integrate(obj) == (CUBE, True, 0)
    sub.__class__ = make_type(c.api(1))
    assert c.integrate(sub) == (0.25, True, 0)


@pytest.mark.allocator
def test_types_die_and_addresses_are_used_again(c):
    seen = set()
    again = 0
    gc.collect()
    gc.freeze()  # what lives already would take most of the time
    try:
        for i in range(3000):
            made = make_type(c.api(i % 2) if i % 3 else None)
            again += id(made) in seen
            seen.add(id(made))
            expected = (CUBE if i % 2 == 0 else 0.25, True) if i % 3 else (7.0, False)
            assert c.integrate(made(), 0, 1, 100)[:2] == expected
            del made
            if i % 50 == 0:
                gc.collect()
    finally:
        gc.unfreeze()
    gc.collect()
    assert again > 0, "no address came twice, so nothing was tried"


def test_wrong_kinds_of_api(c, fails):
    for value in (c.api(0, False), 7, c.capsule(1 << 20, "double (double)")):
        with fails(
            TypeError,
            "'__nativecall_api__' of Offers must be a capsule named 'nativecall_api_v1' or None "
            f"(got {value!r})",
        ):
            c.integrate(make_type(value)())
    with pytest.raises(
        TypeError, match=r"of Offers has 8 bytes and the name 6e635f6170690001, where \d+ bytes"
    ):
        c.integrate(make_type(c.api(3))())
    with pytest.raises(
        TypeError,
        match=r"the name 6e635f6170690002, where \d+ bytes and 6e635f6170690001 are needed$",
    ):
        c.integrate(make_type(c.api(4))())
    with pytest.raises(TypeError, match=r"with a 'find' that is not NULL$"):
        c.integrate(make_type(c.api(5))())


def test_the_attribute_is_taken_as_it_stands(c, fails):
    """Neither descriptors nor metaclasses are asked, only the dictionary of the class."""
    asked = []

    class Descriptor:
        def __get__(self, obj, owner):
            asked.append(owner)
            raise LookupError("of the descriptor")

        def __repr__(self):
            return "<a descriptor>"

    class Meta(type):
        def __getattribute__(cls, name):
            asked.append(name)
            raise LookupError("of the metaclass")

    with fails(
        TypeError,
        "'__nativecall_api__' of Offers must be a capsule named 'nativecall_api_v1' or None "
        "(got <a descriptor>)",
    ):
        c.integrate(make_type(Descriptor())())
    obj = object.__new__(Meta("Offers", (), {"__nativecall_api__": c.api(0)}))
    asked.clear()
    assert c.integrate(obj) == (CUBE, True, 0)
    assert asked == []


def test_a_wrong_api_that_cannot_be_shown(c, fails):
    class Unshown:
        def __repr__(self):
            raise LookupError("of the repr")

    f = make_type(Unshown())()
    before = sys.getrefcount(f), sys.getrefcount(type(f)), sys.getrefcount(Unshown)
    for _ in range(100):
        with fails(LookupError, "of the repr"):
            c.integrate(f)
    assert (sys.getrefcount(f), sys.getrefcount(type(f)), sys.getrefcount(Unshown)) == before


def test_an_api_that_tells_no_entries(c, fails):
    """`entry`, which is for messages, may be NULL."""
    f = make_type(c.api(1))()
    with fails(
        TypeError,
        f"no function for 'd:dP' with user_data as argument 2 in {f!r}; Python functions are not "
        "taken here",
    ):
        c.integrate(f, 0, 1, 1, "?")


# -- numbers ---------------------------------------------------------------------------------------

BITS = {"char": 8, "short": 16, "int": 32, "long": 8 * ctypes.sizeof(ctypes.c_long)}
SIGNED = {
    "schar": 8,
    "short": 16,
    "int": 32,
    "long": BITS["long"],
    "longlong": 64,
    "ssize": 64,
    "int8": 8,
    "int16": 16,
    "int32": 32,
    "int64": 64,
}
UNSIGNED = {
    "uchar": 8,
    "ushort": 16,
    "unsigned": 32,
    "ulong": BITS["long"],
    "ulonglong": 64,
    "size": 64,
    "uint8": 8,
    "uint16": 16,
    "uint32": 32,
    "uint64": 64,
}
CODES = {8: "b", 16: "h", 32: "i", 64: "q"}


def same(x):
    return x


@pytest.mark.parametrize("word", [*SIGNED, *UNSIGNED])
def test_integers(c, word):
    bits = SIGNED.get(word) or UNSIGNED[word]
    code = CODES[bits] if word in SIGNED else CODES[bits].upper()
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if word in SIGNED else (0, (1 << bits) - 1)
    got = []
    for value in (0, 1, low, high, high - 1, low + 1):
        known = c.round_trip(word, lambda x: got.append(x) or x, value % (1 << 64))
        assert known == (f"{code}:{code}", True)
        assert got.pop() == value
    for value in (low - 1, high + 1, 1 << 80, -(1 << 80)):
        with pytest.raises(OverflowError, match=rf"^the result {value} does not fit in '"):
            c.round_trip(word, lambda x, value=value: value, 0)
    for value in (1.0, "1", None):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            c.round_trip(word, lambda x, value=value: value, 0)

    class Index:
        def __index__(self):
            return 5

    assert c.round_trip(word, lambda x: Index(), 5)[1]


@pytest.mark.parametrize(("word", "code"), [("double", "d"), ("float", "f"), ("longdouble", "g")])
def test_floats(c, word, code):
    assert c.round_trip(word, same, 12345) == (f"{code}:{code}", True)
    assert c.round_trip(word, int, 12345)[1]
    with pytest.raises(TypeError, match=r"^must be real number, not str$"):
        c.round_trip(word, str, 1)


def test_other_types(c):
    assert c.round_trip("boolean", same, 1) == ("?:?", True)
    assert c.round_trip("boolean", lambda x: [x], 1)[1]
    assert c.round_trip("boolean", lambda x: [], 0)[1]
    assert c.round_trip("pointer", same, 1 << 20) == ("P:P", True)
    assert c.round_trip("pointer", lambda x: x is None and x, 0)[1]
    if "cpp" not in c.__name__:
        assert c.round_trip("complex64", same, 3) == ("Zf:Zf", True)
        assert c.round_trip("complex128", same, 3) == ("Zd:Zd", True)
        with pytest.raises(TypeError):
            c.round_trip("complex128", str, 3)
    got = []
    assert c.observe(lambda *args: got.append(args) or "ignored") is None
    assert got == [(0.5, sys.maxsize * 2 + 1)]
    with pytest.raises(ZeroDivisionError):
        c.observe(lambda x, n: 1 // 0)


# -- exceptions ------------------------------------------------------------------------------------


class Custom(Exception):
    pass


@pytest.mark.parametrize(
    "raised",
    [ValueError("v"), Custom(1, 2), KeyboardInterrupt(), SystemExit(3), StopIteration(4)],
    ids=lambda raised: type(raised).__name__,
)
@pytest.mark.parametrize("which", ["p", "d", "c", "C"])
@pytest.mark.parametrize("holds", [True, False])
def test_exceptions_come_out_unchanged(c, raised, which, holds):
    calls = []

    def inner():
        raise raised

    def f(x):
        calls.append(x)
        if len(calls) == 3:
            inner()
        return 0.0

    raised.__traceback__ = None
    with pytest.raises(type(raised)) as info:
        c.integrate(f, 0, 1, 1000, which, c.HOLDS_GIL if holds else 0)
    assert info.value is raised
    assert len(calls) == 3, "nothing is called after the failure"
    names = [frame.name for frame in traceback.extract_tb(raised.__traceback__)]
    assert names[-2:] == ["f", "inner"]
    assert raised.__context__ is None
    assert raised.__cause__ is None


def test_context_and_cause(c):
    def f(x):
        try:
            raise KeyError("first")
        except KeyError as error:
            raise Custom("second") from error

    outer = LookupError("outer")

    def within():
        try:
            raise outer
        except LookupError:
            c.integrate(f)

    with pytest.raises(Custom) as info:
        within()
    assert type(info.value.__cause__) is KeyError
    assert info.value.__context__ is info.value.__cause__
    assert info.value.__context__.__context__ is outer


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.allocator
@pytest.mark.parametrize("which", ["p", "d"])
def test_exceptions_again_and_again_leak_nothing(c, which):
    raised = []

    def f(x):
        raised[:] = [Custom(x)]
        raise raised[0]

    def run(count):
        arrived = 0
        for _ in range(count):
            try:
                c.integrate(f, 0.0, 1.0, 5, which, 0)
            except Custom as error:
                frames = error.__traceback__, error.__traceback__.tb_next
                arrived += (
                    error is raised.pop()
                    and error.args == (0.1,)
                    and [frame.tb_frame.f_code for frame in frames] == codes
                    and frames[1].tb_next is None
                    and error.__context__ is error.__cause__ is None
                )
                last = weakref.ref(error)
                del frames
        assert arrived == count
        return last

    codes = [run.__code__, f.__code__]

    run(min(REPEAT, 2000))
    gc.collect()
    before = sys.getrefcount(f), sys.getrefcount(Custom), len(gc.get_objects())
    memory = resident() if sys.platform == "linux" else 0
    assert run(REPEAT)() is None
    gc.collect()
    after = sys.getrefcount(f), sys.getrefcount(Custom), len(gc.get_objects())
    assert after[:2] == before[:2]
    assert abs(after[2] - before[2]) < 50
    if sys.platform == "linux":
        assert resident() - memory < 2 << 20


@pytest.mark.allocator
@pytest.mark.parametrize("name", ["ctypes", "native", "cffi_api", "scipy_ctypes", "capsule"])
def test_preparing_again_and_again_leaks_nothing(c, name):
    f = NATIVE[name]()
    for _ in range(100):
        c.integrate(f, 0, 1, 1)
    gc.collect()
    objects, memory = sys.getrefcount(f), resident() if sys.platform == "linux" else 0
    for _ in range(REPEAT):
        c.integrate(f, 0, 1, 1)
    gc.collect()
    assert sys.getrefcount(f) == objects
    if sys.platform == "linux":
        assert resident() - memory < 2 << 20


def test_an_exception_of_the_c_code(c, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(args.exc_value))
    seen = []
    # Before the call: the callback does not see it, and it is there again afterwards.
    with pytest.raises(LookupError, match=r"^raised in C$"):
        c.pending(lambda x: seen.append(sys.exc_info()) or 0.0, True)
    assert seen == [(None, None, None)]
    with pytest.raises(LookupError, match=r"^raised in C$"):
        c.pending(lambda x: 0.0, False)
    assert unraisable == []
    # The callback's own came first, and is the one that matters; the other is not lost.
    for before in (True, False):
        with pytest.raises(ZeroDivisionError):
            c.pending(lambda x: 1 / 0, before)
    assert [str(error) for error in unraisable] == ["raised in C", "raised in C"]


# -- nested ----------------------------------------------------------------------------------------


@pytest.fixture
def deep():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.parametrize("which", ["p", "d", "pd"])
@pytest.mark.parametrize("holds", [True, False])
def test_a_thousand_deep(c, deep, which, holds):
    options = c.SCOPED | (c.HOLDS_GIL if holds else 0)
    order = []

    def descend(level):
        """A function of its own for each level: a thunk that finds another's would be seen."""

        def f(x):
            order.append(level)
            if level == LEVELS:
                return 1.0
            inner = c.integrate(descend(level + 1), 0, 1, 1, which, options)[0]
            order.append(-level)
            return inner + 1

        return f

    assert c.integrate(descend(1), 0, 1, 2, which, options)[0] == LEVELS
    once = [*range(1, LEVELS + 1), *range(1 - LEVELS, 0)]
    assert order == once * 2


def test_every_level_calls_several_callbacks(c, deep):
    """Those that share a slot with outer ones, called in turn with siblings that do so as well."""
    options = c.HOLDS_GIL | c.SCOPED

    def level(depth):
        deeper = [True]

        def first(x):
            if depth == 60 or not deeper:
                return 0.0
            deeper.clear()
            return level(depth + 1)

        def second(x):
            return depth

        def third(x):
            return 2.0 * depth

        values = c.together([second, first, third], 0.0, "p", options)
        assert values[0] == values[5] == depth
        assert values[2] == values[3] == 2 * depth
        return values[1] + 1

    assert level(1) == 60.0


def test_exceptions_through_all_levels(c, deep):
    def f(x):
        f.depth += 1
        if f.depth == 200:
            raise Custom("from the bottom")
        return c.integrate(f, 0, 1, 1, "p")[0]

    f.depth = 0
    with pytest.raises(Custom, match=r"^from the bottom$") as info:
        c.integrate(f, 0, 1, 1, "p")
    assert len(traceback.extract_tb(info.value.__traceback__)) == 201


@pytest.mark.parametrize("which", ["p", "d"])
def test_endless_recursion_is_a_recursion_error(c, which):
    def f(x):
        return c.integrate(f, 0, 1, 1, which)[0]

    with pytest.raises(RecursionError):
        c.integrate(f, 0, 1, 1, which)
    assert c.integrate(lambda x: 2.0, 0, 1, 1, which)[0] == 2.0
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL, "no slot is lost"


def test_the_pool(c, fails):
    functions = [lambda x, i=i: x + i for i in range(c.POOL + 1)]
    there = [float(i) for i in range(c.POOL)]
    message = (
        "all 16 C functions for callbacks of this signature are in use at once; the C code can "
        "lift that limit with a signature that has user_data, or with NC_CALLBACK_SCOPED"
    )
    for options in (c.HOLDS_GIL, c.HOLDS_GIL | c.SCOPED):
        assert c.together(functions[:-1], 0.0, "p", options) == there + there[::-1]
        # Siblings are all called by one function, so not even scoped ones can share.
        with fails(RuntimeError, message):
            c.together(functions, 0.0, "p", options)
    many = [lambda x, i=i: x + i for i in range(300)]
    there = [float(i) for i in range(300)]
    assert c.together(many, 0.0, "d", c.HOLDS_GIL) == there + there[::-1]

    def f(x):
        """Recursion without NC_CALLBACK_SCOPED ends at the pool's size."""
        f.depth += 1
        return c.integrate(f, 0, 1, 1, "p", c.HOLDS_GIL)[0]

    f.depth = 0
    with fails(RuntimeError, message):
        c.integrate(f, 0, 1, 1, "p", c.HOLDS_GIL)
    assert f.depth == c.POOL
    assert c.together(functions[:-1], 0.0, "p", c.HOLDS_GIL), "all slots are free again"


def test_a_kept_callback_keeps_its_function(c, deep):
    """What is not scoped is never shared, however deep others nest."""
    c.keep(lambda x: x + 0.5, "p", c.HOLDS_GIL)
    found = []

    def f(x):
        f.depth += 1
        found.append(c.call_kept(x)[0] - x)
        return x if f.depth == 100 else c.integrate(f, 0, 1, 1, "p")[0]

    f.depth = 0
    c.integrate(f, 0, 1, 1, "p")
    c.drop(True)
    assert found == [0.5] * 100


def test_no_slot_of_another_is_claimed_when_its_owner_has_gone(c, fails):
    """A scoped callback shares the slot of another thread's, which is released meanwhile."""
    full, running, released, done = (threading.Event() for _ in range(4))

    def other():
        held = [c.hold(lambda x: 1.0, c.SCOPED) for _ in range(c.POOL)]
        full.set()
        assert running.wait(30)
        for handle in held[1:]:
            assert c.call_held(handle, 0.0) == (1.0, 0)
        c.let_go(held[0])
        again = c.hold(lambda x: 2.0, c.SCOPED)
        assert c.call_held(again, 0.0) == (2.0, 0), "a scoped one of this thread may share it, too"
        c.let_go(again)
        released.set()
        assert done.wait(30)
        for handle in held[1:]:
            c.let_go(handle)

    thread = threading.Thread(target=other)
    thread.start()
    assert full.wait(30)
    values = []

    def f(x):
        if not values:
            values.append(111.0)
            running.set()
            assert released.wait(30)
            # The slot is f's alone now, but f's nevertheless.
            with fails(
                RuntimeError,
                "all 16 C functions for callbacks of this signature are in use at once; the C code "
                "can lift that limit with a signature that has user_data, or with "
                "NC_CALLBACK_SCOPED",
            ):
                c.hold(lambda x: 222.0, 0)
            inner = c.hold(lambda x: 222.0, c.SCOPED)
            values.append(c.call_held(inner, x)[0])
            c.let_go(inner)
            values.append(c.call_held(shared, x)[0])
        return 111.0

    shared = c.hold(f, c.SCOPED)
    try:
        assert c.call_held(shared, 0.5) == (111.0, 0)
        assert values == [111.0, 222.0, 111.0]
    finally:
        running.set()
        c.let_go(shared)
        done.set()
        thread.join()
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL, "no slot is lost"


def test_the_outer_of_two_that_share_a_slot_is_released_first(c):
    found = []

    def outer(x):
        inner = c.hold(shares, c.SCOPED)
        found.append(c.call_held(inner, x)[0])
        found.append(c.call_held(held[0], x)[0])
        c.let_go(inner)
        found.append(c.call_held(inner, x)[0])
        return 0.0

    def shares(x):
        if found:
            return 111.0
        c.let_go(held[0])
        for number in (222.0, 333.0):
            following = c.hold(lambda x, number=number: number, c.SCOPED)
            found.append(c.call_held(following, x)[0])
            c.let_go(following)
        return 111.0

    held = [c.hold(outer, c.SCOPED) for _ in range(c.POOL)]
    assert c.call_held(held[0], 1.0) == (0.0, 1)
    # The inner one's function is the outer one's as well, which is stopped: so the sentinel.
    assert found == [222.0, 333.0, 111.0, 111.0, FAILED]
    assert c.call_held(held[0], 1.0) == (FAILED, 1)
    with pytest.raises(RuntimeError, match=r"^a callback was released while it ran$"):
        c.let_go(held[0])
    for handle in held[1:]:
        c.let_go(handle)
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL, "no slot is lost"


# -- released while it runs ------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["p", "d"])
@pytest.mark.parametrize("options", [0, 1])
def test_a_callback_releases_itself(c, fails, which, options):
    class Function:
        def __call__(self, x):
            c.drop(False)
            return x + 1

    f = Function()
    alive = weakref.ref(f)
    before = sys.getrefcount(f)
    c.keep(f, which, options)
    assert sys.getrefcount(f) > before
    del f
    assert c.call_kept(1.0) == (2.0, 1), "this call ends well, and the C code is told to stop"
    assert alive() is None
    assert c.call_kept(1.0) == (FAILED, 1), "later ones do not reach Python"
    with fails(RuntimeError, "a callback was released while it ran"):
        c.drop(False)
    c.drop(True)


@pytest.mark.parametrize("which", ["p", "d"])
def test_a_callback_frees_itself(c, which, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(args.exc_value))

    def f(x):
        c.drop(True)
        return x + 1

    def fails_then(x):
        c.drop(True)
        raise Custom("too late")

    for _ in range(100):
        c.keep(f, which, c.HOLDS_GIL)
        assert c.call_kept(1.0) == (2.0, -1)
    c.keep(fails_then, which, c.HOLDS_GIL)
    assert c.call_kept(1.0) == (FAILED, -1)
    assert [str(error) for error in unraisable] == ["too late"]
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL


@pytest.mark.parametrize("scoped", [False, True])
def test_a_function_is_nobody_elses_before_the_second_release(c, fails, scoped):
    """C code that calls on after its callback has released itself never calls another."""
    options = c.SCOPED if scoped else 0
    others = []

    def f(x):
        c.let_go(handle)
        others.extend(c.hold(lambda x: 999.0, options) for _ in range(c.POOL - 1))
        return 1.0

    handle = c.hold(f, options)
    assert c.call_held(handle, 0.0) == (1.0, 1)
    for _ in range(3):
        assert c.call_held(handle, 0.0) == (FAILED, 1)
        c.let_go(others.pop())
        others.append(c.hold(lambda x: 999.0, options))
    with fails(
        RuntimeError,
        "all 16 C functions for callbacks of this signature are in use at once, 1 of them by "
        "callbacks that were released while they ran; the C code gives these back with a second "
        "release",
    ):
        c.hold(same, 0)
    with fails(RuntimeError, "a callback was released while it ran"):
        c.let_go(handle)
    c.let_go(handle)  # and a third release does nothing
    others.append(c.hold(lambda x: 999.0, options))
    assert [c.call_held(other, 0.0) for other in others] == [(999.0, 0)] * c.POOL
    for other in others:
        c.let_go(other)


def test_the_pointer_of_an_inner_scoped_callback_does_not_lead_to_the_outer_one(c):
    """Both are behind one function, and the inner one is released while it runs."""
    found = []

    def inner(x):
        c.let_go(nested[0])
        return 5.0

    def outer(x):
        nested.append(c.hold(inner, c.SCOPED))
        found.append(c.call_held(nested[0], x))
        found.append(c.call_held(nested[0], x))
        with pytest.raises(RuntimeError, match=r"^a callback was released while it ran$"):
            c.let_go(nested[0])
        return 7.0

    nested = []
    held = [c.hold(outer, c.SCOPED) for _ in range(c.POOL)]
    assert c.call_held(held[0], 1.0) == (7.0, 0)
    assert found == [(5.0, 1), (FAILED, 1)]
    for handle in held:
        c.let_go(handle)
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL, "no slot is lost"


def test_a_scoped_callback_that_another_one_releases_keeps_its_function(c):
    """Not itself, but a sibling that the same C code calls; that C code has not ended either."""
    found = []

    def first(x):
        c.let_go(second)
        other = c.hold(lambda x: 999.0, c.SCOPED)
        found.append(c.call_held(other, x)[0])
        c.let_go(other)
        return 1.0

    held = [c.hold(first, c.SCOPED), *(c.hold(same, c.SCOPED) for _ in range(c.POOL - 1))]
    second = held[1]
    assert c.call_held(held[0], 0.0) == (1.0, 0)
    assert c.call_held(second, 0.0) == (FAILED, 1)
    assert found == [999.0]
    with pytest.raises(RuntimeError, match=r"^a callback was released while it ran$"):
        c.let_go(second)
    for handle in held:
        c.let_go(handle)
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL, "no slot is lost"


def test_the_end_of_the_thunk_around_it_ends_a_scoped_callback(c):
    """Even without the second release no slot is lost."""

    def inner(x):
        c.let_go(nested.pop())
        return 5.0

    def outer(x):
        nested.append(c.hold(inner, c.SCOPED))
        assert c.call_held(nested[0], x)[0] == 5.0
        return 7.0

    nested = []
    for _ in range(3 * c.POOL):
        handle = c.hold(outer, c.SCOPED)
        assert c.call_held(handle, 1.0) == (7.0, 0)
        c.let_go(handle)
    c.let_go(c.hold(same, c.SCOPED))
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL


def test_threads_release_their_scoped_callbacks_while_they_run(c):
    """Every thread nests, releases out of order, calls on, and must never meet another's result."""
    wrong = []

    def run(number):
        current = {}

        def start():
            def chain(level):
                def f(x):
                    if level < 20:
                        current[level + 1] = inner = c.hold(chain(level + 1), c.SCOPED)
                        value = c.call_held(inner, x)[0]
                        if value != number * 100 + level + 1:
                            wrong.append((number, level, value))
                        if (level + 1) % 3 == 0:
                            value = c.call_held(inner, x)[0]
                            if value != FAILED:
                                wrong.append((number, level, value))
                            with pytest.raises(RuntimeError, match="released while it ran"):
                                c.let_go(inner)
                        else:
                            c.let_go(inner)
                    if level % 3 == 0:
                        c.let_go(current[level])
                    return number * 100.0 + level

                return f

            current[1] = outermost = c.hold(chain(1), c.SCOPED)
            value = c.call_held(outermost, 0.0)[0]
            if value != number * 100 + 1:
                wrong.append((number, 0, value))
            c.let_go(outermost)

        for _ in range(20):
            start()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL, "no slot is lost"


@pytest.mark.parametrize("options", [0, 1])
def test_the_message_of_a_failure_may_free_the_callback(c, monkeypatch, options):
    """Its text asks the function for its repr, which is Python code; another takes its memory."""
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(str(args.exc_value)))

    class Function:
        def __call__(self, x):
            raise AssertionError("the thunk does not call it")

        def __repr__(self):
            c.drop(True)
            c.keep(lambda x: x + 0.5, "p", options)
            return "<it>"

    c.keep(Function(), "s", options)
    assert c.call_kept(1.0) == (FAILED, 0), "and it is not the other one that failed"
    assert unraisable == ["the call of <it> failed without setting an exception"]
    assert c.call_kept(1.0) == (1.5, 0)
    c.drop(True)


def test_an_exception_waits_for_release(c):
    c.keep(lambda x: 1 / 0, "p", c.HOLDS_GIL)
    assert c.call_kept(1.0) == (FAILED, 1)
    assert c.call_kept(1.0) == (FAILED, 1)
    with pytest.raises(ZeroDivisionError):
        c.drop(False)
    c.drop(True)


# -- threads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["p", "d", "c", "C"])
def test_threads_that_python_has_never_seen(c, which):
    f = (lambda x: x[0] + 1) if which in "cC" else (lambda x: x + 1)
    assert c.in_threads(f, 8, 500, which) == (4000, 0)
    assert c.in_threads(box_native(), 4, 10, "p")[1] == 0


@pytest.mark.parametrize("which", ["p", "d"])
def test_the_first_exception_of_several_threads_wins(c, which, monkeypatch):
    """Threads that are in the callback together; whichever fails first is the one that is kept."""
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(args.exc_value))
    together = threading.Barrier(8, timeout=30)
    raised = []

    def f(x):
        together.wait()
        error = Custom(x)
        raised.append(error)
        raise error

    with pytest.raises(Custom) as info:
        c.in_threads(f, 8, 3, which)
    assert len(raised) == 8, "no thread calls again after the failure"
    assert len(unraisable) == 7
    assert {id(error) for error in [info.value, *unraisable]} == {id(error) for error in raised}


def test_python_threads_each_with_their_own(c, deep):
    """Scoped callbacks of several threads, nested, more than there are slots."""
    wrong = []
    options = c.SCOPED

    def run(number):
        def descend(level):
            def f(x):
                if level == 30:
                    return float(number)
                return c.integrate(descend(level + 1), 0, 1, 1, "p", options)[0]

            return f

        for _ in range(20):
            value = c.integrate(descend(1), 0, 1, 3, "p", options)[0]
            if value != number:
                wrong.append((number, value))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(12)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL


# -- exits -----------------------------------------------------------------------------------------

EXITS = """
import atexit, os, sys, threading
sys.path.insert(0, sys.argv[1])
import bundled_c as c
atexit.register(lambda: print("at exit", flush=True))
way, which, options = sys.argv[2], sys.argv[3], int(sys.argv[4])
def f(x):
    print("called", flush=True)
    {"sys.exit": sys.exit, "os._exit": os._exit}[way](7)
c.integrate(f, 0, 1, 10, which, options)
print("went on")
"""


@pytest.mark.parametrize("which", ["p", "d"])
@pytest.mark.parametrize("options", [0, 1])
@pytest.mark.parametrize("way", ["sys.exit", "os._exit"])
def test_a_callback_ends_the_process(bundles, tmp_path, way, which, options):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXITS, str(bundles), way, which, str(options)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    printed = {"sys.exit": "called\nat exit\n", "os._exit": "called\n"}[way]
    assert (done.returncode, done.stdout, done.stderr) == (7, printed, "")


@pytest.mark.parametrize("which", ["p", "d"])
@pytest.mark.parametrize("options", [0, 1])
def test_a_callback_ends_its_thread(c, which, options, monkeypatch):
    ended, unraisable, seen = [], [], []
    monkeypatch.setattr(threading, "excepthook", lambda args: ended.append(args.exc_type))
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)

    def f(x):
        seen.append("called")
        _thread.exit()

    def run():
        try:
            c.integrate(f, 0, 1, 10, which, options)
            seen.append("went on")
        finally:
            seen.append("unwound")

    for _ in range(2 * c.POOL):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert seen == ["called", "unwound"] * 2 * c.POOL
    assert ended == [SystemExit] * 2 * c.POOL, "which the hook of threads passes over in silence"
    assert unraisable == []
    assert len(c.together([same] * c.POOL, 1.0, "p", c.HOLDS_GIL)) == 2 * c.POOL, "no slot is lost"


@pytest.mark.parametrize("which", ["p", "d"])
def test_exit_in_a_thread_that_python_has_never_seen(c, which):
    """It has nobody to end: who waits for the thread gets the SystemExit."""
    with pytest.raises(SystemExit) as info:
        c.in_threads(lambda x: sys.exit("enough"), 1, 10, which)
    assert info.value.code == "enough"


# -- bundles ---------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def bundles(builder, vendored_headers):
    """Modules with copies of the headers of their own."""
    for name, language in {"bundled_c": "c", "bundled_cpp": "c++"}.items():
        path = builder.extension(
            "callback_consumer.c",
            name,
            include=vendored_headers,
            language=language,
            flags=("-O1",),
            directory="callbacks",
        )
    return path.parent


ALONE = """
import ctypes, ctypes.util, math, sys
sys.path.insert(0, sys.argv[1])
first, second = (__import__(name) for name in sys.argv[2].split())
assert "nativecall" not in sys.modules
try:
    import nativecall
except ImportError:
    pass
else:
    raise AssertionError("the package is there")
kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
erf = kind(("erf", ctypes.CDLL(ctypes.util.find_library("m"))))
for c in (first, second):
    for f, native in ((erf, True), (math.erf, False), (lambda x: math.erf(x), False)):
        value, was, _ = c.integrate(f)
        assert abs(value - 0.4860679301150624) < 1e-15 and was is native, (f, value, was)
    address = ctypes.cast(erf, ctypes.c_void_p).value
    assert c.integrate(c.capsule(address, "double (double, int __pyx_skip_dispatch)"))[1]
    offers = type("T", (), {"__nativecall_api__": c.api(1), "__call__": lambda self, x: 3.0})
    # A provider of one module is a provider for all.
    for d in (first, second):
        assert d.integrate(offers()) == (0.25, True, 0)
    try:
        c.integrate(lambda x: 1 / 0, 0, 1, 10, "p")
    except ZeroDivisionError as error:
        assert error.__traceback__.tb_next.tb_frame.f_code.co_name == "<lambda>"
    def nested(x):
        return second.integrate(lambda y: first.integrate(lambda z: 5.0, 0, 1, 1, "p")[0],
                                0, 1, 1, "p")[0]
    assert first.integrate(nested, 0, 1, 1, "p")[0] == 5.0
print("alone")
"""


@pytest.mark.parametrize("order", ["bundled_c bundled_cpp", "bundled_cpp bundled_c"])
def test_with_the_package_absent(bundles, tmp_path, order):
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", "-c", ALONE, str(bundles), order],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "alone\n")


TOGETHER = """
import sys
sys.path.insert(0, sys.argv[1])
modules = {name: __import__(name) for name in sys.argv[2].split()}
nc = modules["nativecall"]
f = nc.load("m").function("erf", "d:d")
for name, c in modules.items():
    if name != "nativecall":
        for g in (f, f.builtin):
            value, native, _ = c.integrate(g)
            assert abs(value - 0.4860679301150624) < 1e-15 and native
print("together")
"""


@pytest.mark.parametrize(
    "order",
    [
        "nativecall bundled_c bundled_cpp",
        "bundled_c nativecall bundled_cpp",
        "bundled_cpp bundled_c nativecall",
    ],
)
def test_with_the_package_before_and_after(bundles, python, order):
    assert python(TOGETHER, bundles, order) == "together\n"


def test_linked_from_two_source_files(builder, include):
    path = builder.library(
        build.EXT / "callback_consumer.c",
        "callback_linked",
        flags=[
            "-O0",
            f"-I{include}",
            "-isystem",
            sysconfig.get_path("include"),
            "-DMODULE=callback_linked",
            "-DSECOND_FILE",
            str(build.EXT / "callback_second.c"),
        ],
    )
    linked = build.load_extension(path)
    assert linked.one_thread()
    assert linked.second_call(lambda x: x + 1) == 1.25
    # Recursion through both files' thunks.
    depth = 0

    def f(x):
        nonlocal depth
        depth += 1
        return x if depth == 100 else linked.integrate(linked.second_call and g, 0, 1, 1, "p")[0]

    def g(x):
        return linked.second_call(f)

    assert linked.second_call(f) == 0.25


# -- the end ---------------------------------------------------------------------------------------

FINALIZE = """
import sys, atexit
sys.path.insert(0, sys.argv[1])
import bundled_c as c
import builtins
print(c.integrate(lambda x: 1.0)[0])
atexit.register(lambda: print(c.integrate(lambda x: 2.0, 0, 1, 10, "p", 0)[0]))
class Late:
    def __del__(self, c=c, print=print):
        print(c.integrate(lambda x: 3.0, 0, 1, 10, "p", 0)[0])
builtins.late = Late()
"""


def test_during_shutdown(bundles, python):
    lines = python(FINALIZE, bundles).split()
    assert lines == ["1.0", "2.0", "3.0"]


THREADS = """
import sys, time
sys.path.insert(0, sys.argv[1])
import bundled_c as c
c.keep(lambda x: x, sys.argv[2], 0)
for _ in range(4):
    c.start_thread()
time.sleep(0.02)
"""


@pytest.mark.parametrize("which", ["p", "d"])
def test_threads_that_go_on_during_shutdown(bundles, python, which):
    """Threads that call without pause while the interpreter ends and after it has."""
    for _ in range(10):
        assert python(THREADS, bundles, which) == ""
