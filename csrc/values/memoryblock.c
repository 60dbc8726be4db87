/* csrc/values/memoryblock.c: implements memoryblock.h. */
#include "memoryblock.h"

#include "core/cffipointer.h"
#include "layout.h"

#include <string.h>

NcBlock *nc_block_new(Py_ssize_t bytes)
{
    NcBlock *block = PyObject_GC_NewVar(NcBlock, &NcBlock_Type, bytes);
    if (block != NULL) {
        block->kept = NULL;
        memset(block->data, 0, (size_t)bytes);
        PyObject_GC_Track(block);
    }
    return block;
}

/* allocate_block(size): return a cffi char array whose memory is a new block. The array keeps the
 * block alive. For cffi allocators. */
PyObject *nc_allocate_block(PyObject *Py_UNUSED(module), PyObject *size)
{
    static PyObject *ffi_class; /* both NULL before first use */
    static PyObject *from_buffer;
    Py_ssize_t bytes = PyLong_AsSsize_t(size);
    if (bytes < 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "the size of a memory block must not be negative");
        }
        return NULL;
    }
    PyObject *export = nc_kept(&from_buffer);
    if (NC_UNLIKELY(export == NULL)) {
        PyObject *class_ = nc_of_cffi(&ffi_class, "FFI");
        PyObject *ffi = class_ != NULL ? PyObject_CallNoArgs(class_) : NULL;
        export = ffi != NULL ? PyObject_GetAttrString(ffi, "from_buffer") : NULL;
        export = nc_keep_first(&from_buffer, export);
        Py_XDECREF(ffi);
        if (export == NULL) {
            return NULL;
        }
    }
    PyObject *block = (PyObject *)nc_block_new(bytes);
    PyObject *made = block != NULL ? PyObject_CallOneArg(export, block) : NULL;
    Py_XDECREF(block);
    return made;
}

static int block_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    return PyBuffer_FillInfo(view, object, ((NcBlock *)(void *)object)->data, Py_SIZE(object), 0,
                             flags);
}

static int block_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(((NcBlock *)(void *)object)->kept);
    return 0;
}

static int block_clear(PyObject *object)
{
    Py_CLEAR(((NcBlock *)(void *)object)->kept);
    return 0;
}

/* The trashcan limits recursion: a block may start a long chain of blocks that each keep the next
 * alive, such as a linked list in C. */
static void block_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    Py_TRASHCAN_BEGIN(object, block_dealloc);
    (void)block_clear(object);
    PyObject_GC_Del(object);
    Py_TRASHCAN_END;
}

static PyBufferProcs block_buffer = {block_getbuffer, NULL};

PyTypeObject NcBlock_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nativecall._ext.Block",
    .tp_doc = "A block of memory that keeps alive what its pointers point to.",
    .tp_basicsize = offsetof(NcBlock, data),
    .tp_itemsize = 1,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = block_traverse,
    .tp_clear = block_clear,
    .tp_dealloc = block_dealloc,
    .tp_as_buffer = &block_buffer,
};
