/* csrc/callable/callinterface.c: the call interface: everything about a signature that does not
 * depend on a function.
 *
 * Callables share a call interface if their types, argument names and policies are equal, and the
 * same arguments are read-only or hidden (nativecall/_values/callinterface.py caches call
 * interfaces). Python code computes some fields later, such as pointer_type, layouts and passed;
 * these are set once, atomically (nc_keep_first). All other fields are constant. */
#include "callinterface.h"

#include "core/core.h"
#include "trampoline.h"
#include "platform/address.h"
#include "platform/lists.h"
#include "platform/references.h"

#include <assert.h>
#include <structmember.h>

/* The collector tracks a call interface only if its policies may hold a user's function, since that
 * function may refer back to a callable with this call interface. To break such a cycle, the
 * collector clears the callable or the function, so no tp_clear is needed. */
static int callinterface_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((NcCallInterface *)(void *)object)->policies);
    Py_VISIT(((NcCallInterface *)(void *)object)->check);
    Py_VISIT(((NcCallInterface *)(void *)object)->owns);
    Py_VISIT(((NcCallInterface *)(void *)object)->checked);
    return 0;
}

static void callinterface_dealloc(PyObject *object)
{
    NcCallInterface *self = (NcCallInterface *)(void *)object;
    PyObject_GC_UnTrack(object);
    Py_XDECREF(self->signature);
    Py_XDECREF(self->types);
    Py_XDECREF(self->names);
    Py_XDECREF(self->alone);
    Py_XDECREF(self->policies);
    Py_XDECREF(self->encoding);
    Py_XDECREF(self->planned);
    Py_XDECREF(self->ways);
    Py_XDECREF(self->pointer_type);
    for (int kind = 0; kind < NC_FOREIGN_KINDS; kind++) {
        Py_XDECREF(self->forms[kind]);
    }
    Py_XDECREF(self->check);
    Py_XDECREF(self->owns);
    Py_XDECREF(self->ends);
    Py_XDECREF(self->bare);
    Py_XDECREF(self->checked);
    PyMem_Free(self->words);
    for (Py_ssize_t i = 0; i < self->out_count; i++) {
        Py_XDECREF(self->outs[i].type);
        Py_XDECREF(self->outs[i].pointer_type);
        Py_XDECREF(self->outs[i].array);
    }
    PyMem_Free(self->outs);
    for (Py_ssize_t i = 0; self->arguments != NULL && i <= self->nargs; i++) {
        Py_XDECREF(self->layouts[i]);
        Py_XDECREF(self->arguments[i].passed);
        Py_XDECREF(self->arguments[i].names);
        Py_XDECREF(self->arguments[i].callee);
        Py_XDECREF(self->arguments[i].wanted);
    }
    PyMem_Free(self->arguments);
    Py_TYPE(object)->tp_free(object);
}

