"""Out-parameters: pointers to where C writes results, which are results for Python."""

import ctypes
import inspect
import pickle

import cffi
import numpy as np
import pytest

import nativecall as nc
from nativecall._types.ctype import SCALARS

ffi = cffi.FFI()
NO_SIZE = ", which does not point to a type of known size"
SOURCE = r"""
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <complex.h>

typedef struct { double x, y; int n; } point;
typedef struct { char name[200]; double value; } big;

int divide(int a, int b, int *quotient, int *rest)
{
    if (b == 0) return 5;
    *quotient = a / b;
    *rest = a % b;
    return 0;
}
int nothing(int *untouched) { return 0; }
void half(double x, double *_Result) { *_Result = x / 2; }
double both(double x, float *f, point *p, const char **text)
{
    *f = (float)x;
    p->x = x; p->y = -x; p->n = 3;
    *text = x > 0 ? "positive" : NULL;
    return x;
}
void fill(big *one) { memset(one, 0, sizeof *one); strcpy(one->name, "big"); one->value = 2.5; }
void step(int64_t *state, double *x) { *state = *state * 3 + 1; *x *= 2; }
void ramp(int n, double *values) { for (int i = 0; i < n; i++) values[i] = i * 0.5; }
void three(double values[3], int8_t *signs)
{ for (int i = 0; i < 3; i++) values[i] += i, signs[i] = (int8_t)-i; }
void points(unsigned n, point *ps) { for (unsigned i = 0; i < n; i++) ps[i].n = (int)i; }
void widest(long double *a, double complex *b) { *a = *a + 1; *b = 1 + 2 * I; }
int failing(int *made, int *error) { *made = 7; *error = 3; return 1; }
int with_errno(int *made) { *made = 7; errno = ENOENT; return 0; }
void shift(double v[3]) { for (int i = 0; i < 3; i++) v[i] += i + 1; }
typedef double vector[3];
void shifted(vector v, int w[static 2]) { shift(v); w[0] = w[1] = 7; }
void count(int n, int v[n]) { for (int i = 0; i < n; i++) v[i] += i; }
void single(int v[1]) { v[0] += 5; }
void filled(int *n, double *values) { ramp(*n, values); *n -= 1; }
void many(double a, double *b, int *c, double *d, int *e, double *f, int *g, double *h, int *i)
{ *b = a; *c = 1; *d = a + 1; *e = 2; *f = a + 2; *g = 3; *h = a + 3; *i = 4; }
typedef double (*function)(double);
static double twice(double x) { return 2 * x; }
void give(function *made) { *made = twice; }
int advance(int **at) { if (*at == NULL) return -1; return *(*at)++; }
int printed(char *to, int *length, const char *format, ...) { *length = 9; return 1; }
void turn(double r[2][3]) { for (int i = 0; i < 6; i++) r[i / 3][i % 3] += i; }
void corners(int n, float (*c)[2]) { for (int i = 0; i < n; i++) c[i][0] = i, c[i][1] = -i; }
void pointers(double *in, double **same, void **other) { *same = in; *other = in + 1; }
"""


@pytest.fixture(scope="module")
def outs(builder):
    return builder.library(SOURCE, "outs", flags=("-O1", "-w"))


@pytest.fixture
def load(outs):
    def load(name, declaration, **options):
        return nc.load(outs).function(name, declaration, **options)

    return load


DIVIDE = "int divide(int a, int b, int *quotient, int *rest)"


def test_what_c_writes_is_the_result(load):
    f = load("divide", DIVIDE, out=["quotient", "rest"])
    assert f(17, 5) == (0, 3, 2)
    assert f(1, 0) == (5, 0, 0)  # the memory is zero before
    assert f(a=17, b=5) == f.builtin(17, 5) == (0, 3, 2)
    assert load("divide", DIVIDE, out=["quotient", "rest"], errors="nonzero")(17, 5) == (3, 2)
    assert (
        load("divide", DIVIDE, out="quotient", errors="nonzero")(17, 5, np.zeros(1, np.int32)) == 3
    )
    assert load("half", "void half(double, double *_Result)", out="Result")(5) == 2.5
    assert load("nothing", "i:&i", out=0, errors="nonzero")() == 0


