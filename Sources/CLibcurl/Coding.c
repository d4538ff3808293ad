#ifdef __linux__
#include "CLibcurl.h"
#include "Libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// The parts of zlib, brotli and zstd that Convoy uses, declared by hand. All three have stable binary interfaces.

/// `z_stream` of zlib.h.
typedef struct {
    const uint8_t *next_in;
    unsigned int avail_in;
    unsigned long total_in;
    uint8_t *next_out;
    unsigned int avail_out;
    unsigned long total_out;
    const char *msg;
    void *state;
    void *(*zalloc)(void *, unsigned int, unsigned int);
    void (*zfree)(void *, void *);
    void *opaque;
    int data_type;
    unsigned long adler;
    unsigned long reserved;
} zlib_stream;
enum { Z_OK = 0, Z_STREAM_END = 1, Z_MEM_ERROR = -4, Z_BUF_ERROR = -5 };
enum { Z_FINISH = 4, Z_DEFLATED = 8, Z_DEFAULT_LEVEL = -1, Z_DEFAULT_MEMORY = 8, Z_DEFAULT_STRATEGY = 0 };

/// `ZSTD_inBuffer` and `ZSTD_outBuffer` of zstd.h.
typedef struct {
    const void *src;
    size_t size, pos;
} zstd_input;
typedef struct {
    void *dst;
    size_t size, pos;
} zstd_output;
enum { ZSTD_D_WINDOW_LOG_MAX = 100, ZSTD_WINDOW_TOO_LARGE = 16, ZSTD_NO_MEMORY = 64 };
/// The maximum window: 8 MiB, the limit of RFC 9659. The default of zstd is 128 MiB.
enum { ZSTD_WINDOW_LOG_OF_HTTP = 23 };

enum { BROTLI_ERROR, BROTLI_SUCCESS, BROTLI_NEEDS_INPUT, BROTLI_NEEDS_OUTPUT };
/// The codes of brotli's decode.h for failed allocations.
enum { BROTLI_FIRST_ALLOC_ERROR = -21, BROTLI_LAST_ALLOC_ERROR = -30 };

static struct {
    int is_available;
    const char *(*version)(void);
    int (*init)(zlib_stream *, int window_bits, const char *version, int stream_size);
    int (*inflate)(zlib_stream *, int flush);
    int (*reset)(zlib_stream *);
    int (*end)(zlib_stream *);
    int (*deflate_init)(
        zlib_stream *, int level, int method, int window_bits, int memory_level, int strategy, const char *version,
        int stream_size);
    unsigned long (*deflate_bound)(zlib_stream *, unsigned long count);
    int (*deflate)(zlib_stream *, int flush);
    int (*deflate_end)(zlib_stream *);
} zlib;

static struct {
    int is_available;
    void *(*create)(void *alloc, void *free, void *opaque);
    int (*decode)(
        void *, size_t *input_count, const uint8_t **input, size_t *output_count, uint8_t **output, size_t *total);
    int (*error)(const void *);
    const char *(*error_name)(int);
    void (*destroy)(void *);
} brotli;

static struct {
    int is_available;
    void *(*create)(void);
    size_t (*init)(void *);
    size_t (*set)(void *, int parameter, int value);
    size_t (*decode)(void *, zstd_output *, zstd_input *);
    unsigned int (*is_error)(size_t);
    int (*error_code)(size_t);
    const char *(*error_name)(size_t);
    size_t (*destroy)(void *);
} zstd;

