/* csrc/layout.h: the structs of a native callable, which trampolines, generated code and all
 * of the core read.
 *
 * Idea. A call interface (`cif`, as in libffi) is everything that a call depends on, except the
 * function: there is one for each (signature, read-only arguments, argument names, policies, hidden
 * arguments: those that the error convention adds, and Python does not pass), shared by all
 * callables. A native callable is either *single*, one entry made of a call interface and a C
 * function pointer, or *overloaded*, a tuple of singles (`parts`) tried by argument types. It is
 * made by the million, so a single has its tables in itself, and what few callables have is apart
 * (`more`). What calls from Python go through reads the pointer from the callable it is given, so
 * nothing is made for a function: common shapes of signatures have trampolines, which are compiled
 * into the core, and all others a call plan, which is made when the first callable of a call
 * interface is called (call/).
 *
 * What is done with them is in callable/callable.c, which stands above the conversions of values.
 *
 * Threads: everything here needs the GIL, but for the call table (calltable.h), which readers use
 * without it. */
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

/* How buffers are taken for a pointer argument, as far as that is the same for all values. */
typedef struct {
    Py_ssize_t size; /* bytes of an element */
    int flags;       /* PyBUF_* that they are exported with; 0 where that depends on the value */
    size_t mask;     /* the alignment of an element less 1: bits that no address of one has */
    char format;     /* the usual format of the elements, one letter; 0 when there is none, or when
                        more than the elements counts */
} NcExport;

typedef struct {
    NcExport export; /* how buffers are taken for it */
    size_t size;     /* bytes of a struct, or of what a pointer points to (0 unknown); of a
                               view the alignment of its elements */
    size_t count;    /* items of the array that a pointer leads to; else 0 */
    char code;       /* its letter, as in a shape */
    char pointee;    /* the letter of a buffer's elements; 0 where Python code looks at them */
    unsigned char readonly; /* 1 where the callee promises not to write */
    char text;              /* which characters a text has (values/text.h); 0 for what is none */
    PyObject *passed;       /* the spec of callbacks for Python functions that are passed, or None;
                             NULL until it is asked for */
    PyObject *names;        /* of the last such function (callable/pycallback.h), or NULL */
    const char *function;   /* interned signature of such functions; NULL for other pointers */
    PyObject *callee; /* the Signature of such functions, then its call interface; NULL until it is
                             asked for */
} NcArgument;

/* How a call has the memory of an out-parameter: a small value in its frame; items in a block, an
 * array of NumPy's, or structs that are given out as pointers, of which the frame says where they
 * are (values/outparameters.h). */
enum { NC_OUT_VALUE, NC_OUT_BLOCK, NC_OUT_ARRAY, NC_OUT_RECORD };

/* An out-parameter (nativecall/_values/outparameters.py). */
typedef struct {
    size_t offset;          /* in the part of the frame that all of them have */
    PyObject *type;         /* ctype of an item; of NC_OUT_RECORD of a pointer to it */
    char code;              /* its letter, as in a shape */
    char text;              /* as that of an argument */
    char kind;              /* NC_OUT_... */
    Py_ssize_t length;      /* how many items there are; -1: one value, or as `sized` says */
    Py_ssize_t sized;       /* the index of the argument that says it, or -1 */
    Py_ssize_t given;       /* the index of the argument that is its value before, or -1 */
    size_t size;            /* bytes of an item */
    size_t alignment;       /* of an item */
    PyObject *pointer_type; /* the cffi type of a pointer, once asked for; or NULL */
    PyObject *array;        /* what makes an array (outparameters.c), once asked for; or NULL */
} NcOut;

/* The foreign callables that an entry becomes (callable/foreign.h); SciPy's of a signature by
 * itself, which is not converted. */
enum { NC_TO_CTYPES, NC_TO_CFFI, NC_TO_CAPSULE, NC_TO_SCIPY, NC_TO_SCIPY_NAMED, NC_FOREIGN_KINDS };

/* How long C keeps functions that are passed (call/kept.h): a number from NC_KEEP_ARGUMENT on
 * means as long as the object that argument `number - NC_KEEP_ARGUMENT` is. */
enum { NC_KEEP_CALL, NC_KEEP_PROCESS, NC_KEEP_LIBRARY, NC_KEEP_ARGUMENT };

