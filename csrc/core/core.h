/* csrc/core/core.h: what the core has beyond the headers in detail/core: a search of the process's
 * interned keys, and shared libraries, which module.c gives to Python as objects.
 *
 * Rules: nothing here touches a Python object, because cffi drops the GIL around each call; status
 * codes, never exceptions. Everything may be called from any thread, once the module is loaded. */
#ifndef NC_CORE_H
#define NC_CORE_H

#include <stddef.h>
#include <stdint.h>

/* Whether an address is an interned key: its length then. NC_OK or NC_E_MISSING. */
int nc_core_interned(uintptr_t address, size_t *length);

/* nc_signature_pack, compiled once: words for NC_PACKED_MAX_WORDS. */
int nc_core_pack(const char *text, size_t length, uint64_t *words, size_t *count);

/* Opens a shared library; path NULL is the process itself. `flags` are the loader's (RTLD_* of
 * dlopen, where neither RTLD_LAZY nor RTLD_NOW means the latter; LOAD_* on Windows), 0 for the
 * usual ones. On NC_E_MISSING `message` (of `size` bytes) says why. The library is never closed. */
int nc_core_library_open(const char *path, unsigned int flags, void **library, char *message,
                         size_t size);

/* The address of a symbol, of that version of it where `version` is not NULL. NC_OK, NC_E_MISSING,
 * or NC_E_FORMAT where the loader knows no versions. */
int nc_core_library_symbol(void *library, const char *name, const char *version, void **address);

/* The file a library was loaded from, as the loader names it; empty for the process itself. */
int nc_core_library_path(void *library, char *path, size_t size);

/* The file that an address lies in, and the nearest symbol's name and address, zero if unknown. */
int nc_core_address_origin(void *address, char *path, char *symbol, size_t size, uintptr_t *start);

#endif
