// An encoder for the bodies of requests, over the system's zlib.
#ifndef CONVOY_ENCODING_H
#define CONVOY_ENCODING_H

#include <stddef.h>
#include <stdint.h>

/// What encoding ended with.
typedef enum {
    CONVOY_ENCODING_OK,
    CONVOY_ENCODING_NO_LIBRARY,
    CONVOY_ENCODING_NO_MEMORY,
} convoy_encoding_status;

/// Compresses bytes into one gzip member (RFC 1952), always the same for the same bytes.
///
/// `output` is the caller's to free, after a success; there are `output_count` bytes in it. Any thread.
convoy_encoding_status convoy_gzip(
    const uint8_t *input, size_t input_count, uint8_t **output, size_t *output_count);

#endif
