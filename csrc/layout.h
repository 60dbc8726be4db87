/* csrc/layout.h: the structs of a native callable, which trampolines, generated code and the whole
 * core read.
 *
 * How it works. A call interface (`cif`, as in libffi) holds everything that a call depends on,
 * except the function. There is one call interface for each (signature, read-only arguments,
 * argument names, policies, hidden arguments), shared by all callables. Hidden arguments are added
 * by the error convention; Python code does not pass them.
 *
 * A native callable is *single*: one entry, made of a call interface and a C function pointer; or
 * *overloaded*: a tuple of singles (`parts`), chosen by argument types. There may be millions of
 * singles, so a single contains its tables, and rarely used fields are separate (`more`).
 *
 * Code that makes calls reads the function pointer from the callable, so no function needs code of
 * its own. Common shapes of signatures have trampolines, which are compiled into the core. All
 * other shapes use a call plan, which is made when a call interface is first called (call/).
 *
 * The operations are in callable/callable.c, a layer above the conversions of values.
 *
 * Threads: everything here needs the GIL, except reading the call table (calltable.h). */
#ifndef NC_LAYOUT_H
#define NC_LAYOUT_H

#include "platform/functions.h"
#include "platform/hooks.h"
#include "nativecall/nativecallable.h"
#include "nativecall/extensibletype.h"

/* The machine code for one shape: a signature with every pointer written 'P'. */
typedef struct {
    const char *shape;         /* "d:dP" */
    int method_flags;          /* METH_NOARGS, METH_O or METH_FASTCALL, by arity */
    PyCFunction method;        /* the built-in form; self is the NcCallable */
    vectorcallfunc vectorcall; /* the callable form */
} NcTrampoline;

/* How buffers are exported for a pointer argument: the part that does not depend on the value. */
typedef struct {
    Py_ssize_t size; /* bytes of an element */
    int flags;       /* PyBUF_* to export with; 0 if that depends on the value */
    size_t mask;     /* the alignment of an element minus 1: bits that must be 0 in an address */
    char format;     /* the usual format of the elements, one letter; 0 if there is none, or if
                        a matching format is not enough */
} NcExport;

typedef struct {
    NcExport export; /* how buffers are exported for it */
    size_t size;     /* bytes of a struct, or of a pointer's target (0: unknown); for a view, the
                        alignment of its elements */
    size_t count;    /* items of the array that a pointer points to; dimensions of a view; else 0 */
    char code;       /* its letter, as in a shape */
    char pointee;    /* the letter of a buffer's elements; 0 if Python code checks them */
    unsigned char readonly; /* 1 if the callee promises not to write */
    char text;              /* the character type of a text (values/text.h); 0 if it is none */
    PyObject *passed;       /* the CallbackSpec for Python functions that are passed, or None; NULL
                               until the first use */
    PyObject *names;        /* names of the last function passed (callable/pycallback.h), or NULL */
    const char *function;   /* interned signature of functions to pass; else NULL */
    PyObject *callee; /* the Signature of functions to pass, later its call interface; NULL until
                         the first use */
} NcArgument;

/* Where a call stores an out-parameter: a small value in its frame, items in a block, a NumPy
 * array, or structs that are returned as pointers. For all kinds except NC_OUT_VALUE, the frame
 * holds the location (values/outparameters.h). */
enum { NC_OUT_VALUE, NC_OUT_BLOCK, NC_OUT_ARRAY, NC_OUT_RECORD };

/* An out-parameter (nativecall/_values/outparameters.py). */
typedef struct {
    size_t offset;          /* in the frame's part for out-parameters */
    PyObject *type;         /* ctype of an item; for NC_OUT_RECORD, of a pointer to it */
    char code;              /* its letter, as in a shape */
    char text;              /* as in NcArgument */
    char kind;              /* NC_OUT_... */
    Py_ssize_t length;      /* number of items; -1: one value, or given by `sized` */
    Py_ssize_t sized;       /* index of the argument with the length, or -1 */
    Py_ssize_t given;       /* index of the argument with the initial value, or -1 */
    size_t size;            /* bytes of an item */
    size_t alignment;       /* of an item */
    PyObject *pointer_type; /* the cffi type of a pointer; NULL until the first use */
    PyObject *array;        /* function that makes an array; NULL until the first use */
} NcOut;

