"""Which entry of an overloaded callable a call from Python takes.

Every callee returns its own name, so what ran is seen, not inferred.
"""

import collections
import ctypes
import gc
import itertools
import math
import random
import warnings
import weakref

import cffi
import numpy as np
import pytest

import nativecall as nc
from nativecall._cdecl.spelling import parse
from nativecall._types.ctype import scalar

SCALARS = {
    "?": "bool",
    "b": "i8",
    "B": "u8",
    "i": "i32",
    "q": "i64",
    "Q": "u64",
    "f": "f32",
    "d": "f64",
    "g": "f80",
    "Zd": "c128",
}
POINTERS = {"&d": "doubles", "&f": "floats", "&c": "bytes", "P": "anything", "O": "object"}
POINT = "T{d:x:d:y:}"
CHAR = scalar("c").text
ORACLE = cffi.FFI()


@pytest.fixture
def offer(lib):
    """A callable with an entry for each type, which says which one ran."""

    def offer(*types):
        symbols = {**SCALARS, **POINTERS, POINT: "point"}
        f = nc.wrap(
            {f"&c:{one}": lib.address(f"which_{symbols[one]}") for one in types},
            name="which",
            owner=lib,
        )

        def which(*values):
            return ORACLE.string(f(*values)).decode()

        which.f = f
        return which

    return offer


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Float:
    def __float__(self):
        return 1.5


def test_exact_types_come_first_in_any_order(offer):
    for order in itertools.permutations(["q", "d", "Zd", "?"]):
        which = offer(*order)
        assert [which(x) for x in (1, 1.0, 1j, True)] == ["i64", "f64", "c128", "bool"]


@pytest.mark.parametrize("code", SCALARS)
def test_numpy_scalars_have_their_own_types(offer, code):
    dtype = {"?": "bool", "b": "i1", "B": "u1", "i": "i4", "q": "i8", "Q": "u8"}.get(
        code, {"f": "f4", "d": "f8", "g": "longdouble", "Zd": "c16"}.get(code)
    )
    value = np.ones((), dtype=dtype)[()]
    assert offer(*SCALARS)(value) == SCALARS[code]


PROMOTIONS = [
    # what is offered, the value, what runs
    ("d", 1, "f64"),
    ("d", True, "f64"),
    ("Zd", 1, "c128"),
    ("Zd", 1.0, "c128"),
    ("q", True, "i64"),
    ("d Zd", 1, "f64"),
    ("Zd d", 1, "f64"),
    ("f d", 1.0, "f64"),
    ("f d", 1, "f64"),
    ("d g", 1, "f64"),
    ("g d", 1.0, "f64"),
    ("f g", np.float32(1), "f32"),
    ("d g", np.float32(1), "f64"),
    ("f", 1.0, "f32"),
    ("f", 1, "f32"),
    ("b i", 1, "i32"),
    ("b i q", 1, "i64"),
    ("b i", 1000, "i32"),
    ("b d", 1000, "f64"),
    ("q Q", 2**63, "u64"),
    ("q d", 2**63, "f64"),
    ("q d", -(2**63), "i64"),
    ("Q q", 5, "i64"),
    ("B b", 5, "i8"),
    ("B b", 200, "u8"),
    ("i", np.int64(5), "i32"),
    ("d i", np.int64(5), "i32"),
    ("q d", Index(5), "i64"),
    ("d", Index(5), "f64"),
    ("d q", Float(), "f64"),
    ("f", Float(), "f32"),
    ("d", 2**70, "f64"),
    ("d", np.True_, "f64"),
    ("q d", True, "i64"),
    ("q d", np.True_, "i64"),
    ("d q", np.False_, "i64"),
    ("i d", np.int32(1), "i32"),
    ("i d", np.int64(2**40), "f64"),
    ("d &d", None, "doubles"),
    ("P &d", np.zeros(1), "doubles"),
]


@pytest.mark.parametrize(("offered", "value", "ran"), PROMOTIONS)
def test_safe_promotion(offer, offered, value, ran):
    assert offer(*offered.split())(value) == ran


