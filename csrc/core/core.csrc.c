/* csrc/core/core.csrc.c: what cffi puts before its wrapper of the core: the declarations, and the
 * functions of cffipointer.h, which nothing but a wrapper of cffi's can have. */
#include "core/core_prelude.h"
#include "core/cffipointer.h"

PyObject *nc_cffi_pointer(void *address, PyObject *type)
{
    return _cffi_from_c_pointer((char *)address, (struct _cffi_ctypedescr *)(void *)type);
}

void *nc_cffi_address(PyObject *pointer, PyObject *type)
{
    return _cffi_to_c_pointer(pointer, (struct _cffi_ctypedescr *)(void *)type);
}
