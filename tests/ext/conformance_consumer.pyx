# cython: language_level=3
# tests/ext/conformance_consumer.pyx: conformance_consumer.c in Cython, by `cimport nativecall`.
#
# The same functions with the same results; conformance_consumer.c describes them.

cimport nativecall as nc
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.string cimport strcmp, strlen

cdef extern from "nativecall/detail/core/packedliteral.h":
    const uint64_t WORD_D_D "NATIVECALL_SIG(\"d:d\")"
    const uint64_t WORD_Q_Q "NATIVECALL_SIG(\"q:q\")"
    const uint64_t WORD_I_I "NATIVECALL_SIG(\"i:i\")"
    const uint64_t WORD_F_F "NATIVECALL_SIG(\"f:f\")"
    const uint64_t WORD_D_DD "NATIVECALL_SIG(\"d:dd\")"
    const uint64_t WORD_V "NATIVECALL_SIG(\"v:\")"

cdef extern from "nativecall/callback.h":
    """
    #include <math.h>
    NC_CALLBACK_DECLARE(plain, double, (double), NAN);
    NC_CALLBACK_DECLARE_WITH_DATA(with_data, double, (double, user_data), NAN);
    static NcCallbackSignature accepted[] = {NC_CALLBACK_ACCEPT(plain),
                                             NC_CALLBACK_ACCEPT(with_data)};
    """
    nc.NcCallbackSignature accepted[2]

ctypedef double (*Function1)(double) noexcept nogil
ctypedef double (*Function1Data)(double, void *) noexcept nogil
ctypedef double (*Function16)(
    double, double, double, double, double, double, double, double,
    double, double, double, double, double, double, double, double) noexcept nogil
ctypedef int64_t (*Negate)(int64_t) noexcept

cdef const char *SIGNATURE16 = "d:dddddddddddddddd"

nc.PyCustomSlots_Import()


cdef struct Found:
    void *function                        # NULL: not found
    const nc.PyNativeCallableEntry *entry # NULL: the way gives none


cdef uint64_t literal(const char *signature) except? 0:
    """The packed word of a signature, as a literal in the code."""
    if strcmp(signature, "d:d") == 0:
        return WORD_D_D
    if strcmp(signature, "q:q") == 0:
        return WORD_Q_Q
    if strcmp(signature, "i:i") == 0:
        return WORD_I_I
    if strcmp(signature, "f:f") == 0:
        return WORD_F_F
    if strcmp(signature, "d:dd") == 0:
        return WORD_D_DD
    if strcmp(signature, "v:") == 0:
        return WORD_V
    raise AssertionError(f"no literal for '{signature.decode()}'")


cdef Found look(object f, str way, const char *signature, uintptr_t refuse) except *:
    """Looks a signature up in one of the ways."""
    cdef Found found
    cdef PyObject *obj = <PyObject *>f
    cdef const char *interned = NULL
    cdef uint64_t word
    cdef uint64_t words[nc.NC_PACKED_MAX_WORDS]
    cdef size_t count = 0
    cdef int status
    found.function = NULL
    found.entry = NULL
    nc.nc_signature_intern(signature, &interned)
    if way == "offset":
        with nogil:
            found.entry = nc.nc_native_find(obj, interned, refuse)
    elif way == "slot":
        with nogil:
            found.entry = nc.nc_native_find_by_slot(obj, interned, refuse)
    elif way == "next":
        with nogil:
            while True:
                found.entry = nc.nc_native_next(obj, found.entry)
                if found.entry == NULL or (
                    found.entry.signature == interned
                    and nc.nc_calltable_flags_suit(found.entry.flags, refuse)
                ):
                    break
    elif way == "api":
        nc.nc_nativeapi_find(f, signature, refuse, &found.entry)
    elif way == "function":
        with nogil:
            found.function = nc.nc_native_function(obj, interned, refuse)
    elif way == "function_by_slot":
        with nogil:
            found.function = nc.nc_native_function_by_slot(obj, interned, refuse)
    elif way == "word":
        word = literal(signature)
        with nogil:
            found.function = nc.nc_native_function_word(obj, word, refuse)
    elif way == "words":
        status = nc.nc_signature_pack(
            signature, strlen(signature), 0, words, nc.NC_PACKED_MAX_WORDS, &count)
        assert status == nc.NC_OK, nc.nc_status_text(status)
        with nogil:
            found.function = nc.nc_native_function_packed(obj, words, count, refuse)
    else:
        raise AssertionError(f"no way '{way}'")
    if found.entry != NULL:
        found.function = nc.nc_calltable_funcptr(found.entry)
    return found


def metatype():
    return <object>nc.PyExtensibleType_Import()


def find(obj, str way, str signature, uintptr_t refuse):
    encoded = signature.encode()
    cdef Found found = look(obj, way, encoded, refuse)
    if found.function == NULL:
        return None
    return found.entry.flags if found.entry != NULL else None, <uintptr_t>found.function


def entries(obj):
    rows = []
    cdef const nc.PyNativeCallableEntry *entry = nc.nc_native_next(<PyObject *>obj, NULL)
    while entry != NULL:
        address = <uintptr_t>nc.nc_calltable_funcptr(entry)
        rows.append((entry.signature.decode(), entry.flags, address))
        entry = nc.nc_native_next(<PyObject *>obj, entry)
    return rows


def total(obj, str way, double x, Py_ssize_t n):
    cdef Found found = look(obj, way, "d:d", nc.NC_FLAG_NEEDS_GIL | nc.NC_ERRORS_MASK)
    cdef double value = 0.0
    cdef Py_ssize_t i
    if found.function == NULL:
        return None
    with nogil:
        for i in range(n):
            value += (<Function1>found.function)(x + i)
    return value


def total16(obj, str way, double x, Py_ssize_t n):
    cdef Found found = look(obj, way, SIGNATURE16, nc.NC_FLAG_NEEDS_GIL | nc.NC_ERRORS_MASK)
    cdef double value = 0.0
    cdef double y
    cdef Py_ssize_t i
    if found.function == NULL:
        return None
    with nogil:
        for i in range(n):
            y = x + i
            value += (<Function16>found.function)(
                y, y, y, y, y, y, y, y, y, y, y, y, y, y, y, y)
    return value


def negated(obj, str way, long long x):
    cdef Found found = look(obj, way, "q:q", 0)
    if found.function == NULL:
        return None
    return (<Negate>found.function)(x)


cdef double call(const nc.NcCallback *f, double x) noexcept nogil:
    if f.matched == 0:
        return (<Function1>f.function)(x)
    return (<Function1Data>f.function)(x, f.user_data)


cdef double sum_of(const nc.NcCallback *f, double x, Py_ssize_t n) noexcept nogil:
    cdef double value = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        if nc.nc_callback_failed(f):
            break
        value += call(f, x + i)
    return value


def integrate(obj, double x, Py_ssize_t n, unsigned int options):
    cdef nc.NcCallback f
    cdef double value
    nc.nc_callback_prepare(&f, obj, accepted, 2, options)
    if options & nc.NC_CALLBACK_HOLDS_GIL:
        value = sum_of(&f, x, n)
    else:
        with nogil:
            value = sum_of(&f, x, n)
    native = bool(f.native)
    matched = f.matched
    nc.nc_callback_release(&f)
    return value, native, matched


cdef nc.NcCallback held


def hold(obj):
    nc.nc_callback_prepare(&held, obj, accepted, 2, nc.NC_CALLBACK_HOLDS_GIL)


def call_held(double x):
    return call(&held, x)


def let_go():
    nc.nc_callback_release(&held)
