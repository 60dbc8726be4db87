/* csrc/callable/foreign.c: implements foreign.h. The bridges (nativecall/_bridges/) decide how to
 * make each kind of foreign callable. */
#include "foreign.h"

#include "entries.h"
#include "construct.h"
#include "platform/address.h"
#include "platform/functions.h"
#include "platform/lists.h"
#include "values/destructor.h"
#include "platform/lock.h"

#include <string.h>

/* ---- capsules -------------------------------------------------------------------------------- */

/* The name and owner of a capsule, in one block. The capsule's name points into the block, so
 * block_of() finds the block from the name. A named capsule cannot keep the block in its context,
 * because SciPy passes the context to the function as user data. SciPy refuses nameless capsules,
 * so these keep the block in their context. */
typedef struct {
    PyObject *owner; /* kept alive by the capsule */
    char name[1];    /* the capsule's name, of any length */
} NamedOwner;

static NamedOwner *block_of(PyObject *capsule)
{
    const char *name = PyCapsule_GetName(capsule);
    if (name == NULL) {
        return (NamedOwner *)PyCapsule_GetContext(capsule);
    }
    return (NamedOwner *)(uintptr_t)(name - offsetof(NamedOwner, name));
}

static void capsule_free(PyObject *capsule)
{
    NamedOwner *block = block_of(capsule);
    Py_DECREF(block->owner);
    PyMem_Free(block);
}

/* Only our capsules have this destructor. */
static int is_our_capsule(PyObject *object)
{
    return PyCapsule_CheckExact(object) && PyCapsule_GetDestructor(object) == capsule_free;
}

/* Makes a capsule for a non-NULL pointer. The capsule keeps `owner` alive. A length of 0 means no
 * name. */
static PyObject *capsule_new(void *pointer, const char *name, size_t length, PyObject *owner)
{
    NamedOwner *block = (NamedOwner *)PyMem_Malloc(sizeof(NamedOwner) + length);
    if (block == NULL) {
        return PyErr_NoMemory();
    }
    memcpy(block->name, name, length);
    block->name[length] = '\0';
    PyObject *made = PyCapsule_New(pointer, length != 0 ? block->name : NULL, NULL);
    if (made == NULL || (length == 0 && PyCapsule_SetContext(made, block) < 0) ||
        PyCapsule_SetDestructor(made, capsule_free) < 0) {
        PyMem_Free(block);
        Py_XDECREF(made);
        return NULL;
    }
    block->owner = Py_NewRef(owner);
    return made;
}

/* capsule(address, name, owner): a PyCapsule named `name` (bytes). */
PyObject *nc_capsule(PyObject *Py_UNUSED(module), PyObject *args)
{
    void *pointer;
    PyObject *owner;
    const char *name;
    Py_ssize_t length;
    return PyArg_ParseTuple(args, "O&y#O", nc_take_address, &pointer, &name, &length, &owner)
               ? capsule_new(pointer, name, (size_t)length, owner)
               : NULL;
}

/* capsule_entry(capsule), METH_O: returns the callable that one of our capsules keeps alive, if the
 * callable has one entry and the capsule holds its function. Otherwise returns None. */
PyObject *nc_capsule_entry(PyObject *Py_UNUSED(module), PyObject *made)
{
    PyObject *owner = is_our_capsule(made) ? block_of(made)->owner : NULL;
    if (owner == NULL || !PyObject_TypeCheck(owner, (PyTypeObject *)&NcCallable_Type)) {
        Py_RETURN_NONE;
    }
    const PyNativeCallableTable *table = nc_calls((NcCallable *)(void *)owner);
    return Py_NewRef(nc_calltable_count(table) == 1 &&
                             nc_calltable_funcptr(&table->entries[0]) ==
                                 PyCapsule_GetPointer(made, PyCapsule_GetName(made))
                         ? owner
                         : Py_None);
}

