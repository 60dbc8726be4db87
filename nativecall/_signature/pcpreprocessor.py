"""Headers through the package pcpp, where there is no C compiler.

A compiler has macros and a few headers of its own, which are given here as gcc has them for this
machine; the system's headers are those of the C library.
"""

from __future__ import annotations

import copy
import io
import os
import platform
import re
import sys

from .._errors import LibraryError, SignatureError
from .ctype import SCALARS, WORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._types import Foreign

_FLOATS = """
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MIN_EXP (-125)
#define FLT_MAX_EXP 128
#define FLT_MIN_10_EXP (-37)
#define FLT_MAX_10_EXP 38
#define FLT_MAX 3.40282346638528859811704183484516925e+38F
#define FLT_MIN 1.17549435082228750796873653722224568e-38F
#define FLT_EPSILON 1.19209289550781250000000000000000000e-7F
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MIN_EXP (-1021)
#define DBL_MAX_EXP 1024
#define DBL_MIN_10_EXP (-307)
#define DBL_MAX_10_EXP 308
#define DBL_MAX 1.79769313486231570814527423731704357e+308
#define DBL_MIN 2.22507385850720138309023271733240406e-308
#define DBL_EPSILON 2.22044604925031308084726333618164062e-16
"""
#: The headers that a compiler brings. A second look at one that says only what is asked for, as
#: the C library does with <stddef.h>, must do no harm.
_HEADERS = {
    "stddef.h": "typedef __SIZE_TYPE__ size_t; typedef __PTRDIFF_TYPE__ ptrdiff_t;\n"
    "typedef __WCHAR_TYPE__ wchar_t; typedef __WINT_TYPE__ wint_t;\n"
    "typedef struct { long long a __attribute__((aligned(8)));"
    " long double b __attribute__((aligned(16))); } max_align_t;\n"
    "#define NULL ((void *)0)\n#define offsetof(t, m) __builtin_offsetof(t, m)\n",
    "stdarg.h": "typedef __builtin_va_list __gnuc_va_list; typedef __gnuc_va_list va_list;\n",
    "stdbool.h": "#define bool _Bool\n#define true 1\n#define false 0\n",
    "stdalign.h": "#define alignas _Alignas\n#define alignof _Alignof\n",
    "stdnoreturn.h": "#define noreturn _Noreturn\n",
    "iso646.h": "",
    "float.h": _FLOATS,
}


_MOST_INCLUDES = 50  # of headers in each other that do not yet mean a circle
#: The integers: what the compiler's macros and those of <limits.h> call them, their codes and the
#: suffixes of their constants.
_INTEGERS = (
    ("SCHAR", "SCHAR", "b", ""),
    ("SHORT", "SHRT", "h", ""),
    ("INT", "INT", "i", ""),
    ("LONG", "LONG", "l", "L"),
    ("LONG_LONG", "LLONG", "q", "LL"),
)


def _predefined() -> dict[str, object]:
    """What gcc defines for this machine."""
    found: dict[str, object] = {
        "__GNUC__": 9,
        "__GNUC_MINOR__": 0,
        "__STDC__": 1,
        "__STDC_VERSION__": "201710L",
        "__STDC_HOSTED__": 1,
        "__ELF__": 1,
        "__CHAR_BIT__": 8,
        **({} if SCALARS["c"].signed else {"__CHAR_UNSIGNED__": 1}),
        "__ORDER_LITTLE_ENDIAN__": 1234,
        "__ORDER_BIG_ENDIAN__": 4321,
        "__BYTE_ORDER__": 1234 if sys.byteorder == "little" else 4321,
        f"__{sys.platform}__": 1,
        f"__{platform.machine()}__": 1,
        "__unix__": 1,
        "__WCHAR_TYPE__": "int",
        "__WINT_TYPE__": "unsigned int",
        "__SIZE_TYPE__": "unsigned long",
        "__PTRDIFF_TYPE__": "long",
        "__INTMAX_TYPE__": "long",
        "__UINTMAX_TYPE__": "unsigned long",
        "__CHAR16_TYPE__": "unsigned short",
        "__CHAR32_TYPE__": "unsigned int",
        "__SIZEOF_POINTER__": WORD,
        "__SIZEOF_WCHAR_T__": 4,
        "__SIZEOF_SIZE_T__": WORD,
        **({"__LP64__": 1, "_LP64": 1} if WORD == 8 else {}),
    }
    for name, _, code, suffix in _INTEGERS:
        size = SCALARS[code].size
        found[f"__SIZEOF_{name}__"] = size
        found[f"__{name}_MAX__"] = f"{2 ** (8 * size - 1) - 1}{suffix}"
    for code, name in (("f", "FLOAT"), ("d", "DOUBLE"), ("g", "LONG_DOUBLE")):
        found[f"__SIZEOF_{name}__"] = SCALARS[code].size
    return found


def _limits(system: Sequence[str]) -> str:
    """What <limits.h> of gcc says: the numbers of the language, then what the C library's says."""
    lines = ["#ifndef _GCC_LIMITS_H_", "#define _GCC_LIMITS_H_", "#define CHAR_BIT 8"]
    for name, limit, code, suffix in _INTEGERS:
        unsigned = "UCHAR_MAX" if code == "b" else f"U{limit}_MAX"
        twice = f"2{'U' * (SCALARS[code].size >= 4)}{suffix}"
        lines += [
            f"#define {limit}_MAX __{name}_MAX__",
            f"#define {limit}_MIN (-{limit}_MAX - 1{suffix})",
            f"#define {unsigned} ({limit}_MAX * {twice} + 1)",
        ]
    least, most = ("SCHAR_MIN", "SCHAR_MAX") if SCALARS["c"].signed else ("0", "UCHAR_MAX")
    lines += [f"#define CHAR_MIN {least}", f"#define CHAR_MAX {most}", "#endif"]
    paths = [os.path.join(folder, "limits.h") for folder in system]
    lines += [f'#include "{path}"' for path in paths if os.path.isfile(path)][:1]
    return "\n".join([*lines, ""])


