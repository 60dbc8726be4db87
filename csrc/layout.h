/* csrc/layout.h: the structs of a native callable, which trampolines, generated code and the whole
 * core read.
 *
 * How it works. A call interface (`cif`, as in libffi) holds everything that a call depends on,
 * except the function. There is one call interface for each (signature, read-only arguments,
 * argument names, policies, hidden arguments), shared by all callables. Hidden arguments are added
 * by the error convention; Python code does not pass them.
 *
 * A native callable is *single* or *overloaded*. A single has one entry, made of a call interface
 * and a C function pointer. An overloaded callable has a tuple of singles (`parts`), and each call
 * chooses one by the argument types. There may be millions of singles, so a single contains its
 * tables, and rarely used fields are separate (`more`).
 *
 * Code that makes calls reads the function pointer from the callable, so no function needs code of
 * its own. Common shapes of signatures have trampolines, which are compiled into the core. All
 * other shapes use a call plan, which is created at the first call of a call interface (call/).
 *
 * The operations are in callable/callable.c, a layer above the conversions of values.
 *
 * Threads: everything here needs the GIL, except reading the call table (calltable.h). Two locks
 * serialize the changes of callables: one in nativecall/_callable/callable.py for entries, and the
 * critical section of a callable. On free-threaded builds, calls in other threads read the fields
 * without a lock:
 *
 *     constant               call interfaces, except the fields below; flags of entries
 *     set once, atomically   fields that are "NULL until the first use" (nc_keep_first), `more`
 *     atomic                 `calls`, `packed`, function pointers of entries, `changes`,
 *                            `is_entry`, `thread`, `only` (set in a critical section)
 *     NC_ALONE (lock.h)      `vectorcall`, `as` after the first view, `cif`, `parts`,
 *                            `specializer`; a `dispatcher` is removed
 *     critical section       `owner`, `owners`, `foreign`, `wrapper`, `signatures`, `view` */
#pragma once

#include "platform/functions.h"
#include "platform/hooks.h"
#include "platform/lock.h"
#include "platform/references.h"
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
    char format;     /* the usual one-letter format of the elements; 0 if there is none, or if a
                        buffer with this format still needs other checks */
} NcExport;

typedef struct {
    NcExport export; /* how buffers are exported for the argument */
    size_t size;     /* bytes of a struct, or of a pointer's target (0: unknown); for a view, the
                        alignment of its elements */
    size_t count;    /* items of the array that a pointer points to; dimensions of a view; else 0 */
    char code;       /* its letter, as in a shape */
    char pointee;    /* the letter of a buffer's elements; 0 if Python code checks them */
    unsigned char readonly; /* 1 if the callee promises not to write */
    char text;              /* the character type of a text (values/text.h); 0 if it is none */
    PyObject *passed;       /* the CallbackSpec for Python functions passed as the argument; None
                               if none can be passed; NULL until the first use */
    PyObject *names;        /* names of the last function passed (callable/pycallback.h), or NULL */
    const char *function;   /* interned signature of functions to pass; else NULL */
    PyObject *callee;       /* the Signature of functions to pass; NULL until the first use */
    PyObject *wanted;       /* its call interface; NULL until the first use */
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
    int has_objects;       /* the signature has Python objects: by value, in a struct, or behind a
                              pointer */
    NcArgument *arguments; /* one for each argument, then one for the result with only its letter
                              and layout */
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
    int export;  /* PyBUF_* flags that request the memory layout `order`, without PyBUF_WRITABLE */
    const NcTrampoline *trampoline; /* for the shape, or NULL */
    const char *shape;              /* the trampoline's shape, or NULL */
    const struct NcPlan *plan; /* atomic: the call plan (call/plan.h); NULL before the first call */
    PyObject *planned;         /* bytes: owns the plan; or NULL */
    PyObject *ways; /* dict: for a variadic function, the types of the additional arguments -> the
                       call interface with these arguments; or NULL */
    PyObject *pointer_type; /* the cffi type of a pointer result; NULL until the first use */
    PyObject *forms[NC_FOREIGN_KINDS]; /* per kind, the recipe for foreign callables
                                          (callable/foreign.c); NULL until the first use */
    struct NcCallInterface *bare;      /* this interface without `check`; NULL without a check */
    PyObject *check;                   /* called with the results of calls; or NULL */
    PyObject *owns;    /* two destructors of returned pointers (values/destructor.h), each (name,
                          function or None), in one tuple: the first is used after a successful
                          call, the second if the call raises; or NULL */
    PyObject *ends;    /* str: the function's name if it frees or closes an argument; or NULL */
    Py_ssize_t ended;  /* the index of that argument */
    PyObject *checked; /* dict: the call interface of a thunk -> the same with `check`
                          (callable/bind.c); or NULL */
} NcCallInterface;

/* As Py_NewRef and Py_XDECREF. Threads share only interfaces that hold no objects of users. */
static inline NcCallInterface *nc_hold_interface(NcCallInterface *cif)
{
    return (NcCallInterface *)(NC_WITHOUT_GIL && cif->check == NULL && cif->owns == NULL
                                   ? nc_shared_ref(cif)
                                   : Py_NewRef((PyObject *)cif));
}

