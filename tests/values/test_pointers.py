"""Addresses: what a pointer leads to stays in its place until the call, and is aligned.

An address that was taken from one argument is held while others are converted, which may run any
code: what it leads to is kept alive, and memory that cannot be held, since its owner moves it all
the same, is noticed before the call. The cases run with generated code and without, and what
was given up is filled with other bytes.
"""

import ctypes
import sys

import cffi
import numpy as np
import pytest

import nativecall as nc

SOURCE = """
typedef struct { int *p; int n; } Held;
typedef struct { long double a; long b; } Wide;
typedef struct { double a[16384]; } Big;
#pragma pack(1)
typedef struct { char c; int x; } Packed;
#pragma pack()
int first(const int *p, int i) { return *p + i; }
int both(const int *p, const int *q) { return *p + *q; }
int mixed(const int *p, const int *q, short s) { return *p + *q + s; }
int last(short s, const int *p) { return *p + s; }
int member(Held h, int i) { return *h.p + i; }
int inner(int **p, int i) { return **p + i; }
int anything(const void *p, int i) { return *(const char *)p + i; }
double real(const double *p) { return *p; }
long wide(const Wide *p) { return p->b; }
int packed(const Packed *p) { return p->x; }
int nullable(const double *p) { return p == 0; }
double big(Big b) { return b.a[16383]; }
int call(int (*f)(int), int i) { return f(i); }
int hand(const double *(*f)(int)) { const double *p = f(1); return p == 0 ? -1 : (int)*p; }
int viewed(const long *v, int i) { return *(const int *)v[0] + i; }
"""
HELD = "T{&i:p:i:n:}"

MOVING = '''
import ctypes, gc, sys
import cffi, numpy as np
import nativecall as nc

lib = nc.load(sys.argv[1])
ffi = cffi.FFI()
HELD = "T{&i:p:i:n:}"

class Meanwhile:
    """An argument, 1, whose conversion runs code first; then memory that was given up is filled."""
    def __init__(self, act):
        self.act = act
    def __index__(self):
        self.act()
        gc.collect()
        self.filled = [bytes([i % 256]) * size for size in (4, 8, 16, 24, 48) for i in range(400)]
        return 1

class Held(ctypes.Structure):
    _fields_ = [("p", ctypes.POINTER(ctypes.c_int)), ("n", ctypes.c_int)]

class Buffer:
    def __init__(self, act, memory):
        self.act, self.memory = act, memory
    def __buffer__(self, flags):
        self.act()
        return memoryview(self.memory)

def moved(what, name, call, *arguments):
    try:
        call(*arguments)
    except BufferError as error:
        assert str(error) == (
            f"the memory of a {what} was moved while the arguments of '{name}' were converted; do "
            "not resize arguments meanwhile"
        ), error
    else:
        raise AssertionError("accepted")

def ints():
    return (ctypes.c_int * 3)(4, 5, 6)

def grow(array):
    return Meanwhile(lambda: ctypes.resize(array, 1 << 20))

def new(value):
    return ctypes.pointer(ctypes.c_int(value))

FIRST = ("first", "i:&ii")
'''

