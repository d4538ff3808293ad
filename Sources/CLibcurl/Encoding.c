#ifdef __linux__
#include "Encoding.h"
#include "Libraries.h"
#include "Zlib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { Z_FINISH = 4, Z_DEFLATED = 8, Z_DEFAULT_LEVEL = -1, Z_DEFAULT_MEMORY = 8, Z_DEFAULT_STRATEGY = 0 };

static struct {
    int is_available;
    const char *(*version)(void);
    int (*init)(
        zlib_stream *, int level, int method, int window_bits, int memory_level, int strategy, const char *version,
        int stream_size);
    int (*deflate)(zlib_stream *, int flush);
    int (*end)(zlib_stream *);
} zlib;

static void load_library(void) {
    void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    zlib.is_available = convoy_find_function(library, "zlibVersion", &zlib.version)
        && convoy_find_function(library, "deflateInit2_", &zlib.init)
        && convoy_find_function(library, "deflate", &zlib.deflate)
        && convoy_find_function(library, "deflateEnd", &zlib.end);
}

/// Enlarges the buffer by half; returns 0 without memory.
static int grow(uint8_t **buffer, size_t *capacity) {
    size_t larger = *capacity + *capacity / 2;
    uint8_t *moved = larger > *capacity ? realloc(*buffer, larger) : NULL;
    if (moved == NULL) return 0;
    *buffer = moved;
    *capacity = larger;
    return 1;
}

convoy_encoding_status convoy_gzip(
    const uint8_t *input, size_t input_count, uint8_t **output, size_t *output_count) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_library);
    if (!zlib.is_available) return CONVOY_ENCODING_NO_LIBRARY;

    const size_t limit = 1 << 30;  // zlib counts in unsigned int
    size_t capacity = input_count / 4 + 1024, count = 0;
    uint8_t *buffer = malloc(capacity);
    if (buffer == NULL) return CONVOY_ENCODING_NO_MEMORY;
    zlib_stream stream;
    memset(&stream, 0, sizeof stream);
    // 15 + 16 selects gzip, without a name and with the time 0.
    int result = zlib.init(
        &stream, Z_DEFAULT_LEVEL, Z_DEFLATED, 15 + 16, Z_DEFAULT_MEMORY, Z_DEFAULT_STRATEGY, zlib.version(),
        (int)sizeof stream);
    int is_ready = result == Z_OK;
    while (result == Z_OK || result == Z_BUF_ERROR) {
        if (count == capacity && !grow(&buffer, &capacity)) {
            result = Z_MEM_ERROR;
            break;
        }
        size_t room = capacity - count < limit ? capacity - count : limit;
        unsigned int taken = (unsigned int)(input_count < limit ? input_count : limit);
        stream.next_in = input;
        stream.avail_in = taken;
        stream.next_out = buffer + count;
        stream.avail_out = (unsigned int)room;
        result = zlib.deflate(&stream, taken == input_count ? Z_FINISH : 0);
        input += taken - stream.avail_in;
        input_count -= taken - stream.avail_in;
        count += room - stream.avail_out;
    }
    if (is_ready) zlib.end(&stream);
    if (result != Z_STREAM_END) {
        free(buffer);
        return CONVOY_ENCODING_NO_MEMORY;
    }
    *output = buffer;
    *output_count = count;
    return CONVOY_ENCODING_OK;
}
#endif
