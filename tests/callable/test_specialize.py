"""The specialize hook: who asks it, how often, and what becomes of every answer.

C consumers are the modules of tests/ext/callback_consumer.c and tests/ext/dispatch.c. Threads meet
through barriers and events, so that what is tested happens in every run.
"""

import copy
import ctypes
import gc
import importlib
import itertools
import math
import os
import pickle
import re
import sys
import threading
import time
import traceback
import weakref

import pytest

import nativecall as nc

LIBM = nc.load("m")
SYMBOLS = {"d:d": "sqrt", "f:f": "sqrtf", "d:dd": "pow", "f:ff": "powf", "q:d": "lrint"}
FLIGHTS = importlib.import_module("nativecall._singleflight")
THREADS = 8
LIMIT = 60  # seconds after which a thread that should have ended is a deadlock


def symbol(signature):
    return LIBM.function(SYMBOLS[signature], signature)


def made(*signatures, hook=None):
    """A callable of some entries."""
    f = nc.wrap({text: symbol(text) for text in signatures or ("d:d",)}, name="f")
    f.specialize = hook
    return f


class Hook:
    """Answers with what libm has, and remembers what it was asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, f, signature):
        self.asked.append(signature)
        return symbol(signature) if signature in SYMBOLS else None


@pytest.fixture
def hook():
    return Hook()


def run(*functions):
    """Each function in a thread of its own: their results, or what they raised."""
    results = [None] * len(functions)

    def record(i):
        try:
            results[i] = functions[i]()
        except BaseException as error:
            results[i] = error

    threads = [threading.Thread(target=record, args=(i,), daemon=True) for i in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in threads), "deadlock"
    return results


# -- who asks --------------------------------------------------------------------------------------

ASKERS = {
    "getitem": lambda f, s: f[s]._entries()[0][1],
    "address": lambda f, s: f.address(s),
    "to_ctypes": lambda f, s: ctypes.cast(f.to_ctypes(s), ctypes.c_void_p).value,
    "to_cffi": lambda f, s: nc.wrap(f.to_cffi(s)).address(),
    "to_capsule": lambda f, s: nc.wrap(f.to_capsule(s)).address(),
    "wrap": lambda f, s: nc.wrap(f, s).address(),
    "wrap with options": lambda f, s: nc.wrap(f, s, name="other").address(),
    "wrap the view": lambda f, s: nc.wrap(f.builtin, s).address(),
    "a mapping": lambda f, s: nc.wrap({s: f}).address(),
}


@pytest.mark.parametrize("asker", ASKERS)
def test_who_asks(hook, asker):
    f = made(hook=hook)
    assert ASKERS[asker](f, "f:f") == symbol("f:f").address()
    assert f.signatures == ("d:d", "f:f")
    ASKERS[asker](f, "f:f")
    assert hook.asked == ["f:f"]
    for _ in range(2):
        with pytest.raises(nc.NoEntryError, match="and its specialize hook created none"):
            ASKERS[asker](f, "i:i")
    assert hook.asked == ["f:f", "i:i"]


def test_a_conversion_asks_before_it_converts(hook):
    f = made(hook=hook)
    assert f.convert("f:f") is f["f:f"]
    assert f.address("f:f") == symbol("f:f").address()
    for _ in range(2):
        assert f.convert("i:i")(4) == 2
    assert hook.asked == ["f:f", "i:i"]
    assert f.signatures == ("d:d", "f:f")


def test_a_conversion_of_what_has_no_entries_asks():
    numba = pytest.importorskip("numba")
    f = nc.wrap(numba.njit(lambda x: x / 2))
    assert f.signatures == ()
    assert f.convert("d:d")(3.0) == 1.5
    assert f.signatures == ("d:d",)
    assert f.bind(3.0)() == f.to_ctypes()(3.0) == 1.5, "its one entry is what is meant"


def test_a_conversion_raises_what_the_hook_raises():
    f = made(hook=lambda whole, text: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        f.convert("f:f")
    assert f.convert("d:d") is f


def test_who_does_not_ask(hook):
    f = made(hook=hook)
    assert "f:f" not in f
    assert "no signature" not in f
    assert f(4.0) == 2.0
    with pytest.raises(TypeError):
        f("text")
    with pytest.raises(nc.SignatureError):
        f["w:w"]
    with pytest.raises(TypeError):
        f[3]
    assert (f.address("d:d"), f["d:d"]._entries()) == (symbol("d:d").address(), f._entries())
    assert f.signatures == ("d:d",)
    assert repr(f) == "<native callable f 'd:d'>"
    assert hook.asked == []


def test_the_hook_gets_the_callable_and_the_canonical_signature():
    calls = []
    f = made(hook=lambda *args: calls.append(args))
    for spelling in ("float f(float)", "f->f", " f : f "):
        with pytest.raises(KeyError):
            f[spelling]
    [(whole, text)] = calls
    assert whole is f
    assert (type(text), text) == (str, "f:f")


def test_python_calls_choose_among_what_was_made(hook):
    f = made(hook=hook)
    with pytest.raises(TypeError):
        f(2.0, 3.0)
    assert f["d:dd"](2.0, 3.0) == f(2.0, 3.0) == 8.0
    assert f(4.0) == 2.0


def test_an_answer_brings_its_flags_and_its_owner():
    target = nc.wrap(symbol("d:dd"), gil="release", errno=True)
    reference = weakref.ref(target)
    f = made(hook=lambda f, s, target=target: target)
    assert f["d:dd"].entries[0][2:5] == (target.entries[0].flags, "none", "release")
    del f.specialize, target
    gc.collect()
    assert f.entries[1].owner is reference()
    assert f(2.0, 4.0) == 16.0


@pytest.mark.parametrize("form", ["address", "to_ctypes", "to_cffi", "to_capsule"])
def test_anything_that_holds_a_function_is_an_answer(form):
    target = symbol("d:dd")
    answer = getattr(target, form)()
    f = made(hook=lambda f, s: answer)
    assert f.address("d:dd") == target.address()
    assert f(2, 5) == 32.0


# -- C consumers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("view", [False, True], ids=["callable", "view"])
@pytest.mark.parametrize("gil", [True, False], ids=["gil", "nogil"])
def test_callback_gets_an_entry_that_was_made_for_it(integrating, hook, view, gil):
    f = made("f:f", hook=hook)
    options = integrating.HOLDS_GIL if gil else 0
    for _ in range(3):
        value, native, matched = integrating.integrate(
            f.builtin if view else f, 0.0, 1.0, 1000, "cip", options
        )
        assert value == pytest.approx(2 / 3, abs=1e-4)
        assert (native, matched) == (True, 2)
    # In the consumer's order, and the misses once.
    assert hook.asked == ["d:i&d", "i:i", "d:d"]
    assert f.signatures == ("f:f", "d:d")


def test_callback_of_what_the_table_has_asks_nobody(integrating, hook):
    f = made(hook=hook)
    assert integrating.integrate(f, 0.0, 1.0, 10, "cp")[1:] == (True, 1)
    assert hook.asked == []


def test_callback_without_an_answer_is_called_by_python(integrating):
    asked = []
    f = made("d:dd", hook=lambda f, s: asked.append(s))
    with pytest.raises(TypeError, match="exactly 2 arguments"):
        integrating.integrate(f, 0.0, 1.0, 10, "p")
    assert asked == ["d:d"]
    del f.specialize
    with pytest.raises(TypeError, match="exactly 2 arguments"):
        integrating.integrate(f, 0.0, 1.0, 10, "p")
    assert asked == ["d:d"]


def test_callback_raises_what_the_hook_raises(integrating, dispatch):
    def fail(f, signature):
        raise ZeroDivisionError(signature)

    f = made("f:f", hook=fail)
    for consumer in (f, f.builtin):
        with pytest.raises(ZeroDivisionError, match=r"^d:d$"):
            integrating.integrate(consumer, 0.0, 1.0, 10, "p")
        with pytest.raises(ZeroDivisionError, match=r"^d:d$"):
            dispatch.prepare(consumer, "d:d")
    f.specialize = lambda f, s: symbol("d:dd")
    with pytest.raises(nc.SignatureError, match="the specialize hook of 'f'"):
        integrating.integrate(f, 0.0, 1.0, 10, "p")
    assert f.signatures == ("f:f",)


def test_an_answer_with_flags_that_the_consumer_refuses_is_called_through_python(integrating):
    asked = []

    def answer(f, signature):
        asked.append(signature)
        return nc.wrap(symbol("d:d"), gil="need")

    f = made("f:f", hook=answer)
    assert integrating.integrate(f, 0.0, 1.0, 10, "p", 0)[1] is False
    assert integrating.integrate(f, 0.0, 1.0, 10, "p", integrating.HOLDS_GIL)[1] is True
    assert (asked, f.signatures) == (["d:d"], ("f:f", "d:d"))


def test_a_call_that_is_built_at_run_time_asks(dispatch, hook):
    f = made("q:d", hook=hook)
    for consumer in (f, f.builtin):
        prepared = dispatch.prepare(consumer, "f:ff")
        assert dispatch.way(prepared) == dispatch.nogil_way(prepared) == "exact"
    assert hook.asked == ["f:ff"]
    # What can be promoted is found in the table.
    assert dispatch.way(dispatch.prepare(f, "q:f")) == "promoted"
    assert hook.asked == ["f:ff"]


def test_the_attribute_on_another_class_finds_nothing(integrating):
    class Impostor:
        __nativecall_api__ = nc.NativeCallable.__nativecall_api__

        def __call__(self, x):
            return x

    assert integrating.integrate(Impostor(), 0.0, 1.0, 10, "p")[1] is False


def test_a_subclass_with_a_call_of_its_own_offers_nothing(integrating, hook):
    class Loud(nc.NativeCallable):
        def __call__(self, x):
            return -1.0

    class Quiet(nc.NativeCallable):
        pass

    loud = Loud(symbol("f:f"))
    loud.specialize = hook
    assert integrating.integrate(loud, 0.0, 1.0, 10, "p") == (pytest.approx(-1.0), False, 0)
    with pytest.raises(nc.NoEntryError):
        loud["d:d"]
    assert hook.asked == []
    quiet = Quiet(symbol("f:f"))
    quiet.specialize = hook
    assert integrating.integrate(quiet, 0.0, 1.0, 10, "p")[1] is True
    assert hook.asked == ["d:d"]


# -- the property ----------------------------------------------------------------------------------


def test_set_get_delete(hook):
    f = made()
    assert f.specialize is None
    f.specialize = hook
    assert f.specialize is hook
    f.specialize = None
    assert f.specialize is None
    f.specialize = hook
    del f.specialize
    del f.specialize
    assert f.specialize is None
    with pytest.raises(nc.NoEntryError) as caught:
        f["f:f"]
    assert str(caught.value) == "no native entry for 'f:f'; 'f' offers 'd:d'"
    assert hook.asked == []


def test_what_is_no_hook(hook):
    f = made(hook=hook)
    for wrong in (3, "d:d", {"d:d": symbol("d:d")}):
        with pytest.raises(
            TypeError,
            match=r"^'specialize' must be a function that takes a callable and a signature, or "
            rf"None \(got {type(wrong).__name__}\)$",
        ):
            f.specialize = wrong
    assert f.specialize is hook


def test_none_is_remembered_until_a_hook_is_set():
    asked = []
    f = made(hook=lambda f, s: asked.append(s))
    for _ in range(3):
        with pytest.raises(nc.NoEntryError):
            f["f:f"]
    assert asked == ["f:f"]
    f.specialize = f.specialize
    with pytest.raises(nc.NoEntryError):
        f["f:f"]
    assert asked == ["f:f"] * 2
    f.add("f:f", symbol("f:f"))
    assert f["f:f"](4.0) == 2.0


def test_a_part_has_no_hook_of_its_own(hook):
    f = made(hook=hook)
    assert f["d:d"].specialize is None
    with pytest.raises(nc.NoEntryError):
        f["d:d"]["f:f"]
    assert hook.asked == []


def test_pickle_and_copy(hook):
    f = LIBM.function("sqrt", "d:d")
    f.specialize = hook
    with pytest.raises(TypeError, match="it has a specialize hook, which would be lost"):
        pickle.dumps(f)
    assert copy.copy(f) is copy.deepcopy(f) is f
    del f.specialize
    assert pickle.loads(pickle.dumps(f))(9.0) == 3.0


def test_a_cycle_through_the_hook_is_collected():
    class Answer:
        def __init__(self, f):
            self.f = f

        def __call__(self, f, signature):
            return None

    f = made()
    f.specialize = Answer(f)
    with pytest.raises(nc.NoEntryError):
        f["f:f"]
    references = weakref.ref(f), weakref.ref(f.specialize)
    del f
    gc.collect()
    assert [one() for one in references] == [None, None]


def test_a_hook_lives_as_long_as_it_is_set():
    class Answer:
        def __call__(self, f, signature):
            return None

    answer = Answer()
    reference = weakref.ref(answer)
    f = made(hook=answer)
    del answer
    assert reference() is not None
    f.specialize = None
    assert reference() is None


# -- bad answers -----------------------------------------------------------------------------------


def unchanged(f, before):
    assert (f._entries(), f.signatures) == before
    assert f(4.0) == 2.0


@pytest.mark.parametrize("kind", [ValueError, KeyError, KeyboardInterrupt, SystemExit])
def test_what_the_hook_raises_is_raised_and_forgotten(kind):
    raised = []

    def fail(f, signature):
        raised.append(kind(signature))
        raise raised[-1]

    f = made(hook=fail)
    before = f._entries(), f.signatures
    for i in range(3):
        with pytest.raises(kind) as caught:
            f["f:f"]
        assert caught.value is raised[i]
    assert len(raised) == 3
    unchanged(f, before)


def null():
    return ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)()


LIES = {
    "another signature": (
        lambda f: symbol("f:ff"),
        nc.SignatureError,
        "another function: no native entry for 'f:f'; 'powf' offers 'f:ff'",
    ),
    "one that is there": (
        lambda f: f["d:d"],
        nc.SignatureError,
        "another function: no native entry for 'f:f'; 'f' offers 'd:d'",
    ),
    "a pointer of another type": (
        lambda f: symbol("d:dd").to_ctypes(),
        nc.SignatureError,
        "another function: 'signature' is 'f:f', but the target is 'd:dd'",
    ),
    "itself": (lambda f: f, TypeError, "returned 'f' itself, which has no such entry"),
    "its view": (
        lambda f: f.builtin,
        TypeError,
        "returned 'f' itself, which has no such entry",
    ),
    "NULL": (lambda f: null(), ValueError, "no function: 'target' must hold a C function; "),
    "0": (lambda f: 0, ValueError, "no function: 'target' must be the address of a C function"),
    "a number": (lambda f: 1.5, TypeError, "no function: 'target' must be an address, a native"),
    "False": (lambda f: False, TypeError, "no function: 'target' must be an address, a native"),
    "a mapping": (lambda f: {"f:f": 1}, TypeError, "no function: 'target' must be an address"),
    "a Python function": (lambda f: math.sqrt, TypeError, "no function: 'target' must be an "),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_hook_that_lies(lie):
    answer, kind, message = LIES[lie]

    class Wrong:
        __slots__ = ()

        def __call__(self, f, signature):
            return answer(f)

    def wrong(f, signature):
        return answer(f)

    f = made(hook=wrong)
    before = f._entries(), f.signatures
    for _ in range(2):
        with pytest.raises(kind, match=re.escape(message)) as caught:
            f["f:f"]
        assert type(caught.value) is kind
        assert re.match(
            r"test_a_hook_that_lies\.<locals>\.wrong\(\), the specialize hook of 'f', was asked "
            r"for 'f:f' and returned ",
            str(caught.value),
        )
    f.specialize = Wrong()
    with pytest.raises(kind, match=r"Wrong\(\), the specialize hook of 'f'"):
        f["f:f"]
    unchanged(f, before)


# -- hooks that ask, add, and change the hook ------------------------------------------------------

CIRCLE = r"^the specialize hook of 'f' asks for 'f:f' while it is being asked for that signature$"


@pytest.mark.parametrize("asker", ASKERS)
def test_a_hook_that_asks_for_the_same(asker):
    depth = []

    def circle(f, signature):
        depth.append(len(depth))
        return ASKERS[asker](f, signature)

    f = made(hook=circle)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=CIRCLE) as caught:
            f["f:f"]
        assert not isinstance(caught.value, RecursionError)
    assert len(depth) == 2


def test_a_hook_that_answers_with_a_callable_that_asks_it():
    f = made()
    g = nc.wrap(symbol("d:d"), name="g")
    f.specialize = lambda f, s: g
    g.specialize = lambda g, s: f
    with pytest.raises(RuntimeError, match=CIRCLE):
        f["f:f"]
    g.specialize = lambda g, s: symbol(s)
    assert f["f:f"](4.0) == 2.0
    assert g.signatures == f.signatures == ("d:d", "f:f")


def test_a_circle_is_one_though_the_hook_is_set_anew():
    def renewed(f, signature):
        del f.specialize
        f.specialize = renewed
        return f[signature]

    f = made(hook=renewed)
    with pytest.raises(RuntimeError, match=CIRCLE):
        f["f:f"]


def test_a_hook_that_asks_for_another():
    asked = []

    def answer(f, signature):
        asked.append(signature)
        if signature == "f:f":
            assert f["d:dd"](2.0, 3.0) == 8.0
        return symbol(signature)

    f = made(hook=answer)
    assert f["f:f"](4.0) == 2.0
    assert asked == ["f:f", "d:dd"]
    assert f.signatures == ("d:d", "d:dd", "f:f")


@pytest.mark.parametrize("answer", [lambda f, s: None, symbol, lambda f, s: f])
def test_a_hook_that_adds_the_entry_itself(answer):
    def add(f, signature):
        f.add(signature, symbol(signature))
        return answer(signature) if answer is symbol else answer(f, signature)

    f = made(hook=add)
    assert f["f:f"](4.0) == 2.0
    assert f.signatures == ("d:d", "f:f")


def test_a_hook_that_deletes_itself():
    def once(f, signature):
        del f.specialize
        return symbol(signature)

    f = made(hook=once)
    assert f["f:f"](4.0) == 2.0
    assert f.specialize is None
    with pytest.raises(nc.NoEntryError):
        f["d:dd"]


def test_a_hook_that_is_replaced_while_it_is_asked_stays_until_it_has_answered():
    order = []

    class Asked:
        def __getattribute__(self, name):
            f._specializer = None
            return lambda *_: order.append("answered")

        def __del__(self):
            order.append("freed")

    f = made("d:d", "d:dd")
    f._specializer = Asked()
    with pytest.raises(TypeError, match="no entry of 'f' takes"):
        f("no number")
    assert order == ["answered", "freed"]


# -- threads ---------------------------------------------------------------------------------------


def threads_that_wait():
    """Threads that wait for another's answer: they run nothing above `ask`."""
    return [frame.f_code for frame in sys._current_frames().values()].count(FLIGHTS.once.__code__)