NEVER = [
    ("q", 1.0),
    ("q", 1j),
    ("d", 1j),
    ("d", "1"),
    ("d", None),
    ("?", 1),
    ("?", 1.0),
    ("b B", 1000),
    ("q Q", 2**64),
    ("&d", np.zeros(2, "f")),
    ("&d", 1.0),
    ("&d", "text"),
]


@pytest.mark.parametrize(("offered", "value"), NEVER)
def test_nothing_is_narrowed(offer, fails, offered, value):
    # A second arity makes the callable overloaded where one type is offered.
    which = offer(*offered.split(), POINT)
    offers = ", ".join(repr(f"&{CHAR}:{one}") for one in (*offered.split(), "T{dd}"))
    with fails(
        TypeError, f"no entry of 'which' takes ({type(value).__name__}); it offers {offers}"
    ):
        which(value)
    assert which((1.0, 2.0)) == "point"


def test_arity_chooses(lib, fails):
    f = nc.wrap(
        {
            "&c:": lib.address("which_none"),
            "&c:d": lib.address("which_f64"),
            "&c:dd": lib.address("which_two"),
        },
        name="which",
    )
    ran = [ORACLE.string(f(*values)) for values in ((), (1.0,), (1.0, 2.0), (1, 2))]
    assert ran == [b"none", b"f64", b"two", b"two"]
    offers = f"it offers '&{CHAR}:', '&{CHAR}:d', '&{CHAR}:dd'"
    with fails(TypeError, f"no entry of 'which' takes (float, float, int); {offers}"):
        f(1.0, 2.0, 3)
    with fails(TypeError, f"no entry of 'which' takes (float, str); {offers}"):
        f(1.0, "x")
    assert ORACLE.string(f.builtin(1.0)) == b"f64"


def test_every_argument_counts(lib):
    m = nc.load("m")
    f = nc.wrap({"f:ff": m.address("powf"), "d:dd": m.address("pow")})
    third = np.float32(1) / np.float32(3)
    assert f(third, np.float32(1)) == third
    assert f(1 / 3, 1.0) == 1 / 3
    assert f(third, 1.0) == float(third)
    assert f(2, 3) == 8.0


def test_ctypes_boxes_choose_by_what_they_point_to(offer):
    import ctypes

    which = offer("&d", "&f", "P")
    assert which(ctypes.pointer(ctypes.c_double())) == "doubles"
    assert which(ctypes.byref(ctypes.c_float())) == "floats"
    assert which((ctypes.c_double * 2)()) == "doubles"
    assert which(ctypes.pointer(ctypes.c_int())) == "anything"


STRUCTS = """
#include <stdint.h>
typedef struct { int32_t a, b; } Whole;
typedef struct { double a, b; } Real;
typedef struct { double a; int32_t b; } Mixed;
typedef struct { int8_t a, b; } Small;
typedef struct { Real at[2]; } Nested;
typedef struct { Whole at[2]; } Counted;
typedef struct { const double *a; int32_t b; } Span;
#define NAME(type) const char *name_##type(type x); \\
    const char *name_##type(type x) { (void)x; return #type; }
NAME(Whole) NAME(Real) NAME(Mixed) NAME(Small) NAME(Nested) NAME(Counted) NAME(Span)
const char *name_Object(void *x) { (void)x; return "Object"; }
const char *name_double(double x) { (void)x; return "double"; }
"""
STRUCT_TYPES = {
    "Whole": "T{i:a:i:b:}", "Real": "T{d:a:d:b:}", "Mixed": "T{d:a:i:b:}", "Small": "T{b:a:b:b:}",
    "Nested": "T{(2)T{dd}:at:}", "Counted": "T{(2)T{ii}:at:}", "Span": "T{&d:a:i:b:}",
    "Object": "O", "double": "d",
}  # fmt: skip


@pytest.fixture
def structs(builder):
    lib = nc.load(builder.library(STRUCTS, "structs"))

    def structs(*names):
        f = nc.wrap(
            {f"&c:{STRUCT_TYPES[name]}": lib.address(f"name_{name}") for name in names},
            owner=lib,
            name="which",
        )
        return lambda *values: ORACLE.string(f(*values)).decode()

    return structs


