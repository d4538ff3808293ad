// How a thread waits for many sockets: an epoll, and an eventfd that wakes it.
#ifndef CONVOY_WAITING_H
#define CONVOY_WAITING_H

/// What a socket is watched for, or has become: libcurl's own CURL_POLL_IN and CURL_POLL_OUT.
enum { CONVOY_READABLE = 1, CONVOY_WRITABLE = 2 };

/// A socket on which something has happened; both when it has failed.
struct convoy_event {
    int socket;
    int events;
};

/// How many events one wait takes in at most.
enum { CONVOY_MOST_EVENTS = 256 };

/// The descriptor of an epoll; -1 and `errno` when there is none.
int convoy_make_poller(void);
/// The descriptor of an eventfd; -1 and `errno` when there is none.
int convoy_make_wakeup(void);
/// Has every wait for an eventfd return; from any thread.
void convoy_signal(int wakeup);
/// Undoes all signals.
void convoy_unsignal(int wakeup);
/// Has a poller report each signal of an eventfd once; 0, or -1 and `errno`.
int convoy_watch_wakeup(int poller, int wakeup);
/// Watches a socket for `events` that was watched for `old` ones; 0, or -1 and `errno`.
int convoy_watch(int poller, int socket, int old, int events);
/// Waits until something happens on a socket: how many events there are, 0 when a signal interrupts it, -1 and `errno`.
int convoy_wait(int poller, struct convoy_event *events, int count, int timeout_ms);

#endif
