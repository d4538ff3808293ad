// Functions that the Swift module of the C library does not export: synchronising many files.
#ifndef CONVOY_DISK_H
#define CONVOY_DISK_H

/// Synchronises a file system.
///
/// Returns 1 on success; each file then only has to be asked for its own errors (`convoy_disk_error`). Returns 0 when
/// each file must be synchronised separately: on file systems whose driver may not wait for all files, and after any
/// failure.
int convoy_disk_sync(int descriptor);

/// Waits for running writes of a file.
///
/// Returns 0, or the number of an error since its descriptor was opened.
int convoy_disk_error(int descriptor);

#endif
