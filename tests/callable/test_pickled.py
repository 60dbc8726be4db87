"""Native callables in `pickle` and `copy`: what another process makes of them, and what is refused.

(That other processes do is in tests/processes.)
"""

import copy
import ctypes
import functools
import importlib.util
import math
import pickle
import subprocess
import sys

import pytest

import nativecall as nc

MODULE = """
import ctypes
import nativecall as nc

@nc.callback("d:d")
def decorated(x):
    return 2 * x

def plain(x):
    return 1 / x

callback = nc.callback("d:d", plain, errors=-1.0, name="guarded", doc="about it")
telling = nc.callback("i:i", plain, errors="nonzero")
libm = nc.load("m")
address = nc.wrap(libm.address("cos"), "d:d")
overloaded = nc.wrap({"d:d": libm.address("cos"), "f:f": libm.address("cosf")}, name="cos")
box = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(libm.address("cos"))
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """A module that other processes could import."""
    path = tmp_path_factory.mktemp("modules") / "nc_kernels.py"
    path.write_text(MODULE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("nc_kernels", path)
    module = sys.modules["nc_kernels"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["nc_kernels"]


@pytest.fixture
def libm():
    return nc.load("m", "double cos(double); float cosf(float); double pow(double, double);")


def again(obj):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        made = pickle.loads(pickle.dumps(obj, protocol))
    return made


def facts(f):
    return f.__name__, f.__doc__, [(e.signature, e.address, e.flags) for e in f.entries]


def test_several_entries(libm):
    f = nc.wrap({"d:d": libm.cos, "f:f": libm.cosf}, name="f", doc="both")
    made = again(again(f))
    assert facts(made) == facts(f)
    assert made(0.0) == made["f:f"](0.0) == 1.0
    libm.cos.bind(1.0).add("f:", libm.cosf.bind(1.0))
    bound = libm.pow.bind(2.0)
    bound.add("d:dd", libm.pow)
    assert again(bound)(3.0) == 8.0
    assert again(bound)(3.0, 2.0) == 9.0


def test_one_of_several_that_cannot_be(libm, fails):
    alone = nc.wrap(libm.cos.address(), "d:d", name="alone")
    f = nc.wrap({"d:d": alone["d:d"], "f:f": libm.cosf})
    with pytest.raises(TypeError, match="known by its address only"):
        pickle.dumps(f)


def test_wrapped_again(libm):
    f = nc.wrap(libm.cos, name="f", gil="release")
    assert facts(again(f)) == facts(f)


def test_callbacks_of_functions_that_can_be_imported(kernels):
    assert again(kernels.decorated) is kernels.decorated
    made = again(kernels.callback)
    assert made.function is kernels.plain
    assert (made.__name__, made.__doc__) == ("guarded", "about it")
    with pytest.raises(ZeroDivisionError):
        made(0.0)
    assert made._made.spec.sentinel == kernels.callback._made.spec.sentinel
    telling = again(kernels.telling)
    assert telling.entries[0].errors == "nonzero"
    assert telling.entries[0].flags == kernels.telling.entries[0].flags
    assert again(nc.callback("d:d", math.cos))(0.0) == 1.0
    assert again(nc.callback("d:d", functools.partial(math.pow, 2.0)))(3.0) == 8.0
    need = again(nc.callback("d:d", math.cos, gil="need"))
    assert need.entries[0].gil == "need"


def test_callbacks_that_are_bound_or_passed(kernels, lib):
    apply = lib.function("apply", "d:X{d:d}d")
    assert again(apply.bind(kernels.decorated))(3.0) == 6.0


def test_callbacks_that_cannot_be(kernels):
    f = nc.callback("d:d", lambda x: x)
    with pytest.raises(
        TypeError, match=r"its function '.*<lambda>' is not the one that module .* has"
    ):
        pickle.dumps(f)
    f.close()
    with pytest.raises(TypeError, match="it is closed"):
        pickle.dumps(f)


def test_attributes_of_modules(kernels):
    assert again(kernels.address) is kernels.address
    assert again(kernels.overloaded) is kernels.overloaded
    assert again(kernels.address.builtin) is kernels.address.builtin
    f = nc.wrap(kernels.box, name="f")
    assert facts(again(f)) == facts(f)


def test_a_hook_is_lost_but_for_attributes_of_modules(kernels):
    kernels.hooked = nc.wrap({"d:d": kernels.address}, name="hooked")
    kernels.hooked.specialize = lambda f, signature: None
    assert again(kernels.hooked) is kernels.hooked


def test_attributes_that_are_not_there(kernels):
    kernels.gone = nc.wrap(kernels.address.address(), "d:d")
    pickled = pickle.dumps(kernels.gone)
    kernels.gone = 3
    with pytest.raises(TypeError, match=r"nc_kernels.gone was pickled as a native callable, but"):
        pickle.loads(pickled)
    del kernels.gone
    with pytest.raises(AttributeError, match=r"as nc_kernels.gone, which does not exist here"):
        pickle.loads(pickled)


def test_functions_of_ctypes(callees):
    square = ctypes.CDLL(str(callees)).square
    square.argtypes, square.restype = [ctypes.c_double], ctypes.c_double
    f = nc.wrap(square, name="f")
    made = again(f)
    assert (made.__name__, made.address(), made(3.0)) == ("f", f.address(), 9.0)
    with pytest.raises(TypeError, match="by its address only"):
        pickle.dumps(nc.wrap(ctypes.cast(square, type(square)), "d:d"))


def test_capsules_of_modules_of_cython():
    blas = pytest.importorskip("scipy.linalg.cython_blas")
    f = nc.wrap(blas, "ddot")
    assert facts(again(f)) == facts(f)


def test_struct_results():
    div = nc.load("c", "typedef struct { int quot, rem; } div_t; div_t div(int, int);").div
    result = div(7, 2)
    for made in (again(result), copy.copy(result), copy.deepcopy([result])[0]):
        assert made == result == (3, 1)
        assert type(made) is type(result)
        assert made.rem == 1
    assert again(div)(7, 2) == result


def test_copies_are_the_callable_itself(libm, kernels):
    hooked = nc.wrap(libm.cos.address(), "d:d")
    hooked.specialize = lambda f, signature: None
    for f in (libm.cos, hooked, kernels.decorated, libm.pow.bind(2.0)):
        assert copy.copy(f) is f
        assert copy.deepcopy({"f": [f]})["f"][0] is f


def test_an_address_alone_is_refused_with_the_way_out(libm, fails):
    with fails(
        TypeError,
        "cannot pickle <native callable f 'd:d'>: it is known by its address only; only functions "
        "found by nativecall.load and attributes of modules that the other process can import can "
        "be pickled",
    ):
        pickle.dumps(nc.wrap(libm.cos.address(), "d:d", name="f"))


def test_a_library_that_is_not_there(callees, tmp_path):
    """The error says which, and which function wanted it."""
    path = tmp_path / "libhere.so"
    path.write_bytes(callees.read_bytes())
    f = nc.load(path).function("square", "d:d")
    pickled = pickle.dumps([f])
    path.unlink()
    code = f"import pickle, nativecall as nc\npickle.loads({pickled!r})"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    last = found.stderr.splitlines()[-1]
    assert "LibraryError: the native callable 'square' was pickled as " in last
    assert f"'square' of the library {str(path)!r}, which this process cannot load: " in last


def test_a_library_that_is_elsewhere_is_found_by_its_name(libm):
    """Another machine may have libm in another folder."""
    pickled = pickle.dumps(libm.cos, 0).replace(libm.path.encode(), b"/none/" + libm.path.encode())
    assert pickle.loads(pickled)(0.0) == 1.0


def test_names_of_main_that_stand_for_other_things_are_no_names(python):
    """`f` may be another function when the pickle is read."""
    told = python(
        "import pickle\n"
        "import nativecall as nc\n"
        "f = nc.wrap(nc.load('m').address('cos'), 'd:d')\n"
        "cos = nc.wrap(nc.load('m').address('cos'), 'd:d', name='cos')\n"
        "assert pickle.loads(pickle.dumps(cos)) is cos\n"
        "try:\n"
        "    pickle.dumps(f)\n"
        "except TypeError as error:\n"
        "    print(error)\n"
    )
    assert "it is known by its address only" in told
