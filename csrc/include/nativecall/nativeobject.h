/* nativecall/nativeobject.h: objects of both worlds: threads without the GIL make them, count them,
 * read and write their fields, call their methods and end them; Python has the same ones as
 * ordinary objects of ordinary classes.
 *
 *     static NcField fields[] = {{"x", "d", offsetof(Point, x), NULL}, ...};
 *     static NcClass own = {...};                          what the class itself has
 *     const NcClass *cls = nc_class_define(&own, NULL, "module", NULL);   once, with the GIL
 *
 *     NcObject *p = nc_object_new(cls);                    from here on in any thread, no GIL
 *     NC_FIRST_FIELDS(p, Point)->x = 1;                    a plain load or store
 *     f = nc_object_method(p, key, &self);                 the function, by its interned key
 *     nc_object_retain(p); nc_object_release(p);
 *
 *     PyObject *object = nc_object_as_python(p);           with the GIL: the same address
 *     NcObject *back = nc_object_from_python(object, cls); checked: TypeError
 *
 * Memory. One block of malloc's, of which threads keep some (detail/objectmemory.h), and the
 * object's address, which is its PyObject's, is inside:
 *
 *     | fields of derived classes | fields of the first base | count, class, state |
 *     | 4 words for CPython | PyObject | what a class statement added: __slots__ and the like
 *                             ^ object
 *
 * Fields lie before the object, and CPython is told of a bare one (tp_basicsize). So bases never
 * conflict, and what CPython adds for a subclass without __slots__, it adds behind the object or in
 * the words right before it, never over a field. Fields are found by the class's offset, a row of
 * its slot table (detail/objectclass.h), never by a size that CPython knows.
 *
 * nc_objects_new makes many objects in one block, each as above and nc_class_stride(cls) bytes
 * after the one before. Each is counted and ends by itself; which one of its block it is stands in
 * its state, and never changes; the block counts those that have not ended, and goes with the last.
 *
 * Counts. Each object has two:
 *
 *     native count  atomic, any thread; the object lives while it is above 0: it alone decides
 *     ob_refcnt     CPython's, with the GIL, never read here
 *
 * and a state, of which NC_OBJECT_ALIVE says that Python has references. Then one of the native
 * references is Python's, as a whole:
 *
 *     first cast to Python     not ALIVE   native +1, the PyObject is made anew, ALIVE
 *     further casts            ALIVE       ob_refcnt +1
 *     cast back                            native +1
 *     ob_refcnt falls to 0     ALIVE       tp_dealloc: what Python added is taken down, not ALIVE,
 *                                          native -1
 *     native count falls to 0              destructors, references of fields, the memory
 *
 * Why each access is safe.
 *  1. Who touches an object holds a native reference, or a Python reference and the GIL. In the
 *     latter case ALIVE's native reference is there: it was added before the first Python reference
 *     was handed out, and tp_dealloc, which takes it away, only runs when no Python reference is
 *     left. So the native count is above 0 for everybody who touches the object.
 *  2. The count only rises by somebody who holds a reference, so once it is 0 it stays 0: one
 *     thread sees the step from 1 to 0, and ends the object, once. Decrements release and acquire:
 *     what any holder wrote before its release is seen by the thread that ends the object. A thread
 *     that reads 1 (with acquire) holds the only reference; nobody else can change it, and the
 *     decrement can be left out.
 *  3. The state is read and written with the GIL by somebody who holds a reference, and at last by
 *     the thread that ends the object, which by 2 is after all of that. So it is not atomic, and
 *     casts from several threads that each have the GIL in turn see one another's.
 *  4. ob_refcnt means something only while ALIVE, and is touched only with the GIL. A first cast
 *     makes the PyObject anew by PyObject_Init, so what it was does not matter: 0 -> 1 -> 0 -> 1.
 *  5. While tp_dealloc takes down what Python added it runs Python code (__del__, callbacks of weak
 *     references, destructors of values in __dict__), which may drop the GIL, and may cast the
 *     object to Python again by a native reference. CPython's count is 0 then, so it would fall to
 *     0 again. Hence ENDING: a nested tp_dealloc returns at once, and a cast marks the object
 *     AGAIN. The outer one, once all is taken down, lets an object AGAIN live on, without what it
 *     lost; else nobody has a reference, for the only source of one is a cast. Python's native
 *     reference is given back after that. An object that __del__ revives is CPython's own matter:
 *     ALIVE never ended.
 *  6. What cls and slots lead to is read only and outlives the object: a class either lasts as long
 *     as the process (`lasting`, which every class has that C code asked for), or its
 *     objects, which only Python makes, own a reference to their type: CPython's while ALIVE, and
 *     after that HOLDS. HOLDS is set before Python's native reference goes (by 3 the ending thread
 *     sees it); where by 2 that is the only one, the object ends there, with the GIL, and the type
 *     is given back behind it. Any other such object takes the GIL to give the type back when it
 *     ends; a thread without it puts the memory in a list (lock-free, pushed one by one and taken
 *     whole, so no ABA), which the next holder of the GIL who makes or ends an object drains.
 *  7. The collector only knows what CPython added: references in fields are native and no part of
 *     it. A cycle through __dict__ is found, and its Python side ends as in 5; a cycle of native
 *     references is not, as with every counted pointer: break one by hand. The reference to the
 *     type is told to the collector only while ALIVE's is the one native reference
 *     (nc_object_traverse): so a class whose object native code has is never taken for garbage,
 *     nor what the class refers to. Nor are fields looked through for objects that only they refer
 *     to: native code that Python called may write them meanwhile, without the GIL and without a
 *     reference of its own. A class whose objects CPython would traverse without asking us, one of
 *     a plain base with __slots__, lasts as long as the process.
 *
 * What ends with the Python side. __dict__, __slots__ of class statements and weak references: when
 * the last Python reference goes, weak references are dead and the attributes gone, although the
 * object lives on natively; a later cast begins with none. Fields stay. __del__ runs each time.
 *
 * Interpreter exit and fork. Nothing here runs at exit: objects that Python still had keep their
 * native reference for ever, those that other threads hold are theirs. Native release needs no
 * Python and may come after finalization. A child of fork has every object as it was; what threads
 * that are not there held is never released.
 *
 * Free-threaded builds. The native half is the same. The state needs the object's lock there, which
 * nc_object_as_python and tp_dealloc would have to take; these builds are refused
 * (nc_objects_import) until that is done.
 *
 * Errors. Functions that return int return 0, or -1 with an exception; pointers NULL. What needs
 * the GIL says so. Ownership: nc_object_new, nc_object_from_python give a native reference; NcClass
 * pointers are borrowed for ever. */
