"""Functions of C++ that pybind11 and nanobind have bound: read where that is safe, else refused by
name, and called through Python where Python functions may be passed."""

import builtins
import ctypes
import types

import pytest

import nativecall as nc
from nativecall import _lib
from nativecall._bridges import itanium, pybind11_builtins
from nativecall._cdecl.spelling import parse
from support import foreign


@pytest.fixture(scope="session")
def pybind(builder):
    try:
        return foreign.pybind11(builder)
    except foreign.Missing as error:
        pytest.skip(f"{error} is not installed")


@pytest.fixture(scope="session")
def nano(builder):
    try:
        return foreign.nanobind(builder)
    except foreign.Missing as error:
        pytest.skip(f"{error} is not installed")


# -- pybind11 ------------------------------------------------------------------------------------


def is_read(module):
    """Whether the installed pybind11's records are those that are known."""
    return pybind11_builtins._records(module.half) is not None


def test_a_bound_pointer(pybind):
    if not is_read(pybind):
        pytest.skip("a version of pybind11 whose records are not known")
    f = nc.wrap(pybind.half)
    assert (f.signatures, f.__name__, f(3.0)) == (("d:d",), "half", 1.5)
    assert f.entries[0].gil == "need"
    assert f.entries[0].owner is pybind.half
    assert nc.wrap(pybind.half, gil="release").entries[0].gil == "release"
    assert nc.wrap(pybind.twice)(2.5) == 5.0
    assert nc.wrap(pybind.nothing)() is None
    # The address is the function's own, behind what converts Python's objects.
    assert nc.wrap(f.address(), "d:d")(3.0) == 1.5


class Definition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def test_functions_of_older_versions(monkeypatch, fails):
    """They are bound to capsules without a name; pybind11 is known by what it puts in builtins."""
    definition = Definition(b"half", ctypes.cast(ctypes.pythonapi.PyObject_Repr, ctypes.c_void_p))
    definition.flags = 8  # METH_O
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.POINTER(Definition), ctypes.py_object, ctypes.c_void_p
    )(("PyCFunction_NewEx", ctypes.pythonapi))
    cos = nc.load("m", "double cos(double);").cos
    half = make(definition, cos.to_capsule(name=""), None)
    with pytest.raises(TypeError, match="'half' is a built-in function that is bound to <capsule"):
        nc.wrap(half)
    monkeypatch.setitem(
        vars(builtins), "__pybind11_internals_v4_gcc_libstdcpp_cxxabi1018__", object()
    )
    message = (
        "'half' is a pybind11 function from before version 3.0, with internals v4, whose record is "
        "not supported: build its module with 3.0 or later, or export the pointer of a C "
        """function beside it, as in py::capsule((void *) &f, "double (double)"), and pass that"""
    )
    for target in (half, types.MethodType(half, 1)):
        for signature in (None, "d:d"):
            with fails(TypeError, message):
                nc.wrap(target, signature)


def test_a_contradicting_signature(pybind, fails):
    if not is_read(pybind):
        pytest.skip("a version of pybind11 whose records are not known")
    with fails(
        nc.SignatureError,
        "'signature' is 'd:f', but the target is 'd:d'; omit 'signature' to use the target's own",
    ):
        nc.wrap(pybind.half, "d:f")


def test_overloads(pybind):
    if not is_read(pybind):
        pytest.skip("a version of pybind11 whose records are not known")
    f = nc.wrap(pybind.add)
    assert {*f.signatures} == {"i:ii", "d:dd"}
    assert (f(2, 3), f(2.5, 3.0)) == (5, 5.5)
    assert nc.wrap(pybind.add, "d:dd")(1.0, 2.0) == 3.0
    assert nc.wrap(pybind.mixed).signatures == ("d:d",)


def test_a_reference_to_a_class_is_opaque(pybind):
    if not is_read(pybind):
        pytest.skip("a version of pybind11 whose records are not known")
    assert nc.wrap(pybind.at_point).signatures == ("d:P",)


