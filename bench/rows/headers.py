"""What an include costs: lines, compile time and text of one use of each public header."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from bench import installed
from bench.rows import Effort
from bench.section import Section

METHOD = (
    "One use of each public header, compiled by itself with gcc -O2. 'lines' are those of all our "
    "headers that it includes, comments too; 'ms' the processor time of the compiler beyond that "
    "of a file with Python.h alone, the least of all rounds, the files in turn; 'text' the bytes "
    "of code and constants."
)
COMPILER = "gcc"
BARE = "Python.h alone"
#: The role and the shortest use of each header; `use` keeps the compiler from dropping it.
USES: dict[str, tuple[str, str]] = {
    "nativecall_abi.h": (
        "look",
        """static const char *d_d;
        void *use(PyObject *obj)
        {
            const PyNativeCallableEntry *entry;
            if (d_d == NULL) d_d = nc_abi_intern("d:d");
            entry = nc_abi_find(obj, d_d, NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK);
            if (entry == NULL) entry = nc_abi_ask(obj, "d:d", NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK);
            return entry != NULL ? NC_ABI_LOAD(&entry->funcptr)
                                 : nc_abi_find_word(obj, (uint64_t)0x8011 << 48, 0);
        }""",
    ),
    "customslots.h": (
        "slots",
        """const void *use(PyObject *obj)
        {
            return PyCustomSlots_Import() ? PyCustomSlots_Find(obj, 0x05000001, 0) : NULL;
        }""",
    ),
    "nativecallable.h": (
        "consume",
        """static const char *d_d;
        void *use(PyObject *obj)
        {
            if (d_d == NULL && nc_signature_intern("d:d", &d_d) < 0) return NULL;
            return nc_native_function(obj, d_d, NC_FLAG_NEEDS_GIL | NC_ERRORS_MASK);
        }""",
    ),
    "dispatch.h": (
        "dispatch",
        """NC_DISPATCH(evaluate, double, (double, int));
        int use(PyObject *obj, double *out) { return evaluate(obj, out, 0.5, 3); }""",
    ),
    "dynamiccall.h": (
        "run-time calls",
        """int use(PyObject *obj, double *out, const void *const *arguments)
        {
            NcCall call;
            int status;
            if (nc_call_prepare(&call, obj, "d:id") < 0) return -1;
            status = nc_call(&call, out, arguments);
            nc_call_release(&call);
            return status;
        }""",
    ),
    "callback.h": (
        "callback",
        """NC_CALLBACK_DECLARE(integrand, double, (double), 0.0);
        static NcCallbackSignature accepted[] = {NC_CALLBACK_ACCEPT(integrand)};
        int use(PyObject *obj, double *out)
        {
            NcCallback f;
            if (nc_callback_prepare(&f, obj, accepted, 1, NC_CALLBACK_HOLDS_GIL) < 0) return -1;
            *out = NC_CALLBACK_FUNCTION(&f, double (*)(double))(0.5);
            return nc_callback_release(&f);
        }""",
    ),
    "nativeapi.h": (
        "provide, tier 2",
        """static const PyNativeCallableEntry *find(PyObject *obj, const char *s, uintptr_t flags)
        {
            (void)obj, (void)s, (void)flags;
            return NULL;
        }
        static NcNativeApi api = {sizeof api, NC_NATIVEAPI_NAME, NULL, find, NULL};
        PyObject *use(void) { return PyCapsule_New(&api, NC_NATIVEAPI_CAPSULE, NULL); }""",
    ),
    "nativetable.h": (
        "provide, a table",
        """int use(NcNativeTable *table, const char *signature, void *function)
        {
            nc_nativetable_init(table);
            return nc_nativetable_add(table, signature, 0, function);
        }""",
    ),
    "extensibletype.h": (
        "run the metaclass",
        """int use(PyHeapExtensibleTypeObject *type) { return PyExtensibleType_Ready(type, 2); }""",
    ),
    "signature.h": (
        "signatures",
        """int use(const char *text, char *out, size_t size, size_t *length)
        {
            return nc_signature_canonical(text, size, out, size, length);
        }""",
    ),
    "view.h": (
        "arrays",
        """double use(const NC_VIEW(double, 1) * view) { return *view->data; }""",
    ),
}


def processes(effort: Effort) -> int:
    """Return the number of processes."""
    return effort.choose(1, 1)


def spent(command: list[str]) -> float:
    """Run a command; its processor time in ms."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def text_size(path: Path) -> int:
    """The bytes of an object file's code and constants."""
    printed = subprocess.run(["size", path], check=True, capture_output=True, text=True).stdout
    return int(printed.splitlines()[1].split()[0])


def included(command: list[str], include: Path) -> list[Path]:
    """Our headers that a compilation reads, each once."""
    done = subprocess.run([*command, "-M"], check=True, capture_output=True, text=True)
    words = done.stdout.replace("\\\n", " ").split()
    paths = {Path(word).resolve() for word in words if word.endswith(".h")}
    return sorted(path for path in paths if path.is_relative_to(include.resolve()))


def measure(effort: Effort) -> Section:
    """Compile all uses, in turn, as often as the effort says."""
    section = Section("headers", METHOD)
    for tool in (COMPILER, "size"):
        if shutil.which(tool) is None:
            section.absent["headers"] = f"no {tool}"
            return section
    try:
        include = Path(installed.import_nativecall().get_include())
    except installed.NotInstalled as error:
        section.absent["headers"] = str(error)
        return section
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        base = [COMPILER, "-std=gnu11", "-O2", f"-I{include}"]
        base.append(f"-I{sysconfig.get_path('include')}")
        commands: dict[str, list[str]] = {}
        for name, text in {BARE: "", **{name: use for name, (_, use) in USES.items()}}.items():
            source = folder / f"{len(commands)}.c"
            header = "" if name == BARE else f"#include <nativecall/{name}>\n"
            source.write_text(f"#include <Python.h>\n{header}{text}\n", encoding="utf-8")
            commands[name] = [*base, str(source)]
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(effort.choose(15, 3)):
            for number, (name, command) in enumerate(commands.items()):
                output = str(folder / f"{number}.o")
                times[name].append(spent([*command, "-c", "-o", output]))
        rows: list[dict[str, Any]] = []
        bare = min(times[BARE])
        for number, (name, command) in enumerate(commands.items()):
            if name == BARE:
                continue
            paths = included(command, include)
            rows.append(
                {
                    "header": name,
                    "role": USES[name][0],
                    "files": len(paths),
                    "lines": sum(len(path.read_text().splitlines()) for path in paths),
                    "ms": min(times[name]) - bare,
                    "text": text_size(folder / f"{number}.o"),
                }
            )
    section.figures = {"python_h_ms": bare, "headers": rows}
    return section
