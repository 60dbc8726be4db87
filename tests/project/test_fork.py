"""What a fork waits for: other threads that read C, and a list of imports that is whole.

Imports themselves and generated code are in test_engine.py.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

import nativecall as nc
from nativecall import _fork

FORK_WHILE_C_IS_READ = """
import os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
import nativecall as nc
from nativecall._signature import cffitype as ffitype
import cffi.cparser
address = nc.load("m").address("cos")
ffitype._MOST_TYPES = int(sys.argv[1])
nc.wrap(address, "&T{d:a:}:d").to_cffi()
begun = threading.Event()
parse = cffi.cparser.Parser.parse
def slow(self, *args, **options):
    if threading.current_thread() is thread:
        begun.set()
        time.sleep(0.3)
    return parse(self, *args, **options)
cffi.cparser.Parser.parse = slow
thread = threading.Thread(target=lambda: nc.wrap(address, "&T{d:b:}:d").to_cffi())
thread.start()
assert begun.wait(30)
child = os.fork()
if child == 0:
    signal.alarm(20)
    # What the thread declared, what it did not, and C code.
    nc.wrap(address, "&T{d:b:}:d").to_cffi()
    nc.wrap(address, "&T{d:c:}:d").to_cffi()
    nc.wrap(address, "struct point { double x, y; }; struct point *f(void)").to_cffi()
    os._exit(0)
thread.join()
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("most", [1024, 1])
def test_a_fork_while_another_thread_reads_c(forked, most):
    """cffi's locks are free in the child, that of an FFI which is just beginning as well."""
    assert forked(FORK_WHILE_C_IS_READ, most, timeout=300) == "0\n"


def test_a_fork_waits_for_all_that_functions_import():
    """What is imported when it is first needed, in the package except for its commands."""
    package = Path(nc.__file__).parent
    imported = set()
    for file in package.rglob("*.py"):
        if file.relative_to(package).parts[0] in ("_cli", "conformance"):
            continue
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    imported.add((node.module or "").partition(".")[0])
    assert {"cffi", "llvmlite", "re"} < imported
    # Python itself imports these before anything of ours.
    assert imported - {"builtins", "os", "sys", "_frozen_importlib_external"} <= _fork._OURS
