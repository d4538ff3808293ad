// The part of libcurl that Convoy uses, declared by hand. The system's library suffices; its headers are not needed.
//
// Names, values and layouts are libcurl's own. They are part of its stable binary interface
// (https://curl.se/libcurl/abi.html). Each variadic function has one function here for each kind of argument, because
// Swift cannot call variadic C functions.
#ifndef CLIBCURL_H
#define CLIBCURL_H

#include <stddef.h>
#include <stdint.h>

/// An easy handle: one transfer at a time.
typedef struct convoy_curl CURL;
/// A multi handle: the transfers of one engine and their connections.
typedef struct convoy_curlm CURLM;

/// The result of a transfer; 0 is a success.
typedef int CURLcode;
typedef int CURLMcode;

/// A message of `curl_multi_info_read`.
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

// Every supported libcurl has `curl_multi_poll`. `convoy_has_poll` is checked before the first call, to report an older
// libcurl.
/// Waits for libcurl's sockets, and for the signal of an eventfd, which it clears.
///
/// Sets `ready` to the number of descriptors with events.
CURLMcode convoy_multi_poll(CURLM *multi, int wakeup, int timeout_ms, int *ready);
/// Whether the loaded libcurl has the function that `convoy_multi_poll` calls.
int convoy_has_poll(void);
/// Called with the events for which a socket must be watched: CURL_POLL_IN 1, OUT 2, both 3, or 4 to remove it.
typedef int (*convoy_socket_callback)(CURL *handle, int socket, int events, void *context, void *socket_context);
CURLMcode convoy_multi_set_socket_callback(CURLM *multi, convoy_socket_callback value, void *context);

/// Receives or provides body bytes, or receives a header line.
///
/// The result is the number of bytes, or a special value of libcurl such as CURL_WRITEFUNC_PAUSE.
typedef size_t (*convoy_data_callback)(char *buffer, size_t size, size_t count, void *context);
/// Moves to a position in the request's body: 0 done, 1 failed.
typedef int (*convoy_seek_callback)(void *context, int64_t offset, int origin);
/// Called before a request is sent: 0 continue, 1 abort.
typedef int (*convoy_prereq_callback)(
    void *context, char *remote_ip, char *local_ip, int remote_port, int local_port);
/// Called occasionally with the number of bytes moved, and once more at the end: 0 continue.
typedef int (*convoy_progress_callback)(
    void *context, int64_t down_total, int64_t down_now, int64_t up_total, int64_t up_now);

/// The first members of libcurl's own `struct curl_sockaddr`, an address to connect to.
struct convoy_address {
    int family;
    int type;
    int protocol;
};
/// Makes a socket; -1 rejects the address.
typedef int (*convoy_open_callback)(void *context, int purpose, struct convoy_address *address);
/// Closes a socket: 0 done, 1 failed.
typedef int (*convoy_close_callback)(void *context, int socket);
/// Receives libcurl's informational messages (`kind` 0), and the data it sends and receives.
typedef int (*convoy_debug_callback)(CURL *handle, int kind, char *text, size_t count, void *context);

CURLcode convoy_set_long(CURL *handle, int option, long value);
CURLcode convoy_set_int64(CURL *handle, int option, int64_t value);
CURLcode convoy_set_string(CURL *handle, int option, const char *value);
CURLcode convoy_set_pointer(CURL *handle, int option, void *value);
CURLcode convoy_set_list(CURL *handle, int option, struct curl_slist *value);
CURLcode convoy_set_data_callback(CURL *handle, int option, convoy_data_callback value);
CURLcode convoy_set_seek_callback(CURL *handle, convoy_seek_callback value);
CURLcode convoy_set_prereq_callback(CURL *handle, convoy_prereq_callback value);
CURLcode convoy_set_open_callback(CURL *handle, convoy_open_callback value);
/// The context is used as long as a connection exists that was opened through the handle.
CURLcode convoy_set_close_callback(CURL *handle, convoy_close_callback value, void *context);
CURLcode convoy_set_debug_callback(CURL *handle, convoy_debug_callback value);
CURLcode convoy_set_progress_callback(CURL *handle, convoy_progress_callback value);

CURLcode convoy_get_long(CURL *handle, int info, long *value);
CURLcode convoy_get_int64(CURL *handle, int info, int64_t *value);
CURLcode convoy_get_socket(CURL *handle, int info, int *value);
CURLcode convoy_get_pointer(CURL *handle, int info, void **value);

/// The measurements of a transfer. The times are microseconds since its start.
struct convoy_measurements {
    /// How many connections the transfer opened.
    long connections;
    /// CURL_HTTP_VERSION_1_0 is 1, _1_1 2, _2 3 and _3 30.
    long version;
    /// The numeric address of the peer, which libcurl owns.
    const char *address;
    long port;
    long header_bytes;
    long request_bytes;
    int64_t name_lookup;
    int64_t connect;
    int64_t secure_connect;
    int64_t first_byte;
    int64_t total;
};
/// Reads the measurements. A value that libcurl does not have is 0. If the transfer opened no connection,
/// `name_lookup`, `connect` and `secure_connect` are 0.
void convoy_measure(CURL *handle, struct convoy_measurements *found);

/// Whether the peer of the handle's TLS connection has sent a `close_notify` alert: 1 yes, 0 no, -1 unknown.
///
/// The state is unknown without a connection, or if libcurl's TLS library is not OpenSSL or compatible with it.
int convoy_has_close_notify(CURL *handle);

CURLMcode convoy_multi_set_long(CURLM *multi, int option, long value);

/// Names the calling thread for debuggers, and blocks SIGPIPE on it.
///
/// With CURLOPT_NOSIGNAL, libcurl does not protect its TLS writes from SIGPIPE.
void convoy_prepare_thread(const char *name);
/// Makes `exit` wait up to five seconds for threads that are ending.
///
/// Call this function after OpenSSL has registered its exit handler, because the last handler runs first.
void convoy_watch_exit(void);
/// A thread that has used TLS calls this function before it closes its connections and ends.
///
/// The function does not return while the process exits.
///
/// OpenSSL's exit handler frees locks that its thread destructor uses, so a thread that ends later would crash.
void convoy_end_thread(void);
/// The number of bytes in a socket's send queue, not sent or not acknowledged; 0 when unknown.
int convoy_queued_bytes(int socket);
/// The number of forks between the process that first called this function and the calling process.
///
/// Any thread.
int convoy_fork_count(void);

#include "Decoding.h"
#include "Digesting.h"
#include "Disk.h"
#include "Encoding.h"
#include "Waiting.h"

#endif
