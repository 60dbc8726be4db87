# tests/ext/cython_consumer.pyx: a consumer and a provider in Cython: uses every name of
# nativecall/__init__.pxd.
#
# Built as C and as C++. A function is named for what it does; results are plain Python values, for
# tests/headers/test_cython.py to compare, which adds `constants`. Whatever is `nogil` in the .pxd is
# called in a nogil block here.

from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport uint64_t, uintptr_t
from libc.string cimport strcmp, strlen
from libc.time cimport time

cimport nativecall as nc
from nativecall cimport NC_OK, NcCallback, PyNativeCallableEntry

cdef extern from "nativecall/signature.h":
    const uint64_t D_D "NATIVECALL_SIG(\"d:d\")"
    const uint64_t D_DDI "NATIVECALL_SIG(\"d:ddi\")"

cdef extern from "nativecall/callback.h":
    """
    static NcCallbackSignature any_callable[] = {
        NC_CALLBACK_ACCEPT("double (double)"),
        NC_CALLBACK_ACCEPT_WITH_DATA("double (double, void *)")};
    static NcCallbackSignature counter[] = {NC_CALLBACK_ACCEPT("int (double)")};
    """
    nc.NcCallbackSignature any_callable[2]
    nc.NcCallbackSignature counter[1]
    PyObject *PyObject_CallFunction(PyObject *f, const char *format, ...) noexcept nogil
    double PyFloat_AsDouble(PyObject *value) noexcept nogil
    void Py_XDECREF(PyObject *value) noexcept nogil

cdef extern from "nativecall/dispatch.h":
    """
    NC_DISPATCH_PROMOTED(evaluate, double, (double, int), NC_PROMOTED(double, (double, double)));
    """
    int evaluate(object f, double *result, double x, int n) except -1
    int evaluate_nogil(PyObject *f, double *result, double x, int n) noexcept nogil

ctypedef double (*Function)(double) noexcept nogil
ctypedef double (*FunctionData)(double, void *) noexcept nogil

nc.PyCustomSlots_Import()


def status_text(int status):
    cdef const char *text
    with nogil:
        text = nc.nc_status_text(status)
    return text.decode()


def word_d_ddi():
    return D_DDI


# ---- slots ---------------------------------------------------------------------------------------

def metaclass():
    return <object>nc.PyExtensibleType_Import()


def intern_key(bytes key):
    """The address of the one copy, and what is there."""
    cdef const char *interned
    nc.PyExtensibleType_Intern(key, len(key), &interned)
    return <uintptr_t>interned, interned[:len(key)]


cdef row_of(PyObject *obj, const nc.PyCustomSlot *row):
    cdef const nc.PyCustomSlot *first = nc.PyCustomSlots_Table(obj)
    if row == NULL:
        return None
    assert <uintptr_t>row.data.objoffset == <uintptr_t>row.data.pointer
    return row - first, row.id, row.flags, row.data.objoffset


def slots(obj):
    """Rows as (position, id, flags, data); None for an object without slots."""
    cdef PyObject *borrowed = <PyObject *>obj
    cdef const nc.PyCustomSlot *rows
    cdef Py_ssize_t count
    cdef int has
    with nogil:
        has = nc.PyCustomSlots_Check(borrowed)
        count = nc.PyCustomSlots_Count(borrowed)
        rows = nc.PyCustomSlots_Table(borrowed)
    if not has:
        assert count == 0
        assert rows == NULL
        return None
    return [row_of(borrowed, rows + i) for i in range(count)]


def find_slot(obj, uintptr_t key, Py_ssize_t expected):
    cdef PyObject *borrowed = <PyObject *>obj
    cdef const nc.PyCustomSlot *row
    with nogil:
        row = nc.PyCustomSlots_Find(borrowed, key, expected)
    return row_of(borrowed, row)


def find_key(obj, bytes key):
    cdef PyObject *borrowed = <PyObject *>obj
    cdef const nc.PyCustomSlot *row
    cdef const char *interned
    nc.PyExtensibleType_Intern(key, len(key), &interned)
    with nogil:
        row = nc.PyCustomSlots_FindKey(borrowed, interned)
    return row_of(borrowed, row)


