"""Real extension modules: providers and consumers built against our headers, in every order.

The headers are the installed ones, or a vendored copy as another project would bundle it; the
modules are C99 and C++11. What must hold for whole processes (who came first, was the package there
at all) is tried in processes of their own. That each way of looking keeps all rules of consumers is
asked by the kit (tests/conformance/test_kit.py).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import nativecall as nc
from support import build, packed

ALLOCATED_ID = 0x05000003
OWN_ID = 0x05000007
CALL_ID = 0x04000001
KEY = b"key\0with a null"


# -- a consumer ----------------------------------------------------------------------------------


def test_the_entry_is_found_by_signature_and_called_without_the_gil(consumer, lib):
    square = lib.function("square", "d:d")
    assert consumer.total(square, 1.0, 4) == (1 + 4 + 9 + 16, "native")
    assert consumer.total(square.builtin, 1.0, 4) == (30.0, "native")
    overloaded = nc.wrap({"f:f": lib.address("same_f32"), "d:d": square})
    assert consumer.total(overloaded, 1.0, 4) == (30.0, "native")
    assert consumer.total(overloaded.builtin, 1.0, 4) == (30.0, "native")


@pytest.mark.parametrize("by_slot", [False, True])
@pytest.mark.parametrize("count", range(1, 8))
def test_an_entry_at_every_place(consumer, lib, count, by_slot):
    """Whichever of a lookup's comparisons it meets; flags that are refused lead to those behind."""
    signatures = ["d:d", "f:f", "q:q", "d:dd", "d:ddd", "i:i", "P:P"][:count]
    address = lib.address("square")
    held = nc.wrap(dict.fromkeys(signatures, address), gil="need")
    free = nc.wrap(dict.fromkeys(signatures, address))
    for f, refused in ((held, None), (free, (0, address))):
        flags = consumer.NEEDS_GIL if f is held else 0
        for g in (f, f.builtin):
            for text in signatures:
                words = packed_bytes(text)
                assert consumer.entry(g, text, 0, by_slot) == (flags, address)
                assert consumer.entry(g, text, consumer.NEEDS_GIL, by_slot) == refused
                assert consumer.packed(g, words) == address
                found = consumer.packed(g, words, consumer.NEEDS_GIL)
                assert found == (refused and refused[1])
            for text in ("d:P", None):
                assert consumer.entry(g, text, 0, by_slot) is None


def test_words_are_refused_by_their_flags(consumer, lib):
    f = nc.wrap({"d:d": lib.address("square"), "f:f": lib.address("same_f32")})
    f.add("q:q", lib.address("same_i64"), gil="need")
    f.add("i:i", lib.address("same_i32"), errors="nonzero")
    for g in (f, f.builtin):
        for entry in f.entries:
            words = packed_bytes(entry.signature)
            for refuse in (0, 0x1, 0xF0, 0xF1):
                found = None if entry.flags & refuse else entry.address
                assert consumer.packed(g, words, refuse) == found
        assert consumer.packed(g, packed_bytes("d:dd")) is None


def test_the_headers_intern_as_the_package_does(consumer):
    from nativecall.conformance import _abi

    for key in (b"", b"d:d", KEY, bytes(range(256)), b"x" * 65535):
        assert consumer.intern(key) == _abi.intern(key)
    with pytest.raises(ValueError, match=r"^a key of 65536 bytes is too long to intern; the limit"):
        consumer.intern(b"x" * 65536)
    assert consumer.intern(b"d:d") == _abi.intern(b"d:d")


def test_a_signature_that_no_entry_can_have_is_refused(consumer):
    for text in ("double (double)", "d: d", "l:i"):
        with pytest.raises(ValueError, match=re.escape(f"'{text}' is not in canonical form")):
            consumer.look(abs, "function", text, 0)


# -- a provider ----------------------------------------------------------------------------------


