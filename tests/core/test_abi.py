"""docs/abi/ is true: its tables are what the compiler sees, and a stranger can go by it.

Sizes, offsets, types and values of the document become assertions, which do not compile when a
header says something else. Runtimes that are changed at the document's offsets are refused as it
says.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nativecall as nc
from nativecall._core import ffi, lib
from nativecall.conformance import _abi
from support import build
from support.written import hash_bytes

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "csrc" / "include" / "nativecall"
HEADERS = sorted(INCLUDE.rglob("*.h"))
PAGES = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs" / "abi").glob("*.md"))
}
GUIDES = {
    f"../{name}": (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("callbacks", "conformance", "dispatch")
}
DOCUMENT = "\n".join([*PAGES.values(), *GUIDES.values()])
H = type.__basicsize__

# Headers whose structs are seen by the one module that includes them, and never by another.
LOCAL = {
    "callback.h",
    "dispatch.h",
    "dynamiccall.h",
    "promotion.h",
    "prototype.h",
    "registercall.h",
    "signaturecursor.h",
    "signaturetext.h",
    "values.h",
    # Native objects are described in docs/objects.md; they are built on the ABI and no part of it.
    "nativeobject.h",
    "objectbody.h",
    "objectclass.h",
    "objectcount.h",
    "objectlife.h",
    "objectmemory.h",
    "objectnogil.h",
    "objecttype.h",
}
# Such structs in the other headers: working memory, and what writers and the runtime keep for
# themselves.
PRIVATE = {
    "NcInternChunk",
    "NcNativeTable",
    "NcPackedTable",
    "NcBasesChange",
    "NcCallTable",
    "NcGrowth",
    "NcGrowthBlock",
    "NcRetiredTable",
    "NcSlotBucket",
    "NcSlotLink",
    "NcSignatureText",
    "NcSlotScratch",
    "NcTypePrivate",
}

needs_64_bits = pytest.mark.skipif(
    sys.maxsize < 2**32, reason="the document gives offsets for 64 bits"
)


# -- the document --------------------------------------------------------------------------------


def rows_after(lines: list[str], start: int) -> list[list[str]]:
    """The cells of the table that begins at or after a line, without heading and rule."""
    while not lines[start].startswith("|"):
        start += 1
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split(" | ")])
    return rows


def declared(declaration: str) -> Iterator[tuple[str, str]]:
    """Name and type of what a C declaration declares, of each member where it is a union."""
    union = re.fullmatch(r"union \{ (.*); \} (\w+)", declaration)
    if union:
        for member in union[1].split("; "):
            for name, kind in declared(member):
                yield f"{union[2]}.{name}", kind
    elif function := re.fullmatch(r"(.*\(\*)(\w+)(\)\(.*\))", declaration):
        yield function[2], function[1] + function[3]
    else:
        found = re.fullmatch(r"(.*?)(\w+)(\[\d+\])?", declaration)
        assert found is not None, declaration
        yield found[2], found[1].strip() + (found[3] or "")


def documented_structs() -> tuple[dict[str, str | None], dict[tuple[str, str], tuple[str, str]]]:
    """Size of every struct that is declared; offset and type of every field."""
    sizes: dict[str, str | None] = {}
    fields = {}
    for block in re.findall(r"^```c\n(.*?)^```$", DOCUMENT, re.M | re.S):
        found = re.findall(
            r"typedef (?:struct|union)(?: \w+)? \{\s+"
            r"/\* (?:its beginning|((?:H \+ )?\d+) bytes)\b.*\*/\n((?:    .*\n)+)\} (\w+);\n",
            block,
        )
        assert len(found) == len(re.findall(r"^typedef .*\{", block, re.M)), block
        for size, lines, struct in found:
            assert struct not in sizes
            sizes[struct] = size or None
            for line in lines.splitlines():
                field = re.fullmatch(r"    (.*?);\s+/\* ((?:H \+ )?\d+)(?:: .*)? \*/", line)
                assert field is not None, line
                for name, kind in declared(field[1]):
                    fields[struct, name] = (field[2], kind)
            places = [
                int(field[0].split()[-1]) for key, field in fields.items() if key[0] == struct
            ]
            assert places == sorted(places), struct
    return sizes, fields


def documented_values() -> dict[str, int]:
    values: dict[str, int] = {}
    lines = DOCUMENT.splitlines()
    for i, line in enumerate(lines):
        if line == "| name | value | meaning |":
            for name, value, _ in rows_after(lines, i):
                assert name not in values
                values[name] = int(value, 0)
    return values


SIZES, FIELDS = documented_structs()
VALUES = documented_values()


def section(page: str, heading: str) -> str:
    """The text below a heading of a page, up to the next one of its level."""
    return PAGES[page].split(f"\n## {heading}\n")[1].split("\n## ")[0]


def at(struct: str, field: str) -> int:
    """Offset of a field, as documented."""
    return sum(H if part == "H" else int(part) for part in FIELDS[struct, field][0].split(" + "))


def assertions() -> str:
    """C that compiles where the headers are as the document says."""
    headers = ["extensibletype.h", "nativeapi.h", "nativetable.h", "view.h"]
    lines = [f"#include <nativecall/{name}>" for name in headers]
    lines += ['#include "layout.h"', "#define H sizeof(PyHeapTypeObject)"]
    lines += [f"LAYOUT_SIZE({name}, {size});" for name, size in SIZES.items() if size is not None]
    lines += [f"LAYOUT_FIELD({', '.join(key + value)});" for key, value in FIELDS.items()]
    lines += [f"LAYOUT_VALUE({name}, {value}u);" for name, value in VALUES.items() if value >= 0]
    lines += [f"LAYOUT_VALUE({name}, {value});" for name, value in VALUES.items() if value < 0]
    # The shift of docs/abi/runtime.md, "Types".
    lines += ["LAYOUT_VALUE(NC_TABLE_SHIFT(0), 0);"]
    lines += ["LAYOUT_VALUE(NC_TABLE_SHIFT(100), 100 - (Py_ssize_t)offsetof(PyObject, ob_type));"]
    return "\n".join([*lines, ""])


def test_every_struct_is_in_the_document():
    structs = {
        name
        for header in HEADERS
        if header.name not in LOCAL
        for name in re.findall(
            r"^\}\s*(?:NC_\w+ )?(\w+);", header.read_text(encoding="utf-8"), re.M
        )
    }
    assert {"PyCustomSlot", "NcRuntime", "NcSlotLink"} <= structs
    assert set(SIZES) == structs - PRIVATE


def test_every_name_is_in_the_headers():
    known = set(re.findall(r"\w+", "\n".join(h.read_text(encoding="utf-8") for h in HEADERS)))
    named = set(
        re.findall(
            r"\b(?:nc_|Nc[A-Z]|NC_|NATIVECALL_|PYCUSTOMSLOT_|etp_|"
            r"Py(?:CustomSlot|ExtensibleType|HeapExtensible|NativeCallable))\w*",
            DOCUMENT,
        )
    )
    # SEP 200's name for what is not here.
    assert named - known == {"etp_custom_slot_count"}
    assert {"nc_slottable_build", "NcRuntime", "etp_table_shift"} <= named
    for header in re.findall(r"`(\w+\.h)`", DOCUMENT):
        assert header in {path.name for path in HEADERS} | {"Python.h"}


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def test_links_lead_to_sections():
    links = re.compile(r"\]\((?!https:)(([^)#\s]*)#?([^)]*))\)")
    for name, text in {**PAGES, **GUIDES}.items():
        for link, page, anchor in links.findall(text):
            target = (ROOT / "docs" / "abi" / f"{name}.md").parent / page if page else None
            assert target is None or target.exists(), link
            where = text if target is None else target.read_text(encoding="utf-8")
            assert not anchor or anchor in anchors(where), f"{name}: {link}"


def test_the_first_page_leads_to_all():
    linked = set(re.findall(r"\]\(([\w./]+)\.md\)", PAGES["README"]))
    assert linked == set(PAGES) - {"README"} | {"../conformance"}


def test_the_specification_is_short():
    """Pages that only propose it may have 600 and 300 words; the others 6,850 together."""
    words = {name: len(text.split()) for name, text in PAGES.items()}
    assert words.pop("spec") <= 600
    assert words.pop("adoption") <= 300
    assert sum(words.values()) <= 6850, words


def test_a_consumer_reads_three_pages():
    assert len(re.findall(r"\w[\w.()\[\]*'-]*", PAGES["find"])) <= 1650


@pytest.mark.compiler
@needs_64_bits
def test_a_consumer_copies_the_structs(tmp_path):
    """Those of the page compile as it says, with nothing else, and are as large as it says."""
    compiler = build.compiler()
    if compiler is None:
        pytest.skip("no C compiler")
    steps = PAGES["find"].split("\n## Step ")
    blocks = [re.findall(r"^```c\n(.*?)^```$", step, re.M | re.S) for step in steps]
    lines = ["#include <Python.h>", "#include <stddef.h>", "#include <stdint.h>"]
    lines += ["#define H sizeof(PyHeapTypeObject)"]
    for step in (3, 2, 1, 7):
        lines += blocks[step]
    copied = {name for name in SIZES if f"}} {name};" in "\n".join(lines)}
    assert len(copied) == 7
    lines += [f'_Static_assert(sizeof({name}) == {SIZES[name]}, "");' for name in copied]
    source = tmp_path / "copied.c"
    source.write_text("\n".join(lines), encoding="utf-8")
    python = ["-isystem", str(build.sysconfig.get_path("include"))]
    options = ["-fsyntax-only", "-std=gnu11", *build.WARNINGS, *python]
    assert build.refusal([*compiler, *options, str(source)]) == ""


# -- the headers ---------------------------------------------------------------------------------


def test_names_of_the_handshake(provider):
    look = section("find", "Step 1: the runtime").split("```")[0]
    assert f'sys.modules["{provider.MODULE}"]' in look
    assert f"module.{provider.ATTRIBUTE}\n" in look
    assert f'PyCapsule_GetPointer(capsule, "{provider.CAPSULE}")' in look
    assert sys.modules[provider.MODULE].extensibletype_v1 is nc.extensibletype


MUTATIONS = [
    ("nativecall_abi.h", "", ""),
    ("nativecall_abi.h", "uintptr_t id; ", "uint32_t id; "),
    ("nativecall_abi.h", "uint32_t g_shift, f_shift; ", "uint32_t added, g_shift, f_shift; "),
    ("nativecall_abi.h", "const char *signature; /*", "uintptr_t was; const char *signature; /*"),
    (
        "nativecall_abi.h",
        "NC_FLAG_TAKES_GIL ((uintptr_t)1 << 1)",
        "NC_FLAG_TAKES_GIL ((uintptr_t)2 << 1)",
    ),
    ("detail/core/intern.h", "((size_t)65535)", "((size_t)65536)"),
    ("detail/core/intern.h", "uint64_t length; /*", "uint64_t length, more; /*"),
    ("nativecall_abi.h", "#define NC_ABI_VERSION 1", "#define NC_ABI_VERSION 2"),
    ("nativecall_abi.h", "    PyTypeObject *metatype;", "    void *metatype;"),
    ("nativecall_abi.h", "    void *etp_private;", "    void *etp_added, *etp_private;"),
    ("nativecall_abi.h", "size_t size;  ", "size_t added, size;  "),
    ("detail/core/slotids.h", "(uintptr_t)0x04000101", "(uintptr_t)0x04000103"),
]


@pytest.mark.compiler
@needs_64_bits
@pytest.mark.parametrize("number", range(len(MUTATIONS)))
def test_a_change_of_a_header_does_not_compile(include, tmp_path, number):
    compiler = build.compiler()
    if compiler is None:
        pytest.skip("no C compiler")
    header, old, new = MUTATIONS[number]
    shutil.copytree(INCLUDE, tmp_path / "nativecall")
    changed = tmp_path / "nativecall" / header
    text = changed.read_text(encoding="utf-8")
    assert old in text
    changed.write_text(text.replace(old, new), encoding="utf-8")
    source = tmp_path / "layout.c"
    source.write_text(assertions(), encoding="utf-8")
    assert len(FIELDS) > 40
    python = ["-isystem", str(build.sysconfig.get_path("include"))]
    options = ["-fsyntax-only", "-std=gnu11", f"-I{tmp_path}", f"-I{ROOT / 'tests' / 'c'}", *python]
    # The number tells the entries of the compile cache apart.
    messages = build.refusal([*compiler, *options, f"-DNUMBER={number}", str(source)])
    assert ("layout_of_line_" in messages) is (messages != "") is (old != new), messages


# -- rules that two parts share ------------------------------------------------------------------


def test_the_first_entry_of_either_table_comes_with_it():
    """A reader may compare the first entry by a plain load, so no writer may add it in place."""
    rule = " ".join(section("provide", "Call tables").split())
    assert "table with entries is published with its first entry in it" in rule
    assert "Changes MUST follow [call tables]" in section("provide", "Packed tables")


# -- the hash ------------------------------------------------------------------------------------


def test_hash_vectors():
    page = section("signatures", "The hash")
    shown = re.findall(r'`hash\("(.*?)"\)` is (0x\w+)', page)
    assert len(shown) == 2
    source = (INCLUDE / "detail" / "core" / "hash.h").read_text(encoding="utf-8")
    constants = set(re.findall(r"0x[0-9A-F]{16}", page)) - {value for _, value in shown}
    assert constants == set(re.findall(r"\bNC_HASH_K\d UINT64_C\((0x\w+)\)", source))
    for text, value in shown:
        data = text.encode()
        interned = ffi.cast("char *", _abi.intern(data))
        assert hash_bytes(data) == lib.nc_interned_hash(interned) == int(value, 16)


# -- what a mismatch obliges to ------------------------------------------------------------------


OFFERED = """
import ctypes, json, sys, types
sys.path.insert(0, sys.argv[1])
changes, size, name = json.loads(sys.argv[2]), int(sys.argv[3]), sys.argv[4].encode()
import nativecall
get = ctypes.pythonapi.PyCapsule_GetPointer
get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
new = ctypes.pythonapi.PyCapsule_New
new.restype = ctypes.py_object
new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
real = get(sys.modules["_extensibletype"].runtime_v1, b"_extensibletype.runtime_v1")
offered = ctypes.create_string_buffer(ctypes.string_at(real, size) + bytes(64))
for offset, value, width in changes:
    offered[offset : offset + width] = value.to_bytes(width, sys.byteorder)
