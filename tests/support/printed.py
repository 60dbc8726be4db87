"""Compare the output shown in documents with the printed output."""

from __future__ import annotations

import doctest
import sys


class Checker(doctest.OutputChecker):
    """Compares as doctest does, ignoring words that later versions of Python omit."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Return whether the printed output is the expected one."""
        if sys.version_info >= (3, 14):
            want = want.replace("float division by zero", "division by zero")
        return super().check_output(want, got, optionflags)
