"""`nativecall.wrap` and `nativecall.callback` as objects: C code does their usual calls, and all
that looks at them sees the Python functions that do the others.
"""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import pydoc
import weakref

import pytest

import nativecall as nc
from nativecall import _lib

SHORTCUTS = pytest.mark.parametrize("verb", [nc.wrap, nc.callback], ids=["wrap", "callback"])
hypot = nc.load("m").address("hypot")


@SHORTCUTS
def test_it_is_the_function_to_all_who_look(verb):
    function = verb.__wrapped__
    assert inspect.isfunction(function)
    assert inspect.isroutine(verb)
    assert inspect.signature(verb) == inspect.signature(function)
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
        assert getattr(verb, name) is getattr(function, name)
    assert (verb.__defaults__, verb.__kwdefaults__) == (
        function.__defaults__,
        function.__kwdefaults__,
    )
    assert repr(verb) == repr(function)
    assert "Parameters" in pydoc.render_doc(verb)
    assert weakref.ref(verb)() is verb


@SHORTCUTS
def test_it_is_pickled_and_copied_by_its_name(verb):
    for one in (pickle.loads(pickle.dumps(verb)), copy.copy(verb), copy.deepcopy(verb)):
        assert one is verb


def test_as_an_attribute_of_a_class_it_is_a_method():
    class Address(int):
        wrapped = nc.wrap

    assert Address.wrapped is nc.wrap
    assert Address(hypot).wrapped("d:dd")(3, 4) == 5.0


def test_other_calls_are_the_functions():
    """Options, other classes than the usual ones, and what is wrong: in Python, as it is said."""
    assert nc.wrap(hypot, signature="d:dd")(3, 4) == 5.0
    assert nc.wrap(hypot, "d:dd", name=None)(3, 4) == 5.0
    assert nc.wrap(hypot, "d:dd", name="h", doc="d").__doc__ == "d"
    assert nc.wrap(hypot, "d:dd", **{"".join(["na", "me"]): "h"}).__name__ == "h"
    assert nc.callback("d:d", function=abs)(-2.0) == 2.0
    assert nc.callback("d:d", abs, name="other").__name__ == "other"
    with pytest.raises(TypeError, match=r"wrap\(\) missing 1 required positional argument"):
        nc.wrap()
    with pytest.raises(TypeError, match="there is no option 'nam'; did you mean 'name'"):
        nc.wrap(hypot, "d:dd", nam="h")
    with pytest.raises(TypeError, match=r"wrap\(\) takes a target and its signature \(3 arg"):
        nc.wrap(hypot, "d:dd", "h")
    with pytest.raises(TypeError, match="multiple values for argument 'signature'"):
        nc.wrap(hypot, "d:dd", signature="d:dd")
    with pytest.raises(TypeError, match="multiple values for argument 'function'"):
        nc.callback("d:d", abs, function=abs)


def test_what_a_shortcut_leads_to():
    types = _lib.types

    def function(target, signature=None, *, name=None):
        return target, signature, name

    shortcut = types.shortcut("wrap", function, ())
    assert shortcut(hypot, "d:dd")(3, 4) == 5.0
    assert shortcut("x", "d:dd", name="n") == ("x", "d:dd", "n")
    assert shortcut(hypot, "O:O") == (hypot, "O:O", None)
    for wrong in (("wrap", abs, ()), ("callback", function, (int,)), ("warp", function, ())):
        with pytest.raises(
            TypeError, match="a shortcut has a kind, a function and its kind's data"
        ):
            types.shortcut(*wrong)
    # A cycle through the function is collected.
    function.itself = shortcut
    gone = weakref.ref(shortcut)
    del function, shortcut, wrong
    gc.collect()
    assert gone() is None
