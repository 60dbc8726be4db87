/* csrc/ground/interpreter.h: what the core keeps for each interpreter that has imported it.
 *
 * Types, interned keys, the metaclass, compiled trampolines and the choice among overloads are the
 * process's: they are C memory, or static types that the main interpreter made ready, and
 * interpreters that share the GIL share them. Whatever leads to a Python function or to a class of
 * Python's belongs to one interpreter and is here. CPython's caches know functions and mutable
 * classes by tags that each interpreter gives out for itself (3.12), so that code of one must never
 * run in another, and nothing that it made may be found there.
 *
 * Which interpreter. nc_here() answers for the thread that has the GIL. As long as the main
 * interpreter alone has imported the package, that is one word that is tested. Objects that call
 * Python for C code know their own (`of` in call specs, callbacks and thunk specs), and use
 * nc_hooks_of: in another interpreter, and after the end of their own, its functions raise
 * RuntimeError.
 *
 * Entering. A thread without the GIL enters the interpreter that a callback is of, with the thread
 * state that it has there or else with a new one, which goes again when it leaves. A thread that
 * has the GIL for another interpreter is refused: to swap thread states below its caller would
 * make its exceptions the other's.
 *
 * The end. Py_EndInterpreter ends the process where C threads have thread states of it.
 * So the first that runs of ours at its end (an atexit function) closes the door, and waits for
 * those inside; who comes later finds it closed, and gets what a failed call gives. What the
 * interpreter had here is then dropped, as module state is. The struct itself stays, a few hundred
 * bytes, for objects that outlive their interpreter.
 *
 * Threads: with the GIL, but for nc_interpreter_enter, which any thread may call. */
#ifndef NC_INTERPRETER_H
#define NC_INTERPRETER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "compat.h"

/* What the core asks of Python code, set once: what call specs are made of by
 * nativecall/_values/callspec.py, all else by modules that are imported when the first of it is
 * called (nc_hooks_put_off). */
typedef struct {
    /* Of calls and entries: nativecall/_callable/hooks.py. */
    PyObject *generate;      /* (callable) -> Trampoline, or None to leave calls to make_fallback */
    PyObject *make_fallback; /* (callable) -> function for calls that no trampoline takes */
    PyObject *failure;       /* (name, convention, result, code): raises what they mean */
    PyObject *specialize;    /* (callable, signature): adds a missing entry if it can be made */
    PyObject *no_entry;      /* (callable, text or None): raises that there is no such entry */
    PyObject *bridge;        /* (name) -> the module that makes the boxes of a library */
    PyObject *thunks;        /* () -> the module of bind, convert and spec_of (adapt.c) */
    /* Of values: nativecall/_callable/arguments.py. */
    PyObject
        *pointer_argument;   /* (ctype, value, who, index) -> (address, object to keep[, Stash]), or
                                (Memory, object to keep) for an array to be taken as a buffer */
    PyObject *pointer_type;  /* (ctype) -> the cffi type that such pointers come back as */
    PyObject *match;         /* (ctype, value, read-only, policies) -> cost of an argument, or -1 */
    PyObject *struct_buffer; /* (ctype, value, format, itemsize) -> whether these are structs */
    PyObject *store;         /* (ctype, value, address, who, keep, read-only, policies): writes any
                                value to memory */
    PyObject *load;          /* (ctype, address) -> the value in memory */
    PyObject *record_class;  /* (struct) -> the class that such structs come back as */
    PyObject *passed;        /* (ctype, call spec, index) -> None, or of functions that are such
                                arguments (text, Signature, CallbackSpec or None) */
    /* Of native objects: nativecall/_objects. NULL until these are imported. */
    PyObject *describe_class; /* (name, bases, namespace) -> what a class declares */
    PyObject *publish_class;  /* (class, fields, methods): its descriptors */
    PyObject *view_array;     /* of objects' fields, for NumPy */
    PyObject *show_object;    /* (object) -> its __repr__() */
    PyObject *state_object;   /* (object) -> its __getstate__() */
    PyObject *restore_object; /* (object, state): its __setstate__() */
    /* The others are there from the beginning. */
    PyObject *describe;    /* (Signature, hidden arguments, policies) -> a call spec's parts */
    PyObject *spec_of;     /* (signature in any spelling) -> its call spec */
    PyObject *thunk_specs; /* dict with put(key, spec), which keeps a number of them; NULL before
                                `thunks` was called */
} NcHooks;

/* Other objects that C code keeps for an interpreter, each the business of the file that is named;
 * NULL until it has made one. */
enum {
    NC_PUT_OFF,          /* layout.c: list of hooks that set themselves */
    NC_CALLABLE_CLASS,   /* object/making.c: NativeCallable */
    NC_SPECS_BY_TEXT,    /* object/callspec.c */
    NC_PICKLES_VIEWS,    /* object/builtinview.c */
    NC_CFFI_TYPEOF,      /* values/cffipointers.c */
    NC_ENDED_POINTERS,   /* the same */
    NC_TEXT_TYPES,       /* the same */
    NC_CFFI_FROM_BUFFER, /* values/memoryblock.c */
    NC_CFFI_CHARACTERS,  /* the same */
    NC_KEPT_WITH,        /* callback/composed.c */
    NC_KEPT_CODE,        /* callback/pycallback.c */
    NC_BRIDGES,          /* object/boxed.c: so many */
    NC_KEPT_OBJECTS = NC_BRIDGES + 5
};

enum { NC_ENDED_THUNKS = 256 };

