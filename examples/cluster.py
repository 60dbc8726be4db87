"""Integrate over a cluster: Dask's workers get a C function, and SciPy's `quad` calls it there.

``python cluster.py`` starts two workers here; ``python cluster.py tcp://HOST:8786`` has a scheduler
that runs already, whose workers need nativecall and SciPy, share them out.
"""

from __future__ import annotations

import logging
import os
import sys

import numpy as np
from distributed import Client, LocalCluster
from scipy.integrate import quad
from scipy.special import itj0y0

import nativecall as nc


def piece(f: nc.NativeCallable, start: float, end: float) -> tuple[int, float]:
    """The process that integrates, and the integral. Runs on a worker."""
    return os.getpid(), quad(f.to_scipy(), start, end)[0]


def connect() -> Client:
    if len(sys.argv) > 1:
        return Client(sys.argv[1])
    return Client(
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=logging.CRITICAL,  # a worker may miss the scheduler while both end
        )
    )


def main() -> None:
    # It travels as "jn of libm, with 0 for n": each worker finds its own libm.
    j0 = nc.load("m", "double jn(int n, double x);").jn.bind(0)
    edges = np.linspace(0, 200, 21)
    with connect() as client, client.cluster or client:
        found = client.gather(client.map(piece, [j0] * 20, edges[:-1], edges[1:]))
    total = sum(part for _, part in found)
    print(f"J0 from 0 to 200   {total:.12f}, SciPy has {itj0y0(200)[0]:.12f}")
    print(f"by the workers     {len(found)} pieces, none here: {os.getpid() not in dict(found)}")


if __name__ == "__main__":
    main()
