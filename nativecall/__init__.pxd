# nativecall/__init__.pxd: the C headers for Cython 3.0 and later, in C and in C++ mode.
#
#     from cpython.object cimport PyObject
#     from libc.stdint cimport uint64_t
#     cimport nativecall as nc
#
#     ctypedef double (*Function)(double) noexcept nogil
#
#     cdef extern from "nativecall/signature.h":
#         const uint64_t D_D "NATIVECALL_SIG(\"d:d\")"
#
#     def half_of(f, double x):
#         nc.PyCustomSlots_Import()
#         function = <Function>nc.nc_native_function_word(<PyObject *>f, D_D, nc.NC_ERRORS_MASK)
#         return (function(x) if function != NULL else f(x)) / 2
#
# For names, arguments and results, see the headers.
#
# Build. nativecall.get_include() is the include directory. You can also vendor the headers. In
# either case, nothing is linked, and the module imports nothing of the package at run time.
#
# Import. For each object that you receive, call PyCustomSlots_Import() before any lookup. It
# returns 1 once any module has published the metaclass; before that, no object has slots. From then
# on, the call costs one load.
#
# The GIL. Functions that do not need the GIL are `nogil` and take `PyObject *`: pass
# `<PyObject *>f`, which Cython also allows in a nogil block. Functions that need the GIL take
# `object`.
#
# Ownership. All results are borrowed. Hold a reference to the object while you use its entries,
# rows and functions. Interned strings are immortal.
#
# Exceptions. Functions that raise are declared `except -1` or `except NULL`. The functions of
# signature.h return NC_OK or another NC_* status instead; see nc_status_text(). Declare the types
# of looked-up functions `noexcept nogil`: without `noexcept`, Cython checks for an exception after
# each call. Either refuse entries with NC_ERRORS_PYTHON (NC_ERRORS_MASK), or call them through a
# type with `except *`. An entry of any error convention may leave an exception when it takes the
# GIL: after the calls, return from a function declared `except -1` with
# `-1 if PyErr_Occurred() != NULL else 0` (cpython.exc), as docs/cython.md shows.
#
# Constants. NATIVECALL_SIG is a macro that takes a string literal. Declare a constant whose C name
# is the whole macro call, as above: the C compiler then folds each use. Do not use an `enum`, which
# Cython treats as an `int`.
#
# Callbacks. Macros create the accepted signatures, so write the array in verbatim C. To call a
# Python function, use the C API between nc_callback_enter() and nc_callback_leave(), which stores
# any exception. A call written in Cython would print the exception instead.
#
#     cdef extern from "nativecall/callback.h":
#         """
#         static NcCallbackSignature accepted[] = {
#             NC_CALLBACK_ACCEPT("double (double)"),
#             NC_CALLBACK_ACCEPT_WITH_DATA("double (double, void *)")};
#         """
#         nc.NcCallbackSignature accepted[2]
#         PyObject *PyObject_CallFunction(PyObject *f, const char *format, ...) noexcept nogil
#         double PyFloat_AsDouble(PyObject *value) noexcept nogil
#         void Py_XDECREF(PyObject *value) noexcept nogil
#
#     cdef double call_python(nc.NcCallback *f, double x) noexcept nogil:
#         cdef nc.NcCallbackCall call
#         cdef PyObject *result
#         cdef double y = -1.0
#         if nc.nc_callback_enter(f, &call):
#             result = PyObject_CallFunction(call.callable, "d", x)
#             y = PyFloat_AsDouble(result) if result != NULL else -1.0
#             Py_XDECREF(result)
#             if nc.nc_callback_leave(&call) < 0:
#                 y = -1.0
#         return y
#
#     def integrate(f, double a, double b):
#         cdef nc.NcCallback callback
#         nc.nc_callback_prepare(&callback, f, accepted, 2, 0)
#         try:
#             with nogil:
#                 value = ...      # callback.function, cast to the type of signature `matched`,
#                                  # or call_python if it is NULL
#         finally:
#             nc.nc_callback_release(&callback)       # raises the callback's exception
#         return value
#
# Dispatch. The macros of dispatch.h define functions, which you then declare:
#
#     cdef extern from "nativecall/dispatch.h":
#         """
#         NC_DISPATCH(evaluate, double, (double, int));
#         """
#         int evaluate(object f, double *result, double x, int n) except -1
#         int evaluate_nogil(PyObject *f, double *result, double x, int n) noexcept nogil
#
# Arrays. Two macros of view.h convert between typed memoryviews and `[n]T` arguments, without
# copying. Declare them once per memoryview type:
#
#     ctypedef struct Matrix:         # NC_VIEW(double, 2): "d:[2]d" is `double (const Matrix *)`
#         double *data
#         intptr_t shape[2]
#         intptr_t strides[2]
#
#     cdef extern from "nativecall/view.h" nogil:
#         void describe "NC_VIEW_OF_SLICE" (Matrix *view, double[:, :] a)
#         double[:, :] slice_of "NC_SLICE_OF_VIEW" (double[:, :] like, const Matrix *view)
#
#     ctypedef double (*Norm)(const Matrix *) noexcept nogil
#
#     cdef double norm_of(Norm norm, double[:, :] a) noexcept nogil:      # Cython to C
#         cdef Matrix view
#         describe(&view, a)
#         return norm(&view)
#
#     cdef double[:, :] like = cython.view.array((1, 1), sizeof(double), "d")
#
#     cdef double corner(const Matrix *view) noexcept nogil:              # C to Cython
#         cdef double[:, :] a = slice_of(like, view)
#         return a[0, 0]
#
# Providers. A cdef class cannot have the metaclass, because Cython defines its layout. It offers
# entries and slots by attributes (provide.h), and may have subclasses of any metaclass:
#
#     cdef double half(double x) noexcept nogil:
#         return x / 2
#
#     cdef class Half:
#         def __call__(self, double x):
#             return half(x)
#
#     cdef nc.PyNativeCallableEntry entries[2]        # zeroed: the last one ends them
#     entries[0].signature = "d:d"
#     entries[0].funcptr = <void *>&half
#
#     cdef const nc.PyNativeCallableEntry *find(
#             PyObject *obj, const char *signature, uintptr_t refuse) noexcept nogil:
#         return nc.nc_provided(entries, signature, refuse, 0)
#
#     cdef nc.NcNativeApi api
#     api.size, api.name, api.find = sizeof(api), nc.NC_NATIVEAPI_NAME, find
#     nc.nc_provide(<void *>Half, &api, 0)
#
# Classes with slots. nc_provide_slots gives a cdef class slots that need the GIL to be found. Slots
# of an ordinary subclass do not. A slot points to a C function that takes the cdef class, or holds
# the offset of a C field in that class:
#
#     cdef class Field:
#         cdef double value
#
#     cdef double field_get(Field self) noexcept nogil:
#         return self.value
#
#     cdef Field any_field = Field()
#     extensibletype = <object>nc.PyExtensibleType_Import()
#
#     class SlottedField(Field, metaclass=extensibletype):
#         __slots__ = ()
#         __customslots__ = {
#             "field.get": <uintptr_t>&field_get,
#             "field.at": <intptr_t>(<char *>&any_field.value - <char *><PyObject *>any_field),
#         }
#
# Do not put the keys of call tables in __customslots__.
#
# Native objects. A reference to one (nativeobject.h) is a `NcObject *`, counted by hand. Its fields
# are a struct of yours:
#
#     ctypedef struct Point:
#         double x, y
#
#     cdef const nc.NcClass *point = NULL
#
#     def use(cls):
#         global point
#         point = nc.nc_class_of(cls)                                   # once; never freed
#
#     def move(given, double by):
#         cdef nc.NcObject *p = nc.nc_object_from_python(given, point)  # TypeError for others
#         with nogil:
#             (<Point *>nc.nc_object_cast(p, point)).x += by
#             nc.nc_object_release(p)
#
# To define a class, fill in an NcClass as in C, zeroed: a static variable of the module is. A
# method of a Python class leaves its exception: check PyErr_Occurred() after the calls.

