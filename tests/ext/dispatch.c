/* tests/ext/dispatch.c: C code that calls any callable by dispatch.h and dynamiccall.h.
 *
 * MODULE is the module's name; built as C99 and as C++11, against installed and vendored headers.
 * The functions of NC_DISPATCH are called with the GIL and without, from C; calls by a signature
 * text get their arguments from Python as bytes, one for each argument, and give bytes. */
#include "module.h"

#include <math.h>
#include <nativecall/dispatch.h>
#include <nativecall/dynamiccall.h>
#include <pthread.h>

/* ---- signatures in the source ---------------------------------------------------------------- */

/* Words of the consumer's own: a struct by value, which Python sees as a tuple, and an object. */
typedef struct {
    double x;
    double y;
} Point;

static PyObject *box_point(Point value)
{
    return Py_BuildValue("(dd)", value.x, value.y);
}

static int unbox_point(PyObject *result, Point *out)
{
    return PyArg_ParseTuple(result, "dd", &out->x, &out->y) ? 0 : -1;
}

static PyObject *box_object(PyObject *value)
{
    return Py_XNewRef(value);
}

static int unbox_object(PyObject *result, PyObject **out)
{
    *out = Py_NewRef(result);
    return 0;
}

#define NC_TYPE_point NC_TYPE(Point, "T{dd}", box_point, unbox_point)
#define NC_TYPE_object NC_TYPE(PyObject *, "O", box_object, unbox_object)

NC_DISPATCH(one, double, (double));
NC_DISPATCH_PROMOTED(wider, double, (float, int),
                     NC_PROMOTED(double, (double, int)) NC_PROMOTED(float, (float, int64))
                         NC_PROMOTED(double, (double, double)));
NC_DISPATCH_PROMOTED(notify, nothing, (float), NC_PROMOTED(nothing, (double)));
NC_DISPATCH(eight, double, (double, double, double, double, double, double, double, double));
NC_DISPATCH_PROMOTED(none, double, (nothing), NC_PROMOTED(float, (nothing)));
NC_DISPATCH(no_more, nothing, (nothing));
NC_DISPATCH(narrow, int8, (int));
NC_DISPATCH(norm, double, (point));
NC_DISPATCH(turn, point, (double));
NC_DISPATCH(same, object, (object));
NC_DISPATCH(single, float, (double));

/* With the GIL, or without: then the value is the status's text when the call was refused. */
#define EITHER(with, without)                                                                      \
    if (nogil) {                                                                                   \
        PyThreadState *thread = PyEval_SaveThread();                                               \
        int status = without;                                                                      \
        PyEval_RestoreThread(thread);                                                              \
        if (status != NC_OK) {                                                                     \
            return PyErr_Occurred() ? NULL : PyUnicode_FromString(nc_status_text(status));         \
        }                                                                                          \
    } else if ((with) < 0) {                                                                       \
        return NULL;                                                                               \
    }

/* dispatch(name, nogil, f, x=0.0, n=0, obj=None) -> the result */
static PyObject *dispatch(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *name;
    PyObject *f;
    PyObject *obj = Py_None;
    int nogil;
    int n = 0;
    double x = 0.0;
    double y = -1.0;
    if (!PyArg_ParseTuple(args, "spO|diO", &name, &nogil, &f, &x, &n, &obj)) {
        return NULL;
    }
    if (strcmp(name, "one") == 0) {
        EITHER(one(f, &y, x), one_nogil(f, &y, x))
    } else if (strcmp(name, "wider") == 0) {
        EITHER(wider(f, &y, (float)x, n), wider_nogil(f, &y, (float)x, n))
    } else if (strcmp(name, "notify") == 0) {
        EITHER(notify(f, NULL, (float)x), notify_nogil(f, NULL, (float)x))
        Py_RETURN_NONE;
    } else if (strcmp(name, "eight") == 0) {
        EITHER(eight(f, &y, x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7),
               eight_nogil(f, &y, x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7))
    } else if (strcmp(name, "none") == 0) {
        EITHER(none(f, &y), none_nogil(f, &y))
    } else if (strcmp(name, "no_more") == 0) {
        EITHER(no_more(f, NULL), no_more_nogil(f, NULL))
        Py_RETURN_NONE;
    } else if (strcmp(name, "narrow") == 0) {
        int8_t small = -1;
        EITHER(narrow(f, &small, n), narrow_nogil(f, &small, n))
        return PyLong_FromLong(small);
    } else if (strcmp(name, "norm") == 0 || strcmp(name, "turn") == 0) {
        Point point = {0.0, 0.0};
        point.x = x;
        point.y = n;
        if (name[0] == 't') {
            EITHER(turn(f, &point, x), turn_nogil(f, &point, x))
            return box_point(point);
        }
        EITHER(norm(f, &y, point), norm_nogil(f, &y, point))
    } else if (strcmp(name, "single") == 0) {
        float narrow = -1.0F;
        EITHER(single(f, &narrow, x), single_nogil(f, &narrow, x))
        return PyFloat_FromDouble((double)narrow);
    } else if (strcmp(name, "same") == 0) {
        PyObject *result = NULL;
        EITHER(same(f, &result, obj), same_nogil(f, &result, obj))
        return result;
    } else {
        PyErr_SetString(PyExc_AssertionError, "no such function");
        return NULL;
    }
    return PyFloat_FromDouble(y);
}

