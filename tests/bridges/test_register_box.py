"""Boxes that others add: `register_box`, entry points, and bridges that are one file.

The boxes are objects of tests/ext/foreignbox.c, which knows nothing of nativecall.
"""

from __future__ import annotations

import gc
import platform
import struct
import sys
import weakref

import pytest

import nativecall as nc
from nativecall._codegen import engine
from support import build
from support.levels import where
from support.modes import DEBUG, GENERATED

MODULE = "nc_tests_foreign"
ROOT = struct.pack("d", 3)  # the root of 9


def reader(kernel):
    """A native callable of a Kernel; None for all else."""
    if not hasattr(kernel, "address"):
        return None
    return nc.wrap({kernel.type: kernel.address}, owner=kernel, name="kernel")


@pytest.fixture(scope="session")
def foreign(builder, include):
    """The module of tests/ext/foreignbox.c, with its boxes registered."""
    module = build.load_extension(builder.extension("foreignbox.c", MODULE, include=include))
    nc.register_box(MODULE, reader)
    nc.register_box("Nameless", reader)
    return module


@pytest.mark.parametrize("kind", ["Kernel", "Nameless"])
def test_a_registered_box_is_wrapped(foreign, kind):
    f = nc.wrap(getattr(foreign, kind)(False))
    assert (f(9.0), f.signatures, f.__name__) == (3.0, ("d:d",), "kernel")
    g = nc.wrap(getattr(foreign, kind)(True), "int (int)", name="g")
    assert (g(5), g.signatures, g.__name__) == (-5, ("i:i",), "g")


def test_a_subclass_and_what_is_bound_to_a_box(foreign):
    class Mine(foreign.Kernel):
        pass

    assert nc.wrap(Mine(False))(4.0) == 2.0
    asked = []

    def bound(obj):
        asked.append(obj)
        return reader(obj.__self__)

    class Theirs(foreign.Kernel):
        __module__ = "nc_tests_bound.inner"

    nc.register_box("nc_tests_bound", bound)
    method = Theirs(False).bound
    assert nc.wrap(method)(4.0) == 2.0
    assert asked == [method]


def test_the_box_lives_as_long_as_its_callable(foreign):
    class Mine(foreign.Kernel):
        pass

    kernel = Mine(False)
    alive = weakref.ref(kernel)
    f = nc.wrap(kernel)
    del kernel
    gc.collect()
    assert alive() is not None
    assert f(9.0) == 3.0
    del f
    gc.collect()
    assert alive() is None


def test_a_registered_box_is_a_function_argument(foreign, lib, fails):
    apply = lib.function("apply", "d:X{d:d}d")
    assert apply(foreign.Kernel(False), 16.0) == 4.0
    assert apply.bind(foreign.Kernel(False))(16.0) == 4.0
    wrong = foreign.Kernel(True)
    assert apply(wrong, 16.0) == -16.0  # converted
    with fails(nc.NoEntryError, "no native entry for 'd:d'; 'kernel' offers 'i:i'"):
        nc.wrap(wrong, "d:d")


def test_options_of_a_registered_box(foreign):
    f = nc.wrap(foreign.Kernel(False), gil="release", doc="its root")
    assert (f(9.0), f.__doc__, f.entries[0].gil) == (3.0, "its root", "release")


def test_c_code_calls_it_when_it_is_wrapped(foreign, dispatch):
    kernel, wrong = nc.wrap(foreign.Kernel(False)), nc.wrap(foreign.Kernel(True))
    call = dispatch.prepare(kernel, "d:f")
    assert (dispatch.way(call), dispatch.call(call, (struct.pack("f", 9),))) == ("promoted", ROOT)
    call = dispatch.prepare(wrong, "q:q")
    assert (dispatch.way(call), dispatch.call(call, (struct.pack("q", 9),))) == (
        "boxed",
        struct.pack("q", -9),
    )


def test_a_callable_that_hides_its_entries_is_called_by_python(foreign, dispatch):
    """Also where it stands for a box: its own __call__ is what counts."""

    class Twice(nc.NativeCallable):
        def __call__(self, x):
            return 2 * x

    class Hiding(foreign.Kernel):
        __module__ = "nc_tests_hiding"

    nc.register_box("nc_tests_hiding", lambda kernel: Twice(kernel.address, "i:i"))
    for obj in (Twice(foreign.Kernel(True).address, "i:i"), nc.wrap(Hiding(True))):
        call = dispatch.prepare(obj, "q:q")
        assert dispatch.way(call) == "boxed"
        assert dispatch.call(call, (struct.pack("q", 9),)) == struct.pack("q", 18)


