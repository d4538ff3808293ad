// For Linux only. Elsewhere the target is empty, because SwiftPM builds every target of a package.
#ifdef __linux__
#include "CCurlLoop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The part of libcurl that is used, declared by hand: names, values and layouts are part of its stable binary interface.
typedef void CURL;
typedef void CURLM;
typedef struct {
    int msg;
    CURL *easy_handle;
    union {
        void *whatever;
        int result;
    } data;
} CURLMsg;

int curl_global_init(long flags);
const char *curl_easy_strerror(int code);
CURL *curl_easy_init(void);
int curl_easy_setopt(CURL *handle, int option, ...);
int curl_easy_getinfo(CURL *handle, int info, ...);
void curl_easy_cleanup(CURL *handle);
CURLM *curl_multi_init(void);
int curl_multi_add_handle(CURLM *multi, CURL *handle);
int curl_multi_remove_handle(CURLM *multi, CURL *handle);
int curl_multi_perform(CURLM *multi, int *running);
int curl_multi_poll(CURLM *multi, void *extra, unsigned int count, int timeout_ms, int *ready);
CURLMsg *curl_multi_info_read(CURLM *multi, int *remaining);
int curl_multi_cleanup(CURLM *multi);
const char *curl_multi_strerror(int code);

enum {
    GLOBAL_ALL = 3,
    MESSAGE_DONE = 1,
    OPTION_WRITE_DATA = 10001,
    OPTION_URL = 10002,
    OPTION_CAINFO = 10065,
    OPTION_PRIVATE = 10103,
    OPTION_WRITE_FUNCTION = 20011,
    OPTION_HTTP_VERSION = 84,
    HTTP_VERSION_1_1 = 2,
    HTTP_VERSION_2_TLS = 4,
    OPTION_NO_SIGNAL = 99,
    OPTION_TIMEOUT_MS = 155,
    OPTION_PIPEWAIT = 237,
    INFO_PRIVATE = 0x100015,
    INFO_RESPONSE_CODE = 0x200002,
};

/// One easy handle and the received bytes of its current response.
typedef struct {
    CURL *handle;
    long long received;
} transfer;

struct convoy_bench_loop {
    CURLM *multi;
    char *url;
    int concurrency;
    transfer transfers[];
};

static size_t receive(char *bytes, size_t size, size_t count, void *context) {
    (void)bytes;
    ((transfer *)context)->received += (long long)(size * count);
    return size * count;
}

convoy_bench_loop *convoy_bench_loop_make(const char *url, int concurrency, const char *cacert, int http2) {
    if (concurrency < 1 || curl_global_init(GLOBAL_ALL) != 0) return NULL;
    convoy_bench_loop *loop = calloc(1, sizeof *loop + (size_t)concurrency * sizeof(transfer));
    if (!loop) return NULL;
    loop->multi = curl_multi_init();
    loop->url = strdup(url);
    int made = 0;
    for (; made < concurrency && (loop->transfers[made].handle = curl_easy_init()) != NULL; made++) {
        CURL *handle = loop->transfers[made].handle;
        curl_easy_setopt(handle, OPTION_WRITE_FUNCTION, receive);
        curl_easy_setopt(handle, OPTION_WRITE_DATA, &loop->transfers[made]);
        curl_easy_setopt(handle, OPTION_PRIVATE, &loop->transfers[made]);
        curl_easy_setopt(handle, OPTION_NO_SIGNAL, 1L);
        curl_easy_setopt(handle, OPTION_TIMEOUT_MS, 60000L);
        if (cacert) curl_easy_setopt(handle, OPTION_CAINFO, cacert);
        curl_easy_setopt(handle, OPTION_HTTP_VERSION, (long)(http2 ? HTTP_VERSION_2_TLS : HTTP_VERSION_1_1));
        // The first requests wait for one connection, which they share.
        curl_easy_setopt(handle, OPTION_PIPEWAIT, (long)http2);
    }
    loop->concurrency = made;
    if (loop->multi && loop->url && made == concurrency) return loop;
    convoy_bench_loop_free(loop);
    return NULL;
}

// Sets the URL for every request, as a program with different URLs does.
static int start(convoy_bench_loop *loop, transfer *one) {
    one->received = 0;
    curl_easy_setopt(one->handle, OPTION_URL, loop->url);
    return curl_multi_add_handle(loop->multi, one->handle);
}

// Returns whether a response is correct. If `error` is empty, writes the defect of the response to it.
static int is_right(const transfer *one, int code, long long body_bytes, char *error, size_t error_size) {
    long status = 0;
    curl_easy_getinfo(one->handle, INFO_RESPONSE_CODE, &status);
    if (code == 0 && status == 200 && one->received == body_bytes) return 1;
    if (error[0] != '\0') return 0;
    if (code != 0) snprintf(error, error_size, "%s", curl_easy_strerror(code));
    else if (status != 200) snprintf(error, error_size, "the server answered %ld", status);
    else snprintf(error, error_size, "the body had %lld bytes instead of %lld", one->received, body_bytes);
    return 0;
}

long convoy_bench_loop_send(
    convoy_bench_loop *loop, long count, long long body_bytes, char *error, size_t error_size) {
    long started = 0, ended = 0, failed = 0;
    int code = 0;
    error[0] = '\0';
    for (int index = 0; index < loop->concurrency && started < count && code == 0; index++, started++)
        code = start(loop, &loop->transfers[index]);
    while (ended < count && code == 0) {
        int running = 0, remaining = 0, has_started = 0;
        code = curl_multi_perform(loop->multi, &running);
        CURLMsg *message;
        while (code == 0 && (message = curl_multi_info_read(loop->multi, &remaining)) != NULL) {
            if (message->msg != MESSAGE_DONE) continue;
            // Removing the handle invalidates the message, so its fields are read first.
            CURL *handle = message->easy_handle;
            int result = message->data.result;
            transfer *one = NULL;
            curl_easy_getinfo(handle, INFO_PRIVATE, &one);
            failed += !is_right(one, result, body_bytes, error, error_size);
            ended++;
            curl_multi_remove_handle(loop->multi, handle);
            if (started == count) continue;
            started++;
            has_started = 1;
            code = start(loop, one);
        }
        if (code == 0 && ended < count && !has_started)
            code = curl_multi_poll(loop->multi, NULL, 0, 1000, NULL);
    }
    if (code == 0) return failed;
    if (error[0] == '\0') snprintf(error, error_size, "%s", curl_multi_strerror(code));
    return failed + count - ended;
}

void convoy_bench_loop_free(convoy_bench_loop *loop) {
    for (int index = 0; index < loop->concurrency; index++) {
        if (loop->multi) curl_multi_remove_handle(loop->multi, loop->transfers[index].handle);
        curl_easy_cleanup(loop->transfers[index].handle);
    }
    if (loop->multi) curl_multi_cleanup(loop->multi);
    free(loop->url);
    free(loop);
}
#endif
