"""Has another process call what kernels.py has: ``driver.py WAY``, a start method of
multiprocessing, ``loky`` or ``dask``. Prints what went wrong.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import kernels

import nativecall as nc

#: Calls (function, argument, argument) in another process.
Submit = Callable[..., Any]


@nc.callback("d:d")
def local(x: float) -> float:
    """Of the program itself, which cloudpickle takes along and others find by its name."""
    return 5 * x


@contextmanager
def multiprocess(way: str) -> Iterator[Submit]:
    with multiprocessing.get_context(way).Pool(1) as pool:
        yield lambda *call: pool.apply(call[0], call[1:])


@contextmanager
def loky(_: str) -> Iterator[Submit]:
    from loky import ProcessPoolExecutor

    with ProcessPoolExecutor(1) as pool:
        yield lambda *call: pool.submit(*call).result()


@contextmanager
def dask(_: str) -> Iterator[Submit]:
    """The scheduler and the worker are processes of this machine, by the loopback interface."""
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(host="127.0.0.1", **options) as cluster, Client(cluster) as client:
        yield lambda *call: client.submit(*call, pure=False).result()


def main(way: str) -> None:
    submit_by = {"loky": loky, "dask": dask}.get(way, multiprocess)
    with submit_by(way) as submit:
        for name, (f, values, expected) in [
            *kernels.CALLS.items(),
            ("of the program itself", (local, (4.0,), 20.0)),
        ]:
            process, result = submit(kernels.called, f, values)
            if process == os.getpid() or result != expected:
                print(f"{name}: {result} in {process}")
        if way in ("loky", "dask"):
            # Without a name, as in a notebook.
            unnamed = nc.callback("d:d", lambda x: 7 * x)
            process, result = submit(kernels.called, unnamed, (2.0,))
            if process == os.getpid() or result != 14.0:
                print(f"a lambda: {result} in {process}")
    print("done")


if __name__ == "__main__":
    main(sys.argv[1])