@pytest.mark.parametrize(
    "out", [["rest", "quotient"], [3, 2], [-1, 2], {"quotient": None, 3: None}]
)
def test_names_positions_and_mappings(load, out):
    assert load("divide", DIVIDE, out=out)(17, 5) == (0, 3, 2)


def test_failures_are_raised_and_nothing_is_returned(load, fails):
    f = load("divide", DIVIDE, out=["quotient", "rest"], errors="nonzero")
    with fails(nc.NativeFailure, "'divide' failed: it returned 5, not 0"):
        f(1, 0)
    g = load("failing", "int failing(int *made, int *error)", out="made", errors="argument")
    with fails(nc.NativeFailure, "'failing' failed: it set its last argument to 3"):
        g()
    h = load("with_errno", "i:&i", out=0, errors="errno")
    with pytest.raises(FileNotFoundError):
        h()
    assert nc.get_errno() != 0


def test_an_exception_keeps_what_c_wrote(load):
    """Whatever raises it, the error convention or the check."""
    made = "int {}(int *made{})"
    told = load("failing", made.format("failing", ", int *error"), out="made", errors="argument")
    for f, written in (
        (told, 7),
        (load("with_errno", made.format("with_errno", ""), out="made", errors="errno"), 7),
        (load("failing", "i:&i&i", out=[0, 1], errors="nonzero"), (7, 3)),
        (load("advance", "int advance(int **at)", out=[0], errors="nonzero"), None),
    ):
        for call in (f, f.builtin):
            with pytest.raises((nc.NativeFailure, OSError)) as caught:
                call()
            assert caught.value.out == written
    arrays = load("failing", "int failing(int made[2], int error[1])", out=[0, 1], errors="nonzero")
    with pytest.raises(nc.NativeFailure) as caught:
        arrays()
    assert (caught.value.out[0].tolist(), caught.value.out[1]) == ([7, 0], 3)

    def check(result, function, values):
        raise ValueError(values)

    checked = load("divide", DIVIDE, out=["quotient", "rest"], errors="nonzero", check=check)
    for values, kind, written in (((7, 2), ValueError, (3, 1)), ((7, 0), nc.NativeFailure, (0, 0))):
        with pytest.raises(kind) as caught:
            checked(*values)
        assert caught.value.out == written
    with pytest.raises(TypeError) as caught:
        checked("7", 2)
    assert not hasattr(caught.value, "out")


def test_structs_pointers_and_functions(load):
    f = load("both", "d:d&f&T{d:x:d:y:i:n:}&&b", out=[1, 2, 3])
    result, single, point, text = f(0.1)
    assert (result, single) == (0.1, np.float32(0.1))
    assert (point.x, point.y, point.n) == (0.1, -0.1, 3)
    assert nc.string(text) == b"positive"
    assert f(-1.0)[3] is None
    big = load("fill", "v:&T{(200)b:name:d:value:}", out=0)
    assert big().value == 2.5
    assert bytes(tuple(big().name)[:3]) == b"big"
    give = load("give", "v:&X{d:d}", out=0)
    assert nc.wrap(give())(4.0) == 8.0
    memory = np.arange(3.0)
    same, other = load("pointers", "v:&d&&d&P", out=[1, 2])(memory)
    assert [same[i] for i in range(3)] == [0.0, 1.0, 2.0]
    assert int(ffi.cast("uintptr_t", other)) == memory.ctypes.data + 8


def test_what_goes_in_comes_out(load):
    f = load("step", "v:&q&d", out={0: "inout", 1: "inout"})
    assert f(5, 1.5) == (16, 3.0)
    assert f(True, 2) == (4, 4.0)
    assert load("step", "v:&q&d", out={0: "inout", 1: None})(5) == (16, 0.0)
    with pytest.raises(OverflowError, match="argument 1 of 'step'"):
        f(2**63, 0)
    with pytest.raises(TypeError, match="argument 2 of 'step' must be a real number"):
        f(1, "2")
    with pytest.raises(TypeError, match="'step' takes exactly 2 arguments"):
        f(1)
    widest = load("widest", "v:&g&Zd", out={0: "inout", 1: None})
    assert widest(2.5) == (3.5, 1 + 2j)


