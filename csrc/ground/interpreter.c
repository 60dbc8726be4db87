/* csrc/ground/interpreter.c: the interpreters of interpreter.h, how threads enter them, and how
 * they end. */
#include "interpreter.h"

#include <stdlib.h>
#include <time.h>

#define CLOSED ((intptr_t)1 << (8 * sizeof(intptr_t) - 2))
#define PATIENCE 5000 /* moments of 0.2 ms */

NcInterpreter nc_main;
int nc_has_others;
NcHooks nc_refusing_hooks;
static NcInterpreter *others; /* that have not ended */
static NcInterpreter ended; /* for those that have, and for those that never imported the package */
static int main_is_ready;

static NcInterpreter *find(PyInterpreterState *state)
{
    NcInterpreter *one = others;
    int64_t id = PyInterpreterState_GetID(state);
    while (one != NULL && (one->state != state || one->id != id)) {
        one = one->next;
    }
    return one;
}

NcInterpreter *nc_find_here(void)
{
    NcInterpreter *found = find(PyInterpreterState_Get());
    return found != NULL                                           ? found
           : PyInterpreterState_Get() == PyInterpreterState_Main() ? &nc_main
                                                                   : &ended;
}

/* ---- entering and leaving -------------------------------------------------------------------- */

/* Whether a thread may come in: then the interpreter does not end before it goes out. */
static int come_in(NcInterpreter *self)
{
    if (self == &nc_main) {
        return 1;
    }
    /* Looks first, so that threads that come again and again do not look like threads inside. */
    if (nc_interpreter_has_ended(self)) {
        return 0;
    }
    if (__atomic_fetch_add(&self->inside, 1, __ATOMIC_SEQ_CST) >= CLOSED) {
        (void)__atomic_fetch_sub(&self->inside, 1, __ATOMIC_SEQ_CST);
        return 0;
    }
    return 1;
}

static void go_out(NcInterpreter *self)
{
    if (self != &nc_main) {
        (void)__atomic_fetch_sub(&self->inside, 1, __ATOMIC_SEQ_CST);
    }
}

int nc_interpreter_has_ended(const NcInterpreter *self)
{
    return __atomic_load_n(&self->inside, __ATOMIC_SEQ_CST) >= CLOSED;
}

int nc_interpreter_enter_outside(NcInterpreter *of)
{
    PyThreadState *own;
    if (nc_is_finalizing() || !come_in(of)) {
        /* Waiting for the GIL would never end, or end the thread. */
        return NC_NOT_ENTERED;
    }
    own = PyGILState_GetThisThreadState();
    if (own != NULL && own->interp == of->state) {
        /* As PyGILState_Ensure, but for the count of such calls, which ends at 0 only with the
         * outermost of those that made the thread state. */
        PyEval_RestoreThread(own);
        return NC_OWN_STATE;
    }
    if (own == NULL && of == &nc_main) {
        (void)PyGILState_Ensure(); /* with a state that other code of this thread finds */
        return NC_ENSURED;
    }
    if (nc_thread_enter_new(of->state) == NULL) {
        go_out(of);
        return NC_NOT_ENTERED;
    }
    return NC_NEW_STATE;
}

int nc_interpreter_enter(NcInterpreter *of)
{
    return nc_thread_attached() != NULL ? NC_WAS_INSIDE : nc_interpreter_enter_outside(of);
}

void nc_interpreter_leave(NcInterpreter *of, int entered)
{
    switch (entered) {
    case NC_OWN_STATE:
        (void)PyEval_SaveThread();
        break;
    case NC_ENSURED:
        PyGILState_Release(PyGILState_UNLOCKED);
        break;
    case NC_NEW_STATE:
        PyThreadState_Clear(PyThreadState_Get());
        PyThreadState_DeleteCurrent();
        break;
    default:
        return;
    }
    go_out(of);
}

/* ---- the beginning --------------------------------------------------------------------------- */

