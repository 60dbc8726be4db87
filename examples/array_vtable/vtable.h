/* vtable.h: arrays of doubles as C code of other modules sees them: a slot and what it leads to.
 *
 * This file is all that providers and consumers share. Whoever has arrays puts a row with this key
 * into the slot table of their type; its data is the address of an ArrayVtable. Whoever wants
 * arrays looks the key up, and knows no type. A row that leads to NULL says that the type has none
 * of these functions after all, like a subclass that counts its elements another way.
 *
 * The functions need no GIL, and a reference to the array that the caller holds. They check
 * nothing: positions are from 0 to length - 1. A vtable lives as long as its type. What is to change
 * here gets another key. */
#ifndef ARRAY_VTABLE_H
#define ARRAY_VTABLE_H

#include <Python.h>

#define ARRAY_KEY "array_vtable.doubles.v1"

typedef struct {
    Py_ssize_t (*length)(PyObject *array);
    double (*get)(PyObject *array, Py_ssize_t i);
    /* Of `count` elements, each `step` behind the one before it. */
    double (*sum)(PyObject *array, Py_ssize_t first, Py_ssize_t step, Py_ssize_t count);
} ArrayVtable;

#endif