class Slow:
    """Holds its first answer back until as many threads wait as are expected."""

    def __init__(self, answers, waiting=THREADS - 1):
        self.answers = list(answers)
        self.asked = []
        self.waiting = waiting

    def __call__(self, f, signature):
        first = not self.asked
        self.asked.append(signature)
        while first and threads_that_wait() < self.waiting:
            time.sleep(0.001)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.mark.parametrize("answered", [True, False])
def test_one_call_for_many_threads(answered):
    slow = Slow([symbol("f:f") if answered else None])
    f = made(hook=slow)
    results = run(*[lambda: f.address("f:f")] * THREADS)
    if answered:
        assert results == [symbol("f:f").address()] * THREADS
    else:
        assert [type(one) for one in results] == [nc.NoEntryError] * THREADS
    assert slow.asked == ["f:f"]
    assert f.signatures == ("d:d", "f:f")[: 1 + answered]


def test_a_failure_is_the_askers_and_the_next_one_asks_again():
    slow = Slow([OSError("once"), symbol("f:f")])
    f = made(hook=slow)
    results = run(*[lambda: f.address("f:f")] * THREADS)
    failed = [one for one in results if isinstance(one, OSError)]
    assert len(failed) == 1
    assert results.count(symbol("f:f").address()) == THREADS - 1
    assert slow.asked == ["f:f"] * 2


