"""Native callables in other processes: multiprocessing in its three ways, loky and Dask.

Each way is a program of its own, driver.py, with one other process, which calls what kernels.py
has.
"""

import importlib.util
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.levels import where

HERE = Path(__file__).parent
WAYS = ("fork", "spawn", "forkserver", "loky", "dask")  # Dask takes long, and pickles as loky does


@pytest.mark.parametrize("way", where(WAYS, lambda way: way != "dask"))
def test_they_are_called_there(way, tmp_path):
    if way in ("loky", "dask"):
        library = {"loky": "loky", "dask": "distributed"}[way]
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"needs {library}")
    elif way not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system starts no process by {way}")
    found = subprocess.run(
        [sys.executable, str(HERE / "driver.py"), way],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        # Those of a scheduler find what they import there, too.
        env={**os.environ, "PYTHONPATH": str(HERE)},
        timeout=240,
    )
    assert found.stdout == "done\n", found.stdout + found.stderr
    assert found.returncode == 0
