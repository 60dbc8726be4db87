/* csrc/core/core.h: functions for shared libraries, interned keys and packed signatures. Consumers
 * and providers do not need them, so they are not in detail/core.
 *
 * Rules: no function here touches a Python object, because callers may release the GIL. Functions
 * return status codes and set no exceptions. Any thread may call these functions once the module is
 * loaded. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Checks whether an address is an interned key, and sets the length of the key. Returns NC_OK or
 * NC_E_MISSING. */
int nc_core_interned(uintptr_t address, size_t *length);

/* nc_signature_pack, compiled once. `words` has room for NC_PACKED_MAX_WORDS. */
int nc_core_pack(const char *text, size_t length, uint64_t *words, size_t *count);

/* Opens a shared library, or the process itself if `path` is NULL. `flags` are RTLD_* of dlopen, or
 * LOAD_* on Windows; 0 selects the defaults. RTLD_NOW is added unless RTLD_LAZY is given. On
 * NC_E_MISSING, `message` (of `size` bytes) contains the reason. The library is never closed. */
int nc_core_library_open(const char *path, unsigned int flags, void **library, char *message,
                         size_t size);

/* Looks up a symbol. If `version` is not NULL, looks up that version of the symbol. Returns NC_OK,
 * NC_E_MISSING, or NC_E_FORMAT if the loader does not support versions. */
int nc_core_library_symbol(void *library, const char *name, const char *version, void **address);

/* Stores the path of a library's file, as the loader reports it. With glibc, the path of the
 * process itself is empty. Returns NC_E_MISSING if the loader reports no path. */
int nc_core_library_path(void *library, char *path, size_t size);

/* Stores the path of the file that contains an address, and the name and address of the nearest
 * symbol. If there is no symbol, the name is empty and the address 0. */
int nc_core_address_origin(void *address, char *path, char *symbol, size_t size, uintptr_t *start);
