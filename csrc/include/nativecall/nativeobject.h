/* nativecall/nativeobject.h: objects shared by native code and Python. Threads without the GIL can
 * create and destroy them, count references, access fields and call methods. Python sees the same
 * objects as instances of ordinary classes.
 *
 *     static NcField fields[] = {{"x", "d", offsetof(Point, x), NULL}, ...};
 *     static NcClass own = {...};                          without inherited members
 *     const NcClass *cls = nc_class_define(&own, NULL, "module", NULL);   once, with the GIL
 *
 *     NcObject *p = nc_object_new(cls);                    any thread from here on, no GIL
 *     NC_FIRST_FIELDS(p, Point)->x = 1;                    a plain load or store
 *     f = nc_object_method(p, key, &self);                 the function, by its interned key
 *     nc_object_retain(p); nc_object_release(p);
 *
 *     PyObject *object = nc_object_as_python(p);           with the GIL: a new Python reference
 *     NcObject *back = nc_object_from_python(object, cls); checked: TypeError
 *
 * Memory. Each object is one malloc block (threads cache some: detail/objectmemory.h). Its address
 * is that of its PyObject, inside the block:
 *
 *     | fields of derived classes | fields of the first base | count, class, state |
 *     | 4 words for CPython | PyObject | additions of class statements, such as __slots__
 *                             ^ object
 *
 * Fields precede the PyObject, and tp_basicsize covers only a bare object. So base layouts never
 * conflict. For a subclass without __slots__, CPython adds data after the object or in the words
 * right before it, never over a field. Code finds fields by an offset in the class's slot table
 * (detail/objectclass.h), never by a size that CPython stores.
 *
 * nc_objects_new creates many objects in one block, nc_class_stride(cls) bytes apart, each laid out
 * as above. Each has its own count and is destroyed separately. Its index in the block is a
 * constant part of its state. The block counts its live objects and is freed with the last one.
 *
 * Counts. Each object has two:
 *     native count  atomic, any thread; alone decides the lifetime: at 0, the object is destroyed
 *     ob_refcnt     CPython's, with the GIL, never read here
 *
 * Each object also has a state. NC_OBJECT_ALIVE is set while Python has references. Together,
 * Python's references own one native reference:
 *
 *     event                    requires    effect
 *     first cast to Python     not ALIVE   native +1, reinitialize the PyObject, set ALIVE
 *     further casts            ALIVE       ob_refcnt +1
 *     cast back                            native +1
 *     ob_refcnt falls to 0     ALIVE       tp_dealloc: tear down what Python added, clear ALIVE,
 *                                          native -1
 *     native count falls to 0              run destructors, release fields, free the memory
 *
 * Why each access is safe.
 *  1. Code that accesses an object holds a native reference, or a Python reference and the GIL. In
 *     the second case, Python owns a native reference: the cast takes it before the first Python
 *     reference is handed out, and only tp_dealloc drops it, when no Python reference is left. So
 *     the native count is positive during every access.
 *  2. Only the holder of a reference increments the count, so a count of 0 is final: exactly one
 *     thread sees the step from 1 to 0 and destroys the object. Decrements are acquire-release, so
 *     that thread sees all writes that others made before they released. A thread that reads 1
 *     (with acquire) holds the only reference: no other thread can change the count, so it may skip
 *     the decrement.
 *  3. Code that holds a reference accesses the state only with the GIL. The thread that destroys
 *     the object makes the last access; by point 2, all other accesses come before it. So the state
 *     need not be atomic, and the GIL orders casts from several threads.
 *  4. ob_refcnt is valid only while ALIVE, and accessed only with the GIL. The first cast calls
 *     PyObject_Init, so the earlier value does not matter: 0 -> 1 -> 0 -> 1.
 *  5. In its teardown tp_dealloc runs Python code: __del__, weak reference callbacks, destructors
 *     of values in __dict__. That code may release the GIL, and may cast the object to Python again
 *     from a native reference. When that new Python reference is dropped, ob_refcnt may fall to 0
 *     again. ENDING prevents a second teardown: while ENDING is set, a nested tp_dealloc returns at
 *     once, and a cast marks the object AGAIN. After the teardown, the outer tp_dealloc keeps an
 *     object marked AGAIN alive, without the data it lost. An object that is not marked AGAIN has
 *     no Python reference, because only a cast creates one. So Python's native reference is
 *     released. If __del__ resurrects the object, CPython handles it: ALIVE was never cleared.
 *  6. `cls` and `slots` point to read-only data that outlives the object. Either the class is
 *     immortal (`lasting`: every class that C code asked for), or its objects are created only by
 *     Python and own a reference to their type. While ALIVE is set, this is the reference to its
 *     type that every Python object owns. If Python owns the only native reference, tp_dealloc
 *     destroys the object with the GIL and then releases the type. Otherwise tp_dealloc sets HOLDS,
 *     which says that the object still owns the reference to its type. HOLDS is set before Python's
 *     native reference is released, so by point 3 the destroying thread sees HOLDS. That thread may
 *     lack the GIL, which it would need to release the type, so it pushes the memory on a lock-free
 *     list. Python drains the list when it next creates or deallocates a native object. Items are
 *     pushed singly and the list is taken whole, so there is no ABA problem.
 *  7. The garbage collector sees only what CPython added. It does not see the native references in
 *     fields. It finds a cycle through __dict__, and tears down the Python side of the objects in
 *     it as in point 5. It does not find a cycle of native references: break such a cycle by hand,
 *     as with any counted pointer. The reference to the type is visited only while Python owns the
 *     only native reference (nc_object_traverse). So while native code holds an object, its class
 *     is not collected, and everything that the class refers to stays alive. The collector does not
 *     follow references in fields, because that would be a race: native code that was called from
 *     Python may write fields at the same time, without the GIL. CPython traverses some objects
 *     without nc_object_traverse: those of a class with a plain Python base that has __slots__.
 *     Such a class is immortal.
 *
 * Python attributes. When the last Python reference goes away, the object loses its weak references
 * and its attributes in __dict__ and __slots__, even if it lives on natively. A later cast starts
 * without them. Fields stay. __del__ runs each time.
 *
 * Interpreter exit and fork. Nothing here runs at exit. Objects still referenced by Python keep
 * their native reference forever, and other threads keep theirs. Native release needs no Python and
 * may happen after finalization. A forked child has every object as it was. It never releases the
 * references of threads that exist only in the parent.
 *
 * Free-threaded builds. The native half is the same. The native count stays atomic: CPython's own
 * counts belong to threads with a thread state, and threads of C have none. The Python object is a
 * block of its own, at another address: convert pointers with the functions below. Points 3 to 5
 * are different: detail/objectnogil.h. "With the GIL" means with an attached thread state.
 *
 * Errors. Functions that return int return 0, or -1 with an exception. Functions that return a
 * pointer return NULL on failure. "GIL required" marks functions that need the GIL.
 *
 * Ownership. nc_object_new and nc_object_from_python return a native reference. NcClass pointers
 * are borrowed and immortal. */
