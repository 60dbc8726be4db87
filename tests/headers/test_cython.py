"""nativecall/__init__.pxd: what C has, Cython has, in C mode and in C++ mode.

tests/ext/cython_consumer.pyx and cython_views.pyx (test_cython_views.py) use every name that the
.pxd declares, and are built against the installed package both ways. That the .pxd declares
everything that the headers offer to consumers is read from their text, so that neither can go on
without the other.
"""

from __future__ import annotations

import ctypes
import functools
import math
import platform
import re
import sysconfig
import threading
import time
import traceback
from pathlib import Path

import pytest

import nativecall as nc
from support import build
from support.packed import pack

PXD = Path(nc.__file__).with_name("__init__.pxd")
HEADERS = Path(nc.get_include(), "nativecall")
EXT = Path(__file__).resolve().parents[1] / "ext"
LANGUAGES = {"c": "cython_c", "c++": "cython_cpp"}
SUFFIXES = {"c": "c", "c++": "cpp"}

# ---- what is declared ----------------------------------------------------------------------------

# Headers whose functions are for providers, or for other headers.
INTERNAL = {
    *("base.h", "compat.h", "hash.h", "intern.h", "metaclass.h", "nativetable.h"),
    *("packedtable.h", "promotion.h", "registercall.h", "runtime.h", "shared.h"),
    *("slotmapping.h", "slottable.h", "prototype.h", "typetable.h", "values.h"),
    # What Cython needs of native objects is declared; tests/ext/cython_objects.pyx uses it.
    *("nativeobject.h", "objectclass.h", "objectcount.h", "objectlife.h", "objecttype.h"),
    *("objectbody.h", "objectmemory.h", "objectnogil.h"),
}
EXCLUDED = {
    "steps of other functions": {
        *("nc_slots_of_object", "nc_slot_id_valid", "nc_slots_of", "nc_object_slots_place"),
        "nc_rows_find",
        *("nc_metatype_derives", "nc_type_has_metatype"),
        *("nc_native_first", "nc_native_first_by_slot", "nc_native_find_else"),
        *("nc_native_packed_else", "nc_native_is_exact"),
        *("nc_native_find_either", "nc_native_next_three"),
        *("nc_native_at_slot", "nc_native_first_packed", "nc_native_packed_in_calls"),
        *("nc_packed_ends", "nc_packed_nibble", "nc_packed_is_text"),
        *("nc_calltable_first_is", "nc_packed_load", "nc_packed_symbol"),
        *("nc_packed_words", "nc_packed_locate", "nc_packed_high", "nc_cursor_set"),
        "nc_nativeapi_wrong",
        *(f"nc_dispatch_{step}" for step in ("entries_else", "entries", "intern", "find")),
        "nc_dispatch_again",
        *("nc_slottable_rows", "nc_slottable_find_expected"),
        *(
            "nc_callback_read",
            "nc_callback_refuses",
            "nc_callback_take",
        ),
        *("nc_callback_from_entries", "nc_callback_from_capsule"),
        *("nc_callback_capsule", "nc_callback_refuse", "nc_callback_fail"),
        *("nc_callback_acquire", "nc_callback_keep"),
        *("nc_call_offer", "nc_call_search", "nc_call_box", "nc_call_unbox", "nc_call_boxed"),
        *("nc_call_unbox_integer", "nc_call_native", "nc_call_outcome"),
        *("nc_call_ellipsis", "nc_call_unbox_float"),
        *("nc_nativeapi_entry", "nc_slice_set"),
    },
    "the reader of signatures": {
        *("nc_scalar_canonical", "nc_scalar_is_part", "nc_scalar_is_signed", "nc_scalar_layout"),
        *("nc_scalar_digits", "nc_bits_to_double", "nc_bits_of_double", "nc_double_to_round"),
        *(f"nc_{way}_{kind}" for way in ("read", "write") for kind in ("integer", "float")),
        *("nc_signature_is_space", "nc_signature_is_digit", "nc_signature_add"),
        *("nc_signature_multiply", "nc_signature_round_up", "nc_signature_refuses"),
        *(f"nc_reader_{step}" for step in ("fault", "compare", "write", "peek", "accept")),
        *(f"nc_reader_{step}" for step in ("expect", "number", "signature", "type", "run")),
        *(
            f"nc_reader_{step}"
            for step in ("has_field", "field_name", "struct", "array", "refuses")
        ),
        "nc_reader_type_after",
        "nc_reader_width",
        "nc_layout_align",
        "nc_layout_place",
    },
    "NATIVECALL_SIG": {"nc_literal_pack"},
    "for providers with the metaclass": {
        *("nc_native_add", "PyExtensibleType_Ready", "nc_runtime_publish", "nc_runtime_accept"),
        *("PyExtensibleType_SetObjectSlots", "nc_runtime_shown", "nc_calltable_flags_valid"),
        *("nc_before_fork", "nc_after_fork", "nc_packed_put", "nc_packed_store"),
        *("nc_packed_replace", "nc_calltable_init", "nc_calltable_write"),
        *("nc_calltable_append", "nc_calltable_replace", "nc_calltable_clear"),
        *("nc_convention_fits", "nc_signature_checked"),
        *(
            f"nc_growth_{step}"
            for step in ("init", "live_bytes", "reserve", "begin", "end", "free")
        ),
    },
}
EXCLUDED_CONSTANTS = {
    *("NC_READ_ANY", "NC_READ_CANONICAL", "NC_READ_PACKED"),
    "NC_NATIVEAPI_MAX_ENTRIES",
    *("NC_FAILED_RAISED", "NC_FAILED_SHUTDOWN"),
}


