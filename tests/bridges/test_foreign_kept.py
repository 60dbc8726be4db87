"""The boxes that a callable keeps: made once, never stale, and gone with it."""

import copy
import ctypes
import gc
import pickle
import weakref

import pytest

import nativecall as nc
from support.threads import together

pytest.importorskip("scipy")
FORMS = ("to_ctypes", "to_cffi", "to_capsule", "to_scipy")


class Owner:
    """What can be referred to weakly."""


def address(name="cos"):
    return nc.load("m").address(name)


@pytest.mark.parametrize("form", FORMS)
def test_a_box_is_made_once(form):
    f = nc.wrap(address(), "d:d")
    make = getattr(f, form)
    box = make()
    assert make() is box
    assert make(None) is make(signature=None) is box
    named = make("d:d")
    assert make("double (double x)") is make(signature="d:d") is named
    assert nc.wrap(named)(0.0) == nc.wrap(box)(0.0) == 1.0
    assert getattr(nc.wrap(address(), "d:d"), form)() is not box


@pytest.mark.parametrize("form", FORMS)
def test_each_entry_has_its_own(form):
    f = nc.wrap({"d:d": address(), "f:f": address("cosf")})
    boxes = {text: getattr(f, form)(text) for text in f.signatures}
    for text, box in boxes.items():
        assert getattr(f, form)(text) is box
        assert nc.wrap(box).address() == f.address(text)
    if form == "to_scipy":
        assert f.to_scipy() is f.to_scipy()
        assert nc.wrap(f.to_scipy()).address() == address()
    else:
        with pytest.raises(TypeError, match="must name one"):
            getattr(f, form)()


@pytest.mark.parametrize("form", FORMS)
def test_a_new_entry_is_not_hidden_by_what_is_kept(form):
    f = nc.wrap(address("cosf"), "f:f")
    before = getattr(f, form)()
    f.add("d:d", address())
    if form == "to_scipy":
        assert nc.wrap(f.to_scipy()).address() == address()  # as SciPy calls it
    else:
        with pytest.raises(TypeError, match="'signature' must name one"):
            getattr(f, form)()
    assert nc.wrap(getattr(f, form)("d:d"))(0.0) == 1.0
    assert nc.wrap(getattr(f, form)("f:f")).address() == address("cosf")
    assert nc.wrap(before)(0.0) == 1.0


@pytest.mark.parametrize("form", FORMS)
def test_another_function_is_not_hidden_by_what_is_kept(form):
    single, several = (
        nc.wrap(address(), "d:d"),
        nc.wrap({"d:d": address(), "f:f": address("cosf")}),
    )
    for f in (single, several):
        before = getattr(f, form)("d:d")
        f.add("d:d", address("sin"), replace=True)
        assert nc.wrap(getattr(f, form)("d:d")).address() == address("sin")
        assert nc.wrap(before).address() == address()
    assert nc.wrap(getattr(single, form)()).address() == address("sin")
    assert nc.wrap(several.to_scipy()).address() == address("sin")


@pytest.mark.parametrize("form", FORMS)
def test_a_specialisation_is_not_hidden_by_what_is_kept(form):
    f = nc.wrap(address(), "d:d", name="cosine")
    before = getattr(f, form)()
    f.specialize = lambda f, text: address("cosf") if text == "f:f" else None
    assert getattr(f, form)() is before
    assert nc.wrap(getattr(f, form)("f:f")).address() == address("cosf")
    assert f.signatures == ("d:d", "f:f")
    if form != "to_scipy":
        with pytest.raises(TypeError, match="must name one"):
            getattr(f, form)()


def test_a_class_that_gets_a_call_of_its_own_gives_no_boxes():
    class Own(nc.NativeCallable):
        __slots__ = ()

    f = Own(address(), "d:d")
    made = [getattr(f, form)() for form in FORMS]
    Own.__call__ = lambda self, x: 2.0
    for form, box in zip(FORMS, made, strict=True):
        assert nc.wrap(box)(0.0) == 1.0
        with pytest.raises(nc.NoEntryError):
            getattr(f, form)()


