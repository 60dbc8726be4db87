/* nativecall/nativetable.h: for providers: both tables of an object from one registration.
 *
 *     typedef struct {
 *         PyObject_HEAD
 *         NcNativeTable native;
 *     } Object;
 *
 *     slots[0].id = PYCUSTOMSLOT_NATIVECALLABLE_ID;
 *     slots[0].data.objoffset = (intptr_t)(offsetof(Object, native) + NC_NATIVETABLE_CALLS);
 *     slots[1].id = PYCUSTOMSLOT_PACKEDCALLABLE_ID;
 *     slots[1].data.objoffset = (intptr_t)(offsetof(Object, native) + NC_NATIVETABLE_PACKED);
 *
 *     nc_nativetable_init(&self->native);                        when the object is made
 *     nc_nativetable_add(&self->native, signature, 0, function)  an entry, or nc_native_add
 *     nc_nativetable_clear(&self->native);                       when it is deallocated
 *
 * Idea:       SEP 201 has two formats of the same entries, and consumers choose. A provider says
 *             each entry once; it is in both tables or in none.
 *
 * Invariants: the packed table has the entries of the call table, all of them, in the same order,
 *             without the flags that readers ignore: they have no packed form.
 *
 * Threads:    writers of one NcNativeTable are serialised by the caller (the GIL or a lock).
 *             Readers are not restrained. A reader may see a new entry, or a new function of an
 *             entry, in one of the tables earlier than in the other.
 *
 * Errors:     NC_E_NOMEM, NC_E_RANGE, NC_E_FORMAT, NC_E_TOOLONG; readers then see what they saw.
 * Memory:     superseded tables of either format take less together than the one in use. After
 *             NC_E_NOMEM a packed table may be kept in reserve for the next entry.
 * Ownership:  tables belong to the NcNativeTable; signatures are immortal; what functions lead to
 *             is the object's to keep alive, replaced functions included.
 * Source:     SEP 201, "Native dispatch table", both approaches. */
#ifndef NATIVECALL_NATIVETABLE_H
#define NATIVECALL_NATIVETABLE_H

#include "detail/core/calltable.h"
#include "detail/core/packedtable.h"
#include "detail/core/signaturecursor.h"

NC_C_BEGIN

typedef struct {
    NcCallTable calls;
    NcPackedTable packed;
} NcNativeTable;

/* Where in an NcNativeTable the pointers are that the slots' objoffsets lead to. */
#define NC_NATIVETABLE_CALLS (offsetof(NcNativeTable, calls) + offsetof(NcCallTable, published))
#define NC_NATIVETABLE_PACKED (offsetof(NcNativeTable, packed) + offsetof(NcPackedTable, published))

/* No entries. Allocates nothing, cannot fail. */
NC_STATIC_INLINE void nc_nativetable_init(NcNativeTable *table)
{
    nc_calltable_init(&table->calls);
    nc_packedtable_init(&table->packed);
}

/* Memory in bytes of the tables in use. */
NC_STATIC_INLINE size_t nc_nativetable_live_bytes(const NcNativeTable *table)
{
    return nc_growth_live_bytes(&table->calls.growth) + nc_growth_live_bytes(&table->packed.growth);
}

/* Memory in bytes of superseded tables; less than nc_nativetable_live_bytes once there is one. */
NC_STATIC_INLINE size_t nc_nativetable_retired_bytes(const NcNativeTable *table)
{
    return table->calls.growth.retired_bytes + table->packed.growth.retired_bytes;
}

/* Adds an entry after the last one, to both tables, when its packed words (nc_signature_pack
 * without flags) are known: nothing is read of the signature, which is interned. */
NC_STATIC int nc_nativetable_add_packed(NcNativeTable *table, const char *signature,
                                        const uint64_t *words, size_t count, uintptr_t flags,
                                        void *function)
{
    uint64_t flagged[NC_PACKED_MAX_WORDS];

    if (count == 0 || count > NC_PACKED_MAX_WORDS || function == NULL) {
        return NC_E_RANGE;
    }
    /* What can fail comes before anything is seen. */
    int status = nc_packedtable_reserve(&table->packed, count);
    if (status == NC_OK) {
        status = nc_calltable_append(&table->calls, signature, flags, function);
    }
    if (status != NC_OK) {
        return status;
    }
    memcpy(flagged, words, count * sizeof *words);
    flagged[0] |= NC_PACKED_FLAGS(flags);
    return nc_packedtable_append(&table->packed, flagged, count, function);
}

/* The same by the interned signature alone, which must be canonical (NC_E_FORMAT, NC_E_TOOLONG).
 * The same signature may come more than once, with other flags; readers take the first that
 * suits. */
NC_STATIC int nc_nativetable_add(NcNativeTable *table, const char *signature, uintptr_t flags,
                                 void *function)
{
    uint64_t words[NC_PACKED_MAX_WORDS];
    NcSignatureCursor cursor;
    size_t count = 0;

    if (signature == NULL) {
        return NC_E_RANGE;
    }
    int status = nc_signature_open(signature, strlen(signature), &cursor);
    if (status == NC_OK) {
        status =
            nc_signature_pack(signature, strlen(signature), 0, words, NC_PACKED_MAX_WORDS, &count);
    }
    return status == NC_OK
               ? nc_nativetable_add_packed(table, signature, words, count, flags, function)
               : status;
}

/* Puts another function of the same signature and flags at a position, counted in the call table's
 * entries, in both tables. Readers may call the old one for as long as the object lives. */
NC_STATIC int nc_nativetable_replace(NcNativeTable *table, size_t position, void *function)
{
    const int status = nc_calltable_replace(&table->calls, position, function);

    return status == NC_OK ? nc_packedtable_replace(&table->packed, position, function) : status;
}

/* Frees every table and leaves no entries. No reader may be left. */
NC_STATIC void nc_nativetable_clear(NcNativeTable *table)
{
    nc_calltable_clear(&table->calls);
    nc_packedtable_clear(&table->packed);
}

NC_C_END

#endif
