"""The vectors in the package are what the core makes, and what the documents say.

Each file is made anew and compared, so that none goes stale; then each is read by functions that
were written from the documents alone (`support.written`, `support.packed`).
"""

from __future__ import annotations

import json
import platform
import random
import re
import sys
from typing import Any

import pytest

from nativecall._cdecl.spelling import parse
from support import build, packed, typevectors, vectors, written
from support.spellings import python_side
from support.threads import HAS_GIL, needs_gil
from support.vectors import installed, number

pytestmark = pytest.mark.skipif(
    sys.maxsize < 2**32 or sys.byteorder != "little", reason="vectors are for 64-bit little-endian"
)

HERE = f"{sys.platform}-{platform.machine()}"


@pytest.fixture(scope="module")
def core(builder, include):
    if build.compiler() is None:
        pytest.skip("no C compiler")
    return vectors.Core(builder, include)


def read(name: str) -> list[dict[str, Any]]:
    return json.loads(installed(name))["vectors"]


def words(vector: dict[str, Any]) -> tuple[int, ...]:
    return tuple(map(number, vector["words"]))


@pytest.mark.skipif(parse("g:").text == "d:", reason="where long double is double, g says no more")
@pytest.mark.parametrize("name", [n for n in vectors.FILES if HAS_GIL or n != "views"])
def test_the_files_are_what_the_core_makes(core, name):
    assert installed(name) == vectors.made(core, name)


def test_every_file_is_listed():
    folder = vectors.resources.files("nativecall") / "abi"
    assert {file.name for file in folder.iterdir()} == {f"{name}.json" for name in vectors.FILES}


def test_runtimes(core):
    for vector in read("runtimes"):
        described, suits = vector["runtime"], vector["suits"]
        assert written.suits(described) == suits, described
        assert core.suits(vectors.module_of(described), look=True) == suits, described


@pytest.fixture(scope="module")
def foreign_find(foreign):
    """The minimal consumer, which shares no header with the product."""
    folder = foreign("consumer", "vectors_foreign")
    return build.load_extension(next(folder.glob("vectors_foreign.*"))).find


def test_types(core, foreign_find):
    seen = set()
    for vector, obj in typevectors.each_type(core, read("types")):
        derives, extensible = vector["derives"], vector["extensible"]
        seen.add((derives, extensible))
        described = typevectors.seen(type(obj))
        assert described == {key: vector[key] for key in ("metatypes", "bases")}
        assert written.derives(vector["metatypes"]) == derives, vector
        assert written.extensible(vector["metatypes"], vector["bases"]) == extensible, vector
        with typevectors.offering(obj):
            found = foreign_find(obj, "d:d", 0)
        assert found == (typevectors.OFFERED if extensible else None), vector
    assert seen == {(False, False), (True, False), (True, True)}


@needs_gil  # the distances in the file are for objects with its header
def test_views(core, foreign_find):
    seen = []
    for vector in read("views"):
        seen.append(vector["view"])
        assert written.is_view(vector) == vector["view"], vector
        obj = typevectors.bound(core, vector["basicsize"])
        assert type(obj).__basicsize__ == vector["basicsize"]
        with typevectors.offering(obj), typevectors.viewing(obj, vector) as function:
            assert (type(function) is type(len)) == vector["exact"]
            found = foreign_find(function, "d:d", 0)
        assert found == (typevectors.OFFERED if vector["view"] else None), vector
    assert 10 < sum(seen) < len(seen) - 10


def test_hashes():
    for vector in read("hashes"):
        assert written.hash_bytes(bytes.fromhex(vector["bytes"])) == number(vector["hash"])


def test_signatures():
    seen = set()
    for vector in read("signatures"):
        text = vector["text"]
        if "error" in vector:
            assert vector["error"] == ("NC_E_TOOLONG" if len(text) > 4096 else "NC_E_FORMAT")
            if text and len(text) <= 4096:
                assert python_side(text) == vector["offset"] + 1, text
            continue
        assert packed.pack(vector["canonical"]) == words(vector)
        seen.update(vector["platforms"])
        for each in vector["platforms"]:
            assert parse(vectors.spelled(text, each)).text == vector["canonical"]
        if HERE in vector["platforms"]:
            assert python_side(text) == vector["canonical"]
    assert seen == set(vectors.PLATFORMS)


def test_packed_words():
    good = [vector for vector in read("packed") if "error" not in vector]
    for vector in good:
        assert packed.pack(vector["signature"], number(vector["flags"])) == words(vector)
    assert len(good) > 40


def test_the_page_has_some_of_them():
    page = (build.EXT.parents[1] / "docs" / "abi" / "signatures.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w:\S*)` \| (\w+) \| ((?:`0x[0-9A-F]{16}` ?)+)\|$", page, re.M)
    assert len(rows) == 3
    for text, flags, shown in rows:
        wanted = tuple(int(word, 16) for word in re.findall(r"0x[0-9A-F]{16}", shown))
        assert packed.pack(text, int(flags, 0)) == wanted