def consumer_headers() -> list[str]:
    return [path.read_text() for path in HEADERS.rglob("*.h") if path.name not in INTERNAL]


def header_functions() -> set[str]:
    """The functions of the headers for consumers."""
    linkage = r"^NC_(?:STATIC|STATIC_INLINE|HOT_INLINE|NOINLINE|COLD)\s+[\w\s*]*?\b(\w+)\("
    return {name for text in consumer_headers() for name in re.findall(linkage, text, re.M)}


def header_constants() -> set[str]:
    """Their enumerators and constant macros, and those of inner headers that all have."""
    families = r"NC_(?:FLAG|ERRORS|CALLBACK|FAILED|NATIVEAPI|SIGNATURE_MAX)_\w+|PYCUSTOMSLOT_\w+"
    shared = [(HEADERS / name).read_text() for name in ("detail/core/base.h", "nativecall_abi.h")]
    found = set()
    for commented in [*consumer_headers(), *shared]:
        text = re.sub(r"/\*.*?\*/", "", commented, flags=re.S)
        found |= set(re.findall(rf"^#define ({families})[ \n]", text, re.M))
        for body in re.findall(r"^enum \{(.*?)\}", text, re.M | re.S):
            found |= set(re.findall(r"\bNC_\w+", body))
    return found


@functools.cache
def declared() -> set[str]:
    """All names of ours in the .pxd, but for those of types' fields."""
    text = re.sub(r"#.*", "", PXD.read_text())
    return set(re.findall(r"\b(?:nc_|Nc[A-Z]|NC_|PYCUSTOMSLOT_|Py[A-Z])\w+", text))


def constants() -> set[str]:
    """The constants that the .pxd declares."""
    names = r"\b(?:NC|PYCUSTOMSLOT)_\w+\b(?!\()"
    return set(re.findall(names, re.sub(r"#.*", "", PXD.read_text()))) - {"NC_FIELD_SELF"}


def test_every_function_for_consumers_is_declared():
    excluded = set().union(*EXCLUDED.values())
    found = header_functions()
    assert len(found) > 100
    assert excluded <= found
    assert not excluded & declared()
    assert found - excluded - declared() == set()