Pair = collections.namedtuple("Pair", "a b")
RECORD = np.zeros((), [("a", "f8"), ("b", "i4")])


@pytest.mark.parametrize(
    ("offered", "value", "ran"),
    [
        ("Whole Real", (1.5, 2.5), "Real"),
        ("Whole Real", (1, 2), "Whole"),
        ("Whole Real", [1.5, 2], "Real"),
        ("Whole Real", (2**40, 1), "Real"),
        ("Whole Real", Pair(1, 2), "Whole"),
        ("Whole Real", Pair(1.0, 2), "Real"),
        ("Whole Real", {"a": 1, "b": 2}, "Whole"),
        ("Whole Real", {"a": 1, "b": 2.0}, "Real"),
        ("Whole Real", (np.float64(1), 1), "Real"),
        ("Whole Real", (np.int32(1), np.int32(1)), "Whole"),
        ("Whole Mixed Real", (1.0, 2), "Mixed"),
        ("Whole Mixed Real", (1.0, 2.0), "Real"),
        ("Whole Mixed Real", RECORD, "Mixed"),
        ("Small Whole", (1, 2), "Whole"),
        ("Small Whole", (200, 2), "Whole"),
        ("Small Whole", (np.int8(1), np.int8(2)), "Small"),
        ("Nested Counted", (((1, 2), (3, 4)),), "Counted"),
        ("Nested Counted", (((1, 2), (3, 4.0)),), "Nested"),
        ("Span Whole Real", (np.zeros(2), 2), "Span"),
        ("Span Whole Real", (None, 2), "Span"),
        ("Span Whole Real", (2.0, 2), "Real"),
        ("Real Object", (1.0, "x"), "Object"),
        ("Real Object", (1.0, 2.0, 3.0), "Object"),
        ("Object Real", (1, 2), "Real"),
        ("Nested Object", (((1.0, 2.0),),), "Object"),
        ("double Real", (1.0, 2.0), "Real"),
    ],
)  # fmt: skip
def test_structs_choose_by_fields(structs, offered, value, ran):
    names = offered.split()
    for order in (names, names[::-1]):
        which = structs(*order)
        assert [which(value) for _ in range(3)] == [ran] * 3


def test_objects_of_libraries_choose_by_their_type():
    declared = "typedef struct { double a, b; } Real; typedef struct { int a, b; } Whole;"
    lib = nc.load(None, declared)
    ctype = type("C", (ctypes.Structure,), {"_fields_": [(n, ctypes.c_double) for n in "ab"]})
    arguments = "d", "T{d:a:d:b:}", "T{i:a:i:b:}", "&d"
    functions = [nc.callback(f"q:{one}", lambda x, at=at: at) for at, one in enumerate(arguments)]
    real, whole = lib.new("Real", (1, 2)), lib.new("Whole", (1, 2))
    number = lib.ffi.cast("double", 2.5)
    record = nc.callback("T{d:a:d:b:}:", lambda: (1.0, 2.0))()
    values = {0: [number, 1.5], 1: [real[0], ctype(1, 2), record], 2: [whole[0]]}
    values[3] = [lib.new("double[2]"), np.zeros(2)]
    for order in itertools.permutations(range(4)):
        chosen = nc.wrap({f"q:{arguments[at]}": functions[at] for at in order})
        for at, some in values.items():
            assert [chosen(one) for one in some * 3] == [at] * len(some) * 3


def test_structs_that_no_value_of_a_field_fits(structs):
    which = structs("Whole", "Small")
    for value in ((1.5, 2), ("x", 1), (2**40, 1), (1,), (1, 2, 3), {"a": 1}, 5):
        with pytest.raises(TypeError, match=r"^no entry of 'which' takes"):
            which(value)


def test_fields_are_looked_at_without_swallowing_errors(structs):
    class Raising:
        def __index__(self):
            raise LookupError("my own error")

    with pytest.raises(LookupError, match="my own error"):
        structs("Whole", "Small")((1, Raising()))


