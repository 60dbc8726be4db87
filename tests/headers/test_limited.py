"""What modules can do that are built for the limited API: find and offer by tier 2, and no more."""

import pytest

import nativecall as nc
from support import build


@pytest.fixture(scope="module")
def limited(builder):
    """The module of tests/ext/limited.c, which has no header of ours."""
    return build.load_extension(builder.extension("limited.c", "nc_limited", include=build.EXT))


def test_tier_2_finds_entries(limited, lib):
    f = nc.wrap(lib.address("square"), "d:d", gil="need")
    assert limited.find(f, "d:d", 0) == lib.address("square")
    assert limited.find(f, "d:d", 1) is limited.find(f, "f:f", 0) is None

    class Overrides(nc.NativeCallable):
        def __call__(self, x):
            return 2.0

    class Takes(limited.Offers):
        __nativecall_api__ = None

    class Wrong(limited.Offers):
        __nativecall_api__ = 3

    for other in (Overrides(lib.address("square"), "d:d"), Takes(), Wrong(), len, 1, object()):
        assert limited.find(other, "d:d", 0) is None


def test_tier_2_offers_entries(limited):
    obj = limited.Offers()
    address = limited.find(obj, "d:d", 0)
    assert address
    assert nc.wrap(obj)(2.5) == 3.5
    assert [(entry.signature, entry.address) for entry in nc.wrap(obj).entries] == [
        ("d:d", address)
    ]


@pytest.mark.compiler
def test_the_headers_do_not_compile(include, tmp_path):
    """As what they read is closed there (docs/abi/README.md)."""
    compiler = build.compiler()
    if compiler is None:
        pytest.skip("no C compiler")
    source = tmp_path / "closed.c"
    source.write_text("#include <nativecall/nativecall_abi.h>\n")
    command = [
        *compiler,
        "-fsyntax-only",
        f"-I{include}",
        "-isystem",
        build.sysconfig.get_path("include"),
    ]
    command.append(str(source))
    assert build.refusal(command) == ""
    assert build.refusal([*command, "-DPy_LIMITED_API=0x030B0000"]) != ""
