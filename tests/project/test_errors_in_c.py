"""Errors as users meet them: each names the function and what is wrong in C's words, as the header
has these; codes of signatures are for who writes such codes.
"""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

import nativecall as nc

DECLARED = """
#include <stddef.h>
typedef struct sf_private SNDFILE;
typedef struct { int rate; unsigned channels; char name[8]; double gain; } SF_INFO;
typedef struct { double x, y; } point;
typedef enum { LOW, HIGH = 7 } quality;
typedef int (*compare)(const void *a, const void *b);
typedef double (*integrand)(double x, void *data);
typedef struct { int n; point at[]; } path;
typedef struct { const char *title; double *levels[2]; struct { void *data; }; } track;
SNDFILE *sf_open(const char *path, int mode, SF_INFO *info);
track first(track t);
typedef struct { unsigned low : 3, high : 5; } bits;
bits flags(void);
int label(const point *p);
void shifted(bits (*f)(bits, void *));
void each(point *p, void (*f)(point *));
double norm(point p);
point shift(const point *p, double by);
unsigned count(unsigned first, unsigned char step);
void sort(void *base, size_t n, size_t size, compare cmp);
double integrate(integrand f, double a, double b, void *data);
double dot(const double *x, const float *y, int n);
int split(const char *text, int *whole, double *rest);
void set_quality(SNDFILE *file, quality q);
long long big(long long v);
int flag(_Bool b);
"""
DEFINED = """
#pragma GCC diagnostic ignored "-Wunused-parameter"
SNDFILE *sf_open(const char *path, int mode, SF_INFO *info) { return 0; }
track first(track t) { return t; }
int label(const point *p) { return 0; }
void shifted(bits (*f)(bits, void *)) {}
void each(point *p, void (*f)(point *)) { f(p); }
bits flags(void) { return (bits){1, 2}; }
double norm(point p) { return p.x; }
point shift(const point *p, double by) { point q = {p->x + by, p->y}; return q; }
unsigned count(unsigned first, unsigned char step) { return first; }
void sort(void *base, size_t n, size_t size, compare cmp) {}
double integrate(integrand f, double a, double b, void *data) { return f(a, data); }
double dot(const double *x, const float *y, int n) { return 0; }
int split(const char *text, int *whole, double *rest) { return 0; }
void set_quality(SNDFILE *file, quality q) {}
long long big(long long v) { return v; }
int flag(_Bool b) { return b; }
"""
VECTOR = np.zeros(3)
SINGLE = np.zeros(3, "f4")

