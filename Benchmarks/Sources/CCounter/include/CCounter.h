// Counts the locks and allocations of a program. The library is preloaded (LD_PRELOAD), and has no functions to call.
#ifndef CONVOY_BENCH_COUNTER_H
#define CONVOY_BENCH_COUNTER_H

#include <stdint.h>

/// The environment variable that names the file of the counts. Processes that share a file add to the same counts.
#define CONVOY_BENCH_COUNTS "CONVOY_BENCH_COUNTS"

/// The content of the file.
typedef struct {
    /// Calls of `pthread_mutex_lock`, `pthread_mutex_trylock`, `pthread_rwlock_rdlock` and `pthread_rwlock_wrlock`.
    int64_t locks;
    /// Calls of `malloc`, `calloc`, `realloc` and the functions that align.
    int64_t allocations;
} convoy_bench_counts;

#endif
