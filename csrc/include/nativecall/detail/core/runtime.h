/* nativecall/detail/core/runtime.h: how a consumer finds the runtime of its process: the
 * metaclass and the registry, which a provider's extensibletype.h brings. */
#ifndef NATIVECALL_RUNTIME_H
#define NATIVECALL_RUNTIME_H

#include <Python.h>

#include "../../nativecall_abi.h"
#include "lookup.h"

NC_C_BEGIN

/* Looks for the runtime, unless it is known: 1; 0 while nobody has brought one that suits, and
 * nothing is extensible. Never an exception. To be called with the GIL whenever an object comes
 * in. */
NC_STATIC_INLINE int PyCustomSlots_Import(void)
{
    return NC_LIKELY(nc_runtime != NULL) || nc_abi_intern("") != NULL;
}

/* Interns a key in the process's registry: *out lives for ever and is the same for equal bytes,
 * whichever module asks; it is NULL while there is no runtime. 0, or -1 with MemoryError or
 * ValueError. Looks for the runtime first, so with the GIL until it is known. */
NC_STATIC int nc_key_intern(const char *bytes, size_t length, const char **out)
{
    int status = 0;
    *out = NULL;
    if (PyCustomSlots_Import()) {
        status = nc_runtime->intern(nc_runtime->registry, bytes, length, out);
    }
    if (status == -1) {
        PyErr_NoMemory();
    } else if (status != 0) {
        PyErr_Format(PyExc_ValueError,
                     "a key of %zu bytes is too long to intern; the limit is 65535", length);
    }
    return status == 0 ? 0 : -1;
}

/* The same for a canonical signature (docs/abi/signatures.md). To be done when an object comes in,
 * so that the module may come before the first provider. */
NC_STATIC int nc_signature_intern(const char *signature, const char **out)
{
    return nc_key_intern(signature, strlen(signature), out);
}

NC_C_END

#endif
