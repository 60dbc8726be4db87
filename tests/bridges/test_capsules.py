"""Capsules of other libraries, by their names: NumPy's generators, XLA's custom calls, Pythran's
functions, and those that hold no function."""

import ctypes
import gc
import sys

import numpy as np
import pytest

import nativecall as nc
from nativecall._bridges import BitGenerator
from nativecall._types.ctype import scalar
from support import capsules


def capsule(name, address=None):
    return capsules.capsule(name, address or nc.load("m").address("cos"))


# -- NumPy's generators --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PCG64", "MT19937", "Philox", "SFC64"])
def test_a_generator_of_bits(kind):
    make = getattr(np.random, kind)
    f, same = nc.wrap(make(7)), np.random.Generator(make(7))
    assert {*f.signatures} == {"d:", "Q:", "I:"}
    assert [f["d:"]() for _ in range(9)] == same.random(9).tolist()
    raw, same = nc.wrap(make(7), "Q:"), make(7)
    if kind != "MT19937":  # whose raw bits are 32
        assert [raw() for _ in range(9)] == same.random_raw(9).tolist()


def test_what_holds_a_generator():
    expected = np.random.default_rng(3).random(2).tolist()
    f = nc.wrap(np.random.default_rng(3), "d:")
    assert nc.wrap(np.random.RandomState(3), "d:")() == np.random.RandomState(3).random_sample()
    gc.collect()
    assert [f(), f()] == expected, "the callable keeps the generator"
    generator = np.random.default_rng(3)
    assert nc.wrap(generator.bit_generator.capsule, "d:")() == expected[0]
    assert nc.wrap(generator.bit_generator.ctypes.next_double).signatures == ("d:P",)


def test_c_calls_a_generator(lib):
    f = nc.wrap(np.random.PCG64(5), "d:")
    expected = np.random.Generator(np.random.PCG64(5)).random()
    assert ctypes.CFUNCTYPE(ctypes.c_double)(f.address())() == expected


def test_a_struct_that_is_not_as_the_generator_says(monkeypatch):
    class Mine(np.random.PCG64):
        @property
        def ctypes(self):
            return super().ctypes._replace(state_address=8)

    with pytest.raises(TypeError, match="'target' must be"):
        nc.wrap(Mine(1))
    assert BitGenerator.native(5) is None
    with pytest.raises(TypeError, match="'target' must be"):
        nc.wrap(np.float64(1.0))


# -- XLA -----------------------------------------------------------------------------------------


def test_custom_calls_of_xla(builder, fails):
    library = nc.load(
        builder.library(
            "void add(void *out, const void **in)"
            "{ *(float *)out = *(const float *)in[0] + *(const float *)in[1]; }",
            "xla_custom_call",
        )
    )
    box = capsule(b"xla._CUSTOM_CALL_TARGET", library.address("add"))
    with fails(
        TypeError,
        "'signature' must be given: XLA does not record the kind of a custom call: write "
        "'P:P' for XLA's FFI (XLA_FFI_Error *(XLA_FFI_CallFrame *)), 'v:PP' for a custom call of a "
        "CPU (void (void *, const void **)), 'v:PPPN' for one of a GPU",
    ):
        nc.wrap(box)
    a, b, out = (np.array([x], np.float32) for x in (1.5, 2.0, 0.0))
    places = np.array([a.ctypes.data, b.ctypes.data])
    nc.wrap(box, "v:PP")(out, places)
    assert out[0] == 3.5
    assert nc.wrap(box, "v:P&P&bQ").signatures == ("v:P&P&bQ",)
    for signature in ("d:d", "v:PPi", "P:PP"):
        with fails(
            nc.SignatureError,
            f"'signature' is {signature!r}, but the target is 'P:P' or 'v:PP' or 'v:PPPN'",
        ):
            nc.wrap(box, signature)


def test_capsules_of_jax():
    jax = pytest.importorskip("jax")
    box = jax.ffi.pycapsule(ctypes.CFUNCTYPE(None)(nc.load("m").address("cos")))
    with pytest.raises(TypeError, match="'signature' must be given: a PyCapsule does not have one"):
        nc.wrap(box)
    assert nc.wrap(box, "d:d")(0.0) == 1.0
    lapack = pytest.importorskip("jaxlib.cpu._lapack").registrations()
    boxes = [one for one in lapack.values() if type(one).__name__ == "PyCapsule"]
    for box in boxes[:3]:
        with pytest.raises(TypeError, match="the kind of a custom call"):
            nc.wrap(box)
        assert nc.wrap(box, "P:P").signatures == ("P:P",)


# -- Pythran -------------------------------------------------------------------------------------


