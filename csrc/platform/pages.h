/* csrc/platform/pages.h: memory pages that are first writable and later executable, never both at
 * once.
 *
 * Threads: any thread may call these, without the GIL. */
#pragma once

#include <stddef.h>

#if defined(_WIN32)

#include <windows.h>

static inline size_t nc_page_bytes(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

/* Returns writable zeroed pages, or NULL. */
static inline void *nc_pages_map(size_t bytes)
{
    return VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

/* Unmaps some of the pages. Windows can only free all pages at once, by the address of the first
 * page. For any other address, this does nothing. */
static inline void nc_pages_unmap(void *memory, size_t bytes)
{
    (void)bytes;
    VirtualFree(memory, 0, MEM_RELEASE);
}

/* Returns 0 if the system refuses. */
static inline int nc_pages_make_executable(void *memory, size_t bytes)
{
    DWORD before;
    return VirtualProtect(memory, bytes, PAGE_EXECUTE_READ, &before) &&
           FlushInstructionCache(GetCurrentProcess(), memory, bytes);
}

#else

#include <sys/mman.h>
#include <unistd.h>

static inline size_t nc_page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static inline void *nc_pages_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static inline void nc_pages_unmap(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}

static inline int nc_pages_make_executable(void *memory, size_t bytes)
{
    if (mprotect(memory, bytes, PROT_READ | PROT_EXEC) != 0) {
        return 0;
    }
    __builtin___clear_cache((char *)memory, (char *)memory + bytes);
    return 1;
}

#endif