# What happens, and code that fails where the memory was not held.
CASES = {
    "contents replaced": """
f, p = lib.function(*FIRST), new(5)
assert f(p, Meanwhile(lambda: setattr(p, "contents", ctypes.c_int(7)))) == 6
assert p.contents.value == 7
""",
    "contents replaced, by the built-in view": """
f, p = lib.function(*FIRST).builtin, new(5)
assert f(p, Meanwhile(lambda: setattr(p, "contents", ctypes.c_int(7)))) == 6
""",
    "value of a char pointer replaced": """
f, p = lib.function("anything", "i:Pi"), ctypes.c_char_p(bytes([65]) * 40)
assert f(p, Meanwhile(lambda: setattr(p, "value", bytes(40)))) == 66
""",
    "field of a struct replaced, its pointer passed": """
f, h = lib.function(*FIRST), Held(new(5), 1)
assert f(h.p, Meanwhile(lambda: setattr(h, "p", new(7)))) == 6
""",
    "field of a struct replaced": """
f, h = lib.function("member", f"i:{HELD}i"), Held(new(5), 1)
assert f(h, Meanwhile(lambda: setattr(h, "p", new(7)))) == 6
""",
    "field of a struct that is a mapping's": """
class Mapping:
    def keys(self): return ["p", "n"]
    def __getitem__(self, key): return {"p": new(5), "n": 1}[key]
assert lib.function("member", f"i:{HELD}i")(Mapping(), Meanwhile(gc.collect)) == 6
""",
    "struct in a list that is emptied": """
f = lib.function("member", f"i:{HELD}i")
parts = [new(5), 1]
assert f(parts, Meanwhile(parts.clear)) == 6
""",
    "item of an array of pointers, given up": """
f = lib.function("inner", "i:&&ii")
a = (ctypes.POINTER(ctypes.c_int) * 2)(new(5), new(6))
assert f(a, Meanwhile(lambda: None)) == 6
moved("LP_c_int_Array_2", "inner", f, a, grow(a))
""",
    "array resized": """
a = ints()
moved("c_int_Array_3", "first", lib.function(*FIRST), a, grow(a))
""",
    "view of an array that is resized": """
a = ints()
moved("memoryview", "first", lib.function(*FIRST), memoryview(a)[1:], grow(a))
""",
    "array resized, passed by reference": """
a = ints()
moved("c_int_Array_3", "first", lib.function(*FIRST), ctypes.byref(a), grow(a))
""",
    "variable resized": """
f, p = lib.function("anything", "i:&Pi"), ctypes.c_void_p(5)
assert f(p, Meanwhile(lambda: None)) == 6
ctypes.resize(p, 1 << 10)
at = ctypes.addressof(p)
try:
    moved("c_void_p", "anything", f, p, Meanwhile(lambda: ctypes.resize(p, 1 << 20)))
except AssertionError:
    assert ctypes.addressof(p) == at  # the allocator let it grow where it was
""",
    "array resized, of three arguments": """
a, b = ints(), np.ones(2, "i4")
f = lib.function("mixed", "i:&i&ih")
moved("c_int_Array_3", "mixed", f, a, b, grow(a))
a = ints()
moved("c_int_Array_3", "mixed", f, b, a, grow(a))
a = ints()
assert f(a, b, Meanwhile(lambda: None)) == 4 + 1 + 1
""",
    "array resized, of a struct": """
a = ints()
moved("c_int_Array_3", "member", lib.function("member", f"i:{HELD}i"), (a, 1), grow(a))
a = ints()
moved("c_int_Array_3", "member", lib.function("member", f"i:{HELD}i"), (a, grow(a)), 1)
""",
    "array resized, as a view": """
a = ints()
f = lib.function("viewed", "i:[1]ii")
moved("c_int_Array_3", "viewed", f, a, grow(a))
""",
    "array resized, while it is bound": """
a = ints()
moved("c_int_Array_3", "first", lib.function(*FIRST).bind, a, grow(a))
""",
    "NumPy's array resized without its check": """
a = np.ones(3, "i4")
act = Meanwhile(lambda: a.resize(1 << 20, refcheck=False))
moved("numpy.ndarray", "first", lib.function(*FIRST), a, act)
""",
    "buffer of cffi released": """
b = bytearray(16)
p = ffi.from_buffer("int[]", b)
def release():
    ffi.release(p)
    try:
        b.extend(bytes(1 << 20))
    except BufferError:
        held.append(p)
held = []
assert lib.function(*FIRST)(p, Meanwhile(release)) == 1 and held == [p]
b.extend(bytes(1 << 20))
""",
    "function replaced": """
f = lib.function("last", "i:h&i")
other = lib.function("last", "i:h&i")
p = ctypes.pointer(ctypes.c_int(5))
assert f(Meanwhile(lambda: f.add("i:h&i", other, replace=True)), p) == 6
""",
    "callback closed": """
g = nc.callback("i:i", lambda i: 2 * i)
f = lib.function("call", "i:X{i:i}i")
assert f(g, 1) == 2
try:
    f(g, Meanwhile(g.close))
except RuntimeError as error:
    assert str(error) == "callback '<lambda>' is closed", error
else:
    raise AssertionError("called")
""",
    "everything dropped": """
f, held = lib.function("member", f"i:{HELD}i"), [Held(new(5), 1)]
f, held[0] = lib.function(*FIRST), held[0].p
box = {"f": f, "p": held.pop()}
def call():
    return box.pop("f")(box.pop("p"), Meanwhile(box.clear))
assert call() == 6
""",
}

