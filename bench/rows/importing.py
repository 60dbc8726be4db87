"""What `import nativecall` costs: wall time, resident memory, and which modules it goes to."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial

from bench import installed, timing
from bench.rows import Effort
from bench.section import Group, Section

METHOD = (
    "ms of a whole `python -c 'import …'` process, bare interpreters among them, interleaved in "
    "shuffled rounds after one warm-up each; an import costs the median of the rounds' differences "
    "from the bare interpreter. Memory is the resident set at the end of such a process, median of "
    "several, less that of the bare interpreter. Self times are from one run with -X importtime."
)
BARE = "bare interpreter"
MODULES = ("nativecall", "ctypes", "cffi", "numpy")
RESIDENT = (
    "import sys\n"
    "try:\n"
    "    text = open('/proc/self/smaps_rollup').read()\n"
    "    print(int(text.split('Rss:')[1].split()[0]) * 1024)\n"
    "except OSError:\n"
    "    import resource\n"
    "    unit = 1 if sys.platform == 'darwin' else 1024\n"
    "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)\n"
)


def processes(effort: Effort) -> int:
    """Return the number of processes; each sample is a process of its own already."""
    return effort.choose(1, 1)


def run(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter, away from the source tree."""
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        cwd=tempfile.gettempdir(),
        capture_output=True,
        text=True,
        check=True,
    )


def wall_ms(code: str) -> float:
    """Return the wall time in ms of an interpreter that runs `code`."""
    start = time.perf_counter_ns()
    run(code)
    return (time.perf_counter_ns() - start) / 1e6


def resident_mb(code: str, runs: int) -> float:
    """Return the median resident set in MB of an interpreter that has run `code`."""
    return statistics.median(int(run(f"{code}\n{RESIDENT}").stdout) / 1e6 for _ in range(runs))


def self_times_us(code: str) -> dict[str, int]:
    """Return the time in µs that each module takes itself when an interpreter runs `code`."""
    times = {}
    for line in run(code, "-X", "importtime").stderr.splitlines():
        own, _, name = line.removeprefix("import time:").split("|")
        if own.strip().isdigit():
            times[name.strip()] = int(own)
    return times


def slowest(module: str, count: int) -> list[dict[str, object]]:
    """Return the modules that `import module` spends the most time in itself, slowest first."""
    bare = self_times_us("pass")
    times = {
        name: own for name, own in self_times_us(f"import {module}").items() if name not in bare
    }
    order = sorted(times, key=lambda name: times[name], reverse=True)
    return [{"module": name, "self_us": times[name]} for name in order[:count]]


def measure(effort: Effort) -> Section:
    """Time and weigh the imports of nativecall and, for scale, of three others."""
    section = Section("import", METHOD)
    codes = {BARE: "pass"}
    for module in MODULES:
        try:
            run(f"import {module}")
        except subprocess.CalledProcessError as error:
            section.absent[f"import {module}"] = error.stderr.strip().splitlines()[-1]
        else:
            codes[f"import {module}"] = f"import {module}"
    subjects = {name: partial(wall_ms, code) for name, code in codes.items()}
    samples = timing.interleave(subjects, effort.choose(40, 20), effort.seed)
    section.groups.append(Group("wall time", "ms", BARE, samples))
    runs = effort.choose(5, 3)
    bare = resident_mb("pass", runs)
    section.figures["resident_mb"] = {
        name: resident_mb(code, runs) - bare for name, code in codes.items() if name != BARE
    }
    if "import nativecall" in codes:
        section.figures["nativecall_slowest"] = slowest("nativecall", 8)
        section.figures["nativecall_editable"] = installed.is_editable()
    return section
