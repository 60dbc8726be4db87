"""Generating, linking and freeing machine code: made once, mapped for as long as it is used."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nativecall import _cache
from nativecall import _singleflight as flights
from nativecall._cache import Cache
from nativecall._codegen import engine
from support.modes import assembly, generates

pytestmark = generates


def answer(number: int, attributes: str = "") -> str:
    """A module whose function `answer` returns a number.

    LLVM links it, for its variable; with attributes there is none, and the core loads it where it
    can.
    """
    if not attributes:
        return (
            f"@n = global i32 {number}\ndefine i32 @answer() nounwind {{\n"
            "  %m = load i32, ptr @n\n  ret i32 %m\n}\n"
        )
    return f"define i32 @answer() {attributes} {{\n  ret i32 {number}\n}}\n"


either = pytest.mark.parametrize("attributes", ["", "nounwind"], ids=["linked", "loaded"])


def call(code: engine.Code) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int)(code.address)()


def never() -> str:
    raise AssertionError("an object file is kept, so no module is needed")


@pytest.fixture(autouse=True)
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cache]:
    """An empty cache for each test."""
    made = Cache(str(tmp_path / "objects"))
    monkeypatch.setattr(_cache, "_shared", made)
    machine, _ = engine._start()
    if machine is not None:  # other tests had modules optimized, which are counted
        monkeypatch.setattr(machine, "_optimizations", itertools.count(1))
    yield made
    assert flights._flights == {}


def test_code_can_be_generated_here():
    assert engine.available()
    assert engine.reason() == ""


def test_compiling_and_calling():
    code = engine.compile("42", lambda: answer(42), "answer")
    assert call(code) == 42
    assert repr(code) == "<machine code '42'>"


def test_what_the_process_has():
    """Functions and variables of its libraries, wherever they are in the address space."""
    text = """
        @optind = external global i32
        declare i32 @abs(i32)
        define i32 @answer() {
          %n = load i32, ptr @optind
          %m = sub i32 %n, 9
          %r = call i32 @abs(i32 %m)
          ret i32 %r
        }
    """
    code = engine.compile("far", lambda: text, "answer")
    assert call(code) == abs(ctypes.c_int.in_dll(ctypes.CDLL(None), "optind").value - 9)


def test_the_same_code_for_all_who_have_it():
    code = engine.compile("same", lambda: answer(1), "answer")
    assert engine.compile("same", never, "answer") is code
    assert engine.compile("other", lambda: answer(2), "answer") is not code


def test_object_files_are_kept_in_memory_and_on_disk(objects):
    for _ in range(2):
        code = engine.compile("kept", lambda: answer(5), "answer")
        del code
    assert objects.usage().files == 1
    code = engine.compile("kept", never, "answer")
    del code
    objects.forget()
    assert call(engine.compile("kept", never, "answer")) == 5


def test_an_object_file_that_cannot_be_linked_is_replaced(objects):
    code = engine.compile("bad", lambda: answer(6), "answer")
    del code
    (digest,) = objects._memory
    for bad in (b"", b"no object file", objects.get(digest)[:-100]):
        objects.put(digest, bad)
        code = engine.compile("bad", lambda: answer(6), "answer")
        assert call(code) == 6
        del code
        assert objects.get(digest) != bad


def test_the_key_holds_machine_and_versions():
    machine, _ = engine._start()
    import llvmlite

    import nativecall

    for part in (
        machine.cpu,
        machine.features,
        llvmlite.__version__,
        nativecall.__version__,
        sys.implementation.cache_tag,
        os.path.join("_codegen", "engine.py"),
        os.path.join("_types", "ctype.py"),
        os.path.join("_plan", "rules.py"),
    ):
        assert repr(part)[1:-1] in machine.identity


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("define i32 @answer() {", "end of file"),
        (
            "define i32 @answer() {\na:\n  br label %b\nb:\n"
            "  %x = phi i32 [1, %b]\n  ret i32 %x\n}",
            "PHI node entries do not match predecessors",
        ),
        ("define i32 @question() {\n  ret i32 1\n}", "Symbols not found: [ answer ]"),
        (
            "declare i32 @nowhere()\ndefine i32 @answer() {\n"
            "  %r = call i32 @nowhere()\n  ret i32 %r\n}",
            "Failed to materialize symbols",
        ),
    ],
    ids=["syntax", "invalid", "no such export", "no such symbol"],
)
def test_bad_modules(text, message, objects, capfd):
    for _ in range(2):
        with pytest.raises(RuntimeError) as info:
            engine.compile("wrong", lambda: text, "answer")
        assert message in str(info.value)
    assert objects.usage().files == 0
    assert capfd.readouterr().err == "", "LLVM prints nothing"
    assert call(engine.compile("wrong", lambda: answer(3), "answer")) == 3


def test_an_exception_of_the_module(objects):
    class Stop(BaseException):
        pass

    def stop() -> str:
        raise Stop

    with pytest.raises(Stop):
        engine.compile("stop", stop, "answer")
    assert call(engine.compile("stop", lambda: answer(4), "answer")) == 4


def test_a_module_that_asks_for_code():
    def outer() -> str:
        inner = engine.compile("inner", lambda: answer(1), "answer")
        again = engine.compile("outer", lambda: answer(2), "answer")
        assert call(inner) + call(again) == 3
        return answer(2)

    assert call(engine.compile("outer", outer, "answer")) == 2


def test_code_is_optimized():
    text = "define i32 @answer() {\n  %a = alloca i32\n  store i32 7, ptr %a\n"
    text += "  %r = load i32, ptr %a\n  ret i32 %r\n}\n"
    assert len(assembly(text)) < len(assembly(text, optimized=False))
    assert call(engine.compile("two", lambda: text, "answer")) == 7


# -- threads --------------------------------------------------------------------------------------


def together(count: int, work: Callable[[int], object]) -> list[object]:
    """What `work` returned in each of some threads that began at once."""
    barrier = threading.Barrier(count)
    results: list[object] = [None] * count

    def run(n: int) -> None:
        barrier.wait()
        try:
            results[n] = work(n)
        except BaseException as error:
            results[n] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return results


def test_a_module_goes_before_its_context(monkeypatch):
    """Also where llvmlite fails between making the module and returning it, and a traceback holds
    that; disposing of a module without its context would crash. A context serves few modules."""
    from llvmlite import binding

    engine.compile("7", lambda: answer(7), "answer")
    machine = engine._outcome[0]
    monkeypatch.setattr(engine, "_MODULES", 2)
    monkeypatch.setattr(machine, "_parsed", itertools.count())
    gc.collect()  # what other tests left
    gone: list[str] = []
    for kind in (binding.context.ContextRef, binding.module.ModuleRef):

        def dispose(self, kind=kind, plain=kind._dispose):
            gone.append(kind.__name__)
            plain(self)

        monkeypatch.setattr(kind, "_dispose", dispose)

    def no_memory(self):
        raise MemoryError

    with monkeypatch.context() as short, machine.module(answer(7), False):
        assert gone == ["ContextRef"]  # that of modules before
        short.setattr(binding.ffi.OutputString, "__bool__", no_memory)
        with pytest.raises(MemoryError) as raised, machine.module(answer(8), False):
            pass
        del raised
        gc.collect()
        assert gone == ["ContextRef", "ModuleRef"]
    with machine.module(answer(9), False):
        assert gone == ["ContextRef", "ModuleRef", "ModuleRef", "ContextRef"]


def test_concurrent_first_calls_compile_once(objects):
    for round in range(10):
        made: list[int] = []

        def module(round: int = round, made: list[int] = made) -> str:
            made.append(1)
            return answer(round)

        codes = together(
            8,
            lambda n, round=round, module=module: engine.compile(
                f"round {round}", module, "answer"
            ),
        )
        assert made == [1]
        assert len(set(map(id, codes))) == 1
        assert call(codes[0]) == round


def test_concurrent_first_calls_of_a_process(forked):
    code = (
        "import threading\n"
        "from nativecall import _singleflight as flights\nfrom nativecall._codegen import engine\n"
        "barrier = threading.Barrier(8); machines = []\n"
        "def run(): barrier.wait(); machines.append(engine._start()[0])\n"
        "threads = [threading.Thread(target=run) for _ in range(8)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
        "print(len(machines), len(set(map(id, machines))), engine.available())\n"
    )
    assert forked(code) == "8 1 True\n"


def test_who_waited_for_a_failure_tries_again():
    attempts: list[int] = []

    def module() -> str:
        attempts.append(1)
        if len(attempts) < 4:
            raise ValueError("not yet")
        return answer(8)

    results = together(8, lambda n: engine.compile("retry", module, "answer"))
    failures = [result for result in results if isinstance(result, ValueError)]
    assert len(attempts) == 4
    assert len(failures) == 3
    assert {call(result) for result in results if isinstance(result, engine.Code)} == {8}


def test_threads_make_call_and_drop():
    def work(n: int) -> int:
        wrong = 0
        for round in range(60):
            number = (n + round) % 11
            code = engine.compile(
                f"number {number}", lambda number=number: answer(number), "answer"
            )
            wrong += call(code) != number
        return wrong

    assert together(8, work) == [0] * 8


def test_threads_that_wait_for_each_other_in_their_modules():
    """Each compiles what the other one is compiling."""
    inside = threading.Barrier(2)

    def work(n: int) -> int:
        def module() -> str:
            inside.wait(30)
            return answer(call(engine.compile(f"half {1 - n}", lambda: answer(5), "answer")))

        return call(engine.compile(f"half {n}", module, "answer"))

    assert together(2, work) == [5, 5]


# -- life of the code -----------------------------------------------------------------------------


def executable() -> int:
    """Mapped bytes of generated code."""
    total = 0
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, mode, _, _, inode, *_ = line.split()
            if "x" in mode and inode == "0" and "[" not in line:
                low, high = (int(part, 16) for part in span.split("-"))
                total += high - low
    return total


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@LINUX
@either
def test_code_is_mapped_as_long_as_it_is_referenced(attributes):
    engine.available()
    gc.collect()
    before = executable()
    codes = [
        engine.compile(f"mapped {n}", lambda n=n: answer(n, attributes), "answer")
        for n in range(30)
    ]
    assert executable() > before
    kept = codes[20]
    alive = weakref.ref(codes[0])
    codes.clear()
    assert alive() is None
    assert call(kept) == 20
    del kept
    assert executable() <= before


@LINUX
@pytest.mark.allocator
@either
def test_memory_is_level_after_rounds_of_making_and_dropping(attributes):
    repeat = int(os.environ.get("NATIVECALL_TEST_REPEAT", "2000"))
    kept = engine.compile("kept", lambda: answer(1), "answer")

    def rounds(count: int) -> None:
        for n in range(count):
            code = engine.compile(
                f"level {n % 50}", lambda n=n: answer(n % 50, attributes), "answer"
            )
            assert code.address

    rounds(500)
    mapped, used = executable(), resident()
    rounds(repeat)
    assert executable() <= mapped + (64 << 10)
    # A library costs LLVM 10 KB as long as its LLJIT lives.
    assert resident() - used < (1 << 20) + 300 * repeat
    assert call(kept) == 1


@LINUX
@pytest.mark.allocator
def test_memory_of_optimized_code_is_bounded(monkeypatch):
    """The optimizer keeps a little of each module that it sees, and nothing of its passes."""
    machine, _ = engine._start()
    optimize, optimized = type(machine).optimize, []

    def counted(self, module):
        optimized.append(None)
        optimize(self, module)

    def rounds(count: int) -> int:
        before = resident()
        for n in range(count):
            # None of them is kept, so each one is compiled.
            _cache.shared().forget()
            code = engine.compile(f"pass {n}", lambda n=n: answer(n), "answer")
            assert call(code) == n
        return resident() - before

    monkeypatch.setattr(_cache, "_shared", Cache(None))
    monkeypatch.setattr(type(machine), "optimize", counted)
    monkeypatch.setattr(engine, "_OPTIMIZED", 100)
    monkeypatch.setattr(machine, "_optimizations", itertools.count(1))
    rounds(20)
    # The passes alone would be 30 KB of each.
    assert rounds(80) < 80 * 10 << 10
    # From now on nothing is kept.
    assert rounds(200) < 200 * 10 << 10
    assert len(optimized) == 100


def test_what_is_not_optimized_goes_into_no_file(monkeypatch, objects, tmp_path):
    machine, _ = engine._start()
    spent = itertools.count(engine._OPTIMIZED + 1)
    monkeypatch.setattr(machine, "_optimizations", spent)
    assert call(engine.compile("plain", lambda: answer(7), "answer")) == 7
    assert objects.usage().files == 0
    gc.collect()
    assert call(engine.compile("plain", never, "answer")) == 7
    monkeypatch.setattr(machine, "_optimizations", itertools.count(1))
    assert call(engine.compile("whole", lambda: answer(8), "answer")) == 8
    assert objects.usage().files == 1


def test_a_linker_goes_with_its_last_code():
    machine, _ = engine._start()
    for _ in range(engine._LIBRARIES + 1):  # away from the code of other tests
        engine.compile("before", lambda: answer(0), "answer")
    first = engine.compile("first", lambda: answer(1), "answer")
    jit = weakref.ref(machine._linker.jit)
    for _ in range(engine._LIBRARIES + 1):
        engine.compile("dropped", lambda: answer(2), "answer")
    assert jit() is not machine._linker.jit
    assert jit() is not None
    assert call(first) == 1
    del first
    gc.collect()
    assert jit() is None


# -- processes ------------------------------------------------------------------------------------

ANSWER = (
    "import ctypes\n"
    "from nativecall import _singleflight as flights\nfrom nativecall._codegen import engine\n"
    "def answer(n): return 'define i32 @answer() {\\n  ret i32 %d\\n}' % n\n"
    "def make(n): return engine.compile(str(n), lambda: answer(n), 'answer')\n"
    "def call(code): return ctypes.CFUNCTYPE(ctypes.c_int)(code.address)()\n"
)

FORK = """
import os, signal, sys, threading, time, warnings
from nativecall import _cache
warnings.simplefilter("ignore", DeprecationWarning)
os.environ["NATIVECALL_CACHE_DIR"] = sys.argv[1]
before = make(1)
assert _cache.shared().usage().files
stop = False
def busy(n):
    while not stop:
        call(make(n))
        _cache.shared().clear()
