// This file is for Linux only. On other systems it is empty, because a package builds all of its targets.
#ifdef __linux__
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // dladdr
#endif
#include "CLibcurl.h"
#include "Libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

// The variadic functions with libcurl's own signatures.
CURLcode curl_easy_setopt(CURL *handle, int option, ...);
CURLcode curl_easy_getinfo(CURL *handle, int info, ...);
CURLMcode curl_multi_setopt(CURLM *multi, int option, ...);

/// libcurl's own `struct curl_waitfd`.
typedef struct {
    int descriptor;
    short events;
    short happened;
} wait_descriptor;

// libcurl has this function since 7.66. The symbol is weak, so that a process with an older libcurl still starts.
CURLMcode curl_multi_poll(CURLM *multi, wait_descriptor *extra, unsigned int count, int timeout_ms, int *ready)
    __attribute__((weak));

CURLMcode convoy_multi_poll(CURLM *multi, int wakeup, int timeout_ms, int *ready) {
    wait_descriptor extra = {.descriptor = wakeup, .events = 1};
    CURLMcode code = curl_multi_poll(multi, &extra, wakeup >= 0, timeout_ms, ready);
    eventfd_t signals;
    if (extra.happened != 0) eventfd_read(wakeup, &signals);
    return code;
}
CURLMcode convoy_multi_set_socket_callback(CURLM *multi, convoy_socket_callback value, void *context) {
    CURLMcode code = curl_multi_setopt(multi, 10002, context);
    return code != 0 ? code : curl_multi_setopt(multi, 20001, value);
}

CURLcode convoy_set_callbacks(CURL *handle, void *context, struct convoy_callbacks callbacks) {
#define SET(data, function, value) \
    (curl_easy_setopt(handle, data, context), curl_easy_setopt(handle, function, value))
    SET(10029, 20079, callbacks.header);
    SET(10001, 20011, callbacks.write);
    SET(10009, 20012, callbacks.read);
    SET(10168, 20167, callbacks.seek);
    SET(10164, 20163, callbacks.open);
    SET(10095, 20094, callbacks.debug);
    SET(10057, 20219, callbacks.progress);
    curl_easy_setopt(handle, 10103, context);
    return SET(10313, 20312, callbacks.prereq);
}
CURLcode convoy_set_close_callback(CURL *handle, int (*value)(void *context, int socket), void *context) {
    CURLcode code = curl_easy_setopt(handle, 10209, context);
    return code != 0 ? code : curl_easy_setopt(handle, 20208, value);
}
CURLcode convoy_set_number(CURL *handle, CURLoption option, int64_t value) {
    return option < 30000 ? curl_easy_setopt(handle, option, (long)value) : curl_easy_setopt(handle, option, value);
}
CURLcode convoy_set_pointer(CURL *handle, CURLoption option, const void *value) {
    return curl_easy_setopt(handle, option, value);
}
CURLMcode convoy_multi_set_max_connects(CURLM *multi, long value) { return curl_multi_setopt(multi, 6, value); }

int64_t convoy_get_number(CURL *handle, CURLINFO info) {
    long number = 0;
    int64_t size = 0;
    int socket = -1;
    switch (info & 0xf00000) {
        case 0x200000: curl_easy_getinfo(handle, info, &number); return number;
        case 0x500000: curl_easy_getinfo(handle, info, &socket); return socket;
        default: curl_easy_getinfo(handle, info, &size); return size;
    }
}
void *convoy_get_pointer(CURL *handle, CURLINFO info) {
    void *value = NULL;
    curl_easy_getinfo(handle, info, &value);
    return value;
}

