"""The sections of the benchmark; each module measures one and says how.

A module has ``METHOD``, which goes into the report, and ``measure(effort)``, which returns the
`Section`. The program runs each in ``processes(effort)`` fresh interpreters and joins their rounds.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How much time to spend."""

    quick: bool
    seed: int

    def choose(self, full: int, quick: int) -> int:
        """Return one of two numbers."""
        return quick if self.quick else full
