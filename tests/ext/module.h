/* tests/ext/module.h: what every extension module of the tests needs for its name.
 *
 *     static struct PyModuleDef definition = MODULE_DEFINITION(methods);
 *
 *     PyMODINIT_FUNC MODULE_INIT(void)
 *     {
 *         return PyModule_Create(&definition);
 *     }
 *
 * The build defines MODULE, so that one source can be built under several names. This header comes
 * before those of nativecall, which take NC_PROVIDER from it. */
#ifndef NATIVECALL_TESTS_MODULE_H
#define NATIVECALL_TESTS_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define MODULE_TEXT_(x) #x
#define MODULE_TEXT(x) MODULE_TEXT_(x)
#define MODULE_PASTE_(a, b) a##b
#define MODULE_PASTE(a, b) MODULE_PASTE_(a, b)

#define MODULE_NAME MODULE_TEXT(MODULE)
#define MODULE_INIT MODULE_PASTE(PyInit_, MODULE)
#define MODULE_DEFINITION(methods)                                                                 \
    {                                                                                              \
        PyModuleDef_HEAD_INIT, MODULE_NAME, NULL, -1, methods, NULL, NULL, NULL, NULL,             \
    }
#define NC_PROVIDER MODULE_NAME

PyMODINIT_FUNC MODULE_INIT(void);

#endif
