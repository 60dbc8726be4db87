"""Every box in, every box out: the values of each pair, and how many calls go through Python.

The pairs are those of support/matrix.py, which writes the table in the documents.
"""

from __future__ import annotations

import pytest

from support import build, matrix
from support.modes import GENERATED

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="no C compiler")


@pytest.fixture(scope="session")
def found() -> dict[tuple[str, str], matrix.Cell]:
    """What the pairs did, for the tables."""
    return {}


@pytest.mark.parametrize("row", matrix.ROWS, ids=[row.name for row in matrix.ROWS])
def test_a_box_reaches_every_consumer(row, boxes, found) -> None:
    pytest.importorskip("Cython")
    for column in matrix.COLUMNS:
        try:
            cell = found[row.name, column.name] = matrix.cell(boxes, row, column)
        except matrix.Missing as error:
            pytest.skip(f"{error} is not installed")
        expected = "Python" if column.python else "native"
        assert cell.what in (expected, "no"), (column.name, cell)
        assert cell.what == expected or (row.name, column.name) in matrix.REFUSED, cell


def test_calls_through_python_are_counted(boxes) -> None:
    """What the matrix counts by is no matter of course: a callable without entries is boxed."""
    pytest.importorskip("Cython")
    total, boxed = boxes.c.by_callback(lambda x: x * x, matrix.COUNT)
    assert boxed
    assert total == pytest.approx(sum(x * x for x in matrix.POINTS))
    with pytest.raises(LookupError):
        boxes.c.by_lookup(lambda x: x, matrix.COUNT)


@pytest.mark.parametrize("document", matrix.DOCUMENTS)
def test_documents_have_the_table_that_was_found(document, boxes, found) -> None:
    if not GENERATED:
        pytest.skip("the table is of generated code")  # conversions differ without llvmlite
    pairs = [(row.name, column.name) for row in matrix.ROWS for column in matrix.COLUMNS]
    if not all(pair in found for pair in pairs):
        pytest.skip("not all pairs were tried")
    text = (matrix.ROOT / document).read_text(encoding="utf-8")
    table = matrix.DOCUMENTS[document](found)
    assert matrix.put(text, table) == text, "python -m support.matrix, in tests, writes the table"