def test_every_constant_for_consumers_is_declared():
    found = header_constants()
    assert found >= {"NC_FLAG_NEEDS_GIL", "NC_KIND_VIEW", "NC_CALLBACK_NESTS", "NC_OK"}
    assert found >= EXCLUDED_CONSTANTS
    assert not EXCLUDED_CONSTANTS & declared()
    assert found - EXCLUDED_CONSTANTS - declared() == set()


def test_every_declaration_is_tested_here():
    sources = [
        (EXT / f"cython_{name}.pyx").read_text() for name in ("consumer", "views", "objects")
    ]
    used = set(re.findall(r"\w+", re.sub(r"#.*", "", "\n".join(sources)))) | constants()
    fields = re.findall(
        r"^ {8}[\w *]*?\*?(?:\(\*)?(\w+)(?:\)\(.*|\[1\])? *(?:#.*)?$", PXD.read_text(), re.M
    )
    assert {"entries", "interned", "item_size", "objoffset", "find"} <= set(fields)
    # Types are used by whoever uses a function that has them.
    assert {name for name in declared() | set(fields) if name not in used} == {
        "NcFunction",
        "NcPackedFunction",
    }


# ---- the modules ---------------------------------------------------------------------------------


@pytest.fixture(scope="session", params=LANGUAGES)
def made(request, builder, include) -> tuple[str, Path, Path]:
    """The language, the source that Cython generates, and the extension module."""
    language = request.param
    if build.compiler(language) is None:
        pytest.skip(f"no {language} compiler")
    name = LANGUAGES[language]
    rows = ", ".join(f'"{name}": nc.{name}' for name in sorted(constants()))
    source = builder.directory / f"{name}.pyx"
    text = (EXT / "cython_consumer.pyx").read_text()
    source.write_text(f"{text}\n\ndef constants():\n    return {{{rows}}}\n")
    output = builder.cython(source, name, include=include, language=language)
    return language, output.parent / f"{name}.{SUFFIXES[language]}", output


@pytest.fixture(scope="session")
def cy(made):
    return build.load_extension(made[2])


def test_the_example_of_the_opening_comment(builder, include, tmp_path):
    if build.compiler("c") is None:
        pytest.skip("no C compiler")
    block = re.search(r"(?:^#(?:     .*)?\n)+", PXD.read_text().partition("\n")[2], re.M)
    assert block is not None
    source = tmp_path / "opening.pyx"
    source.write_text(re.sub(r"^#(?:     )?", "", block[0], flags=re.M))
    opening = build.load_extension(builder.cython(source, "opening", include=include))
    assert opening.half_of(libm("fabs"), -3.0) == 1.5
    assert opening.half_of(abs, -3.0) == 1.5


def libm(name: str, signature: str = "d:d") -> nc.NativeCallable:
    return nc.load("m").function(name, signature)


def overloaded() -> nc.NativeCallable:
    """Three entries with different flags, one of which takes several packed words."""
    made = nc.wrap(libm("fabs").address(), "d:d", gil="need")
    made.add("f:f", nc.load("m").address("fabsf"))
    made.add("d:" + "d" * 20, libm("cos").address(), gil="release", errors="errno")
    return made


def rows(f: nc.NativeCallable) -> list[tuple[str, int, int]]:
    return [(entry.signature, entry.address, entry.flags) for entry in f.entries]


# ---- constants -----------------------------------------------------------------------------------


def test_constants_have_their_values(cy, builder, include):
    """Also those that Cython could take for an int."""
    values = cy.constants()
    texts = {name: value for name, value in values.items() if isinstance(value, bytes)}
    assert texts == {
        "NC_NATIVEAPI_ATTRIBUTE": b"__nativecall_api__",
        "NC_NATIVEAPI_CAPSULE": b"nativecall_api_v1",
    }
    names = [name for name in values if name not in texts]
    cells = ", ".join(f"(uint64_t)({name})" for name in names)
    library = builder.library(
        "#include <nativecall/callback.h>\n#include <nativecall/customslots.h>\n"
        "#include <nativecall/dynamiccall.h>\n"
        f"extern const uint64_t values[];\nconst uint64_t values[] = {{{cells}}};\n",
        "cython_constants",
        flags=[f"-I{include}", "-isystem", sysconfig.get_path("include")],
    )
    in_c = (ctypes.c_uint64 * len(names)).in_dll(ctypes.CDLL(str(library)), "values")
    assert {name: values[name] % 2**64 for name in names} == dict(zip(names, in_c, strict=True))


