/* emitted.c: what a compiler such as Cython could emit for native classes. The source:
 *
 *     native class Counter:
 *         long count
 *         Counter parent
 *         long add(self, long n):
 *             self.count += n
 *             return self.count
 *
 *     native class Doubling(Counter):
 *         long add(self, long n):
 *             return super().add(2 * n)
 *
 *     def total(Counter counter, int times):
 *         with nogil:
 *             for i in range(times):
 *                 counter.add(1)
 *         return counter.count
 *
 * Each class becomes a struct and an NcClass, each method a function. Keys and slot positions are
 * static variables. */
#include <nativecall/nativeobject.h>

typedef struct {
    long count;
    NcObject *parent;
} Counter;

static const NcClass *counter_class, *doubling_class;
static const char *add_key;
static size_t add_position; /* where the lookup starts */

typedef long (*Add)(void *self, long n);

static long counter_add(void *self, long n)
{
    Counter *fields =
        (Counter *)nc_object_cast(self, counter_class); /* self may be of a subclass */
    fields->count += n;
    return fields->count;
}

static long doubling_add(void *self, long n) /* super() follows the order of the object's class */
{
    void *next = NULL;
    Add add = (Add)nc_object_super(self, doubling_class, add_key, &next);
    return add(next, 2 * n);
}

static PyObject *total(PyObject *module, PyObject *args)
{
    PyObject *given;
    NcObject *counter;
    int times;
    long count;
    if (!PyArg_ParseTuple(args, "Oi", &given, &times))
        return NULL;
    counter = nc_object_from_python(given, counter_class);
    if (counter == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    for (int i = 0; i < times; i++) {
        void *self = NULL;
        Add add = (Add)nc_object_method_at(counter, add_key, add_position, &self);
        add(self, 1);
    }
    count = ((Counter *)nc_object_cast(counter, counter_class))->count;
    nc_object_release(counter);
    Py_END_ALLOW_THREADS;
    if (PyErr_Occurred()) /* a Python override may have raised */
        return NULL;
    return PyLong_FromLong(count);
}

static PyMethodDef functions[] = {{"total", total, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "emitted", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_emitted(void)
{
    static NcField fields[] = {{"count", "l", offsetof(Counter, count), NULL},
                               {"parent", NULL, offsetof(Counter, parent), NC_FIELD_SELF}};
    static NcMethod counter_methods[] = {
        {NULL, (void *)counter_add, 0, 0}}; /* 0: self is the object */
    static NcMethod doubling_methods[] = {{NULL, (void *)doubling_add, 0, 0}};
    NcClass counter = {0}, doubling = {0};
    PyObject *bases, *module = PyModule_Create(&definition);
    if (nc_method_key("add", "l:&vl", &add_key) < 0)
        return NULL;
    counter_methods[0].key = doubling_methods[0].key = add_key;
    counter.name = "Counter";
    counter.fields_size = sizeof(Counter);
    counter.fields_align = sizeof(void *);
    counter.fields = fields;
    counter.field_count = 2;
    counter.methods = counter_methods;
    counter.method_count = 1;
    counter_class = nc_class_define(&counter, NULL, "emitted", NULL);
    if (counter_class == NULL)
        return NULL;
    add_position = nc_class_position(counter_class, add_key);
    doubling.name = "Doubling";
    doubling.methods = doubling_methods;
    doubling.method_count = 1;
    bases = PyTuple_Pack(1, counter_class->type);
    doubling_class = bases != NULL ? nc_class_define(&doubling, bases, "emitted", NULL) : NULL;
    Py_XDECREF(bases);
    if (doubling_class == NULL ||
        PyModule_AddObjectRef(module, "Counter", counter_class->type) < 0 ||
        PyModule_AddObjectRef(module, "Doubling", doubling_class->type) < 0)
        return NULL;
    return module;
}