/* ---- creating foreign callables -------------------------------------------------------------- */

/* Indexed by NC_TO_CTYPES and so on: the bridge, and the name of the method. The bridge has a
 * function with the same name as the method. It parses the method's arguments and returns a pair
 * (foreign_of). */
static const struct {
    const char *bridge;
    const char *method;
} kinds[NC_FOREIGN_KINDS] = {{"nativecall._bridges._ctypes", "to_ctypes"},
                             {"nativecall._bridges._cffi_backend", "to_cffi"},
                             {"nativecall._bridges.PyCapsule", "to_capsule"},
                             {"nativecall._bridges.scipy", "to_scipy"},
                             {"nativecall._bridges.scipy", "to_scipy"}};

/* Flags that make no difference to foreign callables. */
#define NO_MATTER ((uintptr_t)(NC_FLAG_TAKES_GIL | NC_FLAG_ERRNO))

static PyObject *bridges[NC_FOREIGN_KINDS]; /* NULL until the first use */
static PyObject *objects_name;              /* "_objects" */
static PyObject *entry_name;                /* "nativecall" */

/* Returns the bridge of a kind as a borrowed reference, or NULL with an exception. */
static PyObject *bridge_of(int kind)
{
    PyObject *found = nc_kept(&bridges[kind]);
    return NC_LIKELY(found != NULL)
               ? found
               : nc_keep_first(&bridges[kind], PyImport_ImportModule(kinds[kind].bridge));
}

/* Returns the recipe for the foreign callables of an entry: a tuple, or None if SciPy cannot call
 * the entry without conversion. The result is a new reference, or NULL with an exception. The call
 * interface caches the recipe, unless the entry has flags that matter. */
static PyObject *form_of(int kind, PyObject *entry)
{
    const NcCallable *self = (const NcCallable *)(void *)entry;
    NcCallInterface *cif = self->cif;
    int usual = (NC_SINGLE_FLAGS(self) & ~NO_MATTER) == 0;
    PyObject *form = usual ? nc_kept(&cif->forms[kind]) : NULL;
    if (NC_LIKELY(form != NULL)) {
        return Py_NewRef(form);
    }
    PyObject *bridge = bridge_of(kind);
    form = bridge != NULL ? PyObject_CallMethod(bridge, "form", "O", entry) : NULL;
    return usual ? Py_XNewRef(nc_keep_first(&cif->forms[kind], form)) : form;
}

/* `form`: (the function pointer class, the class of the object that is cast (c_void_p), the address
 * of ctypes' cast function). */
static PyObject *make_ctypes(PyObject *form, void *target, PyObject *entry)
{
    PyObject *(*cast)(void *, PyObject *, PyObject *) =
        (PyObject *
         (*)(void *, PyObject *, PyObject *))(uintptr_t)PyLong_AsVoidPtr(PyTuple_GET_ITEM(form, 2));
    PyObject *source = cast != NULL ? PyObject_CallNoArgs(PyTuple_GET_ITEM(form, 1)) : NULL;
    /* `source` is a new c_void_p, without a dictionary of kept objects (`_objects`). The cast
     * creates that dictionary, and `made` shares it. */
    PyObject *made = source != NULL ? cast(target, source, PyTuple_GET_ITEM(form, 0)) : NULL;
    PyObject *kept = made != NULL ? PyObject_GetAttr(made, objects_name) : NULL;
    if (kept != NULL && PyDict_Check(kept)) {
        PyDict_Clear(kept); /* break a cycle: `kept` holds `source`, which shares `kept` */
    }
    if (kept == NULL || PyDict_SetItem(kept, entry_name, entry) < 0) {
        Py_CLEAR(made);
    }
    Py_XDECREF(kept);
    Py_XDECREF(source);
    return made;
}