@pytest.mark.parametrize("form", FORMS)
def test_a_box_keeps_what_its_entry_points_into(form):
    owner = Owner()
    alive = weakref.ref(owner)
    f = nc.wrap(address(), "d:d", owner=owner)
    gone = weakref.ref(f)
    box = getattr(f, form)()
    del f, owner
    assert gone() is None, "no circle"
    gc.collect()
    assert alive() is not None
    del box
    assert alive() is None


@pytest.mark.parametrize("form", FORMS)
def test_what_is_kept_goes_with_the_callable(form):
    owner = Owner()
    alive = weakref.ref(owner)
    f = nc.wrap({"d:d": address()}, owner=owner)
    getattr(f, form)()
    getattr(f, form)("d:d")
    del f, owner
    assert alive() is None


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_function_that_reaches_its_callable_is_collected(form, named):
    """What is kept leads to the Python function, and that to the callable."""
    reached = []
    f = nc.callback("d:d", lambda x, reached=reached: len(reached))
    reached.append(f)
    box = getattr(f, form)("d:d") if named else getattr(f, form)()
    alive = weakref.ref(f)
    function = weakref.ref(f.function)
    del f, reached
    gc.collect()
    assert function() is not None, "the box needs it"
    assert nc.wrap(box)(1.0) == 1.0
    del box
    gc.collect()
    assert (alive(), function()) == (None, None)


@pytest.mark.parametrize("inner", ["function", "tuple"])
def test_a_capsule_that_is_held_by_itself_is_not_collected(inner):
    """It keeps the function though nothing else leads to the callable that keeps it."""
    reached = []
    f = nc.callback("d:d", lambda x, reached=reached: len(reached))
    reached.append(f)
    box = f.to_scipy()
    held = box.function if inner == "function" else box
    function = weakref.ref(f.function)
    del f, reached, box
    gc.collect()
    assert function() is not None
    assert nc.wrap(held)(1.0) == 1.0
    del held
    gc.collect()
    assert function() is None


@pytest.mark.parametrize("form", FORMS)
def test_boxes_of_a_class_with_more_to_own_keep_its_objects(form):
    class Holding(nc.NativeCallable):
        pass

    f = Holding(address(), "d:d")
    f.library = Owner()
    alive = weakref.ref(f.library)
    box = getattr(f, form)()
    assert getattr(f, form)() is not box
    del f
    gc.collect()
    assert alive() is not None
    assert nc.wrap(box)(0.0) == 1.0
    del box
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    "change",
    [
        lambda p: setattr(p, "errcheck", lambda *_: 5.0),
        lambda p: setattr(p, "restype", ctypes.c_int64),
        lambda p: setattr(p, "argtypes", (ctypes.c_int,)),
        lambda p: p._objects.clear(),
    ],
)
def test_a_ctypes_pointer_that_was_changed_is_nobody_elses(change):
    f = nc.wrap(address(), "d:d")
    changed = f.to_ctypes()
    change(changed)
    box = f.to_ctypes()
    assert box is not changed
    assert box(0.0) == 1.0
    assert f.to_ctypes() is box
    owner = Owner()
    f, alive = nc.wrap(address(), "d:d", owner=owner), weakref.ref(owner)
    changed = f.to_ctypes()
    changed.restype = ctypes.c_double
    del f, owner
    assert alive() is not None
    assert changed(0.0) == 1.0


def test_a_cffi_pointer_that_was_released_is_nobody_elses():
    cffi = pytest.importorskip("cffi")
    f = nc.wrap(address(), "d:d")
    released = f.to_cffi()
    cffi.FFI().release(released)
    box = f.to_cffi()
    assert box is not released
    assert box(0.0) == 1.0
    assert f.to_cffi() is box


def test_what_cffi_calls_when_it_drops_a_box():
    owner = Owner()
    alive = weakref.ref(owner)
    keep = nc._ext.Destructor(owner)
    assert keep.owner is owner
    del owner
    for wrong in ((), (1, 2)):
        with pytest.raises(TypeError, match="one argument"):
            keep(*wrong)
    assert alive() is not None
    assert keep("what is dropped") is None
    assert keep.owner is alive() is None
    keep("again")
    owner = Owner()
    alive = weakref.ref(owner)
    owner.keep = nc._ext.Destructor(owner)  # a cycle
    del owner
    gc.collect()
    assert alive() is None
    with pytest.raises(TypeError):
        nc._ext.Destructor()
    with pytest.raises(TypeError, match="keyword"):
        nc._ext.Destructor(1, owner=2)


