"""What tests of calls share: a library whose functions give back what they get."""

import pytest

import nativecall as nc

SOURCE = """
#include <Python.h>
#include <complex.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
typedef struct { double x, y; } Pair;
typedef struct { int8_t tag; double x; int16_t n; } Padded;
typedef struct { Pair at[2]; int32_t n[3]; } Nested;
typedef struct { double *data; int64_t count; } Span;
typedef struct { PyObject *object; int32_t n; } Held;
typedef struct { PyObject *object; int32_t n; double x[2]; } Large;
typedef struct { double *data; intptr_t shape[2], strides[2]; } Matrix;
#define ECHO(name, type) type name(type x); type name(type x) { return x; }
ECHO(echo_bool, bool)
ECHO(echo_i8, int8_t) ECHO(echo_i16, int16_t) ECHO(echo_i32, int32_t) ECHO(echo_i64, int64_t)
ECHO(echo_u8, uint8_t) ECHO(echo_u16, uint16_t) ECHO(echo_u32, uint32_t) ECHO(echo_u64, uint64_t)
ECHO(echo_f, float) ECHO(echo_d, double) ECHO(echo_g, long double)
ECHO(echo_zf, float _Complex) ECHO(echo_zd, double _Complex) ECHO(echo_zg, long double _Complex)
ECHO(echo_p, void *) ECHO(echo_dp, double *) ECHO(echo_o, PyObject *)
ECHO(echo_pair, Pair) ECHO(echo_padded, Padded) ECHO(echo_nested, Nested)
double mixed(int32_t i, double d, double *p, float f, int64_t q, bool b, uint8_t u, Pair s);
double mixed(int32_t i, double d, double *p, float f, int64_t q, bool b, uint8_t u, Pair s)
{ return i + 10 * d + 100 * (p ? *p : 0) + 1000 * f + (double)q * 1e4 + b * 1e5 + u * 1e6
         + s.x * 1e7 + s.y * 1e8; }
double total(Span s);
double total(Span s)
{ double t = 0; for (int64_t i = 0; i < s.count; i++) { t += s.data[i]; } return t; }
double first(double *x, int64_t n);
double first(double *x, int64_t n) { return n ? *x : -1; }
double apply(double (*f)(double), double x, Pair p);
double apply(double (*f)(double), double x, Pair p) { return f(x) + p.x; }
int8_t fail_i8(int8_t x, double (*f)(double));
int8_t fail_i8(int8_t x, double (*f)(double)) { if (f) { f(1.0); } return x; }
int32_t set_errno(int16_t code);
int32_t set_errno(int16_t code) { int before = errno; errno = code; return before; }
int16_t raise_if(int16_t x);
int16_t raise_if(int16_t x)
{ if (x < 0) { PyErr_SetString(PyExc_LookupError, "below zero"); } return x; }
PyObject *item(PyObject *list, int16_t i);
PyObject *item(PyObject *list, int16_t i)
{ return i < -1 ? NULL : Py_XNewRef(PyList_GetItem(list, i)); }
int32_t has_gil(int8_t x);
int32_t has_gil(int8_t x) { return x + 100 * PyGILState_Check(); }
int held(Held h); int held(Held h) { return h.n + (int)PyList_Size(h.object); }
uint64_t bytes_of(Padded p);
uint64_t bytes_of(Padded p)
{ uint64_t sum = 0; unsigned char raw[sizeof p]; memcpy(raw, &p, sizeof p);
  for (size_t i = 1; i < 8; i++) { sum += raw[i]; } return sum; }
PyObject *give(double (*f)(double), PyObject *o);
PyObject *give(double (*f)(double), PyObject *o) { if (f) { f(1.0); } return Py_NewRef(o); }
Held give_held(double (*f)(double), PyObject *o, int32_t n);
Held give_held(double (*f)(double), PyObject *o, int32_t n)
{ Held h = {n ? Py_NewRef(o) : NULL, n}; if (f) { f(1.0); } return h; }
Large give_large(double (*f)(double), PyObject *o, int32_t n);
Large give_large(double (*f)(double), PyObject *o, int32_t n)
{ Large h = {n ? Py_NewRef(o) : NULL, n, {1, 2}}; if (f) { f(1.0); } return h; }
int32_t show_held(int32_t (*f)(Held), PyObject *o, int32_t n);
int32_t show_held(int32_t (*f)(Held), PyObject *o, int32_t n)
{ Held h = {n ? o : NULL, n}; return f(h); }
int32_t raise_after(double (*f)(double), int16_t x);
int32_t raise_after(double (*f)(double), int16_t x)
{ f(1.0); PyErr_SetString(PyExc_LookupError, "in C"); return x; }
PyObject *pick(PyObject *a, Span s, PyObject *b, Matrix *m, long double g, PyObject *c);
PyObject *pick(PyObject *a, Span s, PyObject *b, Matrix *m, long double g, PyObject *c)
{ return Py_NewRef(s.count ? a : m ? b : g == 1.5L ? c : Py_None); }
int32_t replaced(double a, double b, int16_t c);
int32_t replaced(double a, double b, int16_t c) { return 1 + (int)a + (int)b + c; }
int32_t replacing(double a, double b, int16_t c);
int32_t replacing(double a, double b, int16_t c) { return 100 + (int)a + (int)b + c; }
int16_t one(void); int16_t one(void) { return 1; }
int16_t two(void); int16_t two(void) { return 2; }
"""


@pytest.fixture(scope="module")
def echo(builder):
    import sysconfig

    flags = ("-O1", f"-I{sysconfig.get_path('include')}", "-Wno-pedantic", "-Wno-conversion")
    return nc.load(builder.library(SOURCE, "trampolines", flags=flags))
