"""`Library.freeze` and `nativecall.load(…, frozen=…)`: what a package ships in place of headers."""

import pickle
import re
import shutil
import subprocess
import sys
import time
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nativecall as nc
from nativecall import _cache
from nativecall._cdecl import header
from nativecall._cli import main
from nativecall._library import frozen
from support import build

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(build.compiler() is None, reason="there is no C compiler"),
]

HEADER = """
#include <stddef.h>
#define TIN_NAME "tin"
#define TIN_MOST 10
#define TIN_ALL ((void *)-1)
enum tin_kind { TIN_ROUND = 3, TIN_FLAT };
typedef struct tin { double width; int kind : 3; struct { int low, high; } range; } tin;
typedef struct tin_lid tin_lid;
typedef struct { double x, y; } tin_at;
double tin_area(tin_at size);
double tin_missing(double);
int tin_split(double x, int *whole);
char *tin_copy(const char *name);
void tin_free(void *);
extern int tin_count;
static inline double tin_twice(double x) { return 2 * x; }
static inline double tin_both(tin_at size) { tin_count++; return 2 * tin_area(size); }
#define tin_double_area tin_both
static inline double tin_broken(double x) { return tin_missing(x); }
#define tin_broken_too tin_broken
typedef int tin_vector __attribute__((vector_size(16)));
tin_vector tin_wrong(tin_vector);
"""
SOURCE = """
#include <stdlib.h>
#include <string.h>
typedef struct { double x, y; } tin_at;
double tin_area(tin_at size) { return size.x * size.y; }
int tin_split(double x, int *whole) { *whole = (int)x; return 0; }
char *tin_copy(const char *name) { return strdup(name); }
int tin_freed;
void tin_free(void *name) { tin_freed++; free(name); }
int tin_count = 5;
"""


@pytest.fixture(scope="module")
def made(builder, tmp_path_factory):
    """A folder with the header, the library and the frozen file."""
    folder = tmp_path_factory.mktemp("tin")
    (folder / "tin.h").write_text(HEADER)
    shutil.copy(builder.library(SOURCE, "tin"), folder / "libtin.so")
    nc.load(folder / "libtin.so", header=folder / "tin.h").freeze(folder / "tin.nc")
    return folder


@pytest.fixture
def there(made, tmp_path, monkeypatch):
    """What a package has of it, where there is nothing else."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(_cache, "shared", lambda: _cache.Cache(None))
    for name in ("libtin.so", "tin.nc"):
        shutil.copy(made / name, tmp_path)
    return tmp_path


def test_all_that_a_header_says(there, made):
    lib = nc.load(there / "libtin.so", frozen=there / "tin.nc")
    assert (lib.tin_area((3, 4)), lib.TIN_NAME, lib.TIN_MOST, lib.TIN_FLAT) == (12, b"tin", 10, 4)
    assert int(lib.ffi.cast("intptr_t", lib.TIN_ALL)) == -1
    lib.tin_count = 7
    assert lib.tin_count == 7
    one = lib.new("tin", {"width": 2, "kind": 3, "range": {"high": 4}})
    assert (one.kind, one.range.high, lib.ffi.sizeof("enum tin_kind")) == (3, 4, 4)
    assert "tin_lid" in lib.types
    assert lib.skipped["tin_wrong"]
    assert {*lib.declarations.functions} == {
        *("tin_area", "tin_missing", "tin_split", "tin_copy", "tin_free", "tin_twice", "tin_both"),
        "tin_double_area",
    }


def test_inline_functions_find_the_library_that_they_call(there):
    """Though it has no name of its own, is elsewhere than where it was linked, and another one with
    its file's name has been loaded.
    """
    lib = nc.load(there / "libtin.so", frozen=there / "tin.nc")
    before = lib.tin_count
    assert (lib.tin_twice(2.5), lib.tin_both((3, 4)), lib.tin_double_area((1, 1))) == (5, 24, 2)
    assert lib.tin_count == before + 2


def test_inline_functions_find_a_library_by_its_own_name(made, builder, tmp_path):
    path = builder.library(SOURCE, "named", flags=("-O1", "-Wl,-soname,libnamed.so.3"))
    nc.load(path, header=made / "tin.h").freeze(tmp_path / "named.nc")
    shutil.copy(path, tmp_path / "elsewhere.so")
    path.unlink()
    program = """
