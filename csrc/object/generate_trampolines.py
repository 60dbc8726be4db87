"""Writes the ahead-of-time trampolines: one pair of C functions for each shape in `shapes`.

A shape is a signature with every pointer written ``P`` and ``Zd`` written ``Z``. Signatures of one
shape share one trampoline, because a pointer's target type matters only to its conversion, which
reads it from the spec.

How the set was chosen: by counting the shapes that numerical libraries really export. C99's
``<math.h>``, ``<complex.h>`` and the numeric part of ``<stdlib.h>``; what C's library has of
strings and files; the functions that SciPy offers to C through ``cython_special``, ``cython_blas``
and ``cython_lapack``; and the callbacks that SciPy, GSL and CVODE-like solvers take. What occurs
there falls into few families, taken up to the arity where their use ends:

* one type throughout: ``d``, ``f``, ``q``, ``i`` up to five or three arguments;
* special functions: integer orders and doubles mixed, up to three arguments (``jn(n, x)``,
  ``eval_jacobi(n, a, b, x)``), the same with the int that Cython appends, and with results
  through pointers (``sici(x, &si, &ci)``);
* classification and rounding: ``i`` or ``q`` of a float (``ilogb``, ``lrint``);
* array kernels: pointers with lengths (``q`` or ``i``) in any order, up to three arguments;
* BLAS and Fortran: everything by reference, up to eight pointers;
* callbacks: ``quad``, ``ndimage`` filters, GSL's ``double (double, void *)``, ODE right-hand sides;
* complex: of complex, with real or integer orders before it.

What they cost: the 282 are 7 s of the build (GCC) and 229 KiB, half of the core; one is 25 ms, and
600 bytes without pointers or 1.2 KB with them. What one spares: 1.4 ms at the first call of its
shape (0.24 ms once the code is on disk), and the import of llvmlite, 100 ms, to a process that has
no other use of it. So shapes that no library was found to have are left out, although a family has
a hole then: two widths of integers in one signature, long kernels that give a float or a pointer
(docs/decisions.md, 29).

Trampolines of all other shapes are generated at run time (nativecall/_codegen/trampoline.py).

Run by the build: ``python generate_trampolines.py trampolines.c``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product

RESULTS = {
    "v": ("void", "Py_NewRef(Py_None)"),
    "d": ("double", "PyFloat_FromDouble(result)"),
    "f": ("float", "PyFloat_FromDouble((double)result)"),
    "g": ("long double", "nc_box_longdouble(result)"),
    "i": ("int32_t", "PyLong_FromLong((long)result)"),
    "q": ("int64_t", "PyLong_FromLongLong((long long)result)"),
    "Z": ("double _Complex", "PyComplex_FromDoubles(creal(result), cimag(result))"),
    "P": ("void *", "nc_pointer_to_python(self, result)"),
}
# A float complex has no conversion of its own here: libraries hardly export such functions, so
# calls through libffi will do.
ARGUMENTS = {
    "d": "double",
    "f": "float",
    "g": "long double",
    "i": "int32_t",
    "q": "int64_t",
    "Z": "double _Complex",
    "P": "void *",
}


def words(letters: str, longest: int) -> Iterator[str]:
    """All words over `letters` of one letter to `longest`."""
    for length in range(1, longest + 1):
        for word in product(letters, repeat=length):
            yield "".join(word)


def with_integers(letters: str, longest: int) -> set[str]:
    """Words over `letters` and one type of integer: libraries have one or the other."""
    return {*words(f"i{letters}", longest), *words(f"q{letters}", longest)}


def shapes() -> list[str]:
    """Every shape, sorted, without repetition."""
    found = {"v:", "d:", "i:", "q:", "P:", "f:"}
    for letter, longest in (("d", 5), ("f", 4), ("q", 3), ("i", 3), ("g", 3), ("Z", 3)):
        found |= {f"{letter}:{letter * n}" for n in range(1, longest + 1)}
    # Special functions: orders and doubles, results through pointers.
    found |= {f"d:{word}" for word in with_integers("d", 3)} | {f"f:{w}" for w in words("fi", 2)}
    found |= {"d:iddd", "d:qddd", "d:qqdd", "d:iidd"}
    # Cython appends an int to what Python can call, too.
    found |= {f"d:{word}i" for word in ("ddd", "dddd", "qd", "qdd", "qddd", "qqd", "dqd")}
    found |= {f"f:{word}i" for word in ("ff", "fff")}
    for result, counts in (("v", (1, 2, 4)), ("i", (1, 2)), ("d", (1, 2))):
        found |= {f"{result}:{'d' * k}{'P' * p}" for k in (1, 2, 3) for p in counts}
    found |= {"f:fP", "g:gP", "f:fiP", "f:fq", "g:gi", "g:gq", "g:giP", "d:g", "g:d"}
    # Classification, rounding, conversion.
    found |= {f"{r}:{a}" for r in "iqd" for a in "dfiqg"} | {"f:d"}
    found |= {"i:dd", "i:ff", "i:ii", "i:qq", "q:dd"}
    # Array kernels, and what C's library has of strings and files.
    arrays = {word for word in with_integers("P", 3) if "P" in word}
    for result in "vid":
        found |= {f"{result}:{word}" for word in arrays}
        found |= {f"{result}:{word}" for word in ("Pd", "dP", "Pdq", "PPd", "Pqd", "PdP", "dPP")}
    found |= {f"f:{w}" for w in arrays if len(w) < 3} | {"f:PPi", "f:PPq"}
    for result, more in (("q", "Pi PPi iPq"), ("P", "Pi iP PPi Piq PiP")):
        found |= {f"{result}:{word}" for word in words("qP", 3) if "P" in word}
        found |= {f"{result}:{word}" for word in more.split()}
    found |= {f"v:{w}" for w in ("qdPP", "qPqP", "qPqPq", "qdPqPq", "PPPq", "PPPi", "PPqq", "PPqd")}
    found |= {f"v:{w}" for w in ("idPP", "iPiP", "idPiPi", "PPPd")}
    found |= {f"d:{w}" for w in ("qPqP", "qPqPq", "PPPq", "PPPi", "iPiP")} | {"i:Pqi"}
    found |= {"v:Pf", "v:fP", "v:Pfq", "v:PPf"}
    # BLAS and Fortran, by reference.
    for result, most in (("v", 8), ("i", 8), ("d", 6), ("f", 5)):
        found |= {f"{result}:{'P' * n}" for n in range(1, most + 1)}
    # Callbacks.
    found |= {"d:iPP", "d:qPP", "i:PqPqP", "i:PqPP", "i:PPiiP", "i:dPPP", "v:dPPP", "v:qdPPP"}
    found |= {"i:PPPi", "i:PPPiP", "d:qPdP", "d:dqP"}
    # Complex.
    found |= {f"Z:{word}" for word in ("dZ", "qZ", "iZ", "ddZ", "qdZ", "dd", "Zd", "Zq", "Zi", "d")}
    found |= {"d:Z", "d:ZZ", "v:ZPP", "v:ZPPPP"}
    return sorted(found)


def function(shape: str) -> str:
    """The C code for one shape."""
    code, _, args = shape.partition(":")
    name = f"{code}_{args}" if args else f"{code}_none"
    c_type, to_python = RESULTS[code]
    has_pointers = "P" in args
    lines = [f"static inline PyObject *call_{name}(NcCallable *self, PyObject *const *args)", "{"]
    body = []
    # The pointers are an array, for the end of the call.
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
            # What that ran may have moved what others point to.
            body.append(
                f"    status = {get};\n"
                "    if (NC_UNLIKELY(status != 0) &&\n"
                "        (status < 0 ||\n"
                f"         nc_check_unmoved((PyObject *)self, pointers, {before}) < 0)) {{\n"
                f"        {leave};\n    }}"
            )
        else:
            body.append(f"    if (NC_UNLIKELY({get} < 0)) {{\n        {leave};\n    }}")
    types = ", ".join(ARGUMENTS[letter] for letter in args) or "void"
    values = ", ".join(
        f"{places[i]}.address" if a == "P" else places[i] for i, a in enumerate(args)
    )
    call = f"NC_TARGET(self, {c_type}, {types})({values})"
    opening = "{\n        " if code != "v" else ""
    if not args:
        body.append("    (void)args;")
    store = "value =" if has_pointers else "return"
    test = f"if (nc_is_left() && nc_left_raise()) {{\n        {leave};\n    }}"
    if code == "P":
        # A pointer may be the caller's to free, also where the call raises.
        lines.append("    void *result = NULL;")
        if not has_pointers:
            lines.append("    PyObject *value = NULL;")
        body.append(
            f"    result = {call};\n    if (!nc_is_left() || !nc_left_raise()) {{\n"
            f"        value = {to_python};\n    }}"
        )
    elif code == "v":
        body.append(f"    {call};\n    {test}\n    {store} {to_python};")
    else:
        body.append(
            f"    {opening}{c_type} result = {call};\n    {test}\n    {store} {to_python};\n    }}"
        )
    if has_pointers:
        body.append("done:;")
        count = args.count("P")
        ended = f"nc_release_pointers(value, pointers, {count})"
        body.append(f"    value = {ended};" if code == "P" else f"    return {ended};")
    if code == "P":
        body.append(
            "    if (NC_UNLIKELY(value == NULL)) {\n        nc_result_lose(self, result);\n    }\n"
            "    return value;"
        )
    lines += body + ["}", ""]
    kind = {0: "NOARGS", 1: "O"}.get(len(args), "FASTCALL")
    lines.append(f"NC_TRAMPOLINE_{kind}({name}, {len(args)})")
    lines.append("")
    return "\n".join(lines)


def main(path: str) -> None:
    """Write the file."""
    all_shapes = shapes()
    parts = [
        "/* Written by generate_trampolines.py. */",
        '#include "object/trampoline.h"',
        '#include "object/trampolinebody.h"',
        "",
    ]
    longest = max(map(len, all_shapes))
    parts += [f'_Static_assert({longest} == NC_LONGEST_SHAPE, "trampoline.h says otherwise");', ""]
    parts += [function(shape) for shape in all_shapes]
    parts.append("const NcTrampoline nc_trampolines[] = {")
    for shape in all_shapes:
        code, _, args = shape.partition(":")
        kind = {0: "NOARGS", 1: "O"}.get(len(args), "FASTCALL")
        name = f"{code}_{args}" if args else f"{code}_none"
        method = f"method_{name}" if kind != "FASTCALL" else f"NC_METHOD(method_{name})"
        parts.append(f'    {{"{shape}", METH_{kind}, {method}, vectorcall_{name}}},')
    parts += ["};", f"const size_t nc_trampoline_count = {len(all_shapes)};", ""]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts))


if __name__ == "__main__":
    main(sys.argv[1])