threads = [threading.Thread(target=busy, args=(100 + n,)) for n in range(4)]
for t in threads: t.start()
good = 0
for n in range(8):
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        status = 1
        try:
            right = call(before) == 1 and call(make(1000 + n)) == 1000 + n
            # What another thread was making at the time of the fork.
            right = right and all(call(make(100 + k)) == 100 + k for k in range(4))
            grandchild = os.fork()
            if grandchild == 0:
                os._exit(0 if call(make(5000)) == 5000 else 3)
            status = 0 if right and os.waitpid(grandchild, 0)[1] == 0 else 2
        finally:
            os._exit(status)
    good += os.waitpid(child, 0)[1] == 0
stop = True
for t in threads: t.join()
print(good, call(before), call(make(2)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forks_while_other_threads_generate_code(forked, tmp_path):
    assert forked(ANSWER + FORK, tmp_path / "cache", timeout=120) == "8 1 2\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forks_while_another_thread_generates_the_first_code(forked):
    code = """
import os, signal, threading, time, warnings
from nativecall import _cache
warnings.simplefilter("ignore", DeprecationWarning)
import llvmlite.binding
thread = threading.Thread(target=make, args=(1,))
thread.start()
while "" not in flights._flights and engine._outcome is None:
    time.sleep(0)
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if call(make(2)) == 2 else 1)
thread.join()
print(os.waitpid(child, 0)[1])
"""
    for _ in range(3):
        assert forked(ANSWER + code, timeout=120) == "0\n"


def test_switched_off(python, monkeypatch):
    monkeypatch.setenv("NATIVECALL_JIT", "0")
    code = (
        "print(engine.available(), engine.reason())\n"
        "try: make(1)\n"
        "except RuntimeError as error: print(error)\n"
        "import sys; print('llvmlite' in sys.modules)\n"
    )
    refused = "no code can be generated: NATIVECALL_JIT is 0\n"
    assert python(ANSWER + code) == f"False NATIVECALL_JIT is 0\n{refused}False\n"


def test_a_setting_that_is_not_known_is_told_once_at_the_line_that_led_to_it(python, monkeypatch):
    monkeypatch.setenv("NATIVECALL_JIT", "off")
    code = """
import nativecall, sys, warnings
abs = nativecall.load("c").address("abs")
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    line = sys._getframe().f_lineno + 1
    f = nativecall.wrap(abs, "i:i").convert("d:d")
    g = nativecall.wrap(abs, "i:i").convert("f:f")
    print(engine.available())
[one] = found
print(one.category.__name__, one.message, one.filename, one.lineno == line)
"""
    said = "NATIVECALL_JIT=off is unknown and ignored; 0 disables generated code"
    assert python("from nativecall._codegen import engine" + code) == (
        f"True\nRuntimeWarning {said} <string> True\n"
    )


def test_without_llvmlite(forked):
    code = (
        "import sys; sys.modules['llvmlite'] = None\nprint(engine.available(), engine.reason())\n"
    )
    assert forked(ANSWER + code).startswith("False llvmlite cannot be imported (import of llvmlite")


def test_code_that_cannot_be_loaded(objects):
    text = "declare void @none()\ndefine void @f() {\n call void @none()\n ret void\n}\n"
    with pytest.raises(engine.Unloadable, match="Failed to materialize symbols"):
        engine.compile("unloadable", lambda: text, "f")


def test_an_engine_that_computes_wrongly_is_not_used(monkeypatch):
    monkeypatch.setattr(engine, "_PROBE", engine._PROBE.replace("42", "41"))
    machine, reason = engine._probe()
    assert machine is None
    assert reason == "a generated function that returns 42 returned 41"
    monkeypatch.setattr(engine, "_PROBE", "nonsense")
    assert engine._probe()[1].startswith("LLVM cannot load code here (")


def test_code_that_dies_after_the_modules_of_llvmlite():
    """While modules are torn down nothing is asked of llvmlite, and the code stays."""
    machine, _ = engine._start()
    tracker, linker = machine._load(machine.emit(answer(5), False), "answer")
    address = tracker["answer"]
    engine._unload(tracker, linker, lambda: True)
    assert tracker.closed
    assert ctypes.CFUNCTYPE(ctypes.c_int)(address)() == 5


@pytest.mark.parametrize("when", ["first", "late"])
def test_code_that_is_first_made_at_the_end_of_the_process(forked, when):
    """weakref and llvmlite learn of the end by atexit, and what is registered now is not called."""
    code = (
        "import atexit, sys\n"
        "class Kept:\n"
        "    def __del__(self): print('late', self.function())\n"
        "def last():\n"
        "    kept = Kept(); kept.code = make(9)\n"
        "    kept.function = ctypes.CFUNCTYPE(ctypes.c_int)(kept.code.address)\n"
        "    sys.modules['kept'] = kept\n"
        "    print(call(kept.code))\n"
        "atexit.register(last)\n"
    )
    begun = "make(1)\n" if when == "late" else ""
    assert forked(ANSWER + begun + code) == "9\nlate 9\n"


@pytest.mark.parametrize("when", ["global", "module", "cycle", "thread", "atexit"])
def test_the_end_of_the_process(forked, when):
    """Code and what made it outlive each other in every order."""
    ways = {
        "global": "kept = [make(n) for n in range(20)]\n",
        "module": "import sys\nsys.kept = [make(n) for n in range(20)]\n",
        "cycle": "kept = [make(n) for n in range(20)]\nkept.append(kept)\ndel kept\n",
        "thread": (
            "import threading, time\n"
            "def run():\n"
            "    while True: call(make(3))\n"
            "threading.Thread(target=run, daemon=True).start(); time.sleep(0.2)\n"
        ),
        "atexit": "import atexit\natexit.register(lambda: print(call(make(9))))\n",
    }
    last = (
        "class Late:\n"
        "    def __del__(self): print('late', self.function())\n"
        "code = make(7)\n"
        "late = Late()\n"
        "late.function = ctypes.CFUNCTYPE(ctypes.c_int)(code.address)\n"
        "print(call(code), flush=True)\n"
    )
    printed = forked(ANSWER + ways[when] + last).splitlines()
    if when == "thread":
        # CPython may leave what a daemon thread can still reach.
        assert printed in (["7"], ["7", "late 7"])
    else:
        assert printed == ["7", *(["9"] if when == "atexit" else []), "late 7"]


def test_importing_nativecall_brings_nothing_of_it(python):
    code = (
        "import sys, nativecall\n"
        "unwanted = 'nativecall._codegen', 'llvmlite'\n"
        "print([name for name in sys.modules if name.startswith(unwanted)])\n"
    )
    assert python(code) == "[]\n"


NO_MEMORY = """
import resource, sys
import nativecall as nc
m = nc.load("m")
fabs = m.address("fabs")
def room(size):
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + size, resource.RLIM_INFINITY))
import llvmlite.binding
if sys.argv[1] == "late":
    nc.wrap(fabs, "d:d").convert("f:f")
room(48 << 20)
print(nc.wrap(fabs, "d:d").convert("d:i")(-4))
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
thunk = nc.wrap(fabs, "d:d").convert("d:i")
print(thunk(-4), thunk.entries[0].owner.kept)
"""


@LINUX
@pytest.mark.allocator
@pytest.mark.parametrize("when", ["early", "late"])
def test_without_memory_nothing_is_compiled(forked, when):
    """LLVM would end the process; the core converts until there is memory again."""
    printed = forked(NO_MEMORY, when, timeout=300)
    assert printed == "4.0\n4.0 None\n"


NO_MEMORY_ONCE = """
import sys
import nativecall as nc
fabs = nc.load("m").address("fabs")
class Short:
    # Whoever imports the module has no memory for it.
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            raise MemoryError
if sys.argv[1] == "Target":
    import llvmlite.binding as llvm
    create = llvm.Target.from_default_triple
    def fail():
        llvm.Target.from_default_triple = create
        raise MemoryError
    llvm.Target.from_default_triple = fail
sys.meta_path.insert(0, Short())
convert = nc.wrap(fabs, "d:d").convert
try:
    convert("d:i")
except MemoryError:
    print("MemoryError")
del sys.meta_path[0]
thunk = convert("d:i")
print(thunk(-2), thunk.entries[0].owner.kept)
"""


@pytest.mark.parametrize("what", ["llvmlite", "llvmlite.binding", "Target"])
def test_want_of_memory_while_llvm_starts_does_not_last(forked, what):
    """It is raised, and who asks next tries again."""
    assert forked(NO_MEMORY_ONCE, what, timeout=300) == "MemoryError\n2.0 None\n"
