/* tests/ext/objects.c: native objects as an extension module makes and uses them (nativeobject.h).
 *
 *     Point                 a class made here: x, y, a reference, a method of each kind, a destructor
 *     hold, drop, cast      native references that the module keeps, by number
 *     release_after_python  drops all of them when Python has been finalized, and says so
 *     release_elsewhere     drops one in a native thread that never has the GIL
 *     block                 points made together, of which Python gets every other one
 *     define                a class of fields that the caller chooses
 *     run                   native threads that make, link, retain, release and call, without the GIL
 *     churn                 the same objects, cast to Python and back, with the GIL
 *     pass_on               threads that take objects from places and put them into others, so that any
 *                           of them, native or Python's, has the last reference at times
 *
 * Functions with no comment say what they do by what they are called. */
#include "module.h"

#include <nativecall/nativeobject.h>

#include <pthread.h>

enum { HELD = 64, SHARED = 8 };

static const NcClass *point_class;
static const char *sum_key;
static size_t made;
static size_t ended;
static NcObject *held[HELD];

/* ---- the class ------------------------------------------------------------------------------- */

typedef struct {
    double x, y;
    NcObject *next;
    size_t made; /* 1: counted in `made`; Python makes the others */
} Point;

static void point_destroy(void *fields)
{
    __atomic_fetch_add(&ended, ((const Point *)fields)->made, __ATOMIC_RELAXED);
}

static double point_norm(void *self)
{
    const Point *point = (const Point *)self;
    return point->x * point->x + point->y * point->y;
}

static double point_sum(void *object)
{
    const Point *point = (const Point *)nc_object_cast(object, point_class);
    return point->x + point->y;
}

static void point_move(void *self, double dx, double dy)
{
    Point *point = (Point *)self;
    point->x += dx;
    point->y += dy;
}

static int make_point_class(void)
{
    static NcField fields[] = {{"x", "d", offsetof(Point, x), NULL},
                               {"y", "d", offsetof(Point, y), NULL},
                               {"next", NULL, offsetof(Point, next), NULL}};
    static NcMethod methods[3];
    NcClass own;
    memset(&own, 0, sizeof own);
    methods[0].function = (void *)(uintptr_t)point_norm;
    methods[0].takes_fields = 1;
    methods[1].function = (void *)(uintptr_t)point_sum;
    methods[2].function = (void *)(uintptr_t)point_move;
    methods[2].takes_fields = 1;
    own.name = "Point";
    own.fields_size = sizeof(Point);
    own.fields_align = sizeof(double);
    own.destroy = point_destroy;
    own.fields = fields;
    own.field_count = 3;
    own.methods = methods;
    own.method_count = 3;
    if (nc_objects_import() < 0 || nc_method_key("norm", "d:&d", &methods[0].key) < 0 ||
        nc_method_key("sum", "d:&v", &methods[1].key) < 0 ||
        nc_method_key("move", "v:&ddd", &methods[2].key) < 0) {
        return -1;
    }
    sum_key = methods[1].key;
    point_class = nc_class_define(&own, NULL, MODULE_NAME, NULL);
    return point_class != NULL ? 0 : -1;
}

static NcObject *new_point(double x, double y)
{
    NcObject *object = nc_object_new(point_class);
    NC_FIRST_FIELDS(object, Point)->x = x;
    NC_FIRST_FIELDS(object, Point)->y = y;
    NC_FIRST_FIELDS(object, Point)->made = 1;
    __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
    return object;
}

/* point(x, y): made natively, cast to Python. */
static PyObject *point(PyObject *Py_UNUSED(self), PyObject *args)
{
    double x, y;
    NcObject *object;
    PyObject *cast;
    if (!PyArg_ParseTuple(args, "dd", &x, &y)) {
        return NULL;
    }
    object = new_point(x, y);
    cast = nc_object_as_python(object);
    nc_object_release(object);
    return cast;
}

typedef struct {
    char *first;
    size_t count;
} Block;

static void *release_odd(void *argument)
{
    const Block *block = (const Block *)argument;
    for (size_t i = 1; i < block->count; i += 2) {
        nc_object_release(block->first + i * nc_class_stride(point_class));
    }
    return NULL;
}