# A __buffer__ in Python, from 3.12 on, where buffers are asked for by its conversion.
BUFFER_CASES = {
    "array resized by a __buffer__": """
a, b = ints(), np.ones(2, "i4")
f = lib.function("both", "i:&i&i")
moved("c_int_Array_3", "both", f, a, Buffer(lambda: ctypes.resize(a, 1 << 20), b))
a = np.ones(3, "i4")
act = Buffer(lambda: a.resize(1 << 20, refcheck=False), b)
moved("numpy.ndarray", "both", f, a, act)
assert f(b, Buffer(lambda: None, b)) == 2
""",
    "array behind a __buffer__ resized": """
a = ints()
moved("_buffer_wrapper", "first", lib.function(*FIRST), Buffer(lambda: None, a), grow(a))
""",
    "array with a __buffer__ of its own": """
class Array(ctypes.c_int * 3):
    def __buffer__(self, flags):
        return super().__buffer__(flags)
a = Array(4)
assert lib.function(*FIRST)(a, 1) == 5
try:
    lib.function(*FIRST)(a, grow(a))
except BufferError:
    pass
else:
    raise AssertionError("accepted")
""",
    "struct with a __buffer__ of its own": """
class Short(Held):
    def __buffer__(self, flags):
        return memoryview(b"abcd")
assert lib.function("member", f"i:{HELD}i")(Short(new(5), 1), 1) == 6
class Big(ctypes.Structure):
    _fields_ = [("a", ctypes.c_double * 16384)]
    def __buffer__(self, flags):
        return memoryview(bytes(4096))
b = Big()
b.a[16383] = 2.5
assert lib.function("big", "d:T{(16384)d:a:}")(b) == 2.5
""",
    "struct behind a pointer, with a __buffer__ of its own": """
class One(ctypes.Structure):
    _fields_ = [("a", ctypes.c_char)]
class Two(ctypes.Structure):
    _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_int)]
    def __buffer__(self, flags):
        return memoryview(One())
try:
    lib.function("first", "i:&T{ii}i")(Two(), 1)
except TypeError as error:
    assert "must be a buffer that suits '&T{ii}'" in str(error)
else:
    raise AssertionError("accepted")
""",
}
if sys.version_info >= (3, 12):
    CASES |= BUFFER_CASES


@pytest.fixture(scope="module")
def pointers(builder):
    return builder.library(SOURCE, "pointers")


@pytest.fixture(scope="module")
def library(pointers):
    return nc.load(pointers)


@pytest.mark.parametrize("jit", ["1", "0"])
def test_what_an_address_leads_to_is_held_until_the_call(python, monkeypatch, pointers, jit):
    monkeypatch.setenv("NATIVECALL_JIT", jit)
    # What is freed is overwritten.
    monkeypatch.setenv("PYTHONMALLOC", "debug")
    monkeypatch.setenv("MALLOC_PERTURB_", "165")
    code = MOVING
    for name, case in CASES.items():
        lines = "".join([f"    {line}\n" for line in case.strip().splitlines()])
        code += f"def case():\n{lines}try:\n    case()\nexcept Exception as error:\n"
        code += f"    print({name!r}, repr(error))\n"
    assert python(code, pointers) == ""


def test_pointers_refer_to_nothing_of_themselves(library):
    """What the conversion of a pointer looks at is as before: `ctypes.cast` would add to it."""
    f = library.function("first", "i:&ii")
    p = ctypes.pointer(ctypes.c_int(5))
    before = dict(p._objects), sys.getrefcount(p)
    assert f(p, 1) == 6
    assert (dict(p._objects), sys.getrefcount(p)) == before


def test_what_ctypes_makes_of_numbers_is_no_pointer(library, fails):
    with fails(
        TypeError,
        "argument 1 of 'first' must be a '&i' pointer: a buffer, a ctypes or cffi pointer, or None "
        "(got CArgObject)",
    ):
        library.function("first", "i:&ii")(ctypes.c_int.from_param(5), 1)


# -- alignment -----------------------------------------------------------------------------------


def astray(size, what="numpy.ndarray", who="argument 1 of 'real'"):
    return (
        f"{who} must have its elements at multiples of {size} bytes, those of this {what} are not; "
        "pass an aligned copy, as numpy.require(a, requirements='A') makes one of an array"
    )


@pytest.fixture
def memory():
    """Bytes that begin one after a multiple of 16."""
    whole = np.zeros(256, "B")
    start = -whole.ctypes.data % 16 + 1
    return memoryview(whole)[start:]


def at(memory, code, count=2, offset=0):
    return np.ndarray((count,), code, memory, offset)


