// Adds jobs in a bare loop over the system's SQLite: the minimum cost of the commits that a queue makes.
#ifndef CONVOY_BENCH_SQLITE_LOOP_H
#define CONVOY_BENCH_SQLITE_LOOP_H

#include <stddef.h>

/// Adds `count` jobs to a database that a queue has created; blocks until the last commit.
///
/// Each job has a body and a separate transaction, which is synced to the disk.
///
/// An error message is written to `error`, a buffer of `error_size` bytes, as a string.
///
/// Returns the number of added jobs.
long convoy_bench_sqlite_add(
    const char *file, long count, const char *url, const char *body, char *error, size_t error_size);

#endif
