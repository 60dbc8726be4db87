/* csrc/callable/overload.c: chooses among the entries of an overloaded callable by argument types.
 *
 * Rule. Each argument of each candidate has a cost (overloadcost.h). The candidate with the lowest
 * total cost is called; among equal costs, the first candidate. So an exact match always wins, and
 * the order of entries matters only between equal costs. If no candidate accepts the arguments, the
 * error lists the entries.
 *
 * Speed. The choice depends on the classes of the arguments, not on their values. Python's float,
 * bool, complex and None are classes, and so is each NumPy scalar type. Ints are classified by the
 * integer types that can hold them, among the types in the entries. A contiguous, writable array is
 * classified by its element type if every argument of every entry is a scalar, an object or a
 * pointer to scalars, and all entries use one memory layout. A dispatcher is a table that maps the
 * argument classes of a call to the entry that the rule has chosen for these classes. Only the rule
 * fills the table, so a table hit never differs from the rule's choice.
 *
 * A callable with a specialize hook, such as a compiler's function, gets a new entry if no entry
 * matches the arguments exactly. If no entry can be created, the rule's choice is called.
 *
 * Guarantees. Choosing converts no argument. It may run user code: __index__ of integers, buffer
 * exporters, and code that the match hook calls. On a table hit, it runs no user code except the
 * buffer exporters of arrays. If an object refuses to export a buffer, that exception is cleared.
 * Exceptions of hooks propagate, except a TypeError of the specialize hook if the rule has a
 * choice.
 *
 * Threads: a call reads the parts and the dispatcher without a lock; only NC_ALONE removes them
 * (platform/lock.h). Words of a dispatcher's table are atomic. `known_types` only grows, under a
 * lock; a type is published with its class. */
#include "overload.h"

#include "call/calls.h"
#include "overloadcost.h"
#include "platform/lock.h"
#include "values/names.h"
#include "values/pointers.h"

#include <string.h>

/* ---- the rule -------------------------------------------------------------------------------- */

static const NcCallInterface *part_cif(PyObject *parts, Py_ssize_t position)
{
    PyObject *part = PyTuple_GET_ITEM(parts, position);
    return ((const NcCallable *)(void *)part)->cif;
}

/* Returns the position of the part with the lowest cost; if several have it, the first. Returns -1
 * if no part takes the arguments, or -2 with an exception. */
static Py_ssize_t apply_rule(PyObject *parts, PyObject *const *args, Py_ssize_t nargs,
                             long *best_cost)
{
    Py_ssize_t best = -1;
    for (Py_ssize_t p = 0; p < PyTuple_GET_SIZE(parts); p++) {
        const NcCallInterface *cif = part_cif(parts, p);
        long cost = 0;
        if (nargs != cif->nargs && (nargs < cif->nargs || !cif->variadic)) {
            continue;
        }
        for (Py_ssize_t i = 0; i < cif->nargs; i++) {
            int one = nc_argument_cost(cif, i, args[i]);
            if (one == -2) {
                return -2;
            }
            if (one < 0) {
                cost = -1;
                break;
            }
            cost += one;
        }
        if (cost >= 0 && (best < 0 || cost < *best_cost)) {
            best = p;
            *best_cost = cost;
        }
        if (cost == 0 && nargs == cif->nargs) {
            return p;
        }
    }
    return best;
}

/* ---- classes of values ----------------------------------------------------------------------- */

/* Classes of values. All values of a class have the same cost for any given argument type of the
 * entries, except NumPy integers (see varies). Each dispatcher numbers its own classes of ints,
 * from CLASS_INT on. */
enum {
    CLASS_UNKNOWN = 0, /* needs the rule */
    CLASS_FLOAT,
    CLASS_BOOL,
    CLASS_COMPLEX,
    CLASS_NONE,
    CLASS_NUMPY,       /* the first of NumPy's scalar types */
    CLASS_BUFFER = 31, /* in known_types only; instances have CLASS_BYTES or a class of arrays */
    CLASS_INT = 32,    /* the first of at most 12 classes of ints */
    CLASS_BYTES = 44,  /* bytes objects, always read-only */
    CLASS_ARRAY = 45,  /* the first class of arrays */
    CLASS_BITS = 6,
    MOST_ARGUMENTS = 8, /* the arguments that fit in a key, below its highest bit */
};