static void load_libraries(void) {
    void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    zlib.is_available = convoy_find(library, "zlibVersion", &zlib.version)
        && convoy_find(library, "inflateInit2_", &zlib.init) && convoy_find(library, "inflate", &zlib.inflate)
        && convoy_find(library, "inflateReset", &zlib.reset) && convoy_find(library, "inflateEnd", &zlib.end)
        && convoy_find(library, "deflateInit2_", &zlib.deflate_init)
        && convoy_find(library, "deflateBound", &zlib.deflate_bound) && convoy_find(library, "deflate", &zlib.deflate)
        && convoy_find(library, "deflateEnd", &zlib.deflate_end);

    library = dlopen("libbrotlidec.so.1", RTLD_NOW | RTLD_LOCAL);
    brotli.is_available = convoy_find(library, "BrotliDecoderCreateInstance", &brotli.create)
        && convoy_find(library, "BrotliDecoderDecompressStream", &brotli.decode)
        && convoy_find(library, "BrotliDecoderGetErrorCode", &brotli.error)
        && convoy_find(library, "BrotliDecoderErrorString", &brotli.error_name)
        && convoy_find(library, "BrotliDecoderDestroyInstance", &brotli.destroy);

    library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    zstd.is_available = convoy_find(library, "ZSTD_createDStream", &zstd.create)
        && convoy_find(library, "ZSTD_initDStream", &zstd.init)
        && convoy_find(library, "ZSTD_DCtx_setParameter", &zstd.set)
        && convoy_find(library, "ZSTD_decompressStream", &zstd.decode)
        && convoy_find(library, "ZSTD_isError", &zstd.is_error)
        && convoy_find(library, "ZSTD_getErrorCode", &zstd.error_code)
        && convoy_find(library, "ZSTD_getErrorName", &zstd.error_name)
        && convoy_find(library, "ZSTD_freeDStream", &zstd.destroy);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

int convoy_decoder_is_available(convoy_coding coding) {
    pthread_once(&once, load_libraries);
    switch (coding) {
    case CONVOY_CODING_GZIP:
    case CONVOY_CODING_DEFLATE: return zlib.is_available;
    case CONVOY_CODING_BROTLI: return brotli.is_available;
    case CONVOY_CODING_ZSTD: return zstd.is_available;
    }
    return 0;
}

struct convoy_decoder {
    convoy_coding coding;
    enum {
        /// No bytes yet. Next: inside, or at end.
        AT_START,
        /// In a gzip member, in a zstd frame, or in the stream of another coding. Next: at end.
        INSIDE,
        /// After a member, a frame or the stream. Next: inside, if another member or frame follows; in padding (gzip).
        AT_END,
        /// In the zero bytes after the last gzip member. Next: none.
        IN_PADDING,
    } place;
    int has_output;
    const char *reason;
    /// The first bytes of deflate, which decide its format.
    uint8_t head[2];
    size_t head_count;
    zlib_stream zlib;
    /// The library's decoder, for brotli and zstd.
    void *other;
};

/// The remaining input and output. Each call advances the pointers and reduces the counts.
typedef struct {
    const uint8_t *input;
    size_t input_count;
    uint8_t *output;
    size_t output_count;
} decoding_step;

static convoy_decoding_status fail(convoy_decoder *decoder, convoy_decoding_status status, const char *reason) {
    decoder->reason = reason;
    return status;
}

/// zlib counts in `unsigned int`.
static unsigned int limited(size_t count) { return count < 1 << 30 ? (unsigned int)count : 1 << 30; }

/// Prepares zlib for a format: 15 is zlib's own, 15 + 16 gzip, -15 raw deflate.
static int start_zlib(convoy_decoder *decoder, int window_bits) {
    return zlib.init(&decoder->zlib, window_bits, zlib.version(), (int)sizeof decoder->zlib) == Z_OK;
}

static convoy_decoding_status decode_zlib(convoy_decoder *decoder, decoding_step *step) {
    zlib_stream *stream = &decoder->zlib;
    unsigned int input_count = limited(step->input_count), output_count = limited(step->output_count);
    stream->next_in = step->input;
    stream->avail_in = input_count;
    stream->next_out = step->output;
    stream->avail_out = output_count;
    int result = zlib.inflate(stream, 0);
    step->input += input_count - stream->avail_in;
    step->input_count -= input_count - stream->avail_in;
    step->output += output_count - stream->avail_out;
    step->output_count -= output_count - stream->avail_out;
    if (result == Z_STREAM_END) decoder->place = AT_END;
    // A buffer error only means that no progress was possible.
    if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR) return CONVOY_DECODING_OK;
    if (result == Z_MEM_ERROR) return fail(decoder, CONVOY_DECODING_NO_MEMORY, "out of memory");
    return fail(decoder, CONVOY_DECODING_CORRUPT, stream->msg != NULL ? stream->msg : "a dictionary is needed");
}

