"""Boxes of ours come back whole: every box form by every kind of entry.

A box of another library says less than an entry does. One that was made here is recognised with the
entry's own signature, names, promises and flags, by `wrap`, as an argument that is a function, and
by consumers in C; or making it is refused.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import weakref

import cffi
import pytest
from scipy import LowLevelCallable

import nativecall as nc
from nativecall import _lib
from support.capsules import capsule

HOLDS_GIL, DISTRUSTS_NAMES = 1, 8  # of thunk.h
FFI = cffi.FFI()
NEED, TAKE, RELEASE, ERRNO = (
    _lib.FLAG_NEEDS_GIL,
    _lib.FLAG_TAKES_GIL,
    _lib.FLAG_RELEASE_GIL,
    _lib.FLAG_ERRNO,
)


def looked_into(box):
    """What `wrap` gets from a box: a signature and flags."""
    (row,) = nc.wrap(box).entries
    return row.signature, row.flags


def address() -> int:
    return nc.load("m").address("cos")


def wrapped(signature, **options):
    return lambda: nc.wrap(address(), signature, **options)


# Each with the flags that its boxes must come back with.
ENTRIES = {
    "number": (wrapped("d:d"), 0),
    "object argument": (wrapped("i:O"), NEED),
    "object result": (wrapped("O:i"), NEED),
    "pointer to objects": (wrapped("i:&Oi"), NEED),
    "struct with an object": (wrapped("i:T{iO}"), NEED),
    "function of objects": (wrapped("O:X{O:O}O"), NEED),
    "view": (wrapped("d:[1]d"), 0),
    "view of structs": (wrapped("d:[2]T{id}i"), 0),
    "view of objects": (wrapped("d:[1]O"), NEED),
    "gil=need": (wrapped("d:d", gil="need"), NEED),
    "gil=release": (wrapped("d:d", gil="release"), RELEASE),
    "errors=python": (wrapped("i:i", errors="python"), NEED | _lib.ERRORS["python"]),
    "errors=nonzero": (wrapped("i:i", errors="nonzero"), _lib.ERRORS["nonzero"]),
    "errors=zero": (wrapped("i:i", errors="zero"), _lib.ERRORS["zero"]),
    "errors=null": (wrapped("P:i", errors="null"), _lib.ERRORS["null"]),
    "errors=errno": (wrapped("i:i", errors="errno"), _lib.ERRORS["errno"]),
    "errno": (wrapped("i:i", errno=True), ERRNO),
    "all but objects": (
        wrapped("i:[1]d", gil="release", errors="nonzero", errno=True),
        RELEASE | ERRNO | _lib.ERRORS["nonzero"],
    ),
    "function argument": (wrapped("d:X{d:d}d"), 0),
    "struct": (wrapped("T{dd}:T{dd}i"), 0),
    "struct behind a pointer": (wrapped("d:&T{id}"), 0),
    "half": (wrapped("e:e"), 0),
    "complex": (wrapped("Zd:Zd"), 0),
    "char, long and pointers of them": (wrapped("&c:cl&&l"), 0),
    "variadic": (wrapped("i:&c."), 0),
    "names and promises": (wrapped("double (const double *x, long n)"), 0),
    "callback": (lambda: nc.callback("d:d", float), TAKE),
    "callback of an object": (lambda: nc.callback("O:O", repr), NEED),
    "callback of a view": (lambda: nc.callback("d:[1]d", float), TAKE),
    "callback that needs the GIL": (lambda: nc.callback("d:d", float, gil="need"), NEED),
    "callback with exceptions": (
        lambda: nc.callback("d:d", float, errors="python"),
        TAKE | _lib.ERRORS["python"],
    ),
    "one of several": (
        lambda: nc.wrap({"f:f": address(), "i:O": address()})["i:O"],
        NEED,
    ),
    "converted": (lambda: nc.wrap(address(), "d:dd", gil="need").convert("d:i&d"), NEED),
    "bound": (lambda: nc.wrap(address(), "d:[1]dd", gil="need").bind(..., 2.0), NEED),
    "wrapped again": (lambda: nc.wrap(nc.callback("d:d", float), name="again"), TAKE),
}


def to_ctypes(f):
    return f.to_ctypes()


def cast_of_ctypes(f):
    """As another type of function, through void *."""
    box = ctypes.cast(f.to_ctypes(), ctypes.c_void_p)
    return ctypes.cast(box, ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p))


def retyped_ctypes(f):
    box = f.to_ctypes()
    box.argtypes, box.restype = [ctypes.c_void_p, ctypes.c_int], ctypes.c_int
    return box


def struct_of_ctypes(f):
    box = f.to_ctypes()
    kind = type("Table", (ctypes.Structure,), {"_fields_": [("n", ctypes.c_int), ("f", type(box))]})
    table = kind(1, box)
    return table.f


def behind_a_pointer_of_ctypes(f):
    box = f.to_ctypes()
    table = (type(box) * 2)(box)
    return ctypes.pointer(table).contents[0]


def to_cffi(f):
    return f.to_cffi()


def gc_of_cffi(f):
    return FFI.gc(f.to_cffi(), lambda pointer: None)


def to_capsule(f):
    return f.to_capsule()


def added(f):
    g = nc.wrap(address(), "v:dhdhdh")
    g.add(None, f)
    return g[f.signatures[0]].to_capsule()


def on_demand(f):
    g = nc.wrap(address(), "v:dhdhdh")
    g.specialize = lambda g, text: f
    return g[f.signatures[0]].to_capsule()


def scipy_of(box):
    return LowLevelCallable(box)


FORMS = {
    "to_ctypes": to_ctypes,
    "cast of ctypes": cast_of_ctypes,
    "ctypes with other types": retyped_ctypes,
    "in a struct of ctypes": struct_of_ctypes,
    "behind a pointer of ctypes": behind_a_pointer_of_ctypes,
    "to_cffi": to_cffi,
    "gc of cffi": gc_of_cffi,
    "to_capsule": to_capsule,
    "to_scipy": lambda f: f.to_scipy(f.signatures[0]),
    "SciPy's of ctypes": lambda f: scipy_of(f.to_ctypes()),
    "SciPy's of cffi": lambda f: scipy_of(f.to_cffi()),
    "SciPy's of a capsule": lambda f: scipy_of(f.to_capsule()),
    "SciPy's of SciPy's": lambda f: scipy_of(scipy_of(f.to_capsule())),
    "a box of a box": lambda f: nc.wrap(f.to_capsule()).to_ctypes(),
    "boxes all the way": lambda f: nc.wrap(
        nc.wrap(nc.wrap(f.to_ctypes()).to_capsule()).to_ctypes()
    ).to_capsule(),
    "of the view": lambda f: nc.wrap(f.builtin).to_capsule(),
    "of a copy": lambda f: copy.deepcopy(f).to_capsule(),
    "in an array of ctypes": lambda f: (type(f.to_ctypes()) * 1)(f.to_ctypes())[0],
    "with its signature": lambda f: nc.wrap(f.to_capsule(), f.signatures[0]).to_capsule(),
    "bound to nothing": lambda f: (f if "." in f.signatures[0] else f.bind()).to_capsule(),
    "converted to itself": lambda f: f.convert(f.signatures[0]).to_capsule(),
    "renamed": lambda f: nc.wrap(f, name="other").to_capsule(),
    "in a mapping": lambda f: nc.wrap({f.signatures[0]: f})[f.signatures[0]].to_capsule(),
    "added": added,
    "made on demand": on_demand,
}
#: The signature that is said again there has no names and no promises.
UNNAMED = ("with its signature", "in a mapping", "made on demand")
REASONS = (
    "cannot call 'e:e': it has no '_Float16'",
    "SciPy has no spelling for",
)


def is_refused(entry: str, form: str) -> bool:
    """Whether a library would call such a function wrongly, or has no name for it."""
    if "cffi" in form:
        return entry == "half"
    if form == "to_scipy":
        return entry in ("struct", "struct with an object")
    return entry == "half" and ("ctypes" in form or "box" in form)


def facts(f):
    """All that makes an entry."""
    cif, place, flags = f._chosen(None)
    signature = cif.signature
    return signature.text, signature.names, signature.readonly, place, flags


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_box_comes_back_whole(entry, form):
    make, flags = ENTRIES[entry]
    f = make()
    expected = facts(f)
    assert expected[4] == flags
    if is_refused(entry, form):
        with pytest.raises((ValueError, nc.SignatureError)) as info:
            FORMS[form](f)
        assert any(reason in str(info.value) for reason in REASONS)
        return
    box = FORMS[form](f)
    if form in UNNAMED:
        many = len(expected[1])
        expected = expected[0], (None,) * many, (False,) * many, *expected[3:]
    assert facts(nc.wrap(box)) == expected
    assert looked_into(box) == (expected[0], flags)


@pytest.mark.parametrize("form", FORMS)
def test_a_box_that_was_looked_into_keeps_the_owner_and_itself_not(form):
    owner = set()
    f = nc.wrap(address(), "d:d", owner=owner)
    alive = weakref.ref(owner)
    box = FORMS[form](f)
    looked_into(box)
    assert nc.wrap(box)(0.0) == 1.0
    del f, owner
    gc.collect()
    assert alive() is not None
    del box
    gc.collect()
    assert alive() is None


def test_a_box_keeps_its_entry_when_that_is_replaced():
    f = nc.wrap(address(), "d:d", gil="need")
    boxes = [f.to_ctypes(), f.to_capsule()]
    f.add("d:d", nc.load("m").address("sin"), gil="need", replace=True)
    for box in boxes:
        assert facts(nc.wrap(box)) == ("d:d", (None,), (False,), address(), NEED)
        assert looked_into(box) == ("d:d", NEED)
    assert nc.wrap(f.to_capsule()).address() == f.address() != address()


def test_what_users_write_into_a_box_is_not_believed():
    """Another function, whose signature and needs are not those of the entry."""
    needs, other = nc.wrap(address(), "d:d", gil="need"), nc.load("m").function("sin", "f:f")
    box = needs.to_ctypes()
    box._objects["nativecall"] = other
    assert nc.wrap(box).signatures == ("d:d",)
    assert looked_into(box)[0] == "d:d"
    box, another = needs.to_ctypes(), other.to_ctypes()
    ctypes.memmove(ctypes.addressof(box), ctypes.addressof(another), 8)
    assert nc.wrap(box).address() == other.address()

    class Entry:
        def __init__(self, base):
            self.base = base

        @property
        def __class__(self):
            return nc.NativeCallable

        def _entries(self):
            raise AssertionError

    box = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address())
    box = ctypes.cast(box, type(box))
    box._objects["nativecall"] = Entry(None)
    assert nc.wrap(box).signatures == ("d:d",)


def test_a_contradicting_signature_is_refused(fails):
    f = nc.wrap(address(), "d:[1]d")
    for box in (f.to_ctypes(), f.to_capsule(), f.to_cffi()):
        with fails(
            nc.SignatureError,
            "'signature' is 'd:P', but the target is 'd:[1]d'; omit 'signature' to use the "
            "target's own",
        ):
            nc.wrap(box, "d:P")


def test_capsules_name_objects_as_cython_does():
    assert "PyObject *(PyObject *, int)" in repr(nc.wrap(address(), "O:Oi").to_capsule()).replace(
        "PyObject * (", "PyObject *("
    )


def test_a_strangers_capsule_of_objects_needs_the_gil():
    box = capsule(b"int (PyObject *)", address())
    assert facts(nc.wrap(box))[::4] == ("i:O", NEED)
    assert looked_into(box) == ("i:O", NEED)


# -- as arguments --------------------------------------------------------------------------------

TAKEN = {
    "argument": ("d:X{d:d}d", lambda apply, f: apply(f, 3.0)),
    "in a struct": ("d:T{X{d:d}d}", lambda apply, f: apply((f, 3.0))),
    "bound": ("d:X{d:d}d", lambda apply, f: apply.bind(f)(3.0)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", TAKEN)
def test_a_function_that_needs_the_gil_is_refused_in_every_box(lib, place, form):
    signature, call = TAKEN[place]
    apply = nc.wrap(lib.address("apply"), signature)
    square = lib.function("square", "d:d")
    if place != "in a struct":  # which travels in other registers than the two arguments
        assert call(apply, FORMS[form](square)) == 9.0
    needs = nc.wrap(square, gil="need")
    given = [needs, needs.builtin]
    if "cffi" not in form:
        given.append(FORMS[form](needs))
    for one in given:
        with pytest.raises(TypeError, match=r"must be a function 'd:d' that runs without the GIL"):
            call(apply, one)


def test_a_view_in_a_box_is_no_pointer_to_a_function_argument(lib):
    apply = nc.wrap(lib.address("apply"), "d:X{d:P}d")
    f = nc.wrap(address(), "d:[1]d")
    for box in (f.to_ctypes(), f.to_cffi(), f.to_capsule()):
        with pytest.raises(TypeError, match=r"must be a function 'd:P' \(got 'd:\[1\]d' from"):
            apply(box, 1.0)


def test_a_long_signature_comes_back_whole():
    text = "d:" + 600 * "d"
    box = nc.wrap(address(), text).to_capsule()
    assert nc.wrap(box).signatures == (text,)


# -- exceptions need the GIL ---------------------------------------------------------------------


def test_an_entry_that_sets_exceptions_needs_the_gil(lib, fails):
    place = lib.address("square")
    overloaded = nc.wrap({"d:d": place, "i:i": place}, errors="python")
    added = nc.wrap(place, "d:d")
    added.add("i:i", place, errors="python")
    again = nc.wrap(nc.wrap(place, "d:d"), errors="python")
    found = lib.function("square", "d:d", errors="python")
    for f in (overloaded["i:i"], added["i:i"], again, found, pickle.loads(pickle.dumps(found))):
        row = f.entries[0]
        assert (row.gil, row.errors) == ("need", "python")
        assert nc.wrap(f.to_cffi()).entries[0].flags == row.flags
    assert added["d:d"].entries[0].gil == "hold"
    takes = nc.callback("d:d", float, errors="python")
    for f in (takes, nc.wrap(takes, name="again")):
        assert f.entries[0].flags == TAKE | _lib.ERRORS["python"]
        assert f.to_cffi()(1.0) == 1.0
    with fails(ValueError, "gil='release' cannot be right for 'd:d', which sets Python exceptions"):
        nc.wrap(takes, gil="release")


def test_providers_in_c_say_that_exceptions_need_the_gil(provider, lib):
    both = provider.Both()
    for flags in (0, RELEASE, ERRNO):
        with pytest.raises(
            ValueError, match="NC_FLAG_NEEDS_GIL or NC_FLAG_TAKES_GIL for NC_ERRORS_PYTHON"
        ):
            both.add("d:d", flags | _lib.ERRORS["python"], lib.address("square"))
    both.add("d:d", NEED | _lib.ERRORS["python"], lib.address("square"))
    both.add("d:d", TAKE | _lib.ERRORS["python"], lib.address("square"))


@pytest.mark.parametrize("form", ["to_ctypes", "to_cffi", "to_capsule", "to_scipy"])
def test_what_a_box_was_made_of_is_pickled(form):
    cos = nc.load("m", "double cos(double);").cos
    wrapped = nc.wrap(getattr(cos, form)())
    assert pickle.loads(pickle.dumps(wrapped))(0.0) == 1.0
    assert pickle.loads(pickle.dumps(nc.wrap(getattr(cos, form)(), name="mine"))).__name__ == "mine"
    with pytest.raises(TypeError, match="known by its address only"):
        pickle.dumps(nc.wrap(getattr(nc.wrap(cos.address(), "d:d"), form)()))
