"""What may change later, with modules made for it: structs with more at their ends, a version 2
beside version 1, and SEP 200's draft at the same place."""

import re
import shutil

import pytest


def changed(include, folder, changes):
    """A copy of the headers with changes that all apply: {file: [(pattern, replacement)]}."""
    shutil.copytree(include / "nativecall", folder / "nativecall")
    for file, pairs in changes.items():
        path = folder / "nativecall" / file
        text = path.read_text()
        for pattern, replacement in pairs:
            text, count = re.subn(pattern, replacement, text)
            assert count > 0, (file, pattern)
        path.write_text(text)
    return folder


#: A later build of version 1: each struct that may grow has a field more.
GROWN = {
    "nativecall_abi.h": [
        (r"(void \*etp_private;.*\n)", r"\1    uint64_t etp_mark;\n"),
        (
            r"\n\} NcRuntime;",
            "\n    int (*mark)(PyHeapExtensibleTypeObject *type, uint64_t value);\n} NcRuntime;",
        ),
        (r"\n\} NcNativeApi;", "\n    int (*newer)(PyObject *obj);\n} NcNativeApi;"),
    ],
    "extensibletype.h": [
        (r"(runtime\.ready = nc_type_ready;\n)", r"\1        runtime.mark = nc_type_mark;\n")
    ],
}
#: Version 2: other names, rows of 32 bytes, and another field first in types.
SECOND = {
    "nativecall_abi.h": [
        (r"#define NC_ABI_VERSION 1\b", "#define NC_ABI_VERSION 2"),
        (r"runtime_v1", "runtime_v2"),
        (r"(    PyCustomSlotTable \*etp_custom_slots;)", r"    void *etp_first;\n\1"),
        (r"(    \} data;\n)(\} PyCustomSlot;)", r"\1    uint64_t more;\n\2"),
    ],
    "detail/core/slotmapping.h": [
        (r"runtime_v1", "runtime_v2"),
        (r"extensibletype_v1", "extensibletype_v2"),
    ],
}


@pytest.fixture(scope="module")
def modules(builder, include, tmp_path_factory):
    """The folder of older, newer, second and draft."""
    grown = changed(include, tmp_path_factory.mktemp("grown"), GROWN)
    second = changed(include, tmp_path_factory.mktemp("second"), SECOND)
    builder.extension("growth.c", "older", include=include, directory="growth")
    builder.extension("growth.c", "newer", include=grown, defines=["GROWN"], directory="growth")
    builder.extension("growth.c", "second", include=second, directory="growth")
    return builder.extension("draft.c", "draft", include=include, directory="growth").parent


BEGIN = """
import sys
sys.path.insert(0, sys.argv[1])
made = {name: __import__(name) for name in sys.argv[2].split()}
nc = made.pop("nativecall", None)

def finds(module, obj):
    return module.find(obj), module.look(obj), module.ask(obj)

def raises(make):
    try:
        make()
    except TypeError as error:
        return str(error)
"""

GREW = (
    BEGIN
    + """
older, newer = made["older"], made["newer"]
first = sys.argv[2].split()[0]
names, sizes = zip(*[(it.runtime()[0], it.runtime()[1:]) for it in made.values()])
assert set(names) == {first} and len(set(sizes)) == 1, names
H = type.__basicsize__
assert sizes[0] == ((64, H + 40) if first == "newer" else (56, H + 32)), sizes
assert older.METATYPE is newer.METATYPE and older.METATYPE.__basicsize__ == sizes[0][1]

for provider in (older, newer):
    class Sub(provider.Thing):
        __slots__ = ("a", "b")
    class Over(provider.Thing):
        def __call__(self, x):
            return x
    for consumer in (older, newer):
        assert finds(consumer, provider.Thing()) == (1.0, 1.0, None)
        assert finds(consumer, Sub()) == (1.0, 1.0, None)
        assert finds(consumer, Over()) == (None, None, None)
        assert finds(consumer, provider.Offer()) == (None, 1.0, 1.0)
        assert consumer.row(provider.Rows()) == 77 and consumer.row(provider.Thing()) is None
    if nc is not None:
        assert nc.wrap(provider.Thing())(2.0) == nc.wrap(provider.Offer())(2.0) == 1.0

class Both(older.Thing, newer.Rows):
    __slots__ = ("a", "b")
    __customslots__ = {"mine": 5}
class Htob(newer.Thing, older.Rows):
    pass
for consumer in (older, newer):
    for cls in (Both, Htob):
        assert finds(consumer, cls()) == (1.0, 1.0, None) and consumer.row(cls()) == 77

# The fields more are there where the build that brought the runtime has them, and nowhere else.
there = first == "newer"
assert newer.mark(Both, 2**64 - 1) is there
assert newer.marked(Both) == (2**64 - 1 if there else None)
assert newer.marked(Htob) == (0 if there else None)
assert newer.mark(older.Thing, 1) is newer.mark(newer.Thing, 1) is False
assert newer.newer(newer.Offer()) == 5 and newer.newer(older.Offer()) is None
both = Both()
both.a, both.b = 1, 2
assert (both.a, both.b, finds(older, both)) == (1, 2, (1.0, 1.0, None))
Both.__call__ = lambda self, x: x
assert finds(older, both) == finds(newer, both) == (None, None, None)
del Both.__call__
assert finds(older, both) == finds(newer, both) == (1.0, 1.0, None)
assert older.touched() == newer.touched() == 0
if nc is not None:
    f = nc.load("m").function("fabs", "d:d")
    assert finds(older, f) == finds(newer, f) == (2.0, 2.0, 2.0)
print("ok")
"""
)