/* `form`: (cffi's cast, the cffi type). The pointer keeps the entry alive. */
static PyObject *make_cffi(PyObject *form, void *target, PyObject *entry)
{
    PyObject *address = PyLong_FromVoidPtr(target);
    PyObject *args[2] = {PyTuple_GET_ITEM(form, 1), address};
    PyObject *made = NULL;
    if (address != NULL) {
        args[0] = PyObject_Vectorcall(PyTuple_GET_ITEM(form, 0), args, 2, NULL);
        made = args[0] != NULL ? nc_cffi_keeping(args[0], entry) : NULL;
        Py_XDECREF(args[0]);
        Py_DECREF(address);
    }
    return made;
}

/* `name` is the capsule's name, as bytes. */
static PyObject *make_capsule(PyObject *name, void *target, PyObject *entry)
{
    char *text;
    Py_ssize_t length;
    return PyBytes_AsStringAndSize(name, &text, &length) == 0
               ? capsule_new(target, text, (size_t)length, entry)
               : NULL;
}

/* Makes the foreign callable of a single by a recipe (a tuple). */
static PyObject *make_by(int kind, PyObject *form, PyObject *entry)
{
    void *target = NC_SINGLE_TARGET((NcCallable *)(void *)entry);
    if (kind == NC_TO_CTYPES) {
        return make_ctypes(form, target, entry);
    }
    if (kind == NC_TO_CFFI) {
        return make_cffi(form, target, entry);
    }
    if (kind == NC_TO_CAPSULE) {
        return make_capsule(PyTuple_GET_ITEM(form, 0), target, entry);
    }
    /* `form`: (LowLevelCallable, the capsule's name). Builds the object that the class itself would
     * build for a capsule without user data: a tuple of the capsule that SciPy calls, the function
     * as given, and the user data. The class's Python code would take ten times as long. */
    PyObject *capsule = make_capsule(PyTuple_GET_ITEM(form, 1), target, entry);
    PyObject *parts = capsule != NULL ? PyTuple_Pack(3, capsule, capsule, Py_None) : NULL;
    PyObject *made = nc_tuple_as(PyTuple_GET_ITEM(form, 0), parts);
    Py_XDECREF(capsule);
    return made;
}

/* Prepares an entry for callers that release the GIL. If the entry needs the GIL, returns a thunk
 * that takes the GIL. Otherwise, and for variadic functions, returns the entry. Takes over the
 * reference to the entry. */
static PyObject *taking_gil(PyObject *entry)
{
    const NcCallable *self = (const NcCallable *)(void *)entry;
    if (entry == NULL || (NC_SINGLE_FLAGS(self) & NC_FLAG_NEEDS_GIL) == 0 || self->cif->variadic) {
        return entry;
    }
    PyObject *thunks = PyImport_ImportModule("nativecall._callable.thunk");
    PyObject *made = thunks != NULL ? PyObject_CallMethod(thunks, "taking_gil", "O", entry) : NULL;
    Py_XDECREF(thunks);
    Py_DECREF(entry);
    return made;
}

PyObject *nc_foreign_entry(PyObject *object, PyObject *signature)
{
    NcCallable *part = nc_entries_part((NcCallable *)(void *)object, signature);
    return part != NULL ? nc_callable_alone(part) : NULL;
}

/* Returns the callable of one entry in a LowLevelCallable, as a borrowed reference, or NULL. */
static PyObject *entry_in(PyObject *foreign)
{
    PyObject *capsule = PyTuple_Check(foreign) && PyTuple_GET_SIZE(foreign) > 1
                            ? PyTuple_GET_ITEM(foreign, 1)
                            : NULL;
    return capsule != NULL && is_our_capsule(capsule) ? block_of(capsule)->owner : NULL;
}

/* ---- caching foreign callables --------------------------------------------------------------- */

/* Whether objects of a type may own more than a plain native callable owns. Foreign callables of
 * such an object keep the object alive, and are not cached. */
static int owns_more(const PyTypeObject *type)
{
    return type->tp_basicsize != (Py_ssize_t)sizeof(NcCallable) || type->tp_dictoffset != 0 ||
           type->tp_finalize != NULL;
}

