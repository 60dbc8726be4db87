/* csrc/core/core_prelude.h: what cffi's generated wrapper includes: the functions and the
 * constants. */
#include "core.h"
#include "values/records.h"
#include "nativecall/core/calltable.h"
#include "nativecall/core/intern.h"