def test_a_static_type_has_its_rows(consumer, provider):
    base = provider.Base()
    key = consumer.intern(KEY)
    rows = consumer.table(base)
    assert [row[1] for row in rows] == [CALL_ID, ALLOCATED_ID, 1, provider.POINTER_ID, key]
    assert consumer.find(base, ALLOCATED_ID) == (1, ALLOCATED_ID, 7, 111)
    pointer = provider.POINTER_ID
    assert consumer.find(base, pointer) == (3, pointer, 0, pointer)
    assert consumer.find_key(base, KEY) == (4, key, 0, 444)
    assert consumer.find_key(base, b"key") is None
    assert nc.customslots(base)[4] == nc.Slot(KEY, 0, 444)
    assert nc.customslots(provider.Base) == nc.customslots(base)
    assert type(provider.Base) is nc.extensibletype


def test_a_providers_own_call_table(consumer, provider):
    base = provider.Base()
    for by_slot in (False, True):
        assert consumer.entry(base, "d:d", 0, by_slot) == (0, provider.HALF)
    assert consumer.total(base, 1.0, 3) == (3.0, "native")
    base.replace()
    assert consumer.entry(base, "d:d") == (0, provider.THIRD)
    assert consumer.total(base, 1.0, 2) == (1.0, "native")
    assert consumer.entry(provider.Base(), "d:d") == (0, provider.HALF)


def test_packed_lookups_find_what_has_a_call_table_only(consumer, provider):
    """No packed table is required of a provider: without one, the call table is read."""

    def found(signature, refuse=0, base=None):
        return consumer.packed(base, packed_bytes(signature), refuse)

    class Sub(provider.Base):
        pass

    class Overrides(provider.Base):
        def __call__(self, x):
            return x

    long = "v:T{d(2,3)i}X{i:P}[2]dddd"
    assert len(packed.pack("d:ddddddddddddd")) == len(packed.pack(long)) == 3
    for cls in (provider.Base, provider.Derived, Sub):
        base = cls()
        assert found("d:d", base=base) == provider.HALF
        for other in ("f:f", "d:dd", "d:", "v:d", "d:&d", "d:ddddddddddddd", long, "?:?"):
            assert found(other, base=base) is None, other
        base.add("d:dd", consumer.NEEDS_GIL, 16)
        base.add("d:ddddddddddddd", 0, 32)  # the 0 at the end has two words of its own
        base.add(long, 0x11, 48)
        base.add("d:dd", 0, 64)
        base.add("?:?", 0x01000000 >> 1, 80)  # a flag of later versions, which does not matter
        assert found("d:dd", base=base) == 16
        assert found("d:dd", consumer.NEEDS_GIL, base) == 64
        assert found("d:ddddddddddddd", base=base) == 32
        assert found(long, base=base) == 48
        assert found(long, 0x70, base) is None
        assert found("?:?", 0xFF, base) == 80
        # The beginning, and more, of what is there.
        for other in ("d:dddddddddddd", "d:dddddddddddddd", long + "d", long[:-1], "d:ddd"):
            assert found(other, base=base) is None, other
        base.replace()
        assert found("d:d", base=base) == provider.THIRD
    assert found("d:d", base=Overrides()) is None


@pytest.mark.parametrize(
    "words",
    [
        (0,),
        (0x0011000000000000,),  # no start
        (0x8011000000000001,),  # something behind the end
        (0x8011000000000000, 0x4000000000000000, 0x4000000000000000),  # words too many
        (0x8011111111111111, 0x4000000000000000, 0),  # no continuation
        (0x8011111111111111, 0x4000000000000000, 0x4000000000000001),
        (0x8011111111111111, 0x4000000000000000),
        (0x8011111111111111,),  # no end
        (0x801111111111111C,),
    ],
)
def test_words_that_are_no_signature_find_nothing(consumer, provider, lib, words):
    base = provider.Base()
    base.add("d:ddddddddddddd", 0, 32)
    base.add("d:ddddddddddddI", 0, 48)
    data = b"".join(word.to_bytes(8, sys.byteorder) for word in words)
    assert consumer.packed(base, data) is None


def packed_bytes(signature):
    """The packed words of a signature as C has them in memory."""
    return b"".join(word.to_bytes(8, sys.byteorder) for word in packed.pack(signature))


