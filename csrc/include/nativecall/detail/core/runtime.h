/* nativecall/detail/core/runtime.h: finds the runtime of the process, for consumers: the metaclass
 * and the registry of interned keys. A provider publishes it with extensibletype.h. */
#ifndef NATIVECALL_RUNTIME_H
#define NATIVECALL_RUNTIME_H

#include <Python.h>

#include "../../nativecall_abi.h"
#include "lookup.h"

NC_C_BEGIN

/* Look for the runtime, unless it was found before. Return 1, or 0 if no compatible runtime is
 * published. Without a runtime, no type has slots. Never raises. Call it with the GIL for each
 * object you receive. */
NC_STATIC_INLINE int PyCustomSlots_Import(void)
{
    return NC_LIKELY(nc_runtime != NULL) || nc_abi_intern("") != NULL;
}

/* Intern a key in the process's registry. Store the interned copy in *out: it is immortal, and
 * equal bytes have one copy in all modules. Store NULL if there is no runtime. Return 0, or -1 with
 * MemoryError or ValueError. Looks for the runtime first, which needs the GIL until it is known. */
NC_STATIC int nc_key_intern(const char *bytes, size_t length, const char **out)
{
    const char *interned = NULL;
    int status = 0;
    if (PyCustomSlots_Import()) {
        status = nc_runtime->intern(nc_runtime->registry, bytes, length, &interned);
    }
    *out = interned; /* once, since threads may share the variable */
    if (status == -1) {
        PyErr_NoMemory();
    } else if (status != 0) {
        PyErr_Format(PyExc_ValueError,
                     "a key of %zu bytes is too long to intern; the limit is 65535", length);
    }
    return status == 0 ? 0 : -1;
}

/* Like nc_key_intern, for a canonical signature (docs/abi/signatures.md): ValueError if it has
 * white space or one of clLnN, which no entry has. Call it when you receive an object, not at
 * import: your module may be imported before the first provider. */
NC_STATIC int nc_signature_intern(const char *signature, const char **out)
{
    if (strpbrk(signature, " \t\nclLnN") != NULL) {
        *out = NULL;
        PyErr_Format(PyExc_ValueError, "signature '%s' is not in canonical form", signature);
        return -1;
    }
    return nc_key_intern(signature, strlen(signature), out);
}

NC_C_END

#endif