def test_messages_count_the_arguments_that_are_passed(fails):
    """Also where it is Python code that has the memory, as of several pointers."""
    for out in ("end", {"end": 2}):
        said = "long strtol(const char *text, char **end, int base);"
        f = nc.load("c", said, out={"strtol": out}, encoding="utf-8").strtol
        with fails(TypeError, "argument 2 of 'strtol' must be an integer (got str)"):
            f("12", "x")
        with pytest.raises(
            TypeError, match=r"^argument 1 of 'strtol' must be a 'const char \*' pointer"
        ):
            f(1, 2)
        with fails(TypeError, "'strtol' takes exactly 2 arguments (1 given)"):
            f("12")


def test_arrays_have_a_length(load, fails):
    f = load("ramp", "void ramp(int n, double *values)", out={"values": "n"})
    found = f(4)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [0.0, 0.5, 1.0, 1.5]
    assert f(0).tolist() == []
    with fails(
        ValueError,
        "argument 1 of 'ramp' is the length of an out-parameter and must not be negative (got -1)",
    ):
        f(-1)
    with fails(TypeError, "argument 1 of 'ramp' must be an integer (got str)"):
        f("4")
    with pytest.raises(OverflowError, match="argument 1 of 'ramp'"):
        f(2**62)
    wide = load("ramp", "void ramp(long n, double *values)", out={"values": "n"})
    with fails(
        OverflowError,
        "argument 1 of 'ramp' is the length of an out-parameter that does not fit in memory "
        f"(got {2**62})",
    ):
        wide(2**62)
    values, signs = load("three", "v:&d&b", out={0: 3, 1: 3})()
    assert values.tolist() == [0.0, 1.0, 2.0]
    assert (signs.dtype, signs.tolist()) == (np.int8, [0, -1, -2])
    made = load("points", "v:I&T{d:x:d:y:i:n:}", out={1: 2})(2)
    assert [one.n for one in made] == [0, 1]


DECLARED = """
typedef double vector[3];
enum { THREE = 3 };
void shift(double v[THREE]);
void shifted(vector v, int w[static 2]);
void count(int n, int v[n]);
void single(int v[1]);
void none(int n, double (*f)(double), int v[n + 1], char rest[]);
void filled(int *n, double *values);
"""


@pytest.fixture(params=["text", "header"])
def declared(request, outs, tmp_path):
    """A library whose functions declare lengths, read by both parsers."""
    if request.param == "text":
        return nc.load(outs, DECLARED.replace("void none", "void nothing"))
    header = tmp_path / "declared.h"
    header.write_text(DECLARED)
    return nc.load(outs, header=header)


def test_an_array_has_the_length_that_c_declares(declared, fails):
    assert declared.function("shift", out=["v"])().tolist() == [1.0, 2.0, 3.0]
    vector, more = declared.function("shifted", out=["v", "w"])()
    assert (vector.tolist(), more.tolist()) == ([1.0, 2.0, 3.0], [7, 7])
    assert declared.function("count", out=["v"])(4).tolist() == [0, 1, 2, 3]
    # One item is how structs are passed by reference.
    assert declared.function("single", out=["v"])() == 5
    again = pickle.loads(pickle.dumps(declared.function("shift")))
    assert nc.wrap(again, out=["v"])().tolist() == [1.0, 2.0, 3.0]
    with fails(ValueError, "'out' requests 2 items for 'v', which C declares with 3"):
        declared.function("shift", out={"v": 2})
    assert declared.function("shift", out={"v": 4})().tolist() == [1.0, 2.0, 3.0, 0.0]
    name = next(name for name in ("none", "nothing") if name in declared.declarations.functions)
    signature = declared.declarations.functions[name]
    assert signature.lengths == (None, None, "n + 1", None)
    said = (
        "'out' names 'v', an array of 'n + 1' items, which is neither a constant nor an argument; "
        "give the number: {'v': 16}"
    )
    with fails(ValueError, said):
        nc.wrap(1, signature, out=["v"])


