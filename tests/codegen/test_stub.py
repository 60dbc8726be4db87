"""csrc/ground/stub.c: pointers that share code and each have data of their own."""

from __future__ import annotations

import ctypes
import gc
import random
import subprocess
import sys
import textwrap

import pytest

from nativecall import _lib
from nativecall._codegen import engine

types = _lib.types

# double f(double x) { return x * data[0] + data[1]; }, in terms of its slot.
LINE = """
define double @line(ptr nest %slot, double %x) nounwind {
  %at = getelementptr i8, ptr %slot, i64 8
  %data = load ptr, ptr %at
  %a = load double, ptr %data
  %second = getelementptr i8, ptr %data, i64 8
  %b = load double, ptr %second
  %product = fmul double %x, %a
  %sum = fadd double %product, %b
  ret double %sum
}
"""

pytestmark = pytest.mark.skipif(
    not engine.available() or bool(types.stubs_refused()),
    reason=f"no generated code: {engine.reason() or types.stubs_refused()}",
)


@pytest.fixture(scope="module")
def code() -> engine.Code:
    return engine.compile("test of stubs", lambda: LINE, {}, ("line",))


def line(code: engine.Code, a: float, b: float):
    stub = types.Stub(code.address("line"), 16, code)
    (ctypes.c_double * 2).from_address(stub.data)[:] = (a, b)
    return stub


def call(stub, x: float) -> float:
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(stub.address)(x)


def test_each_has_data_of_its_own(code):
    stubs = [line(code, a, -a) for a in range(2000)]
    assert len({stub.address for stub in stubs}) == 2000
    assert [call(stub, 3.0) for stub in stubs] == [2.0 * a for a in range(2000)]


def test_data_is_zero_and_aligned(code):
    for size in (0, 1, 8, 24, 1000):
        stub = types.Stub(code.address("line"), size, code)
        assert stub.data % 16 == 0
        assert bytes((ctypes.c_char * size).from_address(stub.data)) == bytes(size)


def test_stubs_come_and_go_in_any_order(code):
    chosen = random.Random(20261121)
    living: dict[int, object] = {}
    for number in range(20_000):
        if living and chosen.random() < 0.5:
            del living[chosen.choice(list(living))]
        else:
            living[number] = line(code, number, 1.0)
    assert all(call(stub, 2.0) == 2.0 * number + 1 for number, stub in living.items())


def test_the_code_lives_as_long_as_the_stub(code):
    kept = types.Stub(code.address("line"), 16, code)
    assert kept.keep is code
    before = sys.getrefcount(code)
    more = [types.Stub(code.address("line"), 16, code) for _ in range(10)]
    assert sys.getrefcount(code) == before + 10
    del more
    gc.collect()
    assert sys.getrefcount(code) == before


@pytest.mark.parametrize("arguments", [(0, 8, None), (4096, -1, None)])
def test_wrong_arguments(arguments):
    with pytest.raises(ValueError, match="address of code, a size"):
        types.Stub(*arguments)
    with pytest.raises(MemoryError):
        types.Stub(4096, sys.maxsize, None)
    with pytest.raises(TypeError, match="no keyword arguments"):
        types.Stub(4096, 8, keep=None)


@pytest.mark.skipif(sys.platform == "win32", reason="checks a signal")
def test_a_call_after_the_end_says_so(tmp_path):
    script = f"""
        import ctypes
        from nativecall import _lib
        from nativecall._codegen import engine
        code = engine.compile("test of stubs", lambda: {LINE!r}, {{}}, ("line",))
        stubs = [_lib.types.Stub(code.address("line"), 16, code) for _ in range(2)]
        function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(stubs[0].address)
        assert function(1.0) == 0.0
        del stubs[0]
        function(1.0)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode < 0
    assert "called after the object that it belonged to was gone" in done.stderr


def test_want_of_memory_for_the_first_page_is_no_refusal(python):
    """It does not last, as a system that refuses executable memory does."""
    code = """
        import resource, sys
        from nativecall import _lib
        mib = 1 << 20
        resource.setrlimit(resource.RLIMIT_AS, (mib, resource.RLIM_INFINITY))
        try:
            print(_lib.types.stubs_refused())
        except MemoryError:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
            print("MemoryError", repr(_lib.types.stubs_refused()))
    """
    assert python(textwrap.dedent(code)) == "MemoryError ''\n"