from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport intptr_t, uint64_t, uintptr_t


# ---- status and versions -------------------------------------------------------------------------

cdef extern from "nativecall/detail/core/base.h" nogil:
    enum:
        NC_ABI_VERSION

    enum:
        NC_OK, NC_E_NOMEM, NC_E_DUPLICATE, NC_E_RANGE, NC_E_TOOLONG, NC_E_FORMAT, NC_E_MISSING,
        NC_E_VERSION, NC_E_GIL

    const char *nc_status_text(int status) noexcept


# ---- slots ---------------------------------------------------------------------------------------

cdef extern from "nativecall/detail/core/slottable.h" nogil:
    # The union is unnamed in C: use only its members.
    ctypedef union _PyCustomSlotData:
        void *pointer
        intptr_t objoffset
        uintptr_t flags

    ctypedef struct PyCustomSlot:
        uintptr_t id
        uint64_t flags
        _PyCustomSlotData data

    uintptr_t PYCUSTOMSLOT_ID(int registrar, int idea, int version) noexcept


cdef extern from "nativecall/detail/core/runtime.h" nogil:
    const uintptr_t PYCUSTOMSLOT_NATIVECALLABLE_ID, PYCUSTOMSLOT_PACKEDCALLABLE_ID
    const uintptr_t PYCUSTOMSLOT_OBJECTSLOTS_ID
    enum:
        PYCUSTOMSLOT_NATIVECALLABLE_FAVPOS, PYCUSTOMSLOT_PACKEDCALLABLE_FAVPOS,
        PYCUSTOMSLOT_OBJECTSLOTS_FAVPOS


