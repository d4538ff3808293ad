// System calls that the Swift module of the C library does not export, to synchronise many files and to copy in the
// kernel.
#ifndef CONVOY_DISK_H
#define CONVOY_DISK_H

#include <stddef.h>
#include <stdint.h>

/// Synchronises a file system.
///
/// Returns 1 on success; the caller then only checks each file for errors, with `convoy_disk_error`. Returns 0 if the
/// caller must synchronise each file separately: on file systems whose driver may not wait for all files, and after any
/// failure.
int convoy_disk_sync(int descriptor);

/// Returns whether a file system keeps its files in memory only, so that synchronising has no effect.
int convoy_disk_is_memory(int descriptor);

/// Waits for running writes of a file.
///
/// Returns 0, or the error number of a failed write since the descriptor was opened.
int convoy_disk_error(int descriptor);

/// A call with the parameters and results of `copy_file_range`.
typedef long (*convoy_copy_call)(int from, int64_t *offset, int to, int64_t *position, size_t count, unsigned flags);

/// Copies bytes of a file to a position of another file inside the kernel.
///
/// The kernel clones the file if the complete file goes to an empty file and the file system can share its blocks.
/// Otherwise `copy_file_range` copies the bytes.
///
/// The target must end at the position. A copy that is not a clone stops after 64 MiB. A null `call` means the system's
/// `copy_file_range`.
///
/// Returns the number of bytes, 0 when the kernel cannot copy between these files, or a negative error number of the
/// target.
int64_t convoy_disk_copy(
    int to, int64_t position, int from, int64_t offset, int64_t count, convoy_copy_call call);

#endif
