/* csrc/codegen/objectfile.c: loads object files of generated code without a linker, if they have no
 * external references.
 *
 * Code that nativecall/_codegen generates needs no linker, because it calls functions only through
 * addresses that it gets at run time (symbols.h). Linking with LLVM would load LLVM, and would take
 * a sixth of a millisecond per file.
 *
 * The loader checks every offset and size in a file before it uses them, so a truncated or modified
 * file cannot crash the loader. The loader copies the needed sections to new pages. It resolves the
 * references between the sections. Finally, it makes the pages executable and not writable. */
#include "platform/functions.h"

#include "platform/pages.h"
#include "nativecall/detail/compat.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* has_room(bytes): whether `bytes` of memory can be mapped now. Does not touch the memory. Mapping
 * fails if it would exceed the process's limit on address space. */
PyObject *nc_has_room(PyObject *Py_UNUSED(module), PyObject *bytes)
{
    size_t wanted = PyLong_AsSize_t(bytes);
    void *found = PyErr_Occurred() ? NULL : nc_pages_map(wanted);
    if (found != NULL) {
        nc_pages_unmap(found, wanted);
    }
    return PyErr_Occurred() ? NULL : PyBool_FromLong(found != NULL);
}

/* code_refused(): returns a str: the reason why a page that was written to cannot be made
 * executable, or "" if it can be made executable. The answer may change: a process may lose this
 * right when it drops privileges. */
PyObject *nc_code_refused(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    size_t bytes = nc_page_bytes();
    char *memory = (char *)nc_pages_map(bytes);
    PyObject *text = NULL;
    if (memory == NULL) {
        return PyErr_NoMemory();
    }
    memory[0] = 1; /* some systems refuse only pages that were written to */
    errno = 0;
    if (nc_pages_make_executable(memory, bytes)) {
        text = PyUnicode_FromString("");
    } else {
        text = PyUnicode_FromFormat("this system refuses executable memory (%s)", strerror(errno));
    }
    nc_pages_unmap(memory, bytes);
    return text;
}

#if defined(__linux__) && defined(__x86_64__)

#include <dlfcn.h>
#include <elf.h>

/* Files of one function stay far below these limits. */
enum { MOST_SECTIONS = 64, MOST_BYTES = 1 << 24 };
#define NOWHERE SIZE_MAX

typedef struct {
    const unsigned char *data;
    size_t size;
    const Elf64_Shdr *sections;
    size_t count;
    const Elf64_Sym *symbols;
    size_t symbol_count;
    const char *names; /* string table of the symbols; its last byte is 0 */
    size_t names_size;
    size_t places[MOST_SECTIONS]; /* offset of each section in memory, or NOWHERE */
    size_t bytes;                 /* size of all loaded sections */
    size_t frames;                /* offset of the unwind tables, or NOWHERE */
} File;

/* Loaded code. */
typedef struct {
    unsigned char *memory;
    size_t bytes;
    unsigned char *frames; /* the unwind tables, or NULL */
} Loaded;

/* Calls the unwinder's function `name`, which registers or deregisters unwind tables. C++
 * exceptions that pass through the code need the tables. The unwinder is in GCC's runtime library,
 * which is usually present. Returns 0 if that library is missing. */
static int tell_unwinder(const char *name, unsigned char *frames)
{
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = library != NULL ? dlsym(library, name) : NULL;
    void (*tell)(void *);
    memcpy(&tell, &found, sizeof(tell));
    if (found != NULL) {
        tell(frames);
    }
    return found != NULL; /* never close the library: it refers to the tables */
}

/* The contents of a section whose items have `step` bytes; NULL if truncated or misaligned. */
static const void *contents(const File *file, const Elf64_Shdr *section, size_t step)
{
    if (section->sh_offset > file->size || section->sh_size > file->size - section->sh_offset ||
        section->sh_size % step != 0) {
        return NULL;
    }
    const unsigned char *found = file->data + section->sh_offset;
    return (uintptr_t)found % 8 == 0 || step == 1 ? found : NULL;
}

static int read_header(File *file)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)file->data;
    if (file->size < sizeof(*header) || (uintptr_t)file->data % 8 != 0 ||
        memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_type != ET_REL ||
        header->e_machine != EM_X86_64 || header->e_shentsize != sizeof(Elf64_Shdr) ||
        header->e_shnum > MOST_SECTIONS || header->e_shoff % 8 != 0 ||
        header->e_shoff > file->size ||
        header->e_shnum > (file->size - header->e_shoff) / sizeof(Elf64_Shdr)) {
        return 0;
    }
    file->sections = (const Elf64_Shdr *)(const void *)(file->data + header->e_shoff);
    file->count = header->e_shnum;
    return 1;
}