import nativecall as nc
lib = nc.load("./elsewhere.so", frozen="named.nc")
assert lib.tin_both((3, 4)) == 24 and lib.tin_count == 6
"""
    # In a process of its own: a loader has one library by a name.
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)


@pytest.mark.parametrize("name", ["tin_broken", "tin_broken_too"])
def test_inline_functions_that_could_not_be_compiled(there, name):
    lib = nc.load(there / "libtin.so", frozen=there / "tin.nc")
    with pytest.raises(nc.SymbolError, match="undefined symbol: tin_missing"):
        getattr(lib, name)
    assert name in lib.skipped


def test_options_hold(there):
    lib = nc.load(
        there / "libtin.so",
        frozen=there / "tin.nc",
        only=["tin_s*", "tin_c*", "tin_fre*"],
        out={"tin_split": ["whole"]},
        free={"tin_copy": "tin_free"},
        encoding="utf-8",
    )
    assert lib.tin_split(3.5) == (0, 3)
    freed = nc.load(there / "libtin.so", "extern int tin_freed;")
    before, copied = freed.tin_freed, lib.tin_copy("x")
    assert nc.string(copied) == b"x"
    del copied
    assert freed.tin_freed == before + 1
    assert not hasattr(lib, "tin_area")
    assert "tin_at" in lib.types
    with pytest.raises(nc.SignatureError, match="'tin_wrong' cannot be offered"):
        nc.load(there / "libtin.so", frozen=there / "tin.nc", skip=False)
    with pytest.raises(nc.SymbolError, match="did you mean 'tin_area'"):
        nc.load(there / "libtin.so", frozen=there / "tin.nc", only="tin_are")


def test_what_is_frozen_pickles_and_freezes(there):
    lib = nc.load(there / "libtin.so", frozen=there / "tin.nc")
    assert pickle.loads(pickle.dumps(lib)).tin_area((2, 2)) == 4
    lib.freeze(there / "again.nc")
    assert (there / "again.nc").read_bytes() == (there / "tin.nc").read_bytes()
    again = nc.load(there / "libtin.so", frozen=there / "again.nc")
    assert again.tin_both((1, 2)) == 4
    assert again.skipped == lib.skipped


def test_a_file_of_a_package_in_an_archive(there):
    with zipfile.ZipFile(there / "package.zip", "w") as archive:
        archive.write(there / "tin.nc", "package/tin.nc")
    file = zipfile.Path(there / "package.zip") / "package" / "tin.nc"
    assert nc.load(there / "libtin.so", frozen=file).TIN_MOST == 10


def test_types_of_another_library(made, builder, tmp_path):
    path = builder.library(
        "typedef struct { double x, y; } tin_at; double f(tin_at a) { return a.x; }", "user"
    )
    base = nc.load(made / "libtin.so", frozen=made / "tin.nc")
    nc.load(path, "double f(tin_at);", types=base).freeze(tmp_path / "user.nc")
    lib = nc.load(path, frozen=tmp_path / "user.nc", types=base)
    assert lib.f(base.new("tin_at", (3, 4))[0]) == 3


def test_texts_and_their_bodies(tmp_path):
    text = "static inline int three(void) { return 3; } double cos(double);"
    nc.load("m", text).freeze(tmp_path / "m.nc")
    lib = nc.load("m", frozen=tmp_path / "m.nc")
    assert (lib.three(), lib.cos(0)) == (3, 1)


def test_it_is_the_same_wherever_it_is_made(made, tmp_path, monkeypatch):
    kept = _cache.Cache(None)
    monkeypatch.setattr(_cache, "shared", lambda: kept)
    for _ in range(2):  # the second is from the cache
        nc.load(made / "libtin.so", header=made / "tin.h").freeze(tmp_path / "tin.nc")
        assert (tmp_path / "tin.nc").read_bytes() == (made / "tin.nc").read_bytes()
    assert str(made).encode() not in (made / "tin.nc").read_bytes()


def test_command(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(made)
    to = tmp_path / "made.nc"
    assert main(["freeze", "tin.h", "-o", str(to), "--library", "./libtin.so"]) == 0
    assert capsys.readouterr().out == f"wrote {to}\n"
    assert nc.load(made / "libtin.so", frozen=to).tin_both((1, 2)) == 4
    (made / "flag.h").write_text("#ifdef FLAG\n#include <tin.h>\nenum { VALUE = FLAG };\n#endif\n")
    more = ["-I", str(made), "-DFLAG=3", "--only", "VALUE", "--only", "tin_a*"]
    assert main(["freeze", "flag.h", "-o", str(to), *more]) == 0
    lib = nc.load(made / "libtin.so", frozen=to)
    assert (lib.VALUE, lib.tin_area((1, 2)), hasattr(lib, "TIN_MOST")) == (3, 2, False)
    capsys.readouterr()
    assert main(["freeze", "./none.h", "-o", str(to)]) == 2
    assert "header './none.h' is not found" in capsys.readouterr().err.replace(f"{made}/", "./")


def test_stubs_are_those_of_the_header(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    texts = []
    for name, source in (
        ("by_header", 'header=folder + "/tin.h"'),
        ("by_file", 'frozen=folder + "/tin.nc"'),
    ):
        (tmp_path / f"{name}.py").write_text(
            f"import nativecall as nc\nfolder = {str(made)!r}\n"
            f"tin = nc.load(folder + '/libtin.so', {source})\n"
        )
        assert main(["stubs", name, "--output", "-"]) == 0
        texts.append(capsys.readouterr().out.partition("\n")[2])
    assert texts[0] == texts[1]
    assert "tin_both" in texts[0]


# -- files that cannot be used ---------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_refused(there, data):
    whole = bytearray((there / "tin.nc").read_bytes())
    what = data.draw(st.sampled_from(["flip", "cut", "add", "overwrite"]))
    at = data.draw(st.integers(0, len(whole) - 1))
    if what == "flip":
        whole[at] ^= data.draw(st.integers(1, 255))
    elif what == "cut":
        del whole[at:]
    elif what == "add":
        whole[at:at] = data.draw(st.binary(min_size=1))
    else:
        some = data.draw(st.binary(min_size=1))
        if whole[at : at + len(some)] == some:
            return
        whole[at : at + len(some)] = some
    (there / "damaged.nc").write_bytes(whole)
    with pytest.raises(nc.LibraryError, match=r"is damaged, or was not|is for .* in format"):
        nc.load(there / "libtin.so", frozen=there / "damaged.nc")


@pytest.mark.parametrize(
    ("number", "system", "bits", "message"),
    [
        (1, "riscv64-linux-gnu", 2**63 - 1, "'riscv64-linux-gnu' in format 1"),
        (1, "x86_64-linux-musl", 2**63 - 1, "'x86_64-linux-musl' in format 1"),
        (1, "darwin", 2**63 - 1, r"'\w+-darwin-64' in format 1"),
        (1, "win32", 2**31 - 1, r"'\w+-win32-32' in format 1"),
        (9, "x86_64-linux-gnu", 2**63 - 1, "'x86_64-linux-gnu' in format 9"),
    ],
)
def test_another_abi_is_refused(tmp_path, monkeypatch, number, system, bits, message):
    lib = nc.load("m", "double cos(double);")
    with monkeypatch.context() as patched:
        patched.setattr(frozen, "FORMAT", number)
        patched.setattr("sys.implementation._multiarch", system)
        patched.setattr("sys.maxsize", bits)
        lib.freeze(tmp_path / "m.nc")
    ours = re.escape(f"is {frozen._spelled(frozen._key())}; freeze the header here")
    with pytest.raises(nc.LibraryError, match=f"is for {message}, and this process {ours}"):
        nc.load("m", frozen=tmp_path / "m.nc")


def test_the_format_has_the_number_of_these_tables():
    """A table that says something in another way is in another format."""
    text = HEADER.partition("typedef int tin_vector")[0]
    text = text.replace("char *", "void *")  # whose sign is the processor's
    table = header.read(header.wanted(None, (), {}, text)).table
    digest = _cache.hashed(repr(table).encode()).hexdigest()[:16]
    assert (frozen.FORMAT, digest) == (1, "71dea78e5dfb2785"), (
        "raise FORMAT if older files cannot be read"
    )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"frozen": "none.nc"}, nc.LibraryError, "'none.nc' cannot be read: No such file"),
        ({"frozen": "a\0b"}, nc.LibraryError, "cannot be read: embedded null byte"),
        ({"frozen": 3}, TypeError, r"'frozen' must be a path \(got int\)"),
        ({"frozen": "a", "header": "a.h"}, TypeError, "one of 'declarations', 'header' and"),
        ({"frozen": "a", "declarations": "int f(void);"}, TypeError, "one of 'declarations'"),
        ({"frozen": "a", "include": "b"}, TypeError, "are for headers, not for a frozen file"),
        ({"frozen": "a", "define": {"A": 1}}, TypeError, "are for headers, not for a frozen file"),
    ],
)
def test_options_that_make_no_sense(options, error, message):
    with pytest.raises(error, match=message):
        nc.load("m", **options)


def test_nothing_to_freeze(tmp_path):
    with pytest.raises(TypeError, match="has no declarations to freeze; load it with a header"):
        nc.load("m").freeze(tmp_path / "m.nc")
    with pytest.raises(TypeError, match=r"'path' must be a path \(got int\)"):
        nc.load("m", "double cos(double);").freeze(3)


def test_it_is_read_faster_than_its_header(tmp_path):
    """By a twentieth of the time, at most."""
    wanted = header.wanted("stdlib.h", (), {})
    nc.load(None, header="stdlib.h").freeze(tmp_path / "made.nc")

    def least(run):
        times = []
        for _ in range(3):
            began = time.perf_counter()
            run()
            times.append(time.perf_counter() - began)
        return min(times)

    whole = least(lambda: header._read(wanted))
    assert least(lambda: frozen.read(tmp_path / "made.nc", None, True)) <= whole / 20
