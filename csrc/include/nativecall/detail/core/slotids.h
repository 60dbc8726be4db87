/* nativecall/detail/core/slotids.h: the keys of slots: how allocated IDs are composed,
 * and which numbers are valid ones. */
#ifndef NATIVECALL_SLOTIDS_H
#define NATIVECALL_SLOTIDS_H

#include "lookup.h"

NC_C_BEGIN

/* The key of slots of single objects (SEP 200, "types and objects"): data.objoffset is where an
 * object keeps a pointer to a slot table of its own, NULL without one. */
#define PYCUSTOMSLOT_OBJECTSLOTS_ID ((uintptr_t)0x04000101)
#define PYCUSTOMSLOT_OBJECTSLOTS_FAVPOS 2

/* An allocated ID of its parts (SEP 200, "The custom slot ID space"): a constant expression of type
 * uintptr_t. What is out of range does not compile. */
#define PYCUSTOMSLOT_ID(registrar, idea, version)                                                  \
    ((uintptr_t)((uint32_t)(registrar) << 24 | (uint32_t)(idea) << 8 | (uint32_t)(version) << 1 |  \
                 1u) +                                                                             \
     0 * sizeof(char[(registrar) != 0 && ((registrar) >> 8 | (idea) >> 16 | (version) >> 7) == 0   \
                         ? 1                                                                       \
                         : -1]))

/* The registrar of IDs that are allocated at run time (PyExtensibleType_AllocateID). */
#define NC_SLOT_RUNTIME_REGISTRAR 0xFF

/* The row of this key among rows, or NULL. */
NC_STATIC const PyCustomSlot *nc_rows_find(const PyCustomSlot *rows, size_t count, uintptr_t id)
{
    for (size_t n = 0; n < count; n++) {
        if (rows[n].id == id) {
            return &rows[n];
        }
    }
    return NULL;
}

/* Whether a key can be one: an address, or an allocated ID, which has a registrar in bits 24 to 31
 * and nothing above. */
NC_STATIC_INLINE int nc_slot_id_valid(uintptr_t id)
{
    return (id & 1) == 0 ? id != NC_SLOT_EMPTY : id >> 24 != 0 && (uint64_t)id >> 32 == 0;
}

NC_C_END

#endif