#ifndef __cplusplus
NC_DISPATCH(complex_single_of, complex64, (nothing));

/* complex_single(f) -> the float _Complex that f() gives */
static PyObject *complex_single(PyObject *Py_UNUSED(module), PyObject *f)
{
    float _Complex y;
    return complex_single_of(f, &y) < 0 ? NULL : nc_box_complex64(y);
}
#endif

/* ---- signatures at run time ------------------------------------------------------------------ */

static const char capsule_name[] = "dispatch.prepared";

static void destroy(PyObject *capsule)
{
    NcCall *prepared = (NcCall *)PyCapsule_GetPointer(capsule, capsule_name);
    nc_call_release(prepared);
    nc_call_release(prepared);
    PyMem_Free(prepared);
}

/* prepare(f, signature) -> a prepared call */
static PyObject *prepare(PyObject *Py_UNUSED(module), PyObject *args)
{
    NcCall *prepared;
    PyObject *capsule;
    PyObject *obj;
    const char *signature;
    if (!PyArg_ParseTuple(args, "Os", &obj, &signature)) {
        return NULL;
    }
    prepared = (NcCall *)PyMem_Malloc(sizeof *prepared);
    if (prepared == NULL) {
        return PyErr_NoMemory();
    }
    if (nc_call_prepare(prepared, obj, signature) < 0) {
        nc_call_release(prepared);
        PyMem_Free(prepared);
        return NULL;
    }
    capsule = PyCapsule_New(prepared, capsule_name, destroy);
    if (capsule == NULL) {
        nc_call_release(prepared);
        PyMem_Free(prepared);
    }
    return capsule;
}

/* prepare_null(): what becomes of an object that is NULL */
static PyObject *prepare_null(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    NcCall prepared;
    (void)nc_call_prepare(&prepared, NULL, "d:d");
    return NULL;
}

static const char *const names[] = {"exact", "promoted", "boxed"};

/* nogil_way(prepared) -> the way of calls without the GIL */
static PyObject *nogil_way(PyObject *Py_UNUSED(module), PyObject *capsule)
{
    const NcCall *prepared = (const NcCall *)PyCapsule_GetPointer(capsule, capsule_name);
    return prepared != NULL ? PyUnicode_FromString(names[prepared->nogil_way]) : NULL;
}

/* way(prepared) -> "exact", "promoted" or "boxed" */
static PyObject *way(PyObject *Py_UNUSED(module), PyObject *capsule)
{
    const NcCall *prepared = (const NcCall *)PyCapsule_GetPointer(capsule, capsule_name);
    if (prepared == NULL) {
        return NULL;
    }
    if ((prepared->function == NULL) != (prepared->way == NC_WAY_BOXED)) {
        PyErr_SetString(PyExc_AssertionError, "a way that contradicts the function");
        return NULL;
    }
    return PyUnicode_FromString(names[prepared->way]);
}

/* release(prepared): what the end of the capsule does to the call, perhaps while it runs */
static PyObject *release(PyObject *Py_UNUSED(module), PyObject *capsule)
{
    NcCall *prepared = (NcCall *)PyCapsule_GetPointer(capsule, capsule_name);
    if (prepared == NULL) {
        return NULL;
    }
    nc_call_release(prepared);
    Py_RETURN_NONE;
}

/* Pointers to the values of a tuple: bytes as they are, objects where the signature has them. */
typedef struct {
    const void *at[NC_CALL_MAX_ARGUMENTS];
    PyObject *objects[NC_CALL_MAX_ARGUMENTS];
} Values;

static const NcCall *begin(PyObject *capsule, PyObject *tuple, Values *values)
{
    const NcCall *prepared = (const NcCall *)PyCapsule_GetPointer(capsule, capsule_name);
    size_t i;
    if (prepared == NULL || (size_t)PyTuple_GET_SIZE(tuple) != prepared->count) {
        PyErr_SetString(PyExc_AssertionError, "another number of arguments");
        return NULL;
    }
    for (i = 0; i < prepared->count; i++) {
        PyObject *value = PyTuple_GET_ITEM(tuple, (Py_ssize_t)i);
        const NcCallType *type = &prepared->types[i + 1];
        if (type->kind == NC_KIND_OBJECT) {
            values->objects[i] = value == Py_Ellipsis ? NULL : value;
            values->at[i] = &values->objects[i];
        } else if (PyBytes_Check(value) && (size_t)PyBytes_GET_SIZE(value) == type->size) {
            values->at[i] = PyBytes_AS_STRING(value);
        } else {
            PyErr_SetString(PyExc_AssertionError, "bytes of another size");
            return NULL;
        }
    }
    return prepared;
}

