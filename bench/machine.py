"""The machine a run was made on, and the versions of all that took part in it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

DISTRIBUTIONS = (
    "nativecall",
    "numpy",
    "cffi",
    "Cython",
    "nanobind",
    "pybind11",
    "numba",
    "llvmlite",
    "scipy",
    "setuptools",
)


def compiler_command() -> list[str]:
    """Return the C compiler to run: ``$CC``, else the one that Python was built with."""
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def first_line(command: list[str]) -> str:
    """Return the first line that `command` prints, or why there is none."""
    if shutil.which(command[0]) is None:
        return f"{command[0]}: not found"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0].strip() if lines else f"{shlex.join(command)}: no output"


def cpu_model() -> str:
    """Return the name of the CPU as the operating system gives it."""
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "CPU part"):
                return value.strip()
    if sys.platform == "darwin":
        return first_line(["sysctl", "-n", "machdep.cpu.brand_string"])
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Return the version of every distribution that takes part; absent ones say so."""
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def describe() -> dict[str, object]:
    """Return the description of machine and software that goes into every report."""
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "frequency_governor": governor.read_text().strip() if governor.exists() else "unknown",
        "architecture": platform.machine(),
        "os": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "python_compiler": platform.python_compiler(),
        "python_flags": sysconfig.get_config_var("PY_CFLAGS") or "",
        "compiler": first_line([*compiler_command(), "--version"]),
        "valgrind": first_line(["valgrind", "--version"]),
        "versions": versions(),
    }
