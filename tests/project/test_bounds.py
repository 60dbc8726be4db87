"""Every cache of the process has a bound, which docs/decisions.md says, and a test sees it reached.

What is dropped there is made again when it is asked for, and what is in use lives on.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import pkgutil
import re
import sys
import weakref
from contextlib import suppress
from pathlib import Path

import pytest

import nativecall as nc
from nativecall import _locate
from nativecall._callable import hooks
from nativecall._fifo import Cache, Fifo
from nativecall._values import callinterface
from nativecall._values import text as reading

ROOT = Path(__file__).resolve().parents[2]
#: What the document's rows begin with, and the test that sees the bound reached; "" for what is
#: bounded by what there is. Here where no file is named.
SEEN = {
    "interned keys": "",
    "signatures by their text": "cdecl/test_spelling.py::test_parse_remembers_texts",
    "call interfaces by the text": "test_call_interfaces_by_their_texts",
    "entries of a callable": "callable/test_overloads.py::test_remembered_choices_are_the_rules",
    "C types": "types/test_ctype.py::test_interning_forgets_but_equality_stays",
    "call interfaces; those": "values/test_scalars.py::test_call_interfaces_are_kept_up_to_a_bound "
    "values/test_scalars.py::test_plans_of_single_types_are_kept_up_to_a_bound "
    "test_call_interfaces_of_declarations",
    "layouts of structs": "values/test_scalars.py::test_layouts_are_kept_up_to_a_bound",
    "whether a buffer's": "types/test_bufferformat.py::test_answers_are_kept_up_to_a_bound",
    "how arrays over": "test_arrays_over_memory",
    "what callbacks of": "callback/test_life.py::"
    "test_what_callbacks_of_a_signature_share_is_kept_up_to_a_bound "
    "callback/test_life.py::test_what_is_known_of_texts_is_kept_up_to_a_bound",
    "cffi's types of C": "cdecl/test_declarations.py::test_types_of_cffi_that_come_and_go",
    "types of cffi pointers": "test_types_of_cffi_pointers",
    "what a thread found": "callable/test_threads.py::test_threads_leave_nothing",
    "types of cffi pointers and arrays that text": "test_types_that_text_is_read_from",
    "prototypes for ctypes": "bridges/test_ctypestype.py::test_prototypes_are_kept_up_to_a_bound",
    "what thunks of": "callable/test_known_thunks.py::test_specs_are_kept_up_to_a_bound",
    "call interfaces of thunks": "callable/test_known_thunks.py::"
    "test_checked_specs_are_kept_up_to_a_bound",
    "what loops of ufuncs": "ufunc/test_loops.py::test_what_is_shared_is_kept_up_to_a_bound",
    "thunks that ended": "test_thunks_that_ended",
    "call interfaces of a variadic": "test_calls_of_a_variadic_function",
    "object files": "codegen/test_cache.py::test_memory_is_bounded_and_keeps_what_is_used "
    "codegen/test_cache.py::test_the_bound_and_the_order_of_use "
    "codegen/test_cache.py::test_the_bound_holds_while_one_process_writes",
    "what LLVM keeps": "codegen/test_engine.py::test_a_linker_goes_with_its_last_code "
    "codegen/test_engine.py::test_memory_of_optimized_code_is_bounded",
    "signatures without an answer": "test_signatures_without_an_answer",
    "files of libraries": "test_files_of_libraries",
    "types of declarations": "library/test_types.py::test_types_are_kept_up_to_a_bound",
    "call interfaces of a library": "",
    "what pointer variables": "test_what_pointer_variables_point_to",
    "what .pxd files": "bridges/test_cython.py::test_what_was_read_is_kept_up_to_a_bound",
    "where capsules of Cython": (
        "bridges/test_cython.py::test_where_capsules_are_is_looked_up_once_for_all_modules"
    ),
    "types of native callables": "bridges/test_numba_calls.py::test_types_are_kept_up_to_a_bound",
    "classes of NumPy": "",
    "C function pointers": "callback/test_stubs.py::test_pointers_are_named_however_many_ended",
}
_runs = itertools.count()  # what an earlier run of a test made is known by its text


def rows() -> list[list[str]]:
    """What, where and bound of each row of the document's table."""
    text = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    section = text.partition("### 28.")[2].partition("\n##")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def address(name: str = "hypot") -> int:
    return nc.load("m").address(name)


# -- the document --------------------------------------------------------------------------------


def test_each_row_has_a_test():
    found = [row[0] for row in rows()]
    assert len(found) == len(SEEN)
    for what, start in zip(found, SEEN, strict=True):
        assert what.startswith(start)
    for name in " ".join(SEEN.values()).split():
        path, _, function = name.rpartition("::")
        file = ROOT / "tests" / path if path else Path(__file__)
        assert f"\ndef {function}(" in file.read_text(encoding="utf-8"), name