typedef struct NcInterpreter {
    PyInterpreterState *state; /* NULL once it has ended */
    int64_t id;                /* CPython's, which no later interpreter has */
    intptr_t inside;           /* atomic: threads that have entered and not left, but for the main
                        interpreter's, and a high bit once nobody enters any more */
    NcHooks hooks;
    int has_value_hooks; /* those of values are set, and not only put off */
    PyObject *kept[NC_KEPT_OBJECTS];
    PyObject *
        *ended_thunks; /* object/thunkobject.c: those that ended last; NULL before the first */
    size_t next_ended;
    struct NcInterpreter *next;
} NcInterpreter;

/* That of the main interpreter, which imports the package before all others. */
extern NcInterpreter nc_main;
/* Whether others have ever imported it. */
extern int nc_has_others;

NcInterpreter *nc_find_here(void);

/* What this thread's interpreter has. One that has ended, or has never imported the package, has
 * hooks that refuse; as long as no other has imported it, the main one's. */
static inline NcInterpreter *nc_here(void)
{
    return NC_LIKELY(!nc_has_others) ? &nc_main : nc_find_here();
}

/* Hooks that raise RuntimeError, and what they raise. */
void nc_interpreter_refuse(void);
extern NcHooks nc_refusing_hooks;

/* The hooks for an object of an interpreter. */
static inline const NcHooks *nc_hooks_of(const NcInterpreter *of)
{
    return NC_LIKELY(!nc_has_others) || of == nc_find_here() ? &of->hooks : &nc_refusing_hooks;
}

/* Whether a thread state is another interpreter's. */
static inline int nc_is_foreign(const NcInterpreter *of, const PyThreadState *thread)
{
    return NC_UNLIKELY(thread->interp != of->state) ? 1 : 0;
}

/* ---- entering and leaving -------------------------------------------------------------------- */

/* How a thread entered, which says how it leaves. */
enum {
    NC_WAS_INSIDE = 0,   /* it has the GIL, for this interpreter or for another one */
    NC_OWN_STATE = 1,    /* it had given up its thread state, and does so again */
    NC_ENSURED = 2,      /* PyGILState_Ensure made one, in the main interpreter */
    NC_NEW_STATE = 16,   /* one was made */
    NC_NOT_ENTERED = -1, /* Python ends, or the interpreter has, or memory is short */
};

/* The thread state that this thread has the GIL with, or NULL. Any thread may ask, and the answer
 * is right beside subinterpreters too, where PyGILState_Check says yes to every thread.
 *
 * Before 3.12 PyGILState knows one state of a thread alone, which need not be the one that it runs
 * with since somebody has swapped it for another interpreter's. Only the holder's state tells whose
 * it is, and no lock keeps that of another thread. The answer is right all the same: where this
 * thread is the holder, nobody else changes or frees its state. Where another one is, its state has
 * that thread's ident as long as it is the holder, and it lets go of the GIL before it frees the
 * state; so an ident that is read before the same state is found again is the holder's, and one
 * that is not is thrown away. What is left is a read of memory that was just freed, a block of some
 * hundred bytes of malloc's, which stays mapped but where its arena is trimmed between two
 * instructions here. It is done only where another interpreter has imported the package, in a
 * thread that has a state of its own and does not run with it. */
NC_STATIC_INLINE PyThreadState *nc_thread_attached(void)
{
    PyThreadState *state = nc_thread_unchecked();
#if PY_VERSION_HEX < 0x030C0000
    PyThreadState *own = PyGILState_GetThisThreadState();
    if (state != own &&
        (state == NULL || own == NULL || !nc_has_others ||
         __atomic_load_n(&state->thread_id, __ATOMIC_ACQUIRE) != PyThread_get_thread_ident() ||
         nc_thread_unchecked() != state)) {
        return NULL;
    }
#endif
    return state;
}

/* The state that this thread has the GIL with, or else had last, as far as that can be told: NULL
 * where it has none. For looking at what is its own. */
NC_STATIC_INLINE const PyThreadState *nc_thread_last(void)
{
    const PyThreadState *state = PyGILState_GetThisThreadState();
#if PY_VERSION_HEX < 0x030C0000
    if (NC_UNLIKELY(nc_has_others)) {
        const PyThreadState *attached = nc_thread_attached();
        state = attached != NULL ? attached : state;
    }
#endif
    return state;
}

/* Takes the GIL for an interpreter, unless this thread has it. For which it has it then is to be
 * asked (nc_is_foreign). */
int nc_interpreter_enter(NcInterpreter *of);
/* The same for a thread that has not got it. */
int nc_interpreter_enter_outside(NcInterpreter *of);
/* Leaves as it entered; nothing where it was inside. */
void nc_interpreter_leave(NcInterpreter *of, int entered);

/* Whether nobody enters any more. */
int nc_interpreter_has_ended(const NcInterpreter *self);

/* ---- the module ------------------------------------------------------------------------------ */

/* A new interpreter's, or &nc_main in the main one. NULL with ImportError: it has one already, is
 * one of those that cannot, or the main one has not imported the package. Before the first of the
 * others the main one's atexit gets `at_exit`. */
NcInterpreter *nc_interpreter_begin(PyMethodDef *at_exit);
/* Once the import has succeeded: from now on nc_here() finds it, and its atexit calls `at_exit`. -1
 * with an exception. */
int nc_interpreter_ready(NcInterpreter *made, PyMethodDef *at_exit);

/* From now on nobody enters; waits, without the GIL, for those inside. For the main one, which
 * threads enter until Python ends, closes all others, and waits a second at most. */
void nc_interpreter_close(NcInterpreter *self);

/* What the collector asks about it, and the end of it: none of the main one's. */
int nc_interpreter_traverse(NcInterpreter *self, visitproc visit, void *arg);
void nc_interpreter_clear(NcInterpreter *self);

#endif
