/* nativecall/detail/objectorder.h: C3, the merge of the orders of bases into that of a class, as
 * Python merges them. What is ordered are addresses: native classes, or the types of Python.
 *
 * Threads:    everything is the caller's.
 * Errors:     NC_E_RANGE, with two classes that each stand before the other. */
#ifndef NATIVECALL_OBJECTORDER_H
#define NATIVECALL_OBJECTORDER_H

#include <string.h>

#include "core/base.h"

NC_C_BEGIN

/* An order to be merged: an array of rows, each of which begins with the address of a class. */
typedef struct {
    const void *rows;
    size_t step; /* bytes from one to the next */
    size_t count;
    size_t taken; /* how many of them stand in the result */
} NcOrder;

NC_STATIC_INLINE NcOrder nc_order(const void *rows, size_t step, size_t count)
{
    NcOrder order;
    order.rows = rows;
    order.step = step;
    order.count = count;
    order.taken = 0;
    return order;
}

NC_STATIC const void *nc_order_at(const NcOrder *order, size_t i)
{
    const void *cls;
    memcpy((void *)&cls, (const char *)order->rows + i * order->step, sizeof cls);
    return cls;
}

/* Whether a class stands in an order, from a place on. */
NC_STATIC int nc_order_has(const NcOrder *order, size_t from, const void *cls)
{
    size_t i = from;
    while (i < order->count && nc_order_at(order, i) != cls) {
        i++;
    }
    return i < order->count;
}

/* Merges the orders of the bases and, as the last one, the bases themselves. `merged` has room for
 * all. NC_E_RANGE: conflict[0] and conflict[1] each stand before the other in one of them, or a
 * class, both of the two, stands twice among the bases or, as mro() of a metaclass may say, in one
 * of the orders. */
NC_STATIC int nc_orders_merge(NcOrder *orders, size_t count, const void **merged,
                              size_t *merged_count, const void **conflict)
{
    const NcOrder *bases = &orders[count - 1];
    size_t i, j;
    *merged_count = 0;
    for (i = 0; i < bases->count; i++) {
        if (nc_order_has(bases, i + 1, nc_order_at(bases, i))) {
            conflict[0] = conflict[1] = nc_order_at(bases, i);
            return NC_E_RANGE;
        }
    }
    for (;;) {
        /* The first head that stands behind no other. */
        const void *next = NULL;
        conflict[0] = conflict[1] = NULL;
        for (i = 0; i < count && next == NULL; i++) {
            if (orders[i].taken == orders[i].count) {
                continue;
            }
            next = nc_order_at(&orders[i], orders[i].taken);
            for (j = 0; j < count && next != NULL; j++) {
                if (nc_order_has(&orders[j], orders[j].taken + 1, next)) {
                    conflict[conflict[0] != NULL && conflict[0] != next] = next;
                    next = NULL;
                }
            }
        }
        if (next == NULL) {
            conflict[1] = conflict[1] != NULL ? conflict[1] : conflict[0];
            return conflict[0] == NULL ? NC_OK : NC_E_RANGE;
        }
        merged[(*merged_count)++] = next;
        for (i = 0; i < count; i++) {
            orders[i].taken += orders[i].taken < orders[i].count &&
                               nc_order_at(&orders[i], orders[i].taken) == next;
        }
    }
}

NC_C_END

#endif