cdef extern from "nativecall/extensibletype.h":
    # Borrowed and immortal. Cast it to `<object>` to use the metaclass.
    PyTypeObject *PyExtensibleType_Import() except NULL
    # Needs the GIL to raise on failure.
    int PyExtensibleType_Intern(const char *bytes, Py_ssize_t length, const char **out) except -1
    int PyExtensibleType_AllocateID(uintptr_t *out) except -1


cdef extern from "nativecall/customslots.h":
    int PyCustomSlots_Import() noexcept
    const PyCustomSlot *PyCustomSlots_Ask(object obj, uintptr_t id, Py_ssize_t pos) except? NULL


cdef extern from "nativecall/customslots.h" nogil:
    int PyCustomSlots_Check(PyObject *obj) noexcept
    Py_ssize_t PyCustomSlots_Count(PyObject *obj) noexcept
    const PyCustomSlot *PyCustomSlots_Table(PyObject *obj) noexcept
    const PyCustomSlot *PyCustomSlots_Find(PyObject *, uintptr_t, Py_ssize_t expected_pos) noexcept
    const PyCustomSlot *PyCustomSlots_FindKey(PyObject *obj, const char *key) noexcept
    const PyCustomSlot *PyCustomSlots_FindOnObject(PyObject *, uintptr_t, Py_ssize_t) noexcept
    uintptr_t PyCustomSlots_Flags(PyObject *obj, uintptr_t id, Py_ssize_t expected_pos) noexcept


# ---- signatures ----------------------------------------------------------------------------------

