"""Generate the ahead-of-time trampolines: one pair of C functions for each shape in `SHAPES`.

A shape is a signature with every pointer written ``P``. All signatures of a shape share one
trampoline, because only conversions depend on the target type of a pointer. Conversions read the
target type from the call interface.

`SHAPES` is based on a count of the shapes in 26 headers: those of the C library, POSIX, zlib,
SQLite, OpenSSL, GSL, libgit2, Xlib and others. It contains nearly all shapes that ten of the
headers use, and the shapes that numerical code calls in loops. A call without a trampoline uses a
plan (csrc/call/) and takes 5 to 8 ns longer, so a missing shape costs little (docs/decisions.md,
29).

The build runs ``python generate_trampolines.py trampolines.c``.
"""

from __future__ import annotations

import sys

RESULTS = {
    "v": ("void", "Py_NewRef(Py_None)"),
    "d": ("double", "PyFloat_FromDouble(result)"),
    "f": ("float", "PyFloat_FromDouble((double)result)"),
    "i": ("int32_t", "PyLong_FromLong((long)result)"),
    "q": ("int64_t", "PyLong_FromLongLong((long long)result)"),
    "Q": ("uint64_t", "PyLong_FromUnsignedLongLong((unsigned long long)result)"),
    "P": ("void *", "nc_pointer_to_python(self, result)"),
}
ARGUMENTS = {code: c_type for code, (c_type, _) in RESULTS.items() if code != "v"}
SHAPES = (
    # numbers
    "v: i: P: d: v:i i:i i:ii i:d q:q q:qq Q:Q f:f f:ff",
    "d:d d:dd d:ddd d:dddd d:i d:id d:di",
    # pointers
    "v:P v:PP v:PPP i:P i:PP i:PPP i:PPPP q:P Q:P d:P P:P P:PP P:PPP",
    # pointers with lengths and flags
    "i:Pi i:iP i:PQ i:PPi i:PPQ i:iPP P:Q P:i P:PQ P:Pi v:PQ v:Pi Q:PPQ",
    # numerical kernels, and integrands with data
    "d:Pq d:PPq v:Pq d:dP",
)


def named(shape: str) -> tuple[str, str]:
    """Return a shape's part of C names, and the kind of its built-in method."""
    args = shape.partition(":")[2]
    kind = {0: "NOARGS", 1: "O"}.get(len(args), "FASTCALL")
    return shape.replace(":", "_") + "none" * (not args), kind


def function(shape: str) -> str:
    """Return the C code for one shape."""
    code, _, args = shape.partition(":")
    name, kind = named(shape)
    c_type, to_python = RESULTS[code]
    has_pointers = "P" in args
    lines = [f"static inline PyObject *call_{name}(NcCallable *self, PyObject *const *args)", "{"]
    body = []
    # All pointers are in one array, which is released at the end of the call.
    places = {}
    for i, letter in enumerate(args):
        if letter == "P":
            place = places[i] = f"pointers[{args[:i].count('P')}]"
            body.append(f"    {place}.buffer.obj = NULL;\n    {place}.keep = NULL;")
        else:
            places[i] = f"a{i}"
            lines.append(f"    {ARGUMENTS[letter]} a{i};")
    if has_pointers:
        lines.append(f"    NcPointer pointers[{args.count('P')}];")
        lines.append("    PyObject *value = NULL;")
    if "P" in args[:-1]:
        lines.append("    int status;")
    leave = "goto done" if has_pointers else "return NULL"
    for i, letter in enumerate(args):
        get = f"nc_get_{letter}(self, args, {i}, &{places[i]})"
        before = args[:i].count("P")
        if before:
            # This conversion may run code that moves the memory behind earlier pointers.
            body.append(
                f"    status = {get};\n"
                "    if (NC_UNLIKELY(status != 0) &&\n"
                "        (status < 0 ||\n"
                f"         nc_check_unmoved((PyObject *)self, pointers, {before}) < 0)) {{\n"
                f"        {leave};\n    }}"
            )
        else:
            body.append(f"    if (NC_UNLIKELY({get} < 0)) {{\n        {leave};\n    }}")
    if args.count("P") > 1:
        body.append(f"    nc_join_pointers(pointers, {args.count('P')});")
    types = ", ".join(ARGUMENTS[letter] for letter in args) or "void"
    values = ", ".join(
        f"{places[i]}.address" if a == "P" else places[i] for i, a in enumerate(args)
    )
    call = f"NC_TARGET(self, {c_type}, {types})({values})"
    if not args:
        body.append("    (void)args;")
    store = "value =" if has_pointers else "return"
    test = f"if (nc_is_left() && nc_left_raise()) {{\n        {leave};\n    }}"
    if code == "v":
        body.append(f"    {call};\n    {test}\n    {store} {to_python};")
    else:
        body.append(
            f"    {{\n        {c_type} result = {call};\n    {test}\n"
            f"    {store} {to_python};\n    }}"
        )
    if has_pointers:
        body.append("done:;")
        body.append(f"    return nc_release_pointers(value, pointers, {args.count('P')});")
    lines += body + ["}", ""]
    lines.append(f"NC_TRAMPOLINE_{kind}({name}, {len(args)})")
    lines.append("")
    return "\n".join(lines)


def main(path: str) -> None:
    """Write the C file."""
    all_shapes = sorted(" ".join(SHAPES).split())
    parts = [
        "/* Written by generate_trampolines.py. */",
        '#include "callable/trampoline.h"',
        '#include "callable/trampolinebody.h"',
        "",
    ]
    longest = max(map(len, all_shapes))
    parts += [f'_Static_assert({longest} == NC_LONGEST_SHAPE, "trampoline.h says otherwise");', ""]
    parts += [function(shape) for shape in all_shapes]
    parts.append("const NcTrampoline nc_trampolines[] = {")
    for shape in all_shapes:
        name, kind = named(shape)
        method = f"method_{name}" if kind != "FASTCALL" else f"NC_METHOD(method_{name})"
        parts.append(f'    {{"{shape}", METH_{kind}, {method}, vectorcall_{name}}},')
    parts += ["};", f"const size_t nc_trampoline_count = {len(all_shapes)};", ""]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts))


if __name__ == "__main__":
    main(sys.argv[1])
