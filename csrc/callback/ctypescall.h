/* csrc/callback/ctypescall.h: callbacks where no code can be generated: ctypes makes the C pointer
 * and calls the object. The results and the errors are those of generated code, but an exception
 * reaches the thread state only when ctypes drops the result. */
#ifndef NC_CTYPESCALL_H
#define NC_CTYPESCALL_H

#include "pycallback.h"

/* A PyCallback that ctypes calls. */
extern PyTypeObject NcCtypesCallback_Type;

#endif
