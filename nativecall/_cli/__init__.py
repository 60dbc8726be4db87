"""The `nativecall` command: `demo`, `inspect`, `stubs`, `freeze`, `doctor`, `cache`, `--cflags`.

Exit status; an error is also printed as one line on stderr:

- 0: success.
- 1: a negative answer (a wrong value in the demo, an object with nothing native to inspect, an
  unused cache directory), or standard output cannot be written.
- 2: the command cannot run.
- 130: the command was interrupted.

Each command has a module. The module's function `run` takes the command's options. Dependencies
that only one command needs are imported in its module.
"""

from __future__ import annotations

import argparse
import os
from importlib import import_module

from .._errors import TYPE_CHECKING
from .._output import CommandError, guarded
from .._slots import get_include
from .._version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence


#: Options for build systems. Each value has a directory in the package, the tools that search it,
#: and a file that must be in it.
_FOLDERS = {
    "cmakedir": (
        os.path.join("share", "cmake", "nativecall"),
        "CMake",
        "nativecall-config-version.cmake",
    ),
    "pkgconfigdir": (
        os.path.join("share", "pkgconfig"),
        "pkg-config, and Meson by it,",
        "nativecall.pc",
    ),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nativecall",
        description="One Python callable for every native function.",
        epilog='example: eval "gcc -shared -fPIC $(nativecall --cflags) consumer.c" '
        "(eval, because the options are quoted for the shell: their path may contain a space)",
    )
    parser.add_argument("--version", action="version", version=f"nativecall {__version__}")
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument(
        "--cflags",
        action="store_true",
        help="print the compiler options for C code that includes <nativecall/...> and exit",
    )
    for name, folder in _FOLDERS.items():
        asked.add_argument(
            f"--{name}",
            action="store_true",
            help=f"print the folder that {folder[1]} looks for nativecall in, and exit",
        )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser(
        "demo",
        help="call functions of the system's math library in every way; check and time them",
        description="Loads functions from the system's math library, shows their call table, calls "
        "them from Python, from C and in SciPy's quad, checks every value against Python's math "
        "module, and times each way beside ctypes, cffi and a Python function.",
    )
    inspecting = commands.add_parser(
        "inspect",
        help="show what native code finds in an object",
        description="Shows the entries and slots of a native callable, or what nativecall.wrap "
        "finds in an object of another library: signatures, flags, and which consumers accept "
        "them.",
    )
    inspecting.add_argument(
        "place",
        metavar="MODULE:NAME",
        help="a module to import, by its name or its file, and the dotted name of an object in it",
    )
    inspecting.add_argument(
        "--json", dest="as_json", action="store_true", help="print everything found as JSON"
    )
    commands.add_parser(
        "doctor",
        help="show what works on this machine, what falls back, and why",
        description="Tries calls, callbacks and conversions, and shows how they are implemented, "
        "where generated code is cached, and which compiler and packages are installed.",
    )
    writing = commands.add_parser(
        "stubs",
        help="write type stubs for a library's functions",
        description="Writes the .pyi of a module, with types for the functions of its libraries: "
        "mypy and pyright then report m.cos('x') as an error. All other names are taken from the "
        "module's source. The file is written beside the module unless --output is given.",
    )
    writing.add_argument(
        "place",
        metavar="MODULE:LIB",
        help="a module and the name of a library in it that nativecall.load made",
    )
    writing.add_argument("--output", metavar="FILE", help="where to write; - is standard output")
    writing.add_argument(
        "--force", action="store_true", help="also replace a file that this command did not write"
    )
    freezing = commands.add_parser(
        "freeze",
        help="write the declarations of headers to a file that a package ships",
        description="Writes what nativecall.load reads from headers to one file: declarations, "
        "layouts, constants and compiled inline functions, for this processor, system and C "
        "library. nativecall.load(name, frozen=FILE) then needs no header and no compiler.",
    )
    freezing.add_argument(
        "header", nargs="+", metavar="HEADER", help="a file, or a name that the C compiler finds"
    )
    freezing.add_argument("-o", "--output", metavar="FILE", required=True, help="where to write")
    freezing.add_argument(
        "-I", "--include", metavar="DIR", action="append", default=[], help="where headers are"
    )
    freezing.add_argument(
        "-D", "--define", metavar="NAME[=VALUE]", action="append", default=[], help="a macro"
    )
    freezing.add_argument(
        "--only", metavar="NAME", action="append", help="names or patterns; all others are left out"
    )
    freezing.add_argument(
        "--library", metavar="FILE", help="the library, which inline functions may call"
    )
    keeping = commands.add_parser(
        "cache",
        help="show or clear the cache on disk",
        description="Shows the directory where generated code is cached between processes, and how "
        "much it holds. The directory is $NATIVECALL_CACHE_DIR, or else the user's cache "
        "directory. If the variable is set but empty, there is none.",
    )
    actions = keeping.add_subparsers(dest="action", metavar="[clear]")
    actions.add_parser(
        "clear", help="delete the cached files", description="Deletes the cached files."
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with `argv`, by default the process's arguments; return the exit status."""
    return guarded("nativecall", lambda said: _carry_out(argv, said))


def _carry_out(argv: Sequence[str] | None, said: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    command = options.command
    asked = [name for name in ("cflags", *_FOLDERS) if getattr(options, name)]
    if asked and command is not None:
        parser.error(f"--{asked[0]} cannot be combined with the command {command!r}")
    if options.cflags:
        import shlex

        print(shlex.quote(f"-I{get_include()}"))
        return 0
    for name in asked:
        place, _, file = _FOLDERS[name]
        found = os.path.join(os.path.dirname(get_include()), place)
        if not os.path.exists(os.path.join(found, file)):
            raise CommandError(
                f"there is no {file} in {found}: an installation creates it, except an editable one"
            )
        print(found)
        return 0
    if command is None:
        parser.print_help()
        return 0
    said.append(command)
    own = ("command", "cflags", *_FOLDERS)
    given = {name: value for name, value in vars(options).items() if name not in own}
    name = "inspection" if command == "inspect" else command
    status: int = import_module(f"{__name__}.{name}").run(**given)
    return status
