/* csrc/codegen/symbols.c: collects the offsets and addresses that generated code needs
 * (symbols.h). */
#include "symbols.h"

#include "call/convert.h"
#include "call/thunk.h"

#include "values/pointers.h"
#include "platform/stub.h"

#include <string.h>

/* code_layout(): returns {name: offset or size in bytes}. */
PyObject *nc_code_layout(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return Py_BuildValue("{snsnsnsn}", "stub_context", (Py_ssize_t)offsetof(NcStubSlot, context),
                         "thunk_target", (Py_ssize_t)offsetof(NcThunk, target), "thunk_values",
                         (Py_ssize_t)sizeof(NcThunk), "pointer_bytes",
                         (Py_ssize_t)sizeof(NcPointer));
}

/* ---- symbols --------------------------------------------------------------------------------- */

/* The symbols of generated code: DATA(name, address) or FUNCTION(name). Generated code contains no
 * addresses, only indices into the table nc_symbols, which it finds through its context. An object
 * file without addresses links in half the time. */
#define SYMBOLS(DATA, FUNCTION)                                                                    \
    DATA(nc_left_count, &nc_left_count)                                                            \
    FUNCTION(PyGILState_Ensure)                                                                    \
    FUNCTION(PyGILState_Release)                                                                   \
    FUNCTION(nc_exception_settle)                                                                  \
    FUNCTION(nc_left_raise)                                                                        \
    DATA(nc_loop, NC_LOOP)                                                                         \
    DATA(nc_loop_failed, NC_LOOP_FAILED)                                                           \
    FUNCTION(nc_thunk_convert)                                                                     \
    FUNCTION(nc_thunk_errno)                                                                       \
    FUNCTION(nc_thunk_failed)                                                                      \
    FUNCTION(nc_thunk_raised)                                                                      \
    FUNCTION(nc_thunk_set_errno)                                                                   \
    FUNCTION(nc_thunk_take_gil)                                                                    \
    FUNCTION(nc_thunk_drop_gil)                                                                    \
    FUNCTION(nc_thunk_settle)                                                                      \
    DATA(nc_symbols, places)

#define SYMBOL_NAME(name) #name,
#define DATA_NAME(name, address) #name,
#define SYMBOL_ADDRESS(name) (void *)(uintptr_t)name,
#define DATA_ADDRESS(name, address) address,

static const char *const symbol_names[] = {SYMBOLS(DATA_NAME, SYMBOL_NAME)};
static void *places[sizeof(symbol_names) / sizeof(symbol_names[0])];

void *const *const nc_symbols = places;

void nc_symbols_ready(void)
{
    /* Not static: on Windows, the addresses of imported data are only known at run time. */
    void *const addresses[] = {SYMBOLS(DATA_ADDRESS, SYMBOL_ADDRESS)};
    memcpy(places, addresses, sizeof(places));
}

/* code_symbols(): {name: address}, in the order of the table; the last item is the table itself. */
PyObject *nc_code_symbols(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyObject *found = PyDict_New();
    for (size_t i = 0; found != NULL && i < sizeof(places) / sizeof(places[0]); i++) {
        PyObject *address = PyLong_FromVoidPtr(places[i]);
        if (address == NULL || PyDict_SetItemString(found, symbol_names[i], address) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(address);
    }
    return found;
}
