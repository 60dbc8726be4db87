"""Native objects in Cython, and a cdef class as a provider: tests/ext/cython_objects.pyx."""

from __future__ import annotations

import abc

import pytest

import nativecall as nc
from support import build


@pytest.fixture(scope="module", params=["c", "c++"])
def cy(request, builder, include):
    language = request.param
    if build.compiler(language) is None:
        pytest.skip(f"no {language} compiler")
    name = {"c": "objects_cy_c", "c++": "objects_cy_cpp"}[language]
    source = build.EXT / "cython_objects.pyx"
    return build.load_extension(builder.cython(source, name, include=include, language=language))


def test_a_loop_without_the_gil_calls_methods_of_the_objects_own_class(cy):
    class Tripling(cy.Counter):
        def add(self, n):
            return super().add(3 * n)

    assert [cy.total(one(), 10) for one in (cy.Counter, cy.Doubling, Tripling)] == [10, 20, 30]
    with pytest.raises(TypeError, match=r"^expected a native object of class Counter \(got int\)$"):
        cy.total(3, 1)


def test_what_a_python_method_raises_comes_out(cy):
    class Limited(cy.Counter):
        def add(self, n):
            raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        cy.total(Limited(), 3)


def test_objects_are_made_and_counted_natively(cy):
    before = cy.living()
    made = cy.make(cy.Doubling, 5)
    assert (type(made), made.count, made.step) == (cy.Doubling, 5, 1.0)
    assert type(made.parent) is cy.Counter
    assert cy.living() == before + 2
    del made
    assert cy.living() == before
    block = cy.make_block(4)
    assert cy.living() == before + 4
    assert all(one.parent is block[0] for one in block[1:])
    del block
    assert cy.living() == before


def test_python_objects_are_told_apart(cy):
    assert cy.kind(cy.Doubling()) is cy.Doubling
    assert cy.kind(object()) is None
    with pytest.raises(TypeError, match="is not a class of native objects"):
        cy.make(int, 0)


def test_a_cdef_class_offers_entries_and_slots(cy):
    class Sub(cy.Halver, abc.ABC):
        pass

    for kind in (cy.Halver, Sub):
        f = nc.wrap(kind())
        assert (f.signatures, f(3.0), cy.ask(kind())) == (("d:d",), 1.5, 9)
    assert cy.ask(3) is None
