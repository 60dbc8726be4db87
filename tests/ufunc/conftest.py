"""What carries out the loops of ufuncs: generated code, and the core without it."""

from __future__ import annotations

import pytest

from nativecall._codegen import conversions
from support.modes import GENERATED, REFUSED


@pytest.fixture(params=["generated", "core"])
def carrier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of the two carries out the loops that a test makes."""
    if request.param == "core":
        monkeypatch.setattr(conversions, "loop", lambda plan: None)
    elif not GENERATED:
        pytest.skip(REFUSED)