/* block(count): points in one block; a list of the even ones, for the odd ones end in a thread. */
static PyObject *block(PyObject *Py_UNUSED(self), PyObject *number)
{
    Block made_here;
    pthread_t thread;
    PyObject *list = PyList_New(0);
    made_here.count = PyLong_AsSize_t(number);
    made_here.first = (char *)nc_objects_new(point_class, made_here.count);
    if (made_here.first == NULL) {
        return PyErr_NoMemory();
    }
    made += made_here.count;
    for (size_t i = 0; i < made_here.count; i++) {
        NcObject *object = made_here.first + i * nc_class_stride(point_class);
        NC_FIRST_FIELDS(object, Point)->x = (double)i;
        NC_FIRST_FIELDS(object, Point)->made = 1;
    }
    pthread_create(&thread, NULL, release_odd, &made_here);
    for (size_t i = 0; i < made_here.count; i += 2) {
        NcObject *object = made_here.first + i * nc_class_stride(point_class);
        PyObject *cast = nc_object_as_python(object);
        nc_object_release(object);
        if (PyList_Append(list, cast) < 0) {
            Py_CLEAR(list);
        }
        Py_DECREF(cast);
    }
    pthread_join(thread, NULL);
    return list;
}

static PyObject *counts(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    return Py_BuildValue("nn", (Py_ssize_t)made, (Py_ssize_t)ended);
}

/* values(number): x and y of what is held. */
static PyObject *values(PyObject *Py_UNUSED(self), PyObject *number)
{
    const Point *fields;
    fields = (const Point *)nc_object_cast(held[PyLong_AsLong(number)], point_class);
    return Py_BuildValue("dd", fields->x, fields->y);
}

/* ---- references that the module keeps -------------------------------------------------------- */

/* hold(object[, class]): the number of a native reference. */
static PyObject *hold(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *object;
    PyObject *type = NULL;
    const NcClass *cls = NULL;
    long n = 0;
    if (!PyArg_ParseTuple(args, "O|O", &object, &type) ||
        (type != NULL && (cls = nc_class_of(type)) == NULL)) {
        return NULL;
    }
    while (held[n] != NULL) {
        n++;
    }
    held[n] = nc_object_from_python(object, cls);
    return held[n] != NULL ? PyLong_FromLong(n) : NULL;
}

/* hold_new(class): makes one natively; MemoryError for an abstract class, too. */
static PyObject *hold_new(PyObject *Py_UNUSED(self), PyObject *type)
{
    const NcClass *cls = nc_class_of(type);
    long n = 0;
    if (cls == NULL) {
        return NULL;
    }
    while (held[n] != NULL) {
        n++;
    }
    held[n] = nc_object_new(cls);
    return held[n] != NULL ? PyLong_FromLong(n) : PyErr_NoMemory();
}

static PyObject *drop(PyObject *Py_UNUSED(self), PyObject *number)
{
    const long n = PyLong_AsLong(number);
    NcObject *object = held[n];
    held[n] = NULL;
    nc_object_release(object);
    Py_RETURN_NONE;
}

static void *release_one(void *object)
{
    nc_object_release(object);
    return NULL;
}