void nc_foreign_forget(NcCallable *self)
{
    NcMore *more = nc_more(self);
    if (more != &nc_no_more) {
        (void)__atomic_add_fetch(&more->changes, 1, __ATOMIC_RELAXED);
        for (int kind = 0; kind < NC_FOREIGN_KINDS; kind++) {
            Py_CLEAR(more->foreign[kind].entry);
            Py_CLEAR(more->foreign[kind].object);
        }
    }
}

/* Makes the one-entry callable that a foreign callable keeps alive. If owns_more(), the new
 * callable also owns `self`. For ctypes and cffi, the result may be a thunk that takes the GIL. */
static PyObject *entry_for(NcCallable *self, NcCallable *part, int kind)
{
    PyObject *entry = nc_callable_alone(part);
    if (entry != NULL && owns_more(Py_TYPE(self)) &&
        nc_callable_own((NcCallable *)(void *)entry, (PyObject *)self) < 0) {
        Py_CLEAR(entry);
    }
    return kind <= NC_TO_CFFI ? taking_gil(entry) : entry;
}

/* Cache miss: makes the foreign callable. If `holder` is not NULL, caches the foreign callable
 * there. */
NC_NOINLINE PyObject *anew(NcCallable *self, NcCallable *holder, int kind, PyObject *const *given)
{
    PyObject *entry = NULL;
    PyObject *foreign = NULL;
    NcMore *more = nc_callable_more(holder != NULL ? holder : self);
    size_t changes = more != NULL ? nc_load_relaxed_size(&more->changes) : 0;
    int more_to_own = owns_more(Py_TYPE(self));
    if (more == NULL) {
        return NULL;
    }
    if (kind < NC_TO_SCIPY || (kind == NC_TO_SCIPY && holder != NULL && nc_has_one(holder))) {
        entry = entry_for(self, holder, kind);
        PyObject *form = entry != NULL ? form_of(kind, entry) : NULL;
        foreign = form != NULL && form != Py_None ? make_by(kind, form, entry) : NULL;
        Py_XDECREF(form);
    }
    if (foreign == NULL && !PyErr_Occurred()) {
        PyObject *bridge = bridge_of(kind);
        Py_XDECREF(entry);
        foreign = bridge != NULL ? PyObject_CallMethod(bridge, "from_callable", "OOO",
                                                       (PyObject *)self, given[0], given[1])
                                 : NULL;
        entry = foreign != NULL ? Py_XNewRef(entry_in(foreign)) : NULL;
        if (entry != NULL && more_to_own &&
            nc_callable_own((NcCallable *)(void *)entry, (PyObject *)self) < 0) {
            Py_CLEAR(foreign);
        }
    }
    if (foreign != NULL && entry != NULL && holder != NULL && !more_to_own) {
        if (kind >= NC_TO_SCIPY) { /* a tuple of capsules; the collector may raise its count */
            PyObject_GC_UnTrack(foreign);
        }
        NC_BEGIN_SECTION(holder);
        if (nc_load_relaxed_size(&more->changes) == changes) {
            Py_XSETREF(more->foreign[kind].entry, Py_NewRef(entry));
            Py_XSETREF(more->foreign[kind].object, Py_NewRef(foreign));
        }
        NC_END_SECTION();
    }
    Py_XDECREF(entry);
    return foreign;
}

/* Returns the cached foreign callable, or a new one. */
static inline PyObject *kept(NcCallable *self, NcCallable *holder, int kind, PyObject *const *given)
{
    if (NC_LIKELY(holder != NULL && !owns_more(Py_TYPE(self)))) {
        PyObject *foreign;
        NC_BEGIN_SECTION(holder);
        const PyObject *entry = nc_more(holder)->foreign[kind].entry;
        foreign =
            entry != NULL && Py_REFCNT(entry) > 1 ? nc_more(holder)->foreign[kind].object : NULL;
        Py_XINCREF(foreign);
        NC_END_SECTION();
        if (NC_LIKELY(foreign != NULL)) {
            return foreign;
        }
    }
    return anew(self, holder, kind, given);
}

