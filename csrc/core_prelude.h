/* csrc/core_prelude.h: what cffi's generated wrapper includes: the functions and the constants. */
#include "core.h"
#include "reader.h"
#include "nativecall/calltable.h"
#include "nativecall/intern.h"
