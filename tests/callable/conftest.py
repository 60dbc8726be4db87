"""What carries out conversions: generated code, and the core without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nativecall._callable import hooks, thunk
from support.modes import GENERATED, REFUSED


@pytest.fixture(params=["generated", "core"])
def carrier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Which of the two carries out the conversions that a test makes."""
    if request.param == "generated":
        if not GENERATED:
            pytest.skip(REFUSED)
        yield "generated"
        return
    hooks._thunk_specs.clear()
    monkeypatch.setattr(thunk, "thunk", lambda made: (made.packed, False))
    yield "core"
    hooks._thunk_specs.clear()