def test_an_array_goes_in_and_out(declared, fails):
    f = declared.function("shift", out={"v": "inout"})
    assert f([1, 2, 3]).tolist() == [2.0, 4.0, 6.0]
    assert f(np.ones(3)).tolist() == [2.0, 3.0, 4.0]
    assert declared.function("count", out={"v": "inout"})(2, (5, 5)).tolist() == [5, 6]
    with fails(ValueError, "argument 1 of 'shift' must have 3 items (got 2)"):
        f([1, 2])
    with fails(TypeError, "argument 1 of 'shift' must be a sequence of 3 items (got float)"):
        f(1.5)
    with fails(TypeError, "item 2 of argument 1 of 'shift' must be a real number (got str)"):
        f([1, 2, "3"])


def test_an_array_has_the_length_that_goes_in_and_out(declared, load):
    f = declared.function("filled", out={"n": "inout", "values": "n"})
    count, values = f(3)
    assert (count, values.tolist()) == (2, [0.0, 0.5, 1.0])
    fortran = load(
        "filled", "void filled(int *n, double *values)", out={"values": "n"}, fortran=True
    )
    assert fortran(3).tolist() == [0.0, 0.5, 1.0]


def test_rows(load, fails):
    """Arrays of arrays are NumPy's of more dimensions."""
    f = load("turn", "void turn(double r[2][3])", out="r")
    assert f().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (f.entries[0].trampoline, inspect.signature(f).return_annotation) == ("plan", object)
    corners = load("corners", "void corners(int n, float (*c)[2])", out={"c": "n"})
    found = corners(3)
    assert (found.dtype, found.tolist()) == (np.float32, [[0, 0], [1, -1], [2, -2]])
    assert corners(0).shape == (0, 2)
    assert load("corners", "v:i&(2)f", out=1)(1).tolist() == [0, 0]
    assert load("corners", "v:i&(2)f", out={1: 2})(1).shape == (2, 2)
    assert load("turn", "v:&(2,3)d", out=0)().shape == (2, 3)
    with fails(ValueError, "'out' requests 1 items for 'r', which C declares with 2"):
        load("turn", "void turn(double r[2][3])", out={"r": 1})


def test_rows_go_in_and_out(load, fails):
    f = load("turn", "void turn(double r[2][3])", out={"r": "inout"})
    given = np.ones((2, 3))
    assert f(given).tolist() == f([[1, 1, 1], (1, 1, 1)]).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert given.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert load("turn", "v:&(2,3)d", out={0: "inout"})(given)[1, 2] == 6
    with fails(ValueError, "argument 1 of 'turn' must have 2 items (got 3)"):
        f(np.ones((3, 2)))
    with fails(ValueError, "item 1 of argument 1 of 'turn' must have 3 items (got 1)"):
        f([[1, 2, 3], [4]])
    with fails(TypeError, "argument 1 of 'turn' must be a sequence of 2 items (got NoneType)"):
        f(None)
    assert f(memoryview(given)).tolist() == [[1, 2, 3], [4, 5, 6]]
    row = load("corners", "v:i&(2)f", out={1: "inout"})
    with fails(TypeError, "argument 2 of 'corners' must be a sequence of 2 items (got float)"):
        row(1, 1.5)
    assert row(1, [5, 5]).tolist() == [0, 0]


@pytest.mark.parametrize("options", [{"order": "F"}, {"fortran": True}])
def test_rows_in_the_order_of_fortran(load, options):
    declared = "void turn(double r[2][3])"
    assert load("turn", declared, out="r", **options)().tolist() == [[0, 2, 4], [1, 3, 5]]
    f = load("turn", declared, out={"r": "inout"}, **options)
    assert f([[10, 20, 30], [40, 50, 60]]).tolist() == [[10, 22, 34], [41, 53, 65]]


def test_items_that_come_and_go(load, fails):
    """No more are stored than there is memory for, whatever conversions do to the values."""
    turn = load("turn", "void turn(double r[2][3])", out={"r": "inout"})
    shift = load("shift", "void shift(double v[3])", out={"v": "inout"})

    class Row:
        def __init__(self, change):
            self.change = change

        def __len__(self):
            return 3

        def __iter__(self):
            self.change()
            return iter([1, 2, 3])

        def __float__(self):
            self.change()
            return 1.0

    rows = []
    rows += [Row(lambda: rows.extend([[7, 7, 7]] * 1000)), [4, 5, 6]]
    assert turn(rows).tolist() == [[1, 3, 5], [7, 9, 11]]
    items = []
    items += [Row(lambda: items.extend([7] * 1000)), 2, 3]
    assert shift(items).tolist() == [2, 4, 6]
    items[:] = [Row(items.clear), 2, 3]
    with fails(ValueError, "argument 1 of 'shift' must have 3 items (got 1)"):
        shift(items)


