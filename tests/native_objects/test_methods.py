"""Methods of classes that Python makes, of every kind, called from Python and from native code."""

import ctypes
import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import nativecall as nc


@pytest.fixture(scope="module")
def library(builder):
    """C functions that know nothing of native objects: self is a struct, or an address."""
    text = """
    typedef struct { double x, y; } Point;
    double norm(Point *self) { return self->x * self->x + self->y * self->y; }
    void move(Point *self, double dx, double dy) { self->x += dx; self->y += dy; }
    int fails(void *self, int code) { (void)self; return code; }
    void *same(void *self) { return self; }
    int split(Point *self, double *x, double *y)
    { *x = self->x; *y = self->y; return self->x < 0; }
    const char *text(Point *self) { return self->x < 0 ? "\\xc3\\xa4" : "b"; }
    static double (*kept)(double);
    void keep(Point *self, double (*function)(double)) { (void)self; kept = function; }
    double call(Point *self) { return kept(self->x); }
    double many(Point *self, double *a, float *b, int *c, short *d, double e)
    { return self->x + a[0] + b[0] + c[0] + d[0] + e; }
    """
    path = builder.library(text, "objects_methods")
    declarations = (
        "typedef struct { double x, y; } Point; double norm(Point *); void move(Point *, double, "
        "double); int fails(void *, int); void *same(void *); double many(Point *, double *, "
        "float *, int *, short *, double); int split(Point *, double *x, double *y); "
        "const char *text(Point *); void keep(Point *, double (*)(double)); double call(Point *);"
    )
    return nc.load(str(path), declarations)


@pytest.fixture(scope="module")
def point(library):
    class Point(nc.NativeObject):
        x = nc.field("d")
        y = nc.field("d")
        norm = nc.method(library.norm.address(), "d:&T{d:x:d:y:}", doc="The square of the length.")
        move = nc.method(library.move.address(), "v:&ddd")
        same = nc.method(library.same, "P:&v")
        many = nc.method(library.many)

        @nc.method("d:&vd")
        def scaled(self, by):
            return by * self.norm()

    return Point


def test_native_functions_get_the_fields_or_the_object(point, ext):
    one = point(3.0, 4.0)
    assert one.norm() == 25.0
    one.move(1, 2)
    assert (one.x, one.y) == (4.0, 6.0)
    assert int(nc._lib.ffi.cast("uintptr_t", one.same())) == ext.address(one)
    assert ext.call(one, "norm", "d:&T{dd}") == 52.0
    assert ext.call(one, "norm", "d:&d") is None


def test_the_native_callable_takes_objects_and_what_it_took(point, library):
    """Pointers of other kinds, and more of them than a trampoline converts inline."""
    one = point(3.0, 4.0)
    arrays = [np.array([i + 1], type) for i, type in enumerate(("d", "f", "i", "h"))]
    assert one.many(*arrays, 5) == 18.0
    wrapped = point.norm.__wrapped__
    assert wrapped(one) == 25.0
    struct = np.array([(1.0, 2.0)], [("x", "d"), ("y", "d")])
    assert wrapped(struct) == 5.0
    with pytest.raises(TypeError):
        wrapped(nc.NativeObject())
    with pytest.raises(TypeError):
        library.norm(one)  # which is no method's
    with pytest.raises(TypeError, match="and that no other method uses"):
        type(point.norm)(point, "norm", wrapped, True, "d:&T{dd}", None)


def test_other_arguments_of_self_s_type_take_objects_too():
    """As self does: the object for a void pointer, the fields for another."""

    @nc.callback("d:&v&v")
    def differ(one, other):
        return float(one != other)

    @nc.callback("d:&d&dd&i")
    def add_to(one, other, times, more):
        return one[0] + times * other[0] + (more[0] if more is not None else 0)

    class Number(nc.NativeObject):
        x = nc.field("d")
        are_two = nc.method(differ)
        add = nc.method(add_to)

    class Sub(Number):
        y = nc.field("d")

    one, other = Number(1.0), Sub(10.0, 20.0)
    assert (one.are_two(other), one.are_two(one), other.are_two(one)) == (1.0, 0.0, 1.0)
    assert one.add(other, 2, None) == 21.0
    assert other.add(one, 2, np.array([100], "i")) == 112.0
    assert one.add(np.array([5.0]), 1, None) == 6.0
    with pytest.raises(TypeError, match=r"argument 2 of 'Number\.add' must be a '&d' pointer"):
        one.add(nc.ObjectArray(nc.NativeObject, 1)[0], 1, None)
    with pytest.raises(TypeError, match=r"argument 4 of 'Number\.add' must be a '&i' pointer"):
        one.add(one, 1, one)


def test_a_method_keeps_its_class(library):
    class Made(nc.NativeObject):
        x = nc.field("d")
        y = nc.field("d")
        norm = nc.method(library.norm)

    wrapped, one = Made.norm.__wrapped__, Made(3.0, 4.0)
    made = weakref.ref(Made)
    del Made, one
    gc.collect()
    assert wrapped(made()(1.0, 2.0)) == 5.0
    del wrapped
    gc.collect()
    assert made() is None


