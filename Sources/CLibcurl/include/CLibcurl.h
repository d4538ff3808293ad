// The part of libcurl that Convoy uses, declared by hand. The system's library suffices; its headers are not needed.
//
// Names, values and layouts are libcurl's own. They are part of its stable binary interface
// (https://curl.se/libcurl/abi.html). Each variadic function has one function here for each kind of argument, because
// Swift cannot call variadic C functions.
#ifndef CLIBCURL_H
#define CLIBCURL_H

#include <stddef.h>
#include <stdint.h>
#ifdef __linux__
#include <sys/epoll.h>
#include <sys/eventfd.h>
#endif

typedef struct convoy_curl CURL;
typedef struct convoy_curlm CURLM;

/// The result of a transfer; 0 is a success.
typedef int CURLcode;
typedef int CURLMcode;

typedef struct {
    int msg;
    CURL *easy_handle;
    union {
        void *whatever;
        CURLcode result;
    } data;
} CURLMsg;

/// A list of strings, copied when appended.
struct curl_slist {
    char *data;
    struct curl_slist *next;
};

/// The first members of the result of `curl_version_info`, a structure that only grows at its end.
typedef struct {
    int age;
    const char *version;
    unsigned int version_num;
    const char *host;
    int features;
    const char *ssl_version;
} curl_version_info_data;

/// An option of an easy handle. Its number shows its kind: below 10,000 a long, below 20,000 a pointer, below 30,000 a
/// function, else an `int64_t`.
typedef enum {
    CURLOPT_SSLVERSION = 32, CURLOPT_VERBOSE = 41, CURLOPT_NOPROGRESS = 43, CURLOPT_NOBODY = 44, CURLOPT_UPLOAD = 46,
    CURLOPT_SSL_VERIFYPEER = 64, CURLOPT_FORBID_REUSE = 75, CURLOPT_HTTPGET = 80, CURLOPT_SSL_VERIFYHOST = 81,
    CURLOPT_HTTP_VERSION = 84, CURLOPT_BUFFERSIZE = 98, CURLOPT_NOSIGNAL = 99, CURLOPT_SSL_SESSIONID_CACHE = 150,
    CURLOPT_TIMEOUT_MS = 155, CURLOPT_CONNECTTIMEOUT_MS = 156, CURLOPT_HTTP_CONTENT_DECODING = 158,
    CURLOPT_TCP_KEEPALIVE = 213, CURLOPT_SSL_OPTIONS = 216, CURLOPT_PATH_AS_IS = 234, CURLOPT_PIPEWAIT = 237,
    CURLOPT_PROXY_SSL_VERIFYPEER = 248, CURLOPT_PROXY_SSL_VERIFYHOST = 249, CURLOPT_PROXY_SSLVERSION = 250,
    CURLOPT_SUPPRESS_CONNECT_HEADERS = 265, CURLOPT_UPLOAD_BUFFERSIZE = 280, CURLOPT_MAXAGE_CONN = 288,
    CURLOPT_QUICK_EXIT = 322, CURLOPT_URL = 10002, CURLOPT_PROXY = 10004, CURLOPT_PROXYUSERPWD = 10006,
    CURLOPT_ERRORBUFFER = 10010, CURLOPT_USERAGENT = 10018, CURLOPT_HTTPHEADER = 10023, CURLOPT_SSLCERT = 10025,
    CURLOPT_KEYPASSWD = 10026, CURLOPT_CUSTOMREQUEST = 10036, CURLOPT_CAINFO = 10065, CURLOPT_SSLCERTTYPE = 10086,
    CURLOPT_SSLKEY = 10087, CURLOPT_CAPATH = 10097, CURLOPT_NOPROXY = 10177, CURLOPT_RESOLVE = 10203,
    CURLOPT_PINNEDPUBLICKEY = 10230, CURLOPT_PROXY_CAINFO = 10246, CURLOPT_PROXY_CAPATH = 10247,
    CURLOPT_REQUEST_TARGET = 10266, CURLOPT_INFILESIZE_LARGE = 30115,
} CURLoption;

/// What an easy handle knows. The first digit shows its kind: 1 a string or pointer, 2 a long, 5 a socket, 6 an
/// `int64_t`.
typedef enum {
    CURLINFO_PRIVATE = 0x100015, CURLINFO_PRIMARY_IP = 0x100020, CURLINFO_HEADER_SIZE = 0x20000b,
    CURLINFO_REQUEST_SIZE = 0x20000c, CURLINFO_HTTP_CONNECTCODE = 0x200016, CURLINFO_OS_ERRNO = 0x200019,
    CURLINFO_NUM_CONNECTS = 0x20001a, CURLINFO_PRIMARY_PORT = 0x200028, CURLINFO_LOCAL_PORT = 0x20002a,
    CURLINFO_HTTP_VERSION = 0x20002e, CURLINFO_USED_PROXY = 0x200042, CURLINFO_ACTIVESOCKET = 0x50002c,
    CURLINFO_SIZE_UPLOAD_T = 0x600007, CURLINFO_TOTAL_TIME_T = 0x600032, CURLINFO_NAMELOOKUP_TIME_T = 0x600033,
    CURLINFO_CONNECT_TIME_T = 0x600034, CURLINFO_PRETRANSFER_TIME_T = 0x600035,
    CURLINFO_STARTTRANSFER_TIME_T = 0x600036, CURLINFO_APPCONNECT_TIME_T = 0x600038,
} CURLINFO;