#ifndef NATIVECALL_NATIVEOBJECT_H
#define NATIVECALL_NATIVEOBJECT_H

#include "extensibletype.h"

#include "detail/objecttype.h"

NC_C_BEGIN

/* ---- classes --------------------------------------------------------------------------------- */

/* Return the NcClass of a Python class, and make the class and its bases immortal. Return NULL with
 * TypeError on failure. GIL required. */
NC_STATIC const NcClass *nc_class_of(PyObject *type)
{
    if (nc_objects_import() < 0) {
        return NULL;
    }
    NcClass *cls = PyType_Check(type) ? nc_type_class((PyTypeObject *)(void *)type) : NULL;
    if (cls == NULL) {
        PyErr_Format(PyExc_TypeError, "%.200R is not a class of native objects", type);
        return NULL;
    }
    if (nc_load_relaxed_size(&cls->lasting) == 0) {
        Py_INCREF(type);
        nc_store_relaxed_size(&cls->lasting, 1);
    }
    return cls;
}

/* Import the package if it is installed: it provides the descriptors of fields and methods. */
NC_STATIC int nc_objects_ask_package(void)
{
    if (nc_objects->publish != NULL) {
        return 0;
    }
    PyObject *package = PyImport_ImportModule("nativecall._native_objects");
    if (package == NULL && !PyErr_ExceptionMatches(PyExc_ImportError)) {
        return -1;
    }
    PyErr_Clear();
    Py_XDECREF(package);
    return 0;
}