def test_a_length_is_asked_once(load):
    class Length:
        asked = 0

        def __index__(self):
            self.asked += 1
            return self.asked

    length = Length()
    ramp = load("ramp", "void ramp(int n, double *values)", out={"values": "n"})
    assert (ramp(length).tolist(), length.asked) == ([0.0], 1)
    assert (ramp(length).tolist(), length.asked) == ([0.0, 0.5], 2)


@pytest.mark.parametrize("length", [2**62, 2**70])
def test_more_items_than_memory_has(load, fails, length):
    message = f"'out' requests {length} items for 'values', more than fit in memory"
    with fails(ValueError, message):
        load("ramp", "void ramp(int n, double *values)", out={"values": length})


@pytest.mark.parametrize("code", sorted({one.text for one in SCALARS.values()}))
def test_every_scalar(load, code):
    """A function that writes nothing leaves zero."""
    f = load("nothing", f"i:&{code}", out=0, errors="nonzero")
    assert f() == 0
    given = load("nothing", f"i:&{code}", out={0: "inout"}, errors="nonzero")
    assert given(1) == 1
    assert type(given(1)) is type(f())


def test_many(load):
    f = load("many", "v:d&d&i&d&i&d&i&d&i", out=range(1, 9))
    assert f(0.5) == (0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4)
    g = load("many", "v:d&d&i&d&i&d&i&d&i", out=[1, 3, 5, 7])
    ints = [np.zeros(1, np.int32) for _ in range(4)]
    assert g(0.5, *ints) == (0.5, 1.5, 2.5, 3.5)
    assert [int(one[0]) for one in ints] == [1, 2, 3, 4]


def test_variadic_functions(load):
    f = load("printed", "int printed(char *to, int *length, const char *f, ...)", out="length")
    memory = bytearray(8)
    assert f(memory, b"%d", 5) == (1, 9)
    assert f(memory, b"") == (1, 9)


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (
            "quotint",
            ValueError,
            "'out' names 'quotint', no argument of 'int (int a, int b, int *quotient, "
            "int *rest)'; its arguments are 'a', 'b', "
            "'quotient', 'rest'",
        ),
        (
            [4],
            ValueError,
            "'out' names 4, no argument of 'int (int a, int b, int *quotient, int "
            "*rest)'; its arguments are 'a', 'b', 'quotient', "
            "'rest'",
        ),
        ([-5], ValueError, None),
        (["a"], ValueError, "'out' names 'a', a 'int'" + NO_SIZE),
        ([2, "quotient"], ValueError, "'out' names 'quotient' twice"),
        (
            {"quotient": "rest"},
            ValueError,
            "'out' takes the length of 'quotient' from 'rest', a pointer to an integer; to pass "
            "the integer: {'quotient': 'rest', 'rest': 'inout'}",
        ),
        (
            {"quotient": "rest", "rest": None},
            ValueError,
            "'out' takes the length of 'quotient' from 'rest', which is an out-parameter itself; "
            "to pass it as well: {'rest': 'inout'}",
        ),
        ({"quotient": 0}, ValueError, "'out' must request 1 or more items for 'quotient' (got 0)"),
        (
            {"quotient": 2.5},
            TypeError,
            "'out' must map 'quotient' to 'inout', a number of items, or the name of the "
            "argument that holds it (got float)",
        ),
        ([2.5], TypeError, "'out' must contain names or positions (got float)"),
        (
            2.5,
            TypeError,
            "'out' must be names or positions of arguments, or a mapping of these to 'inout' or to "
            "lengths (got float)",
        ),
        (b"a", TypeError, None),
    ],
)
def test_what_cannot_be_an_out_parameter(load, out, error, message):
    with pytest.raises(error) as info:
        load("divide", DIVIDE, out=out)
    assert message is None or str(info.value) == message


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("int f(const int *a)", "'out' names 'a', a 'const int *', which C declares const"),
        ("i:&O", "'out' names 0, a '&O'; Python objects cannot be out-parameters"),
        (
            "i:P",
            "'out' names 0, a 'P'" + NO_SIZE + "; pass memory made by the library's 'new'",
        ),
        ("i:X{d:d}", "'out' names 0, a 'X{d:d}'" + NO_SIZE),
        (
            "v:&(2)&d",
            "'out' names 0, a '&(2)&d', whose rows are of '&d', which is not a number; pass memory "
            "made by the library's 'new'",
        ),
    ],
)
def test_types_that_cannot_be(load, fails, signature, message):
    with fails(ValueError, message):
        load("nothing", signature, out=0)
    with fails(ValueError, message):
        nc.wrap(1, signature, out=[0], name="f")