def test_both_tables_from_one_registration(consumer, provider, fails):
    """nativetable.h: what is found by interned and by packed signature is the same."""
    both = provider.Both()
    texts = ["d:d", "d:ddddddddddddd", "q:qq", "f:f", "v:"]
    flags = [0, consumer.NEEDS_GIL, 0x800100, 0x15, 0]  # bits 8 and 23 are ignored

    def check(count, functions):
        for i, text in enumerate(texts):
            expected = (flags[i], functions[i]) if i < count else None
            for by_slot in (False, True):
                assert consumer.entry(both, text, 0, by_slot) == expected
            address = functions[i] if i < count else None
            assert consumer.packed(both, packed_bytes(text)) == address
            if flags[i] & 0xFF:
                assert consumer.packed(both, packed_bytes(text), 0xFF) is None
                assert consumer.entry(both, text, 0xFF) is None

    functions = [16 * (i + 1) for i in range(len(texts))]
    check(0, functions)
    for i, text in enumerate(texts):
        # Any spelling; what cannot be leaves both tables alone.
        both.add(" ".join(text), flags[i], functions[i])
        check(i + 1, functions)
        with fails(ValueError, "signature 'd:d!': malformed input at offset 3"):
            both.add("d:d!", 0, 16)
        message = re.compile("signature 'v:d' cannot have an entry with function .* and flags .*")
        for bad in ((1 << 24, 16), (0x80, 16), (0, 0)):
            with pytest.raises(ValueError, match=message):
                both.add("v:d", *bad)
        with pytest.raises(ValueError, match=message.pattern.replace("v:d", "v:&O")):
            both.add("v:&O", 0, 16)  # objects need the GIL
        check(i + 1, functions)
    for i in range(len(texts)):
        functions[i] += 1600
        both.replace(i, functions[i])
        check(len(texts), functions)
    with pytest.raises(IndexError):
        both.replace(len(texts), 16)
    check(len(texts), functions)


@pytest.mark.parametrize("by_slot", [False, True])
def test_a_null_signature_is_not_found(consumer, provider, lib, by_slot):
    """nc_interned_find gives NULL for what nobody interned: it may be looked up as it is."""
    square = lib.function("square", "d:d")
    empty = nc.NativeCallable.__new__(nc.NativeCallable)
    for obj in (provider.Both(), provider.Base(), empty, square, square.builtin, len, 1, nc.wrap):
        assert consumer.entry(obj, None, 0, by_slot) is None


CALL_OVERRIDDEN_MEANWHILE = """
import sys, threading
sys.path.insert(0, sys.argv[1])
import nc_provider, nc_consumer

class Called(nc_provider.Base):
    pass

called, counts, ended = Called(), [], threading.Event()

def look():
    while not ended.is_set():
        counts.append(nc_consumer.lookups(called, 1000, nc_provider.HALF, 0))

thread = threading.Thread(target=look)
thread.start()
while len(set(counts)) < 2 or len(counts) < 50:
    Called.__call__ = lambda self, x: x
    del Called.__call__
ended.set()
thread.join()
"""


def test_a_call_is_overridden_while_threads_look(builder, include, tmp_path, monkeypatch):
    """The thread sanitizer sees no race between a lookup without the GIL and a change of the class.

    The first module, which brings the metaclass, and the one that looks are instrumented.
    """
    if sys.platform != "linux":
        pytest.skip("needs a sanitizer's library that can be loaded before Python")
    command = [*build.compiler(), "-print-file-name=libtsan.so"]
    library = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def run(*arguments):
        environment = {**os.environ, "LD_PRELOAD": library, "TSAN_OPTIONS": "exitcode=66"}
        command = [sys.executable, "-c", *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=120, check=False
        )

    if not Path(library).is_absolute() or run("pass").returncode != 0:
        pytest.skip("no thread sanitizer with this C compiler and this Python")
    monkeypatch.setenv("NATIVECALL_TEST_CFLAGS", "-g -fsanitize=thread")
    for name in ("provider", "consumer"):
        path = builder.extension(
            f"{name}.c", f"nc_{name}", include=include, directory="thread_sanitizer"
        )
    done = run(CALL_OVERRIDDEN_MEANWHILE, path.parent)
    assert (done.returncode, done.stderr) == (0, "")


IMPORTED_AT_ONCE = """
import importlib, sys, threading
sys.path.insert(0, sys.argv[1])
names = ["nc_provider", "nativecall"]
gate, made = threading.Barrier(len(names)), {}

def load(name):
    gate.wait()
    made[name] = importlib.import_module(name)

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=load, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
provider, package = [made[name] for name in names]
assert package.extensibletype is provider.METATYPE is type(provider.Base)
assert isinstance(package.NativeObject, provider.METATYPE)
"""