def _with_short_suffixes(tokens: Sequence[Foreign], integers: Sequence[str]) -> list[Foreign]:
    """The tokens of an ``#if`` without the second letter of the suffix `LL`, which pcpp takes for a
    name: it has only integers of 64 bits.
    """
    made: list[Foreign] = []
    for token in tokens:
        if made and made[-1].type in integers and token.value in ("L", "l", "LU", "lu", "Lu", "lU"):
            made[-1] = copy.copy(made[-1])
            made[-1].value += token.value[1:]
        else:
            made.append(token)
    return made


def run(
    text: str,
    names: str,
    include: Sequence[str],
    define: Sequence[tuple[str, str | None]],
    not_found: Callable[[str, str, int], Exception],
) -> str:
    """What a text becomes, with the definitions of its macros; with `names` after it their
    expansions. `not_found` makes the error for a header, the file that includes it, and the line.
    """
    try:
        import pcpp
    except ImportError:
        raise LibraryError(
            "a header needs a preprocessor, and there is neither a C compiler (cc, gcc, clang, or "
            "what $CC names) nor the package pcpp; install one of them, the package with "
            "pip install 'nativecall[headers]'"
        ) from None
    import tempfile

    with tempfile.TemporaryDirectory() as folder:

        class Preprocessor(pcpp.Preprocessor):  # type: ignore[misc,unused-ignore]  # may have no types
            def on_include_not_found(
                self, malformed: bool, system: bool, current: str, path: str
            ) -> None:
                at = self.lastdirective
                raise not_found(path, at.source, at.lineno)

            def on_error(self, file: str, line: int, message: str) -> None:
                raise SignatureError(
                    f"{message}, at line {line} of {file!r}",
                    hint="'define' gives macros that a header needs",
                )

            _expanding: Sequence[str] = ()

            def expand_macros(self, tokens: Foreign, expanding_from: Sequence[str] = ()) -> Foreign:
                # In arguments, for which pcpp names none, what is being expanded is none, either.
                outer = self._expanding
                self._expanding = names = [*(expanding_from or outer)]
                try:
                    return super().expand_macros(tokens, names)
                finally:
                    self._expanding = outer

            def on_directive_handle(
                self,
                directive: Foreign,
                tokens: Sequence[Foreign],
                passing: bool,
                preceding: Foreign,
            ) -> bool | None:
                if directive.value == "pragma" and not tokens:  # which pcpp would look into
                    raise pcpp.OutputDirective(pcpp.Action.IgnoreAndRemove)
                handled: bool | None = super().on_directive_handle(
                    directive, tokens, passing, preceding
                )
                return handled

            def on_directive_unknown(
                self,
                directive: Foreign,
                tokens: Sequence[Foreign],
                passing: bool,
                preceding: Foreign,
            ) -> bool | None:
                if directive.value == "error":
                    said = "".join([token.value for token in tokens]).strip()
                    self.on_error(directive.source, directive.lineno, f"#error {said}")
                if directive.value == "pragma" and tokens[0].value == "pack":
                    for token in tokens[1:]:
                        if token.value in self.macros:
                            meant = self.expand_macros([copy.copy(token)])
                            token.value = "".join([one.value for one in meant])
                return None if directive.value == "pragma" else True

        machine = getattr(sys.implementation, "_multiarch", "")
        system = "/usr/local/include", f"/usr/include/{machine}", "/usr/include"
        for name, own in (*_HEADERS.items(), ("limits.h", _limits(system))):
            with open(os.path.join(folder, name), "w") as file:
                file.write(own)
        found: Foreign = Preprocessor()
        found.line_directive = "#"
        for path in (*include, folder, *system):
            found.add_path(path)
        # pcpp would make paths relative to the current folder. The headers in the temporary one
        # stand in this file.
        found.rewrite_paths = [
            (f"{re.escape(os.path.abspath('<stdin>'))}$", "<stdin>"),
            (f"{re.escape(folder + os.sep)}.*", os.path.abspath(__file__).replace("\\", r"\\")),
        ]
        for name, meant in (*_predefined().items(), *define):
            found.define(f"{name} {1 if meant is None else meant}")
        evaluate = found.evaluator

        def evaluator(tokens: Sequence[Foreign], **known: Foreign) -> Foreign:
            return evaluate(_with_short_suffixes(tokens, found.t_INTEGER), **known)

        found.evaluator = evaluator
        before = {*found.macros}
        out = io.StringIO()
        try:
            found.parse(text + names, "<stdin>")
            found.write(out)
        except RecursionError:
            if found.include_depth > _MOST_INCLUDES:
                raise SignatureError("headers include each other without end") from None
            at = found.lastdirective
            where = f", after line {at.lineno} of {at.source!r}" if at is not None else ""
            raise SignatureError(
                f"macros or #include are nested too deeply for the package pcpp{where}",
                hint="a C compiler reads them",
            ) from None
    if names:
        return out.getvalue()
    lines = []
    for name, macro in found.macros.items():
        where = "<built-in>" if name in before else macro.source
        parameters = "" if macro.arglist is None else f"({', '.join(macro.arglist)})"
        value = "".join([token.value for token in macro.value]).replace("\n", " ")
        lines.append(f'# {macro.lineno or 1} "{where}"\n#define {name}{parameters} {value}')
    return "\n".join([out.getvalue(), *lines, ""])
