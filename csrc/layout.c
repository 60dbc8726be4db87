/* csrc/layout.c: allocates the rarely used fields of a callable on demand (layout.h). */
#include "layout.h"

NcMore nc_no_more;

NcMore *nc_callable_more(NcCallable *self)
{
    if (self->more == &nc_no_more) {
        NcMore *more = (NcMore *)PyMem_Calloc(1, sizeof(NcMore));
        if (more == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        nc_nativetable_init(&more->native);
        self->more = more;
    }
    return self->more;
}
