// A bare multi loop over the system's libcurl: the least that a program on libcurl does for a request.
#ifndef CONVOY_BENCH_CURL_LOOP_H
#define CONVOY_BENCH_CURL_LOOP_H

#include <stddef.h>

/// A multi handle and as many easy handles as requests may be in flight; both are used again for every request.
typedef struct convoy_bench_loop convoy_bench_loop;

/// Makes a loop; NULL without memory. The URL is copied.
convoy_bench_loop *convoy_bench_loop_make(const char *url, int concurrency);

/// Sends `count` GET requests and receives the answers; blocks until the last has ended.
///
/// Each has to be a 200 with a body of `body_bytes`. The first thing that was wrong is written to `error`, a buffer of
/// `error_size` bytes, as a string.
///
/// Returns how many requests failed.
long convoy_bench_loop_send(
    convoy_bench_loop *loop, long count, long long body_bytes, char *error, size_t error_size);

/// Closes the connections and frees everything.
void convoy_bench_loop_free(convoy_bench_loop *loop);

#endif
