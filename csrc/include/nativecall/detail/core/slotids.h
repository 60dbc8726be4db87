/* nativecall/detail/core/slotids.h: composes allocated IDs, and validates slot keys. */
#ifndef NATIVECALL_SLOTIDS_H
#define NATIVECALL_SLOTIDS_H

#include "lookup.h"

NC_C_BEGIN

/* The key of the row that locates the slots of individual objects (SEP 200, "types and objects").
 * Each object stores a pointer to its own slot table at data.objoffset. The pointer may be NULL. */
#define PYCUSTOMSLOT_OBJECTSLOTS_ID ((uintptr_t)0x04000101)
#define PYCUSTOMSLOT_OBJECTSLOTS_FAVPOS 2

/* Compose an allocated ID from its parts (SEP 200, "The custom slot ID space"), as a constant
 * expression of type uintptr_t. Out-of-range parts do not compile. */
#define PYCUSTOMSLOT_ID(registrar, idea, version)                                                  \
    ((uintptr_t)((uint32_t)(registrar) << 24 | (uint32_t)(idea) << 8 | (uint32_t)(version) << 1 |  \
                 1u) +                                                                             \
     0 * sizeof(char[(registrar) != 0 && ((registrar) >> 8 | (idea) >> 16 | (version) >> 7) == 0   \
                         ? 1                                                                       \
                         : -1]))

/* The registrar of IDs allocated at run time (PyExtensibleType_AllocateID). */
#define NC_SLOT_RUNTIME_REGISTRAR 0xFF

/* Return the row with this key, or NULL. */
NC_STATIC const PyCustomSlot *nc_rows_find(const PyCustomSlot *rows, size_t count, uintptr_t id)
{
    for (size_t n = 0; n < count; n++) {
        if (rows[n].id == id) {
            return &rows[n];
        }
    }
    return NULL;
}

/* Return whether a key is valid: an address, or an allocated ID with a registrar in bits 24 to 31
 * and zeros above. */
NC_STATIC_INLINE int nc_slot_id_valid(uintptr_t id)
{
    return (id & 1) == 0 ? id != NC_SLOT_EMPTY : id >> 24 != 0 && (uint64_t)id >> 32 == 0;
}

NC_C_END

#endif