def test_other_signatures_and_writers_do_not_wait():
    started, done = threading.Event(), threading.Event()
    asked = []

    def answer(f, signature):
        asked.append(signature)
        if signature == "f:f":
            started.set()
            assert done.wait(LIMIT)
        return symbol(signature)

    f = made(hook=answer)

    def others():
        assert started.wait(LIMIT)
        f.add("q:d", symbol("q:d"))
        result = f["d:dd"](2.0, 3.0), f(2.6), f["d:d"](9.0)
        done.set()
        return result

    assert run(lambda: f["f:f"](4.0), others) == [2.0, (8.0, math.sqrt(2.6), 3.0)]
    assert asked == ["f:f", "d:dd"]
    assert f.signatures == ("d:d", "q:d", "d:dd", "f:f")


def test_a_hook_whose_threads_ask_for_others():
    def answer(f, signature):
        if signature == "f:f":
            results = run(*[lambda: f["d:dd"](2.0, 3.0)] * 3)
            assert results == [8.0] * 3
        return symbol(signature)

    f = made(hook=answer)
    assert f["f:f"](4.0) == 2.0


def test_entries_added_meanwhile_win():
    def answer(f, signature):
        run(lambda: f.add(signature, symbol(signature)))
        return nc.wrap(symbol(signature), gil="release")

    f = made(hook=answer)
    assert f["f:f"].entries[0].gil == "hold"
    assert f.signatures == ("d:d", "f:f")


