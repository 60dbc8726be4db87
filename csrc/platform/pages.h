/* csrc/platform/pages.h: pages of memory that are written, and then made executable.
 *
 * A page is written first and executable afterwards, never both at once. Any thread may call these;
 * none needs the GIL. */
#ifndef NC_PAGES_H
#define NC_PAGES_H

#include <stddef.h>

#if defined(_WIN32)

#include <windows.h>

static inline size_t nc_page_bytes(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

/* Zeros to be written, or NULL. */
static inline void *nc_pages_map(size_t bytes)
{
    return VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

/* Unmaps a part; here all of it, by its start, and nothing where another part begins. */
static inline void nc_pages_unmap(void *memory, size_t bytes)
{
    (void)bytes;
    VirtualFree(memory, 0, MEM_RELEASE);
}

/* 0 where the system refuses that. */
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

#endif