def test_modules_that_are_imported_at_once_share_a_runtime(builder, include, python):
    """Each brings a copy of the metaclass; the first one that is published counts."""
    path = builder.extension("provider.c", "nc_provider", include=include)
    for _ in range(3):
        python(IMPORTED_AT_ONCE, path.parent)


def test_a_static_subclass_overrides_and_adds(consumer, provider):
    derived = provider.Derived()
    key = consumer.intern(KEY)
    assert [row[1:] for row in consumer.table(derived)] == [
        (CALL_ID, 0, consumer.find(provider.Base(), CALL_ID)[3]),
        (ALLOCATED_ID, 0, 112),
        (1, 0, 0),
        (provider.POINTER_ID, 0, provider.POINTER_ID),
        (key, 0, 444),
        (OWN_ID, 0, 777),
    ]
    assert provider.rows() == [row[1::2] for row in consumer.table(derived)]
    assert consumer.find(provider.Base(), ALLOCATED_ID)[3] == 111, "the base is as it was"
    assert consumer.total(derived, 2.0, 1) == (1.0, "native")
    provider.ready_again()
    assert len(consumer.table(derived)) == 6


def test_a_table_too_small_for_what_is_inherited(provider, consumer, fails):
    # Base has 5 rows.
    for rows in (1, 4):
        with fails(
            ValueError,
            "type 'nc_provider.Made' has 6 slots, including inherited ones, but its slot table has "
            f"room for {rows}",
        ):
            provider.derive(provider.Base, rows, (OWN_ID,))
    made = provider.derive(provider.Base, 6, (OWN_ID,))
    assert consumer.find(made(), OWN_ID) == (5, OWN_ID, 0, 1000)
    assert consumer.find(made(), ALLOCATED_ID) == (1, ALLOCATED_ID, 7, 111)


def test_static_types_refuse_duplicates(provider, fails):
    message = f"duplicate slot key {OWN_ID:#x} in the slots of type 'nc_provider.Made'"
    with fails(ValueError, message):
        provider.derive(provider.Base, 8, (OWN_ID, OWN_ID))


def test_a_python_class_is_no_base_of_a_static_type(provider, consumer, fails):
    """CPython's own rule: what is static cannot depend on what may go away."""

    class Python(metaclass=nc.extensibletype):
        __customslots__ = {"a": 1, OWN_ID: (3, 4)}

    with fails(
        TypeError,
        "type 'nc_provider.Made' is not dynamically allocated but its base type 'Python' is "
        "dynamically allocated",
    ):
        provider.derive(Python, 4, (ALLOCATED_ID,))
    assert consumer.find(Python(), OWN_ID) == (1, OWN_ID, 3, 4)


# -- other ways to build -------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["consumer.c", "provider.c"])
def test_the_headers_compile_as_cpp(builder, include, source):
    if build.compiler("c++") is None:
        pytest.skip("no C++ compiler")
    name = f"cpp_{source[:-2]}"
    module = build.load_extension(builder.extension(source, name, include=include, language="c++"))
    if source == "consumer.c":
        square = nc.wrap(nc.load("m").address("fabs"), "d:d")
        assert module.total(square, -1.0, 1) == (1.0, "native")
    else:
        assert module.METATYPE is nc.extensibletype
        assert len(nc.customslots(module.Derived)) == 6


def test_python_h_comes_before_headers_of_c(include, tmp_path):
    """Python.h defines macros that the headers of C read."""
    for path in sorted((include / "nativecall").glob("*.h")):
        alone = tmp_path / f"{path.stem}.c"
        alone.write_text(f'#include "nativecall/{path.name}"\n')
        command = [*build.compiler(), "-M", f"-I{include}", f"-I{sysconfig.get_path('include')}"]
        done = subprocess.run([*command, alone], capture_output=True, text=True, check=True)
        read = [Path(name) for name in done.stdout.replace("\\\n", " ").split()]
        ours = [place for place, one in enumerate(read) if include in one.parents]
        others = [one.name for one in read[ours[0] :] if include not in one.parents]
        assert others[0] == "Python.h" or "Python.h" not in others, path.name