def test_capsules_of_pythran(fails):
    """The name has the function's own name and Python's types of its arguments."""
    box = capsule(b"twice(float64)")
    with fails(
        TypeError,
        "'signature' must be given: the capsule's name, 'twice(float64)', lists Pythran's argument "
        "types, 'd', but no result type; write 'd:d' if it returns a double",
    ):
        nc.wrap(box)
    assert nc.wrap(box, "d:d")(0.0) == 1.0
    with fails(nc.SignatureError, "'signature' is 'd:f', but argument 1 of the target is 'd'"):
        nc.wrap(box, "d:f")
    with fails(nc.SignatureError, "'signature' is 'd:dd', but the target takes 1 argument"):
        nc.wrap(box, "d:dd")


PYTHRAN = {
    "f(int)": "l",
    "f(float, float)": "dd",
    "f(int, float64*)": "l&d",
    "f(uint8, complex128*, intp)": "B&Zdn",
    "f(bool, float32**)": "?&&f",
    "f()": "",
    "llc(int32, float64*, int32*)": "i&d&i",
}


@pytest.mark.parametrize("name", PYTHRAN)
def test_types_of_pythran(name):
    expected = nc.wrap(1, "d:" + PYTHRAN[name]).signatures[0]
    assert nc.wrap(capsule(name.encode()), "d:" + PYTHRAN[name]).signatures == (expected,)
    with pytest.raises(nc.SignatureError):
        nc.wrap(capsule(name.encode()), f"d:{PYTHRAN[name]}f")


def test_pythran_itself(builder):
    pytest.importorskip("pythran")
    from pythran.spec import spec_parser, spec_to_string

    spec = spec_parser("#pythran export capsule f(int32, float64*)").capsules["f"]
    name = spec_to_string("f", spec)
    assert nc.wrap(capsule(name.encode()), "d:i&d").signatures == ("d:i&d",)


# -- names that declare a function -----------------------------------------------------------------

CHAR = scalar("c").text
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
    "uint8_t (uint16_t, uint32_t, uint64_t, int8_t)": "B:HIQb",
    "\tdouble\n(\n double\t)  ": "d:d",
}


@pytest.mark.parametrize("text", DECLARATIONS)
def test_names_that_declare_a_function(text):
    found = nc.wrap(capsule(text.encode())).signatures
    if sys.platform == "linux" and ctypes.sizeof(ctypes.c_long) == 8:
        assert found == (DECLARATIONS[text],)


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
        *["double (" + "double, " * 600 + "double)", "int (" + "int (*)(" * 80 + ")" * 81],
    ],
)
def test_names_that_declare_none(text):
    with pytest.raises(TypeError):
        nc.wrap(capsule(text.encode("latin-1")))


# -- what is no function -------------------------------------------------------------------------

DATA = {
    b"dltensor": "it holds a DLPack array",
    b"used_dltensor": "it holds a DLPack array that was consumed",
    b"dltensor_versioned": "it holds a DLPack array",
    b"arrow_array": "it holds an Arrow array",
    b"arrow_schema": "it holds an Arrow type",
    b"datetime.datetime_CAPI": "it holds a module's C API, a table of many functions",
    b"_socket.CAPI": "it holds a module's C API, a table of many functions",
    b"a.b._C_API": "it holds a module's C API, a table of many functions",
    b"double": "its name declares a variable, 'double', not a function",
    b"PyObject *": "its name declares a variable, 'PyObject *', not a function",
    b"unsigned long [4]": "its name declares a variable, 'unsigned long [4]', not a function",
    b"struct foo *": "its name declares a variable, 'struct foo *', not a function",
    b"struct foo": "its name declares a variable, 'struct foo', not a function",
    b"size_t": "its name declares a variable, 'size_t', not a function",
}


@pytest.mark.parametrize("name", DATA)
def test_capsules_of_data_are_refused_whatever_is_said_of_them(name, fails):
    box = capsule(name)
    for signature in (None, "d:d"):
        with fails(TypeError, f"{box!r} has no function: {DATA[name]}"):
            nc.wrap(box, signature)


def test_a_name_that_says_nothing(fails):
    for name in (None, b"", b"x(y"):
        box = capsule(name)
        why = (
            "it has no name"
            if name is None
            else f"its name, {name.decode()!r}, declares no function"
        )
        with fails(TypeError, f"'signature' must be given: a PyCapsule does not have one: {why}"):
            nc.wrap(box)
        assert nc.wrap(box, "d:d")(0.0) == 1.0