def test_a_pointer_that_goes_in_and_out(load):
    """With a policy of its own in the call: what is said of arguments is not said of one alone."""
    advance = load("advance", "int advance(int **at)", out={"at": "inout"})
    items = ffi.new("int[3]", [7, 8, 9])
    value, at = advance(items)
    assert (value, at[0]) == (7, 8)
    assert advance(at)[0] == 8
    assert advance(None) == (-1, None)
    with pytest.raises(TypeError, match="argument 1 of 'advance'"):
        advance("x")


def test_native_callers_pass_all_arguments(load):
    f = load("divide", DIVIDE, out=[2, 3])
    memory = (ctypes.c_int * 2)()
    at = ctypes.addressof(memory)
    assert f.to_ctypes()(17, 5, memory, ctypes.cast(at + 4, ctypes.POINTER(ctypes.c_int))) == 0
    assert [*memory] == [3, 2]
    again = f.bind(17)
    assert again(3, memory, np.zeros(1, np.int32)) == 0
    assert memory[0] == 5
    assert f.bind(b=4)(17, memory, np.zeros(1, np.int32)) == 0
    assert memory[0] == 4
    assert f.convert("i:qq&i&i")(17, 2, memory, np.zeros(1, np.int32)) == 0
    assert memory[0] == 8


def test_they_are_what_people_see(load):
    f = load("divide", DIVIDE, out=[2, 3])
    assert str(inspect.signature(f)) == "(a: int, b: int) -> tuple[int, int, int]"
    both = load("step", "v:&q&d", out={0: "inout", 1: None})
    assert str(inspect.signature(both)) == "(x0: int, /) -> tuple[int, float]"
    assert f.signatures == ("i:ii&i&i",)


def test_pickling_and_replacing(load, outs):
    f = nc.load(outs, DIVIDE + ";", out={"div*": ["rest"]}).divide
    again = pickle.loads(pickle.dumps(f))
    assert again(17, 5, np.zeros(1, np.int32)) == (0, 2)
    library = pickle.loads(pickle.dumps(nc.load(outs, DIVIDE + ";", out={"divide": {2: "inout"}})))
    assert library.divide(17, 5, 3, np.zeros(1, np.int32)) == (0, 3)
    with pytest.raises(ValueError, match="has other policies; out must be the same"):
        f.add(DIVIDE, nc.load(outs).address("divide"), replace=True)


def test_a_library_says_it_of_those_that_have_such_an_argument(outs):
    declarations = DIVIDE + "; void half(double, double *_Result); int nothing(int *untouched);"
    lib = nc.load(outs, declarations, out=["rest", "quotient"], errors="nonzero")
    assert lib.divide(17, 5) == (3, 2)
    assert lib.half.entries[0].out == ()
    with pytest.raises(ValueError, match="'out' names 'rest', no argument of"):
        nc.load(outs, declarations, out={"half": ["rest"]}).half


def test_a_check_sees_what_the_call_would_return(load):
    f = load("divide", DIVIDE, out=[2, 3], check=lambda *given: (given[0], given[2]))
    assert f(17, 5) == ((0, 3, 2), (17, 5))


def test_overloads_are_chosen_by_what_python_passes(load):
    f = nc.wrap({DIVIDE: load("divide", DIVIDE, out=[2, 3]), "d:d": math_cos()}, name="f")
    assert f(17, 5) == (0, 3, 2)
    assert f(0.0) == 1.0


def math_cos():
    return nc.load("m").function("cos", "d:d")