enum { CURL_WRITEFUNC_PAUSE = 0x10000001, CURL_READFUNC_PAUSE = 0x10000001, CURL_READFUNC_ABORT = 0x10000000 };

CURLcode curl_global_init(long flags);
curl_version_info_data *curl_version_info(int age);
const char *curl_easy_strerror(CURLcode code);

CURL *curl_easy_init(void);
void curl_easy_cleanup(CURL *handle);
CURLcode curl_easy_pause(CURL *handle, int bitmask);

CURLM *curl_multi_init(void);
CURLMcode curl_multi_cleanup(CURLM *multi);
CURLMcode curl_multi_add_handle(CURLM *multi, CURL *handle);
CURLMcode curl_multi_remove_handle(CURLM *multi, CURL *handle);
CURLMcode curl_multi_perform(CURLM *multi, int *running);
CURLMsg *curl_multi_info_read(CURLM *multi, int *remaining);

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *string);
void curl_slist_free_all(struct curl_slist *list);

CURLMcode curl_multi_socket_action(CURLM *multi, int socket, int events, int *running);
/// Works like `curl_multi_perform`, and reports the awaited events of each socket to the socket callback.
CURLMcode curl_multi_socket_all(CURLM *multi, int *running);
/// Sets `milliseconds` to the time until libcurl wants a call without an event, or to -1.
CURLMcode curl_multi_timeout(CURLM *multi, long *milliseconds);

/// Waits for libcurl's sockets, and for the signal of an eventfd, which it clears; sets `ready` to the number of
/// descriptors with events. Needs libcurl 7.66.
CURLMcode convoy_multi_poll(CURLM *multi, int wakeup, int timeout_ms, int *ready);
/// Called with the events for which a socket must be watched: CURL_POLL_IN 1, OUT 2, both 3, or 4 to remove it.
typedef int (*convoy_socket_callback)(CURL *handle, int socket, int events, void *context, void *socket_context);
CURLMcode convoy_multi_set_socket_callback(CURLM *multi, convoy_socket_callback value, void *context);

/// The first members of libcurl's own `struct curl_sockaddr`, an address to connect to.
struct convoy_address {
    int family;
    int type;
    int protocol;
};

/// The result of the first three is the number of bytes or a special value; that of `debug` and `progress` is 0.
struct convoy_callbacks {
    size_t (*header)(char *line, size_t size, size_t count, void *context);
    size_t (*write)(char *bytes, size_t size, size_t count, void *context);
    size_t (*read)(char *buffer, size_t size, size_t count, void *context);
    /// Moves to a position in the request's body: 0 done, 1 failed.
    int (*seek)(void *context, int64_t offset, int origin);
    /// Called before a request is sent: 0 continue, 1 abort.
    int (*prereq)(void *context, char *remote_ip, char *local_ip, int remote_port, int local_port);
    /// Makes a socket; -1 rejects the address.
    int (*open)(void *context, int purpose, struct convoy_address *address);
    /// Receives libcurl's informational messages (`kind` 0), and the data it sends and receives.
    int (*debug)(CURL *handle, int kind, char *text, size_t count, void *context);
    /// Called occasionally, and once more at the end.
    int (*progress)(void *context, int64_t down_total, int64_t down_now, int64_t up_total, int64_t up_now);
};
/// Sets all callbacks and their context, also as the private pointer; the result is that of `prereq`, new in 7.80.
CURLcode convoy_set_callbacks(CURL *handle, void *context, struct convoy_callbacks callbacks);
/// Sets what closes a socket: 0 done, 1 failed. The context is used as long as a connection exists that was opened
/// through the handle.
CURLcode convoy_set_close_callback(CURL *handle, int (*value)(void *context, int socket), void *context);
CURLcode convoy_set_number(CURL *handle, CURLoption option, int64_t value);
CURLcode convoy_set_pointer(CURL *handle, CURLoption option, const void *value);
CURLMcode convoy_multi_set_max_connects(CURLM *multi, long value);

/// Reads a number or a socket; 0, or -1 for a socket, if libcurl does not know it.
int64_t convoy_get_number(CURL *handle, CURLINFO info);
/// Reads a pointer, which libcurl owns; NULL if libcurl does not know it.
void *convoy_get_pointer(CURL *handle, CURLINFO info);

/// Whether the peer of the handle's TLS connection has sent a `close_notify` alert: 1 yes, 0 no, -1 without a
/// connection, or if libcurl's TLS library is not OpenSSL or compatible with it.
int convoy_has_close_notify(CURL *handle);

