/* csrc/core/core_prelude.h: what cffi's generated wrapper includes: the functions and the
 * constants. */
#include "core.h"
#include "nativecall/detail/core/calltable.h"
#include "nativecall/detail/core/intern.h"