#: What is done, and a part of what is said.
MISTAKES = {
    "a number for a struct": (
        "lib.sf_open(b'x', 0, 5)",
        "argument 3 of 'sf_open' must be a 'SF_INFO *' pointer",
    ),
    "text for a number": (
        "lib.sf_open(b'x', 'r', None)",
        "argument 2 of 'sf_open' must be an integer (got str)",
    ),
    "text for bytes": (
        "lib.sf_open('x', 0, None)",
        "argument 1 of 'sf_open' must be a 'const char *' pointer",
    ),
    "too few arguments": (
        "lib.sf_open(b'x', 0)",
        "'sf_open' takes exactly 3 arguments (2 given)",
    ),
    "an unknown keyword": (
        "lib.sf_open(b'x', 0, inf=None)",
        "'sf_open' has no argument named 'inf'; it takes ('path', 'mode', 'info')",
    ),
    "another struct": (
        "lib.sf_open(b'x', 0, lib.new('point *'))",
        "argument 3 of 'sf_open' must be a 'SF_INFO *' (got a 'point *')",
    ),
    "another handle": (
        "lib.set_quality(lib.new('SF_INFO *'), 1)",
        "argument 1 of 'set_quality' must be a 'SNDFILE *' (got a 'SF_INFO *')",
    ),
    "a mapping for a pointer": (
        "lib.sf_open(b'x', 0, {'rate': 1})",
        "new('SF_INFO *', value) of the library allocates one",
    ),
    "a Record of another struct": (
        "lib.sf_open(b'x', 0, lib.shift(lib.new('point *'), 2))",
        "argument 3 of 'sf_open' must be a 'SF_INFO *' (got a 'point')",
    ),
    "a Record without a buffer": (
        "lib.dot(lib.flags(), SINGLE, 3)",
        "argument 1 of 'dot' must be a 'const double *' (got a 'bits')",
    ),
    "another pointer behind an out-parameter": (
        "lib.function('split', out=['whole'])(b'x', lib.new('SF_INFO *'))",
        "argument 2 of 'split' must be a pointer 'double *' (got 'SF_INFO *'",
    ),
    "other elements behind an out-parameter": (
        "lib.function('split', out=['whole'])(b'x', SINGLE)",
        "argument 2 of 'split' must be a buffer that suits 'double *' (got 'f' elements",
    ),
    "text in a pointer of a struct": (
        "lib.first(('a', (None, None), None))",
        "field 'title' of argument 1 of 'first' must be a 'char *' pointer",
    ),
    "a number in an array of pointers": (
        "lib.first((None, (None, 5), None))",
        "item 1 of field 'levels' of argument 1 of 'first' must be a 'double *' pointer",
    ),
    "a number for a member of a struct without a name": (
        "setattr(lib.first((None, (None, None), None)), 'data', 5)",
        "field 'data' of 'track' must be a 'void *' pointer",
    ),
    "a number in a pointer of what new makes": (
        "lib.new('track *', {'title': 5})",
        "field 'title' of 'track' must be a 'char *' pointer",
    ),
    "an array of other numbers for new": (
        "lib.new('double[]', SINGLE)",
        "'double[]' must be a buffer that suits 'double *' (got 'f' elements",
    ),
    "text in an array of any length": (
        "lib.new('path *', {'n': 1, 'at': [{'x': 'a'}]})",
        "field 'x' of item 0 of field 'at' of 'path': must be real number, not str",
    ),
    "what is no pointer to free": (
        "lib.function('big', free='free')",
        "return pointers; 'big' is 'long long big(long long v)'",
    ),
    "what cannot fail so": (
        "lib.function('norm', errors='nonzero')",
        "needs an integer as the result, but the signature is 'double (point p)'",
    ),
    "what has no place for a code": (
        "lib.function('norm', errors='argument')",
        "needs a pointer to an int as the last argument, but the signature is 'double (point p)'",
    ),
    "a conversion of a pointer": (
        "lib.label.convert('int (const char *)')",
        "argument 1 is 'const char *', which points to a different type from 'const point *'; "
        "write 'const point *', or 'void *' for a pointer to anything",
    ),
    "a conversion of a struct": (
        "lib.flags.convert('int (void)')",
        "the result is 'bits', which cannot be converted to 'int'",
    ),
    "a function of another struct": (
        "lib.shifted(lib.norm)",
        "argument 1 of 'shifted' must be a function 'bits (*)(bits, void *)'",
    ),
    "NULL for what a function needs": (
        "lib.each(None, lib.norm)",
        "argument 1 of 'void (point *)' is NULL, but 'norm' needs it",
    ),
    "a missing field": ("lib.norm({'x': 1})", "argument 1 of 'norm' lacks 'y'"),
    "text in a field": (
        "lib.norm((1.0, 'a'))",
        "field 'y' of argument 1 of 'norm' must be a real number (got str)",
    ),
    "another struct by value": (
        "lib.norm(lib.new('SF_INFO *')[0])",
        "argument 1 of 'norm' must be a 'point' (got ",
    ),
    "None for a number": (
        "lib.shift(lib.new('point *'), None)",
        "argument 2 of 'shift' must be a real number (got NoneType)",
    ),
    "below zero": (
        "lib.count(-1, 2)",
        "argument 1 of 'count' is -1, out of range for 'unsigned int' (0 to 4294967295)",
    ),
    "too large": (
        "lib.count(1, 256)",
        "argument 2 of 'count' is 256, out of range for 'unsigned char' (0 to 255)",
    ),
    "no truth": ("lib.flag(2)", "argument 1 of 'flag' is 2, out of range for '_Bool' (0 to 1)"),
    "beyond all": ("lib.big(2**63)", "argument 1 of 'big' is out of range for 'long' (-"),
    "a function of another type": (
        "lib.sort(VECTOR, 3, 8, lib.norm)",
        "argument 4 of 'sort' must be a function 'int (*)(void *, void *)'; <native callable "
        "double norm(point p)> offers 'double (struct",
    ),
    "a callback of another type": (
        "lib.sort(VECTOR, 3, 8, nc.callback('int (double, int, int)', max))",
        "offers 'int (double, int, int)'",
    ),
    "a function of ctypes of another type": (
        "lib.integrate(ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int] * 3)(max), 0, 1, None)",
        "'double (*)(double, void *)' (got 'int (int, int, int)' from CFunctionType)",
    ),
    "a number for a function": (
        "lib.integrate(5, 0, 1, None)",
        "argument 1 of 'integrate' must be a function (got int)",
    ),
    "text as a callback's result": (
        "lib.integrate(lambda x, data: 'a', 0, 1, None)",
        "the result of argument 1 of 'integrate' must be a real number (got str)",
    ),
    "an array of other numbers": (
        "lib.dot(SINGLE, SINGLE, 3)",
        "argument 1 of 'dot' must be a buffer that suits 'const double *'",
    ),
    "a pointer to something else": (
        "lib.dot(lib.new('SF_INFO *'), SINGLE, 3)",
        "argument 1 of 'dot' must be a pointer 'const double *' (got 'SF_INFO *'",
    ),
    "an out-parameter that nothing has": (
        "lib.function('split', out=['hole'])",
        "'out' names 'hole', no argument of 'int (const char *text, int *whole, double *rest)'",
    ),
    "an out-parameter by value": (
        "lib.function('norm', out=['p'])",
        "'out' names 'p', a 'point', which does not point to",
    ),
    "nothing to keep": (
        "lib.function('norm', keep='library')",
        "functions that are passed, but the signature is 'double (point p)'",
    ),
    "another signature": (
        "lib.function('norm', 'double (double)')",
        "'signature' is 'double (double)', but 'norm' is declared as 'double (point p)'",
    ),
    "a type that is spelled wrong": ("lib.new('SF_INF *')", "did you mean 'SF_INFO'?"),
    "a member that is spelled wrong": (
        "lib.new('SF_INFO *', {'rat': 1})",
        "'SF_INFO' has no field 'rat'; did you mean 'rate'?",
    ),
    "a conversion": (
        "lib.count.convert('double (const char *)')",
        "cannot convert 'count' from 'unsigned (unsigned first, unsigned char step)' to 'double ",
    ),
}
# Codes with a ':' between result and arguments, of pointers, and of structs.
CODES = re.compile(r"'[&\w?{}()]*:[&\w?{}():]*'|T\{|'&+\w|'[bBhHiIlLqQPOZ]'")


@pytest.fixture(scope="module", params=["text", "header"])
def lib(request, builder, tmp_path_factory):
    path = builder.library(DECLARED + DEFINED, "mistakes")
    if request.param == "text":
        return nc.load(path, DECLARED)
    header = tmp_path_factory.mktemp("mistakes") / "mistakes.h"
    header.write_text(DECLARED)
    return nc.load(path, header=header)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_wrong_is_said_in_c(lib, mistake):
    done, said = MISTAKES[mistake]
    names = {"lib": lib, "nc": nc, "ctypes": ctypes, "VECTOR": VECTOR, "SINGLE": SINGLE}
    with pytest.raises((TypeError, ValueError, OverflowError)) as caught:
        eval(done, names)
    message = str(caught.value)
    assert said in message
    assert not CODES.search(message), message