def test_arrays_that_a_pointer_refuses_choose_another_entry(offer, fails):
    """Until there is none: then the conversion says what is wrong."""
    locked = np.zeros(4)
    locked.flags.writeable = False
    for which in (offer("&d", "O"), offer("O", "&d")):
        for _ in range(3):
            assert which(np.zeros(4)) == "doubles"
            assert which(np.zeros(4)[::2]) == which(locked) == "object"
    which = offer("&d", "&f", "d")
    for _ in range(3):
        assert which(np.zeros(4)) == "doubles"
        with fails(
            ValueError,
            "argument 1 of 'which' must be writable, this numpy.ndarray is read-only; a C "
            "declaration with const makes the argument read-only",
        ):
            which(locked)


def test_bytes_choose_every_time(offer):
    which = offer("&c", "&d", "O")
    anything = offer("P", "O")
    for _ in range(3):
        assert which(b"text") == which(memoryview(bytearray(2))) == "bytes"
        assert which(memoryview(b"text")) == "object", "only bytes are text"
        assert anything(b"text") == "object", "which nobody promised not to write to"
        assert anything(bytearray(4)) == "anything"


def test_the_nearest_of_narrower_types(offer):
    """A long double loses least as a double."""
    wide = np.longdouble("1e300")
    for types in (("f", "d"), ("d", "f")):
        assert offer(*types)(wide) == "f64"
        assert offer(*types, "g")(wide) == "f80"
    for types in (("d", "Zd"), ("Zd", "d")):
        assert offer(*types)(wide) == "f64"


def test_keywords_are_refused(offer, fails):
    which = offer("d", "q")
    with fails(
        TypeError,
        "'which' is overloaded and takes no keyword arguments; choose an entry first, "
        "as in f['d:d'](x=1.0)",
    ):
        which.f(x=1.0)
    assert which(1.0) == "f64"


def test_errors_of_conversions_are_the_users_own(offer, fails):
    class Raising:
        def __index__(self):
            raise LookupError("my own error")

    which = offer("q", "d")
    with fails(LookupError, "my own error"):
        which(Raising())
    assert which(1) == "i64"


def test_a_conversion_may_add_an_entry(offer, lib):
    which = offer("q", "?")

    class Adding:
        def __index__(self):
            if "&c:d" not in which.f:
                which.f.add("&c:d", lib.address("which_f64"))
            return 7

    assert which(Adding()) == "i64"
    assert which(1.0) == "f64"


def test_python_objects_are_the_last_resort():
    import ctypes

    m = nc.load("m")
    repr_address = ctypes.cast(ctypes.pythonapi.PyObject_Repr, ctypes.c_void_p).value
    f = nc.wrap({"O:O": repr_address, "d:d": m.address("fabs")})
    assert f(-1.5) == 1.5
    assert f(-2) == 2.0
    assert f("x") == "'x'"
    assert f([1]) == "[1]"


# -- what is remembered of choices -----------------------------------------------------------------

C_TYPES = {
    "?": "_Bool",
    "b": "signed char",
    "B": "unsigned char",
    "h": "short",
    "H": "unsigned short",
    "i": "int",
    "I": "unsigned",
    "q": "long long",
    "Q": "unsigned long long",
    "f": "float",
    "d": "double",
    "g": "long double",
    "Zd": "double _Complex",
    "&d": "double *",
    "&f": "float *",
    "&B": "unsigned char *",
    "P": "void *",
    "O": "PyObject *",
    POINT: "struct point",
    f"&{POINT}": "struct point *",
}


@pytest.fixture(scope="module")
def numbered(builder):
    """Functions of one and of two arguments, for all types; each returns its own number."""
    signatures = [(a,) for a in C_TYPES] + [*itertools.product(C_TYPES, repeat=2)]
    source = ["typedef struct _object PyObject; struct point { double x, y; };"]
    for number, types in enumerate(signatures):
        arguments = ", ".join(
            f"{C_TYPES[one]} {name}" for one, name in zip(types, "ab", strict=False)
        )
        unused = " ".join(f"(void){name};" for name in "ab"[: len(types)])
        source.append(f"long long f{number}({arguments}) {{ {unused} return {number}; }}")
    lib = nc.load(builder.library("\n".join(source), "numbered"))
    return {
        f"q:{''.join(types)}": (lib.address(f"f{number}"), lib)
        for number, types in enumerate(signatures)
    }


