// tests/ext/objects_cpp.cpp: C++ classes as classes of native objects (nativeobject.h).
//
//     Base, Point       Point has a default constructor, and one that throws for a negative x
//     Shape             a Point with an abstract method
//     make(x, y[, cls]) makes a Point without the GIL; ValueError where the constructor throws
//     is_native(object) whether a module that has not called nc_objects_import finds it so
//     sum(object)       by copies and moves of a Ref; TypeError for what is no Point
//     living()          how many C++ objects have been constructed and not destroyed
#include "module.h"

#include <nativecall/nativeobject.h>

#include <atomic>
#include <stdexcept>
#include <string>

static std::atomic<long> living(0);
static const NcClass *point_class;

struct Base {
    std::string text;
    Base() noexcept : text()
    {
        living++;
    }
    ~Base()
    {
        living--;
    }
};

struct Point {
    double x, y;
    Point() noexcept : x(1), y(2)
    {
        living++;
    }
    Point(double x_, double y_) : x(x_), y(y_)
    {
        if (x < 0) {
            throw std::invalid_argument("x is negative");
        }
        living++;
    }
    ~Point()
    {
        living--;
    }
};

static double point_sum(void *self)
{
    const Point *point = static_cast<const Point *>(self);
    return point->x + point->y;
}

static nativecall::Ref<Point> copied(const nativecall::Ref<Point> &point)
{
    nativecall::Ref<Point> copy(point);
    nativecall::Ref<Point> other;
    other = copy;
    return other;
}

static PyObject *make(PyObject *, PyObject *args)
{
    double x, y;
    PyObject *type = reinterpret_cast<PyObject *>(point_class->type);
    std::string refused;
    nativecall::Ref<Point> point;
    if (!PyArg_ParseTuple(args, "dd|O", &x, &y, &type)) {
        return NULL;
    }
    const NcClass *cls = nc_class_of(type);
    if (cls == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    try {
        point = nativecall::make<Point>(cls, x, y);
    } catch (const std::invalid_argument &error) {
        refused = error.what();
    }
    Py_END_ALLOW_THREADS;
    if (!point) {
        PyErr_SetString(PyExc_ValueError, refused.c_str());
        return NULL;
    }
    return nc_object_as_python(point.object());
}

static PyObject *sum(PyObject *, PyObject *object)
{
    NcObject *native = nc_object_of_python(object, NULL);
    nativecall::Ref<Point> point;
    if (native != NULL) {
        point = nativecall::cast<Point>(native, point_class);
    }
    if (!point) {
        PyErr_SetString(PyExc_TypeError, "a Point is needed");
        return NULL;
    }
    nativecall::Ref<Point> copy = copied(point);
    return PyFloat_FromDouble(copy->x + (*copy).y);
}

static PyObject *is_native(PyObject *, PyObject *object)
{
    NcObjects *imported = nc_objects;
    nc_objects = NULL;
    NcObject *found = nc_object_from_python(object, NULL);
    if (found == NULL) {
        nc_objects = imported;
        return NULL;
    }
    nc_object_release(found);
    return PyBool_FromLong(nc_objects == imported);
}

static PyObject *count_living(PyObject *, PyObject *)
{
    return PyLong_FromLong(living.load());
}

static PyMethodDef functions[] = {
    {"make", make, METH_VARARGS, NULL},
    {"sum", sum, METH_O, NULL},
    {"is_native", is_native, METH_O, NULL},
    {"living", count_living, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = MODULE_DEFINITION(functions);

static int define_classes(PyObject *module)
{
    static NcField fields[] = {{"x", "d", offsetof(Point, x), NULL},
                               {"y", "d", offsetof(Point, y), NULL}};
    static NcMethod methods[] = {{NULL, reinterpret_cast<void *>(point_sum), 0, 1}};
    static NcMethod abstract[] = {{NULL, NULL, 0, 0}};
    const NcClass *base = nativecall::define<Base>("Base", MODULE_NAME);
    PyObject *bases = base != NULL ? PyTuple_Pack(1, base->type) : NULL;
    if (bases == NULL || nc_method_key("sum", "d:&d", &methods[0].key) < 0 ||
        nc_method_key("area", "d:&v", &abstract[0].key) < 0) {
        Py_XDECREF(bases);
        return -1;
    }
    point_class = nativecall::define<Point>("Point", MODULE_NAME, fields, 2, methods, 1, bases);
    Py_DECREF(bases);
    const NcClass *shape = nativecall::define<Point>("Shape", MODULE_NAME, NULL, 0, abstract, 1);
    return point_class == NULL || shape == NULL ||
                   PyModule_AddObjectRef(module, "Shape", static_cast<PyObject *>(shape->type)) < 0
               ? -1
               : PyModule_AddObjectRef(module, "Point", static_cast<PyObject *>(point_class->type));
}

PyMODINIT_FUNC MODULE_INIT(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && define_classes(module) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