/* The element types of arrays; each has a class. */
#define LETTER(letter, ...) letter,
static const char array_letters[] = {NC_INTEGERS(LETTER) NC_FLOATS(LETTER) NC_COMPLEXES(LETTER) 0};
_Static_assert(CLASS_ARRAY + sizeof(array_letters) - 1 <= 1 << CLASS_BITS,
               "each element type needs a class");

/* A hash table, by address, of the types that have a class; a subclass is a different type. The
 * table holds only static types, since these live as long as the process. There are few of them, so
 * a search soon finds an empty place. */
enum { TYPE_PLACES = 64 };
static struct {
    PyTypeObject *type;
    int class_;
    char letter; /* nc_value_letter of every instance */
} known_types[TYPE_PLACES];

static int numpy_count; /* number of NumPy's scalar types in known_types */
static NcLock learning; /* guards the writes to both */

static size_t type_place(const PyTypeObject *type)
{
    uintptr_t bits = (uintptr_t)type >> 4;
    size_t place = (size_t)(bits ^ (bits >> 6)) % TYPE_PLACES;
    while (known_types[place].type != type && known_types[place].type != NULL) {
        place = (place + 1) % TYPE_PLACES;
    }
    return place;
}

/* Adds a value's type to known_types if the type has a class. */
static void learn_type(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    size_t place = type_place(type);
    int class_ = type == &PyFloat_Type     ? CLASS_FLOAT
                 : type == &PyBool_Type    ? CLASS_BOOL
                 : type == &PyComplex_Type ? CLASS_COMPLEX
                 : value == Py_None        ? CLASS_NONE
                 : type == &PyMemoryView_Type || type == &PyBytes_Type ||
                         type == &PyByteArray_Type || strcmp(type->tp_name, "numpy.ndarray") == 0
                     ? CLASS_BUFFER
                     : CLASS_UNKNOWN;
    if (known_types[place].type == type || PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
        return;
    }
    int is_numpy = class_ == CLASS_UNKNOWN && strncmp(type->tp_name, "numpy.", 6) == 0;
    char letter = class_ != CLASS_BUFFER && (class_ != CLASS_UNKNOWN || is_numpy)
                      ? nc_value_letter(value)
                      : '\0';
    if (PyErr_Occurred()) {
        PyErr_Clear(); /* out of memory: the type stays unknown for now */
        return;
    }
    NC_LOCK(&learning);
    place = type_place(type); /* another thread may have taken the place, or added the type */
    if (known_types[place].type == type) {
        class_ = CLASS_UNKNOWN;
    } else if (is_numpy && letter != '\0' && CLASS_NUMPY + numpy_count < CLASS_BUFFER) {
        class_ = CLASS_NUMPY + numpy_count++;
    }
    if (class_ != CLASS_UNKNOWN) {
        known_types[place].class_ = class_;
        known_types[place].letter = letter;
        nc_store_release_ptr(&known_types[place].type, type);
    }
    NC_UNLOCK(&learning);
}

/* ---- dispatchers ----------------------------------------------------------------------------- */

enum { MEMO_BITS = 6, MEMO_PLACES = 1 << MEMO_BITS, MEMO_PROBES = 4, CHOICE_BITS = 12 };

struct NcDispatcher {
    size_t references; /* atomic: of the callable, and of each call that may stop meanwhile */
    PyObject *parts;   /* borrowed: the callable keeps all parts that it ever had */
    int takes_arrays;  /* 1 if arrays have classes */
    int export;        /* export flags for arrays */
    int takes_bytes;   /* whether bytes objects have a class */
    unsigned char int_class[2][64]; /* for ints that fit in 64 bits, by sign and bit length */
    uint64_t memo[MEMO_PLACES];     /* atomic: the classes of arguments, then the position of the
                                       part to call in CHOICE_BITS bits; 0: an empty place */
};

/* The letter of an argument, or of its target if numbers are passed by reference. */
static char number_letter(const NcCallInterface *cif, Py_ssize_t index)
{
    const NcArgument *argument = &cif->arguments[index];
    return argument->code == 'P' && cif->fortran ? argument->pointee : argument->code;
}

/* Assigns classes to ints: two ints have the same class if the same integer types of the parts can
 * hold them. The sign and the bit length of an int determine which types can hold it. For a
 * negative int, this is the bit length of its complement. */