def test_a_second_base_s_fields_are_found(point, ext):
    class Other(nc.NativeObject):
        z = nc.field("(5)d")

    class Both(Other, point):
        pass

    one = Both(3.0, 4.0)
    assert one.norm() == 25.0
    assert ext.call(one, "norm", "d:&T{dd}") == 25.0
    assert point.norm(one) == 25.0
    assert one.scaled(2) == 50.0


def test_python_functions_are_methods_of_both_worlds(point, ext):
    class Sub(point):
        def norm(self):
            return -1.0

    one = Sub(3.0, 4.0)
    assert one.norm() == -1.0
    assert ext.call(one, "norm", "d:&T{dd}") == -1.0
    assert ext.call(one, "norm", "d:&T{dd}", Sub) == 25.0


def test_descriptors(point, fails):
    one = point(3.0, 4.0)
    assert point.norm.__name__ == "norm"
    assert point.norm.__doc__ == "The square of the length."
    assert point.norm.__objclass__ is point
    assert point.norm.signature == "d:&T{dd}"
    assert repr(point.norm) == "<native method 'norm' of 'Point' objects, d:&T{dd}>"
    bound = one.norm
    del one
    gc.collect()
    assert bound() == 25.0
    with fails(TypeError, "method 'norm' of 'Point' objects needs an object as its first argument"):
        point.norm()
    with fails(TypeError, "method 'norm' of 'Point' objects does not apply to a 'int' object"):
        point.norm(3)
    with pytest.raises(TypeError, match="takes"):
        bound(1)


def test_errors_and_other_targets(library):
    squared = nc.callback("d:Pd", lambda self, x: x * x)

    class Made(nc.NativeObject):
        check = nc.method(library.fails, "i:&vi", errors="nonzero")
        square = nc.method(squared)
        by_ctypes = nc.method(
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(library.fails.address())
        )

    one = Made()
    assert one.check(0) is None or one.check(0) == 0
    with pytest.raises(nc.NativeFailure):
        one.check(3)
    assert one.square(3.0) == 9.0
    assert one.by_ctypes(7) == 7


def test_what_the_native_callable_says_of_its_calls_is_the_method_s(library):
    """Errors, out-parameters, text and checks; what the method says comes on top."""
    parts = library.function("split", out=("x", "y"), errors="nonzero")
    said = library.function("text", encoding="utf-8")
    twice = nc.wrap(library.norm, check=lambda result, function, given: (result * 2, given))

    class Made(nc.NativeObject):
        x = nc.field("d")
        y = nc.field("d")
        split = nc.method(parts)
        text = nc.method(said)
        doubled = nc.method(twice, gil="release")
        norm = nc.method(library.norm, gil="release", errors="none")

    class Other(nc.NativeObject):
        z = nc.field("d")

    class Both(Other, Made):
        pass

    for cls in (Made, Both):
        one = cls(3.0, 4.0)
        assert one.split() == (3.0, 4.0)
        assert (one.text(), one.norm()) == ("b", 25.0)
        assert one.doubled() == (50.0, (one,))
        one.x = -1.0
        assert one.text() == "\xe4"
        with pytest.raises(nc.NativeFailure, match=r"'Made\.split' failed: it returned 1"):
            one.split()
    assert [entry.gil for entry in Made.doubled.__wrapped__.entries] == ["release"]
    assert [entry.gil for entry in Made.norm.__wrapped__.entries] == ["release"]
    assert [entry.gil for entry in library.norm.entries] == ["hold"]
    with pytest.raises(TypeError):
        Made.split.__wrapped__(Other())
    with pytest.raises(ValueError, match="needs an integer"):
        nc_class(norm=nc.method(library.norm, errors="nonzero"))
    made = weakref.ref(Made)
    del Made, Both, cls, one
    gc.collect()
    assert made() is None


def test_functions_that_a_method_keeps(library):
    class Made(nc.NativeObject):
        x = nc.field("d")
        y = nc.field("d")
        keep = nc.method(library.function("keep", keep="library"))
        call = nc.method(library.call)

    one = Made(3.0)
    one.keep(lambda x: 7 * x)
    gc.collect()
    assert one.call() == 21.0


def nc_class(**body):
    return type(nc.NativeObject)("Made", (nc.NativeObject,), body)


def test_methods_are_traced(python, library, tmp_path):
    """With NATIVECALL_TRACE=1, where each call is told, objects are taken as without."""
    code = """
import nativecall as nc
library = nc.load(sys.argv[1], "typedef struct { double x, y; } Point; double norm(Point *);")
class Made(nc.NativeObject):
    x = nc.field("d")
    y = nc.field("d")
    norm = nc.method(library.norm)
print(Made(3.0, 4.0).norm())
"""
    prefix = "import os, sys\nos.environ['NATIVECALL_TRACE'] = '1'\n"
    assert python(prefix + code, library.path) == "25.0\n"


