"""Build a consumer in Rust, one binary for all versions of Python, and pass it callables."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from _shared import show_midpoint

with tempfile.TemporaryDirectory() as directory:
    command = ["rustc", "--edition", "2021", "-O", "--crate-type", "cdylib"]
    if sys.platform == "darwin":
        command += ["-C", "link-arg=-undefined", "-C", "link-arg=dynamic_lookup"]
    command += ["-o", f"{directory}/midpoint.abi3.so"]
    subprocess.run([*command, Path(__file__).with_name("midpoint.rs")], check=True)
    sys.path.insert(0, directory)
    import midpoint

    show_midpoint(midpoint)