def test_c_code_keeps_what_it_calls(foreign, dispatch):
    def on_demand(kernel):
        made = nc.wrap(kernel.address, kernel.type, owner=kernel)
        made.specialize = lambda f, signature: kernel.address if signature == "d:d" else None
        return made

    class Late(foreign.Kernel):
        __module__ = "nc_tests_late"

    nc.register_box("nc_tests_late", on_demand)
    kernel = Late(False)
    alive = weakref.ref(kernel)
    call = dispatch.prepare(nc.wrap(kernel), "d:d")
    del kernel
    gc.collect()
    assert alive() is not None
    assert dispatch.call(call, (struct.pack("d", 9),)) == ROOT
    del call
    gc.collect()
    assert alive() is None


def test_a_reader_may_know_nothing_or_fail(foreign, fails):
    class Other:
        __module__ = "nc_tests_other"
        answer: object = None

        def __call__(self, x):
            return 2 * x

    def answered(kernel):
        if isinstance(kernel.answer, Exception):
            raise kernel.answer
        return kernel.answer

    nc.register_box("nc_tests_other", answered)
    kernel = Other()
    with pytest.raises(
        TypeError, match=r"^'target' must be an address, .* \(got Other; nativecall\.callback"
    ):
        nc.wrap(kernel)
    kernel.answer = 5
    message = "the reader for 'nc_tests_other' must return a native callable or None (got int)"
    with fails(TypeError, message):
        nc.wrap(kernel)
    kernel.answer = LookupError("its own")
    with fails(LookupError, "its own"):
        nc.wrap(kernel)


@pytest.mark.parametrize(
    ("arguments", "exception", "message"),
    [
        ((5, reader), TypeError, "'library' must be a str (got int)"),
        (("lib", 5), TypeError, "'reader' must be a callable or a str (got int)"),
        (
            ("lib.inner", reader),
            ValueError,
            "'library' must be the name of a top-level module (got 'lib.inner')",
        ),
        (
            ("lib", "module"),
            ValueError,
            "'reader' must be given as MODULE:FUNCTION (got 'module')",
        ),
        (("numba", reader), ValueError, "'numba' already has a reader or bridge"),
        (("ctypes", reader), ValueError, "'ctypes' already has a reader or bridge"),
        (("cffi", reader), ValueError, "'cffi' already has a reader or bridge"),
        (("Nameless", reader), ValueError, "'Nameless' already has a reader or bridge"),
    ],
)
def test_wrong_registrations(foreign, fails, arguments, exception, message):
    with fails(exception, message):
        nc.register_box(*arguments)


def test_a_reader_that_cannot_be_imported(foreign, fails):
    class Broken(foreign.Kernel):
        __module__ = "nc_tests_broken"

    nc.register_box("nc_tests_broken", "math:no_such_reader")
    for _ in range(2):
        with fails(
            ImportError,
            "'math:no_such_reader', the reader for 'nc_tests_broken', cannot be "
            "imported: module 'math' has no attribute 'no_such_reader'",
        ):
            nc.wrap(Broken(False))


PLUGIN = """
import nativecall

def reader(kernel):
    return nativecall.wrap(kernel.address, kernel.type, owner=kernel)
"""
INSTALLED = """
import importlib.util, sys
sys.path.insert(0, sys.argv[1])
import nativecall as nc
spec = importlib.util.spec_from_file_location("MODULE", sys.argv[2])
foreign = importlib.util.module_from_spec(spec)
spec.loader.exec_module(foreign)
nc.wrap(nc.load("m").function("cos", "d:d").to_ctypes())
print("nc_tests_plugin" in sys.modules)
print(nc.wrap(foreign.Kernel(False))(9.0), "nc_tests_plugin" in sys.modules)
""".replace("MODULE", MODULE)


def test_an_entry_point_adds_a_box(foreign, forked, tmp_path):
    """Its module is imported when the first of the boxes is met, and not before."""
    (tmp_path / "nc_tests_plugin.py").write_text(PLUGIN)
    installed = tmp_path / "nc_tests_plugin-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: nc_tests_plugin\n")
    (installed / "entry_points.txt").write_text(
        f"[nativecall.boxes]\n{MODULE} = nc_tests_plugin:reader\nnumba = none:such\n"
    )
    shown = forked(INSTALLED, tmp_path, foreign.__file__)
    assert shown == "False\n3.0 True\n"


BRIDGE = """
from nativecall._cdecl.spelling import parse
from nativecall._values.foreign import Function

def function(obj):
    return Function(obj.address, parse(obj.type), obj)
"""
ONE_FILE = """
import importlib.util, sys
import nativecall as nc
import nativecall._bridges
nativecall._bridges.__path__.append(sys.argv[1])

def module(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made

kernel = module("MODULE", sys.argv[2]).Kernel(False)
print(nc.wrap(kernel)(9.0))
""".replace("MODULE", MODULE)


def test_a_bridge_is_one_file(foreign, forked, tmp_path):
    """A box is known when a file in the bridges' folder knows it."""
    (tmp_path / f"{MODULE}.py").write_text(BRIDGE)
    assert forked(ONE_FILE, tmp_path, foreign.__file__) == "3.0\n"