#ifndef NATIVECALL_NATIVEOBJECT_H
#define NATIVECALL_NATIVEOBJECT_H

#include "extensibletype.h"

#include "detail/objecttype.h"

NC_C_BEGIN

/* ---- classes --------------------------------------------------------------------------------- */

/* The class that native code works with, of a Python class; it and its bases last as long as the
 * process from now on. NULL with TypeError. GIL. */
NC_STATIC const NcClass *nc_class_of(PyObject *type)
{
    NcClass *cls = NULL;
    if (nc_objects_import() < 0) {
        return NULL;
    }
    if (PyType_Check(type)) {
        cls = nc_type_class((PyTypeObject *)(void *)type);
    }
    if (cls == NULL) {
        PyErr_Format(PyExc_TypeError, "%.200R is no class of native objects", type);
        return NULL;
    }
    if (!cls->lasting) {
        Py_INCREF(type);
        cls->lasting = 1;
    }
    return cls;
}

/* Descriptors of fields and methods are the package's, where it is installed. */
NC_STATIC int nc_objects_ask_package(void)
{
    PyObject *package = NULL;
    if (nc_objects->publish != NULL) {
        return 0;
    }
    package = PyImport_ImportModule("nativecall._native_objects");
    if (package == NULL && !PyErr_ExceptionMatches(PyExc_ImportError)) {
        return -1;
    }
    PyErr_Clear();
    Py_XDECREF(package);
    return 0;
}

/* Makes a class, native and Python's, of what it has itself: name, fields_size, fields_align,
 * create, destroy, fields and methods of `own`, which is copied with its name, fields and methods.
 * A field's `cls` may be NC_FIELD_SELF.
 * `bases` is a tuple of Python classes, or NULL for nativecall.NativeObject; `more` a dict of
 * further attributes (without __slots__ objects get no __dict__), or NULL. NULL with an exception:
 * TypeError for bases or names that conflict; ValueError for a type code, MemoryError. GIL. */
