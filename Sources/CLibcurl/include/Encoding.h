// An encoder for request bodies, with the system's zlib.
#ifndef CONVOY_ENCODING_H
#define CONVOY_ENCODING_H

#include <stddef.h>
#include <stdint.h>

/// The result of encoding.
typedef enum {
    CONVOY_ENCODING_OK,
    CONVOY_ENCODING_NO_LIBRARY,
    CONVOY_ENCODING_NO_MEMORY,
} convoy_encoding_status;

/// Compresses bytes into one gzip member (RFC 1952).
///
/// The result depends only on the bytes and on the zlib library. After a success the caller must free `output`, which
/// has `output_count` bytes. Any thread.
convoy_encoding_status convoy_gzip(
    const uint8_t *input, size_t input_count, uint8_t **output, size_t *output_count);

#endif