def test_slot_tables():
    for vector in read("slottables"):
        table = bytes.fromhex(vector["bytes"])
        rows = [number(row[0]) for row in vector["rows"]]
        for probe in vector["probes"]:
            id, row = number(probe["id"]), probe["row"]
            assert written.slot(table, id, probe["position"]) == row
            assert row == (rows.index(id) if id > 1 and id in rows else None)


def listed(vector: dict[str, Any]) -> list[tuple[str, int]]:
    return [(entry["signature"], number(entry["flags"])) for entry in vector["entries"]]


def test_call_tables():
    found = set()
    for vector in read("calltables"):
        for find in vector["finds"]:
            wanted = find["signature"], number(find["refuse"])
            assert written.in_table(listed(vector), *wanted) == find["entry"]
            found.add(find["entry"])
    assert {None, 0, 1, 2, 3, 4} == found


def test_packed_tables():
    for vector in read("packedtables"):
        entries = listed(vector)
        laid = [w for at, entry in enumerate(entries, 1) for w in (*packed.pack(*entry), at)]
        assert words(vector) == (*laid, 0)
        for find in vector["finds"]:
            wanted = find["signature"], number(find["refuse"])
            assert written.in_table(entries, *wanted) == find["entry"]
            function = written.packed_in(words(vector), packed.pack(wanted[0]), wanted[1])
            assert function == (None if find["entry"] is None else find["entry"] + 1)


def test_tier_2():
    results = set()
    for vector in read("tier2"):
        if "classes" in vector:
            found = written.api_of(vector["classes"])
            assert found == vector["api"], vector
            results.add(found)
        else:
            wanted = vector["signature"], number(vector["refuse"])
            assert written.usable(vector["offered"], *wanted) == vector["usable"], vector
    assert results == {None, 0, 1, "error"}


def test_tier_2_by_looking_only(core):
    good = vectors.Entry(b"d:d", 0, 64)
    taker, _ = vectors.chained(core, [{"attribute": vectors.GIVEN, "call": True}])
    for vector in read("tier2"):
        if "classes" in vector:
            obj, _ = vectors.chained(core, vector["classes"])
            assert core.ask(obj, "d:d", 0, good, look=True) == isinstance(vector["api"], int)
        else:
            entry = vectors.laid_out(vector["offered"])
            wanted = vector["signature"], number(vector["refuse"])
            assert core.ask(taker, *wanted, entry, look=True) == vector["usable"]


OBJECT = written.Class([], [], 0, None, "builtin")


def model(described: dict[str, Any], mro: list[written.Class]) -> written.Class:
    """A class as the documents have it."""
    rows = [tuple(map(number, row)) for row in described["rows"]]
    call, kind = described["call"], described["kind"]
    return written.Class(mro, rows, described.get("offset", 0), call, kind)


def random_class(rng: random.Random, name: str) -> dict[str, Any]:
    keys = rng.sample([vectors.A, vectors.B, vectors.C, 0x1000], rng.randint(0, 3))
    rows = [(key, rng.randrange(3), rng.randrange(100)) for key in keys]
    kind = rng.choice(["static", "static", "class", "class", "plain"])
    if kind == "plain":
        return vectors.plain(name, call=rng.choice([None, "own"]))
    if kind == "class":
        return vectors.class_(name, "", *rows, call=rng.choice([None, None, "own"]))
    offset = 0
    if rng.random() < 0.4:
        offset = rng.choice([0, 16])
        for row in vectors.BOTH[: rng.randint(1, 2)]:
            rows.insert(rng.randint(0, len(rows)), row)
    while rng.random() < 0.3:
        rows.insert(rng.randint(0, len(rows)), (1, 0, 0))
    return vectors.static(name, "", rows, 60, offset, rng.choice([None, "a", "b"]))


def test_inheritance(core):
    for vector in read("inheritance"):
        made = vectors.family(core, vector["classes"])
        classes = {object: OBJECT}
        for described in vector["classes"]:
            cls = made[described["name"]]
            one = classes[cls] = model(described, [classes[base] for base in cls.__mro__[1:]])
            if one.extensible:
                table = [tuple(map(number, row)) for row in described["table"]]
                assert table == one.table == vectors.rows_of(cls), described["name"]
                assert described["merged_offset"] == one.offset == vectors.offset_of(cls)


def test_inheritance_of_random_families(core):
    rng = random.Random(16)
    compared = 0
    for _ in range(300):
        classes = {object: OBJECT}
        for at in range(rng.randint(2, 7)):
            described = random_class(rng, f"C{at}")
            bases = rng.sample([*classes][1:], min(len(classes) - 1, rng.choice([1, 1, 2, 3])))
            if described["kind"] != "class":  # static derive from static ones
                bases = [base for base in bases if classes[base].kind == described["kind"]]
            try:
                cls = core.type(described["name"], bases or [object], described)
            except TypeError:
                continue  # there is no such MRO
            one = classes[cls] = model(described, [classes[base] for base in cls.__mro__[1:]])
            if one.extensible:
                compared += 1
                assert one.table == vectors.rows_of(cls), cls.__mro__
                assert one.offset == vectors.offset_of(cls)
    assert compared > 600