def test_boxes_with_user_data_are_not_kept():
    f = nc.wrap(address(), "d:dP")
    data = bytearray(8)
    boxes = [
        f.to_scipy(user_data=data),
        f.to_scipy("d:dP", data),
        f.to_scipy("d:dP", user_data=None),
    ]
    assert len({id(box) for box in boxes}) == 3
    assert f.to_scipy("d:dP") is boxes[2]
    assert boxes[0].user_data is not None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda f: f.to_ctypes("d:d", None),
            r"to_ctypes\(\) takes from 0 to 1 positional arguments",
        ),
        (lambda f: f.to_cffi(sig="d:d"), r"to_cffi\(\) got an unexpected keyword argument 'sig'"),
        (
            lambda f: f.to_scipy("d:d", signature="d:d"),
            r"to_scipy\(\) got multiple values for argument 'signature'",
        ),
        (
            lambda f: f.to_scipy("d:d", None, None),
            r"to_scipy\(\) takes from 0 to 2 positional arguments",
        ),
        (
            lambda f: f.to_capsule(user_data=None),
            r"unexpected keyword argument 'user_data'",
        ),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(TypeError, match=message):
        call(nc.wrap(address(), "d:d"))


@pytest.mark.parametrize("form", FORMS)
def test_wrong_signatures(form):
    f = nc.wrap(address(), "d:d")
    getattr(f, form)()
    with pytest.raises(nc.SignatureError):
        getattr(f, form)("no signature")
    with pytest.raises(TypeError):
        getattr(f, form)(3)
    if form != "to_scipy":
        with pytest.raises(nc.NoEntryError):
            getattr(f, form)("q:q")


def test_many_entries_are_found_by_every_spelling():
    texts = [f"d:{'d' * count}" for count in range(40)]
    f = nc.wrap({text: address() + count for count, text in enumerate(texts)}, name="many")
    for _ in range(3):
        for count, text in enumerate(texts):
            spelled = f"double ({', '.join(['double'] * count) or 'void'})"
            assert f.address(text) == f.address(spelled) == address() + count
            assert f[text] is f[spelled]
            assert text in f
            assert f" {text}" in f
            assert f.address(" " * (count % 9) + text) == address() + count
    assert "f:f" not in f
    f.add("f:f", address("cosf"))
    assert "f:f" in f
    assert f.address("f:f") == address("cosf")
    f.add("d:d", address("sin"), replace=True)
    assert f.address("d:d") == address("sin")


def test_parts_that_reach_their_whole_are_collected():
    reached = []
    parts = {f"d:{'d' * count}": lambda *_, reached=reached: len(reached) for count in range(1, 12)}
    f = nc.wrap({text: nc.callback(text, function) for text, function in parts.items()})
    reached.append(f)
    assert f["d:d"](1.0) == 1.0
    alive = weakref.ref(f)
    del f, reached, parts
    gc.collect()
    assert alive() is None


def test_threads_share_what_is_kept():
    f = nc.wrap(address("cosf"), "f:f", name="shared")

    def ask():
        for _ in range(60):
            for form in FORMS:
                assert nc.wrap(getattr(f, form)("f:f")).address() == address("cosf"), form

    def add():
        for count in range(1, 30):
            f.add(f"d:{'d' * count}", address())

    together(ask, ask, ask, add)
    assert all(getattr(f, form)("f:f") is getattr(f, form)("f:f") for form in FORMS)


def test_views_are_pickled_as_attributes_and_other_functions_as_ever():
    cos = nc.load("m", "double cos(double);").cos
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        view, built_in, method = pickle.loads(
            pickle.dumps([cos.builtin, len, [1, 2].append], protocol)
        )
        assert view is nc.wrap(view).builtin
        assert (view(0.0), built_in, method.__self__) == (1.0, len, [1, 2])
    assert copy.copy(cos.builtin) is copy.deepcopy(cos.builtin) is cos.builtin
    with pytest.raises(AttributeError):
        _ = cos.cos