SETUP = """
from setuptools import Extension, setup
import nativecall
setup(
    name="uses-nativecall", version="1",
    ext_modules=[Extension(
        "by_setuptools", ["consumer.c"], define_macros=[("MODULE", "by_setuptools")],
        include_dirs=[nativecall.get_include()],
    )],
)
"""


def test_a_project_built_with_setuptools(tmp_path, consumer):
    (tmp_path / "setup.py").write_text(SETUP)
    for name in ("consumer.c", "module.h"):
        shutil.copy(build.EXT / name, tmp_path)
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("by_setuptools*")
    module = build.load_extension(path)
    fabs = nc.wrap(nc.load("m").address("fabs"), "d:d")
    assert module.total(fabs, -2.0, 2) == (3.0, "native")
    assert module.intern(b"k") == consumer.intern(b"k")


# -- several copies in one process ---------------------------------------------------------------


@pytest.fixture(scope="session")
def copies(builder, vendored) -> Path:
    """A directory of modules with bundled copies: two consumers, two providers."""
    for name in ("consumer_a", "consumer_b"):
        path = builder.extension("consumer.c", name, include=vendored, directory="copies")
    for name in ("provider_a", "provider_b"):
        path = builder.extension("provider.c", name, include=vendored, directory="copies")
    return path.parent


AGREE = """
import sys
sys.path.insert(0, sys.argv[1])
order = sys.argv[2].split()
providers = [name for name in order if not name.startswith("consumer")]
modules = {name: __import__(name) for name in order}
import _extensibletype
metatypes = {m.METATYPE if hasattr(m, "METATYPE") else m.metatype()
             for name, m in modules.items() if name != "nativecall"}
if "nativecall" in modules:
    metatypes.add(modules["nativecall"].extensibletype)
assert metatypes == {_extensibletype.extensibletype_v1}, metatypes
a, b = modules["consumer_a"], modules["consumer_b"]
assert a.runtime_provider() == b.runtime_provider() == providers[0], a.runtime_provider()
assert a.intern(b"some key") == b.intern(b"some key")
for provider in ("provider_a", "provider_b"):
    for kind in ("Base", "Derived"):
        one = getattr(modules[provider], kind)()
        assert a.table(one) == b.table(one) and len(a.table(one)) in (5, 6)
        assert a.total(one, 2.0, 1) == b.total(one, 2.0, 1) == (1.0, "native")
# A static type of one copy is the base of one of the other.
made = modules["provider_b"].derive(modules["provider_a"].Derived, 7, (0x0700000B,))
assert a.find(made(), 0x0700000B) == b.find(made(), 0x0700000B) == (6, 0x0700000B, 0, 1000)
assert a.total(made(), 2.0, 1) == (1.0, "native")
if "nativecall" in modules:
    nc = modules["nativecall"]
    f = nc.load("m").function("fabs", "d:d")
    assert a.total(f, -2.0, 2) == b.total(f.builtin, -2.0, 2) == (3.0, "native")
    assert a.integrate(f, -2.0, 2, 0) == b.integrate(f.builtin, -2.0, 2, 0) == (3.0, True, 0)
    assert len(nc.customslots(made)) == 7
    class Both(modules["provider_a"].Base, metaclass=nc.extensibletype):
        __customslots__ = {"mine": 1}
    assert a.find_key(Both(), b"mine") == b.find_key(Both(), b"mine") is not None
print("agreed")
"""
ORDERS = [
    "consumer_a consumer_b provider_a provider_b",
    "provider_b consumer_b consumer_a provider_a",
    "nativecall consumer_a provider_a consumer_b provider_b",
    "consumer_b nativecall provider_b consumer_a provider_a",
    "provider_a provider_b consumer_b consumer_a nativecall",
]


@pytest.mark.parametrize("order", ORDERS)
def test_bundled_copies_agree_in_any_order(python, copies, order):
    assert python(AGREE, copies, order) == "agreed\n"