def test_a_method_of_another_class_is_a_method(library):
    class First(nc.NativeObject):
        x = nc.field("d")
        y = nc.field("d")
        norm = nc.method(library.norm)

    class Second(nc.NativeObject):
        x = nc.field("d")
        y = nc.field("d")
        norm = nc.method(First.norm.__wrapped__)

    assert (First(3.0, 4.0).norm(), Second(6.0, 8.0).norm()) == (25.0, 100.0)
    with pytest.raises(TypeError):
        Second.norm.__wrapped__(First())


def test_numba_functions_are_methods(ext):
    numba = pytest.importorskip("numba")

    @numba.cfunc("float64(CPointer(float64))")
    def sum_of(fields):
        return fields[0] + fields[1]

    class Made(nc.NativeObject):
        x = nc.field("d")
        y = nc.field("d")
        total = nc.method(sum_of, "d:&d")

    one = Made(1.0, 2.0)
    assert one.total() == 3.0
    assert ext.call(one, "total", "d:&d") == 3.0


def test_jitted_functions_are_methods_of_fields_and_of_numbers(ext):
    """A function of Numba's is compiled for the method's signature."""
    numba = pytest.importorskip("numba")

    @numba.njit
    def grown(fields, by):
        fields[0] += by
        return fields[0] * fields[1]

    class Made(nc.NativeObject):
        x = nc.field("d")
        y = nc.field("d")
        grow = nc.method(grown, "d:&dd")

    class Sub(Made):
        z = nc.field("d")

    for cls in (Made, Sub):
        one = cls(1.0, 2.0)
        assert one.grow(2.0) == 6.0
        assert one.x == 3.0


def test_objects_and_classes_of_c_are_fields_and_bases_of_python_s(ext, fails):
    """A Python class refers to a C class; native code calls what either of them defines."""

    class Segment(nc.NativeObject):
        start = nc.field(ext.Point)
        end = nc.field(ext.Point)

        @nc.method("d:&v")
        def sum(self):
            return self.start.sum() + self.end.sum()

    class Named(ext.Point):
        def sum(self):
            return 100.0

    one = Segment(ext.point(1, 2), end=Named())
    assert ext.call(one, "sum", "d:&v") == 103.0
    assert ext.call(one.end, "sum", "d:&v") == 100.0
    with fails(
        TypeError, "field 'start' of 'Segment' must be an object of Point or None (got int)"
    ):
        one.start = 3


def test_python_methods_are_called_from_threads_without_the_gil(ext):
    """Through the native pointer, in a thread that Python does not know."""
    called = []

    class Made(nc.NativeObject):
        @nc.method("d:&v")
        def which(self):
            called.append(type(self).__name__)
            return 4.0

    one = Made()
    found = []
    thread = threading.Thread(target=lambda: found.append(ext.call(one, "which", "d:&v")))
    thread.start()
    thread.join()
    assert (found, called) == ([4.0], ["Made"])


def test_an_exception_that_nobody_gets_is_reported_with_the_methods_name(ext, monkeypatch):
    class Bad(nc.NativeObject):
        @nc.method("P:&v")
        def scale(self):
            raise KeyError("no scale")

    libc = ctypes.PyDLL(None) if sys.platform != "win32" else None
    if not hasattr(libc, "pthread_join"):
        pytest.skip("no pthread_create in the C library")
    reports = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(report.object))
    one, thread = Bad(), ctypes.c_ulong()
    ((_, _, entry, *_),) = nc._ext.native_parts(Bad)[1]
    work = ctypes.c_void_p(entry), ctypes.c_void_p(ext.address(one))
    assert libc.pthread_create(ctypes.byref(thread), None, *work) == 0
    assert ctypes.CDLL(None).pthread_join(thread, None) == 0
    assert [report.__qualname__ for report in reports] == [Bad.__qualname__ + ".scale"]


def test_code_lives_as_long_as_the_class(ext):
    class Made(nc.NativeObject):
        @nc.method("d:&v")
        def which(self):
            return 4.0

    number = ext.hold(Made())
    with pytest.raises(TypeError, match="keeps alive what native code points to"):
        del Made.__nativekept__
    with pytest.raises(TypeError, match="cannot be assigned to"):
        Made.which = None
    del Made
    gc.collect()
    one = ext.cast(number)
    assert ext.call(one, "which", "d:&v") == 4.0
    del one
    ext.drop(number)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (nc.method, "'signature' is missing: an abstract method needs one"),
        (lambda: nc.method(lambda self: 1), "'signature' is missing: a Python function does not"),
        (lambda: nc.method(None, "d:d"), "a method's first argument is the object, a pointer such"),
        (lambda: nc.method(None, "d:"), "a method's first argument is the object"),
        (lambda: nc.method(None, "d:&v."), "a method cannot be variadic"),
        (lambda: nc.method("d:&v")(3), "a native method cannot be called"),
    ],
)
def test_methods_that_cannot_be(make, message):
    with pytest.raises(TypeError, match=message):
        make()