/* Makes a foreign callable of the type that the consumer requests: a ctypes class, a cffi type with
 * the consumer's `ffi`, or a capsule's name. The bridge chooses the entry and the recipe. The
 * recipe None selects the usual one, and the result is then cached. */
NC_NOINLINE PyObject *typed(NcCallable *self, int kind, PyObject *const *given)
{
    PyObject *bridge = bridge_of(kind);
    PyObject *found = bridge != NULL ? PyObject_CallMethod(bridge, "typed", "OOO", (PyObject *)self,
                                                           given[0], given[1])
                                     : NULL;
    PyObject *part;
    PyObject *form;
    PyObject *entry = NULL;
    PyObject *made = NULL;
    if (found != NULL && PyArg_ParseTuple(found, "O!O", nc_callable_class, &part, &form)) {
        NcCallable *chosen = (NcCallable *)(void *)part;
        if (form == Py_None) {
            PyObject *text = PyUnicode_FromString(chosen->cif->text);
            NcCallable *holder = text != NULL ? nc_entries_part(self, text) : NULL;
            made = holder != NULL ? kept(self, holder, kind, given) : NULL;
            Py_XDECREF(text);
        } else {
            entry = entry_for(self, chosen, kind);
            made = entry != NULL ? make_by(kind, form, entry) : NULL;
        }
    }
    Py_XDECREF(entry);
    Py_XDECREF(found);
    return made;
}

/* Parses arguments other than a single positional signature. Returns 0, or -1 with an exception. */
NC_NOINLINE int take_arguments(int kind, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                               PyObject **given)
{
    PyObject *bridge = bridge_of(kind);
    PyObject *method = bridge != NULL ? PyObject_GetAttrString(bridge, kinds[kind].method) : NULL;
    PyObject *both =
        method != NULL ? PyObject_Vectorcall(method, args, (size_t)nargs, kwnames) : NULL;
    if (both != NULL) { /* safe: the caller's arguments keep both values alive */
        given[0] = PyTuple_GET_ITEM(both, 0);
        given[1] = PyTuple_GET_ITEM(both, 1);
        Py_DECREF(both);
    }
    Py_XDECREF(method);
    return both != NULL ? 0 : -1;
}

/* Whether a signature is the entry's canonical text. */
static inline int is_text(PyObject *signature, const NcCallable *part)
{
    return PyUnicode_Check(signature) &&
           PyUnicode_CompareWithASCIIString(signature, part->cif->text) == 0;
}

static inline PyObject *foreign_of(PyObject *object, PyObject *const *args, Py_ssize_t nargs,
                                   PyObject *kwnames, int kind)
{
    NcCallable *self = (NcCallable *)(void *)object;
    PyObject *given[2] = {nargs != 0 ? args[0] : Py_None, Py_None};
    NcCallable *holder = NULL;
    if (NC_UNLIKELY(kwnames != NULL || nargs > 1) &&
        take_arguments(kind, args, nargs, kwnames, given) < 0) {
        return NULL;
    }
    if (kind != NC_TO_SCIPY) {
        if (NC_UNLIKELY(given[1] != Py_None || (kind == NC_TO_CTYPES && PyType_Check(given[0])))) {
            return typed(self, kind, given);
        }
        holder = nc_entries_part(self, given[0]);
        if (NC_UNLIKELY(holder == NULL)) {
            if (kind == NC_TO_CFFI && PyErr_ExceptionMatches(PyExc_ValueError)) {
                PyErr_Clear(); /* not a signature: the bridge raises the error */
                return typed(self, kind, given);
            }
            return NULL;
        }
        if (NC_UNLIKELY(kind == NC_TO_CFFI && given[0] != Py_None && !is_text(given[0], holder))) {
            return typed(self, kind, given);
        }
    } else if (given[1] == Py_None && given[0] == Py_None) {
        holder = nc_native_table(object) != NULL ? self : NULL;
    } else if (given[1] == Py_None) {
        kind = NC_TO_SCIPY_NAMED;
        holder = nc_entries_find(self, given[0]);
        if (holder == NULL && PyErr_Occurred()) {
            return NULL;
        }
    }
    return kept(self, holder, kind, given);
}