def test_status_text(cy):
    assert cy.status_text(cy.constants()["NC_E_FORMAT"]) == "malformed input"


def test_a_literal_is_a_constant_of_the_object_code(cy, made):
    """Nothing is packed at run time: the text is not even there."""
    _, source, _ = made
    assert cy.word_d_ddi() == pack("d:ddi")[0]
    assert "nc_native_function_word(" in source.read_text()
    assert 'NATIVECALL_SIG("d:ddi")' in source.read_text()
    assembly = source.with_suffix(".s").read_text()
    assert '"d:ddi' not in assembly
    if platform.machine() in ("x86_64", "AMD64"):
        # The name is within what C++ makes of it.
        code = re.search(
            r"^\w*pyx_pw_\w*find_d_ddi\w*:.*?\n(.*?)^\s*\.size\s", assembly, re.M | re.S
        )
        assert code is not None
        immediates = re.findall(r"movabsq\s+\$(-?\w+)", code[1])
        assert pack("d:ddi")[0] in {int(number, 0) % 2**64 for number in immediates}


# ---- slots ---------------------------------------------------------------------------------------


def test_the_metaclass_is_the_one_of_the_process(cy):
    assert cy.metaclass() is nc.extensibletype


def test_interned_keys(cy, fails):
    address, text = cy.intern_key(b"a key\0with a null")
    assert text == b"a key\0with a null"
    assert cy.intern_key(b"a key\0with a null")[0] == address
    assert ctypes.string_at(address, 17) == text
    with fails(ValueError, "a key of 65536 bytes is too long to intern; the limit is 65535"):
        cy.intern_key(b"x" * 65536)


def test_slots_of_an_object(cy):
    key = cy.intern_key(b"cython key")[0]

    class Slotted(metaclass=nc.extensibletype):
        __customslots__ = {0x05000001: (7, 99), b"cython key": 11}

    table = cy.slots(Slotted())
    assert [(row[1], row[2], row[3]) for row in table] == [
        (slot.key if isinstance(slot.key, int) else key, slot.flags, slot.data)
        for slot in nc.customslots(Slotted())
    ]
    assert cy.find_slot(Slotted(), 0x05000001, 1) == cy.find_slot(Slotted(), 0x05000001, 0)
    assert cy.find_slot(Slotted(), 0x05000001, 0) in table
    assert cy.find_slot(Slotted(), 0x05000003, 0) is None
    assert cy.find_key(Slotted(), b"cython key")[1] == key
    assert cy.find_key(Slotted(), b"another key") is None
    assert cy.find_on_object(Slotted(), 0x05000001, 0) == (
        *cy.find_slot(Slotted(), 0x05000001, 0)[2:],
        nc.customslots(Slotted())[cy.find_slot(Slotted(), 0x05000001, 0)[0]].data,
    )
    assert cy.find_on_object(Slotted(), 0x05000003, 0) == (None, None, 0)


def test_slot_keys(cy):
    assert cy.slot_id(0x04, 1, 0) == cy.constants()["PYCUSTOMSLOT_OBJECTSLOTS_ID"]
    assert cy.slot_id(0x05, 2, 3) == 0x05000207
    assert cy.allocate_slot_id() + 0x100 == cy.allocate_slot_id()


def test_an_object_without_slots(cy):
    assert cy.slots(object()) is None
    assert cy.find_slot(object(), 0x04000001, 0) is None
    assert cy.find_key(object(), b"d:d") is None


# ---- signatures ----------------------------------------------------------------------------------


def test_canonical_text(cy):
    constants = cy.constants()
    assert cy.canonical(b"d : d & f") == (constants["NC_OK"], "d:d&f")
    assert cy.canonical(b"d:w") == (constants["NC_E_FORMAT"], 2)