# -- versions ------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def future(builder, include, tmp_path_factory) -> Path:
    """A module built against headers of the next ABI version."""
    copy = tmp_path_factory.mktemp("future")
    shutil.copytree(include / "nativecall", copy / "nativecall")
    base = copy / "nativecall" / "nativecall_abi.h"  # and, wrongly, under version 1's name
    text = base.read_text()
    base.write_text(re.sub(r"#define NC_ABI_VERSION 1\b", "#define NC_ABI_VERSION 2", text))
    assert base.read_text() != text
    return builder.extension("provider.c", "future", include=copy, directory="versions").parent


REFUSED = """
import sys
sys.path[:0] = sys.argv[1:3]
first, second = sys.argv[3:]
one = __import__(first)
for _ in range(2):
    try:
        __import__(second)
    except ImportError as error:
        print(type(error).__name__, error)
if first == "nativecall":
    print(one.load("m").function("fabs", "d:d")(-1))
else:
    import consumer_a
    row = consumer_a.entry(one.Base(), "d:d")
    # Whoever only looks refuses no import; of another ABI it finds nothing.
    assert (row is None) == (first == "future")
    print(consumer_a.table(None))
"""


@pytest.mark.parametrize(
    ("first", "second", "versions", "exception"),
    [
        ("nativecall", "future", (1, 2), "ImportError"),
        ("future", "nativecall", (2, 1), "AbiError"),
        ("future", "provider_a", (2, 1), "ImportError"),
        ("provider_a", "future", (1, 2), "ImportError"),
    ],
)
def test_incompatible_copies_are_refused(
    python, future, copies, first, second, versions, exception
):
    lines = python(REFUSED, future, copies, first, second).splitlines()
    have, want = versions
    pattern = (
        rf"{exception} {second} was built for extensibletype ABI {want} \(sizes [0-9/]+\), "
        rf"but {first}, which was imported first, provides ABI {have} \(sizes [0-9/]+\); "
        "rebuild the older of the two"
    )
    assert len(lines) == 3
    for line in lines[:2]:
        assert re.fullmatch(pattern, line), line
    assert lines[2] in ("1.0", "None"), "who came first works on"


FOREIGN = """
import sys, types
sys.path.insert(0, sys.argv[1])
sys.modules["_extensibletype"] = types.SimpleNamespace()
import consumer_a
print(consumer_a.table(None))
for name in ("nativecall", "provider_a"):
    try:
        __import__(name)
    except ImportError as error:
        print(error)
del sys.modules["_extensibletype"]
import provider_a
print(consumer_a.entry(provider_a.Base(), "d:d")[0])
"""


def test_a_foreign_object_by_that_name(python, copies):
    lines = python(FOREIGN, copies).splitlines()
    assert lines[0] == "None", "who only looks finds nothing, and refuses nothing"
    for line, name in zip(lines[1:3], ("nativecall", "provider_a"), strict=True):
        assert line == (
            "sys.modules['_extensibletype'] is namespace(), which is not an "
            f"extensibletype runtime that {name} (ABI 1) can use: it has no capsule 'runtime_v1'"
        )
    assert lines[3] == "0"


GETATTR = """
import sys, types
sys.path.insert(0, sys.argv[1])
module = sys.modules["_extensibletype"] = types.ModuleType("_extensibletype")
def getattr(name):
    if name == "runtime_v1":
        return 5
    raise AttributeError(name)
module.__getattr__ = getattr
for name in ("nativecall", "provider_a"):
    __import__(name)
print(sys.modules["nativecall"].extensibletype is vars(module)["extensibletype_v1"])
"""


def test_a_runtime_is_looked_for_in_the_dictionary(python, copies):
    assert python(GETATTR, copies).splitlines() == ["True"]


STRANGE = """
import sys
sys.path.insert(0, sys.argv[1])
class Lines:
    def __repr__(self):
        return "two\\nlines"
class Raises:
    def __repr__(self):
        raise LookupError("my own error")
for thing in (Lines(), Raises(), 5):
    sys.modules["_extensibletype"] = thing
    for name in ("nativecall", "provider_a"):
        try:
            __import__(name)
        except ImportError as error:
            print(error)
"""


def test_a_refusal_is_one_line_whatever_is_there(python, copies):
    what = ["an object of type 'Lines'", "an object of type 'Raises'", "5"]
    assert python(STRANGE, copies).splitlines() == [
        f"sys.modules['_extensibletype'] is {one}, which is not an extensibletype runtime that "
        f"{name} (ABI 1) can use: it has no capsule 'runtime_v1'"
        for one in what
        for name in ("nativecall", "provider_a")
    ]


