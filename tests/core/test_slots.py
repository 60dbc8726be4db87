"""Types with slots from Python: the metaclass, `__customslots__`, inheritance, overridden calls."""

import abc
import collections
import gc
import math
import os
import sys
import types
import weakref

import pytest

import nativecall as nc
from nativecall import _lib
from nativecall.conformance import _abi
from support.threads import needs_gil

Slot = nc.Slot
ID = 0x05000003
CALL_ID = 0x04000001


def keys(cls):
    return [slot.key for slot in nc.customslots(cls)]


def data(cls):
    return {slot.key: slot.data for slot in nc.customslots(cls)}


# -- the metaclass -------------------------------------------------------------------------------


def test_a_class_with_slots():
    class Shape(metaclass=nc.extensibletype):
        __customslots__ = {"area": 0x1000, b"raw\0key": (3, 0x2000), ID: -8, 0x3000: 2**64 - 1}

    assert (
        nc.customslots(Shape())
        == nc.customslots(Shape)
        == (
            Slot(b"area", 0, 0x1000),
            Slot(b"raw\0key", 3, 0x2000),
            Slot(ID, 0, 2**64 - 8),
            Slot(0x3000, 0, 2**64 - 1),
        )
    )
    assert type(Shape) is nc.extensibletype
    assert issubclass(nc.extensibletype, type)


def test_a_class_without_slots():
    class Plain(metaclass=nc.extensibletype):
        pass

    assert nc.customslots(Plain()) == ()
    for other in (1, "x", None, object(), type, dict, nc):
        assert nc.customslots(other) == ()


def test_strings_and_bytes_are_one_key(fails):
    with fails(ValueError, "duplicate slot key b'a' in '__customslots__'"):
        nc.extensibletype("T", (), {"__customslots__": {"a": 1, b"a": 2}})
    assert keys(nc.extensibletype("T", (), {"__customslots__": {"\u00e9": 1}})) == ["é".encode()]


@pytest.mark.parametrize(
    "mapping",
    [types.MappingProxyType({"a": 1}), collections.UserDict(a=1), collections.Counter("a")],
)
def test_any_mapping_will_do(mapping):
    assert data(nc.extensibletype("T", (), {"__customslots__": mapping})) == {b"a": 1}


WRONG = [
    (5, TypeError, "'__customslots__' must be a mapping from keys to data (got int)"),
    ("ab", TypeError, "'__customslots__' must be a mapping from keys to data (got str)"),
    ([("a", 1)], TypeError, "'__customslots__' must be a mapping from keys to data (got list)"),
    (None, TypeError, "'__customslots__' must be a mapping from keys to data (got NoneType)"),
    ({1.5: 1}, TypeError, "slot keys must be int, str or bytes (got float)"),
    ({(): 1}, TypeError, "slot keys must be int, str or bytes (got tuple)"),
    ({None: 1}, TypeError, "slot keys must be int, str or bytes (got NoneType)"),
    ({0: 1}, ValueError, "slot key 0 is reserved (0 marks an empty row, 1 a skipped one)"),
    ({1: 1}, ValueError, "slot key 1 is reserved (0 marks an empty row, 1 a skipped one)"),
    ({-2: 1}, ValueError, "slot key -2 does not fit a pointer-sized integer"),
    ({2**64: 1}, ValueError, "slot key 18446744073709551616 does not fit a pointer-sized integer"),
    (
        {5: 1},
        ValueError,
        "allocated slot key 0x5 must have a registrar in bits 24 to 31 and no higher bits set; "
        "an even key is an address",
    ),
    (
        {2**40 + 1: 1},
        ValueError,
        "allocated slot key 0x10000000001 must have a registrar in bits 24 to 31 and no higher "
        "bits set; an even key is an address",
    ),
    ({"k" * 65536: 1}, ValueError, "slot key of 65536 bytes is too long; the limit is 65535"),
    ({b"k" * 70000: 1}, ValueError, "slot key of 70000 bytes is too long; the limit is 65535"),
    ({"a": "b"}, TypeError, "slot 'a' must be an int or a (flags, int) pair (got str)"),
    ({"a": 1.0}, TypeError, "slot 'a' must be an int or a (flags, int) pair (got float)"),
    ({"a": (1,)}, TypeError, "slot 'a' must be an int or a (flags, int) pair (got a tuple of 1)"),
    (
        {"a": (1, 2, 3)},
        TypeError,
        "slot 'a' must be an int or a (flags, int) pair (got a tuple of 3)",
    ),
    ({"a": ("x", 1)}, TypeError, "flags of slot 'a' must be an int (got str)"),
    ({"a": (2**64, 1)}, ValueError, "flags of slot 'a' do not fit 64 bits"),
    ({"a": (-1, 1)}, ValueError, "flags of slot 'a' do not fit 64 bits"),
    ({"a": (0, "x")}, TypeError, "slot 'a' must be an int or a (flags, int) pair (got str)"),
    ({"a": 2**64}, ValueError, "slot 'a': 18446744073709551616 does not fit a pointer"),
    ({"a": -(2**63) - 1}, ValueError, "slot 'a': -9223372036854775809 does not fit a pointer"),
]