/* Kinds of foreign callables (callable/foreign.h). NC_TO_SCIPY_NAMED is a LowLevelCallable for a
 * given signature, without conversion. */
enum { NC_TO_CTYPES, NC_TO_CFFI, NC_TO_CAPSULE, NC_TO_SCIPY, NC_TO_SCIPY_NAMED, NC_FOREIGN_KINDS };

/* How long C keeps functions that are passed (call/kept.h). A number from NC_KEEP_ARGUMENT on
 * means: as long as argument `number - NC_KEEP_ARGUMENT` lives. */
enum { NC_KEEP_CALL, NC_KEEP_PROCESS, NC_KEEP_LIBRARY, NC_KEEP_ARGUMENT };

typedef struct NcCallInterface {
    PyObject_HEAD
    PyObject *signature;   /* the Python Signature */
    const char *text;      /* interned canonical text: the entry's key */
    uint64_t *words;       /* `text` packed, without flags: the packed table's key */
    size_t word_count;     /* 1, 3, 5 … */
    Py_ssize_t nargs;      /* fixed arguments, except those of the error convention */
    int variadic;          /* additional arguments may follow the fixed ones */
    int has_objects;       /* it has Python objects, by value, in a struct or behind a pointer */
    NcArgument *arguments; /* of each argument; then of the result: only letter and layout */
    PyObject **layouts; /* as many as `arguments`, in the same block: the Layout of a struct, or the
                           CType behind a pointer to one; NULL until the first use */
    PyObject *types;    /* tuple: the ctype of each argument, then of the result */
    PyObject *names;    /* tuple: str or None for each argument; or NULL */
    PyObject *alone;    /* tuple of `text` only: the signatures of a single */
    PyObject *policies; /* Python's Policies, passed to conversions (_values/calloptions.py) */
    PyObject *encoding; /* str: the encoding of char text; NULL: char text is bytes */
    char text_result;   /* as NcArgument.text */
    char order;         /* memory layout of arrays behind pointers: 'C', 'F', or 'A' for either */
    int composed;       /* whether policies change arguments or results: plans support that,
                           trampolines do not */
    Py_ssize_t keep;    /* NC_KEEP_... */
    NcOut *outs;        /* out-parameters; NULL if there are none */
    Py_ssize_t out_count;
    int fortran; /* 1: numbers are passed by reference; 2: hidden lengths of texts also
                    follow the arguments */
    int export;  /* PyBUF_* to export arrays in that memory layout, for reading */
    const NcTrampoline *trampoline; /* for the shape, or NULL */
    const char *shape;              /* the trampoline's shape, or NULL */
    const struct NcPlan *plan; /* atomic: the call plan (call/plan.h); NULL before the first call */
    PyObject *planned;         /* bytes: owns the plan; or NULL */
    PyObject *ways; /* dict: for a variadic function, the call interfaces with additional arguments,
                       by their types; or NULL */
    PyObject *pointer_type; /* the cffi type of a pointer result; NULL until the first use */
    PyObject *forms[NC_FOREIGN_KINDS]; /* how foreign callables are made; NULL until the first
                                          use */
    struct NcCallInterface *bare;      /* this interface without `check`; NULL without a check */
    PyObject *check;                   /* called with the results of calls; or NULL */
    PyObject *owns;    /* (name, function or None, name, function or None): the destructor of
                          returned pointers, then that for calls that raise; or NULL
                          (values/destructor.h) */
    PyObject *ends;    /* str: the function's name if it frees or closes an argument; or NULL */
    Py_ssize_t ended;  /* the index of that argument */
    PyObject *checked; /* dict: the call interface of a thunk -> the same with `check`
                          (callable/bind.c); or NULL */
} NcCallInterface;

