// What the module of the C library leaves out: bringing many files to the disk.
#ifndef CONVOY_DISK_H
#define CONVOY_DISK_H

/// Brings everything that has been written to a file system to the disk.
///
/// Returns 1 when that has been done, and each file need only be asked for its own errors (`convoy_disk_error`); else 0,
/// and each file has to be synchronised by itself: on file systems whose driver may not wait for all files, and wherever
/// anything failed.
int convoy_disk_sync(int descriptor);

/// Waits for what is being written of a file; returns 0, or the number of what has failed since its descriptor was opened.
int convoy_disk_error(int descriptor);

#endif