before = bytes(offered)
module = types.ModuleType("_extensibletype")
module.runtime_v1 = new(ctypes.addressof(offered), name, None)
sys.modules["_extensibletype"] = module
try:
    import nc_provider
except ImportError as error:
    print(error)
    assert sys.modules["_extensibletype"] is module and bytes(offered) == before
    assert set(vars(module)) == set(vars(types.ModuleType("m"))) | {"runtime_v1"}
else:
    assert nc_provider.RUNTIME == ctypes.addressof(offered)
    print("accepted")
"""
CAPSULE = "_extensibletype.runtime_v1"
POINTERS = ("provider", "metatype", "registry", "intern", "ready")


def messages() -> list[str]:
    """The ImportErrors of a refused module as patterns; each is one line."""
    texts = [
        "sys.modules['_extensibletype'] is <>, which is not an extensibletype runtime that <> "
        "(ABI <>) can use: it has no capsule 'runtime_v1'",
        "<> was built for extensibletype ABI <> (sizes <>), but <>, which was imported first, "
        "provides ABI <> (sizes <>); rebuild the older of the two",
        "the extensibletype runtime of <>, which was imported first, cannot be used by <> "
        "(ABI <>): its '<>' is NULL; rebuild the former",
    ]
    return [re.escape(text).replace("<>", "(.+)") for text in texts]


def offered(forked, provider, /, name=CAPSULE, **changes):
    """What importing a module prints where a runtime with these fields is there."""
    fields = [(at("NcRuntime", f), n, int(f in POINTERS) * 4 + 4) for f, n in changes.items()]
    directory = Path(provider.__file__).parent
    return forked(OFFERED, directory, json.dumps(fields), SIZES["NcRuntime"], name).strip()


@needs_64_bits
def test_runtimes_that_do(forked, provider):
    assert offered(forked, provider) == "accepted"
    assert offered(forked, provider, struct_size=64) == "accepted"
    assert offered(forked, provider, type_size=H + 40) == "accepted"


@needs_64_bits
@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("abi_version", 1),
        ("abi_version", -1),
        ("struct_size", -1),
        ("type_size", -8),
        ("slot_size", 8),
        ("slot_size", -8),
    ],
)
def test_runtimes_that_do_not(forked, provider, field, change):
    sizes = {
        "abi_version": VALUES["NC_ABI_VERSION"],
        "struct_size": int(SIZES["NcRuntime"]),
        "type_size": H + 32,
        "slot_size": int(SIZES["PyCustomSlot"]),
    }
    wanted = dict(sizes)
    sizes[field] += change
    found = re.fullmatch(messages()[1], offered(forked, provider, **{field: sizes[field]}))
    assert found is not None
    provider = "nativecall" if sizes["abi_version"] else "another module"

    def text(numbers):
        return "/".join(str(numbers[key]) for key in ("struct_size", "type_size", "slot_size"))

    assert found.groups() == (
        "nc_provider",
        str(wanted["abi_version"]),
        text(wanted),
        provider,
        str(sizes["abi_version"]),
        text(sizes),
    )


@needs_64_bits
def test_what_is_no_runtime(forked, provider):
    message = offered(forked, provider, "_extensibletype.runtime_v2")
    found = re.fullmatch(messages()[0], message)
    assert found is not None
    assert found.groups() == ("<module '_extensibletype'>", "nc_provider", "1")


@needs_64_bits
@pytest.mark.parametrize("struct_size", [0, 8])
@pytest.mark.parametrize("missing", POINTERS)
def test_runtimes_with_nulls(forked, provider, missing, struct_size):
    """Such a runtime is refused before anything that it lacks is needed."""
    changes = {missing: 0, "struct_size": int(SIZES["NcRuntime"]) + struct_size}
    found = re.fullmatch(messages()[2], offered(forked, provider, **changes))
    assert found is not None
    provider = "another module" if missing == "provider" else "nativecall"
    assert found.groups() == (provider, "nc_provider", "1", missing)


@needs_64_bits
def test_a_runtime_that_does_not_say_whose_it_is(forked, provider):
    message = offered(forked, provider, abi_version=3, provider=0)
    found = re.fullmatch(messages()[1], message)
    assert found is not None
    assert found.groups()[3:5] == ("another module", "3")