def subclass(of):
    return type(f"Sub{of.__name__}", (of,), {})


# For these nothing is remembered, and the rule takes them as the types that they derive from.
TWINS = {
    of: subclass(of)
    for of in (
        *(float, int, complex),
        *(np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128),
        *(np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64),
        *(np.longlong, np.ulonglong, np.intc, bytes, bytearray),
    )
}
Array = subclass(np.ndarray)
TWINS[np.ndarray] = lambda array: array.view(Array)


def ends_of(bits):
    return [-(2**bits) - 1, -(2**bits), 2**bits - 1, 2**bits]


INTS = sorted(
    {0, 1, -1, 5, 1000, *[end for bits in (*range(7, 66), 2000) for end in ends_of(bits)]}
)


def numpy_values():
    for of in TWINS:
        if not issubclass(of, np.generic):
            continue
        if issubclass(of, np.integer):
            limits = np.iinfo(of)
            for value in INTS:
                if limits.min <= value <= limits.max:
                    yield of(value)
        else:
            yield from (of(0.0), of(1.5))


ARRAYS = [
    *[np.zeros(2, code) for code in ("?", "i1", "u1", "i4", "f2", "f4", "f8", "c16", "M8[s]", "O")],
    *(np.zeros((2, 2)), np.zeros(4)[::2], np.zeros(0), np.array(1.5), np.zeros(2, ">f8")),
    *(np.zeros(2, "f8,f8"), np.frombuffer(bytes(16)), memoryview(np.zeros(2)), memoryview(b"text")),
    *(
        b"text",
        b"",
        bytes(16),
        bytearray(16),
        bytearray(15),
        ORACLE.buffer(ORACLE.new("double[2]")),
    ),
]
VALUES = [
    *(0.0, -1.5, 1e300, float("inf"), True, False, 1j, None),
    *INTS,
    *numpy_values(),
    *(np.True_, np.False_, np.datetime64(5, "s"), np.str_("x"), np.void(b"12345678")),
    *(*ARRAYS, *ARRAYS, *ARRAYS, *ARRAYS),
    *((1.0, 2.0), (1, 2), "text"),
    *(Index(5), Index(2**40), Float()),
]


def outcome(f, values):
    """The number of the function that ran, or the error without what it says of types."""
    try:
        return f(*values)
    except (OverflowError, TypeError, ValueError) as error:
        return type(error).__name__, str(error)[: len("argument 1 of 'which'")]


@pytest.mark.parametrize("seed", range(40))
def test_remembered_choices_are_the_rules(numbered, seed):
    rng = random.Random(seed)
    arity = rng.choice([1, 2])
    of_arity = [text for text in numbered if len(parse(text).args) == arity]
    # Some sets have few types, so that exact matches are frequent, and some two arities.
    few = {parse(f"q:{one}").args[0] for one in rng.sample([*C_TYPES], rng.randint(2, 5))}
    narrow = [text for text in of_arity if few.issuperset(parse(text).args)]
    texts = rng.sample(narrow or of_arity, min(len(narrow) or 2, rng.randint(2, 8)))
    texts += rng.sample([*numbered], rng.randint(0, 2))
    texts = [*dict.fromkeys([*texts, f"q:{'d' * arity}"])]
    rng.shuffle(texts)
    f = nc.wrap({text: numbered[text][0] for text in texts}, name="which", owner=numbered)
    calls = [tuple(rng.choices(VALUES, k=arity)) for _ in range(400)]
    found = [outcome(f, values) for values in calls]
    assert int in {type(one) for one in found}, texts
    # What was remembered meanwhile changes nothing.
    assert [outcome(f, values) for values in calls] == found
    asked = 0
    for values, one in zip(calls, found, strict=True):
        twins = tuple(TWINS[type(v)](v) if type(v) in TWINS else v for v in values)
        asked += any(twin is not v for twin, v in zip(twins, values, strict=True))
        assert outcome(f, twins) == one, (texts, values)
    assert asked > 100


def test_ints_choose_by_size_every_time(offer):
    which = offer("b", "B", "i", "q", "Q", "d")
    expected = {0: "i64", -129: "i64", 2**62: "i64", 2**63: "u64", 2**64: "f64", -(2**63): "i64"}
    for _ in range(3):
        assert [which(value) for value in expected] == [*expected.values()]