/* Packs the canonical signature into words. */
static int pack(NcCallInterface *self, const char *text, size_t length)
{
    uint64_t words[NC_PACKED_MAX_WORDS];
    int status = nc_core_pack(text, length, words, &self->word_count);
    if (status != NC_OK) {
        PyErr_Format(PyExc_ValueError, "%s at offset %zu in the canonical signature '%s'",
                     nc_status_text(status), self->word_count, text);
        return -1;
    }
    self->words = (uint64_t *)PyMem_Calloc(self->word_count, sizeof(uint64_t));
    if (self->words == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(self->words, words, self->word_count * sizeof(uint64_t));
    return 0;
}

/* Returns how to export buffers whose elements have the letter `pointee`. `promised` is 1 if C
 * promises not to write. `export` contains the flags for reading. */
static NcExport export_of(char pointee, size_t count, size_t alignment, int promised, int export)
{
    NcExport found = {0, 0, alignment - 1, '\0'};
    size_t size = 0;
    size_t least = 0;
    if (count == 0 && nc_scalar_layout(pointee, &size, &least) != NC_KIND_VOID) {
        found.size = (Py_ssize_t)size;
        /* Use NumPy's formats: a 64-bit integer is a long on platforms with a 64-bit long. */
        found.format = sizeof(long) != 8 ? pointee
                       : pointee == 'q'  ? 'l'
                       : pointee == 'Q'  ? 'L'
                                         : pointee;
    }
    /* An argument for text that C may write also accepts bytes, whose buffers are read-only. So set
     * no flags for it. */
    if (pointee != '\0' && (promised || (pointee != 'b' && pointee != 'B'))) {
        found.flags = promised ? export : export | PyBUF_WRITABLE;
    }
    return found;
}

/* Sets an argument from (letter, letter of the elements or "", size, count, alignment, read-only,
 * letter of the text or ""). */
static int describe_argument(NcArgument *self, PyObject *parts, int export)
{
    int code;
    const char *pointee;
    Py_ssize_t size;
    Py_ssize_t count;
    Py_ssize_t alignment;
    int readonly;
    const char *text;
    if (!PyTuple_Check(parts) || !PyArg_ParseTuple(parts, "Csnnnps", &code, &pointee, &size, &count,
                                                   &alignment, &readonly, &text)) {
        return -1;
    }
    self->code = (char)code;
    self->pointee = *pointee;
    self->size = (size_t)size;
    self->count = (size_t)count;
    self->readonly = (unsigned char)readonly;
    self->text = *text;
    self->export = export_of(*pointee, self->count, (size_t)alignment, readonly, export);
    return 0;
}

/* Sets the out-parameters, each from a tuple of the members of an NcOut. */
static int describe_outs(NcCallInterface *self, PyObject *outs)
{
    Py_ssize_t count = PyTuple_GET_SIZE(outs);
    if (count == 0) {
        return 0;
    }
    self->outs = (NcOut *)PyMem_Calloc((size_t)count, sizeof(NcOut));
    if (self->outs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->out_count = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        NcOut *out = &self->outs[i];
        int code;
        int kind;
        const char *text;
        PyObject *parts = PyTuple_GET_ITEM(outs, i);
        if (!PyTuple_Check(parts) ||
            !PyArg_ParseTuple(parts, "CnOsinnnnn", &code, &out->offset, &out->type, &text, &kind,
                              &out->length, &out->sized, &out->given, &out->size,
                              &out->alignment)) {
            out->type = NULL;
            return -1;
        }
        Py_INCREF(out->type);
        out->code = (char)code;
        out->kind = (char)kind;
        out->text = *text;
        assert(out->sized < self->nargs && out->given < self->nargs && out->alignment != 0);
    }
    return 0;
}

static int compare(const void *shape, const void *trampoline)
{
    return strcmp((const char *)shape, ((const NcTrampoline *)trampoline)->shape);
}

/* The trampoline for the call interface's shape, such as "d:dP", or NULL. */
static const NcTrampoline *find_trampoline(const NcCallInterface *self)
{
    char shape[NC_LONGEST_SHAPE + 1] = {self->arguments[self->nargs].code, ':'};
    if (self->composed || self->fortran > 1 || self->variadic ||
        self->nargs > NC_LONGEST_SHAPE - 2) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < self->nargs; i++) {
        shape[2 + i] = self->arguments[i].code;
    }
    return (const NcTrampoline *)bsearch(shape, nc_trampolines, nc_trampoline_count,
                                         sizeof(NcTrampoline), compare);
}

/* Makes a call interface from its parts: (signature, text, letter of the result, types, arguments,
 * names, variadic, policies, order, composed, keep, letter of the result's text or "", encoding or
 * None, fortran, out-parameters, check or None, `owns` or None, `ends` or None, index of the
 * argument that the function ends, the call interface without a check or None). The last of the
 * types is the result's type. */