cdef extern from "nativecall/detail/core/signaturecursor.h" nogil:
    enum:
        NC_SIGNATURE_MAX_LENGTH, NC_SIGNATURE_MAX_DEPTH, NC_SIGNATURE_MAX_NDIM

    enum:
        NC_KIND_VOID, NC_KIND_BOOL, NC_KIND_INT, NC_KIND_FLOAT, NC_KIND_COMPLEX, NC_KIND_VOIDPTR,
        NC_KIND_POINTER, NC_KIND_FUNCTION, NC_KIND_STRUCT, NC_KIND_UNION, NC_KIND_ARRAY,
        NC_KIND_VIEW, NC_KIND_OBJECT

    enum:
        NC_PLACE_RESULT, NC_PLACE_ARGUMENT, NC_PLACE_FIELD, NC_PLACE_POINTEE, NC_PLACE_ELEMENT,
        NC_PLACE_ITEM

    ctypedef struct NcSignatureType:
        const char *text    # not NUL-terminated: text[:length]
        size_t length
        int kind            # NC_KIND_*
        int place           # NC_PLACE_*
        char code
        size_t size, alignment, offset
        int width           # bits of a bit-field; -1 for other types
        unsigned shift
        size_t ndim, count
        size_t item_size

    ctypedef struct NcSignatureCursor:
        const char *text
        size_t at, end
        int place, variadic

    int nc_signature_canonical(const char *, size_t, char *, size_t size, size_t *written) noexcept
    int nc_signature_open(const char *text, size_t length, NcSignatureCursor *cursor) noexcept
    int nc_signature_next(NcSignatureCursor *cursor, NcSignatureType *type) noexcept
    int nc_signature_enter(const NcSignatureType *type, NcSignatureCursor *inner) noexcept
    int nc_signature_dimension(const NcSignatureType *type, size_t axis, size_t *length) noexcept


cdef extern from "nativecall/signature.h" nogil:
    int nc_prototype_signature(const char *text, char *out) noexcept


cdef extern from "nativecall/detail/core/packed.h" nogil:
    enum:
        NC_PACKED_MAX_WORDS
    const uint64_t NC_PACKED_START, NC_PACKED_CONTINUATION, NC_PACKED_FLAGS_MASK
    uint64_t NC_PACKED_FLAGS(uintptr_t flags) noexcept
    uint64_t NC_PACKED_REFUSE(uintptr_t flags) noexcept

    ctypedef union NcPackedFunction:
        void *funcptr
        uint64_t cell

    ctypedef struct NcPackedEntry:
        uint64_t signature
        NcPackedFunction function

    int nc_signature_pack(const char *, size_t, uintptr_t, uint64_t *, size_t, size_t *) noexcept
    int nc_signature_unpack(
        const uint64_t *words, size_t count, char *out, size_t size, size_t *written,
        uintptr_t *flags) noexcept
    uintptr_t nc_packed_flags(uint64_t first) noexcept
    const uint64_t *nc_packed_find(const uint64_t *, const uint64_t *, size_t, uint64_t) noexcept
    size_t nc_packed_count(const uint64_t *entry) noexcept
    void *nc_packed_funcptr(const uint64_t *entry, size_t count) noexcept


# ---- native callables ----------------------------------------------------------------------------

cdef extern from "nativecall/detail/core/calltable.h" nogil:
    const uintptr_t NC_FLAG_NEEDS_GIL, NC_FLAG_TAKES_GIL, NC_FLAG_RELEASE_GIL, NC_FLAG_ERRNO
    const uintptr_t NC_ERRORS_MASK, NC_ERRORS_NONE, NC_ERRORS_PYTHON, NC_ERRORS_NONZERO
    const uintptr_t NC_ERRORS_ZERO, NC_ERRORS_NULL, NC_ERRORS_ERRNO, NC_ERRORS_ARGUMENT

    ctypedef struct PyNativeCallableEntry:
        const char *signature
        uintptr_t flags
        void *funcptr       # if published, use nc_calltable_funcptr(entry)

    ctypedef struct PyNativeCallableTable:
        intptr_t count      # if published, use nc_calltable_count(table)
        PyNativeCallableEntry entries[1]

    int nc_calltable_flags_suit(uintptr_t flags, uintptr_t refuse) noexcept
    const PyNativeCallableEntry *nc_calltable_find(
        const PyNativeCallableTable *table, const char *signature, uintptr_t refuse) noexcept
    void *nc_calltable_funcptr(const PyNativeCallableEntry *entry) noexcept
    size_t nc_calltable_count(const PyNativeCallableTable *table) noexcept