static PyObject *release_elsewhere(PyObject *Py_UNUSED(self), PyObject *number)
{
    const long n = PyLong_AsLong(number);
    pthread_t thread;
    NcObject *object = held[n];
    held[n] = NULL;
    Py_BEGIN_ALLOW_THREADS;
    pthread_create(&thread, NULL, release_one, object);
    pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static void release_all(void)
{
    pthread_t thread;
    size_t released = 0;
    for (long n = 0; n < HELD; n++) {
        if (held[n] != NULL) {
            pthread_create(&thread, NULL, release_one, held[n]); /* a thread that never had it */
            pthread_join(thread, NULL);
            released++;
        }
    }
    nc_object_release(new_point(1, 2)); /* objects are made as ever */
    printf("Python %s, %zu released, %zu of %zu points ended\n",
           Py_IsInitialized() ? "runs" : "is gone", released, ended, made);
    (void)fflush(stdout);
}

static PyObject *release_after_python(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    (void)atexit(release_all);
    Py_RETURN_NONE;
}

/* cast(number): the Python object; the native reference stays. */
static PyObject *cast(PyObject *Py_UNUSED(self), PyObject *number)
{
    return nc_object_as_python(held[PyLong_AsLong(number)]);
}

/* address(object): that of the native object. */
static PyObject *address(PyObject *Py_UNUSED(self), PyObject *object)
{
    return PyLong_FromVoidPtr(nc_object_of_python(object, NULL));
}

/* native_count(object), less nothing: what the count says. */
static PyObject *native_count(PyObject *Py_UNUSED(self), PyObject *object)
{
    NcObject *found = nc_object_of_python(object, NULL);
    if (found == NULL) {
        Py_RETURN_NONE;
    }
    return PyLong_FromSize_t(nc_load_relaxed_size(&nc_object_head(found)->count));
}

static PyObject *held_count(PyObject *Py_UNUSED(self), PyObject *number)
{
    return PyLong_FromSize_t(
        nc_load_relaxed_size(&nc_object_head(held[PyLong_AsLong(number)])->count));
}

/* ---- classes --------------------------------------------------------------------------------- */

/* place(object, class): where the class's fields are, from the object; None if it is no base. */
static PyObject *place(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *object;
    PyObject *type;
    const NcClass *cls;
    char *native;
    char *fields;
    if (!PyArg_ParseTuple(args, "OO", &object, &type) || (cls = nc_class_of(type)) == NULL) {
        return NULL;
    }
    native = (char *)nc_object_of_python(object, NULL);
    fields = (char *)nc_object_cast(native, cls);
    if (fields == NULL) {
        Py_RETURN_NONE;
    }
    return PyLong_FromSsize_t(fields - native);
}

static PyObject *call_double(void *function, void *self)
{
    if (function == NULL) {
        Py_RETURN_NONE;
    }
    return PyFloat_FromDouble(((double (*)(void *))(uintptr_t)function)(self));
}

/* call(object, name, signature[, class]): calls a method "d:&v" natively; that behind the class. */
static PyObject *call(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *object;
    PyObject *behind = NULL;
    const char *name;
    const char *signature;
    const char *key = NULL;
    const NcClass *cls = NULL;
    NcObject *native;
    void *first = NULL;
    void *function;
    if (!PyArg_ParseTuple(args, "Oss|O", &object, &name, &signature, &behind) ||
        nc_method_key(name, signature, &key) < 0 ||
        (behind != NULL && (cls = nc_class_of(behind)) == NULL)) {
        return NULL;
    }
    native = nc_object_of_python(object, NULL);
    function = cls != NULL ? nc_object_super(native, cls, key, &first)
                           : nc_object_method(native, key, &first);
    return call_double(function, first);
}

/* has(class, name, signature): structural typing. */
static PyObject *has(PyObject *Py_UNUSED(self), PyObject *args)
{
    PyObject *type;
    const char *name;
    const char *signature;
    const char *key = NULL;
    const NcClass *cls;
    if (!PyArg_ParseTuple(args, "Oss", &type, &name, &signature) ||
        nc_method_key(name, signature, &key) < 0 || (cls = nc_class_of(type)) == NULL) {
        return NULL;
    }
    return PyBool_FromLong(nc_class_has_method(cls, key));
}

/* order(class): the native order of bases. */
static PyObject *order(PyObject *Py_UNUSED(self), PyObject *type)
{
    const NcClass *cls = PyType_Check(type) && nc_type_is_native((PyTypeObject *)(void *)type)
                             ? nc_type_class((PyTypeObject *)(void *)type)
                             : nc_class_of(type);
    PyObject *list = cls != NULL ? PyList_New(0) : NULL;
    for (size_t i = 0; list != NULL && i < cls->part_count; i++) {
        if (PyList_Append(list, (PyObject *)cls->parts[i].cls->type) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* derive(name, bases): a C class with a field of 8 bytes and nothing else. */
static PyObject *derive(PyObject *Py_UNUSED(self), PyObject *args)
{
    const char *name;
    PyObject *bases;
    NcClass own;
    const NcClass *cls;
    if (!PyArg_ParseTuple(args, "sO!", &name, &PyTuple_Type, &bases)) {
        return NULL;
    }
    memset(&own, 0, sizeof own);
    own.name = name;
    own.fields_size = own.fields_align = 8;
    cls = nc_class_define(&own, bases, MODULE_NAME, NULL);
    return cls != NULL ? Py_NewRef((PyObject *)cls->type) : NULL;
}

/* define(name, bases, size, alignment, fields, abstract): a C class with these fields, (name, code
 * or None, offset), and whether a reference is to the class itself, for ever; and with an abstract
 * method, (name, signature), which may be left out. */
static PyObject *define(PyObject *Py_UNUSED(self), PyObject *args)
{
    const char *name;
    PyObject *bases;
    PyObject *rows;
    Py_ssize_t size, alignment;
    const char *method = NULL;
    const char *signature = NULL;
    NcMethod *methods = (NcMethod *)calloc(1, sizeof *methods);
    NcClass own;
    NcField *fields;
    const NcClass *cls;
    memset(&own, 0, sizeof own);
    if (!PyArg_ParseTuple(args, "sO!nnO!|(ss)", &name, &PyTuple_Type, &bases, &size, &alignment,
                          &PyList_Type, &rows, &method, &signature) ||
        (method != NULL && nc_method_key(method, signature, &methods->key) < 0)) {
        return NULL;
    }
    own.methods = methods;
    own.method_count = method != NULL;
    own.name = strdup(name);
    own.fields_size = (size_t)size;
    own.fields_align = (size_t)alignment;
    own.field_count = (size_t)PyList_GET_SIZE(rows);
    own.fields = fields = (NcField *)calloc(own.field_count + 1, sizeof *fields);
    for (size_t i = 0; i < own.field_count; i++) {
        const char *field;
        const char *code;
        Py_ssize_t offset;
        int of_self = 0;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(rows, (Py_ssize_t)i), "szn|p", &field, &code, &offset,
                              &of_self)) {
            return NULL;
        }
        fields[i].cls = of_self ? NC_FIELD_SELF : NULL;
        fields[i].name = strdup(field);
        fields[i].type = code != NULL ? strdup(code) : NULL;
        fields[i].offset = (size_t)offset;
    }
    cls = nc_class_define(&own, bases, MODULE_NAME, NULL);
    return cls != NULL ? Py_NewRef((PyObject *)cls->type) : NULL;
}

/* ---- threads --------------------------------------------------------------------------------- */

static NcObject *shared[SHARED];
static size_t work;

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    return z ^ z >> 27;
}

static void *run_one(void *argument)
{
    uint64_t state = (uint64_t)(uintptr_t)argument;
    NcObject *own = new_point(1, 1);
    size_t wrong = 0;
    for (size_t i = 0; i < work; i++) {
        const uint64_t random = random_next(&state);
        NcObject *other = shared[random % SHARED];
        void *self = NULL;
        void *function;
        switch (random >> 8 & 3) {
        case 0:
            nc_object_retain(other);
            nc_reference_give(&NC_FIRST_FIELDS(own, Point)->next, other);
            break;
        case 1: {
            NcObject *fresh = new_point(1, 1);
            nc_object_release(own);
            own = fresh;
            break;
        }
        case 2:
            nc_object_retain(other);
            function = nc_object_method(other, sum_key, &self);
            wrong += ((double (*)(void *))(uintptr_t)function)(self) != 7;
            nc_object_release(other);
            break;
        default:
            nc_reference_set(&NC_FIRST_FIELDS(own, Point)->next, NULL);
        }
    }
    nc_object_release(own);
    return (void *)(uintptr_t)wrong;
}

/* begin(): the shared points, which Python does not have yet. */
static PyObject *begin(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    for (size_t i = 0; i < SHARED; i++) {
        shared[i] = new_point(3, 4);
    }
    Py_RETURN_NONE;
}

/* finish(): their native counts, which are given up. */
static PyObject *finish(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < SHARED; i++) {
        PyObject *count = PyLong_FromSize_t(nc_object_head(shared[i])->count);
        if (count == NULL || PyList_Append(list, count) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(count);
        nc_object_release(shared[i]);
    }
    return list;
}

/* Calls a function in native threads. args: threads, operations of each[, hold]. Returns how many
 * calls gave something wrong. With hold the caller has the GIL all the time. */
static PyObject *in_threads(PyObject *args, void *(*function)(void *))
{
    pthread_t threads[16];
    Py_ssize_t count, operations;
    size_t wrong = 0;
    int hold = 0;
    PyThreadState *thread;
    if (!PyArg_ParseTuple(args, "nn|p", &count, &operations, &hold)) {
        return NULL;
    }
    work = (size_t)operations;
    thread = hold ? NULL : PyEval_SaveThread();
    for (Py_ssize_t i = 0; i < count; i++) {
        pthread_create(&threads[i], NULL, function, (void *)(uintptr_t)i);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        wrong += (size_t)(uintptr_t)result;
    }
    if (thread != NULL) {
        PyEval_RestoreThread(thread);
    }
    return PyLong_FromSize_t(wrong);
}

/* run(threads, operations of each[, hold]): see in_threads. */
static PyObject *run(PyObject *Py_UNUSED(self), PyObject *args)
{
    return in_threads(args, run_one);
}

/* churn(times, seed): casts shared points to Python, back, and lets them go, in every order. */
static PyObject *churn(PyObject *Py_UNUSED(self), PyObject *args)
{
    Py_ssize_t times, seed;
    PyObject *kept[SHARED] = {NULL};
    uint64_t state;
    size_t wrong = 0;
    if (!PyArg_ParseTuple(args, "nn", &times, &seed)) {
        return NULL;
    }
    state = (uint64_t)seed;
    for (Py_ssize_t i = 0; i < times; i++) {
        const uint64_t random = random_next(&state);
        NcObject *object = shared[random % SHARED];
        PyObject **place = &kept[random >> 8 & (SHARED - 1)];
        PyObject *as_python = nc_object_as_python(object);
        NcObject *back = nc_object_from_python(as_python, point_class);
        wrong += back != object || Py_TYPE(as_python) != point_class->type;
        nc_object_release(back);
        Py_XSETREF(*place, random >> 16 & 1 ? Py_NewRef(as_python) : NULL);
        Py_DECREF(as_python);
        if ((i & 63) == 0) {
            Py_BEGIN_ALLOW_THREADS;
            Py_END_ALLOW_THREADS;
        }
    }
    for (size_t i = 0; i < SHARED; i++) {
        Py_XDECREF(kept[i]);
    }
    return PyLong_FromSize_t(wrong);
}

/* ---- the last reference ---------------------------------------------------------------------- */

static NcObject *places[SHARED]; /* atomic; each has a reference, or is NULL */

static NcObject *swap(uint64_t random, NcObject *object)
{
    return __atomic_exchange_n(&places[random % SHARED], object, __ATOMIC_ACQ_REL);
}

/* Puts an object into a place, with the caller's reference. */
static void put(uint64_t random, NcObject *object)
{
    NcObject *old = swap(random, object);
    if (old != NULL) {
        nc_object_release(old);
    }
}

/* The object of a place, which the caller's reference keeps, or a new one. */
static NcObject *take(uint64_t random)
{
    NcObject *object = swap(random, NULL);
    return object != NULL ? object : new_point(3, 4);
}

static void *pass_on_natively(void *argument)
{
    uint64_t state = (uint64_t)(uintptr_t)argument;
    size_t wrong = 0;
    for (size_t i = 0; i < work; i++) {
        const uint64_t random = random_next(&state);
        NcObject *object = take(random);
        void *self = NULL;
        void *function = nc_object_method(object, sum_key, &self);
        wrong += ((double (*)(void *))(uintptr_t)function)(self) != 7;
        if ((random >> 16 & 1) != 0) {
            nc_object_retain(object);
            put(random >> 24, object);
        }
        put(random >> 8, object);
    }
    return (void *)(uintptr_t)wrong;
}

/* pass_on_in_threads(threads, operations of each): how many calls gave something wrong. */
static PyObject *pass_on_in_threads(PyObject *Py_UNUSED(self), PyObject *args)
{
    return in_threads(args, pass_on_natively);
}

/* pass_on(times, seed): the same in a Python thread, with casts to Python, and Python references that
 * are kept for a while. */
static PyObject *pass_on(PyObject *Py_UNUSED(self), PyObject *args)
{
    Py_ssize_t times, seed;
    PyObject *kept[SHARED] = {NULL};
    uint64_t state;
    size_t wrong = 0;
    if (!PyArg_ParseTuple(args, "nn", &times, &seed)) {
        return NULL;
    }
    state = (uint64_t)seed;
    for (Py_ssize_t i = 0; i < times; i++) {
        const uint64_t random = random_next(&state);
        NcObject *object = take(random);
        PyObject **place = &kept[random >> 8 & (SHARED - 1)];
        PyObject *as_python = nc_object_as_python(object);
        nc_object_release(object);
        wrong += !PyObject_TypeCheck(as_python, (PyTypeObject *)point_class->type) ||
                 nc_object_of_python(as_python, point_class) != object;
        if ((random >> 16 & 3) != 0) {
            put(random >> 24, nc_object_from_python(as_python, NULL));
        }
        Py_XSETREF(*place, random >> 18 & 1 ? Py_NewRef(as_python) : NULL);
        Py_DECREF(as_python);
        if ((i & 63) == 0) {
            Py_BEGIN_ALLOW_THREADS;
            Py_END_ALLOW_THREADS;
        }
    }
    for (size_t i = 0; i < SHARED; i++) {
        Py_XDECREF(kept[i]);
    }
    return PyLong_FromSize_t(wrong);
}

/* put(number, object): puts an object into a place; None empties the place. */
static PyObject *put_object(PyObject *Py_UNUSED(self), PyObject *args)
{
    Py_ssize_t number;
    PyObject *object;
    NcObject *native = NULL;
    if (!PyArg_ParseTuple(args, "nO", &number, &object) ||
        (object != Py_None && (native = nc_object_from_python(object, point_class)) == NULL)) {
        return NULL;
    }
    put((uint64_t)number, native);
    Py_RETURN_NONE;
}

/* take(number): the object of a place, which is empty then; or a new one. */
static PyObject *take_object(PyObject *Py_UNUSED(self), PyObject *number)
{
    NcObject *object = take((uint64_t)PyLong_AsLong(number));
    PyObject *as_python = nc_object_as_python(object);
    nc_object_release(object);
    return as_python;
}

static PyMethodDef functions[] = {
    {"point", point, METH_VARARGS, NULL},
    {"block", block, METH_O, NULL},
    {"counts", counts, METH_NOARGS, NULL},
    {"values", values, METH_O, NULL},
    {"hold", hold, METH_VARARGS, NULL},
    {"hold_new", hold_new, METH_O, NULL},
    {"drop", drop, METH_O, NULL},
    {"release_elsewhere", release_elsewhere, METH_O, NULL},
    {"release_after_python", release_after_python, METH_NOARGS, NULL},
    {"cast", cast, METH_O, NULL},
    {"address", address, METH_O, NULL},
    {"native_count", native_count, METH_O, NULL},
    {"held_count", held_count, METH_O, NULL},
    {"place", place, METH_VARARGS, NULL},
    {"call", call, METH_VARARGS, NULL},
    {"has", has, METH_VARARGS, NULL},
    {"order", order, METH_O, NULL},
    {"define", define, METH_VARARGS, NULL},
    {"derive", derive, METH_VARARGS, NULL},
    {"begin", begin, METH_NOARGS, NULL},
    {"finish", finish, METH_NOARGS, NULL},
    {"run", run, METH_VARARGS, NULL},
    {"churn", churn, METH_VARARGS, NULL},
    {"pass_on_in_threads", pass_on_in_threads, METH_VARARGS, NULL},
    {"pass_on", pass_on, METH_VARARGS, NULL},
    {"put", put_object, METH_VARARGS, NULL},
    {"take", take_object, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(functions);

PyMODINIT_FUNC MODULE_INIT(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) {
        return NULL;
    }
    if (make_point_class() < 0 ||
        PyModule_AddObjectRef(module, "Point", (PyObject *)point_class->type) < 0 ||
        PyModule_AddObjectRef(module, "NativeObject", (PyObject *)nc_objects->root) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
