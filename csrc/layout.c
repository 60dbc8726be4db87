/* csrc/layout.c: allocates the rarely used fields of a callable on demand (layout.h). */
#include "layout.h"

NcMore nc_no_more;

NcMore *nc_callable_more(NcCallable *self)
{
    if (nc_more(self) == &nc_no_more) {
        NcMore *more = (NcMore *)PyMem_Calloc(1, sizeof(NcMore));
        if (more == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        nc_nativetable_init(&more->native);
        if (!nc_exchange_ptr(&self->more, &nc_no_more, more)) {
            PyMem_Free(more);
        }
    }
    return nc_more(self);
}