/* Create a class, both native and in Python. In `own`, fill in name, fields_size, fields_align,
 * create, destroy, fields and methods. Leave out inherited fields and methods. All data is copied.
 * A field's `cls` may be NC_FIELD_SELF. `bases` is a tuple of Python classes, or NULL for
 * nativecall.NativeObject. `more` is a dict of further attributes, or NULL. Objects have no
 * __dict__ unless __slots__ in `more` adds one. On failure, return NULL with an exception:
 * TypeError for conflicting bases or names, ValueError for an invalid type code, or MemoryError.
 * GIL required. */
NC_STATIC const NcClass *nc_class_define(const NcClass *own, PyObject *bases, const char *module,
                                         PyObject *more)
{
    PyObject *type = NULL;
    if (own->name == NULL || *own->name == 0) {
        PyErr_Format(PyExc_TypeError, "a class of native objects needs a name (got %s)",
                     own->name != NULL ? "an empty one" : "NULL");
        return NULL;
    }
    if (nc_objects_import() < 0 || nc_objects_ask_package() < 0) {
        return NULL;
    }
    PyObject *space = Py_BuildValue("{s:(),s:s,s:N}", "__slots__", "__module__", module,
                                    NC_CLASS_ATTRIBUTE, nc_class_capsule(own));
    if (space != NULL && (more == NULL || PyDict_Update(space, more) == 0)) {
        type = PyObject_CallFunction((PyObject *)nc_objects->metatype,
                                     bases != NULL ? "sOO" : "s(O)O", own->name,
                                     bases != NULL ? bases : (PyObject *)nc_objects->root, space);
    }
    const NcClass *made = type != NULL ? nc_class_of(type) : NULL;
    Py_XDECREF(space);
    Py_XDECREF(type);
    return made;
}

/* Store the key of the method with this name and signature, e.g. "norm" and "d:&v", in *out. The
 * signature need not be canonical. A key never changes. GIL required. */
NC_STATIC int nc_method_key(const char *name, const char *signature, const char **out)
{
    char canonical[NC_SIGNATURE_MAX_LENGTH + 1];
    size_t length = 0;
    Py_ssize_t size = 0;
    if (nc_signature_checked(signature, canonical, &length) < 0) {
        return -1;
    }
    PyObject *text = PyUnicode_FromString(name);
    if (text != NULL && PyUnicode_IsIdentifier(text) <= 0) {
        PyErr_Format(PyExc_ValueError, "the name of a method must be an identifier (got %R)", text);
        Py_CLEAR(text);
    }
    if (text != NULL) {
        Py_SETREF(text, PyUnicode_FromFormat("%U %s", text, canonical));
    }
    const char *bytes = text != NULL ? PyUnicode_AsUTF8AndSize(text, &size) : NULL;
    int status = bytes != NULL ? PyExtensibleType_Intern(bytes, size, out) : -1;
    Py_XDECREF(text);
    return status;
}

/* ---- casts ----------------------------------------------------------------------------------- */

/* Return a new Python reference to a native object. The caller keeps its native reference. Return
 * NULL with MemoryError if a free-threaded build runs out of memory. GIL required. */
NC_STATIC_INLINE PyObject *nc_object_as_python(NcObject *object)
{
    NC_OBJECT_CHECK(object, "cast to Python");
#if !defined(Py_GIL_DISABLED)
    NcObjectHead *head = nc_object_head(object);
    if (NC_LIKELY((head->state & NC_OBJECT_ALIVE) != 0)) {
        if (NC_UNLIKELY((head->state & NC_OBJECT_ENDING) != 0)) {
            head->state |= NC_OBJECT_AGAIN;
        }
        return Py_NewRef((PyObject *)object);
    }
#endif
    return nc_object_revive(object);
}

/* Return a Python object as a native object of this class (NULL: any class), a borrowed reference.
 * Return NULL without an exception if the object is of another class. First call nc_objects_import,
 * directly or through nc_class_of, nc_class_define or nc_object_from_python; otherwise the result
 * is always NULL. Hold the GIL or a reference to the object. */
