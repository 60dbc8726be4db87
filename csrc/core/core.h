/* csrc/core/core.h: functions beyond the headers in detail/core, for interned keys of the process
 * and for shared libraries. module.c exposes them to Python as objects.
 *
 * Rules: nothing here touches a Python object, because cffi releases the GIL around each call.
 * Functions return status codes and set no exceptions. Any thread may call these functions once the
 * module is loaded. */
#ifndef NC_CORE_H
#define NC_CORE_H

#include <stddef.h>
#include <stdint.h>

/* Checks whether an address is an interned key, and sets the length of the key. Returns NC_OK or
 * NC_E_MISSING. */
int nc_core_interned(uintptr_t address, size_t *length);

/* nc_signature_pack, compiled once. `words` has room for NC_PACKED_MAX_WORDS. */
int nc_core_pack(const char *text, size_t length, uint64_t *words, size_t *count);

/* Opens a shared library; a path of NULL is the process itself. `flags` are the loader's, or 0 for
 * the defaults: RTLD_* of dlopen, where RTLD_NOW is added unless RTLD_LAZY is given; LOAD_* on
 * Windows. On NC_E_MISSING, `message` (of `size` bytes) is the reason. The library is never
 * closed. */
int nc_core_library_open(const char *path, unsigned int flags, void **library, char *message,
                         size_t size);

/* Looks up a symbol, or the given version of it if `version` is not NULL. NC_OK, NC_E_MISSING, or
 * NC_E_FORMAT if the loader does not support versions. */
int nc_core_library_symbol(void *library, const char *name, const char *version, void **address);

/* The file of a library, as the loader reports it; empty for the process itself. */
int nc_core_library_path(void *library, char *path, size_t size);

/* The file that contains an address, and the nearest symbol's name and address; zero if unknown. */
int nc_core_address_origin(void *address, char *path, char *symbol, size_t size, uintptr_t *start);

#endif