def test_each_cache_has_a_row():
    for module in pkgutil.walk_packages(nc.__path__, "nativecall."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # a bridge to what is not installed
                importlib.import_module(module.name)
    found = 0
    for name, module in [*sys.modules.items()]:
        if not name.startswith("nativecall."):
            continue
        file = name.removeprefix("nativecall.").replace(".", "/") + ".py"
        bounds = [row[2] for row in rows() if f"`{file}`" in row[1]]
        for cache in vars(module).values():
            if isinstance(cache, Cache | Fifo):
                found += 1
                assert any([re.search(rf"\b{cache.limit}\b", bound) for bound in bounds]), file
    assert found > 10


# -- caches that no other test is about ----------------------------------------------------------


def test_call_interfaces_by_their_texts():
    """A text's spec has one reference more as long as the text is known."""
    run = "hBqH" + f"{next(_runs):b}".replace("0", "d").replace("1", "f")
    text = f" d:{run}"
    f = nc.wrap(address(), text)
    cif = f._cif
    known = sys.getrefcount(cif)
    for n in range(2048):
        nc.wrap(address(), f"d:{run}{' ' * (n % 50 + 1)}d{' ' * (n // 50)}d")
    # The cache by types may have dropped it as well: others fill it, too.
    assert sys.getrefcount(cif) < known
    assert nc.wrap(address(), text).signatures == f.signatures == (f"d:{run}",)


def test_call_interfaces_of_declarations(monkeypatch):
    """A row says the types, and what else a call follows: both count."""
    monkeypatch.setattr(callinterface, "_made", Cache(8))
    rows = [
        (f"d:{'d' * n}", names, (False,) * n, (), (), "")
        for n in range(1, 20)
        for names in (("",) * n, tuple([f"x{one}" for one in range(n)]))
    ]
    for _ in range(2):
        for row in rows:
            assert callinterface.of_row(row) is callinterface.of_row(row)
            signature = callinterface.of_row(row).signature
            assert (signature.text, signature.names) == row[:2]
            assert 0 < len(callinterface._made) <= 8


def test_arrays_over_memory(monkeypatch):
    pytest.importorskip("numpy")
    from nativecall._library import memory

    monkeypatch.setattr(memory, "_arrays", Cache(8))
    lib = nc.load("m", "double cos(double);")
    for count in range(1, 30):
        assert lib.asarray(lib.new(f"double[2][{count}]")).shape == (2, count)
        assert 0 < len(memory._arrays) <= 8
    monkeypatch.setattr(memory, "_pointer_types", Cache(8))
    for count in range(1, 30):
        assert memory.pointer_to(lib.ffi.typeof(f"int[{count}]")).item.length == count
        assert 0 < len(memory._pointer_types) <= 8


def test_types_of_cffi_pointers():
    """A type that is taken has references; there are 64 places."""
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    least = 200 * next(_runs) + 1
    values = [ffi.new(f"double[{count}]", [0.25]) for count in range(least, least + 200)]
    kinds = [ffi.typeof(value) for value in values]
    modf = nc.wrap(address("modf"), "d:d&d")
    before = [sys.getrefcount(kind) for kind in kinds]
    for value in values:
        assert modf(2.5, value) == 0.5
    after = [sys.getrefcount(kind) for kind in kinds]
    assert 0 < sum(after) - sum(before) <= 64
    for value in values:
        assert modf(3.5, value) == 0.5
        assert value[0] == 3.0


def test_types_that_text_is_read_from(monkeypatch):
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    before = len(reading._texts)
    monkeypatch.setattr(reading, "_MOST_TEXTS", before + 3)
    least = 1000 + 8 * next(_runs)
    for _ in range(2):
        for size in range(least, least + 8):
            assert nc.string(ffi.new(f"char[{size}]", b"read")) == b"read"
    assert len(reading._KNOWN) < len(reading._texts) <= before + 3


def test_thunks_that_ended():
    """The memory of one keeps what it was made of; 256 others take its place."""
    f = nc.wrap(address(), "d:dd")
    hooks._thunk_specs.clear()
    f.bind(2.0)
    (spec,) = hooks._thunk_specs.values()
    for _ in range(1000):
        assert f.bind(3.0)(4.0) == 5.0
    assert sys.getrefcount(spec) < 256 + 10
    g = nc.wrap(address("atan2"), "d:dd")
    for _ in range(300):
        g.bind(..., 2.0)
    assert sys.getrefcount(spec) < 10
    assert f.bind(3.0)(4.0) == 5.0


def test_calls_of_a_variadic_function():
    snprintf = nc.load("c", "int snprintf(char *s, size_t n, const char *format, ...);").snprintf
    buffer = bytearray(64)
    snprintf(buffer, 64, b"%d", 1)
    ways = snprintf._cif.ways
    most = 0
    for count in range(1, 7):
        for kinds in itertools.product((0, 1), repeat=count):
            values = [0.5 if kind else 2 for kind in kinds]
            text = b" ".join([b"%.1f" if kind else b"%d" for kind in kinds])
            snprintf(buffer, 64, text, *values)
            expected = " ".join(["0.5" if kind else "2" for kind in kinds])
            assert buffer[: len(expected)] == expected.encode()
            most = max(most, len(ways))
    assert most == 64


def test_signatures_without_an_answer():
    f = nc.wrap(address(), "d:dd")
    asked = []
    f.specialize = lambda f, signature: asked.append(signature)
    texts = [f"d:{'d' * (n % 17)}{'f' * (n // 17)}f" for n in range(257)]
    assert len({*texts}) == 257
    for text in texts:
        for _ in range(2):
            with pytest.raises(nc.NoEntryError):
                f[text]
    assert asked == texts, "once each"
    assert len(f._specializer.missing) == 256
    with pytest.raises(nc.NoEntryError):
        f[texts[0]]
    assert asked == [*texts, texts[0]]


def test_files_of_libraries(monkeypatch):
    monkeypatch.setattr(_locate, "_located", Cache(1))
    for _ in range(2):
        for name, function in (("m", "cos"), ("c", "abs")):
            assert nc.load(name).address(function)
            assert len(_locate._located) <= 1


def test_what_pointer_variables_point_to(builder):
    path = builder.library("double *place; double *place;", "place")
    library = nc.load(path, "extern double *place;")

    class Memory(bytearray):
        """What can be referred to weakly."""

    made = []
    for _ in range(3):
        memory = Memory(8)
        made.append(weakref.ref(memory))
        library.place = memoryview(memory).cast("d")
        del memory
        gc.collect()
        assert [ref() is not None for ref in made] == [False] * (len(made) - 1) + [True]
    library.place = None
    gc.collect()
    assert made[-1]() is None