def find_on_object(obj, uintptr_t key, Py_ssize_t expected):
    """(flags, data, the word of flags) of the row that is the object's or its type's."""
    cdef PyObject *borrowed = <PyObject *>obj
    cdef const nc.PyCustomSlot *row
    cdef uintptr_t word
    with nogil:
        row = nc.PyCustomSlots_FindOnObject(borrowed, key, expected)
        word = nc.PyCustomSlots_Flags(borrowed, key, expected)
    if row == NULL:
        return None, None, word
    assert row.data.flags == word
    return row.flags, row.data.objoffset, word


def slot_id(int registrar, int idea, int version):
    """Composed in C, of constants."""
    if (registrar, idea, version) == (0x04, 1, 0):
        return nc.PYCUSTOMSLOT_ID(0x04, 1, 0)
    return nc.PYCUSTOMSLOT_ID(0x05, 2, 3)


def allocate_slot_id():
    cdef uintptr_t key
    nc.PyExtensibleType_AllocateID(&key)
    return key


# ---- signatures ----------------------------------------------------------------------------------

def signature_key(bytes text):
    cdef const char *interned
    nc.nc_signature_intern(text, &interned)
    return <uintptr_t>interned


def canonical(bytes text):
    """The status; the canonical text, or the offset of what is wrong."""
    cdef char out[nc.NC_SIGNATURE_MAX_LENGTH + 1]
    cdef const char *given = text
    cdef size_t length = len(text)
    cdef size_t written
    cdef int status
    with nogil:
        status = nc.nc_signature_canonical(given, length, out, sizeof(out), &written)
    return status, out[:written].decode() if status == NC_OK else written


def of_declaration(bytes text):
    """The signature of a C declaration, None if there is none."""
    cdef bytearray out = bytearray(len(text) + 1)
    cdef const char *given = text
    cdef char *written = out
    cdef int status
    with nogil:
        status = nc.nc_prototype_signature(given, written)
    return (<bytes>written).decode() if status == NC_OK else None


cdef dimensions(const nc.NcSignatureType *type):
    cdef size_t axis = 0
    cdef size_t length
    cdef int status
    found = []
    while True:
        with nogil:
            status = nc.nc_signature_dimension(type, axis, &length)
        if status != NC_OK:
            assert status == nc.NC_E_RANGE
            return found
        found.append(length)
        axis += 1


cdef level(nc.NcSignatureCursor *cursor):
    cdef nc.NcSignatureCursor inner
    cdef nc.NcSignatureType type
    cdef int status
    found = []
    while True:
        with nogil:
            status = nc.nc_signature_next(cursor, &type)
        if status != NC_OK:
            assert status == nc.NC_E_MISSING
            assert cursor.at >= cursor.end
            return found
        with nogil:
            status = nc.nc_signature_enter(&type, &inner)
        assert status in (NC_OK, nc.NC_E_MISSING)
        found.append({
            "text": type.text[:type.length].decode(),
            "kind": type.kind,
            "place": type.place,
            "code": chr(type.code),
            "size": type.size,
            "alignment": type.alignment,
            "offset": type.offset,
            "width": type.width,
            "shift": type.shift,
            "ndim": type.ndim,
            "count": type.count,
            "item_size": type.item_size,
            "dimensions": dimensions(&type),
            "within": level(&inner) if status == NC_OK else None,
        })


def walk(bytes text):
    """The types of a canonical signature, one in the other; the status and offset of a bad one."""
    cdef nc.NcSignatureCursor cursor
    cdef const char *given = text
    cdef size_t length = len(text)
    cdef int status
    with nogil:
        status = nc.nc_signature_open(given, length, &cursor)
    if status != NC_OK:
        return status, cursor.at
    assert cursor.text == given
    assert cursor.place == nc.NC_PLACE_RESULT
    return level(&cursor), cursor.variadic


def pack(bytes text, uintptr_t flags=0):
    cdef uint64_t words[nc.NC_PACKED_MAX_WORDS]
    cdef const char *given = text
    cdef size_t length = len(text)
    cdef size_t count
    cdef int status
    with nogil:
        status = nc.nc_signature_pack(
            given, length, flags, words, nc.NC_PACKED_MAX_WORDS, &count)
    return status, tuple([words[i] for i in range(count)]) if status == NC_OK else count


