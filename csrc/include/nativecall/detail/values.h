/* nativecall/detail/values.h: converts C values to Python objects and back, and defines the type
 * words of the macros in dispatch.h.
 *
 * The macros take a signature as words, `double, (double, size)`. The table below defines the
 * words: double float longdouble, int unsigned long ulong longlong ulonglong short ushort schar
 * uchar, boolean, size ssize, int8 ... uint64, complex64 complex128 (C only), pointer (an int in
 * Python, None for NULL). `failure` is the `int *` of NC_ERRORS_ARGUMENT. It may only be the last
 * argument, and is not passed to Python. `nothing` is a void result, and `(nothing)` an empty
 * argument list. To define your own word:
 *
 *     #define NC_TYPE_point NC_TYPE(struct point, "T{dd}", box_point, unbox_point)    canonical
 *
 *     static PyObject *box_point(struct point value);             new reference, or NULL
 *     static int unbox_point(PyObject *result, struct point *out); 0, or -1 with an exception
 *
 * Numbers are converted by the package's rules: floats accept objects with __float__, integers
 * accept objects with __index__, and booleans accept any object. OverflowError is raised for an
 * integer out of range, and for a finite number that would become an infinite float. All functions
 * need the GIL. */
#ifndef NATIVECALL_VALUES_H
#define NATIVECALL_VALUES_H

#include <Python.h>
#include <float.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/base.h"

NC_C_BEGIN

#ifdef __cplusplus
#define NC_BOOL bool
#else
#define NC_BOOL _Bool
#endif

/* ---- C values as Python objects and back ----------------------------------------------------- */

NC_COLD int nc_longdouble_overflow(void)
{
    PyErr_SetString(PyExc_OverflowError,
                    "a long double from C code is out of range for a Python float "
                    "(-1.7976931348623157e+308 to 1.7976931348623157e+308)");
    return 1;
}

/* Return whether a finite number became infinite when it was narrowed. */
NC_STATIC_INLINE int nc_overflows(long double number, double narrowed)
{
    return (narrowed < -DBL_MAX || narrowed > DBL_MAX) && number >= -LDBL_MAX && number <= LDBL_MAX;
}

/* Return whether a finite number is out of range for a Python float. If so, OverflowError is
 * set. */
NC_STATIC_INLINE int nc_longdouble_escapes(long double value)
{
    return NC_UNLIKELY(nc_overflows(value, (double)value)) && nc_longdouble_overflow();
}

NC_STATIC_INLINE PyObject *nc_box_longdouble(long double value)
{
    return nc_longdouble_escapes(value) ? NULL : PyFloat_FromDouble((double)value);
}

NC_STATIC_INLINE PyObject *nc_box_pointer(void *value)
{
    if (value == NULL) {
        Py_RETURN_NONE;
    }
    return PyLong_FromVoidPtr(value);
}

NC_STATIC_INLINE int nc_unbox_double(PyObject *result, double *out)
{
    *out = PyFloat_AsDouble(result);
    return *out == -1.0 && PyErr_Occurred() ? -1 : 0;
}

NC_STATIC_INLINE int nc_unbox_longdouble(PyObject *result, long double *out)
{
    double value;
    int status = nc_unbox_double(result, &value);
    *out = (long double)value;
    return status;
}

NC_STATIC_INLINE int nc_unbox_boolean(PyObject *result, NC_BOOL *out)
{
    int truth = PyObject_IsTrue(result);
    *out = (NC_BOOL)(truth > 0);
    return truth < 0 ? -1 : 0;
}

NC_STATIC_INLINE int nc_unbox_nothing(PyObject *result, char *out)
{
    (void)result;
    (void)out; /* may be NULL */
    return 0;
}

NC_STATIC_INLINE int nc_unbox_pointer(PyObject *result, void **out)
{
    *out = result == Py_None ? NULL : PyLong_AsVoidPtr(result);
    return *out == NULL && PyErr_Occurred() ? -1 : 0;
}

/* Raise OverflowError with our message, unless an exception other than OverflowError is set. Return
 * -1. */
NC_COLD int nc_unbox_overflow(PyObject *result, const char *name)
{
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError)) {
            return -1;
        }
        PyErr_Clear();
    }
    PyErr_Format(PyExc_OverflowError, "the result %R does not fit in '%s'", result, name);
    if (PyErr_ExceptionMatches(PyExc_ValueError)) {
        /* Python refuses to format integers of several thousand digits. */
        PyErr_Format(PyExc_OverflowError, "the result does not fit in '%s'", name);
    }
    return -1;
}

