// SwiftPM needs a source file in each C target. This target has only declarations, so the file has no code.
#include "include/CSQLite.h"