# -- bad input -----------------------------------------------------------------------------------


BY_INTERNED = ("offset", "slot", "function", "function_by_slot", "next")
BY_PACKED = ("words",)
NEWER = [1 << bit for bit in (7, *range(24, min(63, sys.maxsize.bit_length())))]


def found(consumer, obj, way, signature="d:d", refuse=0):
    """The address that one of the ways finds, or None."""
    entry = consumer.look(obj, way, signature, refuse)
    return None if entry is None else entry[1]


def test_entries_of_a_newer_abi_are_not_listed_and_not_called_back(bad, consumer, lib):
    square = lib.address("square")
    for flags in NEWER:
        obj = bad.raw([("f:f", flags, 8), ("d:d", flags, 8)], [], 2)
        assert consumer.entries(obj) == []
        assert consumer.integrate(obj, 1.0, 3, 0) == (-3.0, False, 0), "through Python"
        obj = bad.raw([("d:d", flags, 8), ("d:d", 0, square)], [], 2)
        assert consumer.entries(obj) == [("d:d", 0, square)]
        assert consumer.integrate(obj, 1.0, 3, 0) == (14.0, True, 0)


def test_entries_of_a_newer_abi_in_tier_2(bad, consumer, lib):
    square = lib.address("square")
    for flags in NEWER:
        members = {"__nativecall_api__": bad.api([("d:d", flags, 8)]), "__call__": lambda s, x: 2.0}
        obj = type("Offers", (), members)()
        assert consumer.look(obj, "api", "d:d", 0) is None
        assert consumer.integrate(obj, 1.0, 3, 0) == (6.0, False, 0)
    type(obj).__nativecall_api__ = bad.api([("d:d", 0, square)])
    assert consumer.integrate(obj, 1.0, 3, 0) == (14.0, True, 0)


def test_null_in_entries_of_tier_2(bad, consumer):
    api = bad.api([(None, 0, 8), ("d:d", 0, 0), ("q:q", 0, 8)])
    obj = type("Offers", (), {"__nativecall_api__": api, "__call__": lambda self, x: 2.0})()
    assert consumer.look(obj, "api", "d:d", 0) is None
    assert consumer.integrate(obj, 1.0, 3, 0) == (6.0, False, 0), "through Python"


def test_words_that_are_no_packed_signature_are_passed_over(bad, consumer, lib):
    """Symbols that have no meaning yet, flags, and more words than any signature known here."""
    square = lib.address("square")
    (known,) = packed.pack("d:d")
    start, continuation = 1 << 63, 0b0100 << 60
    unknown = [
        [start | 0xFF << 48],
        [start | 0xDD_EE_FF_FF_FF_FF_FF >> 4],
        [known | 1],
        [known ^ 1 << 48, continuation | 0xF << 56, continuation | 1],
        [start | 0x11 << 48 | (1 << 48) - 1, continuation, continuation],
    ]
    for words in unknown:
        entry = [*words, 8]
        for way in BY_PACKED:
            assert found(consumer, bad.raw([], entry, 0), way) is None
            assert found(consumer, bad.raw([], [*entry, known, square], 0), way) == square
            assert found(consumer, bad.raw([], [*entry, *entry, known, square], 0), way) == square
            assert found(consumer, bad.raw([], [*entry, known, square], 0), way, "q:q") is None


@pytest.mark.parametrize("count", [0, 1, -1, sys.maxsize, -sys.maxsize - 1])
def test_a_call_table_with_a_corrupt_count(bad, consumer, lib, count):
    """Readers go by the entries, which the first without a signature ends."""
    square, other = lib.address("square"), lib.address("same_f32")
    obj = bad.raw([("f:f", 0, other), ("d:d", 0, square)], [], count)
    for way in BY_INTERNED:
        assert found(consumer, obj, way) == square
        assert found(consumer, obj, way, "f:f") == other
        assert found(consumer, obj, way, "q:q") is None
    assert consumer.entries(obj) == [("f:f", 0, other), ("d:d", 0, square)]
    assert consumer.integrate(obj, 1.0, 3, 0) == (14.0, True, 0)