@pytest.mark.parametrize(
    "order",
    [
        "older newer",
        "newer older",
        "nativecall newer older",
        "newer nativecall older",
        "older nativecall newer",
    ],
)
def test_structs_that_have_grown(python, modules, order):
    assert python(GREW, modules, order) == "ok\n"


VERSIONS = (
    BEGIN
    + """
import _extensibletype
one, two = made["older"], made["second"]
assert _extensibletype.extensibletype_v1 is one.METATYPE
assert _extensibletype.extensibletype_v2 is two.METATYPE is not one.METATYPE
assert {"runtime_v1", "runtime_v2"} <= set(vars(_extensibletype))
if nc is not None:
    assert nc.extensibletype is one.METATYPE
for provider, other in ((one, two), (two, one)):
    class Sub(provider.Thing):
        __customslots__ = {"mine": 5}
    class Meta(provider.METATYPE):
        pass
    class Meant(provider.Thing, metaclass=Meta):
        pass
    for cls in (provider.Thing, Sub, Meant):
        assert finds(provider, cls()) == (1.0, 1.0, None), cls
        assert finds(other, cls()) == (None, None, None), cls
    assert provider.row(provider.Rows()) == 77 and other.row(provider.Rows()) is None
    # Tier 2 knows no runtime: it serves both.
    assert finds(provider, other.Offer()) == (None, 1.0, 1.0)
    # No class has slots of both.
    for bases in ((provider.Thing, other.Rows), (Sub, other.Rows), (provider.Rows, other.Rows)):
        told = raises(lambda: type("Both", bases, {}))
        assert told.startswith("metaclass conflict"), told
        told = raises(lambda: provider.METATYPE("Both", bases, {}))
        assert told.startswith("metaclass conflict"), told
    told = raises(lambda: type("M", (provider.METATYPE, other.METATYPE), {}))
    assert told == "multiple bases have instance lay-out conflict", told
    told = raises(lambda: setattr(Sub, "__bases__", (other.Rows,)))
    assert told is not None
    assert finds(provider, Sub()) == (1.0, 1.0, None)
assert len({it.allocate() for it in (one, two, one, two)}) == 4, "both take from the same IDs"
if nc is not None:
    f = nc.load("m").function("fabs", "d:d")
    assert finds(one, f) == (2.0, 2.0, 2.0) and finds(two, f) == (None, 2.0, 2.0)
    assert finds(two, f.builtin)[0] is None and one.find(f.builtin) == 2.0
    assert nc.wrap(one.Thing())(2.0) == 1.0
    assert raises(lambda: nc.wrap(two.Thing())) is not None
print("ok")
"""
)


@pytest.mark.parametrize(
    "order",
    [
        "older second",
        "second older",
        "nativecall second older",
        "second nativecall older",
        "second older nativecall",
    ],
)
def test_two_versions_in_one_process(python, modules, order):
    assert python(VERSIONS, modules, order) == "ok\n"


DRAFT = (
    BEGIN
    + """
import _extensibletype
draft, one = made["draft"], made["older"]
assert type(draft.Thing) is _extensibletype.extensibletype_v1 is not one.METATYPE
assert one.runtime()[0] == sys.argv[2].split()[1]
if nc is not None:
    assert nc.extensibletype is one.METATYPE
class Sub(draft.Thing):
    pass
for cls in (draft.Thing, Sub):
    assert draft.find(cls()) == 99
    assert finds(one, cls()) == (None, None, None) and one.row(cls()) is None
for cls in (one.Thing, one.Rows, type("Sub", (one.Thing,), {})):
    assert draft.find(cls()) is None
assert finds(one, one.Thing()) == (1.0, 1.0, None) and one.row(one.Rows()) == 77
assert raises(lambda: type("Both", (Sub, one.Rows), {})).startswith("metaclass conflict")
told = raises(lambda: type("M", (one.METATYPE, type(draft.Thing)), {}))
assert told == "multiple bases have instance lay-out conflict", told
if nc is not None:
    f = nc.load("m").function("fabs", "d:d")
    assert finds(one, f) == (2.0, 2.0, 2.0) and draft.find(f) is None
print("ok")
"""
)


@pytest.mark.parametrize(
    "order", ["draft older", "draft nativecall older", "draft older nativecall"]
)
def test_the_draft_at_the_same_place(python, modules, order):
    assert python(DRAFT, modules, order) == "ok\n"
