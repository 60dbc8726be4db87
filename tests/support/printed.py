"""Compare the output shown in documents with the printed output."""

from __future__ import annotations

import doctest
import sys


class Checker(doctest.OutputChecker):
    """Compares as doctest does, but for words that later versions of Python leave out."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Whether what was printed is what is shown."""
        if sys.version_info >= (3, 14):
            want = want.replace("float division by zero", "division by zero")
        return super().check_output(want, got, optionflags)