@pytest.mark.parametrize("count", [0, 1, 2, 2**31, 2**32 - 1])
def test_a_slot_table_with_a_corrupt_count(bad, consumer, lib, count):
    """The count is a bound for expected positions; the hash does not need it."""
    square = lib.address("square")
    (known,) = packed.pack("d:d")
    obj = bad.raw([("d:d", 0, square)], [known, square], 1)
    before = bad.set_count(obj, count)
    try:
        for way in (*BY_INTERNED, *BY_PACKED):
            assert found(consumer, obj, way) == square
        for position in range(2):
            assert consumer.find(obj, CALL_ID, position)[0] == 0
            assert consumer.find(obj, OWN_ID, position) is None
    finally:
        assert bad.set_count(obj, before) == count
    assert before == 2


def test_a_static_type_without_the_array_that_it_promises(bad, fails):
    for rows in (1, 8, sys.maxsize):
        with fails(
            ValueError,
            f"type 'Arrayless' has no slot table (NULL), but declares {rows} rows",
        ):
            bad.ready(rows)
    for rows in (-1, -sys.maxsize - 1):
        with fails(ValueError, f"type 'Arrayless' cannot have a slot table of {rows} rows"):
            bad.ready(rows)


class Looks:
    """A member whose __set_name__ gives the class, half made, to a function."""

    def __init__(self, look):
        self.look = look

    def __set_name__(self, owner, name):
        self.look(owner)


def test_lookups_in_a_class_that_is_being_made(consumer, lib):
    """Before the metaclass has finished, its objects have no slots and no entries; then they do."""
    square = lib.function("square", "d:d")
    made = []

    def look(cls):
        # A callable made now is called through Python.
        obj = cls(square)
        made.append(obj)
        for way in (*BY_INTERNED, *BY_PACKED):
            assert found(consumer, obj, way) is None
        assert consumer.entries(obj) == []
        assert consumer.table(obj) == []
        assert consumer.find(obj, CALL_ID) is None
        assert consumer.find_key(obj, b"key") is None
        assert consumer.table(cls) is None
        assert consumer.integrate(obj, 1.0, 3, 0) == (14.0, False, 0)

    class Base(nc.NativeCallable):
        def __init_subclass__(cls):
            look(cls)

    class Made(Base):
        __customslots__ = {"key": 5}
        member = Looks(look)

    assert len(made) == 2
    for obj in made:
        assert type(obj) is Made
        for way in (*BY_INTERNED, *BY_PACKED):
            assert found(consumer, obj, way) == square.address()
        assert consumer.find_key(obj, b"key")[3] == 5
        assert consumer.integrate(obj, 1.0, 3, 0) == (14.0, True, 0)


def test_a_class_whose_making_fails_after_a_lookup(consumer, lib):
    square = lib.function("square", "d:d")
    made = []

    def look(cls):
        made.append(cls(square))
        assert found(consumer, made[0], "offset") is None
        raise LookupError("in the hook")

    # Until Python 3.12 the exception of __set_name__ is the cause of another.
    with pytest.raises((LookupError, RuntimeError)) as info:
        type("Failed", (nc.NativeCallable,), {"member": Looks(look)})
    assert "in the hook" in (str(info.value), str(info.value.__cause__))
    for way in (*BY_INTERNED, *BY_PACKED):
        assert found(consumer, made[0], way) is None
    assert made[0](3.0) == 9.0


def test_tier_2_in_a_class_that_is_being_made(bad, consumer, lib):
    """The attribute counts as soon as it is there, and its removal as well."""
    square = lib.address("square")
    seen = []

    def look(cls):
        seen.append(found(consumer, cls(), "api"))

    class Made:
        __nativecall_api__ = bad.api([("d:d", 0, square)])
        member = Looks(look)

        def __call__(self, x):
            return 2.0

        def __init_subclass__(cls):
            look(cls)

    class Sub(Made):
        def __call__(self, x):
            return 3.0

    assert seen == [square, None]
    assert consumer.integrate(Made(), 1.0, 3, 0) == (14.0, True, 0)
    assert consumer.integrate(Sub(), 1.0, 3, 0) == (9.0, False, 0)
    Made.__nativecall_api__ = None
    assert consumer.integrate(Made(), 1.0, 3, 0) == (6.0, False, 0)