static void number_ints(NcDispatcher *self, PyObject *parts)
{
    unsigned char ends[2][65] = {{0}, {0}};
    unsigned char class_ = CLASS_INT;
    for (Py_ssize_t p = 0; p < PyTuple_GET_SIZE(parts); p++) {
        const NcCallInterface *cif = part_cif(parts, p);
        for (Py_ssize_t i = 0; i < cif->nargs; i++) {
            const NcIntegerKind *kind = nc_integer_kind(number_letter(cif, i));
            if (kind != NULL) {
                ends[0][8 * kind->size - kind->is_signed] = 1;
            }
            if (kind != NULL && kind->is_signed) {
                ends[1][8 * kind->size - 1] = 1;
            }
        }
    }
    for (int negative = 0; negative < 2; negative++) {
        for (int length = 0; length < 64; length++) {
            self->int_class[negative][length] = class_;
            class_ = (unsigned char)(class_ + ends[negative][length]);
        }
        class_++;
    }
}

/* Returns whether an array's cost depends only on its element type. This is true if all parts use
 * one memory layout, and all arguments are scalars, objects or pointers to scalars. For structs,
 * views and pointers to arrays, the rule must inspect the value. Sets *bytes to whether bytes
 * objects have a class. */
static int knows_arrays(PyObject *parts, int *bytes)
{
    *bytes = 1;
    for (Py_ssize_t p = 0; p < PyTuple_GET_SIZE(parts); p++) {
        const NcCallInterface *cif = part_cif(parts, p);
        if (cif->export != part_cif(parts, 0)->export) {
            return 0;
        }
        for (Py_ssize_t i = 0; i < cif->nargs; i++) {
            char code = cif->arguments[i].code;
            int plain = code == 'P' && cif->arguments[i].count == 0 &&
                        (cif->arguments[i].pointee == 'v' ||
                         nc_scalar_size(cif->arguments[i].pointee) != 0);
            if (!plain && code != 'O' && nc_scalar_size(code) == 0) {
                return 0;
            }
            if (code == 'P' && cif->arguments[i].pointee == 'v') {
                /* Whether bytes fit depends on const, which the signature omits. */
                *bytes = 0;
            }
        }
    }
    return 1;
}

/* A new dispatcher for parts, with one reference; NULL with an exception. */
static NcDispatcher *dispatcher_new(PyObject *parts)
{
    NcDispatcher *self = (NcDispatcher *)PyMem_Calloc(1, sizeof(*self));
    if (self == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    self->references = 1;
    self->parts = parts;
    number_ints(self, parts);
    self->export = part_cif(parts, 0)->export | PyBUF_WRITABLE;
    self->takes_arrays = knows_arrays(parts, &self->takes_bytes);
    return self;
}

void nc_dispatcher_release(NcDispatcher *self)
{
    if (self != NULL && __atomic_sub_fetch(&self->references, 1, __ATOMIC_ACQ_REL) == 0) {
        PyMem_Free(self);
    }
}

/* Bit length, but 1 for 0: every integer type that can hold 1 can hold 0. */
static inline int bit_length(uint64_t bits)
{
    return 64 - __builtin_clzll(bits | 1);
}

static inline int class_of_int(const NcDispatcher *self, int64_t number)
{
    int negative = number < 0;
    return self->int_class[negative][bit_length((uint64_t)(negative ? ~number : number))];
}

/* The class of an int that has several digits in CPython. */
NC_NOINLINE int class_of_long_int(const NcDispatcher *self, PyObject *value)
{
    int overflow = 0;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow == 0 ? class_of_int(self, number) : CLASS_UNKNOWN;
}

/* A buffer exporter may run Python code (NumPy warns about some arrays), and that code may add an
 * entry. Then `self` is no longer the owner's dispatcher, so this returns CLASS_UNKNOWN. Nothing
 * else in key_of() can run Python code. */
NC_NOINLINE int class_of_array(NcCallable *owner, NcDispatcher *self, PyObject *value)
{
    Py_buffer buffer;
    char letter = '\0';
    if (!self->takes_arrays) {
        return CLASS_UNKNOWN;
    }
    if (PyBytes_CheckExact(value)) {
        return self->takes_bytes ? CLASS_BYTES : CLASS_UNKNOWN;
    }
    (void)__atomic_add_fetch(&self->references, 1, __ATOMIC_RELAXED);
    if (PyObject_GetBuffer(value, &buffer, self->export) < 0) {
        PyErr_Clear();
    } else {
        if (buffer.ndim != 0) {
            letter = nc_buffer_letter(&buffer);
        }
        if (letter != '\0' && ((uintptr_t)buffer.buf & (nc_scalar_alignment(letter) - 1)) != 0) {
            letter = '\0'; /* misaligned: pointers refuse it */
        }
        PyBuffer_Release(&buffer);
    }
    int is_present = nc_load_relaxed_ptr(&nc_more(owner)->dispatcher) == self;
    nc_dispatcher_release(self);
    if (!is_present) {
        return CLASS_UNKNOWN;
    }
    const char *found = letter != '\0' ? strchr(array_letters, letter) : NULL;
    return found != NULL ? CLASS_ARRAY + (int)(found - array_letters) : CLASS_UNKNOWN;
}

static inline int class_of(NcCallable *owner, NcDispatcher *self, PyObject *value)
{
    long small;
    if (PyFloat_CheckExact(value)) {
        return CLASS_FLOAT;
    }
    if (nc_small_integer(value, &small)) {
        return class_of_int(self, small);
    }
    if (PyLong_CheckExact(value)) {
        return class_of_long_int(self, value);
    }
    int class_ = known_types[type_place(Py_TYPE(value))].class_;
    return class_ == CLASS_BUFFER ? class_of_array(owner, self, value) : class_;
}

/* Packs the classes of all arguments into one number; returns 0 if an argument has no class. A 1
 * bit above the classes marks where they end, so calls with different numbers of arguments
 * differ. */
static inline uint64_t key_of(NcCallable *owner, NcDispatcher *self, PyObject *const *args,
                              Py_ssize_t nargs)
{
    uint64_t key = 1;
    if (nargs > MOST_ARGUMENTS) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < nargs; i++) {
        int class_ = class_of(owner, self, args[i]);
        if (class_ == CLASS_UNKNOWN) {
            return 0;
        }
        key = key << CLASS_BITS | (unsigned)class_;
    }
    return key;
}