const char nc_doc_to_ctypes[] =
    "to_ctypes($self, /, signature=None)\n--\n\n"
    "Return a ctypes function pointer that keeps its entry alive.\n\n"
    "The pointer is an instance of ``ctypes.CFUNCTYPE(result, *arguments)``, so ``argtypes``,\n"
    "structs and arrays of that type accept it. If `signature` is a class of function pointers,\n"
    "the pointer is an instance of that class. If you pass a native callable to ctypes as an\n"
    "argument, ctypes calls this method.\n\n"
    "Calls release the GIL for entries with ``gil=\"release\"``, and hold it otherwise. If you\n"
    "pass a class, the class decides. An entry that needs the GIL is called through a thunk that\n"
    "takes the GIL. Unless you pass a class, you get the same object each time, until the entries\n"
    "change or you set an attribute of that object, such as ``argtypes``.";

const char nc_doc_to_cffi[] =
    "to_cffi($self, /, signature=None, *, ffi=None)\n--\n\n"
    "Return a cffi function pointer that keeps its entry alive.\n\n"
    "cffi compares C types by name: ``int64_t`` is not ``long``. The pointer has the types that\n"
    "you write in `signature`: a C type, with the typedefs of the consumer's `ffi`, or a cffi\n"
    "type. Without a signature, the types are ``int``, ``long`` and so on, ``size_t`` for an\n"
    "unsigned integer of a pointer's size, and ``char *`` for bytes.\n\n"
    "cffi releases the GIL around every call, so an entry that needs the GIL is called through a\n"
    "thunk that takes it. With the default types, you get the same object each time, until the\n"
    "entries change or you release the object.";

const char nc_doc_to_capsule[] =
    "to_capsule($self, /, signature=None, *, name=None)\n--\n\n"
    "Return a PyCapsule that keeps its entry alive.\n\n"
    "By default, the capsule's name is the entry's C declaration, as SciPy and Cython spell it.\n"
    "Some consumers expect another name; pass it as `name`. Capsules in ``__pyx_capi__`` may be\n"
    "named after a typedef. f2py and JAX expect no name: pass ``\"\"``.\n\n"
    "The name does not show whether the entry needs the GIL. Callers that check only the name\n"
    "(SciPy, Cython) must hold the GIL for an entry that needs it. nativecall recognises its own\n"
    "capsules and finds the entry's flags. ``nativecall/callback.h`` assumes that a capsule's\n"
    "function needs the GIL. Unless you pass `name`, you get the same object each time, until the\n"
    "entries change.";