cdef extern from "nativecall/nativecallable.h":
    # Needs the GIL to raise on failure.
    int nc_signature_intern(const char *signature, const char **out) except -1


cdef extern from "nativecall/nativecallable.h" nogil:
    PyObject *nc_native_viewed(PyObject *obj) noexcept
    const PyNativeCallableTable *nc_native_table(PyObject *obj) noexcept

    const PyNativeCallableEntry *nc_native_find(PyObject *, const char *, uintptr_t refuse) noexcept
    const PyNativeCallableEntry *nc_native_find_by_slot(
        PyObject *obj, const char *signature, uintptr_t refuse) noexcept
    void *nc_native_function(PyObject *obj, const char *signature, uintptr_t refuse) noexcept
    void *nc_native_function_by_slot(PyObject *, const char *signature, uintptr_t refuse) noexcept

    const PyNativeCallableEntry *nc_native_next(PyObject *, const PyNativeCallableEntry *) noexcept

    const uint64_t *nc_native_packed_table(PyObject *obj) noexcept
    void *nc_native_function_packed(PyObject *, const uint64_t *, size_t, uintptr_t refuse) noexcept
    void *nc_native_function_word(PyObject *obj, uint64_t word, uintptr_t refuse) noexcept


# ---- types with __nativecall_api__ ---------------------------------------------------------------

cdef extern from "nativecall/provide.h":
    pass


cdef extern from "nativecall/nativeapi.h":
    const char *NC_NATIVEAPI_ATTRIBUTE
    const char *NC_NATIVEAPI_CAPSULE
    const uint64_t NC_NATIVEAPI_NAME

    ctypedef struct NcNativeApi:
        size_t size
        uint64_t name
        int (*release)(NcNativeApi *self) noexcept
        const PyNativeCallableEntry *(*find)(
            PyObject *obj, const char *signature, uintptr_t refuse) noexcept nogil
        const PyNativeCallableEntry *(*entry)(PyObject *obj, size_t position) noexcept nogil

    const PyNativeCallableEntry *nc_provided(
        const PyNativeCallableEntry *, const char *, uintptr_t refuse, size_t at) noexcept nogil
    int nc_provide(void *type, const NcNativeApi *api, Py_ssize_t offset) except -1
    int nc_provide_slots(PyTypeObject *type, const PyCustomSlot *rows) except -1

    int nc_nativeapi_of(object obj, const NcNativeApi **out) except -1
    int nc_nativeapi_find(object, const char *, uintptr_t, const PyNativeCallableEntry **) except -1


# ---- arrays --------------------------------------------------------------------------------------

# Declare NC_VIEW_OF_SLICE and NC_SLICE_OF_VIEW yourself (see above).
cdef extern from "nativecall/view.h" nogil:
    ctypedef struct NcView:
        void *data
        intptr_t shape[1]       # n lengths, then n strides

    const intptr_t *nc_view_shape(const NcView *view) noexcept
    const intptr_t *nc_view_strides(const NcView *view, int ndim) noexcept
    intptr_t nc_view_size(const intptr_t *shape, int ndim) noexcept
    int nc_view_is_contiguous(const intptr_t *, const intptr_t *, int, size_t, char order) noexcept
    void nc_view_fill_strides(const intptr_t *, intptr_t *, int, size_t, char order) noexcept


# ---- native objects ------------------------------------------------------------------------------

