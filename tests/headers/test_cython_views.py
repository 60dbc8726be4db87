"""Cython's typed memoryviews as `[n]T` arguments, both ways, and a Cython class with slots.

tests/ext/cython_views.pyx is built as C and as C++. What it gives and gets is NumPy's: arrays of
every kind of stride, whose memory is seen to be the same on both sides.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import nativecall as nc
from support import build
from support.threads import each

PXD = Path(nc.__file__).with_name("__init__.pxd")

CALLEES = """
#include <nativecall/view.h>

typedef NC_VIEW(double, 1) Line;
typedef NC_VIEW(double, 2) Matrix;
typedef NC_VIEW(const float, 7) Deep;

double negate(const Line *a)
{
    for (intptr_t i = 0; i < a->shape[0]; i++) {
        NC_VIEW_AT(double, a, i) *= -1.0;
    }
    return (double)a->shape[0];
}

double weigh(const Matrix *a)
{
    double total = 0.0;
    for (intptr_t i = 0; i < a->shape[0]; i++) {
        for (intptr_t k = 0; k < a->shape[1]; k++) {
            total += (double)(10 * i + k) * NC_VIEW_AT(double, a, i, k);
        }
    }
    return total;
}

double corner(const Deep *a)
{
    return NC_VIEW_AT(const float, a, 0, 1, 0, 1, 0, 1, 0) + 100.0 * (double)a->shape[6];
}
"""


def weighed(a: np.ndarray) -> float:
    rows, columns = np.indices(a.shape)
    return float(((10 * rows + columns) * a).sum())


def matrices() -> list[np.ndarray]:
    """Arrays of doubles in two dimensions, of every kind of stride."""
    whole = np.arange(48.0).reshape(6, 8)
    records = np.zeros((3, 4), [("a", "f8"), ("x", "f8"), ("b", "f8")])
    records["x"] = np.arange(12.0).reshape(3, 4)
    return [
        *(whole, whole.T, np.asfortranarray(whole), whole[::2, 1::3], whole[::-1, ::-2]),
        *(whole[:0], whole[:, :0], whole[2:3], whole[2:3, 4:5], records["x"]),
    ]


@pytest.fixture(scope="module", params=["c", "c++"])
def cy(request, builder, include):
    language = request.param
    if build.compiler(language) is None:
        pytest.skip(f"no {language} compiler")
    name = {"c": "views_c", "c++": "views_cpp"}[language]
    source = build.EXT / "cython_views.pyx"
    return build.load_extension(builder.cython(source, name, include=include, language=language))


@pytest.fixture(scope="module")
def views(builder, include) -> nc.Library:
    if build.compiler() is None:
        pytest.skip("no C compiler")  # the modules are compiled here
    return nc.load(str(builder.library(CALLEES, "view_callees", flags=["-O1", f"-I{include}"])))


# ---- to a native function ------------------------------------------------------------------------


@pytest.mark.parametrize("a", matrices())
def test_a_memoryview_is_described_as_it_is(cy, a):
    address, shape, strides = cy.described(a)
    assert address == a.ctypes.data
    assert tuple(shape) == a.shape
    if a.size > 0:  # else strides mean nothing, nor does that of a dimension of length 1
        given = zip(a.shape, strides, a.strides, strict=True)
        assert all(length == 1 or stride == wanted for length, stride, wanted in given)


@pytest.mark.parametrize("a", matrices())
def test_a_native_function_gets_it_without_a_copy(cy, views, a):
    assert cy.apply_matrix(views.address("weigh"), a) == weighed(a)
    expected = weighed(a[::2, ::-1].T)
    assert cy.apply_part(views.address("weigh"), a, 2) == expected


def test_it_may_write(cy, views):
    a = np.arange(6.0)
    assert cy.apply_line(views.address("negate"), a[::2]) == 3.0
    assert a.tolist() == [0.0, 1.0, -2.0, 3.0, -4.0, 5.0]


def test_seven_dimensions_of_what_is_read_only(cy, views):
    a = np.arange(2.0**7, dtype="f4").reshape((2,) * 7)
    a.flags.writeable = False
    assert cy.apply_deep(views.address("corner"), a) == a[0, 1, 0, 1, 0, 1, 0] + 200


def test_none_has_no_elements(cy):
    assert cy.described(None)[1:] == ([0, 0], [0, 0])


@pytest.mark.parametrize("a", matrices())
def test_what_helps_with_descriptors(cy, a):
    assert cy.order_of(a) == (a.size, a.flags.c_contiguous, a.flags.f_contiguous)
    rows, columns = a.shape
    assert cy.strides_for(rows, columns, ord("C")) == (8 * columns, 8)
    assert cy.strides_for(rows, columns, ord("F")) == (8, 8 * rows)


# ---- in a native function ------------------------------------------------------------------------


def offered(cy, name: str, signature: str) -> nc.NativeCallable:
    return nc.wrap(cy.address_of(name), signature)


def counts(cy) -> list[int]:
    return [sys.getrefcount(one) for one in cy.kept()]


@pytest.mark.parametrize("a", matrices())
def test_an_argument_is_used_as_a_memoryview(cy, a):
    before = counts(cy)
    assert offered(cy, "matrix_weigh", "d:[2]d")(a) == weighed(a)
    assert counts(cy) == before


def test_whole_slices_are_assigned_and_transposed(cy):
    whole = np.arange(40.0).reshape(5, 8)
    a, untouched = whole[::2, 1::3], whole[1::2].copy()
    before = counts(cy)
    assert offered(cy, "matrix_edit", "d:[2]d")(a) == -1.0
    assert a[:2].tolist() == [[-1.0, 5.0, 5.0], [5.0, 5.0, 5.0]]
    assert a[2].tolist() == [17.0, 20.0, 23.0]
    assert (whole[1::2] == untouched).all()
    assert counts(cy) == before


def test_copies_and_objects_are_made_of_it(cy):
    a = np.arange(24.0).reshape(4, 6)[1::2, ::-2]
    cy.seen.clear()
    before = counts(cy)
    assert offered(cy, "matrix_object", "d:[2]d")(a) == 1.0
    assert cy.seen == [(a.tolist(), a.tolist(), a.strides)]
    assert counts(cy) == before


def test_other_types_and_dimensions(cy):
    assert offered(cy, "line_sum", "d:[1]d")(np.arange(9.0)[::-3]) == 8.0 + 5.0 + 2.0
    a = np.arange(2.0**7, dtype="f4").reshape((2,) * 7)
    assert offered(cy, "deep_corner", "d:[7]f")(a) == a[0, 1, 0, 1, 0, 1, 0] + 200


def test_threads_without_the_gil(cy):
    """All count references to the same object at once."""
    f = nc.wrap(cy.address_of("matrix_weigh"), "d:[2]d", gil="release")
    a = np.arange(12.0).reshape(3, 4)
    before = counts(cy)
    assert each(lambda a: {f(a) for _ in range(5000)}, *[a] * 4) == [{weighed(a)}] * 4
    assert counts(cy) == before


def test_from_one_module_of_cython_to_itself(cy):
    """Both ways at once: a memoryview of ours is an argument of ours."""
    a = np.arange(12.0).reshape(3, 4)[:, ::-1]
    assert cy.apply_matrix(cy.address_of("matrix_weigh"), a) == weighed(a)


# ---- classes with slots --------------------------------------------------------------------------


def test_a_cython_class_carries_slots(cy):
    field = cy.SlottedField(2.5)
    assert cy.read_field(field, b"field.get", b"field.at") == [2.5, 2.5]
    assert type(cy.SlottedField) is nc.extensibletype
    assert isinstance(field, cy.Field)
    assert [slot.key for slot in nc.customslots(field)] == [b"field.get", b"field.at"]


def test_classes_that_derive_from_it_inherit_them(cy):
    class Derived(cy.SlottedField):
        __customslots__ = {"field.at": cy.SlottedField.__basicsize__}

    assert cy.read_field(Derived(1.5), b"field.get", b"other") == [1.5, None]
    assert nc.customslots(Derived)[1].data == cy.SlottedField.__basicsize__


def test_the_cdef_class_itself_has_none(cy):
    assert nc.customslots(cy.Field(1.0)) == ()
    assert cy.read_field(cy.Field(1.0), b"field.get", b"field.at") == [None, None]


# ---- the comment ---------------------------------------------------------------------------------


def test_the_examples_of_the_comment(builder, include, tmp_path):
    """What nativecall/__init__.pxd tells of arrays and of classes is a module that works."""
    if build.compiler() is None:
        pytest.skip("no C compiler")  # the modules are compiled here
    text = PXD.read_text()
    source = [
        "# cython: boundscheck=False",
        *("cimport cython", "cimport nativecall as nc", "from cpython.object cimport PyObject"),
        "from libc.stdint cimport intptr_t, uintptr_t",
    ]
    for name in ("Arrays", "Providers", "Classes with slots", "Native objects"):
        part = re.search(rf"^# {name}\.(?:.*\n)+?#\n((?:#(?:     .*)?\n)+)", text, re.M)
        assert part is not None
        source.append(re.sub(r"^#(?:     )?", "", part[1], flags=re.M))
    source.append("def run(double[:, :] a): return norm_of(corner, a)")
    path = tmp_path / "comment.pyx"
    path.write_text("\n".join(source))
    made = build.load_extension(builder.cython(path, "comment", include=include))
    assert nc.wrap(made.Half())["d:d"](3.0) == 1.5

    class Point(nc.NativeObject):
        x = nc.field("d")
        y = nc.field("d")

    made.use(Point)
    point = Point(1.0, 2.0)
    made.move(point, 0.5)
    assert (point.x, point.y) == (1.5, 2.0)
    assert made.run(np.arange(4.0).reshape(2, 2)[::-1]) == 2.0
    (get, at) = nc.customslots(made.SlottedField)
    assert (get.key, at.key) == (b"field.get", b"field.at")
    assert at.data + 8 <= made.SlottedField.__basicsize__
