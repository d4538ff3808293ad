// Finds functions in the system's libraries at run time.
#ifndef CONVOY_LIBRARIES_H
#define CONVOY_LIBRARIES_H

/// Stores the address of a function in the variable at `function`; returns 0 if the library lacks the function.
int convoy_find(void *library, const char *name, void *function);

/// libcurl itself, through which the functions of its own dependencies are found.
///
/// The process may have other libraries with the same names. NULL if libcurl is linked into the program itself.
void *convoy_libcurl(void);

#endif
