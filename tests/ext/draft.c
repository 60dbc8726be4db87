/* tests/ext/draft.c: a provider and consumer of SEP 200's earlier draft, written from it: the metaclass
 * `extensibletype_v1` at sys.modules["_extensibletype"] and nothing else, types with a count and an
 * array of rows, found by bit 22 of tp_flags and a scan.
 *
 *     Thing             a static type with one row
 *     find(obj)         the data of that row, or None
 *
 * It shares no header with the product. Such a module has to come first: a metaclass that is there
 * already would be taken for one of the draft's layout. */
#include "module.h"

#define IS_EXTENSIBLE (1UL << 22)
#define ROW_ID ((uintptr_t)0x05000003)

typedef struct {
    uintptr_t id;
    union {
        void *pointer;
        Py_ssize_t objoffset;
        uintptr_t flags;
    } data;
} CustomSlot;

typedef struct {
    PyHeapTypeObject etp_heaptype;
    Py_ssize_t etp_count;
    CustomSlot *etp_custom_slots;
} HeapExtensibleType;

static PyTypeObject metatype = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "draft.extensibletype"};
static HeapExtensibleType Thing;
static CustomSlot slots[] = {{1, {NULL}}, {ROW_ID, {NULL}}};

/* A Python class has its base's rows. */
static int inherits(PyObject *object, PyObject *args, PyObject *kwargs)
{
    HeapExtensibleType *self = (HeapExtensibleType *)(void *)object;
    PyTypeObject *base = ((PyTypeObject *)(void *)object)->tp_base;
    if (PyType_Type.tp_init(object, args, kwargs) < 0) {
        return -1;
    }
    if (PyObject_TypeCheck((PyObject *)base, &metatype)) {
        self->etp_count = ((HeapExtensibleType *)(void *)base)->etp_count;
        self->etp_custom_slots = ((HeapExtensibleType *)(void *)base)->etp_custom_slots;
        ((PyTypeObject *)(void *)object)->tp_flags |= IS_EXTENSIBLE;
    }
    return 0;
}

static PyObject *find(PyObject *Py_UNUSED(module), PyObject *obj)
{
    HeapExtensibleType *type = (HeapExtensibleType *)(void *)Py_TYPE(obj);
    Py_ssize_t i;
    if ((Py_TYPE(obj)->tp_flags & IS_EXTENSIBLE) == 0 ||
        !PyObject_TypeCheck((PyObject *)type, &metatype)) {
        Py_RETURN_NONE;
    }
    for (i = 0; i < type->etp_count; i++) {
        if (type->etp_custom_slots[i].id == ROW_ID) {
            return PyLong_FromSsize_t(type->etp_custom_slots[i].data.objoffset);
        }
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"find", find, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = MODULE_DEFINITION(methods);

PyMODINIT_FUNC MODULE_INIT(void)
{
    PyTypeObject *type = &Thing.etp_heaptype.ht_type;
    PyObject *meeting = PyImport_AddModule("_extensibletype");
    PyObject *module;
    metatype.tp_basicsize = (Py_ssize_t)sizeof(HeapExtensibleType);
    metatype.tp_itemsize = PyType_Type.tp_itemsize;
    metatype.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    metatype.tp_base = &PyType_Type;
    metatype.tp_init = inherits;
    if (meeting == NULL || PyType_Ready(&metatype) < 0 ||
        PyObject_SetAttrString(meeting, "extensibletype_v1", (PyObject *)&metatype) < 0) {
        return NULL;
    }
    slots[1].data.objoffset = 99;
    Thing.etp_count = 2;
    Thing.etp_custom_slots = slots;
    type->tp_name = MODULE_NAME ".Thing";
    type->tp_basicsize = (Py_ssize_t)sizeof(PyObject);
    type->tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type->tp_new = PyType_GenericNew;
    Py_SET_REFCNT((PyObject *)type, 1);
    Py_SET_TYPE((PyObject *)type, &metatype);
    if (PyType_Ready(type) < 0) {
        return NULL;
    }
    type->tp_flags |= IS_EXTENSIBLE;
    module = PyModule_Create(&definition);
    if (module == NULL) {
        return NULL;
    }
    if (PyModule_AddObjectRef(module, "Thing", (PyObject *)type) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
