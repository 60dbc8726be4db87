"""What the tests of native objects share: an extension module that makes and uses them."""

from __future__ import annotations

from typing import Any

import pytest

from support import build


@pytest.fixture(scope="session")
def ext(builder: Any, include: Any) -> Any:
    """tests/ext/objects.c, built against the installed headers."""
    made = builder.extension(
        "objects.c", "nc_objects_ext", include=include, flags=("-O2", "-pthread")
    )
    return build.load_extension(made)
