#include "core/core_prelude.h"

/* cffi's own way to make a pointer, which only its wrapper has; records.h. */
PyObject *nc_cffi_pointer(void *address, PyObject *type)
{
    return _cffi_from_c_pointer((char *)address, (struct _cffi_ctypedescr *)(void *)type);
}