#: Names with types that nobody knows, by value: how these are told, and a declaration of them.
GAPS = {
    b"double (struct foo)": ("'struct foo' is an unknown type", "struct foo { … };"),
    b"struct foo (double)": ("'struct foo' is an unknown type", "struct foo { … };"),
    b"double (const union foo *, union foo)": (
        "'union foo' is an unknown type",
        "union foo { … };",
    ),
    b"int (struct foo, bar)": ("'struct foo' and 'bar' are unknown types", "struct foo { … };"),
    b"double (struct foo (*)(int))": ("'struct foo' is an unknown type", "struct foo { … };"),
    b"double (int (*)(foo), foo *)": ("'foo' is an unknown type", "typedef … foo;"),
    b"foo (double)": ("'foo' is an unknown type", "typedef … foo;"),
    b"double (const foo)": ("'foo' is an unknown type", "typedef … foo;"),
}


@pytest.mark.parametrize("name", GAPS)
def test_types_that_nobody_knows_are_listed(name, fails):
    types, declared = GAPS[name]
    with fails(
        TypeError,
        f"'signature' must be given: in the capsule's name, {name.decode()!r}, {types}; "
        "write the signature, or name a library that declares the type with 'types', "
        f"as in nativecall.load(None, '{declared}')",
    ):
        nc.wrap(capsule(name))


def test_an_array_of_what_nobody_knows_is_a_pointer():
    name = b"int(const __Pyx_TypeInfo *dtype, __Pyx_BufFmt_StackElem stack[], foo [4], int axes[])"
    assert nc.wrap(capsule(name)).signatures == ("i:PPP&i",)


def test_a_struct_that_the_caller_declares():
    library = nc.load(None, "struct foo { double x; };")
    assert nc.wrap(capsule(b"double (struct foo)"), types=library).signatures == ("d:T{d}",)
    assert nc.wrap(capsule(b"double (struct foo)"), "d:T{d}").signatures == ("d:T{d}",)
    assert nc.wrap(capsule(b"double (struct foo *)")).signatures == ("d:P",)


def test_an_array_of_numpys_by_dlpack():
    with pytest.raises(TypeError, match="has no function: it holds a DLPack array"):
        nc.wrap(np.zeros(3).__dlpack__())


# -- whose word counts ---------------------------------------------------------------------------


def test_the_context_of_a_capsule_is_the_user_data(builder):
    code = """
double scaled(double x, void *data) { return x * *(double *)data; }
double first(double *x) { return *x; }
"""
    lib = nc.load(builder.library(code, "scaled"))
    two = ctypes.c_double(2.0)
    box = capsule(b"double (double, void *)", lib.address("scaled"))
    assert nc.wrap(box).signatures == ("d:dP",)
    capsules.set_context(box, ctypes.addressof(two))
    bound = nc.wrap(box)
    assert (bound.signatures, bound(3.0), bound.to_ctypes()(3.0)) == (("d:d",), 6.0, 6.0)
    other = capsule(b"double (double *)", lib.address("first"))
    capsules.set_context(other, ctypes.addressof(two))
    assert nc.wrap(other)(two) == 2.0  # a context that is no user data


@pytest.mark.parametrize("signature", ["d:&d", "d:i", "d:[1]d", "d:P", "d:X{d:d}"])
@pytest.mark.parametrize(
    ("name", "tag"),
    [
        (b"double (struct foo)", "foo"),
        (b"double (union foo)", "foo"),
        (b"double (__Pyx_memviewslice)", "__Pyx_memviewslice"),
        (b"double (struct __pyx_t_3cym_pt)", "pt"),
        (b"double (union __pyx_t_3cym_un)", "un"),
    ],
)
def test_a_struct_by_value_is_nothing_else(name, tag, signature):
    with pytest.raises(nc.SignatureError) as info:
        nc.wrap(capsule(name), signature)
    wanted = f"'signature' is {signature!r}, but argument 1 of the target is {tag!r}, a struct "
    assert str(info.value).startswith(wanted)
    assert ("NC_SLICE_OF_VIEW" in str(info.value)) is (tag == "__Pyx_memviewslice")


@pytest.mark.parametrize("skip", ["", "int __pyx_skip_dispatch, "])
def test_optional_arguments_of_cython_are_left_out(builder, skip):
    code = """
#include <stddef.h>
double plain(double x, void *optional) { return optional == NULL ? x : -1.0; }
double skipping(double x, int skip, void *optional) { return optional == NULL && !skip ? x : -1.0; }
"""
    lib = nc.load(builder.library(code, "optionals"))
    name = f"double (double, {skip}struct __pyx_opt_args_3mod_f *__pyx_optional_args)"
    f = nc.wrap(capsule(name.encode(), lib.address("skipping" if skip else "plain")))
    assert (f.signatures, f(2.5)) == (("d:d",), 2.5)
