"""The functions that a shared library exports, and their signatures where debug information tells.

Nothing of the library is run: its file is read. Symbols and DWARF are read by pyelftools, the extra
`inspect`; without it the names are all that is found. Debug information may be in the library, or
in a file of its own that the build ID leads to, as distributions have them.
"""

from __future__ import annotations

import os
import re
from collections import namedtuple

from .._errors import LibraryError, SignatureError
from .._signature.signature import Signature
from .._signature.spelling import parse
from .output import CommandError, Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._types import Foreign

#: A function: its name, where it lies in the file (0 where that is not known), its signature, and
#: why there is none.
Exported = namedtuple("Exported", ["name", "offset", "signature", "reason"])

_SIGNED = {1: "b", 2: "h", 4: "i", 8: "q"}
_FLOATS = {2: "e", 4: "f", 8: "d", 16: "g"}
_COMPLEX = {8: "Zf", 16: "Zd", 32: "Zg"}
#: Floats that are as large as others, and are not they: C's, Fortran's, Rust's and LLVM's names.
_OTHER_FLOATS = re.compile(r"[Ff]loat128|kind=16|f128|fp128|bf16|bfloat")
_KINDS = {2: "boolean", 4: "float", 5: "signed", 6: "signed", 7: "unsigned", 8: "unsigned"}
_PASSED_OVER = {"DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_typedef"}
_PASSED_OVER |= {"DW_TAG_restrict_type", "DW_TAG_atomic_type"}
_MOST_DEPTH = 16
_DEBUG_FILES = "/usr/lib/debug/.build-id"


class _Untold(Exception):
    """A type that no signature describes."""