def test_the_signature_of_a_declaration(cy):
    assert cy.of_declaration(b"int (double x, const float *y)") == "i:d&f"
    for text in ("double (double, void *)", "void (unsigned long, char)", "int *(PyObject *)"):
        assert cy.of_declaration(text.encode()) == nc.Signature(text).text
    for text in ("double", "double (struct pair)", "double (double, ...)", "double (double) x"):
        assert cy.of_declaration(text.encode()) is None


def test_the_cursor(cy):
    kind = {name: n for name, n in cy.constants().items() if name.startswith("NC_KIND_")}
    place = {name: n for name, n in cy.constants().items() if name.startswith("NC_PLACE_")}
    types, variadic = cy.walk(b"i:&(2,3)dT{dX{v:}}[2]f.")
    assert variadic == 1
    result, pointer, struct, view = types
    assert (result["text"], result["kind"], result["place"], result["size"]) == (
        *("i", kind["NC_KIND_INT"], place["NC_PLACE_RESULT"], 4),
    )
    assert (pointer["kind"], pointer["place"]) == (
        *(kind["NC_KIND_POINTER"], place["NC_PLACE_ARGUMENT"]),
    )
    (array,) = pointer["within"]
    assert (array["kind"], array["place"], array["ndim"], array["count"], array["item_size"]) == (
        *(kind["NC_KIND_ARRAY"], place["NC_PLACE_POINTEE"], 2, 6, 8),
    )
    assert array["dimensions"] == [2, 3]
    assert array["within"][0]["place"] == place["NC_PLACE_ELEMENT"]
    assert [field["offset"] for field in struct["within"]] == [0, ctypes.sizeof(ctypes.c_double)]
    assert struct["alignment"] == ctypes.alignment(ctypes.c_double)
    function = struct["within"][1]
    assert (function["kind"], function["place"]) == (
        *(kind["NC_KIND_FUNCTION"], place["NC_PLACE_FIELD"]),
    )
    assert [inner["kind"] for inner in function["within"]] == [kind["NC_KIND_VOID"]]
    assert (view["kind"], view["within"][0]["code"]) == (kind["NC_KIND_VIEW"], "f")
    assert view["within"][0]["place"] == place["NC_PLACE_ITEM"]
    assert result["within"] is None
    assert cy.walk(b"d:w") == (cy.constants()["NC_E_FORMAT"], 2)


@pytest.mark.parametrize("text", ["d:d", "i:&d&f", "d:" + "d" * 40])
@pytest.mark.parametrize("flags", [0, 1, 0x58])
def test_packed_words(cy, text, flags):
    words = pack(text, flags)
    assert cy.pack(text.encode(), flags) == (0, words)
    assert cy.unpack(words) == (text, flags)


def test_words_that_are_none(cy):
    assert cy.pack(b"d:w") == (cy.constants()["NC_E_FORMAT"], 2)
    assert cy.unpack([1]) == "malformed input"


def test_a_packed_table_of_ones_own(cy):
    constants = cy.constants()
    assert cy.literal_table(0) == [0, 2]
    assert cy.literal_table(constants["NC_FLAG_NEEDS_GIL"]) == [1, 2]
    assert cy.literal_table(constants["NC_FLAG_NEEDS_GIL"] | constants["NC_ERRORS_MASK"]) == [
        *(None, 2),
    ]


# ---- lookups -------------------------------------------------------------------------------------


def test_all_entries(cy):
    f = overloaded()
    assert cy.entries(f) == cy.table_entries(f) == cy.packed_entries(f) == rows(f)
    assert cy.entries(f.builtin) == rows(f)
    assert cy.table_entries(len) is None
    assert cy.packed_entries(len) is None
    assert cy.entries(len) == []


def test_the_callable_behind_a_view(cy):
    f = overloaded()
    assert cy.viewed(f.builtin) is f
    assert cy.viewed(f) is None
    assert cy.viewed(len) is None