int convoy_find(void *library, const char *name, void *function) {
    void *address = library == NULL ? NULL : dlsym(library, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

void *convoy_libcurl(void) {
    Dl_info info;
    void *address = dlsym(RTLD_DEFAULT, "curl_easy_init");
    if (address == NULL || dladdr(address, &info) == 0 || info.dli_fname == NULL) return NULL;
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}

/// libcurl's own `struct curl_tlssessioninfo`.
typedef struct {
    int backend;
    void *internals;
} tls_session;

enum { INFO_TLS_SSL_PTR = 0x400000 + 45, BACKEND_OPENSSL = 1, SSL_RECEIVED_SHUTDOWN = 2 };

static int (*ssl_get_shutdown)(const void *ssl);
static pthread_once_t ssl_search = PTHREAD_ONCE_INIT;
// The search starts at libcurl, because another OpenSSL in the process may have other structures.
static void find_ssl(void) { convoy_find(convoy_libcurl(), "SSL_get_shutdown", &ssl_get_shutdown); }

int convoy_has_close_notify(CURL *handle) {
    pthread_once(&ssl_search, find_ssl);
    tls_session *session = NULL;
    if (ssl_get_shutdown == NULL || curl_easy_getinfo(handle, INFO_TLS_SSL_PTR, &session) != 0) return -1;
    if (session == NULL || session->backend != BACKEND_OPENSSL || session->internals == NULL) return -1;
    return (ssl_get_shutdown(session->internals) & SSL_RECEIVED_SHUTDOWN) != 0;
}

int convoy_queued_bytes(int socket) {
    int count = 0;
    return socket >= 0 && ioctl(socket, TIOCOUTQ, &count) == 0 ? count : 0;
}

static pthread_mutex_t exit_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t thread_has_ended;
static int ending_threads;
static bool is_exiting;
static pthread_key_t ending_key;
static bool has_ending_key;
static pthread_once_t exit_watch = PTHREAD_ONCE_INIT;

// At the end of a thread, the system calls the destructors of all thread-specific keys. It repeats the calls for keys
// that have a value again, in up to four passes. OpenSSL's destructor runs in the first pass, so it has returned by the
// third.
static void count_pass(void *passes) {
    if ((intptr_t)passes < 3) {
        pthread_setspecific(ending_key, (void *)((intptr_t)passes + 1));
        return;
    }
    pthread_mutex_lock(&exit_lock);
    ending_threads -= 1;
    pthread_cond_broadcast(&thread_has_ended);
    pthread_mutex_unlock(&exit_lock);
}

static void await_ending_threads(void) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += 5;
    pthread_mutex_lock(&exit_lock);
    is_exiting = true;
    while (ending_threads > 0 && pthread_cond_timedwait(&thread_has_ended, &exit_lock, &end) == 0) continue;
    pthread_mutex_unlock(&exit_lock);
}

static void watch_exit(void) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    // The calendar may be set back during the wait.
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&thread_has_ended, &attributes);
    pthread_condattr_destroy(&attributes);
    has_ending_key = pthread_key_create(&ending_key, count_pass) == 0 && atexit(await_ending_threads) == 0;
}
void convoy_watch_exit(void) { pthread_once(&exit_watch, watch_exit); }

void convoy_end_thread(void) {
    if (!has_ending_key) return;
    pthread_mutex_lock(&exit_lock);
    bool stays = is_exiting;
    if (!stays && pthread_setspecific(ending_key, (void *)1) == 0) ending_threads += 1;
    pthread_mutex_unlock(&exit_lock);
    while (stays) pause();
}

static int fork_count;
static pthread_once_t fork_watch = PTHREAD_ONCE_INIT;
// Runs in the child, which has only one thread.
static void count_fork(void) {
    fork_count += 1;
    ending_threads = 0;
    pthread_mutex_init(&exit_lock, NULL);
    pthread_cond_init(&thread_has_ended, NULL);
}
static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }
int convoy_fork_count(void) {
    pthread_once(&fork_watch, watch_forks);
    return fork_count;
}

void convoy_prepare_thread(const char *name) {
    prctl(PR_SET_NAME, name);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}
#endif
