/* csrc/layout.c: allocates the rarely used fields of a callable on demand (layout.h). */
#include "layout.h"

NcMore nc_no_more;

NcMore *nc_callable_more(NcCallable *self)
{
    NcMore *none = &nc_no_more;
    if (self->more == none) {
        NcMore *more = (NcMore *)PyMem_Calloc(1, sizeof(NcMore));
        if (more == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        nc_nativetable_init(&more->native);
        if (!__atomic_compare_exchange_n(&self->more, &none, more, 0, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED)) {
            PyMem_Free(more);
        }
    }
    return self->more;
}