NC_STATIC_INLINE int nc_unbox_float(PyObject *result, float *out)
{
    double value;
    const int status = nc_unbox_double(result, &value);
    *out = (float)value;
    return nc_overflows((long double)value, (double)*out) ? nc_unbox_overflow(result, "float")
                                                          : status;
}

/* Convert `result` to an integer from min to max, and store its bits. The C type is signed if min
 * is negative. Return 0, or -1 with an exception. */
NC_STATIC int nc_integer(PyObject *result, long long min, unsigned long long max, const char *name,
                         unsigned long long *out)
{
    PyObject *integer = PyNumber_Index(result);
    int status = 0;
    int fits;
    *out = 0;
    if (integer == NULL) {
        return -1;
    }
    if (min < 0) {
        const long long number = PyLong_AsLongLong(integer);
        fits = number >= min && number <= (long long)max;
        *out = (unsigned long long)number;
    } else {
        *out = PyLong_AsUnsignedLongLong(integer);
        fits = *out <= max;
    }
    if (!fits || (*out == (unsigned long long)-1 && PyErr_Occurred())) {
        status = nc_unbox_overflow(integer, name);
    }
    Py_DECREF(integer);
    return status;
}

#define NC_UNBOX_INTEGER(word, type, min, max)                                                     \
    NC_STATIC_INLINE int nc_unbox_##word(PyObject *result, type *out)                              \
    {                                                                                              \
        unsigned long long bits;                                                                   \
        int status = nc_integer(result, min, max, #type, &bits);                                   \
        *out = (type)bits;                                                                         \
        return status;                                                                             \
    }

NC_UNBOX_INTEGER(schar, signed char, SCHAR_MIN, SCHAR_MAX)
NC_UNBOX_INTEGER(short, short, SHRT_MIN, SHRT_MAX)
NC_UNBOX_INTEGER(int, int, INT_MIN, INT_MAX)
NC_UNBOX_INTEGER(long, long, LONG_MIN, LONG_MAX)
NC_UNBOX_INTEGER(longlong, long long, LLONG_MIN, LLONG_MAX)
NC_UNBOX_INTEGER(ssize, Py_ssize_t, PTRDIFF_MIN, PTRDIFF_MAX)
NC_UNBOX_INTEGER(int8, int8_t, INT8_MIN, INT8_MAX)
NC_UNBOX_INTEGER(int16, int16_t, INT16_MIN, INT16_MAX)
NC_UNBOX_INTEGER(int32, int32_t, INT32_MIN, INT32_MAX)
NC_UNBOX_INTEGER(int64, int64_t, INT64_MIN, INT64_MAX)
NC_UNBOX_INTEGER(uchar, unsigned char, 0, UCHAR_MAX)
NC_UNBOX_INTEGER(ushort, unsigned short, 0, USHRT_MAX)
NC_UNBOX_INTEGER(unsigned, unsigned, 0, UINT_MAX)
NC_UNBOX_INTEGER(ulong, unsigned long, 0, ULONG_MAX)
NC_UNBOX_INTEGER(ulonglong, unsigned long long, 0, ULLONG_MAX)
NC_UNBOX_INTEGER(size, size_t, 0, SIZE_MAX)
NC_UNBOX_INTEGER(uint8, uint8_t, 0, UINT8_MAX)
NC_UNBOX_INTEGER(uint16, uint16_t, 0, UINT16_MAX)
NC_UNBOX_INTEGER(uint32, uint32_t, 0, UINT32_MAX)
NC_UNBOX_INTEGER(uint64, uint64_t, 0, UINT64_MAX)

#undef NC_UNBOX_INTEGER

#if !defined(__cplusplus) && !defined(NC_MSVC)
/* C represents a complex number as an array of its two parts. */
#define NC_BOX_COMPLEX(word, type, part)                                                           \
    NC_STATIC_INLINE PyObject *nc_box_##word(type value)                                           \
    {                                                                                              \
        part parts[2];                                                                             \
        memcpy(parts, &value, sizeof parts);                                                       \
        return PyComplex_FromDoubles((double)parts[0], (double)parts[1]);                          \
    }                                                                                              \
    NC_STATIC_INLINE int nc_unbox_##word(PyObject *result, type *out)                              \
    {                                                                                              \
        Py_complex value = PyComplex_AsCComplex(result);                                           \
        const part parts[2] = {(part)value.real, (part)value.imag};                                \
        const int status = value.real == -1.0 && PyErr_Occurred() ? -1 : 0;                        \
        memcpy(out, parts, sizeof parts);                                                          \
        return nc_overflows((long double)value.real, (double)parts[0]) ||                          \
                       nc_overflows((long double)value.imag, (double)parts[1])                     \
                   ? nc_unbox_overflow(result, #type)                                              \
                   : status;                                                                       \
    }

NC_BOX_COMPLEX(complex64, float _Complex, float)
NC_BOX_COMPLEX(complex128, double _Complex, double)
#undef NC_BOX_COMPLEX
#endif

/* ---- the arguments of a call ----------------------------------------------------------------- */

#define NC_BOXED_MAX_ARGUMENTS 8

/* Call `callable` if all arguments were converted (`whole`). Otherwise an exception is already set.
 * In both cases, release values[1] to values[count]; values[0] is reserved for vectorcall. Return a
 * new reference, or NULL with an exception. */
NC_STATIC PyObject *nc_boxed_call(PyObject *callable, PyObject **values, size_t count, int whole)
{
    PyObject *result = NULL;
    if (whole) {
        result =
            PyObject_Vectorcall(callable, values + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    }
    while (count > 0) {
        Py_DECREF(values[count]);
        count--;
    }
    return result;
}

/* ---- the table of types ---------------------------------------------------------------------- */

/* The canonical codes of types whose width depends on the platform. */
#if LONG_MAX == INT64_MAX
#define NC_CODE_long "q"
#define NC_CODE_ulong "Q"
#else
#define NC_CODE_long "i"
#define NC_CODE_ulong "I"
#endif
#if INTPTR_MAX == INT64_MAX
#define NC_CODE_ssize "q"
#define NC_CODE_size "Q"
#else
#define NC_CODE_ssize "i"
#define NC_CODE_size "I"
#endif
#if LDBL_MANT_DIG == DBL_MANT_DIG
#define NC_CODE_longdouble "d"
#else
#define NC_CODE_longdouble "g"
#endif

/* The columns: C type, storage type, VALUE or NOTHING, type code, boxing function, unboxing
 * function, whether an argument is passed to Python. */
#define NC_TYPE(type, code, box, unbox) type, type, VALUE, code, box, unbox, NC_PYTHON_GETS

#define NC_TYPE_double NC_TYPE(double, "d", PyFloat_FromDouble, nc_unbox_double)
#define NC_TYPE_float NC_TYPE(float, "f", PyFloat_FromDouble, nc_unbox_float)
#define NC_TYPE_longdouble                                                                         \
    NC_TYPE(long double, NC_CODE_longdouble, nc_box_longdouble, nc_unbox_longdouble)
#define NC_TYPE_schar NC_TYPE(signed char, "b", PyLong_FromLongLong, nc_unbox_schar)
#define NC_TYPE_uchar NC_TYPE(unsigned char, "B", PyLong_FromUnsignedLongLong, nc_unbox_uchar)
#define NC_TYPE_short NC_TYPE(short, "h", PyLong_FromLongLong, nc_unbox_short)
#define NC_TYPE_ushort NC_TYPE(unsigned short, "H", PyLong_FromUnsignedLongLong, nc_unbox_ushort)
#define NC_TYPE_int NC_TYPE(int, "i", PyLong_FromLongLong, nc_unbox_int)
#define NC_TYPE_unsigned NC_TYPE(unsigned, "I", PyLong_FromUnsignedLongLong, nc_unbox_unsigned)
#define NC_TYPE_long NC_TYPE(long, NC_CODE_long, PyLong_FromLongLong, nc_unbox_long)
#define NC_TYPE_ulong                                                                              \
    NC_TYPE(unsigned long, NC_CODE_ulong, PyLong_FromUnsignedLongLong, nc_unbox_ulong)
#define NC_TYPE_longlong NC_TYPE(long long, "q", PyLong_FromLongLong, nc_unbox_longlong)
#define NC_TYPE_ulonglong                                                                          \
    NC_TYPE(unsigned long long, "Q", PyLong_FromUnsignedLongLong, nc_unbox_ulonglong)
#define NC_TYPE_ssize NC_TYPE(Py_ssize_t, NC_CODE_ssize, PyLong_FromLongLong, nc_unbox_ssize)
#define NC_TYPE_size NC_TYPE(size_t, NC_CODE_size, PyLong_FromUnsignedLongLong, nc_unbox_size)
#define NC_TYPE_int8 NC_TYPE(int8_t, "b", PyLong_FromLongLong, nc_unbox_int8)
#define NC_TYPE_int16 NC_TYPE(int16_t, "h", PyLong_FromLongLong, nc_unbox_int16)
#define NC_TYPE_int32 NC_TYPE(int32_t, "i", PyLong_FromLongLong, nc_unbox_int32)
#define NC_TYPE_int64 NC_TYPE(int64_t, "q", PyLong_FromLongLong, nc_unbox_int64)
#define NC_TYPE_uint8 NC_TYPE(uint8_t, "B", PyLong_FromUnsignedLongLong, nc_unbox_uint8)
#define NC_TYPE_uint16 NC_TYPE(uint16_t, "H", PyLong_FromUnsignedLongLong, nc_unbox_uint16)
#define NC_TYPE_uint32 NC_TYPE(uint32_t, "I", PyLong_FromUnsignedLongLong, nc_unbox_uint32)
#define NC_TYPE_uint64 NC_TYPE(uint64_t, "Q", PyLong_FromUnsignedLongLong, nc_unbox_uint64)
#define NC_TYPE_boolean NC_TYPE(NC_BOOL, "?", PyBool_FromLong, nc_unbox_boolean)
#define NC_TYPE_pointer NC_TYPE(void *, "P", nc_box_pointer, nc_unbox_pointer)
#define NC_TYPE_complex64 NC_TYPE(float _Complex, "Zf", nc_box_complex64, nc_unbox_complex64)
#define NC_TYPE_complex128 NC_TYPE(double _Complex, "Zd", nc_box_complex128, nc_unbox_complex128)
#define NC_TYPE_nothing void, char, NOTHING, "v", nc_box_none, nc_unbox_nothing, NC_PYTHON_NOTHING
#define NC_TYPE_failure int *, int *, VALUE, "&i", nc_box_none, nc_unbox_none, NC_PYTHON_NOT

/* ---- implementation of the macros ------------------------------------------------------------ */

#define NC_LIST(...) __VA_ARGS__

#define NC_PICK_TYPE_(a, ...) a
#define NC_PICK_STORAGE_(a, b, ...) b
#define NC_PICK_RESULT_(a, b, c, ...) c
#define NC_PICK_CODE_(a, b, c, d, ...) d
#define NC_PICK_BOX_(a, b, c, d, e, ...) e
#define NC_PICK_UNBOX_(a, b, c, d, e, f, ...) f
#define NC_PICK_PYTHON_(a, b, c, d, e, f, g, ...) g
#define NC_PICK(what, ...) NC_EXPAND(NC_PICK_##what##_(__VA_ARGS__, ~))
#define NC_OF(what, word) NC_EXPAND(NC_PICK(what, NC_TYPE_##word))

/* Expand to m(index, word) for each word, separated by s(), which is nothing or a comma. */
#define NC_EACH_1(m, s, a) m(0, a)
#define NC_EACH_2(m, s, a, b) NC_EACH_1(m, s, a) s() m(1, b)
#define NC_EACH_3(m, s, a, b, c) NC_EACH_2(m, s, a, b) s() m(2, c)
#define NC_EACH_4(m, s, a, b, c, d) NC_EACH_3(m, s, a, b, c) s() m(3, d)
#define NC_EACH_5(m, s, a, b, c, d, e) NC_EACH_4(m, s, a, b, c, d) s() m(4, e)
#define NC_EACH_6(m, s, a, b, c, d, e, f) NC_EACH_5(m, s, a, b, c, d, e) s() m(5, f)
#define NC_EACH_7(m, s, a, b, c, d, e, f, g) NC_EACH_6(m, s, a, b, c, d, e, f) s() m(6, g)
#define NC_EACH_8(m, s, a, b, c, d, e, f, g, h) NC_EACH_7(m, s, a, b, c, d, e, f, g) s() m(7, h)
#define NC_EACH_OF(m, s, ...)                                                                      \
    NC_EXPAND(NC_PASTE(NC_EACH_, NC_COUNT(__VA_ARGS__))(m, s, __VA_ARGS__))
#define NC_S_NOTHING()
#define NC_S_COMMA() ,
#define NC_EACH(m, ...) NC_EACH_OF(m, NC_S_NOTHING, __VA_ARGS__)
#define NC_COMMA(m, ...) NC_EACH_OF(m, NC_S_COMMA, __VA_ARGS__)

/* Expand to `*out = call`, or to `call` alone if the result is `nothing`. */
#define NC_STORE(word, out, call) NC_PASTE(NC_STORE_, NC_OF(RESULT, word))(out, call)
#define NC_STORE_VALUE(out, call) (*(out) = (call))
#define NC_STORE_NOTHING(out, call) ((void)(out), (call))
#define NC_GIVES(word) NC_PASTE(NC_GIVES_, NC_OF(RESULT, word))
#define NC_GIVES_VALUE 1
#define NC_GIVES_NOTHING 0

/* Expand to `text`, or to no text if the word is `nothing`. NC_MORE adds a leading comma. */
#define NC_IF(word, text) NC_PASTE(NC_IF_, NC_OF(RESULT, word))(text)
#define NC_IF_VALUE(text) text
#define NC_IF_NOTHING(text)
#define NC_MORE(word, text) NC_PASTE(NC_MORE_, NC_OF(RESULT, word))(text)
#define NC_MORE_VALUE(text) , text
#define NC_MORE_NOTHING(text)
#define NC_M_TYPE(i, word) NC_OF(TYPE, word)
#define NC_M_NAME(i, word) NC_IF(word, nc_argument_##i)
#define NC_M_MORE_PARAMETERS(i, word) NC_MORE(word, NC_OF(TYPE, word) nc_argument_##i)
#define NC_M_MORE_NAMES(i, word) NC_MORE(word, nc_argument_##i)
#define NC_M_ONE(i, word) NC_IF(word, +1)
#define NC_M_CODE(i, word) NC_IF(word, NC_OF(CODE, word))
#define NC_M_BOX(i, word)                                                                          \
    NC_EXPAND(NC_PASTE(NC_OF(PYTHON, word), _BOX)(NC_OF(BOX, word), nc_argument_##i))

#define NC_NAMES(words) NC_EXPAND(NC_COMMA(NC_M_NAME, NC_LIST words))
#define NC_MORE_PARAMETERS(words) NC_EXPAND(NC_EACH(NC_M_MORE_PARAMETERS, NC_LIST words))
#define NC_MORE_NAMES(words) NC_EXPAND(NC_EACH(NC_M_MORE_NAMES, NC_LIST words))
#define NC_ARITY(words) (0 NC_EXPAND(NC_EACH(NC_M_ONE, NC_LIST words)))
#define NC_SIGNATURE(result, words)                                                                \
    NC_OF(CODE, result) ":" NC_EXPAND(NC_EACH(NC_M_CODE, NC_LIST words))

#define NC_PYTHON_GETS_BOX(box, value)                                                             \
    if (nc_count == nc_wanted++ && (nc_values[nc_count + 1] = box(value)) != NULL) {               \
        nc_count++;                                                                                \
    }
#define NC_PYTHON_NOT_BOX(box, value) (void)value;
#define NC_PYTHON_NOTHING_BOX(box, value)

/* Define name_call(), which boxes the arguments, calls the object and unboxes the result. */
#define NC_BOXED_CALL(name, result, words)                                                         \
    NC_STATIC int name##_call(PyObject *nc_callable,                                               \
                              NC_OF(STORAGE, result) * nc_result NC_MORE_PARAMETERS(words))        \
    {                                                                                              \
        PyObject *nc_values[NC_BOXED_MAX_ARGUMENTS + 1];                                           \
        PyObject *nc_object;                                                                       \
        size_t nc_count = 0, nc_wanted = 0;                                                        \
        int nc_status;                                                                             \
        nc_values[1] = NULL;                                                                       \
        NC_EXPAND(NC_EACH(NC_M_BOX, NC_LIST words))                                                \
        nc_object = nc_boxed_call(nc_callable, nc_values, nc_count, nc_count == nc_wanted);        \
        if (nc_object == NULL) {                                                                   \
            return -1;                                                                             \
        }                                                                                          \
        nc_status = NC_OF(UNBOX, result)(nc_object, nc_result);                                    \
        Py_DECREF(nc_object);                                                                      \
        return nc_status;                                                                          \
    }

NC_C_END

#endif
