// Waits for many sockets: an epoll, and an eventfd that wakes it.
#ifndef CONVOY_WAITING_H
#define CONVOY_WAITING_H

/// The watched or reported events of a socket: libcurl's own CURL_POLL_IN and CURL_POLL_OUT.
enum { CONVOY_READABLE = 1, CONVOY_WRITABLE = 2 };

/// An event of a socket.
///
/// After a failure of the socket, both bits are set.
struct convoy_event {
    int socket;
    int events;
};

/// The maximum number of events of one wait.
enum { CONVOY_MOST_EVENTS = 256 };

/// Makes an epoll descriptor; -1 and `errno` after a failure.
int convoy_make_poller(void);
/// Makes an eventfd descriptor; -1 and `errno` after a failure.
int convoy_make_wakeup(void);
/// Makes every wait for an eventfd return.
///
/// Any thread.
void convoy_signal(int wakeup);
/// Clears all signals of an eventfd.
void convoy_unsignal(int wakeup);
/// Makes a poller report each signal of an eventfd once; 0, or -1 and `errno`.
int convoy_watch_wakeup(int poller, int wakeup);
/// Watches a socket for `events` instead of `old`; 0, or -1 and `errno`.
int convoy_watch(int poller, int socket, int old, int events);
/// Waits for events of sockets.
///
/// Returns the number of events, 0 after the timeout or a POSIX signal, or -1 and `errno`.
int convoy_wait(int poller, struct convoy_event *events, int count, int timeout_ms);

#endif