@pytest.mark.parametrize(("mapping", "exception", "message"), WRONG, ids=range(len(WRONG)))
def test_customslots_of_the_wrong_shape(fails, mapping, exception, message):
    class Base(metaclass=nc.extensibletype):
        __customslots__ = {"base": 1}

    with fails(exception, message):

        class Broken(Base):
            __customslots__ = mapping

    gc.collect()
    assert Base.__subclasses__() == []

    class Whole(Base):
        __customslots__ = {"a": 2}

    assert data(Whole) == {b"base": 1, b"a": 2}


def test_mappings_that_raise_or_lie():
    class Raising(dict):
        def items(self):
            raise LookupError("my own error")

    class Lying(dict):
        def items(self):
            return ["ab"]

    with pytest.raises(LookupError, match="my own error"):
        nc.extensibletype("T", (), {"__customslots__": Raising()})
    with pytest.raises(TypeError, match=r"^'__customslots__'\.items\(\) must return pairs$"):
        nc.extensibletype("T", (), {"__customslots__": Lying()})
    assert data(nc.extensibletype("T", (), {"__customslots__": {"a": 1}})) == {b"a": 1}


def test_customslots_are_read_once(fails):
    class Shape(metaclass=nc.extensibletype):
        __customslots__ = {"a": 1}

    message = (
        "'__customslots__' is read only when the class is created; "
        "make a subclass to add or override slots"
    )
    with fails(TypeError, message):
        Shape.__customslots__ = {"b": 2}
    with fails(TypeError, message):
        del Shape.__customslots__
    assert data(Shape) == {b"a": 1}


def test_initialising_a_class_again_changes_nothing():
    class Shape(metaclass=nc.extensibletype):
        __customslots__ = {"a": 1}

    nc.extensibletype.__init__(Shape, "Shape", (), {"__customslots__": {"b": 2}})
    assert data(Shape) == {b"a": 1}


def test_large_tables():
    for count in (1, 2, 3, 64, 65, 1000, 3000):
        mapping = {f"key {i} of {count}": i for i in range(count)}
        cls = nc.extensibletype("T", (), {"__customslots__": mapping})
        assert [slot.data for slot in nc.customslots(cls)] == list(range(count))


def test_too_many_rows(fails):
    mapping = {2 * i: i for i in range(1, 2**16 + 2)}
    with pytest.raises(ValueError, match=r"^type 'T' has 65537 slots; a table holds at most \d+$"):
        nc.extensibletype("T", (), {"__customslots__": mapping})


# -- inheritance; its rules are tried on inheritance.json and random families (test_vectors.py) ----


def test_builtin_bases_dicts_and_dunder_slots():
    class A(metaclass=nc.extensibletype):
        __slots__ = ("p", "q")
        __customslots__ = {"a": 1}

    class D(dict, metaclass=nc.extensibletype):
        __customslots__ = {"d": 2}

    class Plain(metaclass=nc.extensibletype):
        __customslots__ = {"plain": 3}

    class E(Exception, Plain):
        pass

    a = A()
    a.p, a.q = 1, 2
    assert (a.p, a.q) == (1, 2)
    with pytest.raises(AttributeError):
        a.r = 1
    assert D(x=1) == {"x": 1}
    assert data(D) == {b"d": 2}
    with pytest.raises(E):
        raise E
    assert data(E) == {b"plain": 3}


