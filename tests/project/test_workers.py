"""Runs of the tests in workers: one that is lost ends the run, which never passes or hangs then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("xdist")
LOST = "import os\ndef test_one(): pass\ndef test_two(): os._exit(66)\n"
#: How a worker is lost: the last file that it is sent, and what its pytest loads.
WAYS = {
    "in a test": (LOST, ""),
    "at its end": ("def test_one(): pass\n", "def pytest_sessionfinish(): os._exit(66)\n"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("way", WAYS)
def test_a_lost_worker_ends_the_run(tmp_path, way):
    last, plugin = WAYS[way]
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text("def test_one(): pass\n")
    (tmp_path / "test_d.py").write_text(last)
    here = "os.environ.get('PYTEST_XDIST_WORKER') == 'gw1'"
    (tmp_path / "leaving.py").write_text(f"import os\nif {here}:\n    {plugin or 'pass'}\n")
    words = ["-n2", "--dist=loadfile", "-p", "conftest", "-p", "leaving", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parents[1]}{os.pathsep}{tmp_path}"},
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "crashed and worker restarting disabled" in done.stdout
