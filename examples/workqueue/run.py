"""Run jobs from a queue in native threads without the GIL, and return them to Python.

The queue and its jobs are twice there, in C and in C++; to Python they are the same.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from _shared import built

HERE = Path(__file__).resolve().parent
THREADS, JOBS, LENGTH = 3, 500, 200


def finished(module: ModuleType) -> list:
    """The jobs that are done by now."""
    jobs = []
    while (job := module.take()) is not None:
        jobs.append(job)
    return jobs


def work(module: ModuleType) -> None:
    class Twins(module.Job):
        """A Python class of the same objects: native threads run its method, with the GIL."""

        def __init__(self, name: str, *fields: object) -> None:
            super().__init__(*fields)
            self.name = name

        def run(self) -> None:
            super().run()  # the native method: the primes
            self.primes = min(self.primes, 10)

    done = []

    def put(job: object) -> None:
        while not module.put(job):  # the queue is full: take some out
            done.extend(finished(module))
            time.sleep(0)

    batch = module.Batch()
    module.start(THREADS)
    for i in range(JOBS):
        put(module.Job(i * LENGTH, (i + 1) * LENGTH, batch=batch))
    put(twins := Twins("twins", 0, 100))
    while len(done) <= JOBS:
        done += finished(module)
        time.sleep(0)
    module.stop()
    print(f"{module.__name__:<18} {len(done)} jobs")
    print(f"primes below {LENGTH * JOBS}: {batch.primes}")
    found = {job.low: job.primes for job in done if job is not twins}
    print(f"by jobs            {found[0]}, {found[200]}, {found[400]}, ...")
    print(f"Python's method    {twins.primes}, of {twins.name!r}")
    try:
        module.put(batch)
    except TypeError as error:
        print(f"TypeError          {error}")


with built(HERE):
    import jobs
    import jobspp

    work(jobs)
    work(jobspp)