const char nc_doc_to_scipy[] =
    "to_scipy($self, /, signature=None, user_data=None)\n--\n\n"
    "Return a `scipy.LowLevelCallable` of an entry, for `scipy.integrate.quad` and others.\n"
    "\n"
    "SciPy calls the function directly, without Python. It does so only for a\n"
    "`LowLevelCallable`; it calls other objects through Python.\n"
    "\n"
    "Parameters\n"
    "----------\n"
    "signature : str, optional\n"
    "    The signature of an entry, or one that an entry can be converted to (see `convert`), in\n"
    "    any spelling. By default, `to_scipy` chooses an entry that SciPy calls without\n"
    "    conversion, the first of: ``d:d``, ``d:dP``, ``d:i&d``, ``d:i&dP`` (quad, nquad,\n"
    "    dblquad, tplquad), ``i:&dn&dP`` (ndimage.generic_filter), ``i:&dn&dnP``\n"
    "    (generic_filter1d), ``i:&n&diiP`` (geometric_transform). If there is none, `to_scipy`\n"
    "    converts the entry that loses least. Its argument types select SciPy's signature:\n"
    "    numbers for quad, a buffer of doubles and its length for the filters.\n"
    "user_data : buffer, ctypes pointer, cffi pointer or capsule, optional\n"
    "    Passed to the function as its last argument, a pointer. The user data stays alive, and a\n"
    "    buffer stays exported, as long as the `LowLevelCallable` lives.\n"
    "\n"
    "Without user data, you get the same object each time, until the entries change.\n"
    "\n"
    "Raises\n"
    "------\n"
    "SignatureError\n"
    "    No entry can be converted to `signature` or, by default, to a signature of SciPy.\n"
    "TypeError, ValueError\n"
    "    The user data has no address, is read-only, or there is no argument for it.\n"
    "\n"
    "Examples\n"
    "--------\n"
    ">>> import nativecall\n"
    ">>> from scipy.integrate import quad\n"
    ">>> cos = nativecall.load(\"m\", \"double cos(double);\").cos\n"
    ">>> round(quad(cos.to_scipy(), 0, 1)[0], 12)\n"
    "0.841470984808";

#define METHOD(name, kind)                                                                         \
    PyObject *name(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)     \
    {                                                                                              \
        return foreign_of(self, args, nargs, kwnames, kind);                                       \
    }
METHOD(nc_foreign_ctypes, NC_TO_CTYPES)
METHOD(nc_foreign_cffi, NC_TO_CFFI)
METHOD(nc_foreign_capsule, NC_TO_CAPSULE)
METHOD(nc_foreign_scipy, NC_TO_SCIPY)

/* If no entry can be chosen, the error is raised only when ctypes uses the value, because an
 * attribute that raises would break code that lists attributes. */
PyObject *nc_foreign_parameter(PyObject *object, void *Py_UNUSED(closure))
{
    PyObject *foreign = foreign_of(object, NULL, 0, NULL, NC_TO_CTYPES);
    if (NC_LIKELY(foreign != NULL) || PyErr_ExceptionMatches(PyExc_MemoryError) ||
        !PyErr_ExceptionMatches(PyExc_Exception)) {
        return foreign;
    }
    PyErr_Clear();
    PyObject *bridge = bridge_of(NC_TO_CTYPES);
    return bridge != NULL ? PyObject_CallMethod(bridge, "Unfit", "O", object) : NULL;
}

/* The collector cannot see the owner of a capsule. If only this cache refers to the capsule, visits
 * the capsule's owner as if the callable held the reference. */
int nc_foreign_traverse(const NcMore *more, visitproc visit, void *arg)
{
    for (int kind = 0; kind < NC_FOREIGN_KINDS; kind++) {
        PyObject *foreign = more->foreign[kind].object;
        PyObject *capsule =
            kind <= NC_TO_CAPSULE || foreign == NULL ? foreign : PyTuple_GET_ITEM(foreign, 1);
        Py_ssize_t references =
            capsule == foreign || PyTuple_GET_ITEM(foreign, 0) != capsule ? 1 : 2;
        Py_VISIT(foreign);
        Py_VISIT(more->foreign[kind].entry);
        if (kind >= NC_TO_CAPSULE && foreign != NULL && Py_REFCNT(foreign) == 1 &&
            Py_REFCNT(capsule) == references) {
            Py_VISIT(block_of(capsule)->owner);
        }
    }
    return 0;
}

int nc_foreign_ready(void)
{
    objects_name = PyUnicode_InternFromString("_objects");
    entry_name = PyUnicode_InternFromString("nativecall");
    return objects_name != NULL && entry_name != NULL ? 0 : -1;
}
