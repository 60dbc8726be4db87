#include "core_prelude.h"