cdef unpacked(const uint64_t *words, size_t count):
    cdef char out[nc.NC_SIGNATURE_MAX_LENGTH + 1]
    cdef size_t written
    cdef uintptr_t flags
    cdef int status
    with nogil:
        status = nc.nc_signature_unpack(words, count, out, sizeof(out), &written, &flags)
    if status != NC_OK:
        return nc.nc_status_text(status).decode()
    assert flags == nc.nc_packed_flags(words[0])
    return out[:written].decode(), flags


def unpack(words):
    cdef uint64_t copy[nc.NC_PACKED_MAX_WORDS]
    for i, word in enumerate(words):
        copy[i] = word
    return unpacked(copy, len(words))


def literal_table(uintptr_t refuse):
    """The positions of two signatures in a table of one's own; flags are refused."""
    cdef nc.NcPackedEntry table[4]
    cdef const uint64_t *found
    cdef uint64_t words[2]
    cdef char targets[3]
    cdef Py_ssize_t position
    cdef size_t i
    words[0] = D_D
    words[1] = D_DDI
    table[0].signature = D_D | nc.NC_PACKED_FLAGS(nc.NC_FLAG_NEEDS_GIL)
    table[1].signature = D_D | nc.NC_PACKED_FLAGS(nc.NC_ERRORS_ERRNO)
    table[2].signature = D_DDI
    table[3].signature = 0
    for i in range(4):
        table[i].function.cell = 0
        table[i].function.funcptr = &targets[i] if i < 3 else NULL
    positions = []
    for i in range(2):
        with nogil:
            found = nc.nc_packed_find(
                &table[0].signature, &words[i], 1, nc.NC_PACKED_REFUSE(refuse))
        if found == NULL:
            positions.append(None)
        else:
            position = <const nc.NcPackedEntry *>found - table
            positions.append(position)
            assert nc.nc_packed_count(found) == 1
            assert nc.nc_packed_funcptr(found, 1) == &targets[position]
    return positions


# ---- lookups -------------------------------------------------------------------------------------

cdef entry_of(const PyNativeCallableEntry *entry):
    if entry == NULL:
        return None
    assert <void *>entry.funcptr == nc.nc_calltable_funcptr(entry)
    return entry.signature.decode(), <uintptr_t>nc.nc_calltable_funcptr(entry), entry.flags


def entries(obj):
    """All entries, by the loop of the header."""
    cdef PyObject *borrowed = <PyObject *>obj
    cdef const PyNativeCallableEntry *entry = NULL
    found = []
    while True:
        with nogil:
            entry = nc.nc_native_next(borrowed, entry)
        if entry == NULL:
            return found
        found.append(entry_of(entry))


def table_entries(obj):
    """All entries, by the table."""
    cdef PyObject *borrowed = <PyObject *>obj
    cdef const nc.PyNativeCallableTable *table
    with nogil:
        table = nc.nc_native_table(borrowed)
    if table == NULL:
        return None
    assert <size_t>table.count == nc.nc_calltable_count(table)
    return [entry_of(table.entries + i) for i in range(table.count)]


def packed_entries(obj):
    """All entries, by the packed table."""
    cdef PyObject *borrowed = <PyObject *>obj
    cdef const uint64_t *entry
    cdef size_t count
    with nogil:
        entry = nc.nc_native_packed_table(borrowed)
    if entry == NULL:
        return None
    found = []
    while True:
        with nogil:
            count = nc.nc_packed_count(entry)
        if count == 0:
            return found
        text, flags = unpacked(entry, count)
        found.append((text, <uintptr_t>nc.nc_packed_funcptr(entry, count), flags))
        entry += count + 1


def viewed(obj):
    cdef PyObject *found
    cdef PyObject *borrowed = <PyObject *>obj
    with nogil:
        found = nc.nc_native_viewed(borrowed)
    return <object>found if found != NULL else None