/// Names the calling thread for debuggers, and blocks SIGPIPE on it, from which libcurl does not protect its TLS writes
/// with CURLOPT_NOSIGNAL.
void convoy_prepare_thread(const char *name);
/// Makes `exit` wait up to five seconds for threads that are ending. Called after OpenSSL has registered its exit
/// handler, because the last handler runs first.
void convoy_watch_exit(void);
/// A thread that has used TLS calls this function before it closes its connections and ends; while the process exits,
/// it does not return. OpenSSL's exit handler frees locks that its thread destructor uses, so a thread that ends later
/// would crash.
void convoy_end_thread(void);
/// The number of bytes in a socket's send queue, not sent or not acknowledged; 0 when unknown.
int convoy_queued_bytes(int socket);
/// The number of forks between the process that first called this function and the calling process. Any thread.
int convoy_fork_count(void);

// MARK: Files: calls that Glibc's Swift module does not export

/// Synchronises a file system. Returns 1 on success; the caller then only checks each file with `convoy_disk_error`.
/// Returns 0 if the caller must synchronise each file: on file systems whose driver may not wait for all files, and
/// after any failure.
int convoy_disk_sync(int descriptor);
/// Returns whether a file system keeps its files in memory only, so that synchronising has no effect.
int convoy_disk_is_memory(int descriptor);
/// Waits for running writes of a file. Returns 0, or the error number of a failed write since it was opened.
int convoy_disk_error(int descriptor);

// MARK: Digests, with the libcrypto that libcurl uses, or else the system's

/// A hash function (RFC 1321, FIPS 180-4).
typedef enum {
    CONVOY_DIGEST_MD5,
    CONVOY_DIGEST_SHA256,
    CONVOY_DIGEST_SHA512,
    CONVOY_DIGEST_SHA512_256,
} convoy_digest_function;

enum { CONVOY_DIGEST_MAX_BYTES = 64 };

/// A digest that is being computed, on one thread at a time.
typedef struct convoy_digest convoy_digest;

/// Starts a digest; NULL if libcrypto is missing or lacks the hash function, or without memory. Any thread.
convoy_digest *convoy_digest_create(convoy_digest_function function);
void convoy_digest_destroy(convoy_digest *digest);
/// Adds bytes; `convoy_digest_finish` reports whether that succeeded.
void convoy_digest_update(convoy_digest *digest, const void *bytes, size_t count);
/// Writes the digest, at most `CONVOY_DIGEST_MAX_BYTES`, and returns its length; 0 when this or an earlier call failed.
/// Afterwards the digest can only be destroyed.
size_t convoy_digest_finish(convoy_digest *digest, uint8_t *output);

// MARK: Content codings, with the system's zlib, brotli and zstd

/// A content coding (RFC 9110, section 8.4.1; RFC 7932; RFC 8878). libcurl's own decoding is not used, because it
/// reports a truncated gzip body as a success.
typedef enum {
    CONVOY_CODING_GZIP,
    /// The zlib format of the standard, or raw deflate, which many servers send.
    CONVOY_CODING_DEFLATE,
    CONVOY_CODING_BROTLI,
    CONVOY_CODING_ZSTD,
} convoy_coding;

/// The outcome of a decoding step; all but CONVOY_DECODING_OK are final.
typedef enum {
    CONVOY_DECODING_OK,
    /// The bytes do not have this coding, or a checksum is wrong.
    CONVOY_DECODING_CORRUPT,
    /// More bytes followed the end of the encoded data.
    CONVOY_DECODING_TRAILING_BYTES,
    /// Memory allocation failed, or the stream requires more than allowed.
    CONVOY_DECODING_NO_MEMORY,
} convoy_decoding_status;

typedef struct {
    convoy_decoding_status status;
    /// The number of input bytes that are left, and of valid bytes in the output, also after an error.
    size_t left, written;
    /// Whether a call without input may write more.
    int has_output;
    /// Whether the input so far may be the complete stream, including its checksums.
    int is_complete;
    /// The library's error message in English: a constant string, or NULL.
    const char *reason;
} convoy_decoding;

/// The decoder of one coding of one body, on one thread at a time.
typedef struct convoy_decoder convoy_decoder;

/// Whether the coding's library could be loaded. Any thread.
int convoy_decoder_is_available(convoy_coding coding);
/// Makes a decoder; NULL when the coding is not available or memory is exhausted. Any thread.
convoy_decoder *convoy_decoder_create(convoy_coding coding);
void convoy_decoder_destroy(convoy_decoder *decoder);
/// Decodes until the input is consumed, the output, of at least one byte, is full, or decoding has failed.
convoy_decoding convoy_decoder_decode(
    convoy_decoder *decoder, const void *input, size_t input_count, void *output, size_t output_capacity);

/// Compresses bytes into one gzip member (RFC 1952), which depends only on the bytes and on the zlib library. Returns
/// the length of `output`, which the caller must free; 0 without the library or without memory. Any thread.
size_t convoy_gzip(const uint8_t *input, size_t input_count, uint8_t **output);

#endif
