"""Build a C extension that takes a callback, and pass it native and Python callables."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from _shared import built, show_midpoint

with built(Path(__file__).resolve().parent):
    import midpoint

    show_midpoint(midpoint)