static convoy_decoding_status decode_gzip(convoy_decoder *decoder, decoding_step *step) {
    if (decoder->place == AT_END) {
        // Members may be concatenated (RFC 1952, section 2.2). Zero bytes are padding.
        if (*step->input == 0) decoder->place = IN_PADDING;
        else if (*step->input == 0x1f && zlib.reset(&decoder->zlib) == Z_OK) decoder->place = INSIDE;
        else return CONVOY_DECODING_TRAILING_BYTES;
    }
    if (decoder->place != IN_PADDING) return decode_zlib(decoder, step);
    for (; step->input_count > 0; step->input++, step->input_count--)
        if (*step->input != 0) return CONVOY_DECODING_TRAILING_BYTES;
    return CONVOY_DECODING_OK;
}

static convoy_decoding_status decode_deflate(convoy_decoder *decoder, decoding_step *step) {
    if (decoder->place == AT_END) return CONVOY_DECODING_TRAILING_BYTES;
    if (decoder->head_count == sizeof decoder->head) return decode_zlib(decoder, step);
    uint8_t *head = decoder->head;
    head[decoder->head_count++] = *step->input++;
    step->input_count--;
    if (decoder->head_count < sizeof decoder->head) return CONVOY_DECODING_OK;
    // The header of the zlib format (RFC 1950, section 2.2). As raw deflate, these two bytes would start a stored block
    // with a padding bit of 1, which encoders do not write.
    int is_zlib = (head[0] & 0x0f) == 8 && head[0] >> 4 <= 7 && (head[0] << 8 | head[1]) % 31 == 0;
    if (!start_zlib(decoder, is_zlib ? 15 : -15)) return fail(decoder, CONVOY_DECODING_NO_MEMORY, "out of memory");
    // Two bytes produce at most one byte of output, for which there is room, so both are consumed.
    decoding_step first = {head, sizeof decoder->head, step->output, step->output_count};
    convoy_decoding_status status = decode_zlib(decoder, &first);
    step->output = first.output;
    step->output_count = first.output_count;
    return status;
}

static convoy_decoding_status decode_brotli(convoy_decoder *decoder, decoding_step *step) {
    if (decoder->place == AT_END) return CONVOY_DECODING_TRAILING_BYTES;
    int result = brotli.decode(
        decoder->other, &step->input_count, &step->input, &step->output_count, &step->output, NULL);
    if (result == BROTLI_SUCCESS) decoder->place = AT_END;
    if (result != BROTLI_ERROR) return CONVOY_DECODING_OK;
    int error = brotli.error(decoder->other);
    int is_memory = error <= BROTLI_FIRST_ALLOC_ERROR && error >= BROTLI_LAST_ALLOC_ERROR;
    return fail(
        decoder, is_memory ? CONVOY_DECODING_NO_MEMORY : CONVOY_DECODING_CORRUPT, brotli.error_name(error));
}

static convoy_decoding_status decode_zstd(convoy_decoder *decoder, decoding_step *step) {
    // Frames may be concatenated (RFC 8878, section 3.1). The library would also accept the formats from before the
    // RFC, without the window limit. The first bytes of those formats differ.
    if (decoder->place != INSIDE && *step->input != 0x28 && *step->input >> 4 != 5)
        return decoder->place == AT_END
            ? CONVOY_DECODING_TRAILING_BYTES : fail(decoder, CONVOY_DECODING_CORRUPT, "not a frame");
    zstd_input input = {step->input, step->input_count, 0};
    zstd_output output = {step->output, step->output_count, 0};
    size_t result = zstd.decode(decoder->other, &output, &input);
    step->input += input.pos;
    step->input_count -= input.pos;
    step->output += output.pos;
    step->output_count -= output.pos;
    decoder->place = result == 0 ? AT_END : INSIDE;
    if (!zstd.is_error(result)) return CONVOY_DECODING_OK;
    int error = zstd.error_code(result);
    int is_memory = error == ZSTD_NO_MEMORY || error == ZSTD_WINDOW_TOO_LARGE;
    return fail(
        decoder, is_memory ? CONVOY_DECODING_NO_MEMORY : CONVOY_DECODING_CORRUPT, zstd.error_name(result));
}