LIBRARIES = {
    "_ctypes": "import ctypes; box = ctypes.CDLL(None).abs",
    "_cffi_backend": (
        "import cffi; box = cffi.FFI().cast('int (*)(int)', nc.load(None).address('abs'))"
    ),
    "PyCapsule": "box = nc.load(None).function('abs', 'i:i').to_capsule()",
    "scipy": (
        "import scipy; box = scipy.LowLevelCallable("
        "nc.load(None).function('abs', 'i:i').to_capsule())"
    ),
    "numba": "import numba; box = numba.cfunc('int32(int32)')(lambda x: abs(x))",
    "_cython": "from scipy.special import cython_special; box = cython_special.gammasgn",
    "fortran": "from scipy.linalg.blas import dscal as box",
    "numpy": "from numpy.random import PCG64; box = PCG64(1)",
    "llvmlite": """
from llvmlite import binding
box = binding.parse_assembly(
    "define double @f(double %x) {\\n %y = fneg double %x\\n ret double %y\\n}"
).get_function("f")
""",
}
#: What is wrapped for, and called with, and the result, where it is not "i:i", -5 and 5.
CALLS = {
    "_cython": ("d:d", "(-0.5,)", "-1.0"),
    "fortran": ("v:&i&d&d&i", None, None),
    "numpy": ("d:", "()", None),
    "llvmlite": ("d:d", "(-5.0,)", "5.0"),
}
#: What reads the names of capsules, whatever they are of.
READERS = {"capsulename", "pxd", "itanium"}
#: Other bridges that a box needs.
OTHERS = {
    # A LowLevelCallable is made of a capsule, or of a function pointer of ctypes or cffi, and what
    # Cython's modules export are capsules.
    "scipy": {"PyCapsule", "_cython"},
    "_cython": {"PyCapsule"},
    # What SciPy's modules of Cython say of its procedures is asked where they are imported.
    "fortran": {"PyCapsule", "_cython", "scipy"},
    "numpy": {"PyCapsule", "BitGenerator", "_cffi_backend"},
}
ALONE = """
import sys
import nativecall as nc
SETUP
before = {*sys.modules}
f = nc.wrap(box, "SIGNATURE")
CALL
after = {*sys.modules} - before
print(*sorted(name for name in after if name.startswith("nativecall._bridges.")))
print(*sorted({name.partition(".")[0] for name in after} & {"cffi", "scipy", "numba", "numpy"}))
"""


@pytest.mark.parametrize("name", where(LIBRARIES, lambda name: name not in ("numba", "_cython")))
def test_wrapping_one_box_imports_no_other_library(python, name):
    library = {"_cython": "scipy", "fortran": "scipy"}.get(name, name)
    if library in ("scipy", "numba"):
        pytest.importorskip(library)  # neither is needed to install the package
    if name == "numba" and DEBUG:
        pytest.skip("a debug build warns of each dispatcher that Numba frees, to the end")
    if name == "llvmlite" and not engine.available():
        pytest.skip(engine.reason())
    signature, given, result = CALLS.get(name, ("i:i", "(-5,)", "5"))
    call = "" if given is None else f"found = f(*{given})"
    call += "" if result is None else f"\nassert found == {result}"
    code = ALONE.replace("SETUP", LIBRARIES[name]).replace("SIGNATURE", signature)
    bridges, libraries = python(code.replace("CALL", call)).split("\n")[:2]
    found = {one.split(".")[2] for one in bridges.split()}
    assert name in found or name == "PyCapsule"
    assert found - {name} - READERS <= OTHERS.get(name, set())
    # Our own reader of C declarations is cffi's.
    assert libraries in ("", "cffi" if name in ("_cython", "numpy") else "")


UFUNCS = """
import sys
import numpy, nativecall as nc
before = {*sys.modules}
for ufunc in (numpy.sin, numpy.modf, numpy.isnan):
    assert nc.wrap(ufunc)(0.5) == ufunc(0.5), ufunc
after = {name.partition(".")[0] for name in {*sys.modules} - before}
print(*sorted(after & {"cffi", "llvmlite", "numba", "pandas", "pycparser", "scipy"}))
"""


def test_wrapping_ufuncs_imports_no_other_library(python, tmp_path, monkeypatch):
    """Generated code calls their loops: LLVM is asked for that once, not by each process."""
    monkeypatch.setenv("NATIVECALL_CACHE_DIR", str(tmp_path / "cache"))
    assert python(UFUNCS).split() in ([], ["llvmlite"] * engine.available())
    # See csrc/codegen/objectfile.c.
    if GENERATED and sys.platform == "linux" and platform.machine() == "x86_64":
        assert python(UFUNCS).split() == []