static inline size_t memo_place(uint64_t key)
{
    return (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> (64 - MEMO_BITS));
}

/* Returns whether the cost of a NumPy scalar with this letter depends on its value. The cost varies
 * if some integer type of the parts cannot hold all values of the scalar's type. */
static int varies(PyObject *parts, char letter)
{
    const NcIntegerKind *found = nc_integer_kind(letter);
    if (found == NULL) {
        return 0;
    }
    for (Py_ssize_t p = 0; p < PyTuple_GET_SIZE(parts); p++) {
        const NcCallInterface *cif = part_cif(parts, p);
        for (Py_ssize_t i = 0; i < cif->nargs; i++) {
            const NcIntegerKind *wanted = nc_integer_kind(number_letter(cif, i));
            if (wanted != NULL && wanted->code != '?' &&
                (found->low < wanted->low || found->high > wanted->high)) {
                return 1;
            }
        }
    }
    return 0;
}

/* Records the rule's choice if the rule would choose the same part for all values of these classes.
 * For an exact match it would, since the part's types can hold all these values. */
static void remember(NcCallable *owner, NcDispatcher *self, PyObject *const *args, Py_ssize_t nargs,
                     Py_ssize_t choice, long cost)
{
    uint64_t key = key_of(owner, self, args, nargs);
    if (key == 0 || choice >= 1 << CHOICE_BITS) {
        return;
    }
    for (Py_ssize_t i = 0; cost != NC_COST_EXACT && i < nargs; i++) {
        if (!PyLong_CheckExact(args[i]) &&
            varies(self->parts, known_types[type_place(Py_TYPE(args[i]))].letter)) {
            return;
        }
    }
    size_t place = memo_place(key);
    for (size_t probe = 0; probe < MEMO_PROBES; probe++) {
        size_t next = (place + probe) % MEMO_PLACES;
        if (__atomic_load_n(&self->memo[next], __ATOMIC_RELAXED) == 0) {
            place = next;
            break;
        }
    }
    __atomic_store_n(&self->memo[place], key << CHOICE_BITS | (uint64_t)choice, __ATOMIC_RELAXED);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Applies the rule after a table miss. Returns a new reference to the chosen part, or NULL with an
 * exception. */
static NcCallable *choose(NcCallable *self, PyObject *const *args, Py_ssize_t nargs)
{
    NcCallable *part = NULL;
    PyObject *parts = Py_XNewRef(nc_more(self)->parts);
    long cost = 0;
    if (parts == NULL) {
        /* The garbage collector has cleared the callable, and a finalizer has then called its
         * view. */
        nc_refuse_empty(self);
        return NULL;
    }
    Py_ssize_t choice = apply_rule(parts, args, nargs, &cost);
    if (choice == -1 || (choice >= 0 && cost != NC_COST_EXACT)) {
        part = nc_callable_for_call(self, args, nargs);
        if (part == NULL && choice == -1 && !PyErr_Occurred()) {
            Py_XDECREF(nc_call_with(NC_HOOK(no_overload), (PyObject *)self, args, nargs, NULL));
        } else if (part == NULL && choice >= 0 && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear(); /* no entry could be made */
        }
    }
    if (choice >= 0 && part == NULL && !PyErr_Occurred()) {
        part = (NcCallable *)(void *)Py_NewRef(PyTuple_GET_ITEM(parts, choice));
        for (Py_ssize_t i = 0; i < nargs; i++) {
            learn_type(args[i]);
        }
        /* The rule may have run Python code that added an entry. In that case, do not record the
         * choice. */
        NcDispatcher *dispatcher = NULL;
        NC_BEGIN_SECTION(self);
        if (nc_more(self)->parts == parts && nc_more(self)->dispatcher == NULL) {
            nc_store_release_ptr(&nc_more(self)->dispatcher, dispatcher_new(parts));
        }
        dispatcher = nc_more(self)->dispatcher;
        if (dispatcher != NULL && dispatcher->parts == parts) {
            (void)__atomic_add_fetch(&dispatcher->references, 1, __ATOMIC_RELAXED);
        } else {
            dispatcher = NULL;
        }
        NC_END_SECTION();
        if (dispatcher != NULL) {
            remember(self, dispatcher, args, nargs, choice, cost);
            nc_dispatcher_release(dispatcher);
        } else if (PyErr_Occurred()) {
            Py_CLEAR(part);
        }
    }
    Py_DECREF(parts);
    return part;
}

/* For calls that miss the table or have keyword arguments. */
NC_NOINLINE PyObject *call_by_rule(NcCallable *self, PyObject *const *args, Py_ssize_t nargs,
                                   PyObject *kwnames)
{
    if (kwnames != NULL && PyTuple_GET_SIZE(kwnames) != 0) {
        PyObject *called = nc_callable_by_position(self, args, nargs, kwnames);
        return called != NULL || PyErr_Occurred()
                   ? called
                   : nc_callable_error(self, PyExc_TypeError,
                                       "is overloaded and takes no keyword arguments; choose an "
                                       "entry first, as in f['d:d'](x=1.0)");
    }
    NcCallable *part = choose(self, args, nargs);
    PyObject *result =
        part != NULL ? part->vectorcall((PyObject *)part, args, (size_t)nargs, NULL) : NULL;
    Py_XDECREF(part);
    return result;
}

PyObject *nc_vectorcall_overloaded(PyObject *object, PyObject *const *args, size_t nargsf,
                                   PyObject *kwnames)
{
    NcCallable *self = (NcCallable *)(void *)object;
    const NcMore *more = nc_more(self);
    NcDispatcher *dispatcher = (NcDispatcher *)nc_load_acquire_ptr(&more->dispatcher);
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (NC_LIKELY(dispatcher != NULL && kwnames == NULL)) {
        uint64_t key = key_of(self, dispatcher, args, nargs);
        size_t place = memo_place(key);
        for (size_t probe = 0; NC_LIKELY(key != 0) && probe < MEMO_PROBES; probe++) {
            size_t next = (place + probe) % MEMO_PLACES;
            const uint64_t found = __atomic_load_n(&dispatcher->memo[next], __ATOMIC_RELAXED);
            if (NC_LIKELY(found >> CHOICE_BITS == key)) {
                /* The dispatcher was made for these parts: if an exporter had changed them, the
                 * key would be 0. The caller keeps the callable alive, and the callable keeps all
                 * parts that it ever had. */
                PyObject *part =
                    PyTuple_GET_ITEM(dispatcher->parts, found & ((1 << CHOICE_BITS) - 1));
                return ((NcCallable *)(void *)part)->vectorcall(part, args, (size_t)nargs, NULL);
            }
        }
    }
    return call_by_rule(self, args, nargs, kwnames);
}

PyObject *nc_method_overloaded(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
    return nc_vectorcall_overloaded(object, args, (size_t)nargs, NULL);
}
