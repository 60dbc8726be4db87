/* nativecall/nativetable.h: for providers: fills both tables of an object from one registration.
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
 *     nc_nativetable_init(&self->native);                        when you create the object
 *     nc_nativetable_add(&self->native, signature, 0, function) or nc_native_add
 *     nc_nativetable_clear(&self->native);                       in tp_dealloc
 *
 * Idea:       SEP 201 defines two formats for the same entries; each consumer chooses one. A
 *             provider registers an entry once, and it appears in both tables or in neither.
 *
 * Invariants: the packed table holds all entries of the call table, in the same order. The packed
 *             table omits flags that readers ignore, because these have no packed form.
 *
 * Threads:    the caller serialises writers of one NcNativeTable (with the GIL or a lock). Readers
 *             need no lock. A reader may see a new entry or function in one table before the other.
 *
 * Errors:     NC_E_NOMEM, NC_E_RANGE, NC_E_FORMAT, NC_E_TOOLONG; the tables are then unchanged.
 * Memory:     in each format, the superseded tables together are smaller than the table in use.
 *             After NC_E_NOMEM a packed table may stay allocated for the next entry.
 * Ownership:  the NcNativeTable owns the tables. Signatures are immortal. The object must keep
 *             alive everything that its functions use, including functions that were replaced.
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

/* Offsets of the published pointers within an NcNativeTable, for the objoffset of the slots. */
#define NC_NATIVETABLE_CALLS (offsetof(NcNativeTable, calls) + offsetof(NcCallTable, published))
#define NC_NATIVETABLE_PACKED (offsetof(NcNativeTable, packed) + offsetof(NcPackedTable, published))

/* Initialize an empty table. Allocates nothing and cannot fail. */
NC_STATIC_INLINE void nc_nativetable_init(NcNativeTable *table)
{
    nc_calltable_init(&table->calls);
    nc_packedtable_init(&table->packed);
}

/* Append an entry to both tables, given its packed words (nc_signature_pack without flags). Only
 * the address of the interned signature is used, not its text. */
NC_STATIC int nc_nativetable_add_packed(NcNativeTable *table, const char *signature,
                                        const uint64_t *words, size_t count, uintptr_t flags,
                                        void *function)
{
    uint64_t flagged[NC_PACKED_MAX_WORDS];

    if (count == 0 || count > NC_PACKED_MAX_WORDS || function == NULL) {
        return NC_E_RANGE;
    }
    /* Do all that can fail before publishing anything. */
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

/* Append an entry to both tables, given only the interned signature. Return NC_E_FORMAT if the
 * signature is not canonical, and NC_E_TOOLONG if it is too long. A signature may be added again
 * with other flags; readers take the first entry that matches. */
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

/* Replace the function of the entry at `position` in both tables; signature and flags stay. Readers
 * may call the old function as long as the object is alive. */
NC_STATIC int nc_nativetable_replace(NcNativeTable *table, size_t position, void *function)
{
    const int status = nc_calltable_replace(&table->calls, position, function);

    return status == NC_OK ? nc_packedtable_replace(&table->packed, position, function) : status;
}

/* Free all tables and remove all entries. No thread may still read the tables. */
NC_STATIC void nc_nativetable_clear(NcNativeTable *table)
{
    nc_calltable_clear(&table->calls);
    nc_packedtable_clear(&table->packed);
}

NC_C_END

#endif
