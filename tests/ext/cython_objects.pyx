# tests/ext/cython_objects.pyx: native objects in Cython, and a cdef class as a provider.
#
# Built as C and as C++. Defines Counter and Doubling, native classes, and uses objects of any class
# that derives from these, with and without the GIL. Halver offers entries and slots by attributes.

from cpython.exc cimport PyErr_Occurred
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport uintptr_t

cimport nativecall as nc
from nativecall cimport NcClass, NcObject, PyNativeCallableEntry

ctypedef struct Count:
    long count
    double step
    NcObject *parent

ctypedef long (*Add)(void *self, long n) noexcept nogil

cdef const NcClass *counter = NULL
cdef const NcClass *doubling = NULL
cdef const char *add_key = NULL
cdef int alive = 0


cdef int pass_on() except -1:
    return -1 if PyErr_Occurred() != NULL else 0


# ---- native classes ------------------------------------------------------------------------------

cdef void create(void *fields) noexcept nogil:
    global alive
    alive += 1
    (<Count *>fields).step = 1.0


cdef void destroy(void *fields) noexcept nogil:
    global alive
    alive -= 1


cdef long counter_add(void *self, long n) noexcept nogil:
    cdef Count *fields = <Count *>self
    fields.count += n
    return fields.count


cdef long doubling_add(void *self, long n) noexcept nogil:
    cdef void *base = NULL
    cdef Add add = <Add>nc.nc_object_super(<NcObject *>self, doubling, add_key, &base)
    return add(base, 2 * n)


cdef NcClass counter_own
cdef NcClass doubling_own
cdef nc.NcField counter_fields[3]
cdef nc.NcMethod counter_methods[1]
cdef nc.NcMethod doubling_methods[1]


cdef define():
    global counter, doubling
    nc.nc_method_key("add", "l:&vl", &add_key)
    cdef Count place
    counter_fields[0].name, counter_fields[0].type = "count", "l"
    counter_fields[1].name, counter_fields[1].type = "step", "d"
    counter_fields[1].offset = <char *>&place.step - <char *>&place
    counter_fields[2].name, counter_fields[2].cls = "parent", nc.NC_FIELD_SELF
    counter_fields[2].offset = <char *>&place.parent - <char *>&place
    counter_methods[0].key = doubling_methods[0].key = add_key
    counter_methods[0].function = <void *>&counter_add
    counter_methods[0].takes_fields = True
    doubling_methods[0].function = <void *>&doubling_add
    doubling_methods[0].flags = 0
    counter_own.name = "Counter"
    counter_own.fields_size, counter_own.fields_align = sizeof(Count), sizeof(void *)
    counter_own.create, counter_own.destroy = create, destroy
    counter_own.fields, counter_own.field_count = counter_fields, 3
    counter_own.methods, counter_own.method_count = counter_methods, 1
    counter = nc.nc_class_define(&counter_own, NULL, "cython_objects", NULL)
    doubling_own.name = "Doubling"
    doubling_own.methods, doubling_own.method_count = doubling_methods, 1
    bases = (<object>counter.type,)
    doubling = nc.nc_class_define(&doubling_own, <PyObject *>bases, "cython_objects", NULL)
    return <object>counter.type, <object>doubling.type


Counter, Doubling = define()


# ---- objects -------------------------------------------------------------------------------------

def living():
    return alive


def total(given, int times):
    """count, after so many calls of add without the GIL; of the object's own class."""
    cdef NcObject *obj = nc.nc_object_from_python(given, counter)
    cdef size_t position = nc.nc_class_position(counter, add_key)
    cdef void *self = NULL
    cdef Add add
    cdef long count
    with nogil:
        add = <Add>nc.nc_object_method(obj, add_key, &self)
        for _ in range(times):
            add = <Add>nc.nc_object_method_at(obj, add_key, position, &self)
            add(self, 1)
        count = (<Count *>nc.nc_object_cast(obj, counter)).count
        nc.nc_object_release(obj)
    pass_on()
    return count


def make(type, long count):
    """A new object of a class, with a parent of its own, made without the GIL."""
    cdef const NcClass *cls = nc.nc_class_of(type)
    cdef NcObject *obj
    cdef NcObject *parent
    with nogil:
        obj = nc.nc_object_new(cls)
        parent = nc.nc_object_new(counter)
        (<Count *>nc.nc_object_cast(obj, counter)).count = count
        nc.nc_reference_set(&(<Count *>nc.nc_object_cast(obj, counter)).parent, parent)
        nc.nc_object_retain(parent)
        nc.nc_object_release(parent)
        nc.nc_object_release(parent)
    made = nc.nc_object_as_python(obj)
    nc.nc_object_release(obj)
    return made


def make_block(size_t count):
    """So many objects in one block, the first of which is everybody's parent."""
    cdef NcObject *first
    cdef NcObject *obj
    cdef size_t stride = nc.nc_class_stride(counter)
    cdef size_t i
    with nogil:
        first = nc.nc_objects_new(counter, count)
        for i in range(1, count):
            obj = <char *>first + i * stride
            nc.nc_object_retain(first)
            nc.nc_reference_give(&(<Count *>nc.nc_object_cast(obj, counter)).parent, first)
    made = []
    for i in range(count):
        obj = <char *>first + i * stride
        made.append(nc.nc_object_as_python(obj))
        nc.nc_object_release(obj)
    return made


def kind(obj):
    """The class that native code sees, None for objects of Python alone."""
    cdef NcObject *found = nc.nc_object_of_python(obj, counter)
    return <object>nc.nc_object_class(found).type if found != NULL else None


# ---- a provider ----------------------------------------------------------------------------------

cdef double half(double x) noexcept nogil:
    return x / 2


cdef PyNativeCallableEntry entries[2]
cdef nc.PyCustomSlot rows[2]
cdef nc.NcNativeApi api


cdef class Halver:
    def __call__(self, double x):
        return half(x)


cdef const PyNativeCallableEntry *find(
        PyObject *obj, const char *signature, uintptr_t refuse) noexcept nogil:
    return nc.nc_provided(entries, signature, refuse, 0)


cdef const PyNativeCallableEntry *entry_at(PyObject *obj, size_t position) noexcept nogil:
    return nc.nc_provided(entries, NULL, 0, position)


entries[0].signature = "d:d"
entries[0].funcptr = <void *>&half
api.size, api.name, api.find, api.entry = sizeof(api), nc.NC_NATIVEAPI_NAME, find, entry_at
nc.nc_provide(<void *>Halver, &api, 0)
rows[0].id, rows[0].data.flags = nc.PYCUSTOMSLOT_ID(5, 0x102, 1), 9
nc.nc_provide_slots(<PyTypeObject *>Halver, rows)


def ask(obj):
    """The word in the row of Halver's key, or None."""
    nc.PyCustomSlots_Import()
    cdef const nc.PyCustomSlot *row = nc.PyCustomSlots_Ask(obj, rows[0].id, 0)
    return row.data.flags if row != NULL else None