NC_STATIC const NcClass *nc_class_define(const NcClass *own, PyObject *bases, const char *module,
                                         PyObject *more)
{
    PyObject *space = NULL;
    PyObject *type = NULL;
    const NcClass *made = NULL;
    if (own->name == NULL || *own->name == 0) {
        PyErr_Format(PyExc_TypeError, "a class of native objects needs a name (got %s)",
                     own->name != NULL ? "an empty one" : "NULL");
        return NULL;
    }
    if (nc_objects_import() < 0 || nc_objects_ask_package() < 0) {
        return NULL;
    }
    space = Py_BuildValue("{s:(),s:s,s:N}", "__slots__", "__module__", module, NC_CLASS_ATTRIBUTE,
                          nc_class_capsule(own));
    if (space != NULL && (more == NULL || PyDict_Update(space, more) == 0)) {
        type = PyObject_CallFunction((PyObject *)nc_objects->metatype,
                                     bases != NULL ? "sOO" : "s(O)O", own->name,
                                     bases != NULL ? bases : (PyObject *)nc_objects->root, space);
    }
    made = type != NULL ? nc_class_of(type) : NULL;
    Py_XDECREF(space);
    Py_XDECREF(type);
    return made;
}

/* The key of a method: its name and its signature, which need not be canonical, e.g. "norm" and
 * "d:&v". The same for ever. GIL. */
NC_STATIC int nc_method_key(const char *name, const char *signature, const char **out)
{
    char canonical[NC_SIGNATURE_MAX_LENGTH + 1];
    size_t length = 0;
    PyObject *text;
    const char *bytes;
    Py_ssize_t size = 0;
    int status;
    if (nc_signature_checked(signature, canonical, &length) < 0) {
        return -1;
    }
    text = PyUnicode_FromString(name);
    if (text != NULL && PyUnicode_IsIdentifier(text) <= 0) {
        PyErr_Format(PyExc_ValueError, "the name of a method must be an identifier (got %R)", text);
        Py_CLEAR(text);
    }
    if (text != NULL) {
        Py_SETREF(text, PyUnicode_FromFormat("%U %s", text, canonical));
    }
    bytes = text != NULL ? PyUnicode_AsUTF8AndSize(text, &size) : NULL;
    status = bytes != NULL ? PyExtensibleType_Intern(bytes, size, out) : -1;
    Py_XDECREF(text);
    return status;
}

/* ---- casts ----------------------------------------------------------------------------------- */

/* The Python object that a native object is: a new reference. The caller's native reference stays
 * the caller's. Never fails. GIL. */
NC_STATIC_INLINE PyObject *nc_object_as_python(NcObject *object)
{
    NcObjectHead *head = nc_object_head(object);
    NC_OBJECT_CHECK(object, "cast to Python");
    if (NC_LIKELY((head->state & NC_OBJECT_ALIVE) != 0)) {
        if (NC_UNLIKELY((head->state & NC_OBJECT_ENDING) != 0)) {
            head->state |= NC_OBJECT_AGAIN;
        }
        return Py_NewRef((PyObject *)object);
    }
    return nc_object_revive(object);
}

/* Whether a Python object is a native object of this class, or of any for NULL: its own address as
 * one, borrowed; NULL without an exception, and always in a module that has not called
 * nc_objects_import, or what calls it: nc_class_of, nc_class_define, nc_object_from_python. GIL, or
 * a reference to the object. */
NC_STATIC_INLINE NcObject *nc_object_of_python(PyObject *object, const NcClass *cls)
{
    if (nc_objects == NULL || !nc_type_is_native(Py_TYPE(object)) ||
        (cls != NULL && nc_object_cast(object, cls) == NULL)) {
        return NULL;
    }
    return object;
}

/* The native object that a Python object is, with a native reference for the caller. NULL with
 * TypeError where it never was one, or is none of this class (NULL: any), or ImportError. GIL. */
NC_STATIC NcObject *nc_object_from_python(PyObject *object, const NcClass *cls)
{
    NcObject *found;
    if (nc_objects_import() < 0) {
        return NULL;
    }
    found = nc_object_of_python(object, cls);
    if (found == NULL) {
        PyErr_Format(PyExc_TypeError, "a native object%s%s is needed (got %.200s)",
                     cls != NULL ? " of class " : "", cls != NULL ? cls->name : "",
                     Py_TYPE(object)->tp_name);
        return NULL;
    }
    nc_object_retain(found);
    return found;
}

NC_C_END

#if defined(__cplusplus)
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