/* Chooses among the entries of overloaded callables (overload.c). */
typedef struct NcDispatcher NcDispatcher;

/* Rarely used fields. Callables that need none of them share nc_no_more, which is never written to.
 * nc_callable_more allocates this struct for one callable. */
typedef struct {
    NcNativeTable native;     /* both tables, after they have moved out of the callable */
    PyObject *wrapper;        /* Python function that makes the calls; or NULL */
    PyObject *parts;          /* overloaded: tuple of single NcCallables; else NULL */
    NcDispatcher *dispatcher; /* for the parts; NULL before the first call */
    PyObject *signatures;     /* of the parts, a tuple of str; NULL until the first use */
    PyObject *only;           /* the callable restricted to a single's entry; NULL until the first
                                 use */
    PyObject *owners;         /* list of everything that any entry ever pointed into, if several */
    PyObject *specializer;    /* makes missing entries (specialize.py), or NULL */
    PyObject *name;           /* of a callable that had a view */
    PyObject *doc;            /* str, or NULL */
    PyObject *view;           /* weak reference to the living built-in view, or NULL */
    struct {
        PyObject *object; /* NULL until the first use */
        PyObject *entry;  /* the callable that it holds */
    } foreign[NC_FOREIGN_KINDS];
    const struct NcClass *self_class; /* for a method: the class of its first argument, which the
                                         callable owns; else NULL */
    int takes_fields; /* C gets the address of the class's own fields; otherwise that of the
                         object */
    size_t changes;   /* how often `foreign` was emptied */
    int is_entry;     /* f[signature] returned it, so it must not change */
} NcMore;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;          /* calls the single, or chooses among parts */
    const PyNativeCallableTable *calls; /* atomic: the entries that native callers find */
    const uint64_t *packed;             /* atomic: the same, packed */
    PyNativeCallableTable single;       /* the first entry; trampolines call its pointer */
    const char *end;                    /* with the next field, the zero entry that ends `single` */
    union {
        PyMethodDef view; /* of built-in views, which are recognized by its address; zero before
                             the first view. Making it moves the tables out of the callable */
        struct {
            uintptr_t zero[3];
            PyObject *name; /* before the first view: str; NULL: the symbol's (values/names.h) */
        } unviewed;
    } as;
    uint64_t words[3];    /* `single`, packed; or the address of the packed block, 0, 1 */
    NcCallInterface *cif; /* of the first entry, also with `parts`; NULL while empty */
    PyObject *owner;      /* what the only entry points into; NULL for none or several */
    NcMore *more;         /* never NULL */
    PyObject *weakrefs;   /* weak references to this object */
} NcCallable;

_Static_assert(offsetof(NcCallable, end) == offsetof(NcCallable, single.entries[1]) &&
                   offsetof(NcCallable, as) == offsetof(NcCallable, end) + sizeof(char *),
               "the zero entry follows the first");

/* The target and flags of a single. */
#define NC_SINGLE_TARGET(self) ((self)->single.entries[0].funcptr)
#define NC_SINGLE_FLAGS(self) ((self)->single.entries[0].flags)

extern NcMore nc_no_more;

/* Whether a callable has exactly one entry, and is not overloaded. */
static inline int nc_has_one(const NcCallable *self)
{
    return self->cif != NULL && self->more->parts == NULL;
}

/* The callable's own NcMore, for writing. NULL with an exception. */
NcMore *nc_callable_more(NcCallable *self);

/* Stores an object that Python code made on demand, unless another thread stored one meanwhile.
 * Callers hold borrowed references, so a stored object is never replaced. Steals the reference to
 * `made`. */
static inline void nc_keep_first(PyObject **place, PyObject *made)
{
    if (*place == NULL) {
        *place = made;
    } else {
        Py_DECREF(made);
    }
}

extern PyHeapExtensibleTypeObject NcCallable_Type;
extern PyTypeObject NcCallInterface_Type;

/* The addresses that generated code refers to (codegen/symbols.c, a higher layer). Set before the
 * first callable or callback is made. */
extern void *const *const nc_symbols;

#endif