void nc_interpreter_refuse(void)
{
    PyErr_SetString(PyExc_RuntimeError,
                    "this native object belongs to another Python interpreter, or to one that has "
                    "ended: here its C functions can be looked up and called from C, and what "
                    "needs Python cannot be done");
}

static PyObject *refuse(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(args),
                        PyObject *Py_UNUSED(names))
{
    nc_interpreter_refuse();
    return NULL;
}

/* Fills hooks with the function that refuses. */
static int make_refusing(NcHooks *hooks)
{
    static PyMethodDef method = {"refuse", (PyCFunction)(void (*)(void))refuse,
                                 METH_VARARGS | METH_KEYWORDS, NULL};
    PyObject *made = PyCFunction_New(&method, NULL);
    PyObject **places = (PyObject **)(void *)hooks;
    if (made == NULL) {
        return -1;
    }
    for (size_t i = 0; i < sizeof(*hooks) / sizeof(*places); i++) {
        places[i] = Py_NewRef(made); /* for ever */
    }
    hooks->thunk_specs = NULL; /* no function */
    Py_DECREF(made);
    return 0;
}

static int register_at_exit(PyMethodDef *at_exit)
{
    PyObject *module = PyImport_ImportModule("atexit");
    PyObject *function = module != NULL ? PyCFunction_New(at_exit, NULL) : NULL;
    PyObject *done =
        function != NULL ? PyObject_CallMethod(module, "register", "O", function) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(module);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

/* Has the main interpreter import cffi's own core, unless it has done so: types there are the
 * process's as ours are, and are made by whoever is first. And has it call `at_exit`. 0, or -1 with
 * ImportError. */
static int prepare_main(PyMethodDef *at_exit)
{
    static int is_registered;
    PyThreadState *there = PyThreadState_New(nc_main.state);
    PyThreadState *own;
    PyObject *core;
    int is_ready;
    if (there == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    own = PyThreadState_Swap(there);
    core = PyImport_ImportModule("nativecall._core");
    is_registered = is_registered || (core != NULL && register_at_exit(at_exit) == 0);
    is_ready = core != NULL && is_registered;
    PyErr_Clear(); /* an exception would be the main interpreter's */
    Py_XDECREF(core);
    PyThreadState_Clear(there);
    (void)PyThreadState_Swap(own);
    PyThreadState_Delete(there);
    if (!is_ready) {
        PyErr_SetString(PyExc_ImportError,
                        "the main interpreter cannot import nativecall._core and atexit");
        return -1;
    }
    return 0;
}

NcInterpreter *nc_interpreter_begin(PyMethodDef *at_exit)
{
    PyInterpreterState *state = PyInterpreterState_Get();
    NcInterpreter *made = &nc_main;
    int is_main = state == PyInterpreterState_Main();
    if (is_main ? main_is_ready : find(state) != NULL) {
        PyErr_SetString(PyExc_ImportError, "nativecall's core cannot be loaded twice in one Python "
                                           "interpreter; restart Python");
        return NULL;
    }
    if (!is_main && !nc_interpreters_end_well()) {
        PyErr_Format(PyExc_ImportError,
                     "nativecall cannot be imported in a subinterpreter of CPython %lu.%lu.%lu, "
                     "whose end frees what other interpreters still use; CPython 3.11, 3.12.8 or "
                     "newer, and 3.13.1 or newer can",
                     Py_Version >> 24, (Py_Version >> 16) & 0xFF, (Py_Version >> 8) & 0xFF);
        return NULL;
    }
    if (!is_main && !main_is_ready) {
        PyErr_SetString(PyExc_ImportError,
                        "nativecall cannot be imported in a subinterpreter before the main "
                        "interpreter has imported it: its types are the process's and are made "
                        "there; import it in the main interpreter first");
        return NULL;
    }
    if (!is_main && prepare_main(at_exit) < 0) {
        return NULL;
    }
    if (!is_main) {
        made = (NcInterpreter *)calloc(1, sizeof(*made));
        if (made == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
    } else if (make_refusing(&nc_refusing_hooks) < 0) {
        return NULL;
    } else {
        ended.hooks = nc_refusing_hooks;
    }
    made->state = state;
    made->id = PyInterpreterState_GetID(state);
    return made;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* From now on nobody enters. Waits for those inside, so many moments at most, or for ever. */
static void close_door(NcInterpreter *self, long moments)
{
    const struct timespec moment = {0, 200000}; /* 0.2 ms */
    intptr_t inside = __atomic_fetch_or(&self->inside, CLOSED, __ATOMIC_SEQ_CST) & ~CLOSED;
    /* While Python ends, CPython gives the GIL to its last thread state alone: those inside never
     * leave, and this thread, which has another one, would not get it back. */
    if (inside == 0 || nc_is_finalizing()) {
        return;
    }
    Py_BEGIN_ALLOW_THREADS;
    while (__atomic_load_n(&self->inside, __ATOMIC_SEQ_CST) != CLOSED && moments != 0) {
        (void)nanosleep(&moment, NULL);
        moments -= moments > 0;
    }
    Py_END_ALLOW_THREADS;
}

void nc_interpreter_close(NcInterpreter *self)
{
    if (self != &nc_main) {
        close_door(self, -1);
        return;
    }
    /* Those that others left behind CPython ends together with the main one, and ends the process
     * where C threads have thread states of them. One that does not come out ends nothing else. */
    for (NcInterpreter *one = others; one != NULL; one = one->next) {
        close_door(one, PATIENCE);
    }
}

static const char capsule_name[] = "nativecall.interpreter";

/* CPython drops the interpreter's dict: from now on another one may have its address. */
static void forget(PyObject *capsule)
{
    NcInterpreter *self = (NcInterpreter *)PyCapsule_GetPointer(capsule, capsule_name);
    NcInterpreter **from = &others;
    while (*from != NULL && *from != self) {
        from = &(*from)->next;
    }
    if (*from != NULL) {
        *from = self->next;
    }
    self->state = NULL;
}

int nc_interpreter_ready(NcInterpreter *made, PyMethodDef *at_exit)
{
    PyObject *capsule;
    if (made == &nc_main) {
        main_is_ready = 1;
        return 0;
    }
    capsule = PyCapsule_New(made, capsule_name, forget);
    if (capsule == NULL ||
        PyDict_SetItemString(PyInterpreterState_GetDict(made->state), capsule_name, capsule) < 0) {
        Py_XDECREF(capsule);
        return -1;
    }
    Py_DECREF(capsule);
    if (register_at_exit(at_exit) < 0) {
        return -1;
    }
    made->next = others;
    others = made;
    nc_has_others = 1;
    return 0;
}

int nc_interpreter_traverse(NcInterpreter *self, visitproc visit, void *arg)
{
    PyObject **hooks = (PyObject **)(void *)&self->hooks;
    if (self == &nc_main) {
        return 0; /* its objects stay, for threads that run until the process ends */
    }
    for (size_t i = 0; i < sizeof(self->hooks) / sizeof(*hooks); i++) {
        Py_VISIT(hooks[i]);
    }
    for (size_t i = 0; i < NC_KEPT_OBJECTS; i++) {
        Py_VISIT(self->kept[i]);
    }
    return 0;
}

void nc_interpreter_clear(NcInterpreter *self)
{
    PyObject **hooks = (PyObject **)(void *)&self->hooks;
    PyObject **refusing = (PyObject **)(void *)&nc_refusing_hooks;
    if (self == &nc_main) {
        return;
    }
    nc_interpreter_close(self);
    for (size_t i = 0; i < sizeof(self->hooks) / sizeof(*hooks); i++) {
        PyObject *old = hooks[i];
        hooks[i] = Py_XNewRef(refusing[i]);
        Py_XDECREF(old);
    }
    for (size_t i = 0; i < NC_KEPT_OBJECTS; i++) {
        Py_CLEAR(self->kept[i]);
    }
}