cdef extern from "nativecall/nativeobject.h" nogil:
    ctypedef void NcObject

    ctypedef struct NcField:
        const char *name
        const char *type        # NULL: a counted reference
        size_t offset
        const NcClass *cls      # of the reference's target; NULL: any; NC_FIELD_SELF

    ctypedef struct NcMethod:
        const char *key         # nc_method_key
        void *function
        uintptr_t flags
        bint takes_fields

    ctypedef struct NcClass:
        const char *name
        void *type              # the Python class
        size_t fields_size, fields_align
        void (*create)(void *fields) noexcept
        void (*destroy)(void *fields) noexcept
        const NcField *fields
        size_t field_count
        const NcMethod *methods
        size_t method_count

    const NcClass *NC_FIELD_SELF

    NcObject *nc_object_new(const NcClass *cls) noexcept
    NcObject *nc_objects_new(const NcClass *cls, size_t count) noexcept
    size_t nc_class_stride(const NcClass *cls) noexcept
    void nc_object_retain(NcObject *object) noexcept
    void nc_object_release(NcObject *object) noexcept
    const NcClass *nc_object_class(const NcObject *object) noexcept
    void *nc_object_cast(const NcObject *object, const NcClass *cls) noexcept
    void *nc_object_method(NcObject *object, const char *key, void **self) noexcept
    void *nc_object_method_at(NcObject *object, const char *, size_t position, void **self) noexcept
    size_t nc_class_position(const NcClass *cls, const void *key) noexcept
    void *nc_object_super(NcObject *object, const NcClass *, const char *key, void **self) noexcept
    void nc_reference_set(NcObject **field, NcObject *object) noexcept
    void nc_reference_give(NcObject **field, NcObject *object) noexcept


cdef extern from "nativecall/nativeobject.h":
    const NcClass *nc_class_of(object type) except NULL
    const NcClass *nc_class_define(
        const NcClass *own, PyObject *bases, const char *module, PyObject *more) except NULL
    int nc_method_key(const char *name, const char *signature, const char **out) except -1
    object nc_object_as_python(NcObject *object)
    # Borrowed; NULL for objects of other classes.
    NcObject *nc_object_of_python(object object, const NcClass *cls) noexcept
    # A new native reference.
    NcObject *nc_object_from_python(object object, const NcClass *cls) except NULL


# ---- calls by a signature known only at run time -------------------------------------------------

cdef extern from "nativecall/detail/promotion.h" nogil:
    enum:
        NC_CALL_MAX_ARGUMENTS


cdef extern from "nativecall/dynamiccall.h":
    enum:
        NC_WAY_EXACT, NC_WAY_PROMOTED, NC_WAY_BOXED

    ctypedef struct NcCall:
        PyObject *callable      # owned by the call
        void *function          # NULL: the call is made through Python
        uintptr_t flags
        int way                 # NC_WAY_*
        size_t count            # arguments

    int nc_call_prepare(NcCall *call, object obj, const char *signature) except -1
    void nc_call_release(NcCall *call) noexcept
    int nc_call(const NcCall *call, void *result, const void *const *args) except -1
    int nc_call_nogil(const NcCall *call, void *result, const void *const *args) noexcept nogil


# ---- callbacks -----------------------------------------------------------------------------------

cdef extern from "nativecall/callback.h":
    const unsigned int NC_CALLBACK_HOLDS_GIL, NC_CALLBACK_NESTS, NC_CALLBACK_CHECKS_ERRORS
    const unsigned int NC_CALLBACK_TRUSTS_NAMES, NC_CALLBACK_CHECKS_ARGUMENT
    const unsigned int NC_CALLBACK_NATIVE_ONLY

    ctypedef void (*NcFunction)() noexcept nogil

    ctypedef struct NcCallbackSignature:
        const char *declaration
        bint has_user_data
        const char *signature   # NULL at first, as is `interned`
        const char *interned

    ctypedef struct NcCallback:
        NcFunction function     # cast to the type of signature `matched`; or NULL
        void *user_data
        size_t matched
        uintptr_t flags
        PyObject *object
        unsigned int options

    ctypedef struct NcCallbackCall:
        PyObject *callable

    int nc_callback_prepare(
        NcCallback *callback, object obj, NcCallbackSignature *accepted, size_t count,
        unsigned int options) except -1
    int nc_callback_release(NcCallback *callback) except -1
    bint nc_callback_failed(const NcCallback *callback) noexcept nogil
    NcCallback *nc_callback_current() noexcept nogil
    bint nc_callback_enter(NcCallback *callback, NcCallbackCall *call) noexcept nogil
    int nc_callback_leave(NcCallbackCall *call) noexcept nogil