def test_every_way_of_looking_up(cy):
    f = overloaded()
    needs_gil = cy.constants()["NC_FLAG_NEEDS_GIL"]
    for text, address, flags in rows(f):
        found = cy.lookups(f, text.encode())
        assert set(found.values()) == {address}
        assert ("word" in found) == (len(text) < 14)
        assert cy.signature_key(text.encode()) == cy.intern_key(text.encode())[0]
        refused = cy.lookups(f, text.encode(), needs_gil)
        assert set(refused.values()) == {0 if flags & needs_gil else address}
    assert set(cy.lookups(f, b"d:dd").values()) == {0}
    assert set(cy.lookups(f.builtin, b"f:f").values()) == {f.address("f:f")}
    assert set(cy.lookups(len, b"d:d").values()) == {0}


def test_a_lookup_by_a_constant(cy):
    address = libm("cos").address()
    assert cy.find_d_ddi(nc.wrap(address, "d:ddi")) == address
    assert cy.find_d_ddi(nc.wrap(address, "d:ddi", gil="need")) == 0
    assert cy.find_d_ddi(nc.wrap(address, "d:dd")) == 0
    assert cy.find_d_ddi(min) == 0


def test_a_thread_looks_up_while_another_adds(cy):
    """The thread spins without the GIL until it sees what this one adds."""
    f = libm("fabs")
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(cy.wait_for(f, b"f:f")), daemon=True)
    thread.start()
    time.sleep(0.05)
    assert seen == []
    f.add("f:f", nc.load("m").address("fabsf"))
    thread.join(60)
    assert seen == [f.address("f:f")]


# ---- types with __nativecall_api__ ---------------------------------------------------------------


def test_a_cython_class_offers_entries(cy):
    takes_gil = cy.constants()["NC_FLAG_TAKES_GIL"]
    entry = ("d:d", cy.address_of_twice(), takes_gil)
    assert cy.api_of(cy.Twice()) == ([entry], True)
    assert cy.api_lookup(cy.Twice(), b"d:d") == entry
    assert cy.api_lookup(cy.Twice(), b"d:d", takes_gil) is None
    assert cy.api_lookup(cy.Twice(), b"f:f") is None
    assert cy.api_of(len) is None
    assert cy.apply(cy.Twice(), [4.0])["values"] == [8.0]


def test_an_interface_that_is_none(cy, fails):
    wrong = type("Wrong", (), {"__nativecall_api__": 3})()
    message = (
        "'__nativecall_api__' of Wrong must be a capsule named 'nativecall_api_v1' or None (got 3)"
    )
    with fails(TypeError, message):
        cy.api_of(wrong)
    with fails(TypeError, message):
        cy.api_lookup(wrong, b"d:d")


# ---- calls ---------------------------------------------------------------------------------------


def test_dispatch_by_a_macro(cy, fails):
    constants = cy.constants()
    ldexp, power = libm("ldexp", "d:di"), libm("pow", "d:dd")
    assert cy.dispatch(ldexp, 3.0, 2) == 12.0
    assert cy.dispatch(power, 3.0, 2) == 9.0
    assert cy.dispatch(lambda x, n: x - n, 3.0, 2) == 1.0
    assert cy.dispatch_nogil(ldexp, 3.0, 2) == (constants["NC_OK"], 12.0)
    assert cy.dispatch_nogil(power, 3.0, 2) == (constants["NC_OK"], 9.0)
    assert cy.dispatch_nogil(max, 3.0, 2) == (constants["NC_E_GIL"], None)
    with fails(ZeroDivisionError, "boxed"):
        cy.dispatch(raising(ZeroDivisionError("boxed")), 3.0, 2)


