// Finding functions in the system's libraries at run time.
#ifndef CONVOY_LIBRARIES_H
#define CONVOY_LIBRARIES_H

/// Stores the address of a function in the variable at `function`; 0 when the library has none of this name.
int convoy_find_function(void *library, const char *name, void *function);

/// libcurl itself, whose functions include those of the libraries that it needs: the process may have others of their
/// names. NULL when it is part of the program.
void *convoy_libcurl(void);

#endif
