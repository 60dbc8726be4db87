"""Parse C declarations given as text.

    parse_function("double (double x, const float *)")     -> Signature
    parse_declarations("typedef struct {…} p; p f(p);")    -> Declarations

`CSource` splits a text into tokens. parser.py, in strict mode, converts the tokens to nodes.
tables.py converts the nodes to a table. Every error is a `SignatureError` with the line and column
in the text.
"""

from __future__ import annotations

from .._errors import SignatureError
from .._types.grammar import from_row
from .._types.signature import Signature
from .declarations import Declarations
from .nodes import Converter
from .source import CSource
from .tables import parser_of, table


def parse_function(text: str) -> Signature:
    """Parse the declaration of one function, with or without a name.

    Parameters
    ----------
    text : str
        Such as ``"double (double, const float *)"`` or ``"int printf(const char *format, ...);"``.
        Typedefs and structs that the function needs may precede its declaration.

    Raises
    ------
    SignatureError
        If the text does not declare exactly one function, or the function cannot be called from
        outside C.

    Examples
    --------
    >>> parse_function("double f(double x, const float *y)").readonly
    (False, True)
    """
    source = CSource(text)
    tokens = source.tokens
    if not tokens or tokens == [";"]:
        raise source.error("no declaration found", 0, "write 'double (double)'")
    parser = parser_of(source, strict=True)
    end = 0
    while parser.tokens[end] not in (";", ",", ""):
        end = parser.closing(end)
    if end < len(tokens) - 1 or tokens[-1] == "}":
        if tokens[-1] not in (";", "}"):
            tokens.append(";")
        functions = table(source)["functions"]
        if len(functions) != 1:
            raise source.error(f"expected one function, found {len(functions)}", 0)
        return from_row(*functions.values())
    convert = Converter()
    try:
        if parser.tokens[1][:1] == '"' and parser.accept("extern"):
            parser.at += 1
        function = parser.function()
        parser.at = max(parser.named, 0)
        return convert.signature(function, source.text)
    except (SignatureError, RecursionError) as error:
        raise source.placed(error, parser.at if convert.at is None else convert.at) from None


def parse_declarations(text: str) -> Declarations:
    """Parse C declarations: functions, typedefs, structs, enums, integer macros and variables.

    Comments, attributes that do not affect the ABI, ``extern "C"``, `inline`, `restrict` and
    ``#include`` lines are ignored. The names of ``<stdint.h>``, ``<stddef.h>`` and ``<stdbool.h>``,
    `FILE`, `PyObject` and `npy_intp` are predefined.

    Raises
    ------
    SignatureError
        If the text is not C, or if a function takes or returns a type that cannot be passed from
        outside C. Another cause is a declarator that, with typedefs expanded, has more than 64
        levels or 16384 characters.

    Examples
    --------
    >>> d = parse_declarations("enum side { LEFT, RIGHT }; double norm(int n, const double *x);")
    >>> d.functions["norm"].text, d.constants
    ('d:i&d', {'LEFT': 0, 'RIGHT': 1})
    """
    return Declarations(table(CSource(text)), str.__str__(text))
