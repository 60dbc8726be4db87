"""Writes the ahead-of-time trampolines: one pair of C functions for each shape in `shapes`.

A shape is a signature with every pointer written ``P`` and ``Zd`` written ``Z``. Signatures of one
shape share one trampoline, because a pointer's target type matters only to its conversion, which
reads it from the spec.

How the set was chosen: by counting the shapes that numerical libraries really export. C99's
``<math.h>``, ``<complex.h>`` and the numeric part of ``<stdlib.h>``; the 2,400 functions that SciPy
offers to C through ``cython_special``, ``cython_blas`` and ``cython_lapack``; and the callbacks
that SciPy, GSL and CVODE-like solvers take. What occurs there falls into few families; each is
taken whole up to the arity where its use ends, so that the set has no holes to fall into:

* one type throughout: ``d``, ``f``, ``q``, ``i`` up to five or three arguments;
* special functions: integer orders and doubles mixed, up to three arguments (``jn(n, x)``,
  ``eval_jacobi(n, a, b, x)``), and with results through pointers (``sici(x, &si, &ci)``);
* classification and rounding: ``i`` or ``q`` of a float (``ilogb``, ``lrint``);
* array kernels: pointers with lengths (``q`` or ``i``) in any order, up to three arguments;
* BLAS and Fortran: everything by reference, up to eight pointers;
* callbacks: ``quad``, ``ndimage`` filters, GSL's ``double (double, void *)``, ODE right-hand sides;
* complex: of complex, with real or integer orders before it.

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
    "g": ("long double", "nc_long_double_to_python(result)"),
    "i": ("int32_t", "PyLong_FromLong((long)result)"),
    "q": ("int64_t", "PyLong_FromLongLong((long long)result)"),
    "Z": ("double _Complex", "PyComplex_FromDoubles(creal(result), cimag(result))"),
    "P": ("void *", "nc_pointer_to_python(self, result)"),
}
# A float complex has no conversion of its own here: libffi's price is fair for what nobody exports.
ARGUMENTS = {
    "d": "double",
    "f": "float",
    "g": "long double",
    "i": "int32_t",
    "q": "int64_t",
    "Z": "double _Complex",
    "P": "void *",
}


def words(letters: str, longest: int, shortest: int = 1) -> Iterator[str]:
    """All words over `letters` of `shortest` to `longest` letters."""
    for length in range(shortest, longest + 1):
        for word in product(letters, repeat=length):
            yield "".join(word)


def shapes() -> list[str]:
    """Every shape, sorted, without repetition."""
    found = {"v:", "d:", "i:", "q:", "P:", "f:"}
    for letter, longest in (("d", 5), ("f", 4), ("q", 3), ("i", 3), ("g", 3), ("Z", 3)):
        found |= {f"{letter}:{letter * n}" for n in range(1, longest + 1)}
    # Special functions: orders and doubles, results through pointers.
    found |= {f"d:{word}" for word in words("diq", 3)} | {f"f:{word}" for word in words("fi", 3)}
    found |= {f"d:{n}{'d' * k}" for n in "iq" for k in (1, 2, 3)} | {"d:qqd", "d:qqdd", "d:iidd"}
    found |= {f"{r}:{'d' * k}{'P' * p}" for r in "vid" for k in (1, 2, 3) for p in (1, 2, 3, 4)}
    found |= {"f:fP", "g:gP", "f:fiP", "f:fq", "g:gi", "g:gq", "g:giP", "d:g", "g:d"}
    # Classification, rounding, conversion.
    found |= {f"{r}:{a}" for r in "iqdfg" for a in ("d", "f", "i", "q", "g")}
    found |= {"i:dd", "i:ff", "i:ii", "i:qq", "q:dd"}
    # Array kernels.
    for result in "vidfqP":
        found |= {f"{result}:{word}" for word in words("iqP", 3) if "P" in word}
        found |= {f"{result}:{word}" for word in ("Pd", "dP", "Pdq", "PPd", "Pqd", "PdP", "dPP")}
    found |= {f"{r}:{w}" for r in "vd" for w in ("qdPP", "qPqP", "qPqPq", "qdPqPq", "PPPq", "PPPi")}
    found |= {f"{r}:{w}" for r in "vd" for w in ("idPP", "iPiP", "idPiPi", "PPPd", "PPqq", "PPqd")}
    found |= {"v:Pf", "v:fP", "f:fP", "v:Pfq", "v:PPf", "f:qP", "f:PPq"}
    # BLAS and Fortran, by reference.
    found |= {f"{r}:{'P' * n}" for r in "vidfq" for n in range(1, 9)}
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
                f"         nc_check_unmoved(self->name, pointers, {before}) < 0)) {{\n"
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
    if code == "v":
        body.append(f"    {call};\n    {test}\n    {store} {to_python};")
    else:
        body.append(
            f"    {opening}{c_type} result = {call};\n    {test}\n    {store} {to_python};\n    }}"
        )
    if has_pointers:
        body.append("done:;")
        count = args.count("P")
        body.append(f"    return nc_release_pointers(value, pointers, {count});")
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
        method = f"method_{name}" if kind != "FASTCALL" else f"NC_FASTCALL(method_{name})"
        parts.append(f'    {{"{shape}", METH_{kind}, {method}, vectorcall_{name}}},')
    parts += ["};", f"const size_t nc_trampoline_count = {len(all_shapes)};", ""]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts))


if __name__ == "__main__":
    main(sys.argv[1])