def lookups(obj, bytes text, uintptr_t refuse=0):
    """The address that each way of looking up gives, by its name; 0 for none."""
    cdef PyObject *borrowed = <PyObject *>obj
    cdef const nc.PyNativeCallableTable *table
    cdef const PyNativeCallableEntry *entry
    cdef const PyNativeCallableEntry *by_slot
    cdef const PyNativeCallableEntry *in_table = NULL
    cdef uint64_t words[nc.NC_PACKED_MAX_WORDS]
    cdef size_t count
    cdef const char *signature
    cdef void *function
    cdef void *function_by_slot
    cdef void *packed
    cdef void *word
    nc.nc_signature_intern(text, &signature)
    assert nc.nc_signature_pack(signature, len(text), 0, words, sizeof(words) // 8, &count) == NC_OK
    with nogil:
        entry = nc.nc_native_find(borrowed, signature, refuse)
        by_slot = nc.nc_native_find_by_slot(borrowed, signature, refuse)
        function = nc.nc_native_function(borrowed, signature, refuse)
        function_by_slot = nc.nc_native_function_by_slot(borrowed, signature, refuse)
        packed = nc.nc_native_function_packed(borrowed, words, count, refuse)
        table = nc.nc_native_table(borrowed)
        if table != NULL:
            in_table = nc.nc_calltable_find(table, signature, refuse)
    if entry != NULL:
        assert nc.nc_calltable_flags_suit(entry.flags, refuse)
        assert not nc.nc_calltable_flags_suit(entry.flags, entry.flags | 1 << 24) or not entry.flags
    found = {
        "find": <uintptr_t>entry.funcptr if entry != NULL else 0,
        "find_by_slot": <uintptr_t>by_slot.funcptr if by_slot != NULL else 0,
        "calltable_find": <uintptr_t>in_table.funcptr if in_table != NULL else 0,
        "function": <uintptr_t>function,
        "function_by_slot": <uintptr_t>function_by_slot,
        "packed": <uintptr_t>packed,
    }
    if count == 1:
        with nogil:
            word = nc.nc_native_function_word(borrowed, words[0], refuse)
        found["word"] = <uintptr_t>word
    return found


def find_d_ddi(obj):
    """By a constant: what tests look for in the object code."""
    return <uintptr_t>nc.nc_native_function_word(<PyObject *>obj, D_DDI, nc.NC_FLAG_NEEDS_GIL)


def wait_for(obj, bytes text):
    """The address of an entry that another thread adds meanwhile; 0 if it takes a minute."""
    cdef PyObject *borrowed = <PyObject *>obj
    cdef const char *signature
    cdef void *function = NULL
    cdef long long start = time(NULL)
    nc.nc_signature_intern(text, &signature)
    with nogil:
        while function == NULL and time(NULL) - start < 60:
            function = nc.nc_native_function(borrowed, signature, 0)
    return <uintptr_t>function


# ---- types with __nativecall_api__ ---------------------------------------------------------------

cdef api double twice(double x) noexcept nogil:
    return 2.0 * x


cdef nc.NcNativeApi api
cdef PyNativeCallableEntry twice_entry
twice_entry.signature = b"d:d"
twice_entry.flags = nc.NC_FLAG_TAKES_GIL
twice_entry.funcptr = <void *>twice


cdef const PyNativeCallableEntry *api_find(
        PyObject *obj, const char *signature, uintptr_t refuse) noexcept nogil:
    if (strcmp(signature, twice_entry.signature) == 0
            and nc.nc_calltable_flags_suit(twice_entry.flags, refuse)):
        return &twice_entry
    return NULL


cdef const PyNativeCallableEntry *api_entry(PyObject *obj, size_t position) noexcept nogil:
    return &twice_entry if position == 0 else NULL


api.size = sizeof(nc.NcNativeApi)
api.name = nc.NC_NATIVEAPI_NAME
api.release = NULL
api.find = api_find
api.entry = api_entry


cdef class Twice:
    """A Cython class with a native entry."""

    __nativecall_api__ = PyCapsule_New(&api, nc.NC_NATIVEAPI_CAPSULE, NULL)

    def __call__(self, x):
        raise AssertionError("called through Python")


def api_of(obj):
    """What the type's interface says: its entries, and whether it is that of Twice."""
    cdef const nc.NcNativeApi *found
    cdef size_t position = 0
    nc.nc_nativeapi_of(obj, &found)
    if found == NULL:
        return None
    assert found.size >= sizeof(nc.NcNativeApi)
    assert found.name == nc.NC_NATIVEAPI_NAME
    assert found.release == NULL
    assert found.find(<PyObject *>obj, b"f:f", 0) == NULL
    listed = []
    while found.entry(<PyObject *>obj, position) != NULL:
        listed.append(entry_of(found.entry(<PyObject *>obj, position)))
        position += 1
    return listed, found == &api


def api_lookup(obj, bytes text, uintptr_t refuse=0):
    cdef const PyNativeCallableEntry *entry
    nc.nc_nativeapi_find(obj, text, refuse, &entry)
    return entry_of(entry)


def address_of_twice():
    return <uintptr_t><void *>twice


# ---- calls ---------------------------------------------------------------------------------------

def dispatch(f, double x, int n):
    """f(x, n) by a signature in the source."""
    cdef double result
    evaluate(f, &result, x, n)
    return result


def dispatch_nogil(f, double x, int n):
    """The status, and f(x, n) if it is NC_OK."""
    cdef PyObject *borrowed = <PyObject *>f
    cdef double result
    cdef int status
    with nogil:
        status = evaluate_nogil(borrowed, &result, x, n)
    return status, result if status == NC_OK else None


def call_by_text(f, bytes signature, double x, int n):
    """f(x, n) by a signature that is known at run time only, with the GIL and without."""
    cdef nc.NcCall call
    cdef const void *args[2]
    cdef double result
    cdef double unlocked
    cdef int status
    nc.nc_call_prepare(&call, f, signature)
    try:
        assert call.callable == <PyObject *>f
        assert call.count <= 2
        args[0] = &x
        args[1] = &n
        nc.nc_call(&call, &result, args)
        with nogil:
            status = nc.nc_call_nogil(&call, &unlocked, args)
        if status == NC_OK:
            assert unlocked == result
        return result, call.way, call.flags, status, <uintptr_t>call.function
    finally:
        nc.nc_call_release(&call)
        assert call.callable == NULL


# ---- callbacks -----------------------------------------------------------------------------------

def accepted():
    """What `any_callable` is after a call of prepare."""
    return [(any_callable[i].declaration.decode(), any_callable[i].signature.decode(),
             any_callable[i].has_user_data, <uintptr_t>any_callable[i].interned)
            for i in range(2)]


cdef double call(NcCallback *f, double x) noexcept nogil:
    cdef nc.NcCallbackCall python
    cdef PyObject *result
    cdef double value = -1.0
    if f.function != NULL and f.matched == 0:
        return (<Function>f.function)(x)
    if f.function != NULL:
        return (<FunctionData>f.function)(x, f.user_data)
    if nc.nc_callback_enter(f, &python):
        result = PyObject_CallFunction(python.callable, "d", x)
        value = PyFloat_AsDouble(result) if result != NULL else -1.0
        Py_XDECREF(result)
        if nc.nc_callback_leave(&python) < 0:
            value = -1.0
    return value


def apply(f, xs, unsigned int options=0):
    """f of each x without the GIL, as far as f does not fail, and what is known of the callback."""
    cdef NcCallback callback
    cdef double x, y
    nc.nc_callback_prepare(&callback, f, any_callable, 2, options)
    found = []
    try:
        for x in xs:
            if nc.nc_callback_failed(&callback):
                break
            with nogil:
                y = call(&callback, x)
            found.append(y)
        known = {"matched": callback.matched, "native": callback.function != NULL,
                 "flags": callback.flags, "options": callback.options,
                 "current": nc.nc_callback_current() == &callback, "values": found}
    finally:
        nc.nc_callback_release(&callback)
    return known


def checked(f, double x):
    """An "i:d" function whose failures are looked for: its result and its error convention."""
    cdef NcCallback callback
    cdef int result
    nc.nc_callback_prepare(
        &callback, f, counter, 1, nc.NC_CALLBACK_CHECKS_ERRORS | nc.NC_CALLBACK_NATIVE_ONLY)
    with nogil:
        result = (<int (*)(double) noexcept nogil>callback.function)(x)
    convention = callback.flags & nc.NC_ERRORS_MASK
    nc.nc_callback_release(&callback)
    return result, convention


# ---- without the package -------------------------------------------------------------------------

def without_the_package():
    """Whether nothing is interned, for want of a runtime, and what a Python callback gives."""
    cdef const char *interned
    nc.nc_signature_intern(b"d:d", &interned)
    return interned == NULL, apply(lambda x: x + 1.0, [1.0])["values"]
