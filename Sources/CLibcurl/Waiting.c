// Waits for many sockets: an epoll, and an eventfd that wakes it.
#ifdef __linux__
#include "Waiting.h"

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

int convoy_make_poller(void) { return epoll_create1(EPOLL_CLOEXEC); }
int convoy_make_wakeup(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

void convoy_signal(int wakeup) {
    uint64_t one = 1;
    // This fails when the counter is full. A signal is already pending then.
    if (write(wakeup, &one, sizeof one) < 0) return;
}

void convoy_unsignal(int wakeup) {
    uint64_t count;
    if (read(wakeup, &count, sizeof count) < 0) return;
}

int convoy_watch_wakeup(int poller, int wakeup) {
    // The eventfd is edge-triggered, so that its counter need not be read after each signal.
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = wakeup};
    return epoll_ctl(poller, EPOLL_CTL_ADD, wakeup, &event);
}

int convoy_watch(int poller, int socket, int old, int events) {
    struct epoll_event event = {.data.fd = socket};
    if (events & CONVOY_READABLE) event.events |= EPOLLIN;
    if (events & CONVOY_WRITABLE) event.events |= EPOLLOUT;
    int operation = events == 0 ? EPOLL_CTL_DEL : old == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    return epoll_ctl(poller, operation, socket, &event);
}

int convoy_wait(int poller, struct convoy_event *events, int count, int timeout_ms) {
    struct epoll_event found[CONVOY_MOST_EVENTS];
    int number = epoll_wait(poller, found, count < CONVOY_MOST_EVENTS ? count : CONVOY_MOST_EVENTS, timeout_ms);
    if (number < 0) return errno == EINTR ? 0 : -1;
    for (int index = 0; index < number; index++) {
        uint32_t what = found[index].events;
        events[index].socket = found[index].data.fd;
        events[index].events = ((what & ~(uint32_t)EPOLLOUT) ? CONVOY_READABLE : 0) |
                               ((what & ~(uint32_t)EPOLLIN) ? CONVOY_WRITABLE : 0);
    }
    return number;
}
#endif