static PyObject *callinterface_new(PyObject *args)
{
    PyObject *arguments;
    PyObject *outs;
    const char *text;
    const char *text_result;
    Py_ssize_t text_length;
    int result;
    int order;
    NcCallInterface *self =
        (NcCallInterface *)(void *)NcCallInterface_Type.tp_alloc(&NcCallInterface_Type, 0);
    if (self == NULL) {
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O&s#CO&O!O&pO&CpnsO&iO!O&O&O&nO&", nc_take_reference,
                          &self->signature, &text, &text_length, &result, nc_take_reference,
                          &self->types, &PyTuple_Type, &arguments, nc_take_reference, &self->names,
                          &self->variadic, nc_take_reference, &self->policies, &order,
                          &self->composed, &self->keep, &text_result, nc_take_reference,
                          &self->encoding, &self->fortran, &PyTuple_Type, &outs, nc_take_reference,
                          &self->check, nc_take_reference, &self->owns, nc_take_reference,
                          &self->ends, &self->ended, nc_take_reference, &self->bare)) {
        goto fail;
    }
    self->nargs = PyTuple_GET_SIZE(arguments);
    assert(PyTuple_GET_SIZE(self->types) == self->nargs + 1);
    assert(self->ended < self->nargs);
    self->order = (char)order;
    self->text_result = *text_result;
    if (!self->composed) {
        PyObject_GC_UnTrack(self);
    }
    /* export_of adds PyBUF_WRITABLE if C may write. */
    self->export = PyBUF_FORMAT | (order == 'C'   ? PyBUF_C_CONTIGUOUS
                                   : order == 'F' ? PyBUF_F_CONTIGUOUS
                                                  : PyBUF_ANY_CONTIGUOUS);
    self->arguments = (NcArgument *)PyMem_Calloc((size_t)self->nargs + 1,
                                                 sizeof(NcArgument) + sizeof(PyObject *));
    if (self->arguments == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    self->arguments[self->nargs].code = (char)result;
    self->layouts = (PyObject **)(void *)(self->arguments + self->nargs + 1);
    for (Py_ssize_t i = 0; i < self->nargs; i++) {
        if (describe_argument(&self->arguments[i], PyTuple_GET_ITEM(arguments, i), self->export) <
            0) {
            goto fail;
        }
    }
    if (describe_outs(self, outs) < 0 ||
        nc_key_intern(text, (size_t)text_length, &self->text) < 0 ||
        pack(self, text, (size_t)text_length) < 0) {
        goto fail;
    }
    self->has_objects = strchr(self->text, 'O') != NULL;
    self->alone = Py_BuildValue("(s)", self->text);
    if (self->alone == NULL) {
        goto fail;
    }
    self->trampoline = find_trampoline(self);
    self->shape = self->trampoline != NULL ? self->trampoline->shape : NULL;
    return (PyObject *)self;

fail:
    Py_DECREF(self);
    return NULL;
}

/* callinterface(signature, hidden, policies): the call interface of a Signature. The core trusts
 * the description of memory in a call interface. So the description comes from the `describe` hook,
 * not from the caller. */
PyObject *nc_callinterface(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *parts = PyObject_Call(NC_HOOK(describe), args, NULL);
    PyObject *made = parts != NULL ? callinterface_new(parts) : NULL;
    Py_XDECREF(parts);
    return made;
}

/* ---- call interfaces by text ----------------------------------------------------------------- */

/* A cache of call interfaces by the text of the signature as written. A full cache is cleared. */
enum { MOST_TEXTS = 2048 };
static PyObject *texts; /* a dict; NULL before the first use */

/* Cache miss: parses the signature. */
NC_NOINLINE NcCallInterface *cif_of(PyObject *signature)
{
    PyObject *found = PyObject_CallOneArg(NC_HOOK(cif_of), signature);
    /* Instances of subclasses of str, which may override __eq__ and __hash__, are not cached. */
    if (found != NULL && PyUnicode_CheckExact(signature) &&
        nc_dict_put(&texts, MOST_TEXTS, signature, found) < 0) {
        Py_CLEAR(found);
    }
    return (NcCallInterface *)(void *)found;
}

NcCallInterface *nc_callinterface_of(PyObject *signature)
{
    PyObject *known = nc_kept(&texts);
    if (NC_LIKELY(PyUnicode_CheckExact(signature) && known != NULL)) {
        PyObject *found = nc_shared_get(known, signature);
        if (NC_LIKELY(found != NULL)) {
            return (NcCallInterface *)(void *)found;
        }
    }
    return cif_of(signature);
}

static PyMemberDef callinterface_members[] = {
    {"signature", T_OBJECT_EX, offsetof(NcCallInterface, signature), READONLY, "the Signature"},
    {"types", T_OBJECT_EX, offsetof(NcCallInterface, types), READONLY,
     "argument types, then the result's"},
    {"policies", T_OBJECT_EX, offsetof(NcCallInterface, policies), READONLY, "the Policies"},
    {"ways", T_OBJECT, offsetof(NcCallInterface, ways), READONLY,
     "call interfaces for the extra arguments of a variadic function, by their types"},
    {"names", T_OBJECT, offsetof(NcCallInterface, names), READONLY,
     "names of the arguments that Python passes, or None if there are none"},
    {"trampoline", T_STRING, offsetof(NcCallInterface, shape), READONLY,
     "shape of its ahead-of-time trampoline, or None"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject NcCallInterface_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.CallInterface",
    .tp_doc = "Everything about a signature that does not depend on a function.",
    .tp_basicsize = sizeof(NcCallInterface),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = callinterface_dealloc,
    .tp_traverse = callinterface_traverse,
    .tp_members = callinterface_members,
};
