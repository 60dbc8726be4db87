"""Signatures: every spelling, the canonical form, and errors that name the column."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nativecall._cdecl import spelling
from nativecall._cdecl.spelling import parse, parse_type
from nativecall._errors import SignatureError
from nativecall._types.ctype import PY_OBJECT, SCALARS, VOID, scalar
from nativecall._types.derived import pointer
from nativecall._types.signature import Signature

WORD = scalar("n").text
LONG = scalar("l").text


@pytest.mark.parametrize(
    ("text", "result", "args"),
    [
        ("i:d&f", "i", ["d", "&f"]),
        ("d:", "d", []),
        ("v:", "v", []),
        ("T{d:x:d:y:}:&T{d:x:d:y:}", "T{dd}", ["&T{dd}"]),
        ("d:X{d:d}d", "d", ["X{d:d}", "d"]),
        ("v:[2]dO", "v", ["[2]d", "O"]),
        ("=T{bd}:=T{b(2,3)d}P", "=T{bd}", ["=T{b(2,3)d}", "P"]),
        ("Zd:ZfZg", "Zd", ["Zf", scalar("Zg").text]),
        ("v:&v", "v", ["P"]),
        ("X{v:}:X{X{v:}:}", "X{v:}", ["X{X{v:}:}"]),
        ("?:?bBhHiIqQefd", "?", list("?bBhHiIqQefd")),
    ],
)
def test_the_grammar(text: str, result: str, args: list[str]) -> None:
    parsed = parse(text)
    assert parsed.result.text == result
    assert [arg.text for arg in parsed.args] == args
    assert parsed.written == text
    assert not parsed.variadic


def test_variadic() -> None:
    assert parse("i:&b.").variadic
    assert parse("i:&b.").text == "i:&b."
    assert parse("i:&b.") != parse("i:&b")
    assert parse("v:X{i:i.}").args[0].variadic


def test_white_space_may_stand_between_tokens() -> None:
    text = "\ti : & T { d : x : ( 2 , 3 ) d } X\n{ Z d : } [ 2 ] f & b .\r "
    assert parse(text).text == "i:&T{d(2,3)d}X{Zd:}[2]f&b."
    assert parse(text).args[0].pointee.field_names == ("x", "f1")
    assert parse(text).written == text


def test_the_canonical_form_has_integers_by_width() -> None:
    char = scalar("c").text
    assert parse("c:lLnN").text == f"{char}:{LONG}{LONG.upper()}{WORD}{WORD.upper()}"
    assert parse("v:&cT{l:x:}").text == f"v:&{char}T{{{LONG}}}"


@pytest.mark.parametrize(
    "spellings",
    [
        ["d:l", f"d:{LONG}", "double (long)", "double f(long x);", "l->d", "l)d", " d : l "],
        [
            "d:n",
            "n->d",
            "p->d",
            "n)d",
            "double (intptr_t)",
            "double (ptrdiff_t)",
            "double(npy_intp)",
        ],
        ["i:d&f", "int (double, float *)", "int f(double x, float *y)", "d&f)i"],
        ["d:dd", "dd->d", " d d -> d ", "dd)d", "double (double, double)"],
        ["v:", "->", "void (void)", "void f(void);", ")v"],
        ["v:d", "d->", "d)v", "void (double)"],
        ["Zd:ZfZg", "FG->D", "ZfZg)Zd", "double _Complex (float _Complex, long double complex)"],
        ["O:O", "O->O", "O)O", "PyObject *(PyObject *)"],
        ["?:B", "B->?", "B)?", "bool (uint8_t)", "_Bool f(unsigned char c)"],
        ["i:&c.", "int printf(const char *, ...)", "&c.)i", "int (char *, ...)"],
        ["e:e", "e->e", "_Float16 (__fp16)"],
        ["v:X{i:PP}", "void (int (*)(const void *, const void *))", "X{i:PP})v"],
        ["v:&(3)d", "void (double (*)[3])", "&(3)d)v", "void f(double a[][3])"],
    ],
)
def test_all_spellings_of_a_signature_are_one(spellings: list[str]) -> None:
    parsed = [parse(spelling) for spelling in spellings]
    assert {p.text for p in parsed} == {parsed[0].text}
    assert len(set(parsed)) == 1
    assert [p.written for p in parsed] == spellings


def test_hint_names_the_form() -> None:
    assert parse("dd->d", hint="numpy").text == "d:dd"
    assert parse("d:d", hint="native").text == "d:d"
    assert parse("d)d", hint="cep1000").text == "d:d"
    assert parse("double(*)(int)", hint="c").text == "d:i"
    with pytest.raises(SignatureError, match="expected ':'"):
        parse("dd", hint="native")
    with pytest.raises(SignatureError, match="expected '->'"):
        parse("d:d", hint="numpy")
    with pytest.raises(ValueError, match="'hint' must be one of 'native'"):
        parse("d:d", hint="fortran")


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("d:w", 3, "unknown type 'w' at column 3 in 'd:w'"),
        ("w:d", 1, "unknown type 'w'"),
        ("d:dF", 4, "a complex float is 'Zf'"),
        ("d:Zq", 3, "complex numbers are 'Zf', 'Zd' and 'Zg'"),
        ("d:3d", 3, "an array is written '(3)d'"),
        ("d:&", 4, "expected a type, found the end"),
        ("d:&:", 4, "expected a type, found ':'"),
        (":d", 1, "a function that returns nothing has the result 'v'"),
        ("dd:d", 2, "expected ':' after the type of the result, found 'd'"),
        ("d:v", 3, "an empty argument list is written 'd:'"),
        ("d:d v", 5, "'v' cannot be an argument"),
        ("d:(2)d", 3, "write a pointer to its element"),
        ("(2)d:d", 1, "an array cannot be a result"),
        ("[1]d:", 1, "a strided view cannot be a result"),
        ("v:&[1]d", 4, "cannot follow '&'"),
        ("v:T{[1]d}", 5, "cannot be a field"),
        ("v:T{dv}", 6, "'v' is the result of a function"),
        ("v:[2](3)d", 6, "give the view more dimensions"),
        ("v:[0]d", 4, "must be at least 1"),
        ("v:[99]d", 3, "1 to 64 dimensions"),
        ("v:[d", 4, "expected the number of dimensions, a positive number, found 'd'"),
        ("v:[2d", 5, "expected ']'"),
        ("v:&(2,)d", 7, "expected an array's length, a positive number, found ')'"),
        ("v:&(2d", 6, "expected ')' or ','"),
        ("v:&(0)d", 5, "must be at least 1"),
        ("v:&(9999999999999999999)d", 5, "too large"),
        ("v:&(999999999999999999,2)d", 4, "larger than the address space"),
        ("v:T{}", 3, "at least one field"),
        ("v:T{d", 6, "expected a field or '}'"),
        ("v:T{d:x", 7, "expected the name of a field"),
        ("v:T{d:1x:}", 7, "'1x' is not a valid name"),
        ("v:T{d:x:d:x:}", 11, "two fields called 'x'"),
        ("v:T{d::}", 7, "expected the name of a field"),
        ("v:T", 3, "a struct begins with 'T{'"),
        ("v:=d", 3, "a packed struct begins with '=T{'"),
        ("v:=T", 3, "a packed struct begins with '=T{'"),
        ("v:X", 3, "a function pointer begins with 'X{'"),
        ("v:X{d:d", 8, "expected '}' to end the function pointer"),
        ("v:X{d}", 6, "expected ':'"),
        ("v:d}", 4, "expected a type, found '}'"),
        ("i:.", 3, "at least one argument before '.'"),
        ("i:d.d", 5, "'.' ends the arguments, found 'd'"),
        ("i:X{i:d.d}", 9, "'.' ends the arguments, found 'd'"),
        ("i:d..", 5, "'.' ends the arguments, found '.'"),
        ("v:const d", 3, "'const' does not apply to 'd', which is copied"),
        ("v:X{v:const &d}", 7, "'const' goes before an argument of the signature itself, not"),
        ("const &d:d", 1, "'const' goes before an argument of the signature itself, not inside"),
        ("v:const", 8, "expected a type, found the end"),
        ("v:constd", 4, "unknown type 'o'"),
        ("dd->dd", 6, "a C function has one result"),
        ("dx->d", 2, "unknown type 'x'"),
        ("P->d", 1, "unsigned integer 'P' is 'N'"),
        ("d->d->d", 5, "unknown type '-'"),
        ("dw)d", 2, "unknown type 'w'"),
        ("d)", 3, "expected a result after ')'"),
        ("d)dd", 4, "expected the end of the signature, found 'd'"),
        ("v)d", 1, "'v' cannot be an argument"),
        ("d", 1, "write 'd:dd', or a C declaration"),
        ("", 1, "a signature is empty"),
        ("  ", 1, "a signature is empty"),
    ],
)
def test_errors_name_the_column_and_what_would_work(text: str, position: int, message: str) -> None:
    with pytest.raises(SignatureError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert (caught.value.position, caught.value.text) == (position, text)
    assert f" at column {position} in " in str(caught.value)


def test_errors_in_several_lines_name_the_line() -> None:
    with pytest.raises(SignatureError) as caught:
        parse("d:\n  d\n  w")
    assert (caught.value.line, caught.value.position) == (3, 3)
    assert str(caught.value) == "unknown type 'w' at line 3, column 3 in '  w'"


def test_errors_are_value_errors_and_pickle() -> None:
    with pytest.raises(ValueError, match="unknown type") as caught:
        parse("d:F")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert (again.position, again.hint) == (3, "a complex float is 'Zf'")


def test_long_sources_are_quoted_around_the_error() -> None:
    with pytest.raises(SignatureError) as caught:
        parse("v:" + "d" * 500 + "w" + "d" * 500)
    assert "'w' at column 503 in '...ddd" in str(caught.value)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("source", [b"d:d", bytearray(b"d:d"), None, 3, ["d:d"], scalar("d")])
def test_what_is_not_text_is_a_type_error(source: object) -> None:
    with pytest.raises(TypeError, match="a signature must be str"):
        parse(source)


def test_depth_is_limited_without_a_crash() -> None:
    assert parse("d:" + "&" * 63 + "d").args[0].depth == 63
    for opening in ("&", "X{d:", "T{", "(1)", "[1]", "X{"):
        text = "d:" + opening * 1000
        with pytest.raises(SignatureError) as caught:
            parse(text)
        assert caught.value.position is not None
    with pytest.raises(SignatureError, match="64 levels deep at column 67"):
        parse("d:" + "&" * 64 + "d")


def test_length_is_limited() -> None:
    assert len(parse("v:" + "d" * 4094).args) == 4094
    with pytest.raises(SignatureError, match="at most 4096 characters, found 4097"):
        parse("v:" + "d" * 4095)
    with pytest.raises(SignatureError, match="4096 characters to write"):
        parse("D" * 3000 + "->")


def test_parse_takes_signatures_and_function_types() -> None:
    parsed = parse("d:di.")
    assert parse(parsed) is parsed
    assert parse(parsed.function) == parsed
    assert parsed.function.text == "X{d:di.}"


def test_parse_remembers_texts() -> None:
    assert parse("d:ddd") is parse("d:ddd")
    for length in range(spelling._cache.limit + 1):
        parse("v:" + "d" * (length % 50) + " " * (length // 50))
    assert len(spelling._cache) <= spelling._cache.limit


def test_signatures_are_values() -> None:
    one, other = parse("d:T{d:x:}l"), parse(f"d: T{{d:other:}} {LONG}")
    assert one == other
    assert hash(one) == hash(other)
    assert one != parse("d:T{f}l")
    assert one != one.text
    assert str(one) == one.text
    assert repr(one) == f"Signature({one.text!r})"
    with pytest.raises(AttributeError, match="immutable"):
        one.text = "v:"
    with pytest.raises(AttributeError, match="immutable"):
        del one.args
    assert copy.copy(one) is one is copy.deepcopy(one)


def test_signatures_are_made_from_types() -> None:
    made = Signature(VOID, [pointer(scalar("d")), PY_OBJECT], names=["x", None])
    assert made == parse("v:&dO")
    assert made.written == made.text
    assert made.c_declaration("f") == "void f(double *x, PyObject *)"
    with pytest.raises(ValueError, match="'names' must have one item"):
        Signature(VOID, [scalar("d")], names=["x", "y"])
    with pytest.raises(SignatureError, match="'v' cannot be an argument"):
        Signature(VOID, [VOID])


def test_pickling_keeps_names_and_const() -> None:
    parsed = parse("double f(const double *x, int n)")
    again = pickle.loads(pickle.dumps(parsed))
    assert again == parsed
    assert (again.names, again.readonly, again.written) == (
        ("x", "n"),
        (True, False),
        parsed.written,
    )


def test_const_is_said_in_c_or_before_an_argument() -> None:
    assert parse("v:&c&bP").readonly == (False, False, False)
    read = parse("v: const [1]d &d const&d const P d")
    assert read.readonly == (True, False, True, True, False)
    assert read.text == "v:[1]d&d&dPd"
    assert read == parse("v:[1]d&d&dPd")
    assert pickle.loads(pickle.dumps(read)).readonly == read.readonly
    assert parse("void (const char *, const void *, char *)").readonly == (True, True, False)


def test_declarations_read_like_c() -> None:
    parsed = parse("int f(const double *x, char *const *argv, void (*g)(void), ...)")
    declared = "int f(const double *x, char *const *argv, void (*g)(void), ...)"
    assert parsed.c_declaration("f") == declared
    assert parsed.c_declaration("other") == declared.replace(" f(", " other(")
    shown = [parsed.spelled(index) for index in range(3)]
    assert shown == ["const double *", "char *const *", "void (*)(void)"]


@pytest.mark.parametrize(
    ("text", "declared", "types"),
    [
        ("d:di", "double g(double, int32_t)", ["d", "i"]),
        ("double (double, size_t n)", "double g(double, size_t n)", ["double", "size_t"]),
        ("double cos (double x)", "double g (double x)", ["double"]),
        ("double(double)", "double g(double)", ["double"]),
        ("unsigned long (int a[4])", "unsigned long g(int a[4])", ["int [4]"]),
        ("size_t f(void)", "size_t g(void)", []),
        ("char **f(char **)", "char **g(char **)", ["char **"]),
        (
            "void (*signal(int sig, void (*f)(int)))(int)",
            "void (*g(int sig, void (*f)(int)))(int)",
            ["int", "void (*)(int)"],
        ),
        ("double (*)(double)", "double g(double)", ["double"]),
        ("double(*f)(float f)", "double g(float f)", ["float"]),
        ("double (* const f)(void (*f)(float))", "double g(void (*f)(float))", ["void (*)(float)"]),
        ("const char *(*)(const char *)", "const char *g(const char *)", ["const char *"]),
        ("double (f)(double)", "double g(double)", ["double"]),
        ("double (__cdecl *f)(double)", "double g(double)", ["double"]),
        ("void (*(*)(int, void (*)(int)))(int)", "void (*g(int, void (*)(int)))(int)",
         ["int", "void (*)(int)"]),
        ("void (*(int))(int)", "void (*g(int))(int)", ["int"]),
        ("int (*(*f)(int a))[3]", "int (*g(int a))[3]", ["int"]),
        ("struct {int a;} f(int)", "struct {int a;} g(int)", ["int"]),
        ("__attribute__((const)) double f(double)", "__attribute__((const)) double g(double)",
         ["double"]),
        ("double\nf(double /* in */ x); // a line", "double g(double x)", ["double"]),
    ],
)  # fmt: skip
def test_signatures_are_shown_as_they_were_written(text, declared, types) -> None:
    read = parse(text)
    assert read.c_declaration("g") == declared
    assert [read.spelled(index) for index in range(len(read.args))] == types
    assert read.shown("g") == (declared if "(" in text else text)


@pytest.mark.parametrize("text", ["d", "T{d:x:d:y:}", "X{d:d}", "(2)d", "[1]d", "v", "P"])
def test_parse_type(text: str) -> None:
    assert parse_type(text).named == text


@pytest.mark.parametrize(
    ("text", "position"), [("", 1), ("dd", 2), ("d:", 2), ("T{w}", 3), ("&v", None)]
)
def test_parse_type_errors(text: str, position: int | None) -> None:
    if position is None:
        assert parse_type(text).text == "P"
        return
    with pytest.raises(SignatureError) as caught:
        parse_type(text)
    assert caught.value.position == position


codes = st.sampled_from(
    [*SCALARS, "P", "O", "&d", "T{b:x:Zd}", "X{i:PP}", "[2]f", "=T{bq}", "&(2)d"]
)
results = st.sampled_from([*SCALARS, "v", "P", "O", "&d", "T{b:x:Zd}", "X{i:PP}", "=T{bq}"])


@given(results, st.lists(codes, max_size=8), st.booleans())
def test_the_canonical_form_is_read_back(result: str, args: list[str], variadic: bool) -> None:
    arguments = "".join(args) + ("." if variadic and args else "")
    parsed = parse(f"{result}:{arguments}")
    assert parse(parsed.text) == parsed
    assert parse(parsed.text).text == parsed.text
    assert [arg.text for arg in parsed.args] == [parse_type(arg).text for arg in args]
    assert parse(f"{arguments}){result}", hint="cep1000") == parsed


def _read_or_refused(text: str, hint: str | None) -> Signature | None:
    """The signature, or `None` for a text that is refused with a column inside it."""
    try:
        return parse(text, hint=hint)
    except SignatureError as error:
        if error.position is None or not 1 <= error.position <= len(text) + 1:
            raise AssertionError(f"{text!r} is refused at column {error.position}") from error
        return None


@given(st.text(alphabet="?cbBhHiIlLqQnNefdgZPX&T{}()[]=:.,O0123456789v ->xy", max_size=40))
@example("X{")
@example("d:T{d:")
@example("d:(")
@example("->->")
@example("=)")
def test_malformed_text_is_a_signature_error(text: str) -> None:
    parsed = _read_or_refused(text, "native" if ":" in text else None)
    assert parsed is None or parse(parsed.text) == parsed


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    _read_or_refused(text, None)


def test_importing_signatures_imports_nothing_heavy() -> None:
    program = (
        "import sys; before = set(sys.modules)\n"
        "import nativecall._lib, nativecall._cdecl.spelling\n"
        "heavy = {'re', 'typing', 'ctypes', 'dataclasses', 'inspect', 'cffi', 'pycparser'}\n"
        "print(sorted(heavy & (set(sys.modules) - before)))"
    )
    path = next(iter(__import__("nativecall").__path__))
    backend = os.path.dirname(__import__("_cffi_backend").__file__)  # the core's
    program = (
        "import sys, types; package = types.ModuleType('nativecall')\n"
        f"package.__path__ = [{path!r}]; sys.modules['nativecall'] = package\n"
        f"sys.path.append({backend!r})\n" + program
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


def test_str_subclasses_count_by_their_characters():
    from nativecall._cdecl.texts import parse_declarations
    from nativecall._types.derived import Struct

    class Lying(str):
        def __hash__(self):
            return hash("d:hhh")

        def __eq__(self, other):
            return True

        def __len__(self):
            return 1 << 40

        def __format__(self, spec):
            return "x:d:y"

    assert parse(Lying("d:d")).text == "d:d"
    assert parse("d:hhh").text == "d:hhh"  # nothing that answers for it is in the cache
    assert parse(Lying("d:hhhh")).text == "d:hhhh"
    assert parse("->d", hint=Lying("numpy")).text == "d:"
    with pytest.raises(ValueError, match="'hint' must be one of"):
        parse("d:d", hint=Lying("other"))
    assert all(type(hint) in (str, type(None)) for _, hint in spelling._cache)
    d = scalar("d")
    assert Struct([(Lying("z"), d)]).field_names == ("z",)
    assert Struct([("x", d), ("y", d)]).field_names == ("x", "y")
    assert parse_declarations(Lying("double cos(double);")).functions["cos"].text == "d:d"


def test_a_signature_is_made_of_a_text():
    made = Signature("double hypot(double x, double y)")
    assert (made, made.names, str(made)) == (
        parse("d:dd"),
        ("x", "y"),
        "double hypot(double x, double y)",
    )
    assert str(Signature("dd->d")) == str(Signature("d : d d")) == "d:dd"
    assert pickle.loads(pickle.dumps(made)).names == ("x", "y")
    with pytest.raises(SignatureError, match="unknown type name 'doble'"):
        Signature("doble (int)")
    with pytest.raises(AttributeError, match="is immutable"):
        made.__init__("i:i")