def test_cooperative_metaclasses():
    class Meta(abc.ABCMeta, nc.extensibletype):
        pass

    class Abstract(metaclass=Meta):
        __customslots__ = {"a": 1}

        @abc.abstractmethod
        def area(self): ...

    class Concrete(Abstract):
        def area(self):
            return 1

    with pytest.raises(TypeError, match="abstract"):
        Abstract()
    assert Concrete().area() == 1
    assert data(Concrete) == {b"a": 1}
    Abstract.register(int)
    assert isinstance(5, Abstract)


def test_a_metaclass_conflict_is_pythons_own():
    class A(metaclass=nc.extensibletype):
        __customslots__ = {"a": 1}

    with pytest.raises(TypeError, match=r"^metaclass conflict: "):

        class Broken(A, abc.ABC):
            pass

    assert data(A) == {b"a": 1}
    with pytest.raises(TypeError, match=r"^metaclass conflict: "):

        class AlsoBroken(nc.NativeCallable, abc.ABC):
            pass


def test_a_subclass_of_the_metaclass():
    class Meta(nc.extensibletype):
        def __new__(meta, name, bases, namespace, **options):
            return super().__new__(meta, name, bases, namespace)

        def __init__(cls, name, bases, namespace, **options):
            super().__init__(name, bases, namespace)
            cls.options = options

    class A(metaclass=Meta, colour="red"):
        __customslots__ = {"a": 1}

    assert A.options == {"colour": "red"}
    assert data(A) == {b"a": 1}


def test_classes_go_away():
    def make():
        class A(metaclass=nc.extensibletype):
            __customslots__ = {"a": 1}

        class B(A):
            __customslots__ = {"b": 1}

        B.itself = B
        return weakref.ref(A), weakref.ref(B)

    references = make()
    gc.collect()
    assert [one() for one in references] == [None, None]


@needs_gil  # otherwise classes have deferred reference counts
def test_objects_hold_their_class_once(cos, provider):
    """One reference too few would free a class while its own tuples still name it."""

    class Derived(provider.Base):
        pass

    class Overriding(Derived):
        def __call__(self, x):
            return 7.0

    class Further(provider.Derived):
        pass

    class Named(nc.NativeCallable):
        __slots__ = ()

    class Open(nc.NativeCallable):
        pass

    class Plain(metaclass=nc.extensibletype):
        pass

    for cls in (Derived, Overriding, Further, Named, Open, Plain):
        before = sys.getrefcount(cls)
        made = cls(cos) if issubclass(cls, nc.NativeCallable) else cls()
        assert sys.getrefcount(cls) == before + 1, cls
        del made
        assert sys.getrefcount(cls) == before, cls


def test_match_statements_are_not_changed():
    """Bit 22 of tp_flags, which SEP 200 takes, is CPython's _Py_TPFLAGS_MATCH_SELF."""

    class A(metaclass=nc.extensibletype):
        __customslots__ = {"a": 1}

    assert not A.__flags__ & 1 << 22
    match A():
        case A():
            pass
        case _:
            pytest.fail("no match")

    def takes(value):
        match value:
            case A(_):
                return True
        return False

    with pytest.raises(TypeError, match="accepts 0 positional sub-patterns"):
        takes(A())


# -- overridden calls ----------------------------------------------------------------------------


@pytest.fixture
def cos():
    return nc.load("m").function("cos", "d:d")


def native(consumer, f):
    found = [consumer.entry(f, "d:d", 0, by_slot) for by_slot in (False, True)]
    assert found[0] == found[1]
    return found[0]


