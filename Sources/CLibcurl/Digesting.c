#ifdef __linux__
#include "CLibcurl.h"
#include "Libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

/// The functions of OpenSSL's evp.h.
///
/// A result of 0 is a failure.
static struct {
    int is_available;
    void *(*create)(void);
    void (*destroy)(void *context);
    /// By `convoy_digest_function`; NULL if the library lacks the function.
    const void *(*functions[4])(void);
    int (*init)(void *context, const void *function, void *engine);
    int (*update)(void *context, const void *bytes, size_t count);
    int (*finish)(void *context, unsigned char *output, unsigned int *count);
} libcrypto;

static int find_functions(void *library) {
    static const char *const names[] = {"EVP_md5", "EVP_sha256", "EVP_sha512", "EVP_sha512_256"};
    for (size_t index = 0; index < sizeof names / sizeof *names; index++)
        convoy_find(library, names[index], &libcrypto.functions[index]);
    return convoy_find(library, "EVP_MD_CTX_new", &libcrypto.create)
        && convoy_find(library, "EVP_MD_CTX_free", &libcrypto.destroy)
        && convoy_find(library, "EVP_DigestInit_ex", &libcrypto.init)
        && convoy_find(library, "EVP_DigestUpdate", &libcrypto.update)
        && convoy_find(library, "EVP_DigestFinal_ex", &libcrypto.finish);
}

static void load_library(void) {
    libcrypto.is_available = find_functions(convoy_libcurl());
    // If libcurl uses another TLS library or none, the system's libcrypto is loaded.
    static const char *const names[] = {"libcrypto.so.4", "libcrypto.so.3", "libcrypto.so.1.1"};
    for (size_t index = 0; !libcrypto.is_available && index < sizeof names / sizeof *names; index++)
        libcrypto.is_available = find_functions(dlopen(names[index], RTLD_NOW | RTLD_LOCAL));
}

struct convoy_digest {
    void *context;
    int has_failed;
};

convoy_digest *convoy_digest_create(convoy_digest_function function) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_library);
    if (!libcrypto.is_available || libcrypto.functions[function] == NULL) return NULL;
    convoy_digest *digest = calloc(1, sizeof *digest);
    if (digest == NULL) return NULL;
    digest->context = libcrypto.create();
    const void *code = libcrypto.functions[function]();
    // The initialisation fails if the configuration of OpenSSL 3 has no provider for the function.
    if (digest->context != NULL && code != NULL && libcrypto.init(digest->context, code, NULL) == 1) return digest;
    convoy_digest_destroy(digest);
    return NULL;
}

void convoy_digest_destroy(convoy_digest *digest) {
    if (digest == NULL) return;
    libcrypto.destroy(digest->context);
    free(digest);
}

void convoy_digest_update(convoy_digest *digest, const void *bytes, size_t count) {
    if (count > 0 && libcrypto.update(digest->context, bytes, count) != 1) digest->has_failed = 1;
}

size_t convoy_digest_finish(convoy_digest *digest, uint8_t *output) {
    unsigned int count = 0;
    return !digest->has_failed && libcrypto.finish(digest->context, output, &count) == 1 ? count : 0;
}
#endif
