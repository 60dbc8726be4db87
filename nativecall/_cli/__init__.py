"""The `nativecall` command: ``demo``, ``inspect MODULE:NAME``, ``cache``, ``--cflags``.

Exit status: 0 when all is well; 1 when the answer is no (a wrong value in the demo, an object with
nothing native to inspect, a cache directory that is not used); 2 when the command cannot be carried
out, with one line on stderr that says why. What only one command needs is imported by that command.
"""

from __future__ import annotations

import argparse
import os
import sys

from .._slots import get_include
from .._version import __version__
from .output import CommandError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def _cflags() -> str:
    """The compiler options that C code needs, quoted for a shell."""
    import shlex

    return shlex.quote(f"-I{get_include()}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nativecall",
        description="One Python callable for every native function.",
        epilog="example: gcc -shared -fPIC $(nativecall --cflags) consumer.c",
    )
    parser.add_argument("--version", action="version", version=f"nativecall {__version__}")
    parser.add_argument(
        "--cflags",
        action="store_true",
        help="print the compiler options for C code that includes <nativecall/...> and exit",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser(
        "demo",
        help="call functions of the system's math library every way, check and time them",
        description="Takes functions out of the system's math library, shows their call table, "
        "calls them from Python, from C and in SciPy's quad, checks every value against Python's "
        "math module, and times each way beside ctypes, cffi and a Python function.",
    )
    inspecting = commands.add_parser(
        "inspect",
        help="show what native code finds in an object",
        description="Shows the entries and slots of a native callable, and what nativecall.wrap "
        "would find in an object of another library.",
    )
    inspecting.add_argument(
        "object",
        metavar="MODULE:NAME",
        help="a module to import and the dotted name of an object in it",
    )
    inspecting.add_argument(
        "--llvm", action="store_true", help="show the LLVM IR of code generated for its calls"
    )
    inspecting.add_argument(
        "--asm", action="store_true", help="show the assembly of code generated for its calls"
    )
    keeping = commands.add_parser(
        "cache",
        help="show or clear the generated code that is kept on disk",
        description="Shows the directory where generated code is kept between processes, and how "
        "much there is. The directory is $NATIVECALL_CACHE_DIR, else the user's cache directory "
        "if platformdirs is installed, else none.",
    )
    keeping.add_argument("--clear", action="store_true", help="delete what is kept")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, those of the process by default; the exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.cflags:
        print(_cflags())
        return 0
    if options.command is None:
        parser.print_help()
        return 0
    status = 0
    try:
        if options.command == "demo":
            from . import demo

            status = demo.run()
        if options.command == "inspect":
            from . import inspection

            forms = [form for form in ("llvm", "asm") if getattr(options, form)]
            status = inspection.run(options.object, forms)
        if options.command == "cache":
            from . import cache

            status = cache.run(clear=options.clear)
        sys.stdout.flush()
    except CommandError as error:
        print(f"nativecall {options.command}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        # Standard output takes no more; what it still holds must not be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"nativecall {options.command}: {error}", file=sys.stderr)
        return 1
    return status
