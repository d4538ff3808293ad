// The server of .ci/cost: answers every GET with the same 1 KiB, in one write, over connections that stay open.
//
// Prints its port on 127.0.0.1 and ends when standard input ends. One write per response keeps the client's cost per request
// constant, so .ci/cost can compare counts.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LISTENER = 0, INPUT = 1, FIRST = 2, PLACES = 66, BODY = 1024 };

static char answer[BODY + 256];
static size_t answer_size;
static struct pollfd places[PLACES];
static int matched[PLACES];  // how much of the end of a request's head each connection has sent

static void drop(int place) {
    close(places[place].fd);
    places[place].fd = -1;
}

static void accept_one(void) {
    int connection = accept4(places[LISTENER].fd, NULL, NULL, SOCK_CLOEXEC), one = 1;
    if (connection < 0) return;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (int place = FIRST; place < PLACES; place++) {
        if (places[place].fd >= 0) continue;
        places[place] = (struct pollfd){.fd = connection, .events = POLLIN};
        matched[place] = 0;
        return;
    }
    close(connection);
}

// A request is its head: one with a body would be read as two.
static void serve(int place) {
    static const char end[] = "\r\n\r\n";
    char bytes[16384];
    ssize_t size = recv(places[place].fd, bytes, sizeof bytes, 0);
    if (size < 0 && errno == EINTR) return;
    if (size <= 0) return drop(place);
    for (ssize_t index = 0; index < size; index++) {
        matched[place] = bytes[index] == end[matched[place]] ? matched[place] + 1 : bytes[index] == '\r';
        if (matched[place] < 4) continue;
        matched[place] = 0;
        if (send(places[place].fd, answer, answer_size, MSG_NOSIGNAL) != (ssize_t)answer_size) return drop(place);
    }
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, PLACES) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        perror("cost-server");
        return 1;
    }
    answer_size = (size_t)snprintf(
        answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", BODY);
    memset(answer + answer_size, 'x', BODY);
    answer_size += BODY;
    for (int place = FIRST; place < PLACES; place++) places[place].fd = -1;
    places[LISTENER] = (struct pollfd){.fd = listener, .events = POLLIN};
    places[INPUT] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        if (poll(places, PLACES, -1) < 0) {
            if (errno == EINTR) continue;
            return 1;
        }
        char byte;
        if (places[INPUT].revents && read(STDIN_FILENO, &byte, 1) <= 0) return 0;
        for (int place = FIRST; place < PLACES; place++)
            if (places[place].fd >= 0 && places[place].revents) serve(place);
        if (places[LISTENER].revents) accept_one();
    }
}