static inline void nc_drop_interface(NcCallInterface *cif)
{
    if (NC_WITHOUT_GIL && cif != NULL && cif->check == NULL && cif->owns == NULL) {
        nc_shared_drop(cif);
    } else {
        Py_XDECREF((PyObject *)cif);
    }
}

/* Chooses among the entries of overloaded callables (overload.c). */
typedef struct NcDispatcher NcDispatcher;

/* Rarely used fields. Callables that need none of them share nc_no_more, which is never written to.
 * nc_callable_more allocates this struct for one callable. */
typedef struct {
    NcNativeTable native;     /* both tables, after they have moved out of the callable */
    PyObject *wrapper;        /* Python function that implements calls from Python; or NULL */
    PyObject *parts;          /* overloaded: tuple of single NcCallables; else NULL */
    NcDispatcher *dispatcher; /* atomic: for the parts; NULL before the first call */
    PyObject *signatures;     /* of the parts, a tuple of str; NULL until the first use */
    PyObject *only;           /* the callable restricted to a single's entry, or NULL. Without the
                                 GIL, one for each thread that asked, linked by their own `only` */
    PyObject *owners;         /* list of the owners of all present and past entries, if there are
                                 several; else NULL */
    PyObject *specializer;    /* compiles missing entries (specialize.py), or NULL */
    PyObject *name;           /* after the first view: as `unviewed.name` before it */
    PyObject *doc;            /* str, or NULL */
    PyObject *view;           /* weak reference to the living built-in view, or NULL */
    struct {
        PyObject *object; /* NULL until the first use */
        PyObject *entry;  /* the one-entry callable that `object` keeps alive */
    } foreign[NC_FOREIGN_KINDS];
    const struct NcClass *self_class; /* for a method: the class of its first argument, kept alive
                                         by the callable; else NULL */
    int takes_fields; /* for a method: whether C gets the address of the class's own fields, not
                         of the object */
    uintptr_t thread; /* NC_THREAD of the thread that made it, once that got it as an entry */
    size_t changes;   /* how often `foreign` was emptied */
    int is_entry;     /* f[signature] returned it, so it must not change */
} NcMore;

typedef struct NcCallable {
    PyObject_HEAD
    vectorcallfunc vectorcall;          /* calls the single, or chooses among parts */
    const PyNativeCallableTable *calls; /* atomic: the entries that native callers find */
    const uint64_t *packed;             /* atomic: the same, packed */
    PyNativeCallableTable single;       /* the first entry; trampolines call its pointer */
    const char *end;                    /* with the next field, the zero entry that ends `single` */
    union {
        PyMethodDef view; /* of the built-in view, which is recognized by the address of this field.
                             Zero before the first view, so that `single` ends with a zero entry;
                             the first view therefore moves the tables to `more` */
        struct {
            uintptr_t zero[3];
            PyObject *name; /* before the first view: str; NULL: use the symbol (values/names.h) */
        } unviewed;
    } as;
    uint64_t words[3];    /* `single`, packed; or, if it is longer, the address of a block, 0, 1 */
    NcCallInterface *cif; /* of the first entry, even if overloaded; NULL without entries */
    PyObject *owner;      /* keeps the C function of the only entry alive; or NULL */
    NcMore *more;         /* never NULL */
    PyObject *weakrefs;   /* weak references to this object */
} NcCallable;

_Static_assert(offsetof(NcCallable, end) == offsetof(NcCallable, single.entries[1]) &&
                   offsetof(NcCallable, as) == offsetof(NcCallable, end) + sizeof(char *),
               "the zero entry follows the first");

/* The target and flags of a single. */
#define NC_SINGLE_TARGET(self) nc_load_relaxed_ptr(&(self)->single.entries[0].funcptr)
#define NC_SINGLE_FLAGS(self) ((self)->single.entries[0].flags)

extern NcMore nc_no_more;

/* The table of entries, and the rarely used fields. */
static inline const PyNativeCallableTable *nc_calls(const NcCallable *self)
{
    return (const PyNativeCallableTable *)nc_load_acquire_ptr(&self->calls);
}
static inline NcMore *nc_more(const NcCallable *self)
{
    return (NcMore *)nc_load_acquire_ptr(&self->more);
}

/* Return whether a callable has exactly one entry, and is not overloaded. */
static inline int nc_has_one(const NcCallable *self)
{
    return self->cif != NULL && nc_more(self)->parts == NULL;
}

/* Return the callable's own NcMore, for writing, or NULL with an exception. */
NcMore *nc_callable_more(NcCallable *self);

extern PyHeapExtensibleTypeObject NcCallable_Type;
extern PyTypeObject NcCallInterface_Type;

/* The addresses that generated code refers to (codegen/symbols.c, a higher layer). Set before the
 * first callable or callback is made. */
extern void *const *const nc_symbols;