def test_arrays_choose_by_their_elements_every_time(offer, fails):
    which = offer("&f", "&d", "&c")
    assert which(ORACLE.new("double[2]")) == "doubles"
    assert which(ORACLE.new("float *")) == "floats"
    released = memoryview(bytearray(8)).cast("d")
    for _ in range(3):
        assert which(np.zeros(2)) == which(np.zeros((2, 2))) == which(released) == "doubles"
        assert which(np.zeros(2, "f")) == "floats"
        assert which(b"text") == which(bytearray(4)) == "bytes"
    released.release()
    offers = ", ".join(f"'&{CHAR}:&{one}'" for one in ("f", "d", CHAR))
    with fails(TypeError, f"no entry of 'which' takes (memoryview); it offers {offers}"):
        which(released)
    with fails(
        ValueError,
        "argument 1 of 'which' must be C-contiguous, this numpy.ndarray is not; "
        "pass a contiguous copy",
    ):
        which(np.zeros(4)[::2])


def test_buffers_of_bytes_choose_by_their_length_every_time(numbered):
    types = f"&{POINT}", "P", "d"
    f = nc.wrap({f"q:{one}": numbered[f"q:{one}"][0] for one in types}, owner=numbered)
    points, anything = [f[f"q:{one}"](None) for one in types[:2]]
    assert points != anything
    for _ in range(3):
        assert [f(bytearray(size)) for size in (16, 15, 32)] == [points, anything, points]


def test_arrays_that_are_too_short_choose_another_entry(numbered, fails):
    places = {"q:&(3)d": "q:&d", "q:&(2)d": "q:&f", "q:P": "q:P"}
    entries = {one: numbered[place][0] for one, place in places.items()}
    f = nc.wrap(entries, name="f", owner=numbered)
    three, two, anything = [f[one](None) for one in places]
    assert len({three, two, anything}) == 3
    for _ in range(3):
        assert [f(np.zeros(n)) for n in (4, 2, 3, 1)] == [three, two, three, anything]
    del entries["q:P"]
    f = nc.wrap(entries, name="f", owner=numbered)
    with fails(ValueError, "argument 1 of 'f' must be a buffer of at least 3 items of 'd' (got 1)"):
        f(np.zeros(1))


def test_callables_of_other_signatures_choose_for_themselves(offer):
    made = [offer(*types) for types in (("d", "q"), ("q", "d"), ("f", "i"), ("Q", "f"), ("q", "f"))]
    for _ in range(3):
        assert [which(1) for which in made] == ["i64", "i64", "i32", "u64", "i64"]
        assert [which(1.0) for which in made] == ["f64", "f64", "f32", "f32", "f32"]


def test_callables_of_the_same_signatures_call_their_own_functions():
    m = nc.load("m")
    pairs = [("sqrt", "pow"), ("fabs", "atan2"), ("cbrt", "hypot")]
    made = [nc.wrap({"d:d": m.address(a), "d:dd": m.address(b)}) for a, b in pairs]
    assert [f(0.25) for f in made] == [0.5, 0.25, math.cbrt(0.25)]
    assert [f(3.0, 4.0) for f in made] == [81.0, math.atan2(3, 4), 5.0]
    del made[0]
    assert [f(-8.0) for f in made] == [8.0, -2.0]


def test_callables_of_other_options_choose_for_themselves(builder):
    m = nc.load("m")
    lib = nc.load(builder.library(REFERENCES, "references"))
    apart = nc.wrap({"d:d&i": m.address("frexp"), "f:f": m.address("cosf")})
    together = nc.wrap(m.address("frexp"), "d:d&i", out=[1])
    together.add("f:f", m.address("cosf"))
    entries = {"d:&d": lib.address("reads_double"), "d:d": lib.address("takes_double")}
    by_address = nc.wrap(entries, order="F")
    by_value = nc.wrap(entries, fortran=True)
    for _ in range(2):
        assert apart(0.0) == 1
        assert together(8.0) == (0.5, 4)
        assert by_address(1.0) == 201
        assert by_value(1.0) == 101


