/* csrc/core/core.c: looks up interned keys, and opens and searches shared libraries on POSIX and
 * Windows (core.h). */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* dladdr, dlinfo */
#endif

#include <Python.h>

#include "nativecall/detail/core/intern.h"
#include "nativecall/detail/core/runtime.h"

#include "core.h"

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#if defined(__linux__)
#include <link.h>
#endif
#endif

/* Scans the whole registry. Slow, so for introspection only. */
int nc_core_interned(uintptr_t address, size_t *length)
{
    const NcInternTable *table =
        (const NcInternTable *)nc_load_acquire_ptr(&nc_runtime->registry->table);
    for (size_t i = 0; i <= table->mask; i++) {
        const char *known = (const char *)nc_load_acquire_ptr(&nc_intern_cells(table)[i]);
        if (known != NULL && (uintptr_t)(const void *)known == address) {
            *length = nc_interned_length(known);
            return NC_OK;
        }
    }
    return NC_E_MISSING;
}

static void copy_text(char *out, size_t size, const char *text)
{
    if (size != 0) {
        strncpy(out, text, size - 1);
        out[size - 1] = '\0';
    }
}

#if defined(_WIN32)

int nc_core_library_open(const char *path, unsigned int flags, void **library, char *message,
                         size_t size)
{
    wchar_t wide[32768];
    HMODULE module;
    if (path == NULL) {
        module = GetModuleHandleW(NULL);
    } else {
        if (MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, 32768) == 0) {
            copy_text(message, size, "the path is not valid UTF-8 or too long");
            return NC_E_MISSING;
        }
        module = LoadLibraryExW(wide, NULL, flags != 0 ? flags : LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
        if (module == NULL && flags == 0) {
            module = LoadLibraryW(wide);
        }
    }
    if (module == NULL) {
        char text[512];
        DWORD written = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS,
                                       NULL, GetLastError(), 0, text, sizeof text, NULL);
        copy_text(message, size, written != 0 ? text : "LoadLibrary failed");
        return NC_E_MISSING;
    }
    *library = (void *)module;
    return NC_OK;
}

int nc_core_library_symbol(void *library, const char *name, const char *version, void **address)
{
    if (version != NULL) {
        return NC_E_FORMAT;
    }
    *address = (void *)(uintptr_t)GetProcAddress((HMODULE)library, name);
    return *address != NULL ? NC_OK : NC_E_MISSING;
}

int nc_core_library_path(void *library, char *path, size_t size)
{
    wchar_t wide[32768];
    DWORD length = GetModuleFileNameW((HMODULE)library, wide, 32768);
    if (length == 0 || length >= 32768 ||
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, (int)size, NULL, NULL) == 0) {
        return NC_E_MISSING;
    }
    return NC_OK;
}

int nc_core_address_origin(void *address, char *path, char *symbol, size_t size, uintptr_t *start)
{
    HMODULE module = NULL;
    if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                                GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                            (LPCWSTR)address, &module)) {
        return NC_E_MISSING;
    }
    *start = 0;
    copy_text(symbol, size, "");
    return nc_core_library_path((void *)module, path, size);
}

#else

int nc_core_library_open(const char *path, unsigned int flags, void **library, char *message,
                         size_t size)
{
    int mode = (int)flags;
    if ((mode & (RTLD_LAZY | RTLD_NOW)) == 0) {
        mode |= RTLD_NOW;
    }
    void *handle = dlopen(path, mode);
    if (handle == NULL) {
        const char *why = dlerror();
        copy_text(message, size, why != NULL ? why : "dlopen failed");
        return NC_E_MISSING;
    }
    *library = handle;
    return NC_OK;
}

int nc_core_library_symbol(void *library, const char *name, const char *version, void **address)
{
    (void)dlerror();
    if (version != NULL) {
#if (defined(__linux__) && defined(__GLIBC__)) || defined(__FreeBSD__)
        *address = dlvsym(library, name, version);
#else
        return NC_E_FORMAT;
#endif
    } else {
        *address = dlsym(library, name);
    }
    return *address != NULL ? NC_OK : NC_E_MISSING;
}

int nc_core_library_path(void *library, char *path, size_t size)
{
#if defined(__linux__) && defined(__GLIBC__)
    struct link_map *map = NULL;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != NULL && map->l_name != NULL) {
        copy_text(path, size, map->l_name);
        return NC_OK;
    }
#else
    (void)library;
    (void)path;
    (void)size;
#endif
    return NC_E_MISSING;
}

int nc_core_address_origin(void *address, char *path, char *symbol, size_t size, uintptr_t *start)
{
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL) {
        return NC_E_MISSING;
    }
    copy_text(path, size, info.dli_fname);
    copy_text(symbol, size, info.dli_sname != NULL ? info.dli_sname : "");
    *start = (uintptr_t)info.dli_saddr;
    return NC_OK;
}

#endif