def test_nothing_is_left_behind():
    assert FLIGHTS._flights == {}


# From 3.15 on `fork` raises its warning about threads where warnings are errors.
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_child_asks_again_what_its_parent_is_asking():
    started, done = threading.Event(), threading.Event()

    def answer(f, signature):
        if os.getpid() == parent:
            started.set()
            assert done.wait(LIMIT)
        return symbol(signature)

    parent = os.getpid()
    f = made(hook=answer)
    thread = threading.Thread(target=lambda: f["f:f"])
    thread.start()
    assert started.wait(LIMIT)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if f["f:f"](4.0) == 2.0 else 2
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(status)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        done.set()
        thread.join(LIMIT)
    assert f["f:f"](4.0) == 2.0


def test_what_a_hook_has_no_answer_to_is_remembered_a_while():
    asked = []
    f = made(hook=lambda f, s: asked.append(s))
    texts = ["d:" + "".join(one) for one in itertools.product("fhiq", repeat=5)]
    for text in texts:
        with pytest.raises(nc.NoEntryError):
            f[text]
    assert asked == texts
    assert len(f._specializer.missing) == 256
    for text in texts[-256:]:
        with pytest.raises(nc.NoEntryError):
            f[text]
    assert asked == texts


def test_memory_stays_level():
    """Neither an exception nor an answer that is remembered leaves objects behind."""
    f = made(hook=lambda f, s: 1 / 0)
    g = made(hook=lambda f, s: None)

    def ask():
        for one in (f, g):
            with pytest.raises((ZeroDivisionError, nc.NoEntryError)):
                one["f:f"]

    for _ in range(100):
        ask()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(1000):
        ask()
    gc.collect()
    assert len(gc.get_objects()) - before < 100
