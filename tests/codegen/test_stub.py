"""csrc/platform/stub.c: pointers that share code and each have their own data, those of thunks."""

from __future__ import annotations

import ctypes
import gc
import random
import subprocess
import sys
import textwrap

import pytest

import nativecall as nc
from nativecall import _ext
from nativecall._codegen import engine
from nativecall._values import callinterface
from support.modes import generated

LINE = """
define double @line(double %a, double %b, double %x) nounwind {
  %product = fmul double %x, %a
  %sum = fadd double %product, %b
  ret double %sum
}
"""

pytestmark = generated


@pytest.fixture(scope="module")
def line() -> nc.NativeCallable:
    code = engine.compile("test of stubs", lambda: LINE, "line")
    return nc.wrap(code.address, "d:ddd", owner=code)


def call(stub: nc.NativeCallable, x: float) -> float:
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(stub.address())(x)


def test_each_has_data_of_its_own(line):
    stubs = [line.bind(a, -a) for a in range(2000)]
    assert len({stub.address() for stub in stubs}) == 2000
    assert [call(stub, 3.0) for stub in stubs] == [2.0 * a for a in range(2000)]


def test_data_is_aligned_as_any_type_asks_for(line):
    """It lies in the object, at an offset that is chosen as if that were so aligned."""
    for count in range(1, 4):
        kept = [line.bind(*range(count)) for _ in range(50)]
        assert {id(one.entries[0].owner) % 16 for one in kept} == {0}


def test_stubs_come_and_go_in_any_order(line):
    chosen = random.Random(20261121)
    living: dict[int, nc.NativeCallable] = {}
    for number in range(20_000):
        if living and chosen.random() < 0.5:
            del living[chosen.choice(list(living))]
        else:
            living[number] = line.bind(number, 1.0)
    assert all(call(stub, 2.0) == 2.0 * number + 1 for number, stub in living.items())


def test_the_function_lives_as_long_as_the_stub(line):
    kept = line.bind(1.0)
    assert kept.entries[0].owner.function is line
    before = sys.getrefcount(line)
    more = [line.bind(1.0) for _ in range(10)]
    assert sys.getrefcount(line) == before + 10
    del more
    gc.collect()
    assert sys.getrefcount(line) == before


def test_wrong_arguments(line):
    cif = callinterface.of_text("d:d")
    header = _ext.code_layout()["thunk_values"]
    good = (cif, None, cif, 0, 0, header + 8, ((0, header),), object(), (0, None), True)
    _ext.ThunkSpec(*good)
    for place, wrong, error, message in (
        (0, "d:d", TypeError, "must be nativecall._ext.CallInterface"),
        (1, "d:d", TypeError, "takes a call interface or None"),
        (5, header - 1, TypeError, "the size of a Thunk"),
        (5, sys.maxsize, TypeError, "the size of a Thunk"),
        (6, ((1, header),), ValueError, "a place must be that of an argument"),
        (6, ((-1, header),), ValueError, "a place must be that of an argument"),
        (6, ((0, header - 1),), ValueError, "lie within the Thunk"),
        (6, ((0, header + 1),), ValueError, "lie within the Thunk"),
        (8, 4096, TypeError, "code as"),
    ):
        with pytest.raises(error, match=message):
            _ext.ThunkSpec(*good[:place], wrong, *good[place + 1 :])


@pytest.mark.skipif(sys.platform == "win32", reason="checks a signal")
def test_a_call_after_the_end_says_so(tmp_path):
    script = """
        import ctypes
        import nativecall as nc
        power = nc.load("m", "double pow(double, double);").pow
        stubs = [power.bind(0.0) for _ in range(2)]
        function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(stubs[0].address())
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
    assert "called after its Python object was freed: 'pow'; keep it alive, and pass" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="checks a signal")
@pytest.mark.parametrize("name", ["once", "naïve"])
def test_a_passed_function_that_c_keeps_is_named(tmp_path, builder, name):
    source = (
        "double (*f)(double); void keep(double (*g)(double)) { f = g; }"
        "double use(void) { return f(1); }"
    )
    declared = "void keep(double (*)(double)); double use(void);"
    script = f"""
        import nativecall as nc
        lib = nc.load({str(builder.library(source, "keeper"))!r}, {declared!r})
        def {name}(x):
            return x
        lib.keep({name})
        lib.use()
    """
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", textwrap.dedent(script)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode < 0
    assert f"freed: '{name}', which was passed to 'keep' for that call only" in done.stderr