typedef struct NcCallInterface {
    PyObject_HEAD
    PyObject *signature; /* the Python Signature */
    const char *text;    /* interned canonical text: the entry's key */
    uint64_t *words;     /* the same packed, without flags: the other table's key */
    size_t word_count;   /* 1, 3, 5 … */
    Py_ssize_t nargs;    /* fixed arguments, but for those of the error convention */
    int variadic;        /* more may follow the fixed ones */
    int has_objects;     /* Python objects, by value, in a struct or behind a pointer */
    NcArgument *
        arguments; /* one each; then the result, of which only the letter and the layout are said */
    PyObject **layouts; /* as many, in the same memory: the Layout of a struct, or the CType behind
                             a pointer to one, once asked for; or NULL */
    PyObject *types;    /* tuple: the ctype of each argument, then of the result */
    PyObject *names;    /* tuple of str or None an argument, or NULL */
    PyObject *alone;    /* tuple of the text alone: the signatures of a single */
    PyObject *policies; /* Python's, of which conversions are told (_values/calloptions.py) */
    PyObject *encoding; /* str: of text in char; NULL where that is bytes */
    char text_result;   /* as `text` of an argument */
    char order;         /* of arrays behind pointers: 'C', 'F' or 'A' for either */
    int composed;       /* whether policies change what a call takes or returns, or what becomes of
                              it: plans know them, ahead-of-time trampolines do not */
    Py_ssize_t keep;    /* NC_KEEP_... */
    NcOut *outs;        /* out-parameters; NULL where there are none */
    Py_ssize_t out_count;
    int fortran; /* 1 where numbers stand for pointers to them, 2 where lengths of texts, which
                              Python does not pass, follow the arguments as well */
    int export;  /* PyBUF_* that they are exported with in that order, to be read */
    const NcTrampoline *trampoline; /* ahead-of-time code for the shape, or NULL */
    const char *shape;              /* that of the same, or NULL */
    const struct NcPlan *plan; /* atomic: how calls are made (call/plan.h); NULL before the first */
    PyObject *planned;         /* bytes: what has it; or NULL */
    PyObject *ways; /* dict: of a variadic function the call interfaces for more arguments, by
                       their types; or NULL */
    PyObject *pointer_type; /* the cffi type of a pointer result, once asked for; or NULL */
    PyObject *forms[NC_FOREIGN_KINDS]; /* what those are made of, once asked for; or NULL */
    struct NcCallInterface *bare;      /* the same without a check; NULL where it has none */
    PyObject *check;                   /* sees the results of calls; or NULL */
    PyObject *owns;    /* (name, function or None, name, function or None): how pointers that a
                                call returns are freed or closed, and if it raises an exception;
                                or NULL (values/destructor.h) */
    PyObject *ends;    /* str: its name, where the function frees or closes an argument; NULL */
    Py_ssize_t ended;  /* which argument */
    PyObject *checked; /* dict: by the call interfaces of thunks the same with its check, once
                                  asked for (callable/bind.c); or NULL */
} NcCallInterface;

/* The choice among the signatures of overloaded callables (overload.c). */
typedef struct NcDispatcher NcDispatcher;

/* Fields that few callables use. The others share nc_no_more, which is never written to;
 * nc_callable_more gives a callable its own. */
typedef struct {
    NcNativeTable native;     /* both tables, once they are no longer in the callable */
    PyObject *wrapper;        /* Python function that makes the calls; or NULL */
    PyObject *parts;          /* overloaded: tuple of single NcCallables; else NULL */
    NcDispatcher *dispatcher; /* of the parts, from the first call on; or NULL */
    PyObject *signatures;     /* of the parts: tuple of str, once asked for; or NULL */
    PyObject *only;           /* the callable restricted to a single's entry, once asked for */
    PyObject *owners;         /* list of all that any entry ever pointed into, if several */
    PyObject *specializer;    /* makes missing entries (specialize.py); NULL: nothing does */
    PyObject *name;           /* that of a callable which had a view */
    PyObject *doc;            /* str, or NULL */
    PyObject *view;           /* weak reference to the living built-in view, or NULL */
    struct {
        PyObject *object; /* NULL until there is one */
        PyObject *entry;  /* the callable in it */
    } foreign[NC_FOREIGN_KINDS];
    const struct NcClass *self_class; /* of a method: objects of this class, which the callable
                                         owns, are its first argument; else NULL */
    int takes_fields; /* and go to C as the address of what the class declares; else as their own */
    size_t changes;   /* how often those were forgotten */
    int is_entry;     /* f[signature] gave it out: it is an entry of another, and stays as it is */
} NcMore;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;          /* how the single is called, or the choice among parts */
    const PyNativeCallableTable *calls; /* atomic: the entries that native callers find */
    const uint64_t *packed;             /* atomic: the same, packed */
    PyNativeCallableTable single;       /* the first entry; trampolines call its pointer */
    const char *end;                    /* with what follows the zero entry that ends `single` */
    union {
        PyMethodDef view; /* of built-in views, whose mark its place is; zero until one is made,
                             for which the tables leave the callable */
        struct {
            uintptr_t zero[3];
            PyObject *name; /* until then: str, or NULL for the symbol's (values/names.h) */
        } unviewed;
    } as;
    uint64_t words[3];    /* `single`, packed; or a block's address, 0, 1 */
    NcCallInterface *cif; /* of a single with or without `parts`; NULL while empty */
    PyObject *owner;      /* what the only entry points into; NULL for nothing, or several */
    NcMore *more;         /* never NULL */
    PyObject *weakrefs;   /* weak references to this object */
} NcCallable;

_Static_assert(offsetof(NcCallable, end) == offsetof(NcCallable, single.entries[1]) &&
                   offsetof(NcCallable, as) == offsetof(NcCallable, end) + sizeof(char *),
               "the zero entry follows the first");

/* What a single calls, and the flags of its entry. */
#define NC_SINGLE_TARGET(self) ((self)->single.entries[0].funcptr)
#define NC_SINGLE_FLAGS(self) ((self)->single.entries[0].flags)

extern NcMore nc_no_more;

/* Whether a callable has one entry, of its own. */
static inline int nc_has_one(const NcCallable *self)
{
    return self->cif != NULL && self->more->parts == NULL;
}

/* The callable's own NcMore, to be written to. NULL with an exception. */
NcMore *nc_callable_more(NcCallable *self);

/* Keeps what Python code made on demand, unless it was made meanwhile, in another thread: what is
 * kept is used by borrowed references, so it never changes. Takes the reference. */
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

/* The addresses of all that generated code may refer to (codegen/symbols.c, which stands above);
 * callables and callbacks have it. Set before the first of them is made. */
extern void *const *const nc_symbols;

#endif