NC_STATIC_INLINE NcObject *nc_object_of_python(PyObject *object, const NcClass *cls)
{
    const int native = nc_objects != NULL && nc_type_is_native(Py_TYPE(object));
    NcObject *found = native ? NC_OBJECT_GIVEN(object) : NULL;
    return native && (cls == NULL || nc_object_cast(found, cls) != NULL) ? found : NULL;
}

/* Return a Python object as a native object of this class (NULL: any class), with a new native
 * reference. Return NULL with TypeError if the object is of another class, or with the ImportError
 * of nc_objects_import. GIL required. */
NC_STATIC NcObject *nc_object_from_python(PyObject *object, const NcClass *cls)
{
    if (nc_objects_import() < 0) {
        return NULL;
    }
    NcObject *found = nc_object_of_python(object, cls);
    if (found == NULL) {
        PyErr_Format(PyExc_TypeError, "expected a native object%s%s (got %.200s)",
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

/* C++ classes as classes of native objects.
 *
 *     struct Point { double x, y; Point(double x, double y); ~Point(); };
 *     const NcClass *cls = nativecall::define<Point>("Point", "module");     once, with the GIL
 *     nativecall::Ref<Point> p = nativecall::make<Point>(cls, 1.0, 2.0);     in any thread
 *     p->x; p.object();
 *
 * The C++ object is stored in the fields of the native object: constructed in place, and destroyed
 * with the native object. A Ref owns one native reference; copying a Ref retains the object.
 * Destructors run without the GIL and must not use Python. Objects created by C code, or in Python
 * by `Point()`, are default-constructed; that constructor must not throw. If T has no default
 * constructor, the fields are zero bytes, which the destructor must accept. Errors: std::bad_alloc,
 * std::invalid_argument, and exceptions of constructors. A failed construction leaves no object. */
namespace nativecall
{
/* A pointer to the C++ part of a native object. Owns one native reference. */
template <class T> class Ref
{
    NcObject *object_ = NULL;
    T *fields_ = NULL;

  public:
    Ref() = default;
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

template <class T> void create(void *fields)
{
    new (fields) T();
}

/* Return `create<T>` if T has a default constructor, else NULL. */
template <class T> void (*creator(std::true_type))(void *)
{
    return create<T>;
}
template <class T> void (*creator(std::false_type))(void *)
{
    return NULL;
}

template <class T> void destroy(void *fields)
{
    static_cast<T *>(fields)->~T();
}

/* Define the native class of a C++ class (nc_class_define). `fields` and `methods` are the members
 * that Python and other native code can use. */
template <class T>
const NcClass *define(const char *name, const char *module, const NcField *fields = NULL,
                      size_t field_count = 0, const NcMethod *methods = NULL,
                      size_t method_count = 0, PyObject *bases = NULL)
{
    NcClass own = NcClass();
    own.name = name;
    own.fields_size = sizeof(T);
    own.fields_align = alignof(T);
    own.create = creator<T>(std::is_default_constructible<T>());
    own.destroy = destroy<T>;
    own.fields = fields;
    own.field_count = field_count;
    own.methods = methods;
    own.method_count = method_count;
    return nc_class_define(&own, bases, module, NULL);
}

/* Create an object, and construct a T in its own fields. Needs no GIL. Throws std::invalid_argument
 * for an abstract class, and for a class not made by define<T>, such as a Python subclass. The
 * check compares only the size and the presence of a destructor, because each module has its own
 * address of `destroy<T>`. */
template <class T, class... Values> Ref<T> make(const NcClass *cls, Values &&...values)
{
    if (cls->destroy == NULL || cls->fields_size != sizeof(T)) {
        throw std::invalid_argument(std::string("nativecall::make: the fields of class '") +
                                    cls->name + "' do not match this C++ class");
    }
    if ((cls->flags & NC_CLASS_ABSTRACT) != 0) {
        throw std::invalid_argument(std::string("nativecall::make: class '") + cls->name +
                                    "' cannot be instantiated: it has an abstract method");
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

/* Return the T in a native object, with a new reference. Return an empty Ref if the object is not
 * of class `cls`. */
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
