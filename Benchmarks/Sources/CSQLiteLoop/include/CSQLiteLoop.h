// Jobs added by a bare loop over the system's SQLite: the least that a program pays for the same commits.
#ifndef CONVOY_BENCH_SQLITE_LOOP_H
#define CONVOY_BENCH_SQLITE_LOOP_H

#include <stddef.h>

/// Adds `count` jobs to a database that a queue has made, each with a body and in a transaction of its own, on the disk when it
/// is committed; blocks until the last one.
///
/// What was wrong is written to `error`, a buffer of `error_size` bytes, as a string.
///
/// Returns how many were added.
long convoy_bench_sqlite_add(
    const char *file, long count, const char *url, const char *body, char *error, size_t error_size);

#endif