#define GUARD 0x5A
#define ROOM 64

/* Whether nothing behind a result was written to. */
static int guarded(const unsigned char *room, size_t size)
{
    for (; size < ROOM; size++) {
        if (room[size] != GUARD) {
            return 0;
        }
    }
    return 1;
}

/* call(prepared, values, nogil=False, wanted=True, times=1) -> the last result, as bytes, an
 * object, or None; the status's text when it was refused */
static PyObject *call(PyObject *Py_UNUSED(module), PyObject *args)
{
    Values values;
    PyObject *capsule;
    PyObject *tuple;
    PyObject *object;
    const NcCall *prepared;
    unsigned char room[ROOM];
    int nogil = 0;
    int wanted = 1;
    int is_object;
    long times = 1;
    if (!PyArg_ParseTuple(args, "OO!|ppl", &capsule, &PyTuple_Type, &tuple, &nogil, &wanted,
                          &times) ||
        (prepared = begin(capsule, tuple, &values)) == NULL) {
        return NULL;
    }
    is_object = prepared->types[0].kind == NC_KIND_OBJECT;
    while (times-- > 0) {
        int status;
        memset(room, GUARD, sizeof room);
        if (nogil) {
            PyThreadState *thread = PyEval_SaveThread();
            status = nc_call_nogil(prepared, wanted ? room : NULL, values.at);
            PyEval_RestoreThread(thread);
        } else {
            status = nc_call(prepared, wanted ? room : NULL, values.at);
        }
        if (status == -1 && !nogil) {
            if (is_object && wanted && prepared->function != NULL) {
                memcpy(&object, room, sizeof object);
                if (object != NULL) {
                    Py_FatalError("a failed call has a result");
                }
            }
            return NULL;
        }
        if (status != NC_OK) {
            return PyErr_Occurred() ? NULL : PyUnicode_FromString(nc_status_text(status));
        }
        if (!guarded(room, wanted ? prepared->types[0].size : 0)) {
            PyErr_SetString(PyExc_AssertionError, "written behind the result");
            return NULL;
        }
        if (is_object && wanted) {
            memcpy(&object, room, sizeof object);
            if (times == 0) {
                return object;
            }
            Py_DECREF(object);
        }
    }
    if (!wanted || prepared->types[0].kind == NC_KIND_VOID) {
        Py_RETURN_NONE;
    }
    return PyBytes_FromStringAndSize((const char *)room, (Py_ssize_t)prepared->types[0].size);
}

typedef struct {
    const NcCall *prepared;
    const void *const *values;
    long calls;
    long good;
    double expected;
} Work;

static void *work(void *argument)
{
    Work *mine = (Work *)argument;
    double y;
    long i;
    for (i = 0; i < mine->calls; i++) {
        y = -1.0;
        mine->good +=
            nc_call_nogil(mine->prepared, &y, mine->values) == NC_OK && y == mine->expected;
    }
    return NULL;
}

#define THREADS 8

/* in_threads(prepared, values, calls, expected) -> how many of the calls of 8 threads, which Python
 * has never seen and which share the prepared call, gave that double */
static PyObject *in_threads(PyObject *Py_UNUSED(module), PyObject *args)
{
    Values values;
    Work works[THREADS];
    pthread_t threads[THREADS];
    PyObject *capsule;
    PyObject *tuple;
    PyThreadState *thread;
    const NcCall *prepared;
    long calls;
    long good = 0;
    double expected;
    int i;
    if (!PyArg_ParseTuple(args, "OO!ld", &capsule, &PyTuple_Type, &tuple, &calls, &expected) ||
        (prepared = begin(capsule, tuple, &values)) == NULL) {
        return NULL;
    }
    thread = PyEval_SaveThread();
    for (i = 0; i < THREADS; i++) {
        works[i].prepared = prepared;
        works[i].values = values.at;
        works[i].calls = calls;
        works[i].good = 0;
        works[i].expected = expected;
        (void)pthread_create(&threads[i], NULL, work, &works[i]);
    }
    for (i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        good += works[i].good;
    }
    PyEval_RestoreThread(thread);
    return PyLong_FromLong(good);
}

static PyMethodDef methods[] = {
    {"dispatch", dispatch, METH_VARARGS, NULL},
    {"prepare", prepare, METH_VARARGS, NULL},
    {"prepare_null", prepare_null, METH_NOARGS, NULL},
    {"way", way, METH_O, NULL},
    {"nogil_way", nogil_way, METH_O, NULL},
#ifndef __cplusplus
    {"complex_single", complex_single, METH_O, NULL},
#endif
    {"call", call, METH_VARARGS, NULL},
    {"release", release, METH_O, NULL},
    {"in_threads", in_threads, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(methods);

PyMODINIT_FUNC MODULE_INIT(void)
{
    return PyCustomSlots_Import() < 0 ? NULL : PyModule_Create(&definition);
}
