/* csrc/object/trampoline.c: finds the ahead-of-time trampoline of a shape. The table of shapes is
 * the package's own slot table: shapes are interned, so a lookup is one intern and one probe. */
#include "callable.h"

const NcTrampoline *nc_trampoline_find(const char *shape)
{
    static PyCustomSlotTable *table;
    const char *key = NULL;
    const PyCustomSlot *row;
    if (table == NULL) {
        PyCustomSlot *rows = NULL;
        uintptr_t duplicate = 0;
        size_t count = 0;
        int status = NC_OK;
        while (nc_trampolines[count].shape != NULL) {
            count++;
        }
        rows = (PyCustomSlot *)PyMem_Calloc(count, sizeof(PyCustomSlot));
        if (rows == NULL) {
            return NULL;
        }
        for (size_t i = 0; i < count && status == NC_OK; i++) {
            const char *text = nc_trampolines[i].shape;
            status = nc_runtime->intern(nc_runtime->registry, text, strlen(text), &key);
            rows[i].id = (uintptr_t)(const void *)key;
            rows[i].data.objoffset = (intptr_t)i;
        }
        if (status == NC_OK) {
            status = nc_slottable_build(rows, count, &table, &duplicate);
        }
        PyMem_Free(rows);
        if (status != NC_OK) {
            return NULL; /* out of memory: calls go through libffi */
        }
    }
    if (nc_runtime->intern(nc_runtime->registry, shape, strlen(shape), &key) != NC_OK) {
        return NULL;
    }
    row = nc_slottable_find(table, (uintptr_t)(const void *)key);
    return row != NULL ? &nc_trampolines[row->data.objoffset] : NULL;
}
