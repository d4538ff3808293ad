// Packages build all of their targets. This one has only declarations, so there is nothing to compile.
#include "include/CSQLite.h"
