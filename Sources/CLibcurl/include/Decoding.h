// Decoders of HTTP's content codings, with the libraries that libcurl uses.
//
// libcurl's own decoding is not used, because it reports a truncated gzip body as a success.
#ifndef CONVOY_DECODING_H
#define CONVOY_DECODING_H

#include <stddef.h>
#include <stdint.h>

/// A content coding (RFC 9110, section 8.4.1; RFC 7932; RFC 8878).
typedef enum {
    CONVOY_CODING_GZIP,
    /// The zlib format of the standard, or raw deflate, which many servers send.
    CONVOY_CODING_DEFLATE,
    CONVOY_CODING_BROTLI,
    CONVOY_CODING_ZSTD,
} convoy_coding;

/// The result of a decoding step.
///
/// Every result except CONVOY_DECODING_OK is final.
typedef enum {
    CONVOY_DECODING_OK,
    /// The bytes do not have this coding, or a checksum is wrong.
    CONVOY_DECODING_CORRUPT,
    /// More bytes followed the end of the encoded data.
    CONVOY_DECODING_TRAILING_BYTES,
    /// Memory allocation failed, or the stream requires more than allowed.
    CONVOY_DECODING_NO_MEMORY,
} convoy_decoding_status;

/// The decoder of one coding of one body, on one thread at a time.
typedef struct convoy_decoder convoy_decoder;

/// Whether the coding's library could be loaded. Any thread.
int convoy_decoder_is_available(convoy_coding coding);

/// Makes a decoder; NULL when the coding is not available or memory is exhausted. Any thread.
convoy_decoder *convoy_decoder_create(convoy_coding coding);
void convoy_decoder_destroy(convoy_decoder *decoder);

/// Decodes until the input is consumed, the output is full or decoding failed.
///
/// `input` and `input_count` advance past the consumed bytes. `written` is the number of valid bytes in `output`, also
/// after an error; `output_capacity` is at least 1. When the output is full, `convoy_decoder_has_output` says whether
/// to call this function again without input.
convoy_decoding_status convoy_decoder_decode(
    convoy_decoder *decoder, const uint8_t **input, size_t *input_count, uint8_t *output, size_t output_capacity,
    size_t *written);

/// Whether a call without input may write more.
int convoy_decoder_has_output(const convoy_decoder *decoder);

/// Whether the input so far may be the complete stream, including its checksums.
int convoy_decoder_is_complete(const convoy_decoder *decoder);

/// The library's error message in English: a constant string, or NULL.
const char *convoy_decoder_reason(const convoy_decoder *decoder);

#endif