def test_calls_by_text(cy, fails):
    constants = cy.constants()
    ldexp, power = libm("ldexp", "d:di"), libm("pow", "d:dd")
    ok, gil = constants["NC_OK"], constants["NC_E_GIL"]
    exact, promoted = constants["NC_WAY_EXACT"], constants["NC_WAY_PROMOTED"]
    assert cy.call_by_text(ldexp, b"d:di", 3.0, 2) == (12.0, exact, 0, ok, ldexp.address())
    assert cy.call_by_text(power, b"d:di", 3.0, 2) == (9.0, promoted, 0, ok, power.address())
    boxed = cy.call_by_text(lambda x, n: x - n, b"d:di", 3.0, 2)
    assert boxed == (1.0, constants["NC_WAY_BOXED"], 0, gil, 0)
    with fails(ZeroDivisionError, "boxed"):
        cy.call_by_text(raising(ZeroDivisionError("boxed")), b"d:di", 3.0, 2)
    with fails(TypeError, "no function for 'd:di' in 5, which is not callable from Python either"):
        cy.call_by_text(5, b"d:di", 3.0, 2)


# ---- callbacks -----------------------------------------------------------------------------------


def raising(error: BaseException):
    def callback(*args: object) -> float:
        raise error

    return callback


def test_a_native_callback(cy):
    called = cy.apply(libm("fabs"), [-1.0, 2.0], 0)
    assert called == {
        "matched": 0,
        "native": True,
        "flags": 0,
        "options": 0,
        "current": False,
        "values": [1.0, 2.0],
    }


def test_a_python_callback_without_the_gil(cy):
    nests = cy.constants()["NC_CALLBACK_NESTS"]
    called = cy.apply(lambda x: 3 * x, [-1.0, 2.0], nests)
    assert called == {
        "matched": 0,
        "native": False,
        "flags": 0,
        "options": nests,
        "current": True,
        "values": [-3.0, 6.0],
    }
    assert cy.apply(libm("fabs"), [-1.0])["values"] == [1.0]
    first, second = cy.accepted()
    assert first == ("double (double)", "d:d", False, cy.intern_key(b"d:d")[0])
    assert second[:3] == ("double (double, void *)", "d:dP", True)


def test_a_capsule_of_cython(cy):
    """Nothing says whether a cdef function that Cython exports needs the GIL, which this consumer
    does not hold: the consumer may trust it, or the user says so.
    """
    capsule = cy.__pyx_capi__["twice"]
    with pytest.raises(ValueError, match="which may need the GIL but would be called without it"):
        cy.apply(capsule, [5.0])
    trusts = cy.constants()["NC_CALLBACK_TRUSTS_NAMES"]
    for box, options in ((nc.wrap(capsule, gil="release"), 0), (capsule, trusts)):
        called = cy.apply(box, [5.0], options)
        assert (called["native"], called["values"]) == (True, [10.0])


@pytest.mark.parametrize("error", [ZeroDivisionError("callback"), KeyboardInterrupt()])
def test_an_exception_in_a_callback(cy, error):
    def callback(x: float) -> float:
        raise error

    with pytest.raises(type(error)) as info:
        cy.apply(callback, [1.0, 2.0])
    assert info.value is error
    assert "callback" in [frame.name for frame in traceback.extract_tb(info.value.__traceback__)]


def test_what_is_no_callback(cy):
    with pytest.raises(TypeError, match=r"^a callback must be a callable"):
        cy.apply("cos", [1.0])


def test_functions_that_report_failures(cy):
    address = nc.load("m").address("lrint")
    nonzero = nc.wrap(address, "i:d", errors="nonzero")
    assert cy.checked(nonzero, 3.0) == (3, cy.constants()["NC_ERRORS_NONZERO"])
    with pytest.raises(TypeError, match=r"Python functions are not accepted here$"):
        cy.checked(math.floor, 3.0)


# ---- without the package -------------------------------------------------------------------------


def test_the_module_needs_the_package_only_to_be_built(made, python):
    code = """
import importlib.util, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "nativecall":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
spec = importlib.util.spec_from_file_location(sys.argv[1], sys.argv[2])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
assert "nativecall" not in sys.modules
print(module.without_the_package())
"""
    language, _, output = made
    assert python(code, LANGUAGES[language], output) == "(True, [2.0])\n"
