"""What `inspect`, `typing` and `functools` find in a native callable: names, hints, attributes."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import pydoc
import re
import typing

import pytest

import nativecall as nc

libc = nc.load(
    None,
    """
    const char *getenv(const char *name);
    typedef struct { int quot; int rem; } div_t;
    div_t div(int numerator, int denominator);
    void qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *));
    int snprintf(char *text, size_t size, const char *format, ...);
    """,
)
libm = nc.load(
    "m",
    "double pow(double x, double y); float cosf(float x); double complex csqrt(double complex z);"
    "double frexp(double x, int *exponent);",
)


@pytest.mark.parametrize(
    ("function", "hints"),
    [
        (libm.pow, {"x": float, "y": float, "return": float}),
        (libm.csqrt, {"z": complex, "return": complex}),
        (libc.getenv, {"name": bytes, "return": bytes | None}),
        (libc.div, {"numerator": int, "denominator": int, "return": nc.Record}),
        (
            libc.qsort,
            {
                "base": object,
                "n": int,
                "size": int,
                "compare": collections.abc.Callable,
                "return": type(None),
            },
        ),
        (libc.snprintf, {"text": object, "size": int, "format": bytes, "return": int}),
    ],
)
def test_hints_are_the_classes_of_values(function: nc.NativeCallable, hints: dict) -> None:
    assert typing.get_type_hints(function) == hints
    signature = inspect.signature(function)
    assert signature.return_annotation in (hints["return"], None)
    named = {name: one.annotation for name, one in signature.parameters.items() if name != "args"}
    assert named == {name: hint for name, hint in hints.items() if name != "return"}


def test_hints_follow_the_policies() -> None:
    text = libc.function("getenv", "const char *(const char *)", encoding="utf-8")
    assert typing.get_type_hints(text) == {"x0": str, "return": str | None}
    split = libm.function("frexp", out=["exponent"])
    assert typing.get_type_hints(split) == {"x": float, "return": tuple[float, int]}
    checked = libm.function("pow", check=lambda result, function, values: str(result))
    assert typing.get_type_hints(checked)["return"] is object


def test_overloads_and_the_class_itself_have_none() -> None:
    both = nc.wrap({"d:dd": libm.pow, "f:f": libm.cosf})
    assert typing.get_type_hints(both) == {}
    assert typing.get_type_hints(nc.NativeCallable) == {}
    with pytest.raises(AttributeError):
        libm.pow.__annotations__ = {}


def test_what_all_overloads_have_in_common() -> None:
    sin = libm.address("sin")
    same = nc.wrap({"float (float x)": sin, "double (double x)": sin})
    assert str(inspect.signature(same)) == "(x: float) -> float"
    mixed = nc.wrap({"d:d": sin, "i:i": nc.load(None).address("abs")}, name="mixed")
    assert str(inspect.signature(mixed)) == "(x0, /)"
    numpy = pytest.importorskip("numpy")
    cosine = inspect.signature(nc.wrap(numpy.cos))
    assert [*cosine.parameters] == ["x0"], "not those of the ufunc"


def test_a_look_at_the_class_changes_nothing() -> None:
    class Own(nc.NativeCallable):
        pass

    own = Own(libm.pow)
    for kind in (nc.NativeCallable, type(nc.callback("d:d", abs)), Own):
        kind.__annotations__  # Python would keep an empty dict there
        inspect.get_annotations(kind)
    for function in (libm.pow, own):
        assert function.__annotations__ == {"x": float, "y": float, "return": float}


def test_what_is_changed_in_the_hints_is_nobody_elses() -> None:
    libm.pow.__annotations__["x"] = str
    assert typing.get_type_hints(libm.pow)["x"] is float


def test_functools() -> None:
    assert functools.partial(libm.pow, 2.0)(y=3.0) == 8.0
    assert str(inspect.signature(functools.partial(libm.pow, 2.0))) == "(y: float) -> float"
    assert functools.reduce(libm.pow, [2.0, 3.0, 2.0]) == 64.0

    @functools.wraps(libm.pow)
    def through(x: float, y: float) -> float:
        return libm.pow(x, y)

    assert through.__wrapped__ is libm.pow
    assert (through.__name__, through.__qualname__) == ("pow", "pow")
    assert through.__module__ == "nativecall"
    assert through.__doc__ == libm.pow.__doc__
    assert inspect.signature(through) == inspect.signature(libm.pow)

    kept = functools.cache(libm.pow)
    assert (kept(2.0, 5.0), kept(2.0, 5.0), kept.cache_info().hits) == (32.0, 32.0, 1)
    assert kept.__wrapped__ is libm.pow


def test_annotate_is_a_function_of_a_format() -> None:
    """PEP 649: `annotationlib` asks for values, 1, forward references, 3, or text, 4."""
    assert libm.csqrt.__annotate__(1) == libm.csqrt.__annotate__(3) == libm.csqrt.__annotations__
    assert libm.csqrt.__annotate__(4) == {"z": "complex", "return": "complex"}


def test_single_dispatch_by_a_hint() -> None:
    @functools.singledispatch
    def root(z: object) -> object:
        raise TypeError("no number")

    root.register(libm.csqrt)
    root.register(float, libm.function("sqrt", "d:d"))
    assert (root(-4 + 0j), root(4.0)) == (2j, 2.0)
    with pytest.raises(TypeError, match="no number"):
        root("x")
    assert functools.singledispatch(libm.csqrt)(-1) == 1j


def test_a_method_of_a_class() -> None:
    class Power:
        raised = functools.partialmethod(libm.pow)
        plain = staticmethod(libm.pow)

    assert Power().plain(2, 3) == 8.0
    assert Power.plain(2, 3) == 8.0


def test_classes_say_how_they_are_called() -> None:
    for cls, arguments in (
        (nc.NativeCallable, "target signature name"),
        (nc.Callback, "signature"),
    ):
        parameters = [*inspect.signature(cls).parameters]
        assert parameters[: len(arguments.split())] == arguments.split()
    # Newer versions of Python show each argument on a line.
    shown = re.sub(r"[\s|]+", " ", pydoc.render_doc(nc.NativeCallable, renderer=pydoc.plaintext))
    assert re.search(r"NativeCallable\( ?target", shown)


def test_classes_that_checkers_take_for_generic_have_items() -> None:
    assert nc.NativeCallable[[float], float].__origin__ is nc.NativeCallable
    assert nc.Callback[[float], float].__args__ == ([float], float)
    assert nc.ObjectArray[nc.NativeObject].__origin__ is nc.ObjectArray


def test_the_class_has_annotations_like_other_classes():
    """Sphinx and `inspect` look into them."""
    assert inspect.get_annotations(nc.NativeCallable) == {}
    assert inspect.get_annotations(nc.Callback) == {}
    f = nc.load("m", "double cos(double x);").cos
    assert f.__annotations__["return"] is float
    assert inspect.get_annotations(nc.NativeCallable) == {}