convoy_decoder *convoy_decoder_create(convoy_coding coding) {
    if (!convoy_decoder_is_available(coding)) return NULL;
    convoy_decoder *decoder = calloc(1, sizeof *decoder);
    if (decoder == NULL) return NULL;
    decoder->coding = coding;
    int is_ready = 1;
    switch (coding) {
    case CONVOY_CODING_GZIP: is_ready = start_zlib(decoder, 15 + 16); break;
    case CONVOY_CODING_DEFLATE: break;  // zlib starts when the first two bytes are known
    case CONVOY_CODING_BROTLI: is_ready = (decoder->other = brotli.create(NULL, NULL, NULL)) != NULL; break;
    case CONVOY_CODING_ZSTD:
        is_ready = (decoder->other = zstd.create()) != NULL && !zstd.is_error(zstd.init(decoder->other))
            && !zstd.is_error(zstd.set(decoder->other, ZSTD_D_WINDOW_LOG_MAX, ZSTD_WINDOW_LOG_OF_HTTP));
        break;
    }
    if (is_ready) return decoder;
    convoy_decoder_destroy(decoder);
    return NULL;
}

void convoy_decoder_destroy(convoy_decoder *decoder) {
    if (decoder == NULL) return;
    if (decoder->zlib.state != NULL) zlib.end(&decoder->zlib);
    if (decoder->other != NULL && decoder->coding == CONVOY_CODING_BROTLI) brotli.destroy(decoder->other);
    if (decoder->other != NULL && decoder->coding == CONVOY_CODING_ZSTD) zstd.destroy(decoder->other);
    free(decoder);
}

convoy_decoding convoy_decoder_decode(
    convoy_decoder *decoder, const void *input, size_t input_count, void *output, size_t output_capacity) {
    decoding_step step = {input, input_count, output, output_capacity};
    convoy_decoding_status status = CONVOY_DECODING_OK;
    // The functions below are called only when necessary, because zstd treats repeated calls without input as an
    // error.
    int has_work = input_count > 0 || decoder->has_output;
    while (has_work && status == CONVOY_DECODING_OK) {
        switch (decoder->coding) {
        case CONVOY_CODING_GZIP: status = decode_gzip(decoder, &step); break;
        case CONVOY_CODING_DEFLATE: status = decode_deflate(decoder, &step); break;
        case CONVOY_CODING_BROTLI: status = decode_brotli(decoder, &step); break;
        case CONVOY_CODING_ZSTD: status = decode_zstd(decoder, &step); break;
        }
        if (decoder->place == AT_START) decoder->place = INSIDE;
        has_work = step.input_count > 0 && step.output_count > 0;
    }
    decoder->has_output = status == CONVOY_DECODING_OK && step.output_count == 0 && decoder->place == INSIDE;
    return (convoy_decoding){
        status, step.input_count, output_capacity - step.output_count, decoder->has_output,
        decoder->place == AT_END || decoder->place == IN_PADDING, decoder->reason};
}

size_t convoy_gzip(const uint8_t *input, size_t input_count, uint8_t **output) {
    if (!convoy_decoder_is_available(CONVOY_CODING_GZIP)) return 0;
    zlib_stream stream = {0};
    // 15 + 16 selects gzip, without a name and with the time 0.
    if (zlib.deflate_init(
            &stream, Z_DEFAULT_LEVEL, Z_DEFLATED, 15 + 16, Z_DEFAULT_MEMORY, Z_DEFAULT_STRATEGY, zlib.version(),
            (int)sizeof stream) != Z_OK) return 0;
    size_t capacity = zlib.deflate_bound(&stream, input_count), count = 0;
    uint8_t *buffer = malloc(capacity);
    int result = buffer != NULL ? Z_OK : Z_MEM_ERROR;
    while (result == Z_OK) {
        unsigned int taken = limited(input_count), room = limited(capacity - count);
        stream.next_in = input;
        stream.avail_in = taken;
        stream.next_out = buffer + count;
        stream.avail_out = room;
        result = zlib.deflate(&stream, taken == input_count ? Z_FINISH : 0);
        input += taken - stream.avail_in;
        input_count -= taken - stream.avail_in;
        count += room - stream.avail_out;
    }
    zlib.deflate_end(&stream);
    if (result != Z_STREAM_END) {
        free(buffer);
        return 0;
    }
    uint8_t *fitting = realloc(buffer, count);
    *output = fitting != NULL ? fitting : buffer;
    return count;
}
#endif
