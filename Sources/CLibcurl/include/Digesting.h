// Digests of files, over the libcrypto that libcurl itself uses.
#ifndef CONVOY_DIGESTING_H
#define CONVOY_DIGESTING_H

#include <stddef.h>
#include <stdint.h>

/// A hash function (FIPS 180-4).
typedef enum {
    CONVOY_DIGEST_SHA256,
    CONVOY_DIGEST_SHA512,
} convoy_digest_function;

/// The most bytes that a digest has.
enum { CONVOY_DIGEST_MAX_BYTES = 64 };

/// A digest in the making; on one thread at a time.
typedef struct convoy_digest convoy_digest;

/// Begins a digest; NULL when libcrypto is not there or refuses, or there is no memory. Any thread.
convoy_digest *convoy_digest_create(convoy_digest_function function);
void convoy_digest_destroy(convoy_digest *digest);

/// Takes the next bytes; `convoy_digest_finish` tells whether that succeeded.
void convoy_digest_update(convoy_digest *digest, const void *bytes, size_t count);

/// Writes the digest of everything so far and returns its length; 0 when this or an earlier call failed.
///
/// `output` has room for `CONVOY_DIGEST_MAX_BYTES`. Bytes may be taken afterwards.
size_t convoy_digest_finish(const convoy_digest *digest, uint8_t *output);

#endif
