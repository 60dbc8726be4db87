/* tests/ext/callback_second.c: the second source file of a module, with callback functions of its
 * own.
 *
 * Compiled and linked with callback_consumer.c: both files use callback.h, and share what a shared
 * object has one of. */
#define PY_SSIZE_T_CLEAN
#include <nativecall/callback.h>

NC_CALLBACK_DECLARE(plain, double, (double), -1.0);

static NcCallbackSignature accepted[] = {NC_CALLBACK_ACCEPT(plain)};

PyObject *second_call(PyObject *module, PyObject *obj);
const void *second_thread(void);

/* f(0.25), a scoped callback */
PyObject *second_call(PyObject *module, PyObject *obj)
{
    NcCallback f;
    double value;
    (void)module;
    if (nc_callback_prepare(&f, obj, accepted, 1, NC_CALLBACK_HOLDS_GIL | NC_CALLBACK_SCOPED) < 0) {
        return NULL;
    }
    value = NC_CALLBACK_FUNCTION(&f, double (*)(double))(0.25);
    return nc_callback_release(&f) < 0 ? NULL : PyFloat_FromDouble(value);
}

/* Where this file sees what this thread knows of callback functions. */
const void *second_thread(void)
{
    return &nc_callback_thread;
}
