"""Call functions in threads."""

from __future__ import annotations

import contextlib
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

HAS_GIL = not sysconfig.get_config_var("Py_GIL_DISABLED")
#: Options of a Python that loads modules which do not say that they need no GIL.
WITHOUT_GIL = [] if HAS_GIL else ["-X", "gil=0"]
needs_gil = pytest.mark.skipif(not HAS_GIL, reason="about the GIL, which this build lacks")


@contextlib.contextmanager
def turns(seconds: float) -> Iterator[None]:
    """Set how often threads switch."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def each(function: Callable[[Any], Any], *items: Any) -> list[Any]:
    """Call a function with each item, in one thread each, concurrently; return the results.

    Raise the first exception of any thread after all have ended.
    """
    results: list[Any] = [None] * len(items)
    errors: list[BaseException] = []
    gate = threading.Barrier(len(items))

    def run(place: int, item: Any) -> None:
        gate.wait()
        try:
            results[place] = function(item)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(items)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def together(*tasks: Callable[[], Any]) -> list[Any]:
    """Run each task in its own thread, concurrently; return the results, as `each` does."""
    return each(lambda task: task(), *tasks)