REFUSED = {
    "of_point": "'PFd5PointE' passes 'Point' by value, which is a class or an enum",
    "stateless": "it was not bound from a function pointer: it is a method, a lambda or another "
    "object",
    "scaled": "it was not bound from a function pointer: it is a method, a lambda or another "
    "object",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_by_name(pybind, name):
    if not is_read(pybind):
        pytest.skip("a version of pybind11 whose records are not known")
    with pytest.raises(TypeError) as info:
        nc.wrap(getattr(pybind, name))
    assert str(info.value).startswith(f"no C function of pybind11's {name!r} can be read: ")
    assert REFUSED[name] in str(info.value)


def test_a_version_that_is_not_known_says_so(pybind, monkeypatch):
    monkeypatch.setattr(pybind11_builtins, "_VERSION", "v0")
    with pytest.raises(TypeError, match=r"has an unknown layout: only version 'v0'"):
        nc.wrap(pybind.half)


class pybind11_detail_function_record_v1_gxx_abi_1(list):
    __module__ = "pybind11_builtins"


class pybind11_detail_function_record_v1_gxx_abi_2:
    __module__ = "pybind11_builtins"
    __slots__ = ("record",)


def test_what_looks_like_a_record_and_is_none(pybind):
    """Nothing is read at addresses that are none."""
    second = pybind11_detail_function_record_v1_gxx_abi_2()
    second.record = 5
    for method in (
        pybind11_detail_function_record_v1_gxx_abi_1([1, 2]).append,
        second.__reduce_ex__,
        pybind.half.__self__.__reduce_ex__,
    ):
        with pytest.raises(TypeError, match="has an unknown layout"):
            nc.wrap(method)


def test_through_python_they_are_all_passed(pybind, lib):
    apply = lib.function("apply", "d:X{d:d}d")
    assert apply(pybind.scaled, 2.0) == 6.0
    assert nc.callback("d:d", pybind.stateless)(2.0) == 3.0
    if is_read(pybind):
        assert apply(nc.wrap(pybind.half, gil="release"), 2.0) == 1.0


def test_names_of_types_are_those_of_the_compiler(pybind):
    total, turned = itanium.read(pybind.total_name), itanium.read(pybind.turned_name)
    assert (total.text, total.readonly) == ("d:&dq&d", (True, False, False))
    assert turned.text == "Zd:Zd"
    assert nc.wrap(pybind.turned, turned)(1) == 1j


# -- names of C++ types --------------------------------------------------------------------------

NAMES = {
    "PFddE": "d:d",
    "PFvvE": "v:",
    "PDoFffE": "f:f",
    "PFdPdS_E": "d:&d&d",
    "PFdPKdS0_S_E": "d:&d&dd",  # S_ is const double
    "PFdPKdS0_Pd": None,
    "PFdPKdS0_PdE": "d:&d&d&d",
    "PFbcahstE": "?:cbBhH",
    "PFlijlmxyE": "l:iIlLqQ",
    "PFgeE": None,
    "PFeeE": "g:g",
    "PFdPFddEdE": "d:X{d:d}d",
    "PFSt7complexIdES0_E": "Zd:Zd",
    "PFSt7complexIfEPS0_E": "Zf:&Zf",
    "PFSt7complexIeES0_E": None,
    "PFdP5PointRKS_E": "d:PP",
    "PFdPPvE": "d:&P",
    "PFd5PointE": None,
    "PFizE": None,
    "PFdSsE": None,
    "d": None,
    "Pd": None,
    "": None,
    "PF": None,
    "PFd": None,
    "PFdS9_E": None,
    "PFdN1a1bEE": None,
    "PFddEd": None,
    "PFd99999xE": None,
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_types(name):
    if NAMES[name] is None:
        with pytest.raises(nc.SignatureError, match=r"the C\+\+ type"):
            itanium.read(name)
    else:
        assert itanium.read(name).text == parse(NAMES[name]).text


# -- nanobind ------------------------------------------------------------------------------------


def test_functions_of_nanobind_are_refused_by_name(nano, fails):
    for obj, kind in ((nano.half, "nb_func"), (nano.stateless, "nb_func")):
        with fails(
            TypeError,
            f"a nanobind {kind} does not record which C++ function it calls, nor its type; "
            'export the pointer as well, as in nb::capsule((void *) &f, "double (double)"), and '
            "pass that",
        ):
            nc.wrap(obj)
    with pytest.raises(TypeError, match=r"a nanobind .* does not record"):
        nc.wrap(nano.Point.norm)


def test_the_capsule_that_the_message_names(nano):
    f = nc.wrap(nano.half_capsule)
    assert (f.signatures, f(3.0)) == (("d:d",), 1.5)


def test_through_python_functions_of_nanobind_are_passed(nano, lib):
    assert lib.function("apply", "d:X{d:d}d")(nano.half, 3.0) == 1.5
    assert nc.callback("d:d", nano.stateless, gil="need").entries[0].flags & _lib.FLAG_NEEDS_GIL