def is_library(path: str) -> bool:
    """Whether a file is one that a loader takes: by how it begins."""
    try:
        with open(path, "rb") as file:
            begins = file.read(4)
    except OSError:
        return False
    return begins in (
        b"\x7fELF",
        *(b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe"),
        b"MZ\x90\x00",
    )


def exported(path: str) -> tuple[list[Exported], str]:
    """The functions of a library, by name, and what is to be said of how they were read."""
    try:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
    except ImportError:
        return _names(path), (
            "names alone; signatures are in debug information: pip install 'nativecall[inspect]', "
            "or in a header: --header"
        )
    with open(path, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return _names(path), "names alone: the file is no ELF; a header tells more: --header"
        try:
            elf = ELFFile(file)
            offsets, chosen = _symbols(elf)
            where = _debug_file(elf, path)
            if where is None:
                note = "no debug information; a header tells signatures: --header"
                return [Exported(name, at, None, "") for name, at in offsets.items()], note
            if where == path:
                found = dict(_signatures(elf, offsets))
            else:
                with open(where, "rb") as other:
                    found = dict(_signatures(ELFFile(other), offsets))
        except (ELFError, UnicodeDecodeError, KeyError) as error:
            raise CommandError(f"{path!r} cannot be read: {error}") from None
    # What the debug information has is what chooses one, not the function.
    found |= dict.fromkeys(chosen, (None, "chosen by the processor when the library is loaded"))
    rows = [Exported(name, at, *found.get(name, (None, ""))) for name, at in offsets.items()]
    told = sum(1 for row in rows if row.signature is not None)
    return rows, f"{told} of {len(rows)} signatures by the debug information of {where}"


def _names(path: str) -> list[Exported]:
    """What the loader finds of the words in a file."""
    from .. import _lib

    try:
        handle = _lib.library_open(os.path.abspath(path))
    except LibraryError as error:
        raise CommandError(str(error)) from None
    with open(path, "rb") as file:
        content = file.read(64 * 2**20)
    words = {one.decode() for one in re.findall(rb"(?<=\0)[A-Za-z_]\w*(?=\0)", content)}
    known = sorted(name for name in words if _lib.library_symbol(handle, name))
    return [
        Exported(name, 0, None, "")
        for name in known
        if name not in ("_init", "_fini", "_end", "_edata", "__bss_start")
    ]


def _symbols(elf: Foreign) -> tuple[dict[str, int], list[str]]:
    """The exported functions, by name; and those that a resolver chooses (IFUNC)."""
    section = elf.get_section_by_name(".dynsym")
    rows = {}
    chosen = []
    for one in section.iter_symbols() if section is not None else ():
        kind = one["st_info"]["type"]
        if kind not in ("STT_FUNC", "STT_LOOS", "STT_GNU_IFUNC") or one.name in ("_init", "_fini"):
            continue
        if one["st_shndx"] != "SHN_UNDEF" and one["st_info"]["bind"] != "STB_LOCAL":
            rows[one.name] = int(one["st_value"])
            if kind != "STT_FUNC":
                chosen.append(one.name)
    return {name: rows[name] for name in sorted(rows)}, chosen


def _debug_file(elf: Foreign, path: str) -> str | None:
    """The file with the debug information of a library; None where there is none."""
    if elf.get_section_by_name(".debug_info") is not None:
        return path
    section = elf.get_section_by_name(".note.gnu.build-id")
    for note in section.iter_notes() if section is not None else ():
        number = str(note["n_desc"])
        where = os.path.join(_DEBUG_FILES, number[:2], f"{number[2:]}.debug")
        if os.path.exists(where):
            return where
    return None


def _signatures(
    elf: Foreign, wanted: dict[str, int]
) -> Iterator[tuple[str, tuple[Signature | None, str]]]:
    """The signatures of functions by name; why there is none of one that is described.

    A function has the names of all symbols at its address.
    """
    names: dict[int, list[str]] = {}
    for one, at in wanted.items():
        names.setdefault(at, []).append(one)
    units = list(elf.get_dwarf_info().iter_CUs())
    with Output().working("reading debug information", len(units)) as done:
        for unit in units:
            yield from _signatures_of(unit, wanted, names)
            done()


def _signatures_of(
    unit: Foreign, wanted: dict[str, int], names: dict[int, list[str]]
) -> Iterator[tuple[str, tuple[Signature | None, str]]]:
    """Those of one compilation unit; `names` has the symbols at each address."""
    for die in unit.get_top_DIE().iter_children():
        if die.tag != "DW_TAG_subprogram" or "DW_AT_declaration" in die.attributes:
            continue
        start = die.attributes.get("DW_AT_low_pc")
        own = names.get(0 if start is None else start.value, [])
        name = _name(die)
        if name in wanted and name not in own:
            own = [*own, name]
        if not own:
            continue
        found: tuple[Signature | None, str]
        try:
            found = _signature(die), ""
        except (_Untold, SignatureError) as error:
            found = None, str(error)
        for one in own:
            yield one, found


def _described(die: Foreign) -> Foreign:
    """What has the attributes of a function: itself, or what it is an instance of."""
    for link in ("DW_AT_abstract_origin", "DW_AT_specification"):
        if link in die.attributes:
            return _described(die.get_DIE_from_attribute(link))
    return die


def _name(die: Foreign) -> str:
    die = _described(die)
    for key in ("DW_AT_linkage_name", "DW_AT_name"):
        if key in die.attributes:
            return _text(die.attributes[key].value)
    return ""


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _signature(die: Foreign) -> Signature:
    """The signature of a function.

    Raises
    ------
    _Untold, SignatureError
        Where a type is none that can be passed.
    """
    die = _described(die)
    text, names = _function(die, 0)
    made = parse(text)
    return Signature(made.result, made.args, made.variadic, names=names)


def _function(die: Foreign, depth: int) -> tuple[str, list[str | None]]:
    """The signature of a function or of a type of one, as text, and the names of the arguments."""
    arguments: list[str] = []
    names: list[str | None] = []
    variadic = ""
    for part in die.iter_children():
        if part.tag == "DW_TAG_formal_parameter":
            described = _described(part)
            arguments.append(_type(described, depth + 1))
            told = described.attributes.get("DW_AT_name")
            names.append(None if told is None else _text(told.value))
        elif part.tag == "DW_TAG_unspecified_parameters":
            variadic = "."
    return f"{_type(die, depth + 1, 'v')}:{''.join(arguments)}{variadic}", names


def _type(holder: Foreign, depth: int, absent: str = "P") -> str:
    """The type that something has, as a signature has it."""
    if "DW_AT_type" not in holder.attributes:
        return absent
    die = holder.get_DIE_from_attribute("DW_AT_type")
    while die.tag in _PASSED_OVER:
        if "DW_AT_type" not in die.attributes:
            return "v"
        die = die.get_DIE_from_attribute("DW_AT_type")
    size = die.attributes["DW_AT_byte_size"].value if "DW_AT_byte_size" in die.attributes else 0
    if die.tag == "DW_TAG_base_type":
        told = die.attributes.get("DW_AT_name")
        name = "" if told is None else _text(told.value)
        return _base(die.attributes["DW_AT_encoding"].value, size, name)
    if die.tag == "DW_TAG_enumeration_type":
        return _SIGNED.get(size, "i").upper()
    if die.tag in ("DW_TAG_pointer_type", "DW_TAG_reference_type"):
        return _pointer(die, depth)
    if die.tag == "DW_TAG_structure_type" and depth < _MOST_DEPTH:
        return _struct(die, depth)
    if die.tag == "DW_TAG_subroutine_type":
        return f"X{{{_function(die, depth)[0]}}}"
    kind = die.tag.removeprefix("DW_TAG_").removesuffix("_type").replace("_", " ")
    if kind == "unspecified" and "DW_AT_name" in die.attributes:  # as that of C++'s nullptr
        raise _Untold(f"'{_text(die.attributes['DW_AT_name'].value)}' has no code in signatures")
    raise _Untold(
        f"{'an' if kind in ('array', 'unspecified') else 'a'} {kind} has no code in signatures"
    )


def _base(encoding: int, size: int, name: str) -> str:
    kind = _KINDS.get(encoding)
    if (kind == "float" or encoding == 3) and _OTHER_FLOATS.search(name):
        raise _Untold(f"'{name}' has no code in signatures")
    if encoding == 3 and size in _COMPLEX:
        return _COMPLEX[size]
    if kind == "boolean":
        return "?"
    if kind == "float" and size in _FLOATS:
        return _FLOATS[size]
    if kind in ("signed", "unsigned") and size in _SIGNED:
        return _SIGNED[size] if kind == "signed" else _SIGNED[size].upper()
    raise _Untold(f"a number of {size} bytes, of DWARF's encoding {encoding}, has no code")


def _pointer(die: Foreign, depth: int) -> str:
    """A pointer; to what nothing describes, or what leads back, it is one to anything."""
    if depth >= _MOST_DEPTH // 4:
        return "P"
    try:
        pointee = _type(die, depth + 1, "v")
    except _Untold:
        return "P"
    if pointee.startswith("X{") or pointee in ("v", "T{}"):
        return "P" if pointee in ("v", "T{}") else pointee
    return f"&{pointee}"


def _struct(die: Foreign, depth: int) -> str:
    if "DW_AT_declaration" in die.attributes:
        return "T{}"
    fields = []
    for member in die.iter_children():
        if member.tag != "DW_TAG_member":
            continue
        if {"DW_AT_bit_size", "DW_AT_data_bit_offset"} & member.attributes.keys():
            raise _Untold("a struct with bit-fields has no code in signatures")
        told = member.attributes.get("DW_AT_name")
        name = "" if told is None else f":{_text(told.value)}:"
        fields.append(_member(member, depth) + name)
    return f"T{{{''.join(fields)}}}"


def _member(member: Foreign, depth: int) -> str:
    die = member.get_DIE_from_attribute("DW_AT_type")
    while die.tag in _PASSED_OVER and "DW_AT_type" in die.attributes:
        die = die.get_DIE_from_attribute("DW_AT_type")
    if die.tag != "DW_TAG_array_type":
        return _type(member, depth + 1)
    lengths = []
    for part in die.iter_children():
        if part.tag == "DW_TAG_subrange_type":
            bounds = part.attributes
            if "DW_AT_count" in bounds:
                lengths.append(bounds["DW_AT_count"].value)
            elif "DW_AT_upper_bound" in bounds:
                lengths.append(bounds["DW_AT_upper_bound"].value + 1)
    if not lengths or not all(isinstance(one, int) and one > 0 for one in lengths):
        raise _Untold("an array of no length has no code in signatures")
    return f"({','.join(map(str, lengths))}){_type(die, depth + 1)}"