/* A C++ class as a class of native objects.
 *
 *     struct Point { double x, y; Point(double x, double y); ~Point(); };
 *     const NcClass *cls = nativecall::define<Point>("Point", "module");     once, with the GIL
 *     nativecall::Ref<Point> p = nativecall::make<Point>(cls, 1.0, 2.0);     in any thread
 *     p->x; p.object();
 *
 * The C++ object is the class's fields: built by its constructor where they lie, destroyed when the
 * native object ends. A Ref counts one native reference; copies retain. Destructors, like all that
 * runs at an object's end, run without the GIL and touch no Python. An object that Python makes
 * (Point() there), or C code, is default-constructed, by a constructor that throws nothing; where T
 * has none it is zero bytes, which the destructor must bear.
 * Errors: std::bad_alloc, std::invalid_argument, and what constructors throw; nothing is left
 * half-made. */
namespace nativecall
{

/* A pointer to the C++ part of a native object that holds one native reference. */
template <class T> class Ref
{
    NcObject *object_;
    T *fields_;

  public:
    Ref() : object_(NULL), fields_(NULL)
    {
    }
    /* Takes over a native reference. */
    Ref(NcObject *object, T *fields) : object_(object), fields_(fields)
    {
    }
    Ref(const Ref &other) : object_(other.object_), fields_(other.fields_)
    {
        if (object_ != NULL) {
            nc_object_retain(object_);
        }
    }
    Ref(Ref &&other) noexcept : object_(other.object_), fields_(other.fields_)
    {
        other.object_ = NULL;
        other.fields_ = NULL;
    }
    Ref &operator=(Ref other) noexcept
    {
        std::swap(object_, other.object_);
        std::swap(fields_, other.fields_);
        return *this;
    }
    ~Ref()
    {
        if (object_ != NULL) {
            nc_object_release(object_);
        }
    }
    T *operator->() const
    {
        return fields_;
    }
    T &operator*() const
    {
        return *fields_;
    }
    explicit operator bool() const
    {
        return object_ != NULL;
    }
    /* Borrowed. */
    NcObject *object() const
    {
        return object_;
    }
};

template <class T, bool possible> struct Creator {
    static void create(void *fields)
    {
        new (fields) T();
    }
    static void (*function())(void *)
    {
        return create;
    }
};

template <class T> struct Creator<T, false> {
    static void (*function())(void *)
    {
        return NULL;
    }
};

template <class T> void destroy(void *fields)
{
    static_cast<T *>(fields)->~T();
}

/* Makes the class of a C++ class: nc_class_define. `fields` and `methods` are what Python and other
 * native code know of it. */
template <class T>
const NcClass *define(const char *name, const char *module, const NcField *fields = NULL,
                      size_t field_count = 0, const NcMethod *methods = NULL,
                      size_t method_count = 0, PyObject *bases = NULL)
{
    NcClass own = NcClass();
    own.name = name;
    own.fields_size = sizeof(T);
    own.fields_align = alignof(T);
    own.create = Creator<T, std::is_default_constructible<T>::value>::function();
    own.destroy = destroy<T>;
    own.fields = fields;
    own.field_count = field_count;
    own.methods = methods;
    own.method_count = method_count;
    return nc_class_define(&own, bases, module, NULL);
}

/* A new object whose own fields are made by T's constructor. No GIL. std::invalid_argument for a
 * class that define<T> has not made, such as a subclass of Python's, and for an abstract one.
 * Modules have `destroy<T>` at different addresses each, so what is compared is that there is one,
 * and the size. */
template <class T, class... Values> Ref<T> make(const NcClass *cls, Values &&...values)
{
    if (cls->destroy == NULL || cls->fields_size != sizeof(T)) {
        throw std::invalid_argument(std::string("nativecall::make: the fields of class '") +
                                    cls->name + "' are not those of this C++ class");
    }
    if ((cls->flags & NC_CLASS_ABSTRACT) != 0) {
        throw std::invalid_argument(std::string("nativecall::make: class '") + cls->name +
                                    "' has no objects: a method of it is abstract");
    }
    NcObject *object = nc_object_make(cls);
    if (object == NULL) {
        throw std::bad_alloc();
    }
    nc_object_create(object, 1);
    void *fields = static_cast<char *>(object) + cls->offset;
    try {
        new (fields) T(std::forward<Values>(values)...);
    } catch (...) {
        nc_object_destroy(object, 1);
        nc_object_free(object);
        throw;
    }
    return Ref<T>(object, static_cast<T *>(fields));
}

/* The T in a native object, with a reference; empty where it is none of cls. */
template <class T> Ref<T> cast(NcObject *object, const NcClass *cls)
{
    void *fields = nc_object_cast(object, cls);
    if (fields == NULL) {
        return Ref<T>();
    }
    nc_object_retain(object);
    return Ref<T>(object, static_cast<T *>(fields));
}

} /* namespace nativecall */

#endif

#endif