def exposes_nothing(consumer, f, fails):
    assert native(consumer, f) is None
    assert f.signatures == f.entries == ()
    assert "d:d" not in f
    assert CALL_ID not in keys(type(f))
    for take in (f.address, f.to_ctypes, f.to_cffi, f.to_capsule, f.to_scipy):
        with fails(nc.NoEntryError, "'cos' has no entries"):
            take()
    with fails(nc.NoEntryError, "no native entry for 'd:d'; 'cos' has no entries"):
        f["d:d"]
    with fails(
        AttributeError,
        f"'cos' has no built-in view: '{type(f).__name__}' overrides __call__, "
        "which a view would not run",
    ):
        f.builtin


def test_a_subclass_that_overrides_call_exposes_no_entries(consumer, cos, fails):
    class Doubled(nc.NativeCallable):
        def __call__(self, x):
            return 2 * super().__call__(x)

    f = Doubled(cos, name="cos")
    assert f(0.0) == 2.0
    assert consumer.total(f, 0.0, 1) == (2.0, "python")
    exposes_nothing(consumer, f, fails)
    assert cos(0.0) == 1.0
    assert native(consumer, cos) is not None


def test_assigning_and_deleting_call_later(consumer, cos, fails):
    class Late(nc.NativeCallable):
        pass

    class Child(Late):
        pass

    f, g = Late(cos, name="cos"), Child(cos, name="cos")
    for _ in range(3):
        assert f(0.0) == g(0.0) == 1.0
        assert native(consumer, f) == native(consumer, g) is not None
        Late.__call__ = lambda self, x: 5.0
        assert f(0.0) == g(0.0) == 5.0
        exposes_nothing(consumer, f, fails)
        exposes_nothing(consumer, g, fails)
        del Late.__call__
    assert f(0.0) == 1.0


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="CPython passes it on from then on")
def test_vectorcall_is_inherited_while_the_call_table_is():
    vectorcall = 1 << 11  # Py_TPFLAGS_HAVE_VECTORCALL

    class Sub(nc.NativeCallable):
        pass

    class Over(Sub):
        def __call__(self, x):
            return x

    assert Sub.__flags__ & vectorcall
    assert not Over.__flags__ & vectorcall
    Sub.__call__ = Over.__call__
    assert not Sub.__flags__ & vectorcall
    del Sub.__call__
    assert Sub.__flags__ & vectorcall


# -- keys ----------------------------------------------------------------------------------------


def test_interned_keys_are_one_address():
    assert _abi.intern(b"d:d") == _abi.intern(bytes(bytearray(b"d:d"))) != _abi.intern(b"d:d\0")
    assert _abi.intern(b"") % 8 == 0
    address = _abi.intern(b"a key\0of this test")
    assert _lib.interned(address) == b"a key\0of this test"
    assert _lib.interned(address + 8) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.skipif(
    "NATIVECALL_TEST_SANITIZED" in os.environ, reason="a fork leaves ASan's own locks as they were"
)
def test_a_child_of_a_fork_can_intern(python):
    """The registry's mutex is held across the fork, while other threads intern without the GIL."""
    code = """
import os, signal, threading, warnings
import nativecall as nc
from nativecall.conformance import _abi
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
over = threading.Event()
def run(number):
    count = 0
    while not over.is_set():
        _abi.intern(b"thread %d, string %d" % (number, count))
        count += 1
_abi.intern(b"first")  # cffi holds a lock while it reads a type for the first time
threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(2)]
for one in threads: one.start()
for number in range(20):
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        _abi.intern(b"child %d" % number)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
over.set()
for one in threads: one.join()
"""
    assert python(code) == ""


def test_the_callables_own_rows(cos):
    assert CALL_ID in keys(cos)
    assert keys(cos) == keys(nc.NativeCallable)
    assert math.cos(0.0) == cos(0.0)


def test_subclasses_made_while_their_base_is_made_inherit_its_slots():
    made = []

    class Base(metaclass=nc.extensibletype):
        def __init_subclass__(cls):
            if not made:
                made.append(None)
                made.append(nc.extensibletype("Inner", (cls,), {}))

    class Outer(Base):
        __customslots__ = {"key": 0x10}

    assert [slot.key for slot in nc.customslots(made[1])] == [b"key"]
    assert nc.customslots(Outer) == nc.customslots(made[1])
