"""Calls by the convention of 64-bit Windows, which gcc knows elsewhere, too (``-mabi=ms``).

A C program, of random signatures: nc_invoke of abi_win64.S calls functions, of which gcc makes the
code, and gcc's code calls nc_entry. Values lie in blocks as win64.py places them, and every byte of
them must arrive. On Linux the directives of the assembler file that Windows alone has are left out;
where MinGW and Wine are there they build and run the file as it is.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from nativecall._cdecl.spelling import parse, parse_type
from nativecall._plan.abi import Passing
from nativecall._plan.win64 import WIN64
from nativecall._types.ctype import VOID
from support import compilecache
from support.levels import sweep
from support.randomcalls import C_TYPES, PRELUDE, Case, Scalar, Struct

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or os.name != "posix", reason="gcc has the convention on x86-64"
)
CSRC = Path(__file__).parents[2] / "csrc"
BATCH = 100
COUNT = int(os.environ.get("NATIVECALL_TEST_SIGNATURES", "300"))
CODES = [code for code in C_TYPES if code not in ("e", "g", "Zg")]
MINGW = shutil.which("x86_64-w64-mingw32-gcc") and shutil.which("wine64", path="/usr/lib/wine")
# gcc's own calls of these follow the convention of the file.
OWN = """
#ifdef _WIN32
#include <stdio.h>
#define MAIN
#else
int printf(const char *format, ...) __attribute__((sysv_abi));
#define MAIN __attribute__((sysv_abi))
void *memcpy(void *to, const void *from, size_t size)
{ for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = ((const char *)from)[i]; return to; }
void *memset(void *to, int byte, size_t size)
{ for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = (char)byte; return to; }
#endif
void nc_invoke(void *block, const void *function, uint32_t words, uint32_t how);
void nc_entry(void);
typedef struct { void (*take)(char *block); } slot;
uint32_t nc_enter(const slot *slot, char *block) { slot->take(block); return 0; }
uint32_t nc_convert(const slot *slot, char *block) { slot->take(block); return 0; }
static char args[1 << 16], result[1 << 16];
static int wrong;
static void differs(const char *what, const char *sent, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (nc_log[i] != sent[i]) { printf("%s: byte %d\\n", what, (int)i); wrong = 1; return; }
}
"""
ASSEMBLED = """
__asm__(".text\\nstub_{name}: lea slot_{name}(%rip), %r10\\n jmp nc_entry\\n");
"""


def moved(passing: Passing, value: str, into: bool) -> list[str]:
    """C that moves a value into its places in a block, or out of the first."""
    if passing.how == "reference":
        place = passing.places[0]
        if into:
            return [f"{{ void *at = &{value}; memcpy(block + {place}, &at, 8); }}"]
        size = f"sizeof {value}"
        return [f"{{ void *at; memcpy(&at, block + {place}, 8); memcpy(&{value}, at, {size}); }}"]
    (piece,) = passing.pieces
    places = passing.places if into else passing.places[:1]
    both = "block + {0}, &{1}, {2}" if into else "&{1}, block + {0}, {2}"
    return [f"memcpy({both.format(place, value, piece.size)});" for place in places]


def returned(passing: Passing) -> list[str]:
    """C that puts a result where the caller finds it."""
    if passing.how != "reference":
        return moved(passing, "answer", True)
    first, again = passing.places
    return [
        f"{{ void *at; memcpy(&at, block + {first}, 8); memcpy(at, &answer, sizeof answer);",
        f"memcpy(block + {again}, &at, 8); }}",
    ]


def written(case: Case, known: dict[str, tuple[str, str]]) -> str:
    """The callee, what calls it by a block, and what calls the entry."""
    callee = case.write(known)
    name, kinds = case.name, [*case.args, *case.extra]
    result = VOID if case.result is None else parse_type(case.result.text)
    types = [parse(f"v:{one.text}").args[0] for one in kinds]
    call = WIN64.place(result, types, len(case.args) if case.variadic else None)
    pairs = [arg.draw(case.random) for arg in kinds]
    sent = b"".join(data for _, data in pairs)
    _, answer = (None, b"") if case.result is None else case.result.draw(case.random)

    def filled(values: list[tuple[str, Scalar | Struct]]) -> list[str]:
        lines = [f"{one.c} {place}; memset(&{place}, 0, sizeof {place});" for place, one in values]
        return lines + [line for place, one in values for line in one.copies(place, "take")]

    values = [(f"a{i}", one) for i, one in enumerate(kinds)]
    into = [
        line
        for (place, _), passing in zip(values, call.args, strict=True)
        for line in moved(passing, place, True)
    ]
    out = [
        line
        for (place, one), passing in zip(values, call.args, strict=True)
        for line in [f"{one.c} {place};", *moved(passing, place, False)]
    ]
    noted = [line for place, one in values for line in one.copies(place, "note")]
    has = case.result is not None
    logged = case.result.copies("answer", "note") if has else []
    made = filled([("answer", case.result)]) if has else []
    words = (call.stack - WIN64.stack) // 8
    block = f"_Alignas(16) char block[{call.stack}]; memset(block, 0xa5, sizeof block);"
    parameters = ", ".join([*[one.c for one in case.args], *["..."] * case.variadic]) or "void"
    given = ", ".join(place for place, _ in values)
    data = [
        f"static const char sent_{name}[] = {{ {', '.join(map(str, [*sent, 0]))} }};",
        f"static const char told_{name}[] = {{ {', '.join(map(str, [*answer, 0]))} }};",
    ]
    entered = [*out, "at = 0;", *noted, f"memcpy(nc_given, told_{name}, {len(answer)}); from = 0;"]
    entered += [*made, *(returned(call.result) if has else [])]
    called = [block, f"memcpy(nc_given, sent_{name}, {len(sent)}); from = 0;", *filled(values)]
    begun = [f"memcpy(nc_given, told_{name}, {len(answer)}); from = 0;"]
    check_args = [f'differs("{case.text}: arguments", sent_{name}, {len(sent)});']
    check_result = [f'differs("{case.text}: result", told_{name}, {len(answer)});']
    by_block = [*called, *begun, *([f"{case.result.c} answer;"] if has else [])]
    by_block += [*into, *(moved(call.result, "answer", True) if _is_reference(call.result) else [])]
    by_block += [f"nc_invoke(block, (const void *)(uintptr_t){name}, {words}, {call.vectors});"]
    by_block += check_args
    if has and not _is_reference(call.result):
        by_block += moved(call.result, "answer", False)
    by_block += ["at = 0;", *logged, *check_result]
    kind = case.result.c if has else "void"
    by_entry = [*called[1:], f"extern {kind} stub_{name}({parameters});"]
    by_entry += [f"{f'{kind} answer = ' * has}stub_{name}({given});", *check_args]
    by_entry += ["at = 0;", *logged, *check_result]
    return "\n".join(
        [
            callee,
            *data,
            f"static void enter_{name}(char *block) {{ {' '.join(entered)} }}",
            f"slot slot_{name} = {{ enter_{name} }};",
            ASSEMBLED.format(name=name),
            f"static void block_{name}(void) {{ {' '.join(by_block)} }}",
            f"static void stub_check_{name}(void) {{ {' '.join(by_entry)} }}",
        ]
    )


def _is_reference(passing: Passing) -> bool:
    return passing.how == "reference"


def program(folder: Path, cases: list[Case]) -> Path:
    known: dict[str, tuple[str, str]] = {}
    bodies = [written(case, known) for case in cases]
    calls = " ".join([f"block_{case.name}(); stub_check_{case.name}();" for case in cases])
    prelude = PRELUDE.replace("HALF", "").replace("static void note", f"{OWN}\nstatic void note")
    source = folder / "calls.c"
    types = [definition for _, definition in known.values()]
    source.write_text(
        "\n".join([prelude, *types, *bodies, f"MAIN int main(void) {{ {calls} return wrong; }}\n"])
    )
    return source


@pytest.mark.parametrize(
    "compiler",
    [
        "gcc",
        pytest.param(
            "mingw", marks=pytest.mark.skipif(not MINGW, reason="needs MinGW's gcc and Wine")
        ),
    ],
)
@pytest.mark.parametrize("start", sweep(range(0, COUNT, BATCH), 0))
def test_every_value_arrives_and_comes_back(compiler: str, start: int, tmp_path: Path) -> None:
    cases = [Case(seed, CODES) for seed in range(start, start + BATCH)]
    cases = [case for case in cases if "[" not in case.text]  # a view is a pointer like others
    source = program(tmp_path, cases)
    assembled = tmp_path / "abi_win64.S"
    lines = (CSRC / "call" / "abi_win64.S").read_text().splitlines(keepends=True)
    command = ["x86_64-w64-mingw32-gcc", "-mno-ms-bitfields"]  # layouts are those of this machine
    if compiler == "gcc":
        command = ["gcc", "-mabi=ms", "-D__CYGWIN__", "-no-pie"]
        lines = [one for one in lines if not one.lstrip().startswith((".seh_", ".def "))]
    assembled.write_text("".join(lines))
    output = tmp_path / ("calls" if compiler == "gcc" else "calls.exe")
    command += ["-O1", "-w", "-fno-builtin", f"-I{CSRC}"]
    made = tmp_path / "calls.o"
    compilecache.compiled([*command, "-c", str(source), "-o", str(made)], made)
    compilecache.run([*command, str(made), str(assembled), "-o", str(output)])
    runs = [str(output)] if compiler == "gcc" else ["/usr/lib/wine/wine64", str(output)]
    done = subprocess.run(runs, capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
