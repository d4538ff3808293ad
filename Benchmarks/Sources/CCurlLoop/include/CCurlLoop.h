// A bare multi loop over the system's libcurl: the minimum work of a program that uses libcurl.
#ifndef CONVOY_BENCH_CURL_LOOP_H
#define CONVOY_BENCH_CURL_LOOP_H

#include <stddef.h>

/// A multi handle and as many easy handles as requests may be in flight; all handles are reused.
typedef struct convoy_bench_loop convoy_bench_loop;

/// Makes a loop; NULL if memory is missing. The strings are copied.
///
/// `cacert` is a PEM file of trusted certificates, or NULL. If `http2` is not 0, https uses HTTP/2 where the server
/// offers it; otherwise HTTP/1.1.
convoy_bench_loop *convoy_bench_loop_make(const char *url, int concurrency, const char *cacert, int http2);

/// Sends `count` GET requests and receives the responses; blocks until the last transfer has ended.
///
/// Each response must be a 200 with a body of `body_bytes`. The first defect is written to `error`, a buffer of
/// `error_size` bytes, as a string.
///
/// Returns the number of failed requests.
long convoy_bench_loop_send(
    convoy_bench_loop *loop, long count, long long body_bytes, char *error, size_t error_size);

/// Closes the connections and frees everything.
void convoy_bench_loop_free(convoy_bench_loop *loop);

#endif