@pytest.mark.parametrize("code", "hHiIqQefd")
def test_pointers_take_no_buffer_that_is_not_aligned(library, fails, memory, code):
    f = nc.wrap(library.address("nullable"), f"i:&{code}", name="f")
    a = at(memory, code)
    size = np.dtype(a.dtype).alignment
    with fails(ValueError, astray(size, who="argument 1 of 'f'")):
        f(a)
    with fails(ValueError, astray(size, who="argument 1 of 'f'")):
        f(a[:1])
    assert f(np.require(a, requirements="A")) == 0
    assert f(a.copy()) == 0
    assert f(a[:0]) == 0  # no element is anywhere
    for aligned in (1, size // 2, size):
        b = at(memory, a.dtype, 1, 15 + aligned)
        if aligned == size:
            assert f(b) == 0
        else:
            with fails(ValueError, astray(size, who="argument 1 of 'f'")):
                f(b)


def test_bytes_and_void_are_anywhere(library, memory):
    assert nc.wrap(library.address("nullable"), "i:&c")(memory) == 0
    assert nc.wrap(library.address("nullable"), "i:P")(at(memory, "d")) == 0
    assert nc.wrap(library.address("nullable"), "i:&?")(at(memory, "?")) == 0


def test_buffers_of_every_kind_must_be_aligned(library, fails, memory):
    f = library.function("real", "double (const double *)")
    with fails(ValueError, astray(8, "memoryview")):
        f(memoryview(at(memory, "d")))
    boxed = (ctypes.c_double * 2).from_buffer(memory, 0)
    with fails(ValueError, astray(8, "c_double_Array_2")):
        f(boxed)
    held = cffi.FFI().from_buffer("double[]", at(memory, "B", 16))
    with fails(ValueError, astray(8, "__CDataFromBuf")):
        f(held)
    table = (ctypes.c_void_p * 2).from_buffer(memory, 0)
    with fails(ValueError, astray(8, "c_void_p_Array_2", "argument 1 of 'nullable'")):
        library.function("nullable", "i:&P")(table)
    # The address in a pointer is what the user says it is: handles may be odd.
    g = library.function("nullable", "i:&d")
    assert g(ctypes.cast(boxed, ctypes.POINTER(ctypes.c_double))) == 0
    assert g(ctypes.byref(boxed)) == 0
    assert g(cffi.FFI().cast("double *", 3)) == 0


def test_structs_must_be_aligned(library, fails, memory):
    wide = library.function("wide", "q:&T{gq}")
    who = "argument 1 of 'wide'"
    with fails(ValueError, astray(16, "memoryview", who)):
        wide(memory[:32])
    with fails(ValueError, astray(16, "memoryview", who)):
        wide(memory[7:39])
    assert wide(memory[15:47]) == 0
    records = at(memory, np.dtype([("a", "g"), ("b", "q")], align=True), 1)
    with fails(ValueError, astray(16, "numpy.ndarray", who)):
        wide(records)
    # A packed one is anywhere.
    packed = library.function("packed", "i:&=T{ci}")
    assert packed(memory[:5]) == 0
    assert packed(at(memory, np.dtype([("c", "b"), ("x", "i4")]), 1)) == 0


def test_arrays_in_structs_and_of_known_length_must_be_aligned(library, fails, memory):
    member = library.function("member", f"i:{HELD}i")
    with fails(ValueError, astray(4, who="field 'p' of argument 1 of 'member'")):
        member((at(memory, "i4"), 1), 1)
    f = nc.wrap(library.address("real"), "d:&(2)d", name="real")
    with fails(ValueError, astray(8)):
        f(at(memory, "d"))


def test_bound_pointers_must_be_aligned(library, fails, memory):
    f = library.function("real", "d:&d")
    with fails(ValueError, astray(8)):
        f.bind(at(memory, "d"))
    assert f.bind(np.array([2.5]))() == 2.5


def test_pointers_that_python_functions_return_must_be_aligned(library, fails, memory):
    f = library.function("hand", "i:X{&d:i}")
    with fails(ValueError, astray(8, who="the result of argument 1 of 'hand'")):
        f(lambda i: at(memory, "d"))
    assert f(lambda i: np.array([3.0])) == 3


def test_no_buffer_stays_exported_that_is_not_aligned(library, memory):
    whole = bytearray(64)
    address = ctypes.addressof(ctypes.c_char.from_buffer(whole))
    with pytest.raises(ValueError, match="multiples of 8 bytes"):
        library.function("real", "d:&d")(np.ndarray((1,), "d", whole, -address % 8 + 1))
    whole.append(1)  # BufferError while anything still exports it


def test_a_view_that_is_garbage_with_what_exports_it(python, pointers):
    """The collector would clear the memoryview first, which then cannot be released."""
    code = """
import gc, sys
import nativecall as nc
f = nc.load(sys.argv[1]).function("first", "i:&ii")
class Circle:
    pass
for _ in range(20):
    circle = Circle()
    circle.own, circle.bound = circle, f.bind(memoryview(bytearray(8)).cast("i"))
    assert circle.bound(1) == 1
    del circle
    gc.collect()
"""
    assert python(code, pointers) == ""


def test_arrays_that_are_not_aligned_choose_another_entry(library, fails, memory):
    real, nullable = library.address("real"), library.address("nullable")
    f = nc.wrap({"d:&d": real, "i:P": nullable}, name="f")
    a = np.array([2.5])
    for _ in range(3):
        assert f(a) == 2.5
        assert f(at(memory, "d")) == 0
    g = nc.wrap({"d:&d": real, "i:&i": nullable}, name="g")
    for _ in range(3):
        assert g(a) == 2.5
        with fails(ValueError, astray(8, who="argument 1 of 'd:&d'").replace("d:&d", "g")):
            g(at(memory, "d"))
