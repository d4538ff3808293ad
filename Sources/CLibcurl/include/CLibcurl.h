// The part of libcurl that Convoy uses, declared by hand: the system's library is enough, its headers are not needed.
//
// Names, values and layouts are libcurl's own; they are part of its stable binary interface (https://curl.se/libcurl/abi.html).
// What is variadic there has a function for each kind of argument here, because Swift cannot call variadic C functions.
#ifndef CLIBCURL_H
#define CLIBCURL_H

#include <stddef.h>
#include <stdint.h>

/// An easy handle: one transfer at a time.
typedef struct convoy_curl CURL;
/// A multi handle: the transfers of one engine and their connections.
typedef struct convoy_curlm CURLM;

/// What a transfer ended with; 0 is a success.
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

/// The beginning of what `curl_version_info` returns; it only ever grows at its end.
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
/// As `curl_multi_perform`, and says of each socket what it waits for.
CURLMcode curl_multi_socket_all(CURLM *multi, int *running);
/// `milliseconds` becomes the time until libcurl wants a call without an event, or -1.
CURLMcode curl_multi_timeout(CURLM *multi, long *milliseconds);

// In every libcurl that is new enough; checked before it is called, so that an older one can be told about.
/// Waits for libcurl's sockets, and for the signal of an eventfd, which it undoes. `ready` becomes the number of descriptors
/// on which something has happened.
CURLMcode convoy_multi_poll(CURLM *multi, int wakeup, int timeout_ms, int *ready);
/// Whether this libcurl has the one above.
int convoy_has_poll(void);
/// Told what a socket is to be watched for: CURL_POLL_IN 1, OUT 2, both 3, or, when nothing, 4.
typedef int (*convoy_socket_callback)(CURL *handle, int socket, int events, void *context, void *socket_context);
CURLMcode convoy_multi_set_socket_callback(CURLM *multi, convoy_socket_callback value, void *context);

/// Receives or gives body bytes, or receives a header line; the result is the count, or one of the values below.
typedef size_t (*convoy_data_callback)(char *buffer, size_t size, size_t count, void *context);
/// Goes to a place of the request's body: 0 done, 1 failed.
typedef int (*convoy_seek_callback)(void *context, int64_t offset, int origin);
/// Asked before a request is sent: 0 go on, 1 abort.
typedef int (*convoy_prereq_callback)(
    void *context, char *remote_ip, char *local_ip, int remote_port, int local_port);
/// Told now and then how many bytes have moved, and once more at the end: 0 go on.
typedef int (*convoy_progress_callback)(
    void *context, int64_t down_total, int64_t down_now, int64_t up_total, int64_t up_now);

/// The beginning of an address that is about to be connected to.
struct convoy_address {
    int family;
    int type;
    int protocol;
};
/// Makes a socket; -1 refuses.
typedef int (*convoy_open_callback)(void *context, int purpose, struct convoy_address *address);
/// Closes a socket: 0 done, 1 failed.
typedef int (*convoy_close_callback)(void *context, int socket);
/// Hears what libcurl says in passing, `kind` 0, and what it sends and receives.
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
/// The context is asked for as long as there is a connection that was opened through the handle.
CURLcode convoy_set_close_callback(CURL *handle, convoy_close_callback value, void *context);
CURLcode convoy_set_debug_callback(CURL *handle, convoy_debug_callback value);
CURLcode convoy_set_progress_callback(CURL *handle, convoy_progress_callback value);

CURLcode convoy_get_long(CURL *handle, int info, long *value);
CURLcode convoy_get_int64(CURL *handle, int info, int64_t *value);
CURLcode convoy_get_string(CURL *handle, int info, const char **value);
CURLcode convoy_get_socket(CURL *handle, int info, int *value);
CURLcode convoy_get_pointer(CURL *handle, int info, void **value);

/// Whether the peer of the handle's TLS connection has said that nothing follows: 1 yes, 0 no, -1 cannot be told, because
/// there is no connection now, or libcurl's TLS library is not OpenSSL's kind.
int convoy_has_close_notify(CURL *handle);

CURLMcode convoy_multi_set_long(CURLM *multi, int option, long value);

/// Names the calling thread, for debuggers, and blocks SIGPIPE on it: libcurl does not guard its TLS writes when signals
/// are off.
void convoy_prepare_thread(const char *name);
/// Has `exit` wait, up to five seconds, for threads that are ending; called once OpenSSL has its own exit handler, because
/// the last handler runs first.
void convoy_watch_exit(void);
/// Called by a thread that has used TLS before it closes its connections and ends; does not return while the process exits.
///
/// OpenSSL's exit handler takes away locks that its destructor of a thread uses: a thread that ends then crashes.
void convoy_end_thread(void);
/// How many bytes of a socket the system has not sent; 0 when that is not known.
int convoy_queued_bytes(int socket);
/// How often this process has been forked off another since the library was first asked; from any thread.
int convoy_fork_count(void);

#include "Decoding.h"
#include "Digesting.h"
#include "Disk.h"
#include "Encoding.h"
#include "Waiting.h"

#endif