REFERENCES = """
double reads_double(const double *x) { return *x + 100; }
double takes_double(double x) { return x + 200; }
double reads_int(const int *x) { return *x + 300; }
double reads_unsigned(const unsigned *x) { return *x + 400; }
"""


@pytest.mark.parametrize("number", [int, np.int64])
def test_ints_by_reference_choose_by_size_every_time(builder, number):
    lib = nc.load(builder.library(REFERENCES, "references"))
    entries = {"d:&i": lib.address("reads_int"), "d:d": lib.address("takes_double")}
    f = nc.wrap(entries, fortran=True)
    entries = {"d:&i": lib.address("reads_int"), "d:&I": lib.address("reads_unsigned")}
    g = nc.wrap(entries, fortran=True)
    for _ in range(2):
        assert (f(number(5)), f(number(2**40))) == (305, 2**40 + 200)
        assert (g(number(5)), g(number(3 * 10**9))) == (305, 3 * 10**9 + 400)


def test_what_was_remembered_is_forgotten_with_a_new_entry(offer, lib):
    which = offer("q", "?")
    assert which(5) == which(5) == "i64"
    assert which(True) == which(True) == "bool"
    which.f.add("&c:d", lib.address("which_f64"))
    assert which(5.0) == which(5.0) == "f64"
    assert which(5) == "i64"


def test_a_replaced_entry_runs_where_the_old_one_was_chosen(offer, lib):
    which = offer("q", "d")
    assert which(1.0) == which(1.0) == "f64"
    which.f.add("&c:d", lib.address("which_f32"), replace=True)
    assert which(1.0) == "f32"


def test_many_arguments(builder):
    source = """
    double doubles(double a, double b, double c, double d, double e, double f, double g, double h,
                   double i, double j, double k, double l)
    { return a + b + c + d + e + f + g + h + i + j + k + l; }
    long long ints(long long a, long long b, long long c, long long d, long long e, long long f,
                   long long g, long long h, long long i, long long j, long long k, long long l)
    { return a - b + c - d + e - f + g - h + i - j + k - l; }
    """
    lib = nc.load(builder.library(source, "many_arguments"))
    f = nc.wrap(
        {f"q:{'q' * 12}": lib.address("ints"), f"d:{'d' * 12}": lib.address("doubles")}, owner=lib
    )
    for _ in range(2):
        assert f(*range(12)) == -6
        assert f(*map(float, range(12))) == 66.0
        assert f(*range(11), 0.5) == 55.5


def test_an_entry_that_is_added_while_an_array_is_looked_at(offer):
    """NumPy warns of what broadcast_arrays returns when the choice asks it for a buffer."""
    which = offer("d", "i", "Q", "B")
    address = which.f.address
    for _ in range(20):
        runs = {"&c:d&d": "&c:d", "&c:I&d": "&c:i", "&c:Q&d": "&c:Q"}
        f = nc.wrap({one: address(ran) for one, ran in runs.items()}, owner=which.f)
        zeros = np.zeros(3)
        assert ORACLE.string(f(-5, zeros)) == b"f64"
        seen = []

        def warned(*_, f=f, zeros=zeros, seen=seen):
            f.add("&c:B&d", address("&c:B"))
            f(2**40, zeros)  # in the new table it has the class that -5 had in the old one
            seen.append(len(f.entries))

        array = np.broadcast_arrays(np.zeros(3), np.zeros((1, 3)))[0]
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = warned
            # As before, whatever the memory of the old table is used for now.
            assert ORACLE.string(f(-5, array)) == b"f64"
        assert seen == [4]
        assert ORACLE.string(f(2**40, zeros)) == b"u64"


def test_a_cycle_through_an_entry_is_collected_after_calls():
    class Holder:
        pass

    def called():
        holder = Holder()
        one = nc.callback("q:d", lambda x: holder is None)
        holder.f = nc.wrap({"q:d": one, "q:q": nc.callback("q:q", lambda x: 2)})
        assert (holder.f(1.5), holder.f(3)) == (0, 2)
        return weakref.ref(holder)

    watched = called()
    gc.collect()
    assert watched() is None
