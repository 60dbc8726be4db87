"""Run the chain of run.py over Dask: each worker integrates a piece, and counts."""

from __future__ import annotations

import logging
import math
import os

import chain
import numpy as np
from distributed import Client, LocalCluster
from scipy.integrate import quad

import nativecall as nc


def piece(f: nc.NativeCallable, start: float, end: float) -> tuple[float, int, int]:
    """The integral, the calls with objects in this process so far, and the process."""
    return quad(f.to_scipy(), start, end)[0], chain.boxed, os.getpid()


def main() -> None:
    edges = np.linspace(0, 40, 9)
    cluster = LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=None,
        silence_logs=logging.CRITICAL,  # a worker may miss the scheduler while both end
    )
    with cluster, Client(cluster) as client:
        found = client.gather(client.map(piece, [chain.damped] * 8, edges[:-1], edges[1:]))
    values, boxed, processes = zip(*found, strict=True)
    print(f"8 pieces           {sum(values):.12f}")
    print(f"exact              {math.exp(0.25) * math.erfc(0.5):.12f}")
    print(f"calls with objects {max(boxed)}, none here: {os.getpid() not in processes}")


if __name__ == "__main__":
    main()
