"""Enumerators by name: arguments, variables and memory that C declares as an enum take a `str`.

What C gives back stays a number, and a name that no enumerator has is told with those there are.
"""

from __future__ import annotations

import pickle

import pytest

import nativecall as nc

DECLARED = """
    enum colour { RED, GREEN = 5, BLUE };
    typedef enum { LOW = -1, HIGH = 1 } level;
    struct pixel { enum colour colour; level levels[2]; };
    extern enum colour colour;
    extern level volume;
    extern enum colour palette[2];
    extern struct pixel pixel;
    extern int count;
    int paint(enum colour c);
    level louder(int by, level l);
    int mix(int *seen, enum colour c, level l);
    int first(enum colour c, ...);
    int plain(int c);
"""
SOURCE = """
    enum colour { RED, GREEN = 5, BLUE };
    typedef enum { LOW = -1, HIGH = 1 } level;
    struct pixel { enum colour colour; level levels[2]; };
    enum colour colour = GREEN;
    level volume;
    enum colour palette[2];
    struct pixel pixel;
    int count;
    int paint(enum colour c) { return 10 * (int)c; }
    level louder(int by, level l) { return (level)(l + by); }
    int mix(int *seen, enum colour c, level l) { *seen = (int)c; return l; }
    int first(enum colour c, ...) { return (int)c; }
    int plain(int c) { return c; }
"""
NO_PINK = "must be an enumerator of 'enum colour' (got 'PINK'); there are 'RED', 'GREEN', 'BLUE'"


@pytest.fixture(scope="module")
def path(builder):
    return builder.library(SOURCE, "enums")


@pytest.fixture
def lib(path):
    return nc.load(path, DECLARED)


def test_arguments(lib, fails):
    assert lib.paint("BLUE") == 60
    assert lib.paint(c="GREEN") == lib.paint(5) == lib.paint(lib.GREEN) == 50
    assert lib.louder(1, "LOW") == 0
    assert lib.first("BLUE") == lib.first("BLUE", 2.0, 3) == 6
    with fails(ValueError, f"argument 1 of 'paint' {NO_PINK}"):
        lib.paint("PINK")
    with fails(TypeError, "argument 1 of 'paint' must be an integer (got float)"):
        lib.paint(1.0)
    for function, values in ((lib.louder, ("LOW", 1)), (lib.plain, ("RED",)), (lib.paint, (b"",))):
        with pytest.raises(TypeError, match=r"^argument 1 of '\w+' must be an integer \(got "):
            function(*values)


def test_a_name_that_is_like_another_is_told(lib):
    with pytest.raises(ValueError, match=r"got 'GREN'.; did you mean 'GREEN'. there are 'RED', "):
        lib.paint("GREN")


def test_of_many_the_first_are_told(path):
    names = ", ".join(f"N{i}" for i in range(40))
    paint = nc.load(path, f"enum many {{ {names} }}; int paint(enum many);").paint
    assert paint("N39") == 390
    with pytest.raises(ValueError, match=r"'N11' and 28 others$"):
        paint("X")


def test_arguments_beside_out_parameters(path):
    lib = nc.load(path, DECLARED, out={"mix": ["seen"]})
    assert lib.mix("BLUE", "HIGH") == (1, 6)
    checked = nc.load(path, DECLARED, check=lambda result, function, arguments: (result, arguments))
    assert checked.paint("BLUE") == (60, ("BLUE",))


def test_fixed_arguments(lib, fails):
    assert lib.mix.bind(c="GREEN", l="HIGH").signatures == ("i:&i",)
    assert lib.paint.bind("BLUE")() == 60
    assert lib.louder.bind(1)("HIGH") == 2
    with fails(ValueError, f"argument 1 of 'paint' {NO_PINK}"):
        lib.paint.bind("PINK")


def test_functions_by_the_types_of_a_library(lib, path):
    wrapped = nc.wrap(lib.paint.address(), "int (enum colour)", types=lib.types)
    assert wrapped("BLUE") == 60
    assert nc.wrap(lib.paint.address(), "int (int)")(6) == 60
    assert pickle.loads(pickle.dumps(lib.paint))("BLUE") == 60


def test_headers(path, tmp_path):
    (tmp_path / "enums.h").write_text(DECLARED + "\n#define ALSO paint\n#define MOOD volume\n")
    for _ in range(2):  # read, then kept
        lib = nc.load(path, header="enums.h", include=[tmp_path])
        assert lib.ALSO("BLUE") == 60
        lib.MOOD = "LOW"
        assert lib.volume == -1


def test_without_generated_code(lib, monkeypatch):
    from nativecall._libffi import call

    function = call.make_fallback(lib.louder)
    assert function(2, "LOW") == 1
    with pytest.raises(ValueError, match="argument 2 of 'louder' must be an enumerator of 'level'"):
        function(2, "MIDDLE")
    with pytest.raises(TypeError, match="argument 1 of 'louder' must be an integer"):
        function("LOW", 2)


def test_variables(lib, fails):
    lib.colour = "BLUE"
    lib.volume = "LOW"
    assert (lib.colour, lib.volume) == (6, -1)
    with fails(ValueError, f"variable 'colour' {NO_PINK}"):
        lib.colour = "PINK"
    assert lib.colour == 6
    with fails(TypeError, "variable 'count' must be an integer (got str)"):
        lib.count = "RED"
    lib.palette = ["RED", "BLUE"]
    lib.pixel = {"colour": "GREEN", "levels": ["HIGH", "LOW"]}
    assert lib.palette.tolist() == [0, 6]
    assert (lib.pixel.colour, list(lib.pixel.levels)) == (5, [1, -1])


def test_memory(lib, fails):
    made = lib.new("struct pixel *", {"colour": "BLUE", "levels": ("LOW", 1)})
    assert (made.colour, made.levels[0], made.levels[1]) == (6, -1, 1)
    assert lib.new("enum colour *", "GREEN")[0] == 5
    assert list(lib.new("level[2]", ["HIGH", "LOW"])) == [1, -1]
    with fails(ValueError, f"field 'colour' of 'struct pixel' {NO_PINK}"):
        lib.new("struct pixel *", {"colour": "PINK"})