/* Assigns offsets to the needed sections; returns 0 if the file is damaged or a needed section is
 * of an unsupported kind. */
static int lay_out(File *file)
{
    for (size_t i = 0; i < file->count; i++) {
        const Elf64_Shdr *section = &file->sections[i];
        size_t alignment = section->sh_addralign != 0 ? section->sh_addralign : 1;
        file->places[i] = NOWHERE;
        if (section->sh_type == SHT_SYMTAB) {
            if (file->symbols != NULL || section->sh_link >= file->count) {
                return 0;
            }
            const Elf64_Shdr *names = &file->sections[section->sh_link];
            file->symbols = (const Elf64_Sym *)contents(file, section, sizeof(Elf64_Sym));
            file->symbol_count = section->sh_size / sizeof(Elf64_Sym);
            file->names = (const char *)contents(file, names, 1);
            file->names_size = names->sh_size;
        }
        if ((section->sh_flags & SHF_ALLOC) == 0) {
            continue;
        }
        const int is_frames = section->sh_type == SHT_X86_64_UNWIND;
        if ((section->sh_type != SHT_PROGBITS && !is_frames) ||
            (is_frames && file->frames != NOWHERE) ||
            (section->sh_flags & (SHF_WRITE | SHF_TLS)) != 0 || alignment > 4096 ||
            (alignment & (alignment - 1)) != 0 || section->sh_size > MOST_BYTES ||
            contents(file, section, 1) == NULL) {
            return 0;
        }
        file->places[i] = (file->bytes + alignment - 1) & ~(alignment - 1);
        file->bytes = file->places[i] + section->sh_size;
        if (is_frames) {
            file->frames = file->places[i];
            file->bytes += sizeof(uint32_t); /* a 0 ends the unwind tables */
        }
    }
    return file->bytes != 0 && file->bytes <= MOST_BYTES && file->symbols != NULL &&
           file->names != NULL && file->names_size != 0 && file->names[file->names_size - 1] == 0;
}

/* A symbol's offset in memory, or NOWHERE. */
static size_t place_of(const File *file, const Elf64_Sym *symbol)
{
    size_t section = symbol->st_shndx;
    return section == SHN_UNDEF || section >= file->count || file->places[section] == NOWHERE ||
                   symbol->st_value > file->sections[section].sh_size
               ? NOWHERE
               : file->places[section] + symbol->st_value;
}

/* Resolves one reference in the section at `place`. Returns 0 if that is impossible, for example
 * because the target is external. */
static int relocate(const File *file, unsigned char *memory, size_t place, size_t size,
                    const Elf64_Rela *reference)
{
    size_t type = ELF64_R_TYPE(reference->r_info);
    size_t width = type == R_X86_64_64 ? 8 : 4;
    size_t symbol = ELF64_R_SYM(reference->r_info);
    size_t target = symbol < file->symbol_count ? place_of(file, &file->symbols[symbol]) : NOWHERE;
    if ((type != R_X86_64_64 && type != R_X86_64_PC32 && type != R_X86_64_PLT32) ||
        target == NOWHERE || size < width || reference->r_offset > size - width ||
        reference->r_addend > MOST_BYTES || reference->r_addend < -MOST_BYTES) {
        return 0;
    }
    place += reference->r_offset;
    uint64_t value = (uint64_t)(uintptr_t)memory + target + (uint64_t)reference->r_addend;
    if (type != R_X86_64_64) {
        value -= (uint64_t)(uintptr_t)memory + place;
    }
    memcpy(memory + place, &value, width); /* a relative reference stores only the lower 4 bytes */
    return 1;
}

