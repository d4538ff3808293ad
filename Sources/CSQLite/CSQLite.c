// Packages build every target of theirs: there is nothing to compile, the declarations are all.
#include "include/CSQLite.h"
