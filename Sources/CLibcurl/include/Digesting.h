// Digests, with the libcrypto that libcurl uses, or else the system's.
#ifndef CONVOY_DIGESTING_H
#define CONVOY_DIGESTING_H

#include <stddef.h>
#include <stdint.h>

/// A hash function (RFC 1321, FIPS 180-4).
typedef enum {
    CONVOY_DIGEST_MD5,
    CONVOY_DIGEST_SHA256,
    CONVOY_DIGEST_SHA512,
    CONVOY_DIGEST_SHA512_256,
} convoy_digest_function;

/// The maximum length of a digest.
enum { CONVOY_DIGEST_MAX_BYTES = 64 };

/// A digest that is being computed, on one thread at a time.
typedef struct convoy_digest convoy_digest;

/// Starts a digest; NULL if libcrypto is missing or does not provide the hash function, or without memory.
///
/// Any thread.
convoy_digest *convoy_digest_create(convoy_digest_function function);
void convoy_digest_destroy(convoy_digest *digest);

/// Adds bytes.
///
/// `convoy_digest_finish` reports whether that succeeded.
void convoy_digest_update(convoy_digest *digest, const void *bytes, size_t count);

/// Writes the digest of all bytes so far and returns its length; 0 when this or an earlier call failed.
///
/// `output` has room for `CONVOY_DIGEST_MAX_BYTES`. More bytes may be added afterwards.
size_t convoy_digest_finish(const convoy_digest *digest, uint8_t *output);

#endif
