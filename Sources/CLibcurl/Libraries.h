// Finds functions in the system's libraries at run time.
#ifndef CONVOY_LIBRARIES_H
#define CONVOY_LIBRARIES_H

/// Stores the address of a function in the variable at `function`; 0 when the library does not have it.
int convoy_find_function(void *library, const char *name, void *function);

/// libcurl itself, through which the functions of its own dependencies are found.
///
/// The process may have other libraries with the same names. NULL when it is part of the program.
void *convoy_libcurl(void);

#endif
