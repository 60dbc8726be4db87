"""The hostile trial of an installed nativecall; ends with 1 when it has found something.

    python tests/hostile/run.py --seconds 3600            all kinds in turn, that long
    python tests/hostile/run.py --steps 200 --seed ci     steps of each kind, always the same
    python tests/hostile/run.py --share 0.1               a tenth of the steps that tests take
    python tests/hostile/run.py --kinds classes races       only these
    python tests/hostile/run.py --replay races:ci:117     one step again, in a child
    python tests/hostile/run.py --corpus                  what was found before

It runs with any Python that has nativecall installed, also under AddressSanitizer (the nox session
`hostile`) and on a debug build. What a kind lacks here is said in the table at the end.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The source tree beside an installed package has no compiled core.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE.parents[1]]
sys.path[:0] = [str(HERE), str(HERE.parent)]
os.environ.setdefault("NATIVECALL_CACHE_DIR", "")

import driver  # noqa: E402  # found by sys.path

# Steps of each kind that take a second or a few.
STEPS = {
    "conversions": 1000,
    "classes": 600,
    "races": 30,
    "endings": 10,
    "echoes": 60,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, help="for all kinds together")
    parser.add_argument("--steps", type=int, help="of each kind")
    parser.add_argument("--share", type=float, help="of the steps that take some seconds")
    parser.add_argument("--seed", default=None, help="any text; the time by default")
    parser.add_argument("--kinds", nargs="+", choices=driver.KINDS, default=list(driver.KINDS))
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--replay", metavar="KIND:SEED:STEP", help="with --steps: from there on")
    parser.add_argument("--corpus", action="store_true", help="steps that were found bad once")
    parser.add_argument("--keep", metavar="FOLDER", help="for libraries and journals")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--journal", help=argparse.SUPPRESS)
    return parser.parse_args()


def corpus() -> list[tuple[str, str, int]]:
    """Kind, seed and step of what was found before."""
    lines = (HERE / "corpus" / "steps.txt").read_text(encoding="utf-8").splitlines()
    words = [line.partition("#")[0].split() for line in lines]
    return [(kind, seed, int(step)) for kind, seed, step in filter(None, words)]


def in_turn(trial: driver.Trial, kinds: list[str], seconds: float, jobs: int) -> None:
    """All kinds for about as long, in slices, so that each has several children."""
    end = time.monotonic() + seconds
    slices = max(1, round(seconds / (len(kinds) * 60)))
    length = seconds * jobs / (len(kinds) * slices)

    def some(kind: str, number: int) -> None:
        left = min(length, end - time.monotonic())
        if left > 0.5:
            first = number * 10_000_000
            trial.run(kind, first, 10_000_000, left)

    with ThreadPoolExecutor(jobs) as pool:
        numbers = [number for number in range(slices) for _ in kinds]
        list(pool.map(some, kinds * slices, numbers))


def main() -> int:
    options = arguments()
    if options.child:
        driver.run_child(
            options.child,
            options.seed,
            options.first,
            options.steps,
            float("inf") if options.seconds is None else options.seconds,
            Path(options.journal),
        )
        return 0
    seed = options.seed or str(int(time.time()))
    kinds = options.kinds
    steps: list[tuple[str, str, int]] = []
    if options.replay:
        kind, seed, step = options.replay.rsplit(":", 2)
        steps = [(kind, seed, int(step))]
    elif options.corpus:
        steps = corpus()
        kinds = []
    if steps:
        kinds = list(dict.fromkeys(kind for kind, _, _ in steps))
    with driver.working_folder(options.keep) as folder:
        trial = driver.Trial(seed, folder)
        present = []
        for kind in kinds:
            why = importlib.import_module(kind).missing()
            if why is None:
                present.append(kind)
            else:
                trial.results[kind] = driver.Result(kind)
                trial.results[kind].left.add(f"all: {why}")
        driver.compile_libraries(folder, present)
        if steps:
            for kind, its_seed, step in steps:
                if kind in present:
                    trial.seed = its_seed
                    trial.run(kind, step, options.steps or 1)
        elif options.seconds is not None:
            in_turn(trial, present, options.seconds, options.jobs)
        else:
            with ThreadPoolExecutor(options.jobs) as pool:
                counts = [options.steps or 100] * len(present)
                if options.share is not None:
                    counts = [max(round(options.share * STEPS[kind]), 1) for kind in present]
                list(pool.map(trial.run, present, [0] * len(present), counts))
        print(f"\nseed {seed}, Python {sys.version.split()[0]}\n{trial.table()}")
    return 1 if trial.findings else 0


if __name__ == "__main__":
    sys.exit(main())