static int fill(const File *file, unsigned char *memory)
{
    for (size_t i = 0; i < file->count; i++) {
        if (file->places[i] != NOWHERE) {
            memcpy(memory + file->places[i], file->data + file->sections[i].sh_offset,
                   file->sections[i].sh_size);
        }
    }
    for (size_t i = 0; i < file->count; i++) {
        const Elf64_Shdr *section = &file->sections[i];
        size_t target = section->sh_info;
        if ((section->sh_type != SHT_RELA && section->sh_type != SHT_REL) ||
            target >= file->count || file->places[target] == NOWHERE) {
            continue;
        }
        const Elf64_Rela *references =
            (const Elf64_Rela *)contents(file, section, sizeof(Elf64_Rela));
        if (section->sh_type == SHT_REL || references == NULL) {
            return 0;
        }
        for (size_t k = 0; k < section->sh_size / sizeof(Elf64_Rela); k++) {
            if (!relocate(file, memory, file->places[target], file->sections[target].sh_size,
                          &references[k])) {
                return 0;
            }
        }
    }
    return 1;
}

/* The address of a global symbol; 0 if there is none. */
static uintptr_t address_of(const File *file, const unsigned char *memory, const char *name)
{
    for (size_t i = 0; i < file->symbol_count; i++) {
        const Elf64_Sym *symbol = &file->symbols[i];
        if (ELF64_ST_BIND(symbol->st_info) == STB_GLOBAL && symbol->st_name < file->names_size &&
            strcmp(file->names + symbol->st_name, name) == 0) {
            size_t place = place_of(file, symbol);
            return place != NOWHERE ? (uintptr_t)memory + place : 0;
        }
    }
    return 0;
}

/* Destructor of the capsule. During Python's shutdown, it leaves the code loaded, because other
 * code may still call it. */
static void unload(PyObject *capsule)
{
    Loaded *loaded = (Loaded *)PyCapsule_GetPointer(capsule, NULL);
    if (!nc_is_finalizing()) {
        if (loaded->frames != NULL) {
            (void)tell_unwinder("__deregister_frame", loaded->frames);
        }
        if (loaded->memory != NULL) {
            nc_pages_unmap(loaded->memory, loaded->bytes);
        }
        PyMem_Free(loaded);
    }
}

/* Loads a file into new pages. Returns the address of the symbol `name`. Returns 0 if the file
 * needs a linker, or on another failure. */
static uintptr_t load_into(const File *file, const char *name, Loaded *loaded)
{
    const size_t page = nc_page_bytes();
    loaded->bytes = (file->bytes + page - 1) / page * page;
    loaded->memory = (unsigned char *)nc_pages_map(loaded->bytes);
    if (loaded->memory == NULL || !fill(file, loaded->memory)) {
        return 0;
    }
    unsigned char *frames = file->frames != NOWHERE ? loaded->memory + file->frames : NULL;
    uintptr_t address = address_of(file, loaded->memory, name);
    if (address == 0 || !nc_pages_make_executable(loaded->memory, loaded->bytes) ||
        (frames != NULL && !tell_unwinder("__register_frame", frames))) {
        return 0;
    }
    loaded->frames = frames;
    return address;
}

/* Returns (capsule that owns the pages, address of the symbol), or NULL. Sets an exception only if
 * Python is out of memory. */
static PyObject *load(File *file, const char *name)
{
    if (!read_header(file) || !lay_out(file)) {
        return NULL;
    }
    Loaded *loaded = (Loaded *)PyMem_Calloc(1, sizeof(*loaded));
    PyObject *keep = loaded != NULL ? PyCapsule_New(loaded, NULL, unload) : NULL;
    if (keep == NULL) {
        PyMem_Free(loaded);
        return PyErr_NoMemory();
    }
    uintptr_t address = load_into(file, name, loaded);
    if (address == 0) {
        Py_DECREF(keep);
        return NULL;
    }
    return Py_BuildValue("(NK)", keep, (unsigned long long)address);
}

/* load_object(data, name): returns (keep, address) of the function or constant with that name. The
 * address is valid while `keep` lives. If `keep` lives until Python shuts down, the address stays
 * valid until the process ends. Returns None if the file has external references or writable
 * data, lacks the name, is damaged, or is not ELF for x86-64. Also returns None if the system
 * refuses the pages. Needs the GIL; keeps no reference to `data`. */
PyObject *nc_load_object(PyObject *Py_UNUSED(module), PyObject *args)
{
    File file = {.frames = NOWHERE};
    Py_ssize_t size;
    const char *name;
    if (!PyArg_ParseTuple(args, "y#s", &file.data, &size, &name)) {
        return NULL;
    }
    file.size = (size_t)size;
    PyObject *found = load(&file, name);
    return found != NULL || PyErr_Occurred() ? found : Py_NewRef(Py_None);
}

#else

PyObject *nc_load_object(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    Py_RETURN_NONE;
}

#endif
